"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import tensorgrad as tg
from tensorgrad.importers.torch.table import rule
from tensorgrad.tracing.tensor import Tensor


def _channelwise(x: Tensor, rank: int) -> Tensor:
    """Returns a vector shaped to broadcast along axis 1."""
    return tg.reshape(x, (1, -1, *[1] * (rank - 2)))


def _normalized(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    factor = tg.rsqrt(variance + eps)
    if weight is not None:
        factor = factor * weight
    result = (x - _channelwise(mean, x.ndim)) * _channelwise(factor, x.ndim)
    return result if bias is None else result + _channelwise(bias, x.ndim)


@rule("_native_batch_norm_legit_no_training")
def _batch_norm_inference(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    return (_normalized(input, running_mean, running_var, weight, bias, eps),)


@rule("_native_batch_norm_legit_functional")
def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    axes = (0, *range(2, input.ndim))
    mean, variance = tg.mean(input, axes), tg.var(input, axes)
    count = input.size // input.shape[1]
    unbiased = variance * (count / max(count - 1, 1))
    averages = tuple(
        tg.stop_gradient(old * (1 - momentum) + new * momentum)
        for old, new in ((running_mean, mean), (running_var, unbiased))
    )
    return _normalized(input, mean, variance, weight, bias, eps), mean, tg.rsqrt(variance + eps), *averages


@rule("_native_batch_norm_legit")
def _batch_norm_without_statistics(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    axes = (0, *range(2, input.ndim))
    mean, variance = tg.mean(input, axes), tg.var(input, axes)
    return _normalized(input, mean, variance, weight, bias, eps), mean, tg.rsqrt(variance + eps)


@rule("layer_norm")
def _layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    return tg.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


@rule("native_layer_norm")
def _native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    result = tg.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    return result, tg.mean(input, axes, True), tg.rsqrt(tg.var(input, axes, keepdims=True) + eps)


@rule("rms_norm")
def _rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    return tg.rms_norm(input, tuple(normalized_shape), weight, eps)


@rule("_fused_rms_norm")
def _fused_rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, ...]:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    inverse = tg.rsqrt(tg.mean(input * input, axes, True) + (eps or 0.0))
    return tg.rms_norm(input, tuple(normalized_shape), weight, eps), inverse


@rule("group_norm")
def _group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    return tg.group_norm(input, num_groups, weight, bias, eps)


@rule("native_group_norm")
def _native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, ...]:
    grouped = tg.reshape(input, (N, group, -1))
    statistics = tg.mean(grouped, -1), tg.rsqrt(tg.var(grouped, -1) + eps)
    return tg.group_norm(input, group, weight, bias, eps), *statistics


@rule("instance_norm")
def _instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if not use_input_stats and running_mean is not None and running_var is not None:
        return _normalized(input, running_mean, running_var, weight, bias, eps)
    return tg.group_norm(input, input.shape[1], weight, bias, eps)
