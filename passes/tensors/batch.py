"""Batching (vmap): adds a leading batch axis to a part of a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg import collective, contract, convolution, index, reduce, shape, sort
from tensorgrad.dialects.tg.base import Tensor, TensorOp, integer, ints, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, returned
from tensorgrad.dialects.tg.contract import free_axes
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.dialects.tg.traits import Elementwise
from tensorgrad.passes.tensors.batch_control import batch_cond, batch_scan, erase_ops, everywhere, hoist_independent
from tensorgrad.passes.tensors.control import erase_unneeded
from tensorgrad.passes.tensors.moving import copied
from tensorgrad.passes.tensors.packing import concatenated

OpT = TypeVar("OpT", bound=TensorOp)
Operands: TypeAlias = Sequence["tuple[SSAValue, bool]"]
"""Values, and whether each has the batch axis; at least one has it."""
Rule: TypeAlias = Callable[[TensorBuilder, OpT, int, Operands], SSAValue]

RULES: dict[type[TensorOp], Callable[[TensorBuilder, TensorOp, int, Operands], SSAValue]] = {}
"""Batching rules by class of op; the number of ops that one emits doesn't depend on the extent of the batch axis."""


def repeated(
    block: Block, known: dict[SSAValue, SSAValue], values: Sequence[SSAValue], builder: TensorBuilder
) -> list[SSAValue]:
    """Moves a block to the builder's insertion point, with a batch axis on everything that depends on some values.

    Args:
        block: Has no terminator, and is empty afterwards.
        known: Replacements for some values, with the batch axis in front; at least one.
        values: Results of the block's ops, or values that are visible in it.
        builder: The insertion point.

    Returns:
        The replacements of `values`, all with the batch axis.
    """
    count = shape_of(next(iter(known.values())))[0]
    erase_unneeded(block, values)
    hoist_independent(block, known, builder)
    known = dict(known)
    _batch(block, known, count, builder)
    results = [known[value] if value in known else everywhere(builder, value, count) for value in values]
    erase_ops(block)
    return results


def basis(kind: Tensor, builder: TensorBuilder) -> SSAValue:
    """Returns every one-hot tensor of `kind`, along a new leading axis in row-major order."""
    count = kind.element_count()
    row, column = (builder.iota((count, count), axis, i32) for axis in (0, 1))
    ones = builder.cast(builder.compare("eq", row, column), kind.get_element_type())
    return builder.reshape(ones, (count, *kind.get_shape()))


def _batch(block: Block, known: dict[SSAValue, SSAValue], count: int, builder: TensorBuilder) -> None:
    """Batches the ops that depend on the values in `known`, and adds their results to it."""
    for op in list(block.ops):
        if not any(operand in known for operand in op.operands):
            continue
        builder.location = op.location
        if isinstance(op, CallOp):
            _call(op, known, count, builder)
            continue
        if isinstance(op, ScanOp):
            batch_scan(op, known, count, builder, _batch)
            continue
        if isinstance(op, CondOp):
            batch_cond(op, known, count, builder, _batch)
            continue
        if not isinstance(op, TensorOp):
            continue
        operands = [(known.get(operand, operand), operand in known) for operand in op.operands]
        rule = _pointwise if op.has_trait(Elementwise) else RULES[type(op)]
        known[op.results[0]] = rule(builder, op, count, operands)


def _call(op: CallOp, known: dict[SSAValue, SSAValue], count: int, builder: TensorBuilder) -> None:
    body = copied(op.body)
    for argument, operand in zip(body.args, op.operands, strict=True):
        known[argument] = known.get(operand, operand)
        if operand not in known:
            known[argument] = everywhere(builder, operand, count)
    for inner in body.ops:
        if isinstance(inner, TensorOp) and not inner.operands:
            value = builder.emit(type(inner), [], **inner.properties)
            known[inner.results[0]] = everywhere(builder, value, count)
    _batch(body, known, count, builder)
    for result, value in zip(op.results, returned(body), strict=True):
        known[result] = known[value]


def _all(builder: TensorBuilder, operands: Operands, count: int) -> list[SSAValue]:
    return [value if has else everywhere(builder, value, count) for value, has in operands]


def rule(*kinds: type[OpT]) -> Callable[[Rule[OpT]], Rule[OpT]]:
    """Registers the batching rule of ops."""

    def register(function: Rule[OpT]) -> Rule[OpT]:
        for kind in kinds:
            RULES[kind] = cast("Callable[[TensorBuilder, TensorOp, int, Operands], SSAValue]", function)
        return function

    return register


def _behind(axes: Iterable[int]) -> list[int]:
    """Returns axes as those of a tensor with the batch axis in front."""
    return [axis + 1 for axis in axes]


def _pointwise(b: TensorBuilder, op: TensorOp, count: int, operands: Operands) -> SSAValue:
    return b.emit(type(op), _all(b, operands, count), **op.properties)


@rule(shape.ReshapeOp)
def _reshape(b: TensorBuilder, op: shape.ReshapeOp, count: int, operands: Operands) -> SSAValue:
    return b.reshape(operands[0][0], (count, *op.shape))


@rule(shape.TransposeOp)
def _transpose(b: TensorBuilder, op: shape.TransposeOp, count: int, operands: Operands) -> SSAValue:
    return b.transpose(operands[0][0], [0, *_behind(op.permutation.get_values())])


@rule(shape.BroadcastOp)
def _broadcast(b: TensorBuilder, op: shape.BroadcastOp, count: int, operands: Operands) -> SSAValue:
    return b.broadcast(operands[0][0], (count, *op.shape), [0, *_behind(op.dims.get_values())])


@rule(shape.SliceOp)
def _slice(b: TensorBuilder, op: shape.SliceOp, count: int, operands: Operands) -> SSAValue:
    start, stop, step = map(list, op.bounds)
    return b.slice(operands[0][0], [0, *start], [count, *stop], [1, *step])


@rule(shape.ReverseOp)
def _reverse(b: TensorBuilder, op: shape.ReverseOp, count: int, operands: Operands) -> SSAValue:
    return b.reverse(operands[0][0], _behind(op.axes.get_values()))


@rule(shape.PadOp)
def _pad(b: TensorBuilder, op: shape.PadOp, count: int, operands: Operands) -> SSAValue:
    (inner, _), (value, in_value) = operands
    low, high, interior = ([0, *amounts] for amounts in op.amounts)
    if not in_value:
        return b.pad(inner, value, low, high, interior)
    inner, _ = _all(b, operands, count)
    padded = b.pad(inner, b.zeros((), element_of(inner)), low, high, interior)
    inside = b.full(tensor(shape_of(inner), i1), 1)
    filled = b.pad(inside, b.zeros((), i1), low, high, interior)
    return b.select(filled, padded, b.broadcast(value, shape_of(padded), [0]))


@rule(shape.PackOp)
def _pack(b: TensorBuilder, op: shape.PackOp, count: int, operands: Operands) -> SSAValue:
    return concatenated(b, op, _all(b, operands, count), [count])


@rule(shape.ConcatOp)
def _concat(b: TensorBuilder, op: shape.ConcatOp, count: int, operands: Operands) -> SSAValue:
    return b.concat(_all(b, operands, count), op.axis.value.data + 1)


@rule(reduce.SumOp, reduce.MaxOp, reduce.MinOp, reduce.ProdOp)
def _reduce(b: TensorBuilder, op: reduce.ReduceOp, count: int, operands: Operands) -> SSAValue:
    return b.reduce(type(op), operands[0][0], _behind(op.axes.get_values()))


@rule(contract.DotGeneralOp)
def _dot_general(b: TensorBuilder, op: contract.DotGeneralOp, count: int, operands: Operands) -> SSAValue:
    """Batches a contraction: a batch axis if both sides have one, otherwise a free one, moved to the front again."""
    lb, rb, lc, rc = map(list, op.dimension_numbers)
    (lhs, in_lhs), (rhs, in_rhs) = operands
    left_rank = len(shape_of(lhs)) - in_lhs
    if in_lhs:
        lb, lc = [axis + 1 for axis in lb], [axis + 1 for axis in lc]
    if in_rhs:
        rb, rc = [axis + 1 for axis in rb], [axis + 1 for axis in rc]
    if in_lhs and in_rhs:
        return b.dot_general(lhs, rhs, ([0, *lb], [0, *rb]), (lc, rc))
    result = b.dot_general(lhs, rhs, (lb, rb), (lc, rc))
    # The batch axis is the first free axis of its side.
    place = len(lb) if in_lhs else len(lb) + len(free_axes(left_rank, lb, lc))
    rank = len(shape_of(result))
    return b.transpose(result, [place, *(axis for axis in range(rank) if axis != place)])


@rule(index.TakeOp)
def _take(b: TensorBuilder, op: index.TakeOp, count: int, operands: Operands) -> SSAValue:
    (x, in_x), (indices, in_indices) = operands
    axis, own = op.axis.value.data, len(shape_of(op.indices))
    if not in_indices:
        return b.take(x, indices, axis + 1)
    if not in_x:
        return _to_front(b, b.take(x, indices, axis), axis)
    extent, rank = shape_of(x)[axis + 1], len(shape_of(x))
    if rank == 2:
        along = b.take_along_axis(x, b.reshape(indices, (count, _size(indices) // count)), 1)
        return b.reshape(along, (count, *op.shape))
    others = [other for other in range(1, rank) if other != axis + 1]
    moved = b.transpose(x, [0, axis + 1, *others])
    rows = b.reshape(moved, (count * extent, *shape_of(moved)[2:]))
    gathered = b.take(rows, _apart(b, indices, count, extent), 0)
    lead, trail = range(1 + own, 1 + own + axis), range(1 + own + axis, len(shape_of(gathered)))
    return b.transpose(gathered, [0, *lead, *range(1, 1 + own), *trail])


@rule(index.ScatterAddOp, index.ScatterReduceOp)
def _scatter(b: TensorBuilder, op: index.ScatterOp, count: int, operands: Operands) -> SSAValue:
    axis, extent, kind = op.axis.value.data, op.extent.value.data, op.combines
    if not operands[1][1]:
        return b.scatter(operands[0][0], operands[1][0], axis + 1, extent, kind)
    updates, indices = _all(b, operands, count)
    if len(op.shape) == 1:
        rows = (count, _size(indices) // count)
        return b.scatter_along_axis(b.reshape(updates, rows), b.reshape(indices, rows), 1, extent, kind)
    lead = list(range(1, 1 + axis))
    moved = b.transpose(updates, [*lead, 0, *range(1 + axis, len(shape_of(updates)))])
    reduced = b.scatter(moved, _apart(b, indices, count, extent), axis, count * extent, kind)
    apart = b.reshape(reduced, (*op.shape[:axis], count, *op.shape[axis:]))
    return _to_front(b, apart, axis)


def _size(x: SSAValue) -> int:
    return math.prod(shape_of(x))


def _to_front(b: TensorBuilder, x: SSAValue, axis: int) -> SSAValue:
    return b.transpose(x, [axis, *(other for other in range(len(shape_of(x))) if other != axis)])


def _apart(b: TensorBuilder, indices: SSAValue, count: int, extent: int) -> SSAValue:
    """Returns indices into `count` axes of `extent`, one after another, from indices into each of them.

    Indices out of range remain out of range. They are widened to 64 bits if they can't represent `count * extent`.
    """
    if count * extent > np.iinfo(numpy_dtype(element_of(indices))).max:
        indices = b.cast(indices, i64)
    whole, kind = b.full_like(indices, extent), element_of(indices)
    start = b.mul(b.iota(shape_of(indices), 0, kind), whole)
    inside = b.binary(
        arithmetic.AndOp, b.compare("ge", indices, b.full_like(indices, 0)), b.compare("lt", indices, whole)
    )
    return b.select(inside, b.add(indices, start), b.full_like(indices, count * extent))


@rule(index.TakeAlongAxisOp)
def _take_along_axis(b: TensorBuilder, op: index.TakeAlongAxisOp, count: int, operands: Operands) -> SSAValue:
    values, indices = _all(b, operands, count)
    return b.take_along_axis(values, indices, op.axis.value.data + 1)


@rule(index.ScatterAddAlongAxisOp, index.ScatterReduceAlongAxisOp)
def _scatter_along_axis(b: TensorBuilder, op: index.ScatterOp, count: int, operands: Operands) -> SSAValue:
    values, indices = _all(b, operands, count)
    axis, extent = op.axis.value.data + 1, op.extent.value.data
    return b.scatter_along_axis(values, indices, axis, extent, op.combines)


@rule(convolution.ConvOp)
def _conv(b: TensorBuilder, op: convolution.ConvOp, count: int, operands: Operands) -> SSAValue:
    """Batches a convolution: the axis joins the batch, the outputs of each group, or (on both sides) the groups."""
    (lhs, in_lhs), (rhs, in_rhs) = operands
    groups = op.groups.value.data
    batch, outputs, *space = op.shape
    old, *trailing = shape_of(op.rhs)
    if not in_rhs:
        flat = b.reshape(lhs, (count * batch, *shape_of(op.lhs)[1:]))
        return b.reshape(b.emit(type(op), [flat, rhs], **op.properties), (count, *op.shape))
    properties = dict(op.properties)
    rest = list(range(4, 4 + len(space)))
    if in_lhs:
        moved = b.transpose(lhs, [1, 0, *range(2, len(shape_of(lhs)))])
        lhs = b.reshape(moved, (batch, count * shape_of(op.lhs)[1], *shape_of(op.lhs)[2:]))
        properties["groups"] = integer(count * groups)
        split, back = (batch, count, outputs, *space), [1, 0, 2, *[axis - 1 for axis in rest]]
        rhs = b.reshape(rhs, (count * old, *trailing))
    else:
        split, back = (batch, groups, count, outputs // groups, *space), [2, 0, 1, 3, *rest]
        grouped = b.reshape(rhs, (count, groups, old // groups, *trailing))
        order = [1, 0, 2, *range(3, 3 + len(trailing))]
        rhs = b.reshape(b.transpose(grouped, order), (count * old, *trailing))
    result = b.reshape(b.emit(type(op), [lhs, rhs], **properties), split)
    return b.reshape(b.transpose(result, back), (count, *op.shape))


@rule(convolution.WindowsOp, convolution.FoldOp)
def _windows(
    b: TensorBuilder, op: convolution.WindowsOp | convolution.FoldOp, count: int, operands: Operands
) -> SSAValue:
    return b.emit(type(op), [operands[0][0]], **{**op.properties, "axes": ints(_behind(op.axes.get_values()))})


@rule(sort.ArgsortOp)
def _argsort(b: TensorBuilder, op: sort.ArgsortOp, count: int, operands: Operands) -> SSAValue:
    return b.emit(type(op), [operands[0][0]], **op.properties)


@rule(collective.AllReduceOp, collective.CollectiveBroadcastOp)
def _same_in_all(b: TensorBuilder, op: collective.CollectiveOp, count: int, operands: Operands) -> SSAValue:
    return b.emit(type(op), [operands[0][0]], **op.properties)


@rule(collective.ReduceScatterOp, collective.AllGatherOp)
def _cut_or_joined(
    b: TensorBuilder, op: collective.ReduceScatterOp | collective.AllGatherOp, count: int, operands: Operands
) -> SSAValue:
    axis = op.axis.value.data + 1
    return b.emit(type(op), [operands[0][0]], **{**op.properties, "axis": integer(axis)})
