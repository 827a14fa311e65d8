"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.tracing.tensor import Tensor


def _enter(name: str, function: Callable[..., Tensor]) -> None:
    rule(name)(lambda node: function(node.tensor(0)))


for _name, _function in {"Relu": tg.relu, "Softplus": tg.softplus, "Mish": tg.mish}.items():
    _enter(_name, _function)


@rule("Softsign")
def _softsign(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    return x / (tg.abs(x) + 1.0)


@rule("Gelu", "approximate=none|tanh")
def _gelu(node: OnnxNode) -> Tensor:
    return tg.gelu(node.tensor(0), node.attribute("approximate", "none"))


@rule("Elu", "alpha")
def _elu(node: OnnxNode) -> Tensor:
    return tg.elu(node.tensor(0), node.attribute("alpha", 1.0))


@rule("Celu", "alpha")
def _celu(node: OnnxNode) -> Tensor:
    x, alpha = node.tensor(0), node.attribute("alpha", 1.0)
    positive = tg.greater(x, 0)
    return tg.where(positive, x, tg.expm1(tg.where(positive, 0, x) / alpha) * alpha)


@rule("Selu", "alpha gamma")
def _selu(node: OnnxNode) -> Tensor:
    rounded = node.version < 6
    alpha = node.attribute("alpha", 1.6732 if rounded else 1.67326319217681884765625)
    return tg.elu(node.tensor(0), alpha) * node.attribute("gamma", 1.0507 if rounded else 1.05070102214813232421875)


@rule("LeakyRelu", "alpha")
def _leaky_relu(node: OnnxNode) -> Tensor:
    return tg.leaky_relu(node.tensor(0), node.attribute("alpha", 0.01))


@rule("PRelu", roles={1: Role.WEIGHT})
def _prelu(node: OnnxNode) -> Tensor:
    x, slope = node.tensor(0), node.tensor(1)
    if node.version < 7 and slope.ndim == 1 and x.ndim > 1:  # one slope, or one per channel
        slope = tg.reshape(slope, (-1, *[1] * (x.ndim - 2)))
    return tg.where(tg.less(x, 0), x * slope, x)


@rule("ThresholdedRelu", "alpha")
def _thresholded_relu(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    return tg.where(tg.greater(x, node.attribute("alpha", 1.0)), x, 0)


@rule("HardSigmoid", "alpha beta")
def _hard_sigmoid(node: OnnxNode) -> Tensor:
    return hard_sigmoid(node.tensor(0), node.attribute("alpha", 0.2), node.attribute("beta", 0.5))


def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Returns `alpha * x + beta`, clamped to [0, 1]."""
    return tg.clip(x * alpha + beta, 0.0, 1.0)


@rule("HardSwish")
def _hard_swish(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    return x * hard_sigmoid(x, 1 / 6, 0.5)


@rule("Swish", "alpha")
def _swish(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    return x * tg.sigmoid(x * node.attribute("alpha", 1.0))


@rule("Shrink", "bias lambd")
def _shrink(node: OnnxNode) -> Tensor:
    x = node.tensor(0)
    bias, limit = node.attribute("bias", 0.0), node.attribute("lambd", 0.5)
    moved = tg.where(tg.greater(x, limit), x - bias, 0)
    return tg.where(tg.less(x, -limit), x + bias, moved)


def on_axis(node: OnnxNode, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Applies a function along an axis; before version 13, over this and all later axes, flattened to one."""
    x = node.tensor(0)
    if node.version >= 13:
        return function(x, node.attribute("axis", -1))
    axis = node.attribute("axis", 1) % max(x.ndim, 1)
    rows = math.prod(x.shape[:axis])
    return tg.reshape(function(tg.reshape(x, (rows, -1)), 1), x.shape)


@rule("Softmax", "axis")
def _softmax(node: OnnxNode) -> Tensor:
    return on_axis(node, tg.softmax)


@rule("LogSoftmax", "axis")
def _log_softmax(node: OnnxNode) -> Tensor:
    return on_axis(node, tg.log_softmax)


@rule("Hardmax", "axis")
def _hardmax(node: OnnxNode) -> Tensor:
    def hardmax(x: Tensor, axis: int) -> Tensor:
        chosen = tg.one_hot(tg.argmax(x, axis), x.shape[axis], x.dtype)
        return tg.moveaxis(chosen, -1, axis)

    return on_axis(node, hardmax)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Affine": lambda x, alpha=1.0, beta=0.0: x * alpha + beta,
    "Elu": tg.elu,
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": tg.leaky_relu,
    "Relu": tg.relu,
    "ScaledTanh": lambda x, alpha=1.0, beta=1.0: tg.tanh(x * beta) * alpha,
    "Sigmoid": tg.sigmoid,
    "Softplus": tg.softplus,
    "Softsign": lambda x: x / (tg.abs(x) + 1.0),
    "Tanh": tg.tanh,
    "ThresholdedRelu": lambda x, alpha=1.0: tg.where(tg.greater(x, alpha), x, 0),
}
"""The activations of recurrent layers by name, with parameters alpha and beta."""

PARAMETERS = {"Affine": 2, "Elu": 1, "HardSigmoid": 2, "LeakyRelu": 1, "ScaledTanh": 2, "ThresholdedRelu": 1}
"""The number of parameters (alpha, beta) of an activation."""
