"""The derivative of products of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import contract
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of
from tensorgrad.dialects.tg.contract import free_axes
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(contract.DotGeneralOp)
def _dot_general(b: TensorBuilder, op: contract.DotGeneralOp, g: SSAValue) -> Cotangents:
    lb, rb, lc, rc = op.dimension_numbers
    lf = free_axes(len(shape_of(op.lhs)), lb, lc)
    rf = free_axes(len(shape_of(op.rhs)), rb, rc)
    batch = list(range(len(lb)))
    left_free = list(range(len(lb), len(lb) + len(lf)))
    right_free = list(range(len(lb) + len(lf), len(op.shape)))
    # Both have the axes of one side in a different order: permute them back.
    lhs = b.dot_general(g, op.rhs, (batch, rb), (right_free, rf))
    rhs = b.dot_general(op.lhs, g, (lb, batch), (lf, left_free))
    left_order = [*lb, *lf, *(axis for _, axis in sorted(zip(rc, lc, strict=True)))]
    right_order = [*rb, *(axis for _, axis in sorted(zip(lc, rc, strict=True))), *rf]
    return [b.transpose(lhs, _inverse(left_order)), b.transpose(rhs, _inverse(right_order))]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda axis: order[axis])
