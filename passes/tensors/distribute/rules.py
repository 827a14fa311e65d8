"""Rules by class of op: how each op of `tg` runs on operands that are sharded over a group of processes.

A rule gets the op of the whole program and its operands as this process holds them, at least one of which is not
replicated. It emits the op on the local values and returns the result with its layout. It returns `None` if the op
needs more than the local values; the operands are then replicated, which is always correct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.tg import contract, convolution, index, reduce, shape, sort
from tensorgrad.dialects.tg.base import TensorOp, ints, is_float, size_of, splat_value
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.contract import free_axes
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.passes.tensors.distribute.placement import PARTIAL, Distribution, Placed, Placement

OpT = TypeVar("OpT", bound=TensorOp)
Operands: TypeAlias = Sequence[Placed]
Rule: TypeAlias = Callable[[Distribution, OpT, Operands], Placed | None]

RULES: dict[type[TensorOp], Callable[[Distribution, TensorOp, Operands], Placed | None]] = {}
"""The rules, for operands of which at least one is sharded and none is a partial sum."""

LINEAR: dict[type[TensorOp], Callable[[TensorOp, Operands], bool]] = {}
"""The ops that can map partial sums to a partial sum of the result, each with a predicate on its operands' layouts."""


def rule(*kinds: type[OpT]) -> Callable[[Rule[OpT]], Rule[OpT]]:
    """Registers the rule of ops for sharded operands."""

    def register(function: Rule[OpT]) -> Rule[OpT]:
        for kind in kinds:
            RULES[kind] = cast("Callable[[Distribution, TensorOp, Operands], Placed | None]", function)
        return function

    return register


def linear(*kinds: type[TensorOp]) -> Callable[[Callable[[TensorOp, Operands], bool]], None]:
    """Registers the predicate that says for which operands ops map partial sums to partial sums."""

    def register(function: Callable[[TensorOp, Operands], bool]) -> None:
        LINEAR.update(dict.fromkeys(kinds, function))

    return register


def emit(d: Distribution, op: TensorOp, values: Sequence[SSAValue], **changed: Attribute) -> SSAValue:
    """Emits an op of the same kind on other operands; returns its result."""
    return d.builder.emit(type(op), values, **{**op.properties, **changed})


def _values(operands: Operands) -> list[SSAValue]:
    return [operand.value for operand in operands]


# Partial sums


@linear(arithmetic.NegOp, arithmetic.StopGradientOp, arithmetic.AddOp, arithmetic.SubOp)
def _sums(op: TensorOp, operands: Operands) -> bool:
    return all(operand.is_partial for operand in operands)


@linear(shape.ReshapeOp, shape.TransposeOp, shape.SliceOp, shape.ReverseOp, shape.ConcatOp, shape.PackOp)
def _moves(op: TensorOp, operands: Operands) -> bool:
    return all(operand.is_partial for operand in operands)


@linear(reduce.SumOp, convolution.FoldOp)
def _sums_up(op: TensorOp, operands: Operands) -> bool:
    return operands[0].is_partial


@linear(shape.PadOp)
def _pads(op: TensorOp, operands: Operands) -> bool:
    return operands[0].is_partial and splat_value(op.operands[1]) == 0


@linear(arithmetic.MulOp)
def _products(op: TensorOp, operands: Operands) -> bool:
    return sorted((operand.layout for operand in operands), key=lambda layout: layout.partial) == [Placement(), PARTIAL]


@linear(arithmetic.DivOp)
def _quotients(op: TensorOp, operands: Operands) -> bool:
    # A quotient of integers is rounded.
    return operands[0].is_partial and operands[1].is_whole and is_float(element_of(op.results[0]))


@linear(arithmetic.SelectOp)
def _choices(op: TensorOp, operands: Operands) -> bool:
    return operands[0].is_whole and operands[1].is_partial and operands[2].is_partial


@linear(arithmetic.CastOp)
def _widened(op: TensorOp, operands: Operands) -> bool:
    kinds = [element_of(value) for value in (op.operands[0], op.results[0])]
    widths = [getattr(kind, "bitwidth", 0) for kind in kinds]
    return all(map(is_float, kinds)) and widths[0] < widths[1]


# Elementwise ops


def elementwise(d: Distribution, op: TensorOp, operands: Operands) -> Placed | None:
    """Emits an elementwise op with all operands sharded like the first one that is sharded."""
    layout = _of_first(operands)
    return Placed(emit(d, op, _values([d.cut(operand, layout) for operand in operands])), layout)


def _of_first(operands: Operands) -> Placement:
    """Returns the layout of the first operand that is sharded."""
    return next(operand.layout for operand in operands if operand.axis is not None)


# Shape


@rule(shape.ReshapeOp)
def _reshape(d: Distribution, op: shape.ReshapeOp, operands: Operands) -> Placed | None:
    """Keeps the operand sharded, along the result's axis that begins at the same position in row-major order.

    If the sharded axis is merged into one with outer axes, that axis is sharded in blocks.
    """
    (x,) = operands
    assert x.axis is not None
    before = size_of(shape_of(op.operand)[: x.axis]) * x.layout.blocks
    layouts: list[Placement] = []
    for axis, extent in enumerate(op.shape):
        blocks, rest = divmod(before, max(size_of(op.shape[:axis]), 1))
        if not rest and blocks and extent % blocks == 0:
            layouts.append(Placement(axis, blocks=blocks))
    for layout in sorted(layouts, key=lambda candidate: candidate.blocks):
        if d.can_cut(op.shape, layout):
            return Placed(d.builder.reshape(x.value, d.local(op.type, layout).get_shape()), layout)
    return None


@rule(shape.TransposeOp)
def _transpose(d: Distribution, op: shape.TransposeOp, operands: Operands) -> Placed | None:
    (x,), permutation = operands, op.permutation.get_values()
    return Placed(emit(d, op, [x.value]), x.layout.along(permutation.index(cast(int, x.axis))))


@rule(shape.BroadcastOp)
def _broadcast(d: Distribution, op: shape.BroadcastOp, operands: Operands) -> Placed | None:
    (x,) = operands
    layout = x.layout.along(op.dims.get_values()[cast(int, x.axis)])
    return Placed(emit(d, op, [x.value], shape=ints(d.local(op.type, layout).get_shape())), layout)


@rule(shape.SliceOp)
def _slice(d: Distribution, op: shape.SliceOp, operands: Operands) -> Placed | None:
    (x,) = operands
    assert x.axis is not None
    start, stop, step = map(list, op.bounds)
    if (start[x.axis], stop[x.axis], step[x.axis]) != (0, shape_of(op.operand)[x.axis], 1):
        return None
    stop[x.axis] //= d.size
    return Placed(d.builder.slice(x.value, start, stop, step), x.layout)


@rule(shape.ReverseOp)
def _reverse(d: Distribution, op: shape.ReverseOp, operands: Operands) -> Placed | None:
    return _apart_from(d, op, operands, op.axes.get_values())


@rule(convolution.WindowsOp, convolution.FoldOp)
def _windows(d: Distribution, op: convolution.WindowsOp | convolution.FoldOp, operands: Operands) -> Placed | None:
    rank = min(len(op.shape), len(shape_of(op.operands[0])))
    return _apart_from(d, op, operands, (*op.axes.get_values(), *range(rank, rank + len(op.shape))))


def _apart_from(d: Distribution, op: TensorOp, operands: Operands, axes: Sequence[int]) -> Placed | None:
    """Emits an op that mixes elements only along `axes` and keeps the index of every other axis."""
    if operands[0].axis in axes:
        return None
    return Placed(emit(d, op, _values(operands)), operands[0].layout)


@rule(shape.PadOp)
def _pad(d: Distribution, op: shape.PadOp, operands: Operands) -> Placed | None:
    axis = operands[0].axis
    if axis is None or any(amounts[axis] for amounts in op.amounts):
        return None
    return Placed(emit(d, op, _values(operands)), operands[0].layout)


@rule(shape.ConcatOp)
def _concat(d: Distribution, op: shape.ConcatOp, operands: Operands) -> Placed | None:
    if any(operand.axis == op.axis.value.data for operand in operands):
        return None
    return elementwise(d, op, operands)


# Reductions and sorting


@rule(reduce.SumOp, reduce.MaxOp, reduce.MinOp, reduce.ProdOp)
def _reduce(d: Distribution, op: reduce.ReduceOp, operands: Operands) -> Placed | None:
    (x,), axes = operands, op.axes.get_values()
    assert x.axis is not None
    if x.axis not in axes:
        return Placed(emit(d, op, [x.value]), x.layout.along(x.axis - sum(axis < x.axis for axis in axes)))
    if isinstance(op, reduce.ProdOp):
        return None
    reduced = emit(d, op, [x.value])
    if isinstance(op, reduce.SumOp):
        return Placed(reduced, PARTIAL)
    return Placed(d.builder.all_reduce(reduced, d.size, op.name.removeprefix("tg.")))


@rule(sort.ArgsortOp)
def _argsort(d: Distribution, op: sort.ArgsortOp, operands: Operands) -> Placed | None:
    return _apart_from(d, op, operands, [len(op.shape) - 1])


# Contractions


@rule(contract.DotGeneralOp)
def _dot_general(d: Distribution, op: contract.DotGeneralOp, operands: Operands) -> Placed | None:
    """Keeps batch axes sharded; a sharded contracting axis gives a partial sum; else one side is replicated."""
    lb, rb, lc, rc = op.dimension_numbers
    left, right = operands
    paired = [(*pair, place) for place, pair in enumerate(zip(lb, rb, strict=True))]
    paired += [(*pair, None) for pair in zip(lc, rc, strict=True)]
    for on_left, on_right, place in paired:
        if left.axis == on_left or right.axis == on_right:
            layout = left.layout if left.axis == on_left else right.layout
            values = [d.cut(left, layout.along(on_left)).value, d.cut(right, layout.along(on_right)).value]
            return Placed(emit(d, op, values), PARTIAL if place is None else layout.along(place))
    free = [*lb, *free_axes(len(shape_of(op.operands[0])), lb, lc)]
    if left.axis is not None and (right.axis is None or size_of(d.shape(right)) <= size_of(d.shape(left))):
        layout = left.layout.along(free.index(left.axis))
        return Placed(emit(d, op, [left.value, d.whole(right).value]), layout)
    other = free_axes(len(shape_of(op.operands[1])), rb, rc).index(cast(int, right.axis))
    return Placed(emit(d, op, [d.whole(left).value, right.value]), right.layout.along(len(free) + other))


@rule(convolution.ConvOp)
def _conv(d: Distribution, op: convolution.ConvOp, operands: Operands) -> Placed | None:
    """Keeps the batch or the outputs sharded; contracting sharded features gives a partial sum.

    Each group contracts its own features, so the features of each group are sharded.
    """
    (left, right), groups = operands, op.groups.value.data
    if left.axis == 0:
        return Placed(emit(d, op, [left.value, d.whole(right).value]), left.layout)
    if right.axis == 1 or (left.axis == 1 and left.layout.blocks % groups == 0):
        blocks = right.layout.blocks if right.axis == 1 else left.layout.blocks // groups
        features = Placement(1, blocks=blocks * groups), Placement(1, blocks=blocks)
        values = [d.cut(operand, layout).value for operand, layout in zip(operands, features, strict=True)]
        return Placed(emit(d, op, values), PARTIAL)
    if right.axis == 0 and right.layout.blocks % groups == 0:
        return Placed(emit(d, op, [d.whole(left).value, right.value]), right.layout.along(1))
    return None


# Indexing


@rule(index.TakeOp)
def _take(d: Distribution, op: index.TakeOp, operands: Operands) -> Placed | None:
    (x, indices), axis = operands, op.axis.value.data
    if indices.axis is not None:
        return Placed(emit(d, op, [d.whole(x).value, indices.value]), indices.layout.along(axis + indices.axis))
    assert x.axis is not None
    if x.axis == axis:
        return None
    moved = x.axis if x.axis < axis else x.axis - 1 + len(shape_of(op.indices))
    return Placed(emit(d, op, _values(operands)), x.layout.along(moved))


@rule(index.ScatterAddOp, index.ScatterReduceOp)
def _scatter(d: Distribution, op: index.ScatterOp, operands: Operands) -> Placed | None:
    """Gives a partial sum for sharded indices; keeps other axes of the updates sharded."""
    (updates, indices), axis = operands, op.axis.value.data
    rank = len(shape_of(op.indices))
    if updates.axis is not None and not axis <= updates.axis < axis + rank:
        moved = updates.axis if updates.axis < axis else updates.axis + 1 - rank
        return Placed(emit(d, op, [updates.value, d.whole(indices).value]), updates.layout.along(moved))
    if op.combines != "sum":
        return None
    layout = indices.layout if updates.axis is None else updates.layout.along(updates.axis - axis)
    values = [d.cut(updates, layout.along(axis + cast(int, layout.axis))).value, d.cut(indices, layout).value]
    return Placed(emit(d, op, values), PARTIAL)


@rule(index.TakeAlongAxisOp)
def _take_along_axis(d: Distribution, op: index.TakeAlongAxisOp, operands: Operands) -> Placed | None:
    (x, indices), axis = operands, op.axis.value.data
    if axis in (x.axis, indices.axis):
        if indices.axis != axis:
            return None
        return Placed(emit(d, op, [d.whole(x).value, indices.value]), indices.layout)
    return elementwise(d, op, operands)


@rule(index.ScatterAddAlongAxisOp, index.ScatterReduceAlongAxisOp)
def _scatter_along_axis(d: Distribution, op: index.ScatterAlongAxisOp, operands: Operands) -> Placed | None:
    layout = _of_first(operands)
    partial = layout.axis == op.axis.value.data
    if partial and op.combines != "sum":
        return None
    values = _values([d.cut(operand, layout) for operand in operands])
    return Placed(emit(d, op, values), PARTIAL if partial else layout)
