"""Activations and softmax."""

from __future__ import annotations

import math
from typing import Any

import torch

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, computed_in, rule, same
from tensorgrad.tracing.tensor import Tensor

same(
    {
        "hardsigmoid": tg.hard_sigmoid,
        "hardswish": tg.hard_swish,
        "log_sigmoid": tg.log_sigmoid,
        "mish": tg.mish,
        "relu": tg.relu,
        "relu6": tg.relu6,
        "selu": tg.selu,
        "sigmoid": tg.sigmoid,
        "silu": tg.silu,
    }
)


@rule("log_sigmoid_forward")
def _log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    return tg.log_sigmoid(self), self


@rule("gelu")
def _gelu(self: Tensor, approximate: str = "none") -> Tensor:
    return tg.gelu(self, approximate)


@rule("leaky_relu")
def _leaky_relu(self: Tensor, negative_slope: float = 0.01) -> Tensor:
    return tg.leaky_relu(self, negative_slope)


@rule("prelu _prelu_kernel")
def _prelu(self: Tensor, weight: Tensor) -> Tensor:
    # Channels are the second axis; the weight of a scalar is its only element.
    slope = tg.reshape(weight, (-1, *[1] * (self.ndim - 2)) if self.ndim else ())
    return tg.where(tg.greater(self, 0), self, slope * self)


@rule("elu")
def _elu(self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    positive = tg.greater(self, 0)
    negative = alpha * tg.expm1(tg.where(positive, 0, self) * input_scale)
    return tg.where(positive, self, negative) * scale


@rule("celu")
def _celu(self: Tensor, alpha: float = 1.0) -> Tensor:
    return tg.celu(self, alpha)


@rule("hardtanh")
def _hardtanh(self: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """Unlike that of a clip, its derivative at the bounds is 0."""
    return tg.where(tg.less_equal(self, min_val), min_val, tg.where(tg.greater_equal(self, max_val), max_val, self))


@rule("rrelu_with_noise_functional", is_random=True)
def _rrelu(
    self: Tensor, noise: Tensor, call: Call, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> tuple[Tensor, Tensor]:
    drawn = tg.random.uniform(call.key(), self.shape, lower, upper) if training else (lower + upper) / 2
    slopes = tg.where(tg.greater(self, 0), 1.0, drawn)
    return self * slopes, slopes


@rule("softplus")
def _softplus(self: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return tg.softplus(self, beta, threshold)


@rule("threshold")
def _threshold(self: Tensor, threshold: float, value: float) -> Tensor:
    return tg.where(tg.greater(self, threshold), self, value)


@rule("glu")
def _glu(self: Tensor, dim: int = -1) -> Tensor:
    return tg.glu(self, dim)


def _wide(x: Tensor, dtype: torch.dtype | None, half_to_float: bool) -> Tensor:
    if half_to_float:
        return tg.cast(x, "f32")
    return x if dtype is None else tg.cast(x, computed_in(dtype))


@rule("softmax _softmax")
def _softmax(self: Tensor, dim: int, dtype: torch.dtype | None = None, half_to_float: bool = False) -> Tensor:
    return tg.softmax(_wide(self, dtype, half_to_float), dim)


@rule("_safe_softmax")
def _safe_softmax(self: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    x = _wide(self, dtype, False)
    masked = tg.all(tg.equal(x, -math.inf), dim, keepdims=True)
    return tg.where(masked, 0.0, tg.softmax(tg.where(masked, 0.0, x), dim))


@rule("log_softmax _log_softmax")
def _log_softmax(self: Tensor, dim: int, dtype: torch.dtype | None = None, half_to_float: bool = False) -> Tensor:
    return tg.log_softmax(_wide(self, dtype, half_to_float), dim)


# Losses, which models of some libraries compute themselves


@rule("mse_loss")
def _mse_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced((self - target) ** 2, reduction)


@rule("nll_loss_forward")
def _nll_loss(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, call: Call
) -> tuple[Tensor, Tensor]:
    if self.ndim != 2:
        call.refuse("takes [batch, classes]")
    counted = tg.not_equal(target, ignore_index)
    labels = tg.where(counted, target, 0)
    shares = tg.cast(counted, self.dtype) * (1.0 if weight is None else tg.take(weight, labels))
    losses = -tg.reshape(tg.take_along_axis(self, tg.reshape(labels, (-1, 1)), 1), (-1,)) * shares
    total = tg.sum(shares)
    if reduction == 0:
        return losses, tg.zeros((), self.dtype)
    return (tg.sum(losses) / total if reduction == 1 else tg.sum(losses)), total


def _reduced(losses: Tensor, reduction: int) -> Any:
    return losses if reduction == 0 else tg.mean(losses) if reduction == 1 else tg.sum(losses)
