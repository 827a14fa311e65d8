"""Small models that several tests share."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import tensorgrad as tg


class MLP(tg.nn.Module):
    """Linear layers with tanh between them."""

    def __init__(self, *sizes: int):
        super().__init__()
        self.layers = [tg.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = tg.tanh(layer(x))
        return self.layers[-1](x)


def squared_error(model: Any, x: Any, y: Any) -> Any:
    return tg.mse(model(x), y)


INPUTS = {"x": (4, 3), "y": (4, 2)}


def batch(seed: int = 0) -> dict[str, np.ndarray]:
    """Returns inputs for `squared_error`."""
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in INPUTS.items()}


def compiled(**options: Any) -> tg.Training:
    """Returns a training of a model with 3, 5 and 2 features, on numpy by default."""
    settings: dict[str, Any] = {
        "model": MLP(3, 5, 2),
        "loss": squared_error,
        "optimizer": tg.optim.adam(1e-2),
        "inputs": INPUTS,
        "device": "numpy",
    }
    settings.update(options)
    return tg.compile(settings.pop("model"), **settings)
