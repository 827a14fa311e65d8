"""Reductions of windows that ONNX has an op for: they are written in its place, and the windows are not.

Runtimes compute `MaxPool` and `AveragePool` faster than what gathers windows. ONNX Runtime's maxima of windows of -inf
alone are the least finite number, so a derivative, which compares elements with them, keeps its windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import reduce
from tensorgrad.dialects.tg.base import constant_value, splat_value
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.convolution import WindowsOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.dialects.tg.shape import PadOp, ReshapeOp
from tensorgrad.exporters.onnx.graph import F64, Graph, dtype_of
from tensorgrad.exporters.onnx.reduce import with_nan
from tensorgrad.exporters.onnx.table import Match, pattern

MOST_AXES = 3
"""The most axes of the windows of ONNX Runtime's pooling."""


@dataclass(frozen=True)
class _Pool:
    """A reduction of all elements of each window.

    Attributes:
        source: What the windows are taken from.
        result: The shape of the result.
        size: The windows' extents.
        stride: The distances between windows.
        dilation: The distances between the elements of a window.
        low: The padding before each axis.
        high: The padding behind it.
    """

    source: SSAValue
    result: Sequence[int]
    size: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]

    def write(self, graph: Graph, name: str, dtype: np.dtype[Any], x: str, **attributes: Any) -> str:
        """Appends an op of ONNX, of `[batch, channels, spatial...]`, to an array of the source's shape."""
        shape, count = shape_of(self.source), len(self.size)
        planes = shape if len(shape) == count + 2 else (1, math.prod(shape[:-count]), *shape[-count:])
        x = x if planes == shape else graph.reshape(x, planes)
        y = graph.typed(
            name,
            dtype,
            x,
            kernel_shape=list(self.size),
            strides=list(self.stride),
            dilations=list(self.dilation),
            pads=[*self.low, *self.high],
            **attributes,
        )
        return y if planes == shape else graph.reshape(y, self.result)

    def counts(self) -> np.ndarray:
        """Returns how many elements of each window are no padding."""
        total = np.ones((), np.int64)
        extents = shape_of(self.source)[-len(self.size) :]
        for extent, count, size, stride, dilation, low in zip(
            extents, self.result[-len(self.size) :], self.size, self.stride, self.dilation, self.low, strict=True
        ):
            at = np.arange(count)[:, None] * stride + np.arange(size) * dilation - low
            total = total[..., None] * ((at >= 0) & (at < extent)).sum(1)
        return total


def _pool(op: reduce.ReduceOp, filling: float) -> _Pool | None:
    """Returns the pooling that a reduction of floats is, if it is one; padding with `filling` is part of it."""
    windows = op.operand.owner
    if not isinstance(windows, WindowsOp) or dtype_of(op.operand).kind != "f":
        return None
    axes, size, stride, dilation = windows.window
    rank, count = len(shape_of(windows.operand)), len(axes)
    if not 0 < count <= MOST_AXES or tuple(axes) != tuple(range(rank - count, rank)):
        return None
    if sorted(op.axes.get_values()) != [*range(rank, rank + count)]:
        return None
    source, low, high = windows.operand, (0,) * count, (0,) * count
    pad = source.owner
    if isinstance(pad, PadOp) and splat_value(pad.operands[1]) == filling:
        before, behind, interior = pad.amounts
        own = [*before[-count:], *behind[-count:]]
        fits = all(0 <= n < least for n, least in zip(own, (*size, *size), strict=True))
        if fits and not any((*interior, *before[:-count], *behind[:-count])):
            source, low, high = pad.operands[0], before[-count:], behind[-count:]
    return _Pool(source, op.shape, size, stride, dilation, low, high)


@pattern(reduce.MaxOp)
def _max_pool(op: reduce.MaxOp) -> Match | None:
    pool = _pool(op, -math.inf)
    if pool is None or any(not isinstance(use.operation, reduce.MaxOp) for use in op.operand.uses):
        return None
    dtype = dtype_of(pool.source)

    def build(graph: Graph) -> str:
        x, largest = graph.value(pool.source), partial(pool.write, graph, "MaxPool")
        return with_nan(graph, dtype, x, largest(dtype, x), largest)

    return Match((pool.source,), build)


def _average(op: reduce.SumOp) -> _Pool | None:
    """Returns the pooling that a sum is, times its windows' size; ONNX Runtime has none in f64."""
    return None if dtype_of(op.operand) == F64 else _pool(op, 0.0)


def _with_padding(op: reduce.SumOp, factor: float) -> Match | None:
    pool = _average(op)
    if pool is None:
        return None
    dtype = dtype_of(op.operand)
    if not _is_one(factor * math.prod(pool.size), dtype):
        return None  # A sum from a mean would not be exact for integers.

    def build(graph: Graph) -> str:
        return pool.write(graph, "AveragePool", dtype, graph.value(pool.source), count_include_pad=1)

    return Match((pool.source,), build)


def _is_one(factor: float, dtype: np.dtype[Any]) -> bool:
    """Returns whether a factor is 1 but for the rounding of a constant."""
    return abs(factor - 1) < float(np.finfo(dtype).eps)


@pattern(arithmetic.MulOp)
def _window_mean(op: arithmetic.MulOp) -> Match | None:
    total, factor = op.operands[0].owner, splat_value(op.operands[1])
    if factor is None:
        return None
    if isinstance(total, reduce.SumOp) and (match := _with_padding(total, factor)) is not None:
        return match
    inner = total.operand.owner if isinstance(total, ReshapeOp) else total
    return _global_mean(inner, op.shape, factor) if isinstance(inner, reduce.SumOp) else None


def _global_mean(op: reduce.SumOp, shape: Sequence[int], factor: float) -> Match | None:
    """Writes `GlobalAveragePool` for the means of whole planes, with or without their axes."""
    extents, dtype = shape_of(op.operand), dtype_of(op.operand)
    kept = (*extents[:2], *[1] * (len(extents) - 2))
    is_plane = len(extents) > 3 and sorted(op.axes.get_values()) == [*range(2, len(extents))]
    if dtype.kind != "f" or dtype == F64 or not is_plane or tuple(shape) not in (kept, extents[:2]):
        return None
    if not _is_one(factor * math.prod(extents[2:]), dtype):
        return None

    def build(graph: Graph) -> str:
        mean = graph.typed("GlobalAveragePool", dtype, graph.value(op.operand))
        return mean if tuple(shape) == kept else graph.reshape(mean, shape)

    return Match((op.operand,), build)


@pattern(arithmetic.DivOp)
def _mean_without_padding(op: arithmetic.DivOp) -> Match | None:
    total, counts = op.operands[0].owner, constant_value(op.operands[1])
    pool = _average(total) if isinstance(total, reduce.SumOp) else None
    if pool is None or counts is None or not np.array_equal(counts, np.broadcast_to(pool.counts(), counts.shape)):
        return None

    def build(graph: Graph) -> str:
        return pool.write(graph, "AveragePool", dtype_of(pool.source), graph.value(pool.source), count_include_pad=0)

    return Match((pool.source,), build)


@pattern(arithmetic.SelectOp)
def _share_with_padding(op: arithmetic.SelectOp) -> Match | None:
    """Writes `x` for `x * factor if x is -inf else x`, of which only the derivative is another."""
    condition, scaled, x = op.operands
    compare, product = condition.owner, scaled.owner
    if not isinstance(compare, arithmetic.CompareOp) or not isinstance(product, arithmetic.MulOp):
        return None
    factor = constant_value(product.operands[1])
    is_kept = compare.predicate.data == "eq" and splat_value(compare.operands[1]) == -math.inf
    if not is_kept or factor is None or (compare.operands[0], product.operands[0]) != (x, x):
        return None
    return Match((x,), lambda graph: graph.value(x)) if (np.isfinite(factor) & (factor > 0)).all() else None
