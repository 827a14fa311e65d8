"""Two layers of width 64 with tanh that fit a sine: batch 256, mean squared error, Adam."""

from __future__ import annotations

import numpy as np

import tensorgrad as tg

BATCH = 256


def loss(model: tg.nn.MLP, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.mse(model(x), y)


def batch() -> dict[str, np.ndarray]:
    """Returns points of one period, and their sines."""
    x = np.linspace(-np.pi, np.pi, BATCH, dtype=np.float32).reshape(-1, 1)
    return {"x": x, "y": np.sin(x)}


def build(device: tg.DeviceName, tune: bool | float = False) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns the training step on a device, and a batch."""
    training = tg.compile(
        tg.nn.MLP(1, (64, 64), 1, activation=tg.tanh),
        loss=loss,
        optimizer=tg.optim.adam(1e-3),
        inputs={"x": (BATCH, 1), "y": (BATCH, 1)},
        device=device,
        tune=tune,
    )
    return training, batch()
