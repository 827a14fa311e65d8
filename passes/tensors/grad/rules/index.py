"""Derivatives of gathers and scatters; of gathers and sums, each is the other's transpose."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import integer, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise import arithmetic, functions
from tensorgrad.dialects.tg.sort import ArgsortOp
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(index.TakeOp)
def _take(b: TensorBuilder, op: index.TakeOp, g: SSAValue) -> Cotangents:
    axis = op.axis.value.data
    return [b.scatter(g, op.indices, axis, shape_of(op.operand)[axis]), None]


@rule(index.TakeAlongAxisOp)
def _take_along_axis(b: TensorBuilder, op: index.TakeAlongAxisOp, g: SSAValue) -> Cotangents:
    axis = op.axis.value.data
    return [b.scatter_along_axis(g, op.indices, axis, shape_of(op.operand)[axis]), None]


@rule(index.ScatterAddOp, index.ScatterReduceOp, index.ScatterAddAlongAxisOp, index.ScatterReduceAlongAxisOp)
def _scatter(b: TensorBuilder, op: index.ScatterOp, g: SSAValue) -> Cotangents:
    return [_OF_UPDATES[op.combines](b, op, g), None]


def _extreme(b: TensorBuilder, op: index.ScatterOp, g: SSAValue) -> SSAValue:
    """Equal extremes share the cotangent evenly; if there are NaNs, these are the extremes."""
    x, add = op.updates, b.scatter_along_axis if isinstance(op, index.ScatterAlongAxisOp) else b.scatter
    axis, extent = op.axis.value.data, op.extent.value.data
    ties = b.compare("eq", x, _read(b, op, op.result))
    ties = b.binary(arithmetic.OrOp, ties, b.compare("ne", x, x))
    count = add(b.cast(ties, element_of(x)), op.indices, axis, extent)
    share = b.div(g, b.binary(arithmetic.MaximumOp, count, b.full_like(count, 1)))
    return b.select(ties, _read(b, op, share), b.full_like(x, 0))


def _product(b: TensorBuilder, op: index.ScatterOp, g: SSAValue) -> SSAValue:
    """Returns the product of all other updates of the index, without division, so that zeros are exact.

    Where that overflows, as products of a part of the updates may, it is the product of all divided by the update.
    """
    x = b.select(_inside(b, op), op.updates, b.full_like(op.updates, 1))
    others = _others(b, op, x)
    # The choice must not depend on the cotangent, in which a derivative is linear.
    is_zero = b.compare("eq", x, b.full_like(x, 0))
    quotient = b.div(_read(b, op, op.result), b.select(is_zero, b.full_like(x, 1), x))
    is_exact = b.binary(arithmetic.OrOp, is_zero, b.unary(functions.IsFiniteOp, others))
    return b.mul(_read(b, op, g), b.select(is_exact, others, quotient))


def _read(b: TensorBuilder, op: index.ScatterOp, x: SSAValue) -> SSAValue:
    """Returns for each update the element of a tensor like the result that it is combined into, 0 if it is dropped."""
    axis = op.axis.value.data
    read = (b.take_along_axis if isinstance(op, index.ScatterAlongAxisOp) else b.take)(x, op.indices, axis)
    return b.select(_inside(b, op), read, b.full_like(read, 0))


_OF_UPDATES: dict[str, Callable[[TensorBuilder, index.ScatterOp, SSAValue], SSAValue]] = {
    "sum": _read,
    "prod": _product,
    "max": _extreme,
    "min": _extreme,
}


def _inside(b: TensorBuilder, op: index.ScatterOp) -> SSAValue:
    """Returns whether each update has an index that is in range."""
    indices = op.indices
    extent = op.extent.value.data
    inside = b.binary(
        arithmetic.AndOp,
        b.compare("ge", indices, b.full_like(indices, 0)),
        b.compare("lt", indices, b.full_like(indices, extent)),
    )
    axis = 0 if isinstance(op, index.ScatterAlongAxisOp) else op.axis.value.data
    return b.broadcast(inside, shape_of(op.updates), range(axis, axis + len(shape_of(indices))))


def _others(b: TensorBuilder, op: index.ScatterOp, updates: SSAValue) -> SSAValue:
    """Returns for each update the product of all others of its index: of those before it, and of those behind it.

    Updates are sorted by index, and each is multiplied with the next ones on either side that have the same index, in
    steps that double how many these are. The updates' axis is the last one meanwhile.
    """
    axis, extent = op.axis.value.data, op.extent.value.data
    shape, along = shape_of(updates), isinstance(op, index.ScatterAlongAxisOp)
    own = range(axis, axis + (1 if along else len(shape_of(op.indices))))
    order = [*range(axis), *range(own.stop, len(shape)), *own]
    count = math.prod(shape[place] for place in own)
    if count < 2:
        return b.full_like(updates, 1)
    moved = b.transpose(updates, order)
    rows = b.reshape(moved, [*shape_of(moved)[: len(shape) - len(own)], count])
    keys = b.transpose(op.indices, order) if along else b.reshape(op.indices, [count])
    read, last = (b.take_along_axis if along else b.take), len(shape_of(rows)) - 1
    places = b.emit(ArgsortOp, [keys], descending=integer(0))
    keys, rows = read(keys, places, len(shape_of(keys)) - 1), read(rows, places, last)
    others = b.mul(_beside(b, rows, keys, extent, 1), _beside(b, rows, keys, extent, -1))
    back = b.emit(ArgsortOp, [places], descending=integer(0))
    others = b.reshape(read(others, back, last), shape_of(moved))
    return b.transpose(others, [order.index(place) for place in range(len(shape))])


def _beside(b: TensorBuilder, rows: SSAValue, keys: SSAValue, none: int, direction: int) -> SSAValue:
    """Returns for each element the product of those before it (behind it if `direction` is -1) that have its key.

    `none` is a key whose products may be any numbers.
    """
    count, rank, lead = shape_of(rows)[-1], len(shape_of(rows)), len(shape_of(rows)) - len(shape_of(keys))
    products, distance = _shifted(b, rows, direction, 1), 1
    one = b.full_like(rows, 1)
    while distance < count:
        same = b.compare("eq", keys, _shifted(b, keys, distance * direction, none))
        same = b.broadcast(same, shape_of(rows), range(lead, rank))
        if distance == 1:
            products = b.select(same, products, one)
        products = b.mul(products, b.select(same, _shifted(b, products, distance * direction, 1), one))
        distance *= 2
    return products


def _shifted(b: TensorBuilder, x: SSAValue, distance: int, fill: float) -> SSAValue:
    """Returns elements `distance` places to the right along the last axis, or to the left if it is negative."""
    *lead, count = shape_of(x)
    zeros, low, high = [0] * len(lead), max(distance, 0), max(-distance, 0)
    kept = b.slice(x, [*zeros, high], [*lead, count - low], [1] * (len(lead) + 1))
    return b.pad(kept, b.full(tensor((), element_of(x)), fill), [*zeros, low], [*zeros, high], [0] * (len(lead) + 1))
