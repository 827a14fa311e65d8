"""Derivatives of reductions."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import reduce
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(reduce.SumOp)
def _sum(b: TensorBuilder, op: reduce.SumOp, g: SSAValue) -> Cotangents:
    return [b.broadcast_like(g, op.operand, op.axes.get_values())]


def _extreme(b: TensorBuilder, op: reduce.ReduceOp, g: SSAValue) -> Cotangents:
    """Equal extremes share the cotangent evenly; if there are NaNs, these are the extremes."""
    x, axes = op.operand, op.axes.get_values()
    ties = b.compare("eq", x, b.broadcast_like(op.result, x, axes))
    ties = b.binary(arithmetic.OrOp, ties, b.compare("ne", x, x))
    count = b.sum(b.cast(ties, element_of(x)), axes)
    share = b.broadcast_like(b.div(g, count), x, axes)
    return [b.select(ties, share, b.full_like(x, 0))]


@rule(reduce.MaxOp)
def _max(b: TensorBuilder, op: reduce.MaxOp, g: SSAValue) -> Cotangents:
    return _extreme(b, op, g)


@rule(reduce.MinOp)
def _min(b: TensorBuilder, op: reduce.MinOp, g: SSAValue) -> Cotangents:
    return _extreme(b, op, g)


@rule(reduce.ProdOp)
def _prod(b: TensorBuilder, op: reduce.ProdOp, g: SSAValue) -> Cotangents:
    """Returns the product of all other elements by a tree of products, without division, so that zeros are exact.

    Where that overflows, as products of a part of the elements may, it is the product of all divided by the element; so
    it is the product of all for one of several zeros, which such a part would make no number.
    """
    axes, extents = op.axes.get_values(), shape_of(op.operand)
    kept_axes = [axis for axis in range(len(extents)) if axis not in axes]
    order = [*kept_axes, *(axis for axis in range(len(extents)) if axis in axes)]
    count = math.prod(extents[axis] for axis in axes)
    if not count:
        return [b.full_like(op.operand, 0)]
    lead = [extents[axis] for axis in kept_axes]
    row = b.reshape(b.transpose(op.operand, order), [*lead, count])
    leaves = 1 << (count - 1).bit_length()
    if leaves > count:
        # A factor of 1 changes nothing.
        one = b.full(tensor((), element_of(op.result)), 1)
        nothing = [0] * len(lead)
        row = b.pad(row, one, [*nothing, 0], [*nothing, leaves - count], [*nothing, 0])
    levels: list[tuple[SSAValue, SSAValue]] = []
    while shape_of(row)[-1] > 1:
        half = shape_of(row)[-1] // 2
        levels.append((_part(b, row, 0, half), _part(b, row, half, 2 * half)))
        row = b.mul(*levels[-1])
    others = b.full(tensor([*lead, 1], element_of(op.result)), 1)
    for left, right in reversed(levels):
        others = b.concat([b.mul(others, right), b.mul(others, left)], len(lead))
    others = b.reshape(_part(b, others, 0, count), [extents[axis] for axis in order])
    others, x = b.transpose(others, [order.index(axis) for axis in range(len(order))]), op.operand
    # The choice must not depend on the cotangent, in which a derivative is linear.
    is_zero = b.compare("eq", x, b.full_like(x, 0))
    quotient = b.div(b.broadcast_like(op.result, x, axes), b.select(is_zero, b.full_like(x, 1), x))
    is_only_zero = b.binary(arithmetic.AndOp, is_zero, b.compare("eq", others, others))
    is_exact = b.binary(arithmetic.OrOp, is_only_zero, b.unary(functions.IsFiniteOp, others))
    return [b.mul(b.broadcast_like(g, x, axes), b.select(is_exact, others, quotient))]


def _part(b: TensorBuilder, x: SSAValue, start: int, stop: int) -> SSAValue:
    """Returns `x[..., start:stop]`."""
    extents = shape_of(x)
    if (start, stop) == (0, extents[-1]):
        return x
    rest = [0] * (len(extents) - 1)
    return b.slice(x, [*rest, start], [*extents[:-1], stop], [1] * len(extents))
