"""The state that `tg.fit` keeps in a checkpoint besides the training, read from an untrusted file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tensorgrad.driver.storage import checkpoints
from tensorgrad.errors import InputError
from tensorgrad.tracing.checks import is_integer

LOSSES = checkpoints.RUN + "losses"
MOST = 2**53
"""Counts above this are invalid."""


@dataclass(frozen=True)
class RunState:
    """The state of a run.

    Attributes:
        start: The training's step count at its start.
        epoch: The number of completed epochs.
        data: The data's `state_dict`, or `None`.
        schedule: The name of the rate's schedule, or `None`.
        settings: The optimizer's settings that the training was compiled with, by their names in checkpoints.
        callbacks: The states of callbacks by name.
        micro: The loss and metrics of the micro-batches of an unfinished step.
        losses: The losses of its steps.
        evaluations: The evaluations, with their steps.
    """

    start: int
    epoch: int
    data: dict[str, Any] | None
    schedule: str | None
    settings: dict[str, float]
    callbacks: list[tuple[str, dict[str, Any]]]
    micro: list[tuple[float, dict[str, float]]]
    losses: list[float]
    evaluations: list[tuple[int, dict[str, float]]]


def read_run(saved: Mapping[str, Any] | None, state: Mapping[str, np.ndarray], where: str) -> RunState:
    """Returns the record of a run in a checkpoint of `tg.fit`.

    Args:
        saved: Its contents other than arrays.
        state: Its arrays.
        where: The prefix of messages.

    Raises:
        InputError: It is not such a checkpoint, or is damaged; says what is wrong.
    """
    if saved is None:
        raise InputError(f"{where} is not a checkpoint of tg.fit")
    try:
        run = RunState(
            start=count(saved["start"]),
            epoch=count(saved["epoch"]),
            data=None if saved["data"] is None else _dict(saved["data"]),
            schedule=saved["schedule"],
            settings=_numbers(saved.get("settings", {})),
            callbacks=[(_text(name), _dict(values)) for name, values in saved["callbacks"]],
            micro=[(number(loss), _numbers(metrics)) for loss, metrics in saved.get("micro", [])],
            losses=_losses(state[LOSSES]),
            evaluations=[(count(step), _numbers(metrics)) for step, metrics in saved["evaluations"]],
        )
        step = _integer(state[f"{checkpoints.TRAINING}step"])
        done = _integer(state.get(f"{checkpoints.TRAINING}accumulated", np.array(0)))
        if step - run.start != len(run.losses):
            raise ValueError(f"{len(run.losses)} losses of the steps from {run.start} to {step}")
        if done < len(run.micro):
            raise ValueError(f"results of {len(run.micro)} micro-batches where {done} have run")
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise InputError(f"{where} is a damaged checkpoint: {error!r}") from None
    return run


def _losses(array: np.ndarray) -> list[float]:
    if array.dtype != np.float64 or array.ndim != 1:
        raise ValueError(f"losses are {array.dtype} of shape {array.shape}")
    return array.tolist()


def _integer(array: np.ndarray) -> int:
    if array.dtype.kind not in "iu" or array.shape != ():
        raise ValueError(f"a count is {array.dtype} of shape {array.shape}")
    return int(array)


def count(value: Any) -> int:
    """Returns a count: a nonnegative integer.

    Raises:
        ValueError: It is not one.
    """
    if not is_integer(value, 0) or value > MOST:
        raise ValueError(f"{value!r} is not a count")
    return value


def number(value: Any) -> float:
    """Returns a number.

    Raises:
        ValueError: It is not one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or (abs(value) > MOST and isinstance(value, int)):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a name")
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a dict")
    return value


def _numbers(value: Any) -> dict[str, float]:
    return {name: number(entry) for name, entry in _dict(value).items()}


Value = TypeVar("Value")


def kept(owner: str, state: Mapping[str, Any], name: str, read: Callable[[Any], Value]) -> Value:
    """Returns the record that a callback keeps under a name.

    Args:
        owner: The callback's name in messages.
        state: Its state.
        name: The name.
        read: Checks the value, such as `count`.

    Raises:
        InputError: There is no such value.
    """
    try:
        return read(state[name])
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(f"{owner}: its {name} in the checkpoint is damaged: {error!r}") from None


def optional(read: Callable[[Any], Value]) -> Callable[[Any], Value | None]:
    """Returns a check that accepts `None` too."""
    return lambda value: None if value is None else read(value)
