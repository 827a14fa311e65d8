"""Checks that a traced function leaves the parameters and attributes of its model as they are."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from tensorgrad.errors import ParameterError
from tensorgrad.nn.module import Module, declarations, entries, is_container, walk
from tensorgrad.nn.weights import is_leaf
from tensorgrad.tracing.tensor import Traced


def check_bound(bound: Module, where: str) -> None:
    """Checks that the parameters and buffers of a bound tree are still where they were bound.

    Raises:
        ParameterError: The traced function has replaced, moved, added or removed one.
    """
    assert bound._binding is not None
    origin, values = bound._opened()
    assert values is not None
    expected = {path: values.get(id(declared), declared) for path, declared in declarations(origin).items()}
    ids = {id(value) for value in values.values()}
    actual = dict(walk(bound, lambda value: is_leaf(value) or id(value) in ids))
    check_same(expected, actual, where)


def check_attributes(bound: Module, where: str) -> None:
    """Checks that no tensor or number was assigned to an attribute of the declared module.

    It would be lost with the copy, although the code looks as if it were kept from step to step.

    Raises:
        ParameterError: One was; names the attributes.
    """

    assert bound._binding is not None
    origin, values = bound._opened()
    assert values is not None
    declared = {id(value) for value in values.values()}
    lost: list[str] = []
    seen: set[int] = set()

    def visit(path: str, node: Any, origin: Any) -> None:
        if id(node) in seen or not is_container(node) or type(node) is not type(origin):
            return
        seen.add(id(node))
        before = dict(entries(origin))
        for name, value in entries(node):
            there = f"{path}.{name}" if path else name
            is_new = name in before and value is not before[name] and id(value) not in declared
            if is_new and isinstance(node, Module) and isinstance(value, Traced | numbers.Number):
                lost.append(there)
            elif name in before:
                visit(there, value, before[name])

    visit("", bound, origin)
    if lost:
        raise ParameterError(
            f"{where} sets {', '.join(lost)} of the copy that it is given, where it is lost: tg.nn.buffer and assign "
            "keep a value from step to step, and tg.capture shows one"
        )


def check_same(expected: Mapping[str, object], actual: Mapping[str, object], where: str) -> None:
    """Checks that two trees have the same parameters at the same paths.

    Raises:
        ParameterError: They don't; lists the paths.
    """
    changes = {
        "added": [path for path in actual if path not in expected],
        "removed": [path for path in expected if path not in actual],
        "replaced": [path for path in expected if path in actual and actual[path] is not expected[path]],
    }
    if any(changes.values()):
        listed = "; ".join(f"{kind} {', '.join(paths)}" for kind, paths in changes.items() if paths)
        raise ParameterError(f"{where}: {listed}")
