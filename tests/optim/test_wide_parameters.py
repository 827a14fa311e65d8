"""Parameters in f64, whose settings are f64 too, beside ones in f32: native code takes the steps of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorgrad as tg


class Mixed(tg.nn.Module):
    """A linear map in f64 with a bias in f32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tg.nn.param((4, 2), init=1.0, dtype="f64")
        self.bias = tg.nn.param((2,), init=0.5)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        return x @ self.weight + self.bias


OPTIMIZERS: dict[str, Any] = {
    "adam": tg.optim.adam(1e-2),
    "adamw": tg.optim.adamw(1e-2, clip_norm=1.0),
    "momentum": tg.optim.sgd(1e-1, momentum=0.9),
    "groups": tg.optim.sgd(1e-1, groups={"bias": {"learning_rate": 1e-3}}),
    "schedule": tg.optim.lion(tg.optim.schedules.cosine(1e-2, 10)),
    "average": tg.optim.weight_ema(tg.optim.rmsprop(1e-2), 0.9),
    "muon": tg.optim.muon(1e-2, others=tg.optim.adafactor(1e-2)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_numpy(name: str) -> None:
    x = np.arange(12.0).reshape(3, 4) / 7
    trainings = [
        tg.compile(
            Mixed(),
            loss=lambda model, x: tg.mean(model(x) ** 2),
            optimizer=OPTIMIZERS[name],
            inputs={"x": tg.spec((3, 4), "f64")},
            device=device,
        )
        for device in ("numpy", "cpu")
    ]
    losses = np.array([[training.step(x=x).numpy() for _ in range(5)] for training in trainings])
    assert losses.dtype == np.float64 and len(set(losses[0])) == 5
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-12)
