"""Constants, positions, and ops that only move elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import SSAValue

from tensorgrad.dialects.stablehlo import shape as hlo
from tensorgrad.dialects.stablehlo.base import int_of, ints_of
from tensorgrad.dialects.tg.base import integer
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.dialects.tg.shape import ConcatOp
from tensorgrad.passes.stablehlo.importing.reader import Reader, Rule


def _iota(reader: Reader, op: hlo.IotaOp) -> SSAValue:
    kind = reader.kind(op.kind)
    return reader.builder.iota(kind.get_shape(), int_of(op.iota_dimension), kind.get_element_type())


def _broadcast(reader: Reader, op: hlo.BroadcastInDimOp) -> SSAValue:
    return broadcast_in_dim(
        reader.builder, reader[op.operands[0]], op.kind.get_shape(), ints_of(op.broadcast_dimensions)
    )


def broadcast_in_dim(b: TensorBuilder, x: SSAValue, shape: Sequence[int], dims: Sequence[int]) -> SSAValue:
    """Returns `x` with axis `i` as axis `dims[i]` of a shape; axes of extent 1, and all others, repeat."""
    order = sorted(range(len(dims)), key=dims.__getitem__)
    x = b.transpose(x, order)
    places = [dims[axis] for axis in order]
    kept = [axis for axis, place in enumerate(places) if shape_of(x)[axis] == shape[place]]
    x = b.reshape(x, [shape_of(x)[axis] for axis in kept])
    return b.broadcast(x, shape, [places[axis] for axis in kept])


def _reshape(reader: Reader, op: hlo.ReshapeOp) -> SSAValue:
    return reader.builder.reshape(reader[op.operands[0]], op.kind.get_shape())


def _transpose(reader: Reader, op: hlo.TransposeOp) -> SSAValue:
    return reader.builder.transpose(reader[op.operands[0]], ints_of(op.permutation))


def _reverse(reader: Reader, op: hlo.ReverseOp) -> SSAValue:
    return reader.builder.reverse(reader[op.operands[0]], ints_of(op.dimensions))


def _concatenate(reader: Reader, op: hlo.ConcatenateOp) -> SSAValue:
    operands, axis = reader.operands(op), int_of(op.dimension)
    return operands[0] if len(operands) == 1 else reader.builder.emit(ConcatOp, operands, axis=integer(axis))


def _pad(reader: Reader, op: hlo.PadOp) -> SSAValue:
    x, value = reader.operands(op)
    low, high, interior = map(ints_of, (op.edge_padding_low, op.edge_padding_high, op.interior_padding))
    return padded(reader.builder, x, value, low, high, interior)


def padded(
    b: TensorBuilder, x: SSAValue, value: SSAValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> SSAValue:
    """Returns `x` padded, or cropped where `low` or `high` is negative."""
    grown = b.pad(x, value, [max(n, 0) for n in low], [max(n, 0) for n in high], interior)
    if min((*low, *high), default=0) >= 0:
        return grown
    start = [max(-n, 0) for n in low]
    stop = [extent - max(-n, 0) for extent, n in zip(shape_of(grown), high, strict=True)]
    return b.slice(grown, start, [max(a, b) for a, b in zip(start, stop, strict=True)], [1] * len(low))


def _slice(reader: Reader, op: hlo.SliceOp) -> SSAValue:
    bounds = map(ints_of, (op.start_indices, op.limit_indices, op.strides))
    return reader.builder.slice(reader[op.operands[0]], *bounds)


def limited(b: TensorBuilder, start: SSAValue, most: int) -> SSAValue:
    """Returns indices moved to between 0 and `most`; those of fewer than 32 bits become i32."""
    if getattr(element_of(start), "bitwidth", 32) < 32 or element_of(start) == i1:
        start = b.cast(start, i32)
    above = b.emit(arithmetic.MaximumOp, [start, b.full_like(start, 0)])
    return b.emit(arithmetic.MinimumOp, [above, b.full_like(start, most)])


def _positions_from(b: TensorBuilder, start: SSAValue, most: int, size: int) -> SSAValue:
    """Returns the `size` positions from a scalar on, which is moved to between 0 and `most`."""
    first = limited(b, start, most)
    return b.add(b.broadcast(first, [size], []), b.iota([size], 0, element_of(first)))


def _dynamic_slice(reader: Reader, op: hlo.DynamicSliceOp) -> SSAValue:
    x, *starts = reader.operands(op)
    b = reader.builder
    for axis, (start, size) in enumerate(zip(starts, ints_of(op.slice_sizes), strict=True)):
        extent = shape_of(x)[axis]
        if size != extent:
            x = b.take(x, _positions_from(b, start, extent - size, size), axis)
    return x


def _dynamic_update_slice(reader: Reader, op: hlo.DynamicUpdateSliceOp) -> SSAValue:
    x, update, *starts = reader.operands(op)
    b, shape = reader.builder, shape_of(x)
    inside: SSAValue | None = None
    for axis, start in enumerate(starts):
        extent, size = shape[axis], shape_of(update)[axis]
        if size == extent:
            continue
        first = limited(b, start, extent - size)
        offset = b.sub(b.iota([extent], 0, element_of(first)), b.broadcast(first, [extent], []))
        update = b.take(update, limited(b, offset, max(size - 1, 0)), axis)
        above, below = (
            b.compare("ge", offset, b.full_like(offset, 0)),
            b.compare("lt", offset, b.full_like(offset, size)),
        )
        within = b.broadcast(b.emit(arithmetic.AndOp, [above, below]), shape, [axis])
        inside = within if inside is None else b.emit(arithmetic.AndOp, [inside, within])
    return update if inside is None else b.select(inside, update, x)


RULES: dict[str, Rule] = {
    "stablehlo.constant": Reader.constant,
    "stablehlo.iota": _iota,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.reverse": _reverse,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
    "stablehlo.slice": _slice,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
}
