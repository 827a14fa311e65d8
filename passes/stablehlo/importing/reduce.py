"""Reductions, of whole axes and of windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Operation, Region, SSAValue

from tensorgrad.dialects.stablehlo import regions as hlo
from tensorgrad.dialects.stablehlo.base import int_of, ints_of
from tensorgrad.dialects.stablehlo.contract import ones, pairs_of
from tensorgrad.dialects.stablehlo.elementwise import CompareOp
from tensorgrad.dialects.stablehlo.shape import BroadcastInDimOp, IotaOp
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, TensorOp, ints, is_float, numpy_dtype, size_of
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of, type_of
from tensorgrad.dialects.tg.convolution import FoldOp, WindowsOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.dialects.tg.index import identity_of
from tensorgrad.dialects.tg.reduce import MaxOp, MinOp, ReduceOp
from tensorgrad.passes.stablehlo.correspondence import ON_BOOLEANS, REDUCTIONS
from tensorgrad.passes.stablehlo.importing.elementwise import meaning
from tensorgrad.passes.stablehlo.importing.fold import folded
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule, Unsupported, scalar_constant
from tensorgrad.passes.stablehlo.importing.shape import padded

BOOLEAN_REDUCTIONS: dict[type[TensorOp], type[ReduceOp]] = {arithmetic.OrOp: MaxOp, arithmetic.AndOp: MinOp}
"""The reductions of 0 and 1 that reduce booleans."""


def applied(region: Region) -> str | None:
    """Returns the name of the op that a region applies to its two arguments; `None` if it does something else."""
    ops, arguments = list(region.block.ops), set(region.block.args)
    if len(ops) != 2 or len(arguments) != 2 or set(ops[0].operands) != arguments:
        return None
    return ops[0].name if list(ops[1].operands) == list(ops[0].results) else None


def neutral(reduction: type[ReduceOp], kind: Tensor) -> NumpyArray:
    """Returns the element that a reduction of elements of a type is not changed by."""
    dtype = numpy_dtype(kind)
    return np.asarray(identity_of(reduction.name.removeprefix("tg."), dtype), dtype)


def _reduce(reader: Reader, op: hlo.ReduceOp) -> SSAValue | Sequence[SSAValue]:
    """Returns the reduction that a region stands for, or else a tree of what it computes."""
    count = len(op.operands) // 2
    known = {1: _by_op, 2: _extreme_and_place}.get(count)
    result = None if known is None else known(reader, op)
    if result is not None:
        return result
    operands = reader.operands(op)
    return folded(reader, op.body, operands[:count], operands[count:], ints_of(op.dimensions))


def _by_op(reader: Reader, op: hlo.ReduceOp) -> SSAValue | None:
    """Returns a reduction by one op; `None` if the region computes something else, or no reduction does it."""
    name = applied(op.body)
    if name is None:
        return None
    (x, init), axes, b = reader.operands(op), ints_of(op.dimensions), reader.builder
    if element_of(x) == i1:
        combine = ON_BOOLEANS.get(name) or meaning(name, [x])
        if combine not in BOOLEAN_REDUCTIONS:
            return None
        reduced = b.reduce(BOOLEAN_REDUCTIONS[combine], b.cast(x, i32), axes)
        return b.emit(combine, [b.cast(reduced, i1), reader.spread(init, shape_of(reduced))])
    if name not in REDUCTIONS:
        return None
    return _with_init(reader, op, REDUCTIONS[name], name, b.reduce(REDUCTIONS[name], x, axes))


def _with_init(reader: Reader, op: Operation, reduction: type[ReduceOp], name: str, reduced: SSAValue) -> SSAValue:
    """Returns a reduction's result combined with its initial value, unless that is neutral."""
    init = op.operands[1]
    if scalar_constant(init) == neutral(reduction, type_of(reduced)).item():
        return reduced
    combine = meaning(name, [reduced])
    return reader.builder.emit(combine, [reader.spread(reader[init], shape_of(reduced)), reduced])


def _extreme_and_place(reader: Reader, op: hlo.ReduceOp) -> Sequence[SSAValue] | None:
    """Returns the extremes of the first operand, and their first places; `None` if the region computes others."""
    axes, block = ints_of(op.dimensions), op.body.block
    names = [body_op.name.partition(".")[2] for body_op in block.ops]
    compare = block.first_op
    if (
        len(axes) != 1
        or not _is_iota(op.operands[1], axes[0])
        or not isinstance(compare, CompareOp)
        or list(compare.operands) != [block.args[0], block.args[2]]
        or compare.direction not in ("gt", "lt")
        or compare.is_total
        or names[-3:] != ["select", "select", "return"]
        or not set(names[:-3]) <= {"compare", "or", "and"}
    ):
        return None
    (x, places, *_), b, axis = reader.operands(op), reader.builder, axes[0]
    element = element_of(x)
    x = b.cast(x, i32) if element == i1 else x
    extreme = b.reduce(MaxOp if compare.direction == "gt" else MinOp, x, axes)
    at = b.compare("eq", x, b.broadcast_like(extreme, x, axes))
    if is_float(element):
        at = b.emit(arithmetic.OrOp, [at, b.compare("ne", x, x)])
    beyond = b.full_like(places, shape_of(x)[axis])
    return b.cast(extreme, element), b.reduce(MinOp, b.select(at, places, beyond), axes)


def _is_iota(value: SSAValue, axis: int) -> bool:
    op = value.owner
    if isinstance(op, BroadcastInDimOp) and isinstance(op.operands[0].owner, IotaOp):
        return ints_of(op.broadcast_dimensions)[int_of(op.operands[0].owner.iota_dimension)] == axis
    return isinstance(op, IotaOp) and int_of(op.iota_dimension) == axis


def _reduce_window(reader: Reader, op: hlo.ReduceWindowOp) -> SSAValue | Sequence[SSAValue]:
    b, name, operands = reader.builder, applied(op.body), reader.operands(op)
    count = len(operands) // 2
    values, starts = operands[:count], operands[count:]
    x, rank = values[0], len(shape_of(values[0]))
    size, stride = ints_of(op.window_dimensions), ints_of(op.window_strides, ones(rank))
    dilation, base = ints_of(op.window_dilations, ones(rank)), ints_of(op.base_dilations, ones(rank))
    padding = pairs_of(op.padding, rank)
    low, high = ([pair[side] for pair in padding] for side in (0, 1))
    holes = [n - 1 for n in base]
    if count > 1 or name not in REDUCTIONS or element_of(x) == i1:
        grown = [padded(b, value, start, low, high, holes) for value, start in zip(values, starts, strict=True)]
        windows = [windows_of(b, value, size, stride, dilation) for value in grown]
        return folded(reader, op.body, [value for value, _ in windows], starts, windows[0][1])
    reduction = REDUCTIONS[name]
    axis = _cumulative(shape_of(x), size, stride, dilation, base, padding)
    if axis is not None:
        result = _accumulated(b, x, reduction, name, axis, reverse=padding[axis][1] > 0)
        return _with_init(reader, op, reduction, name, result)
    grown = padded(b, x, b.constant(neutral(reduction, type_of(x))), low, high, holes)
    windows, axes = windows_of(b, grown, size, stride, dilation)
    return _with_init(reader, op, reduction, name, b.reduce(reduction, windows, axes))


def windows_of(
    b: TensorBuilder, x: SSAValue, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[SSAValue, list[int]]:
    """Returns the windows of a tensor, and the axes of the elements in them."""
    rank = len(size)
    axes = [axis for axis in range(rank) if size[axis] > 1 or stride[axis] > 1]
    if not axes:
        return x, []
    chosen = {
        key: ints([values[axis] for axis in axes])
        for key, values in (("size", size), ("stride", stride), ("dilation", dilation))
    }
    return b.emit(WindowsOp, [x], axes=ints(axes), **chosen), list(range(rank, rank + len(axes)))


def _cumulative(
    shape: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    base: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> int | None:
    """Returns the axis along which windows are all that is before, or after, each element; `None` if they are not."""
    if {*stride, *dilation, *base} - {1}:
        return None
    wide = [axis for axis, extent in enumerate(size) if extent > 1]
    if len(wide) != 1 or size[wide[0]] != shape[wide[0]]:
        return None
    axis, whole = wide[0], shape[wide[0]] - 1
    others = [pair for place, pair in enumerate(padding) if place != axis]
    return axis if padding[axis] in ((whole, 0), (0, whole)) and not any(map(any, others)) else None


def _accumulated(
    b: TensorBuilder, x: SSAValue, reduction: type[ReduceOp], name: str, axis: int, reverse: bool
) -> SSAValue:
    """Returns the cumulative reduction along an axis, in steps that double what each element covers."""
    shape, filling, distance = shape_of(x), b.constant(neutral(reduction, type_of(x))), 1
    nothing = [0] * len(shape)
    while distance < shape[axis]:
        step = [distance if place == axis else 0 for place in range(len(shape))]
        kept = b.slice(
            x,
            step if reverse else nothing,
            shape if reverse else [extent - n for extent, n in zip(shape, step, strict=True)],
            ones(len(shape)),
        )
        moved = b.pad(kept, filling, nothing if reverse else step, step if reverse else nothing, nothing)
        x = b.emit(meaning(name, [x]), [x, moved])
        distance *= 2
    return x


def _select_and_scatter(reader: Reader, op: hlo.SelectAndScatterOp) -> SSAValue:
    select = op.select.block.first_op
    direction = select.direction if isinstance(select, CompareOp) else ""
    if direction not in ("ge", "le") or applied(op.scatter) != "stablehlo.add":
        raise Unsupported("windows select their maximum or minimum, and scatter by add")
    x, source, init = reader.operands(op)
    b, rank = reader.builder, len(shape_of(x))
    size, stride = ints_of(op.window_dimensions, ones(rank)), ints_of(op.window_strides, ones(rank))
    padding = pairs_of(op.padding, rank)
    low, high = ([pair[side] for pair in padding] for side in (0, 1))
    reduction = MaxOp if direction == "ge" else MinOp
    grown = padded(b, x, b.constant(neutral(reduction, type_of(x))), low, high, [0] * rank)
    windows, inner = windows_of(b, grown, size, stride, ones(rank))
    if not inner:
        scattered = source
    else:
        extents = shape_of(windows)
        flat = b.reshape(windows, [*extents[:rank], size_of(extents[rank:])])
        extreme = b.broadcast_like(b.reduce(reduction, flat, [rank]), flat, [rank])
        places = b.iota(shape_of(flat), rank, i32)
        at = b.select(b.compare("eq", flat, extreme), places, b.full_like(places, shape_of(flat)[rank]))
        chosen = b.compare("eq", places, b.broadcast_like(b.reduce(MinOp, at, [rank]), flat, [rank]))
        kept = b.select(chosen, b.broadcast_like(source, flat, [rank]), b.full_like(flat, 0))
        scattered = _folded(b, b.reshape(kept, extents), shape_of(grown), size, stride)
    cropped = b.slice(
        scattered,
        [max(n, 0) for n in low],
        [max(n, 0) + extent for n, extent in zip(low, shape_of(x), strict=True)],
        ones(rank),
    )
    if scalar_constant(op.operands[2]) == 0:
        return cropped
    return b.add(cropped, reader.spread(init, shape_of(cropped)))


def _folded(
    b: TensorBuilder, windows: SSAValue, shape: Sequence[int], size: Sequence[int], stride: Sequence[int]
) -> SSAValue:
    """Returns the sum of windows at their places in a tensor of a shape."""
    axes = [axis for axis in range(len(size)) if size[axis] > 1 or stride[axis] > 1]
    return b.emit(
        FoldOp,
        [windows],
        axes=ints(axes),
        stride=ints([stride[axis] for axis in axes]),
        dilation=ints(ones(len(axes))),
        extents=ints([shape[axis] for axis in axes]),
    )


RULES: dict[str, Rule] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
