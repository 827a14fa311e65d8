"""Optimizers: one update of each parameter."""

from __future__ import annotations

from typing import Any

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.tensor import Tensor

_DOMAIN = "ai.onnx.preview.training"


def _groups(node: OnnxNode, kinds: int) -> list[tuple[Tensor, ...]]:
    """Returns for each parameter: itself, its gradient, and its states."""
    tensors = [node.tensor(i) for i in range(2, len(node.inputs))]
    count = len(tensors) // kinds
    return [tuple(tensors[kind * count + i] for kind in range(kinds)) for i in range(count)]


def _in_order(updates: list[tuple[Tensor, ...]]) -> Any:
    """Returns all parameters, then all of each state."""
    return tuple(value for kind in zip(*updates, strict=True) for value in kind)


@rule("Adagrad", "decay_factor epsilon norm_coefficient", domain=_DOMAIN)
def _adagrad(node: OnnxNode) -> Any:
    rate, step = node.tensor(0), tg.cast(node.tensor(1), "f32")
    rate = rate / (1.0 + step * node.attribute("decay_factor", 0.0))
    updates: list[tuple[Tensor, ...]] = []
    for x, gradient, squares in _groups(node, 3):
        slope = gradient + x * node.attribute("norm_coefficient", 0.0)
        total = squares + slope * slope
        updates.append((x - rate * slope / (tg.sqrt(total) + node.attribute("epsilon", 1e-6)), total))
    return _in_order(updates)


@rule("Adam", "alpha beta epsilon norm_coefficient norm_coefficient_post", domain=_DOMAIN)
def _adam(node: OnnxNode) -> Any:
    rate, step = node.tensor(0), tg.cast(node.tensor(1), "f32")
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    corrected = rate * tg.sqrt(1.0 - tg.power(tg.full((), beta), step)) / (1.0 - tg.power(tg.full((), alpha), step))
    rate = tg.where(tg.greater(step, 0.0), corrected, rate)
    updates: list[tuple[Tensor, ...]] = []
    for x, gradient, first, second in _groups(node, 4):
        slope = gradient + x * node.attribute("norm_coefficient", 0.0)
        mean = first * alpha + slope * (1 - alpha)
        square = second * beta + slope * slope * (1 - beta)
        new = x - rate * mean / (tg.sqrt(square) + node.attribute("epsilon", 1e-6))
        updates.append((new * (1 - node.attribute("norm_coefficient_post", 0.0)), mean, square))
    return _in_order(updates)


@rule("Momentum", "alpha beta mode=standard|nesterov norm_coefficient", domain=_DOMAIN)
def _momentum(node: OnnxNode) -> Any:
    rate, step = node.tensor(0), node.tensor(1)
    alpha = node.attribute("alpha")
    beta = tg.where(tg.greater(step, 0), node.attribute("beta"), 1.0)
    updates: list[tuple[Tensor, ...]] = []
    for x, gradient, velocity in _groups(node, 3):
        slope = gradient + x * node.attribute("norm_coefficient")
        new = velocity * alpha + slope * beta
        direction = slope + new * alpha if node.attribute("mode") == "nesterov" else new
        updates.append((x - rate * direction, new))
    return _in_order(updates)
