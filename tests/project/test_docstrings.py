"""The examples in docstrings run, and print the output shown."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest


def examples() -> Iterator[doctest.DocTest]:
    """Returns all docstrings with a prompt, of every module of the project."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for package in (
        "tensorgrad",
        *(f"tensorgrad.{name}" for name in ("dialects", "passes", "interpreters", "checks", "runtime", "tools")),
    ):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            for found in finder.find(importlib.import_module(module.name)):
                if found.examples:
                    yield found


EXAMPLES = list({example.name: example for example in examples()}.values())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name.removeprefix("tensorgrad."))
def test_example(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output: list[str] = []
    assert runner.run(example, out=output.append).failed == 0, "".join(output)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 4
