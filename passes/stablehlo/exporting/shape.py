"""Leaves, and ops that only move elements."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.stablehlo.base import int_array
from tensorgrad.dialects.tg import leaves, shape
from tensorgrad.dialects.tg.base import TensorOp, size_of, tensor
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.stablehlo.exporting.writer import Rule, Writer


def _constant(writer: Writer, op: leaves.ConstantOp) -> SSAValue:
    return writer.one("stablehlo.constant", [], op.type, value=op.value)


def _iota(writer: Writer, op: leaves.IotaOp) -> SSAValue:
    return writer.iota(op.shape, op.axis.value.data, op.type.get_element_type())


def _reshape(writer: Writer, op: shape.ReshapeOp) -> SSAValue:
    return writer.reshape(writer[op.operand], op.shape)


def _transpose(writer: Writer, op: shape.TransposeOp) -> SSAValue:
    return writer.transpose(writer[op.operand], op.permutation.get_values())


def _broadcast(writer: Writer, op: shape.BroadcastOp) -> SSAValue:
    return writer.broadcast(writer[op.operand], op.shape, op.dims.get_values())


def _slice(writer: Writer, op: shape.SliceOp) -> SSAValue:
    start, stop, step = map(int_array, op.bounds)
    return writer.one(
        "stablehlo.slice", [writer[op.operand]], op.type, start_indices=start, limit_indices=stop, strides=step
    )


def _reverse(writer: Writer, op: shape.ReverseOp) -> SSAValue:
    return writer.one("stablehlo.reverse", [writer[op.operand]], op.type, dimensions=int_array(op.axes.get_values()))


def _pad(writer: Writer, op: shape.PadOp) -> SSAValue:
    low, high, interior = map(int_array, op.amounts)
    return writer.one(
        "stablehlo.pad",
        writer.operands(op),
        op.type,
        edge_padding_low=low,
        edge_padding_high=high,
        interior_padding=interior,
    )


def _joined(writer: Writer, parts: list[SSAValue], op: TensorOp, axis: int) -> SSAValue:
    return writer.one("stablehlo.concatenate", parts, op.type, dimension=IntegerAttr(axis, i64))


def _concat(writer: Writer, op: shape.ConcatOp) -> SSAValue:
    return _joined(writer, writer.operands(op), op, op.axis.value.data)


def _pack(writer: Writer, op: shape.PackOp) -> SSAValue:
    parts: list[SSAValue] = []
    end = 0
    for part, offset in zip(writer.operands(op), op.offsets.get_values(), strict=True):
        parts += _zeros(writer, op, offset - end)
        size = size_of(shape_of(part))
        parts.append(writer.reshape(part, [size]))
        end = offset + size
    return _joined(writer, parts + _zeros(writer, op, op.shape[0] - end), op, 0)


def _zeros(writer: Writer, op: TensorOp, count: int) -> list[SSAValue]:
    return [writer.full(tensor([count], element_of(op.results[0])), 0)] if count else []


RULES: dict[type[Operation], Rule] = {
    leaves.ConstantOp: _constant,
    leaves.IotaOp: _iota,
    shape.ReshapeOp: _reshape,
    shape.TransposeOp: _transpose,
    shape.BroadcastOp: _broadcast,
    shape.SliceOp: _slice,
    shape.ReverseOp: _reverse,
    shape.PadOp: _pad,
    shape.ConcatOp: _concat,
    shape.PackOp: _pack,
}
