"""Convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.dialects.tg.convolution import spread
from tensorgrad.importers.onnx.contractions import shifted
from tensorgrad.importers.onnx.quantization import quantized
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.ops.pooling import Pool
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Array, Tensor

_WINDOW = "auto_pad=NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations kernel_shape pads strides"


def listed(node: OnnxNode, name: str, count: int, default: int = 1) -> list[int]:
    """Returns an attribute of integers; by default `count` times `default`."""
    return [int(number) for number in node.attribute(name, None) or [default] * count]


def pairs(pads: Sequence[int]) -> list[tuple[int, int]]:
    """Returns (before, after) paddings per axis, from ONNX's order: all before, then all after."""
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:], strict=True))


def paddings(node: OnnxNode, extents: Sequence[int], window: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the padding before and after each spatial axis of these extents."""
    count, how = len(window), node.attribute("auto_pad", "NOTSET")
    if how == "NOTSET":
        return pairs(listed(node, "pads", 2 * count, 0))
    if how == "VALID":
        return [(0, 0)] * count
    steps, holes = listed(node, "strides", count), listed(node, "dilations", count)
    spans = [spread(size, hole) for size, hole in zip(window, holes, strict=True)]
    totals = [max((-(-n // s) - 1) * s + span - n, 0) for n, s, span in zip(extents, steps, spans, strict=True)]
    return [_halves(total, how == "SAME_UPPER") for total in totals]


def _halves(total: int, more_behind: bool) -> tuple[int, int]:
    low = total // 2 if more_behind else total - total // 2
    return low, total - low


# Convolutions


def _convolution(node: OnnxNode, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    count = x.ndim - 2
    return tg.conv(
        x,
        w,
        bias,
        listed(node, "strides", count),
        paddings(node, x.shape[2:], w.shape[2:]),
        listed(node, "dilations", count),
        node.attribute("group", 1),
    )


_CONVOLUTION = {0: Role.TABLE, 1: Role.WEIGHT, 2: Role.WEIGHT}


@rule("Conv", f"{_WINDOW} group", roles=_CONVOLUTION)
def _conv(node: OnnxNode) -> Tensor:
    return _convolution(node, node.tensor(0), node.tensor(1), node.optional(2))


@rule("ConvInteger", f"{_WINDOW} group")
def _conv_integer(node: OnnxNode) -> Tensor:
    return _convolution(
        node, shifted(node.tensor(0), node.optional(2)), shifted(node.tensor(1), node.optional(3), 0), None
    )


@rule("ConvTranspose", f"{_WINDOW} group output_padding output_shape", roles=_CONVOLUTION)
def _conv_transpose(node: OnnxNode) -> Tensor:
    x, w = node.tensor(0), node.tensor(1)
    count = x.ndim - 2
    steps, holes = listed(node, "strides", count), listed(node, "dilations", count)
    more = listed(node, "output_padding", count, 0)
    how, extents = node.attribute("auto_pad", "NOTSET"), node.attribute("output_shape")
    pads = pairs(listed(node, "pads", 2 * count, 0)) if how == "NOTSET" else [(0, 0)] * count
    if extents is None and how.startswith("SAME"):
        extents = [n * s for n, s in zip(x.shape[2:], steps, strict=True)]
    if extents is not None:
        for i, extent in enumerate(list(extents)[-count:]):
            full = (x.shape[2 + i] - 1) * steps[i] + more[i] + spread(w.shape[2 + i], holes[i])
            pads[i] = _halves(max(full - extent, 0), how == "SAME_UPPER")
            more[i] += max(extent - full, 0)
    return tg.conv_transpose(x, w, node.optional(2), steps, pads, more, holes, node.attribute("group", 1))


# Pooling


def _pool(node: OnnxNode, x: Tensor) -> Pool:
    window = listed(node, "kernel_shape", x.ndim - 2)
    count = len(window)
    pads = paddings(node, x.shape[2:], window)
    holes, steps = listed(node, "dilations", count), listed(node, "strides", count)
    how = node.attribute("auto_pad", "NOTSET")
    rounds_up = bool(node.attribute("ceil_mode", 0)) and how in ("NOTSET", "VALID")
    return Pool(node.op, x, window, steps, pads, holes, rounds_up)


def _reduced(x: Tensor, pool: Pool) -> tuple[int, ...]:
    return tuple(range(x.ndim, x.ndim + len(pool.axes)))


@rule("MaxPool", f"{_WINDOW} ceil_mode storage_order")
def _max_pool(node: OnnxNode) -> Any:
    x = node.tensor(0)
    pool = _pool(node, x)
    lowest = -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    windows = pool.windows(x, lowest)
    result = tg.max(windows, _reduced(x, pool))
    if not node.wants(1):
        return result
    places = np.arange(x.size, dtype=np.int32)
    if node.attribute("storage_order", 0):
        # Positions within a plane are in column-major order.
        planes, extents = math.prod(x.shape[:2]), x.shape[2:]
        order = np.arange(math.prod(extents)).reshape(extents[::-1]).transpose()
        places = (np.arange(planes)[:, None] * math.prod(extents) + order.reshape(1, -1)).astype(np.int32).reshape(-1)
    named = pool.windows(Array(places.reshape(x.shape)), -1)
    size = math.prod(pool.size)
    flat = tg.reshape(windows, (*result.shape, size))
    first = tg.expand_dims(tg.argmax(flat, -1), -1)
    return result, tg.reshape(tg.take_along_axis(tg.reshape(named, (*result.shape, size)), first, -1), result.shape)


@rule("AveragePool", f"{_WINDOW} ceil_mode count_include_pad")
def _average_pool(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    pool = _pool(node, x)
    total = tg.sum(pool.windows(x, 0.0), _reduced(x, pool))
    counts = pool.counts(bool(node.attribute("count_include_pad", 0)))
    return total / Array(counts.astype(x.dtype))


@rule("LpPool", f"{_WINDOW} ceil_mode p")
def _lp_pool(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    pool = _pool(node, x)
    return tg.norm(pool.windows(x, 0.0), node.attribute("p", 2), _reduced(x, pool))


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@rule("GlobalAveragePool")
def _global_average_pool(node: OnnxNode) -> Tensor:
    return tg.global_avg_pool(node.tensor(0), keepdims=True)


@rule("GlobalMaxPool")
def _global_max_pool(node: OnnxNode) -> Tensor:
    return tg.global_max_pool(node.tensor(0), keepdims=True)


@rule("GlobalLpPool", "p")
def _global_lp_pool(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    return tg.norm(x, node.attribute("p", 2), _spatial(x), keepdims=True)


# From windows to images


@rule("Col2Im", "dilations pads strides", constants=(1, 2))
def _col2im(node: OnnxNode) -> Tensor:
    columns, image, block = node.tensor(0), node.integers(1), node.integers(2)
    count = len(image)
    steps, holes = listed(node, "strides", count), listed(node, "dilations", count)
    pads = pairs(listed(node, "pads", 2 * count, 0))
    return tg.col2im(columns, image, block, steps, pads, holes)


@rule("QLinearConv", f"{_WINDOW} group")
def _qlinear_conv(node: OnnxNode) -> Tensor:
    x = shifted(node.tensor(0), node.tensor(2))
    w = shifted(node.tensor(3), node.tensor(5), 0)
    total = _convolution(node, x, w, node.optional(8))
    scale = node.tensor(1) * node.tensor(4)
    scale = tg.reshape(scale, [-1, *([1] * (total.ndim - 2))]) if scale.size > 1 else tg.reshape(scale, ())
    return quantized(tg.cast(total, NAMES["f32"]) * scale, node.tensor(6), node.tensor(7), node.tensor(7).dtype)


@rule("CausalConvWithState", "activation=none|silu|swish", roles=_CONVOLUTION)
def _causal_convolution(node: OnnxNode) -> Any:
    """Convolves each channel, prefixed by the previous part's last elements; this part's are the new state."""
    x, w = node.tensor(0), node.tensor(1)
    batch, channels, _ = x.shape
    behind = w.shape[2] - 1
    before = node.tensor(3) if node.has(3) else tg.zeros((batch, channels, behind), x.dtype)
    padded = tg.concat([before, x], 2)
    result = tg.conv(padded, w, node.optional(2), groups=channels)
    if node.attribute("activation", "none") != "none":
        result = tg.cast(tg.silu(tg.cast(result, NAMES["f32"])), x.dtype)
    return result, tg.narrow(padded, 2, padded.shape[2] - behind, behind)
