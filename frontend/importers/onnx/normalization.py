"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.tracing.dtypes import NAMES, is_half
from tensorgrad.tracing.tensor import Tensor


def _channelwise(x: Tensor, rank: int) -> Tensor:
    """Returns a vector reshaped to broadcast along axis 1."""
    return tg.reshape(x, (1, -1, *[1] * (rank - 2)))


def _standardized(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    centred = x - tg.mean(x, axes, keepdims=True)
    return centred * tg.rsqrt(tg.mean(centred * centred, axes, keepdims=True) + epsilon)


_DATA_AND_SCALE = {0: Role.TABLE, 1: Role.WEIGHT, 2: Role.WEIGHT}
_BATCH = {**_DATA_AND_SCALE, 3: Role.STATISTIC, 4: Role.STATISTIC}


@rule("BatchNormalization", "epsilon momentum training_mode spatial is_test=1", roles=_BATCH)
def _batch_normalization(node: OnnxNode) -> Any:
    if node.version < 7 and not node.attribute("is_test", 0):
        node.refuse("before version 7, only with is_test = 1")
    if node.version < 14 and any(node.wants(i) for i in range(1, 5)):
        node.refuse("before version 14, only with one output: more of them ask for training")
    x, scale, bias, mean, variance = (node.tensor(i) for i in range(5))
    epsilon, momentum = node.attribute("epsilon", 1e-5), node.attribute("momentum", 0.9)
    outputs: tuple[Tensor, ...] = ()
    if node.attribute("training_mode", 0):
        axes = [0, *range(2, x.ndim)]
        own_mean, own_variance = tg.mean(x, axes), tg.var(x, axes)
        outputs = (
            mean * momentum + own_mean * (1 - momentum),
            variance * momentum + own_variance * (1 - momentum),
        )
        mean, variance = own_mean, own_variance
    factor = scale * tg.rsqrt(variance + epsilon)
    if node.attribute("spatial", 1):
        mean, factor, bias = (_channelwise(part, x.ndim) for part in (mean, factor, bias))
    result = tg.cast((x - mean) * factor + bias, x.dtype)
    return (result, *outputs) if outputs else result


@rule("InstanceNormalization", "epsilon", roles=_DATA_AND_SCALE)
def _instance_normalization(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    scale, bias = (_channelwise(node.tensor(i), x.ndim) for i in (1, 2))
    return _standardized(x, tuple(range(2, x.ndim)), node.attribute("epsilon", 1e-5)) * scale + bias


@rule("GroupNormalization", "epsilon num_groups stash_type", roles=_DATA_AND_SCALE)
def _group_normalization(node: OnnxNode) -> Tensor:
    x, scale, bias = node.tensor(0), node.tensor(1), node.tensor(2)
    groups = node.attribute("num_groups")
    grouped = tg.reshape(x, (x.shape[0], groups, -1))
    normal = tg.reshape(_standardized(grouped, (2,), node.attribute("epsilon", 1e-5)), x.shape)
    if scale.size != x.shape[1]:  # version 18: one per group
        scale, bias = (tg.repeat(part, x.shape[1] // groups, 0) for part in (scale, bias))
    return normal * _channelwise(scale, x.ndim) + _channelwise(bias, x.ndim)


def _stashed(node: OnnxNode, x: Tensor) -> Tensor:
    """Returns a tensor in the dtype in which statistics are computed: f32 for f16 and bf16."""
    return tg.cast(x, NAMES["f32"]) if is_half(x.dtype) and node.attribute("stash_type", 1) == 1 else x


@rule("LayerNormalization", "axis epsilon stash_type=1", roles=_DATA_AND_SCALE)
def _layer_normalization(node: OnnxNode) -> Any:
    tensor = node.tensor(0)
    x = _stashed(node, tensor)
    axes = tuple(range(node.attribute("axis", -1) % x.ndim, x.ndim))
    mean = tg.mean(x, axes, keepdims=True)
    centred = x - mean
    inverse = tg.rsqrt(tg.mean(centred * centred, axes, keepdims=True) + node.attribute("epsilon", 1e-5))
    result = tg.cast(centred * inverse, tensor.dtype) * node.tensor(1)
    return result + node.tensor(2) if node.has(2) else result, mean, inverse


@rule("RMSNormalization", "axis epsilon stash_type=1", roles=_DATA_AND_SCALE)
def _rms_normalization(node: OnnxNode) -> Tensor:
    tensor = node.tensor(0)
    x = _stashed(node, tensor)
    axes = tuple(range(node.attribute("axis", -1) % x.ndim, x.ndim))
    inverse = tg.rsqrt(tg.mean(x * x, axes, keepdims=True) + node.attribute("epsilon", 1e-5))
    return tg.cast(x * inverse, tensor.dtype) * node.tensor(1)


@rule("LpNormalization", "axis p=1|2")
def _lp_normalization(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    size = tg.norm(x, node.attribute("p", 2), node.attribute("axis", -1), keepdims=True)
    empty = tg.equal(size, 0)
    return tg.where(empty, 0, x / tg.where(empty, 1.0, size))


@rule("MeanVarianceNormalization", "axes")
def _mean_variance_normalization(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    axes = list(node.attribute("axes", (0, 2, 3)))
    centred = x - tg.mean(x, axes, keepdims=True)
    return centred / (tg.sqrt(tg.mean(centred * centred, axes, keepdims=True)) + 1e-9)


@rule("LRN", "alpha beta bias size")
def _local_response_normalization(node: OnnxNode) -> Tensor:
    x, size = node.tensor(0), node.attribute("size")
    squares = tg.square(x)
    pairs = [(0, 0)] * x.ndim
    pairs[1] = ((size - 1) // 2, size // 2)
    padded = tg.pad(squares, pairs)
    total = tg.narrow(padded, 1, 0, x.shape[1])
    for start in range(1, size):
        total = total + tg.narrow(padded, 1, start, x.shape[1])
    scale = total * (node.attribute("alpha", 1e-4) / size) + node.attribute("bias", 1.0)
    return x * tg.power(scale, -float(np.float32(node.attribute("beta", 0.75))))
