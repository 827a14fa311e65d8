"""The results of steps and evaluations, as callbacks receive them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorgrad.errors import InputError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.tracing import trees
from tensorgrad.train.run import Record


class Done(NamedTuple):
    """A step that has run, with the results of its micro-batches."""

    step: int
    epoch: int
    rate: float
    results: list[Any]


def checked_metrics(result: Any) -> dict[str, float]:
    """Returns the results of an evaluation, by name.

    Raises:
        InputError: It is neither a number nor several by name.
    """
    try:
        if isinstance(result, Mapping):
            return {str(name): float(value) for name, value in result.items()}
        return {"value": float(result)}
    except (TypeError, ValueError):
        raise InputError(f"fit: evaluate must return a number, or several by name, got {result!r}") from None


def _scalar(value: Any) -> Any:
    return np.asarray(value)[()]


def scalars(result: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the loss of a step and its scalar metrics by path."""
    loss, metrics = result if isinstance(result, tuple) else (result, {})
    if isinstance(loss, Mapping):  # several parts: reports their sum, and each by its name
        metrics = {**metrics, "loss": loss}
        loss = sum(_scalar(part) for part in loss.values())
    leaves = zip(trees.paths(metrics), trees.flatten(metrics)[0], strict=True)
    return _scalar(loss), {path: _scalar(leaf) for path, leaf in leaves if np.ndim(leaf) == 0}


def _mean(values: Sequence[Any]) -> Any:
    """Returns the mean over micro-batches, with the dtype of the last one if that is a float."""
    if len(values) == 1:
        return values[0]
    mean = np.mean(np.asarray(values, np.float64))
    return mean.astype(values[-1].dtype) if kind_of(values[-1].dtype) == "f" else mean


def record(done: Done) -> Record:
    """Returns the results of a step, read from the device."""
    rows = [scalars(result) for result in done.results]
    loss = _mean([loss for loss, _ in rows])
    metrics = {path: _mean([values[path] for _, values in rows]) for path in rows[-1][1]}
    return Record(done.step, done.epoch, loss, metrics, done.rate)
