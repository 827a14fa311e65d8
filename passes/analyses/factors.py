"""The factors of a contraction that is a matrix product."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, f64
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import element_of
from tensorgrad.passes.analyses.axes import axes_of_values


@dataclass(frozen=True)
class Factors:
    """The two values of a body whose products are summed: one needs rows alone, the other columns alone."""

    row: SSAValue
    column: SSAValue


def factors_of(stage: GenericOp, row: Collection[int], column: Collection[int]) -> Factors | None:
    """Returns the factors of a contraction; `None` where it sums anything else than products of its two sides.

    Args:
        stage: A contraction.
        row: The loops that make the rows.
        column: The loops that make the columns.
    """
    last = stage.body.block.last_op
    assert isinstance(last, YieldOp)
    combine = last.operands[0].owner
    accumulator = stage.body.block.args[len(stage.inputs)]
    if not isinstance(combine, arith.AddfOp) or element_of(stage.outputs[0]) not in (f32, f64):
        return None
    value = combine.rhs if combine.lhs is accumulator else combine.lhs
    product, axes = value.owner, axes_of_values(stage, row, column)
    if not isinstance(product, arith.MulfOp):
        return None
    for x, y in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        if axes.get(x) == {"row"} and axes.get(y) == {"column"}:
            return Factors(x, y)
    return None
