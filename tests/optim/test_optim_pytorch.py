"""Optimizers compared with PyTorch's on the same recorded gradients; Lion with its formula in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg

STEPS = 50
SHAPES = {"matrix": (5, 7), "vector": (11,), "scalar": ()}
Values = dict[str, np.ndarray]


class Parameters(tg.nn.Module):
    def __init__(self, start: Values):
        self.matrix = tg.nn.param((5, 7), init=start["matrix"])
        self.vector = tg.nn.param((11,), init=start["vector"])
        self.scalar = tg.nn.param((), init=start["scalar"])


def fed(model: Any, matrix: Any, vector: Any, scalar: Any) -> Any:
    """A loss whose gradients are its inputs."""
    return tg.sum(model.matrix * matrix) + tg.sum(model.vector * vector) + model.scalar * scalar


def recorded() -> tuple[Values, list[Values]]:
    generator = np.random.default_rng(7)

    def values(scale: float) -> Values:
        return {name: np.asarray(generator.normal(size=s) * scale, np.float32) for name, s in SHAPES.items()}

    return values(1.0), [values(10.0 ** generator.uniform(-2, 1)) for _ in range(STEPS)]


def ours(
    optimizer: Any, start: Values, gradients: list[Values], rates: list[float], device: tg.DeviceName = "numpy"
) -> Values:
    training = tg.compile(Parameters(start), loss=fed, optimizer=optimizer, inputs=SHAPES, device=device)
    for rate, gradient in zip(rates, gradients, strict=True):
        training.set_learning_rate(rate)
        training.step(**gradient)
    return training.parameters()


def theirs(
    make: Callable[..., Any], options: dict[str, Any], start: Values, gradients: list[Values], rates: list[float]
) -> Values:
    options = dict(options)
    clip_norm = options.pop("clip_norm", None)
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()}
    optimizer = make(list(parameters.values()), lr=rates[0], **options)
    for rate, gradient in zip(rates, gradients, strict=True):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradient[name])
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return {name: parameter.detach().numpy() for name, parameter in parameters.items()}


def check(actual: Values, expected: Values) -> None:
    for name, value in expected.items():
        difference = np.linalg.norm(actual[name].astype(np.float64) - value)
        assert difference <= 1e-5 * np.linalg.norm(value), name


CASES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"weight_decay": 0.1}),
    ("sgd", {"momentum": 0.9}),
    ("sgd", {"momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1}),
    ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("sgd", {"momentum": 0.9, "clip_norm": 1.0}),
    ("adam", {}),
    ("adam", {"betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}),
    ("adamw", {}),
    ("adamw", {"betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.5}),
    ("adamw", {"clip_norm": 1.0}),
    ("adagrad", {}),
    ("adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-6}),
    ("adafactor", {}),
    ("adafactor", {"eps": (1e-5, 1e-2), "d": 1.5, "beta2_decay": -0.5, "weight_decay": 0.1}),
    ("adafactor", {"clip_norm": 1.0}),
    ("rmsprop", {}),
    ("rmsprop", {"alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1}),
    ("rmsprop", {"momentum": 0.8}),
    ("rmsprop", {"centered": True}),
    ("rmsprop", {"centered": True, "momentum": 0.8, "alpha": 0.9, "weight_decay": 0.1, "clip_norm": 2.0}),
]
PEERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sgd": (tg.optim.sgd, torch.optim.SGD),
    "adam": (tg.optim.adam, torch.optim.Adam),
    "adamw": (tg.optim.adamw, torch.optim.AdamW),
    "adafactor": (tg.optim.adafactor, torch.optim.Adafactor),
    "adagrad": (tg.optim.adagrad, torch.optim.Adagrad),
    "rmsprop": (tg.optim.rmsprop, torch.optim.RMSprop),
}
RATES = [1e-2] * 25 + [2e-3] * 25


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: str(value))
def test_updates_are_those_of_pytorch(name: str, options: dict[str, Any]):
    make, torch_make = PEERS[name]
    start, gradients = recorded()
    check(
        ours(make(RATES[0], **options), start, gradients, RATES), theirs(torch_make, options, start, gradients, RATES)
    )


@pytest.mark.parametrize(("name", "options"), [CASES[i] for i in (5, 10, 12, 14, 20)], ids=lambda value: str(value))
def test_updates_on_a_device_are_those_of_pytorch(name: str, options: dict[str, Any]):
    make, torch_make = PEERS[name]
    start, gradients = recorded()
    parameters = ours(make(RATES[0], **options), start, gradients, RATES, "wgpu")
    check(parameters, theirs(torch_make, options, start, gradients, RATES))


@pytest.mark.parametrize("options", [{}, {"betas": (0.8, 0.95), "weight_decay": 0.3}], ids=str)
def test_lion_is_that_of_its_paper(options: dict[str, Any]):
    start, gradients = recorded()
    beta1, beta2 = options.get("betas", (0.9, 0.99))
    decay = options.get("weight_decay", 0.0)
    expected = {name: value.astype(np.float64) for name, value in start.items()}
    means = {name: np.zeros_like(value) for name, value in expected.items()}
    for rate, gradient in zip(RATES, gradients, strict=True):
        for name, value in expected.items():
            direction = np.sign(beta1 * means[name] + (1 - beta1) * gradient[name])
            expected[name] = value - rate * (direction + decay * value)
            means[name] = beta2 * means[name] + (1 - beta2) * gradient[name]
    check(ours(tg.optim.lion(RATES[0], **options), start, gradients, RATES), expected)
