"""Compares an eager training step with the compiled one and with PyTorch's eager step, in one run.

The models are small, so that steps consist of what a library does around its kernels: two layers that fit a sine (the
workload `sine`), a perceptron on digits, a loop over a recurrent cell, recurrent layers, a layer of a transformer and a
convolutional net with batch norm. The three steps alternate on the same batches, and their ratios are reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tensorgrad as tg
from benchmarks.harness import Contestant, Timing, measure, report
from benchmarks.workloads import sine

DIGITS = 64
"""The batch size of the perceptron."""

Batch = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, which both libraries build of the layers of their namespace `nn`.

    Attributes:
        build: Returns the model, given the namespace.
        batch: The input `x`, and the target `y`: floats for a mean squared error, or labels for a cross-entropy.
        apply: Returns the prediction of a model for an input.
    """

    build: Callable[[Any], Any]
    batch: Batch
    apply: Callable[[Any, Any], Any] = lambda model, x: model(x)

    def loss(self, model: Any, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        """Returns our loss."""
        kind = tg.cross_entropy if self.batch["y"].dtype.kind == "i" else tg.mse
        return kind(self.apply(model, x), y)


def perceptron(*sizes: int, activation: str) -> Callable[[Any], Any]:
    """Returns a builder of linear layers with activations between them."""

    def build(nn: Any) -> Any:
        layers: list[Any] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), getattr(nn, activation)()]
        return nn.Sequential(*layers[:-1])

    return build


def through_time(cell: Any, x: Any) -> Any:
    """Returns the last state of a cell, whose initial state is the first element of a sequence."""
    state = x[0]
    for position in range(1, len(x)):
        state = cell(x[position], state)
    return state


def convolutional(nn: Any) -> Any:
    """Returns two convolutions with batch norm between them."""
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))


def digits_batch() -> Batch:
    """Returns a batch of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    return {"x": (digits.data[:DIGITS] / 16).astype(np.float32), "y": digits.target[:DIGITS].astype(np.int32)}


def drawn(x: tuple[int, ...], y: tuple[int, ...]) -> Batch:
    """Returns a random input and target of these shapes."""
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in (("x", x), ("y", y))}


def cases() -> dict[str, Case]:
    """Returns the models by name."""
    return {
        "sine": Case(perceptron(1, 64, 64, 1, activation="Tanh"), sine.batch()),
        "digits": Case(perceptron(64, 32, 10, activation="ReLU"), digits_batch()),
        "cell": Case(lambda nn: nn.GRUCell(64, 64), drawn((20, 32, 64), (32, 64)), through_time),
        "lstm": Case(lambda nn: nn.LSTM(16, 32, 2), drawn((20, 8, 16), (20, 8, 32)), lambda model, x: model(x)[0]),
        "transformer": Case(
            lambda nn: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0),
            drawn((16, 16, 32), (16, 16, 32)),  # the first axis is ours of examples, PyTorch's of positions
        ),
        "convolutional": Case(convolutional, drawn((8, 1, 16, 16), (8, 8, 12, 12))),
    }


def contestants(case: Case, device: tg.DeviceName) -> list[Contestant]:
    """Returns the eager step, the compiled one, and PyTorch's."""
    model = case.build(tg.nn).initialized(device=device)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-3)
    x, y = (tg.tensor(case.batch[name], device=device) for name in ("x", "y"))

    def eager() -> float:
        value = case.loss(model, x, y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return float(value)

    training = tg.compile(
        case.build(tg.nn),
        loss=case.loss,
        optimizer=tg.optim.adam(1e-3),
        inputs={name: tg.spec(value.shape, value.dtype) for name, value in case.batch.items()},
        device=device,
    )
    return [
        Contestant("tensorgrad eager", eager),
        Contestant("tensorgrad compiled", lambda: float(training.step(**case.batch))),
        Contestant("torch eager", torch_step(case)),
    ]


def torch_step(case: Case) -> Callable[[], float]:
    """Returns PyTorch's step."""
    import torch

    model = case.build(torch.nn)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.from_numpy(case.batch["x"]), torch.from_numpy(case.batch["y"])
    kind = torch.nn.functional.mse_loss if y.dtype.is_floating_point else torch.nn.functional.cross_entropy
    y = y if y.dtype.is_floating_point else y.long()

    def step() -> float:
        value = kind(case.apply(model, x), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.item()

    return step


def report_eager(device: tg.DeviceName, rounds: int, seconds: float, out: Path) -> dict[str, list[Timing]]:
    """Times all models, and writes each as JSON."""
    results: dict[str, list[Timing]] = {}
    models = cases()
    for name, case in models.items():
        results[name] = measure(contestants(case, device), rounds, seconds / len(models))
        report(f"eager {name}", results[name], "tensorgrad eager", out / f"eager {name}.json")
    return results
