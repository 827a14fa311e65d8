"""Schemas: what annotations of dataclasses read, write and refuse, and how an error names the place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

import pytest

from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.schema import (
    Finite,
    Name,
    Positive,
    Rule,
    SchemaError,
    Whole,
    check,
    one_of,
    read,
    tagged,
    write,
)


def even(value: int) -> bool:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return True


@dataclass(frozen=True)
class Leaf:
    name: Name
    count: Annotated[int, Rule("an even integer", even)] | None = None


@dataclass(frozen=True)
class Branch:
    nodes: tuple[Node, ...]
    sizes: tuple[Positive, Positive] = (1, 1)


Node: TypeAlias = Annotated[Leaf | Branch, tagged("kind", leaf=Leaf, branch=Branch)]


@dataclass(frozen=True)
class Root:
    root: Node
    first: Leaf | None = None
    access: Annotated[str, one_of("read", "read_write")] = "read"
    numbers: Mapping[str, Finite] = field(default_factory=dict[str, float])
    anything: Mapping[str, Any] = field(default_factory=dict[str, Any])
    start: Whole = 0
    tree: str | dict[str, Any] | None = None
    is_on: bool = False


TREE = Root(Branch((Leaf("a", 2), Branch((Leaf("b"),), (3, 4)))), Leaf("c"), numbers={"x": 1, "y": 0.5}, tree={"a": []})


def test_what_is_written_is_read() -> None:
    text = json.dumps(write(TREE))
    assert text.startswith('{"root": {"kind": "branch", "nodes": [{"kind": "leaf", "name": "a", "count": 2}, ')
    assert read(Root, json.loads(text)) == TREE
    assert read(Root, {"root": {"kind": "leaf", "name": "a"}}) == Root(Leaf("a"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"access": "write"}, "access: expected read or read_write, got 'write'"),
        ({"numbers": {"x": float("nan")}}, "x: expected a finite number, got nan"),
        ({"numbers": {"x": 10**400}}, "numbers, x: expected a finite number, got 1000"),
        ({"numbers": {"x": True}}, "numbers, x: expected a finite number, got True"),
        ({"numbers": []}, r"numbers: expected an object, got \[\]"),
        ({"start": -1}, "start: expected an integer from 0, got -1"),
        ({"start": 1.0}, r"start: expected an integer from 0, got 1\.0"),
        ({"is_on": 1}, "is_on: expected true or false, got 1"),
        ({"tree": 1}, "tree: expected a text or an object or null, got 1"),
        ({"first": 1}, "first: expected an object, got 1"),
        ({"first": {"name": ""}}, "first, name: expected a text that is not empty, got ''"),
        ({"first": {"name": "a", "count": 3}}, "first, count: 3 is odd"),
        ({"first": {"name": "a", "count": "3"}}, "first, count: expected an even integer or null, got '3'"),
        ({"first": {}}, "^first: missing field 'name'$"),
        ({"more": 1}, "^unknown field 'more'$"),
        ({"first": {"name": "a", "more": 1}}, "^first: unknown field 'more'$"),
        ({"root": {"kind": "twig"}}, "root, kind: expected leaf or branch, got 'twig'"),
        ({"root": {"kind": []}}, r"root, kind: expected leaf or branch, got \[\]"),
        ({"root": {}}, "root, kind: expected leaf or branch, got None"),
        ({"root": {"kind": "branch", "nodes": {}}}, "root, nodes: expected a list, got {}"),
        ({"root": {"kind": "branch", "nodes": [], "sizes": [1]}}, r"root, sizes: expected 2 entries, got \[1\]"),
        (
            {"root": {"kind": "branch", "nodes": [{"kind": "leaf", "name": "a", "count": ""}]}},
            r"root, nodes\[0\] \('a'\), count: expected",
        ),
        ({"root": {"kind": "branch", "nodes": [], "sizes": [1, 0]}}, r"root, sizes\[1\]: expected a positive integer"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read(Root, {**write(TREE), **changes})


def test_an_object_is_checked_as_its_json() -> None:
    check(TREE, ProgramError)
    text: Any = "c"  # where a number belongs, as code without types may pass it
    bad = replace(TREE, root=Branch((Leaf("a"), Leaf("b", text))))
    with pytest.raises(
        ProgramError, match=r"^root, nodes\[1\] \('b'\), count: expected an even integer or null, got 'c'$"
    ):
        check(bad, ProgramError)


def test_types_without_json() -> None:
    @dataclass
    class Odd:
        names: set[str]

    with pytest.raises(TypeError, match=r"set\[str\] has no JSON"):
        write(Odd(set()))
