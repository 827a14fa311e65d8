"""Derivatives of convolutions, which are convolutions again, and of windows, whose transpose is their fold."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.base import ints
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of
from tensorgrad.dialects.tg.convolution import spread
from tensorgrad.passes.tensors.grad.registry import Cotangents, rule


@rule(convolution.ConvOp)
def _conv(b: TensorBuilder, op: convolution.ConvOp, g: SSAValue) -> Cotangents:
    if not all(map(math.prod, (op.shape, shape_of(op.lhs), shape_of(op.rhs)))):
        return [None, None]
    return [_by_lhs(b, op, g), _by_rhs(b, op, g)]


def _by_lhs(b: TensorBuilder, op: convolution.ConvOp, g: SSAValue) -> SSAValue:
    """Convolves the cotangent with the reversed window: stride and dilation are swapped."""
    stride, low, _, lhs_dilation, rhs_dilation = op.window
    groups = op.groups.value.data
    sizes = shape_of(op.rhs)[2:]
    before = [spread(size, d) - 1 - a for size, d, a in zip(sizes, rhs_dilation, low, strict=True)]
    extents = [spread(n, d) for n, d in zip(shape_of(op.lhs)[2:], lhs_dilation, strict=True)]
    held = [spread(n, s) for n, s in zip(op.shape[2:], stride, strict=True)]
    after = [
        w + spread(size, d) - 1 - h - a
        for w, size, d, h, a in zip(extents, sizes, rhs_dilation, held, before, strict=True)
    ]
    weights = b.reverse(_exchanged(b, op.rhs, 0, groups), range(2, 2 + len(sizes)))
    return b.conv(g, weights, lhs_dilation, before, after, (stride, rhs_dilation), groups)


def _by_rhs(b: TensorBuilder, op: convolution.ConvOp, g: SSAValue) -> SSAValue:
    """Convolves the left operand with the cotangent, summed over the batch: stride and dilation are swapped."""
    stride, low, _, lhs_dilation, rhs_dilation = op.window
    groups = op.groups.value.data
    extents, sizes = shape_of(op.lhs)[2:], shape_of(op.rhs)[2:]
    after = [
        spread(size, r) + spread(count, s) - 1 - spread(n, d) - a
        for size, r, count, s, n, d, a in zip(
            sizes, rhs_dilation, op.shape[2:], stride, extents, lhs_dilation, low, strict=True
        )
    ]
    gradient = b.conv(
        _exchanged(b, op.lhs, 1, groups), _exchanged(b, g), rhs_dilation, low, after, (lhs_dilation, stride), groups
    )
    return _exchanged(b, gradient)


def _exchanged(b: TensorBuilder, x: SSAValue, axis: int = 0, groups: int = 1) -> SSAValue:
    """Returns `x` with its first two axes swapped; the groups in `axis` stay there, and stay separate."""
    first, second, *rest = shape_of(x)
    behind = range(2, 2 + len(rest))
    if groups == 1:
        return b.transpose(x, [1, 0, *behind])
    if axis == 0:
        split = b.reshape(x, [groups, first // groups, second, *rest])
        moved = b.transpose(split, [0, 2, 1, *(place + 1 for place in behind)])
        return b.reshape(moved, [groups * second, first // groups, *rest])
    split = b.reshape(x, [first, groups, second // groups, *rest])
    moved = b.transpose(split, [2, 1, 0, *(place + 1 for place in behind)])
    return b.reshape(moved, [second // groups, groups * first, *rest])


@rule(convolution.WindowsOp)
def _windows(b: TensorBuilder, op: convolution.WindowsOp, g: SSAValue) -> Cotangents:
    axes = op.axes.get_values()
    stride, dilation = op.properties["stride"], op.properties["dilation"]
    extents = ints([shape_of(op.operand)[axis] for axis in axes])
    return [b.emit(convolution.FoldOp, [g], axes=ints(axes), stride=stride, dilation=dilation, extents=extents)]


@rule(convolution.FoldOp)
def _fold(b: TensorBuilder, op: convolution.FoldOp, g: SSAValue) -> Cotangents:
    size = ints(shape_of(op.operand)[len(op.shape) :])
    axes, stride, dilation = (op.properties[name] for name in op.PROPERTIES[:-1])
    return [b.emit(convolution.WindowsOp, [g], axes=axes, size=size, stride=stride, dilation=dilation)]
