"""The examples in docstrings run, and print the output shown; each public name has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import linecache
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.tools.reference import public_objects

NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|\binf\b|\bnan\b)")


class Checker(doctest.OutputChecker):
    """Compares what was printed: NumPy's functions round differently on other machines, in a float's last digits."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        texts = [re.sub(r"\s+", "", NUMBER.sub("#", text)) for text in (want, got)]
        if texts[0] != texts[1]:
            return False
        expected, printed = ([float(number) for number in NUMBER.findall(text)] for text in (want, got))
        return np.allclose(printed, expected, rtol=1e-5, atol=1e-7, equal_nan=True)


def examples() -> Iterator[doctest.DocTest]:
    """Yields all docstrings with a prompt, of every module of the project; `tg` and `np` are known to them.

    Chapters are notebooks, without docstrings; importing them takes long here, since marimo reads the whole stack.
    """
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(tg.__path__, "tensorgrad."):
        if module.name.startswith("tensorgrad.lab.chapters."):
            continue
        for example in finder.find(importlib.import_module(module.name), extraglobs={"tg": tg, "np": np}):
            if example.examples:
                yield example


EXAMPLES = list({example.docstring: example for example in examples()}.values())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.removeprefix("tensorgrad."))
def test_example(example: doctest.DocTest) -> None:
    linecache.clearcache()  # otherwise the runner's debugger looks for changes of every file that a test has read
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output: list[str] = []
    assert runner.run(example, out=output.append).failed == 0, "".join(output)


def test_numbers_may_differ_in_their_last_digits_only() -> None:
    shown = "Array([0.69314718, 1.], dtype=f32)\n"
    assert Checker().check_output(shown, "Array([0.6931471, 1.       ], dtype=f32)\n", 0)
    assert not Checker().check_output(shown, "Array([0.6932, 1.], dtype=f32)\n", 0)
    assert not Checker().check_output(shown, "Array([0.69314718, 1.], dtype=f64)\n", 0)
    assert not Checker().check_output(shown, "Array([0.69314718], dtype=f32)\n", 0)


WITHOUT = {
    "tensorgrad.DeviceName": "a type, whose values docs/reference/tg/devices.md lists",
    "tensorgrad.from_jax": "needs JAX, which only the night's tests have",
    "tensorgrad.initializers.Initializer": "a type, of the functions in its module, which have examples",
    "tensorgrad.random.Key": "a type, of the keys in the examples of its module",
}
"""Public names without an example, and why."""


def has_example(value: Any) -> bool:
    """Returns whether the documentation of a public function or class has an example, at itself or its constructor."""
    owner: Any = inspect.unwrap(value)
    texts = [owner.__doc__, owner.__init__.__doc__] if inspect.isclass(owner) else [owner.__doc__]
    return any(text and ">>> " in text for text in texts)


def test_every_public_name_has_an_example() -> None:
    """Errors have theirs in docs/reference/errors.md, with messages; dtypes and other values have no docstring."""
    objects = public_objects()
    callables = {name: value for name, value in objects.items() if inspect.isroutine(value) or inspect.isclass(value)}
    errors = {name for name in callables if name.startswith("tensorgrad.errors.")}
    missing = {name for name, value in callables.items() if not has_example(value)} - errors
    assert len(callables) > 600 and missing <= WITHOUT.keys(), sorted(missing - WITHOUT.keys())
    assert WITHOUT.keys() <= objects.keys()
