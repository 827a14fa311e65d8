"""A classifier 784-256-128-10, relu, cross-entropy, batch 256, Adam."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import tensorgrad as tg

SIZES = (784, 256, 128, 10)
BATCH = 256
LEARNING_RATE = 1e-3


class Classifier(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(a, b) for a, b in pairwise(SIZES)]

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        for layer in self.layers[:-1]:
            x = tg.relu(layer(x))
        return self.layers[-1](x)


def loss(model: Classifier, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(x), y)


def batch() -> dict[str, np.ndarray]:
    """Returns random images and labels."""
    generator = np.random.default_rng(1)
    images = generator.random((BATCH, SIZES[0]), dtype=np.float32)
    return {"x": images, "y": generator.integers(0, SIZES[-1], BATCH).astype(np.int32)}


def build(
    device: tg.DeviceName, tune: bool | float = False, **options: Any
) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns the training step on a device, and a batch; other options are passed to `tg.compile`."""
    training = tg.compile(
        Classifier(),
        loss=loss,
        optimizer=tg.optim.adam(LEARNING_RATE),
        inputs={"x": (BATCH, SIZES[0]), "y": tg.spec(BATCH, "i32")},
        device=device,
        tune=tune,
        **options,
    )
    return training, batch()
