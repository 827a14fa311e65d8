"""A model whose step depends on the whole batch, to compare a group with a single process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import tensorgrad as tg
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.simulated import simulate

Result = TypeVar("Result")

TIMEOUT = 60.0
"""Seconds that a rank waits before it gives up."""

EXAMPLES, FEATURES, CLASSES = 8, 6, 4
INPUTS = {"x": (EXAMPLES, FEATURES), "y": tg.spec(EXAMPLES, "i32")}


class Net(tg.nn.Module):
    """A model with batch statistics, dropout, and some widths that can be divided equally and some that can't."""

    def __init__(self) -> None:
        super().__init__()
        # A bias before a batch norm has no gradient but roundings, of which Adam makes steps.
        self.first, self.second = tg.nn.Linear(FEATURES, 8, bias=False), tg.nn.Linear(8, 5)
        self.norm = tg.nn.BatchNorm1d(8)
        self.last = tg.nn.Linear(5, CLASSES)

    def __call__(self, x: Any, key: Any = None) -> Any:
        h = tg.tanh(self.norm(self.first(x)))
        if key is not None:
            h = tg.random.dropout(key, h, 0.2)
        return self.last(tg.tanh(self.second(h)))


def loss(model: Any, x: Any, y: Any, key: Any) -> Any:
    logits = model(x, key)
    return tg.cross_entropy(logits, y), {"accuracy": tg.mean(tg.equal(tg.argmax(logits, -1), y))}


def compiled(group: Group | None, **options: Any) -> Any:
    settings: dict[str, Any] = {
        "loss": loss,
        "optimizer": tg.optim.adam(1e-2, clip_norm=0.5),
        "inputs": INPUTS,
        "device": "numpy",
        "seed": 3,
        "group": group,
    }
    settings.update(options)
    return tg.compile(settings.pop("model", None) or Net(), **settings)


def batch(number: int) -> dict[str, np.ndarray]:
    """Returns the whole batch of a step."""
    generator = np.random.default_rng(number)
    return {
        "x": generator.normal(size=(EXAMPLES, FEATURES)).astype(np.float32),
        "y": generator.integers(0, CLASSES, EXAMPLES).astype(np.int32),
    }


def in_group(size: int, function: Callable[[Group], Result]) -> list[Result]:
    """Runs a function as each rank of a group with a timeout; returns the results."""
    return simulate(size, function, TIMEOUT)


def same(left: Any, right: Any) -> bool:
    """Returns whether states have the same names and bits."""
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )
