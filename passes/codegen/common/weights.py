"""The costs of scalar ops, relative to an addition."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import UnknownLoc, f32
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Block, Operation

from tensorgrad.dialects.wgsl import RemFOp
from tensorgrad.passes.codegen.common.expand_math import EXPANSIONS
from tensorgrad.passes.scalars import Formula

WEIGHTS: dict[type[Operation], float] = {
    arith.ConstantOp: 0.0,
    YieldOp: 0.0,
    arith.DivfOp: 6.0,
    math.SqrtOp: 6.0,
    math.RsqrtOp: 10.0,
    RemFOp: 60.0,
}
"""Ops that cost more than an addition, or nothing; those of `EXPANSIONS` cost what they expand to."""


@cache
def weight(kind: type[Operation]) -> float:
    """Returns the approximate cost of an op in additions, without its regions."""
    if kind in EXPANSIONS:
        formula = Formula(UnknownLoc())
        block = Block(arg_types=[f32] * (2 if kind in (math.PowFOp, math.Atan2Op) else 1))
        EXPANSIONS[kind](formula, *formula.values(block.args))
        return weight_of(formula.ops)
    return WEIGHTS.get(kind, 1.0)


def weight_of(ops: Iterable[Operation]) -> float:
    """Returns the approximate cost of ops in additions."""
    return sum(weight(type(op)) for op in ops)
