"""Constants, positions, and ops that move or repeat elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tensorgrad.dialects.tg import leaves, shape
from tensorgrad.dialects.tg.base import dense_to_numpy
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.exporters.onnx.graph import Graph, dtype_of
from tensorgrad.exporters.onnx.table import rule


@rule(leaves.ConstantOp)
def _constant(graph: Graph, op: leaves.ConstantOp) -> str | None:
    array = dense_to_numpy(cast(Any, op.value))
    if array.size == 1 or any(array.strides):
        return graph.constant(array)
    graph.defer(op.results[0], graph.constant(array[(0,) * array.ndim].reshape(())))
    return None


@rule(leaves.IotaOp)
def _iota(graph: Graph, op: leaves.IotaOp) -> None:
    axis = op.axis.value.data
    view = [extent if place == axis else 1 for place, extent in enumerate(op.shape)]
    positions = np.arange(op.shape[axis]).astype(dtype_of(op.results[0]))
    graph.defer(op.results[0], graph.constant(positions.reshape(view)))


@rule(shape.ReshapeOp)
def _reshape(graph: Graph, op: shape.ReshapeOp) -> str:
    return graph.reshape(graph.value(op.operand), op.shape)


@rule(shape.TransposeOp)
def _transpose(graph: Graph, op: shape.TransposeOp) -> str:
    return graph.transpose(graph.value(op.operand), op.permutation.get_values())


@rule(shape.BroadcastOp)
def _broadcast(graph: Graph, op: shape.BroadcastOp) -> None:
    x, extents = graph.value(op.operand), iter(shape_of(op.operand))
    if not op.is_leading():
        dims = op.dims.get_values()
        x = graph.reshape(x, [next(extents) if axis in dims else 1 for axis in range(len(op.shape))])
    graph.defer(op.results[0], x)


@rule(shape.SliceOp)
def _slice(graph: Graph, op: shape.SliceOp) -> str:
    start, stop, step = op.bounds
    extents = shape_of(op.operand)
    axes = [axis for axis, extent in enumerate(extents) if (start[axis], stop[axis], step[axis]) != (0, extent, 1)]
    if not axes:
        return graph.value(op.operand)
    starts, stops, steps = (graph.integers([numbers[axis] for axis in axes]) for numbers in (start, stop, step))
    return graph.node("Slice", graph.value(op.operand), starts, stops, graph.integers(axes), steps)


@rule(shape.ReverseOp)
def _reverse(graph: Graph, op: shape.ReverseOp) -> str:
    return reversed_along(graph, graph.value(op.operand), op.axes.get_values())


def reversed_along(graph: Graph, x: str, axes: Sequence[int]) -> str:
    """Appends a reversal of axes."""
    if not axes:
        return x
    before_the_first = np.iinfo(np.int64).min
    starts, stops, steps = (graph.integers([number] * len(axes)) for number in (-1, before_the_first, -1))
    return graph.node("Slice", x, starts, stops, graph.integers(axes), steps)


@rule(shape.PadOp)
def _pad(graph: Graph, op: shape.PadOp) -> str | None:
    if 0 in shape_of(op.operand):
        graph.defer(op.results[0], graph.value(op.value))
        return None
    low, high, interior = op.amounts
    dtype, value, x = dtype_of(op.operand), graph.value(op.value), graph.value(op.operand)
    return padded(graph, x, shape_of(op.operand), dtype, value, low, high, interior)


def padded(
    graph: Graph,
    x: str,
    extents: Sequence[int],
    dtype: np.dtype[Any],
    value: str,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> str:
    """Appends a padding as `tg.pad` defines it; `low` and `high` may also be negative, and crop.

    Elements between others are a new axis behind theirs, of which the last ones are beyond the end.
    """
    if any(interior):
        rank = len(extents)
        holes = graph.reshape(x, [n for extent in extents for n in (extent, 1)])
        ends = [n for inner in interior for n in (0, inner)]
        holes = _pad_more(graph, holes, dtype, value, [0] * (2 * rank), ends)
        extents = [extent * (inner + 1) for extent, inner in zip(extents, interior, strict=True)]
        x = graph.reshape(holes, extents)
        high = [end - inner for end, inner in zip(high, interior, strict=True)]
    x = _pad_more(graph, x, dtype, value, [max(n, 0) for n in low], [max(n, 0) for n in high])
    if min((*low, *high), default=0) >= 0:
        return x
    start = [max(-n, 0) for n in low]
    stop = [extent + max(a, 0) + b for extent, a, b in zip(extents, low, high, strict=True)]
    return graph.node("Slice", x, graph.integers(start), graph.integers(stop))


def _pad_more(graph: Graph, x: str, dtype: np.dtype[Any], value: str, low: Sequence[int], high: Sequence[int]) -> str:
    if not any(low) and not any(high):
        return x
    return graph.typed("Pad", dtype, x, graph.integers([*low, *high]), value, data=(0, 2))


@rule(shape.ConcatOp)
def _concat(graph: Graph, op: shape.ConcatOp) -> str:
    parts = [graph.value(part) for part in op.parts if 0 not in shape_of(part)]
    return graph.node("Concat", *parts, axis=op.axis.value.data)


@rule(shape.PackOp)
def _pack(graph: Graph, op: shape.PackOp) -> str:
    dtype, end, parts = dtype_of(op.results[0]), 0, list[str]()
    for part, offset in zip(op.parts, op.offsets.get_values(), strict=True):
        size = math.prod(shape_of(part))
        parts += [graph.constant(np.zeros(offset - end, dtype)), graph.reshape(graph.value(part), [size])]
        end = offset + size
    parts.append(graph.constant(np.zeros(op.shape[0] - end, dtype)))
    return graph.node("Concat", *parts, axis=0)
