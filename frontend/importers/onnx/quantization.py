"""Quantized numbers.

Integers of 8 and 16 bits with a scale and a zero point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

import tensorgrad as tg
from tensorgrad.importers.onnx.contractions import shifted
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.dtypes import NAMES, DType
from tensorgrad.tracing.tensor import Tensor


def quantized(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """`round(x / scale) + zero`, clamped to the range of an integer dtype."""
    limits = np.iinfo(dtype)
    level = tg.round(x / scale)
    if zero is not None:
        level = level + tg.cast(zero, level.dtype)
    return tg.cast(tg.clip(level, float(limits.min), float(limits.max)), dtype)


def _along(x: Tensor, part: Tensor, node: OnnxNode) -> Tensor:
    """Returns a scale or zero point broadcast to `x`'s shape: per tensor, per axis or per block."""
    if part.size == 1:
        return tg.reshape(part, ())
    axis = node.attribute("axis", 1) % x.ndim
    if part.ndim == 1:
        return tg.reshape(part, [-1 if i == axis else 1 for i in range(x.ndim)])
    block = node.attribute("block_size", 0) or math.ceil(x.shape[axis] / part.shape[axis])
    return tg.narrow(tg.repeat(part, block, axis), axis, 0, x.shape[axis])


@rule("QuantizeLinear", "axis block_size output_dtype precision=0|1 saturate")
def _quantize_linear(node: OnnxNode) -> Tensor:
    x = tg.cast(node.tensor(0), NAMES["f32"])
    zero = _along(x, node.tensor(2), node) if node.has(2) else None
    asked = node.attribute("output_dtype", 0) or TensorProto.UINT8
    dtype = node.dtype(asked) if zero is None else zero.dtype
    return quantized(x, _along(x, tg.cast(node.tensor(1), NAMES["f32"]), node), zero, dtype)


@rule("DequantizeLinear", "axis block_size output_dtype", carries=(0,))
def _dequantize_linear(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    scale = _along(x, node.tensor(1), node)
    zero = _along(x, node.tensor(2), node) if node.has(2) else None
    result = tg.cast(shifted(x, zero), NAMES["f32"]) * tg.cast(scale, NAMES["f32"])
    element = node.attribute("output_dtype", 0)
    return tg.cast(result, node.dtype(element) if element else scale.dtype)


@rule("DynamicQuantizeLinear")
def _dynamic_quantize_linear(node: OnnxNode) -> Any:
    x = node.tensor(0)
    least, largest = tg.minimum(tg.min(x), 0.0), tg.maximum(tg.max(x), 0.0)
    scale = (largest - least) / 255.0
    zero = tg.clip(tg.round(tg.negative(least) / scale), 0.0, 255.0)
    return quantized(x, scale, zero, NAMES["u8"]), scale, tg.cast(zero, NAMES["u8"])


@rule("QLinearMatMul")
def _qlinear_matmul(node: OnnxNode) -> Tensor:
    x = shifted(node.tensor(0), node.tensor(2), -2)
    y = shifted(node.tensor(3), node.tensor(5), -1)
    scale = node.tensor(1) * node.tensor(4)
    scale = tg.reshape(scale, ()) if scale.size == 1 else scale
    total = tg.cast(tg.matmul(x, y), NAMES["f32"]) * tg.cast(scale, NAMES["f32"])
    zero = tg.reshape(node.tensor(7), ())
    return quantized(total, tg.cast(tg.reshape(node.tensor(6), ()), NAMES["f32"]), zero, zero.dtype)
