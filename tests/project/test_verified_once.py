"""The test helper that verifies declarations once per signature still reports every error, every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from verified_once import remembering
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr, f32, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import OpDef
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.elementwise.arithmetic import CompareOp

LESS = {"predicate": StringAttr("lt")}


def compare(properties: Mapping[str, Attribute] = LESS, operands: int = 2, results: int = 1) -> Operation:
    values = test.TestOp(result_types=[tensor((3,), f32)] * operands).results
    return CompareOp.create(operands=values, result_types=[tensor((3,), i1)] * results, properties=dict(properties))


WRONG: dict[str, tuple[Callable[[], Operation], Callable[[], Operation]]] = {
    "operands": (compare, lambda: compare(operands=3)),
    "results": (compare, lambda: compare(results=2)),
    "a property's type": (compare, lambda: compare({"predicate": UnitAttr()})),
    "a property's value": (compare, lambda: compare({"predicate": StringAttr("about")})),
    "no property": (compare, lambda: compare({})),
    "another property": (compare, lambda: compare({**LESS, "other": UnitAttr()})),
    "blocks": (lambda: ModuleOp([]), lambda: ModuleOp(Region([Block(), Block()]))),
    "the op around it": (
        lambda: FuncOp("f", ((), ()), Region(Block([ReturnOp()]))),
        lambda: ModuleOp([ReturnOp()]),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_every_time(name: str) -> None:
    right, wrong = WRONG[name]
    for _ in range(2):
        right().verify()
        with pytest.raises(VerifyException):
            wrong().verify()


def test_a_declaration_is_checked_once_for_each_signature() -> None:
    checked: list[Operation] = []
    check = remembering(lambda definition, op: checked.append(op))
    ops = [compare(), compare(), compare({"predicate": StringAttr("gt")}), compare()]
    definition = OpDef("another")
    for op in ops:
        check(definition, op)
    assert checked == [ops[0], ops[2]]
