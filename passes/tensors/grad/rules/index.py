"""Derivatives of gathers and scatters, which are transposes of each other."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import int_value
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(index.TakeOp)
def _take(b: TensorBuilder, op: index.TakeOp, g: SSAValue) -> Cotangents:
    axis = int_value(op.properties, "axis")
    return [b.scatter_add(g, op.indices, axis, shape_of(op.operand)[axis]), None]


@rule(index.ScatterAddOp)
def _scatter_add(b: TensorBuilder, op: index.ScatterAddOp, g: SSAValue) -> Cotangents:
    gathered = b.take(g, op.indices, int_value(op.properties, "axis"))
    return [_where_inside(b, op, gathered, int_value(op.properties, "axis")), None]


@rule(index.TakeAlongAxisOp)
def _take_along_axis(b: TensorBuilder, op: index.TakeAlongAxisOp, g: SSAValue) -> Cotangents:
    axis = int_value(op.properties, "axis")
    return [b.scatter_add_along_axis(g, op.indices, axis, shape_of(op.operand)[axis]), None]


@rule(index.ScatterAddAlongAxisOp)
def _scatter_add_along_axis(b: TensorBuilder, op: index.ScatterAddAlongAxisOp, g: SSAValue) -> Cotangents:
    gathered = b.take_along_axis(g, op.indices, int_value(op.properties, "axis"))
    return [_where_inside(b, op, gathered, 0), None]


def _where_inside(
    b: TensorBuilder, op: index.ScatterAddOp | index.ScatterAddAlongAxisOp, gathered: SSAValue, axis: int
) -> SSAValue:
    """Returns gathered cotangents with 0 for updates that were dropped, whatever a gather reads out of range."""
    indices = op.indices
    extent = int_value(op.properties, "extent")
    inside = b.binary(
        arithmetic.AndOp,
        b.compare("ge", indices, b.full_like(indices, 0)),
        b.compare("lt", indices, b.full_like(indices, extent)),
    )
    dims = range(axis, axis + len(shape_of(indices)))
    return b.select(b.broadcast(inside, shape_of(gathered), dims), gathered, b.full_like(gathered, 0))
