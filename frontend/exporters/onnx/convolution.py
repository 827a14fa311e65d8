"""Convolutions and sliding windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorgrad.dialects.tg.base import int_lists
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.convolution import ConvOp, FoldOp, WindowsOp, spread
from tensorgrad.exporters.onnx.graph import F16, Graph, dtype_of
from tensorgrad.exporters.onnx.shape import padded, reversed_along
from tensorgrad.exporters.onnx.table import rule


@rule(WindowsOp)
def _windows(graph: Graph, op: WindowsOp) -> str:
    axes, size, stride, dilation = op.window
    return windows(graph, graph.value(op.operand), op.shape, axes, size, stride, dilation)


def windows(
    graph: Graph,
    x: str,
    shape: Sequence[int],
    axes: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> str:
    """Appends the windows along axes, as `tg.windows` defines them, whose shape is known.

    One `Gather` along an axis replaces it by two, the window's number and the place in it; the places then move behind.
    """
    place_of: dict[int, int] = {}
    for done, (axis, n, s, d) in enumerate(sorted(zip(axes, size, stride, dilation, strict=True))):
        positions = np.arange(shape[axis])[:, None] * s + np.arange(n)[None, :] * d
        x = graph.node("Gather", x, graph.constant(positions.astype(np.int64)), axis=axis + done)
        place_of[axis] = axis + done + 1
    rank = len(shape)
    counts = [axis for axis in range(rank) if axis not in place_of.values()]
    return graph.transpose(x, [*counts, *(place_of[axis] for axis in axes)])


@rule(FoldOp)
def _fold(graph: Graph, op: FoldOp) -> str:
    """Adds the places of the windows up, along one axis after another."""
    (axes, stride, dilation), extents = op.window, op.extents.get_values()
    dtype, x, shape = dtype_of(op.operand), graph.value(op.operand), list(shape_of(op.operand))
    wide = np.dtype(np.float32) if dtype == F16 else dtype
    x = x if wide == dtype else graph.cast(x, wide)
    zero = graph.number(0, wide)
    for axis, s, d, extent in reversed([*zip(axes, stride, dilation, extents, strict=True)]):
        size, shape = shape[-1], shape[:-1]
        terms: list[str] = []
        for place in range(size):
            term = graph.node("Gather", x, graph.number(place, np.dtype(np.int64)), axis=len(shape))
            low, interior = ([n if at == axis else 0 for at in range(len(shape))] for n in (place * d, s - 1))
            behind = extent - place * d - spread(shape[axis], s)
            high = [behind if at == axis else 0 for at in range(len(shape))]
            terms.append(padded(graph, term, shape, wide, zero, low, high, interior))
        x = terms[0]
        for term in terms[1:]:
            x = graph.node("Add", x, term)
        shape[axis] = extent
    return x if wide == dtype else graph.cast(x, dtype)


@rule(ConvOp)
def _conv(graph: Graph, op: ConvOp) -> str:
    stride, low, high, lhs_dilation, rhs_dilation = op.window
    groups, dtype = op.groups.value.data, dtype_of(op.lhs)
    x, w, extents, kernel = graph.value(op.lhs), graph.value(op.rhs), shape_of(op.lhs), shape_of(op.rhs)
    transposed = _as_transposed(op) if dtype.kind == "f" else None
    if transposed is not None:
        w = _transposed_weights(graph, w, kernel, groups)
        return graph.typed("ConvTranspose", dtype, x, w, **transposed)
    holes = [n - 1 for n in lhs_dilation]
    if any(holes) or min((*low, *high), default=0) < 0 or dtype.kind != "f":
        zero = graph.number(0, dtype)
        x = padded(graph, x, extents, dtype, zero, [0, 0, *low], [0, 0, *high], [0, 0, *holes])
        low = high = (0,) * len(low)
    if not low:  # a convolution without spatial axes has one of extent 1
        x, w = graph.reshape(x, [*extents, 1]), graph.reshape(w, [*kernel, 1])
        result = graph.typed("Conv", dtype, x, w, group=groups) if dtype.kind == "f" else _product(graph, op, x, w)
        return graph.reshape(result, op.shape)
    if dtype.kind != "f":
        return _product(graph, op, x, w)
    return graph.typed(
        "Conv", dtype, x, w, strides=list(stride), pads=[*low, *high], dilations=list(rhs_dilation), group=groups
    )


def _as_transposed(op: ConvOp) -> dict[str, Any] | None:
    """Returns the attributes of the transposed convolution that a dilated left operand makes of it, if it is one.

    It is the derivative of a convolution with strides, and multiplies none of the zeros in the holes.
    """
    lists = int_lists(op.stride, op.low, op.lhs_dilation, op.rhs_dilation)
    pads_low: list[int] = []
    pads_high: list[int] = []
    more: list[int] = []
    axes = zip(*lists, shape_of(op.lhs)[2:], shape_of(op.rhs)[2:], op.shape[2:], strict=True)
    for stride, low, lhs_dilation, rhs_dilation, extent, size, result in axes:
        reach = (size - 1) * rhs_dilation
        pads_low.append(reach - low)
        behind = (extent - 1) * lhs_dilation + reach + 1 - pads_low[-1] - result
        pads_high.append(max(behind, 0))
        more.append(max(-behind, 0))
        if stride != 1 or pads_low[-1] < 0 or more[-1] >= lhs_dilation:
            return None
    if all(n == 1 for n in lists[2]):
        return None
    return {
        "strides": list(lists[2]),
        "pads": [*pads_low, *pads_high],
        "output_padding": more,
        "dilations": list(lists[3]),
        "group": op.groups.value.data,
    }


def _transposed_weights(graph: Graph, w: str, kernel: Sequence[int], groups: int) -> str:
    """Appends the weights of a transposed convolution: inputs before outputs in each group, and reversed windows."""
    out, channels, *size = kernel
    w = graph.reshape(w, [groups, out // groups, channels, *size])
    w = graph.transpose(w, [0, 2, 1, *range(3, 3 + len(size))])
    w = graph.reshape(w, [groups * channels, out // groups, *size])
    return reversed_along(graph, w, range(2, 2 + len(size)))


def _product(graph: Graph, op: ConvOp, x: str, w: str) -> str:
    """Appends a convolution of integers as a product of matrices: windows by weights, of each group."""
    stride, rhs_dilation = (listed or (1,) for listed in int_lists(op.stride, op.rhs_dilation))
    groups, kernel = op.groups.value.data, shape_of(op.rhs)
    size, counts = kernel[2:] or (1,), op.shape[2:] or (1,)
    batch, channels, rank = op.shape[0], kernel[1], len(size)
    axes = range(2, 2 + rank)
    shape = [batch, channels * groups, *counts, *size]
    taken = windows(graph, x, shape, axes, size, stride, rhs_dilation)
    taken = graph.reshape(taken, [batch, groups, channels, *counts, *size])
    order = [0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)]
    inner = channels * math.prod(size)
    rows = graph.reshape(graph.transpose(taken, order), [batch, groups, math.prod(counts), inner])
    columns = graph.transpose(graph.reshape(w, [groups, kernel[0] // groups, inner]), [0, 2, 1])
    product = graph.typed("MatMul", dtype_of(op.lhs), rows, columns)
    return graph.reshape(graph.transpose(product, [0, 1, 3, 2]), [*op.shape[:2], *counts])
