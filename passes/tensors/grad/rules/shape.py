"""Derivatives of ops that move elements."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import shape
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(shape.ReshapeOp)
def _reshape(b: TensorBuilder, op: shape.ReshapeOp, g: SSAValue) -> Cotangents:
    return [b.reshape(g, shape_of(op.operand))]


@rule(shape.TransposeOp)
def _transpose(b: TensorBuilder, op: shape.TransposeOp, g: SSAValue) -> Cotangents:
    permutation = op.permutation.get_values()
    return [b.transpose(g, sorted(range(len(permutation)), key=lambda axis: permutation[axis]))]


@rule(shape.BroadcastOp)
def _broadcast(b: TensorBuilder, op: shape.BroadcastOp, g: SSAValue) -> Cotangents:
    dims = op.dims.get_values()
    return [b.sum(g, [axis for axis in range(len(op.shape)) if axis not in dims])]


@rule(shape.SliceOp)
def _slice(b: TensorBuilder, op: shape.SliceOp, g: SSAValue) -> Cotangents:
    start, step = op.start.get_values(), op.step.get_values()
    low: list[int] = []
    high: list[int] = []
    for axis, extent in enumerate(shape_of(op.operand)):
        count = op.shape[axis]
        covered = (count - 1) * step[axis] + 1 if count else 0
        low.append(start[axis])
        high.append(extent - start[axis] - covered)
    zero = b.zeros((), element_of(g))
    return [b.pad(g, zero, low, high, [stride - 1 for stride in step])]


@rule(shape.ReverseOp)
def _reverse(b: TensorBuilder, op: shape.ReverseOp, g: SSAValue) -> Cotangents:
    return [b.reverse(g, op.axes.get_values())]


@rule(shape.PadOp)
def _pad(b: TensorBuilder, op: shape.PadOp, g: SSAValue) -> Cotangents:
    low, interior = op.low.get_values(), op.interior.get_values()
    extents = shape_of(op.operand)
    stop = [a + (n - 1) * (i + 1) + 1 if n else a for a, n, i in zip(low, extents, interior, strict=True)]
    inner = b.slice(g, low, stop, [i + 1 for i in interior])
    axes = range(len(extents))
    return [inner, b.sub(b.sum(g, axes), b.sum(inner, axes))]


@rule(shape.ConcatOp)
def _concat(b: TensorBuilder, op: shape.ConcatOp, g: SSAValue) -> Cotangents:
    axis, start = op.axis.value.data, 0
    pieces: list[SSAValue] = []
    for part in op.parts:
        extent = shape_of(part)[axis]
        low, high = [0] * len(op.shape), list(op.shape)
        low[axis], high[axis] = start, start + extent
        pieces.append(b.slice(g, low, high, [1] * len(op.shape)))
        start += extent
    return pieces


@rule(shape.PackOp)
def _pack(b: TensorBuilder, op: shape.PackOp, g: SSAValue) -> Cotangents:
    return [b.part(g, offset, shape_of(part)) for part, offset in zip(op.parts, op.offsets.get_values(), strict=True)]
