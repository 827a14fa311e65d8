"""A convolutional classifier of 28x28 images: 1-16-32 channels, 3x3, pooled by 2, then 1568-64-10; batch 64, AdamW."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorgrad as tg

BATCH, CLASSES = 64, 10


class ConvNet(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = tg.nn.Conv2d(1, 16, 3, padding=1)
        self.second = tg.nn.Conv2d(16, 32, 3, padding=1)
        self.pool = tg.nn.MaxPool2d(2)
        self.head = tg.nn.MLP(32 * 7 * 7, 64, CLASSES)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        x = self.pool(tg.relu(self.first(x)))
        x = self.pool(tg.relu(self.second(x)))
        return self.head(x.reshape(BATCH, -1))


def loss(model: ConvNet, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(x), y)


def batch() -> dict[str, np.ndarray]:
    """Returns random images and labels."""
    generator = np.random.default_rng(1)
    images = generator.random((BATCH, 1, 28, 28), dtype=np.float32)
    return {"x": images, "y": generator.integers(0, CLASSES, BATCH).astype(np.int32)}


def build(
    device: tg.DeviceName, tune: bool | float = False, **options: Any
) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns the training step on a device, and a batch; other options are passed to `tg.compile`."""
    training = tg.compile(
        ConvNet(),
        loss=loss,
        optimizer=tg.optim.adamw(1e-3),
        inputs={"x": (BATCH, 1, 28, 28), "y": tg.spec(BATCH, "i32")},
        device=device,
        tune=tune,
        **options,
    )
    return training, batch()
