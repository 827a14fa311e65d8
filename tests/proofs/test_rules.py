"""The list of rules is that of the passes, and the page that of the list."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import rules
import test_guard_rules as guard_rules
from xdsl.dialects import arith

from tensorgrad.dialects import tg
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.passes.analyses import affine, guards

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "explanation" / "proofs.md"
BEGIN, END = "<!-- rules -->\n\n", "\n\n<!-- end of rules -->"


@pytest.mark.parametrize("room", [room for room in rules.rooms() if room.proved], ids=lambda room: room.name)
def test_every_theorem_exists(room: rules.Room) -> None:
    defined = {
        node.name for node in ast.parse((FOLDER / room.tests).read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert set(room.proved.values()) <= defined
    theorems = {
        name for name in defined if name.startswith("test_") and "wrong" not in name and "exponent_one" not in name
    }
    assert theorems == set(room.proved.values()), "theorems that the list lacks"


def _simplifying() -> Iterator[type]:
    """Returns the classes that define rules of their own, in the order of the ops."""
    seen: dict[type, None] = {}
    for kind in tg.OPS:
        owner = next(base for base in kind.__mro__ if "simplified" in vars(base))
        if owner is not TensorOp:
            seen[owner] = None
    yield from seen


def test_no_op_has_a_rule_that_is_not_listed() -> None:
    names = {kind.__name__ for kind in _simplifying()}
    shapes = {"ReshapeOp", "TransposeOp", "BroadcastOp", "SliceOp", "ConcatOp", "ReduceOp"}
    assert names - shapes == {"NegOp", "BinaryOp", "SelectOp", "CastOp", "BitcastOp"}


def test_every_neutral_element_was_tried() -> None:
    neutral = [kind for kind in tg.OPS if getattr(kind, "NEUTRAL_RIGHT", None) is not None]
    from_rules = {kind for kind, _ in rules.simplification.rules() if issubclass(kind, arithmetic.BinaryOp)}
    assert set(neutral) == from_rules


def test_every_row_of_the_guards_is_proved() -> None:
    proved = {*guard_rules.ARITHMETIC, *guard_rules.WORDS, arith.MuliOp}
    assert proved == {*guards.SIGNED, *guards.INTEGERS}


NO_RULES = {
    "linear",
    "simplified",
    "_common_factors",
    "dims",
    "identity",
    "is_identity",
    "used_dims",
    "linear_position",
}
"""Functions on index maps that rewrite nothing, or call one that does."""


def test_every_step_on_index_maps_is_listed() -> None:
    functions = {name for name, member in vars(affine).items() if inspect.getmodule(member) is affine}
    methods = {name for name in vars(affine.Linear) if not name.startswith("_")}
    room = next(room for room in rules.rooms() if room.name == "index maps")
    text = " ".join([*room.proved, *room.unproved])
    for name in sorted((functions - NO_RULES - {"Linear"}) | methods):
        assert f"{name}`" in text, f"{name} is not listed"


def test_the_page_has_the_list() -> None:
    assert rules.table() in PAGE.read_text(), f"the table of {PAGE.name} should be:\n\n{rules.table()}"


def test_most_rules_are_proved() -> None:
    proved, unproved = (sum(len(each) for each in parts) for parts in zip(*rules.counted(), strict=True))
    assert proved >= 0.85 * (proved + unproved)
