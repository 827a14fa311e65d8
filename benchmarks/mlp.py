"""Workload (a): a classifier 784-256-128-10, relu, cross-entropy, batch 256, Adam; equal weights and data for all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import tensorgrad as tg
from benchmarks.harness import Contestant

SIZES = (784, 256, 128, 10)
BATCH = 256
LEARNING_RATE = 1e-3
Parameters = dict[str, np.ndarray]


def weights() -> Parameters:
    """Equal first weights for every contestant."""
    generator = np.random.default_rng(0)
    found: Parameters = {}
    for number, (rows, columns) in enumerate(pairwise(SIZES)):
        scale = np.sqrt(2 / rows)
        found[f"layers.{number}.weight"] = (generator.standard_normal((rows, columns)) * scale).astype(np.float32)
        found[f"layers.{number}.bias"] = np.zeros(columns, np.float32)
    return found


def batch() -> tuple[np.ndarray, np.ndarray]:
    """One batch: random images and labels."""
    generator = np.random.default_rng(1)
    images = generator.random((BATCH, SIZES[0]), dtype=np.float32)
    return images, generator.integers(0, SIZES[-1], BATCH).astype(np.int32)


class Classifier(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(a, b) for a, b in pairwise(SIZES)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = tg.relu(layer(x))
        return self.layers[-1](x)


def loss(model: Classifier, x: Any, y: Any) -> Any:
    return tg.cross_entropy(model(x), y)


def ours(device: str) -> Contestant:
    """tensorgrad on a device."""
    training = tg.compile(
        Classifier(),
        loss=loss,
        optimizer=tg.optim.adam(LEARNING_RATE),
        inputs={"x": (BATCH, SIZES[0]), "y": tg.spec(BATCH, "i32")},
        device=device,
    )
    training.load_parameters(weights())
    x, y = batch()
    names = ("dispatches", "submits", "copies", "kernels", "peak_bytes", "bytes_moved", "compile_seconds")
    stats = training.stats()
    return Contestant(
        f"tensorgrad {device}", lambda: float(training.step(x=x, y=y)), {name: stats[name] for name in names}
    )


def by_hand() -> Contestant:
    """The same step written in numpy by hand."""
    p = weights()
    x, y = batch()
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        layers = [(p[f"layers.{i}.weight"], p[f"layers.{i}.bias"]) for i in range(3)]
        h1 = np.maximum(x @ layers[0][0] + layers[0][1], 0)
        h2 = np.maximum(h1 @ layers[1][0] + layers[1][1], 0)
        z = h2 @ layers[2][0] + layers[2][1]
        e = np.exp(z - z.max(1, keepdims=True))
        share = e / e.sum(1, keepdims=True)
        value = float(-np.log(share[np.arange(BATCH), y]).mean())
        share[np.arange(BATCH), y] -= 1
        dz = share / np.float32(BATCH)
        dh2 = (dz @ layers[2][0].T) * (h2 > 0)
        dh1 = (dh2 @ layers[1][0].T) * (h1 > 0)
        gradients = [x.T @ dh1, dh1.sum(0), h1.T @ dh2, dh2.sum(0), h2.T @ dz, dz.sum(0)]
        for name, g in zip(p, gradients, strict=True):
            first[name] += np.float32(0.1) * (g - first[name])
            second[name] += np.float32(0.001) * (g * g - second[name])
            step_size = np.float32(LEARNING_RATE / (1 - 0.9**count))
            scale = np.float32((1 - 0.999**count) ** -0.5)
            p[name] -= step_size * first[name] / (np.sqrt(second[name]) * scale + np.float32(1e-8))
        return value

    return Contestant("numpy by hand", step)


def torch_eager() -> Contestant | None:
    """PyTorch on the CPU, eager; `None` where it isn't installed."""
    try:
        import torch
    except ImportError:
        return None
    x, y = (torch.from_numpy(array) for array in batch())
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(SIZES)]
    with torch.no_grad():
        for number, layer in enumerate(layers):
            layer.weight.copy_(torch.from_numpy(weights()[f"layers.{number}.weight"].T))
            layer.bias.zero_()
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    labels = y.long()

    def step() -> float:
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(model(x), labels)
        value.backward()
        optimizer.step()
        return value.detach().item()

    return Contestant("torch eager (CPU)", step)


def contestants(device: str) -> list[Contestant]:
    """All that can run here, ours first."""
    peers: list[Callable[[], Contestant | None]] = [by_hand, torch_eager]
    found = [make() for make in peers]
    devices = ["wgpu", "numpy"] if device == "all" else [device]
    return [*(ours(one) for one in devices), *(one for one in found if one is not None)]
