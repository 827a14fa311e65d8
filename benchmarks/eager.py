"""Compares an eager training step with the compiled one and with PyTorch's eager step, in one run.

There are two models: two layers that fit a sine (the workload `sine`), dominated by overhead, and a perceptron on
digits. The three steps alternate on the same batches, and their ratios are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg
from benchmarks.harness import Contestant, Timing, measure, report
from benchmarks.workloads import sine

DIGITS = 64
"""The batch size of the perceptron."""


def digits_batch() -> dict[str, np.ndarray]:
    """Returns a batch of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    return {"x": (digits.data[:DIGITS] / 16).astype(np.float32), "y": digits.target[:DIGITS].astype(np.int32)}


def sine_loss(model: tg.nn.Module, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.mse(model(x), y)


def digits_loss(model: tg.nn.Module, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(x), y)


def contestants(
    sizes: Sequence[int],
    activation: str,
    loss: Callable[..., tg.Tensor],
    batch: dict[str, np.ndarray],
    device: tg.DeviceName,
) -> list[Contestant]:
    """Returns the eager step, the compiled one, and PyTorch's, of a perceptron."""

    def build() -> tg.nn.MLP:
        return tg.nn.MLP(sizes[0], tuple(sizes[1:-1]), sizes[-1], activation=getattr(tg, activation))

    model = build().initialized(device=device)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-3)
    x, y = (tg.tensor(batch[name], device=device) for name in ("x", "y"))

    def eager() -> float:
        value = loss(model, x, y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return float(value)

    training = tg.compile(
        build(),
        loss=loss,
        optimizer=tg.optim.adam(1e-3),
        inputs={name: tg.spec(value.shape, value.dtype) for name, value in batch.items()},
        device=device,
    )
    return [
        Contestant("tensorgrad eager", eager),
        Contestant("tensorgrad compiled", lambda: float(training.step(**batch))),
        Contestant("torch eager", torch_step(sizes, activation, batch)),
    ]


def torch_step(sizes: Sequence[int], activation: str, batch: dict[str, np.ndarray]) -> Callable[[], float]:
    """Returns PyTorch's step."""
    import torch

    layers: list[torch.nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [torch.nn.Linear(before, after), {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[activation]()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.from_numpy(batch["x"]), torch.from_numpy(batch["y"])
    kind = torch.nn.functional.mse_loss if y.dtype.is_floating_point else torch.nn.functional.cross_entropy
    y = y if y.dtype.is_floating_point else y.long()

    def step() -> float:
        value = kind(model(x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return float(value)

    return step


def report_eager(device: tg.DeviceName, rounds: int, seconds: float, out: Path) -> dict[str, list[Timing]]:
    """Times both models, and writes each as JSON."""
    cases = {
        "sine": contestants((1, 64, 64, 1), "tanh", sine_loss, sine.batch(), device),
        "digits": contestants((64, 32, 10), "relu", digits_loss, digits_batch(), device),
    }
    results: dict[str, list[Timing]] = {}
    for name, each in cases.items():
        results[name] = measure(each, rounds, seconds / len(cases))
        report(f"eager {name}", results[name], "tensorgrad eager", out / f"eager {name}.json")
    return results
