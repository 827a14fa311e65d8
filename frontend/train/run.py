"""A training run as callbacks see it, what they are told, and the report at its end."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tensorgrad.driver.training import Training
from tensorgrad.runtime.group.agreement import by_first


def numbers(metrics: Mapping[str, float]) -> str:
    """Metrics in a line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


@dataclass(frozen=True)
class Report:
    """How a run went.

    Attributes:
        step: The training's step count.
        epoch: How many epochs are over.
        reason: Why it ended.
        seconds: How long this process ran it.
        steps_run: How many steps this process ran.
        losses: The loss of every step of the run, f64, those before it went on from a checkpoint included; the mean
            over micro-batches, where a step has several.
        evaluations: What evaluations gave, with their steps.
        checkpoint: The last checkpoint, if there is one.
        best: The best one, if it was to be kept.
        diverged_at: The first step whose loss, or whose parameters, were NaN or infinite, if that ended the run.
    """

    step: int
    epoch: int
    reason: str
    seconds: float
    steps_run: int
    losses: np.ndarray
    evaluations: list[tuple[int, dict[str, float]]]
    checkpoint: Path | None
    best: Path | None
    diverged_at: int | None = None

    def __repr__(self) -> str:
        loss = f", loss={self.losses[-1]:.4g}" if len(self.losses) else ""
        return f"Report(step={self.step}, epoch={self.epoch}, reason={self.reason!r}, steps_run={self.steps_run}{loss})"

    def __str__(self) -> str:
        rate = self.steps_run / max(self.seconds, 1e-9)
        lines = [f"{self.step} steps, {self.reason}: {self.steps_run} in {self.seconds:.1f} s, {rate:.3g} steps/s"]
        if len(self.losses):
            first, last, least = self.losses[0], self.losses[-1], np.min(self.losses)
            lines.append(f"loss: {first:.4g} at first, {last:.4g} at last, {least:.4g} at least")
        if self.evaluations:
            step, metrics = self.evaluations[-1]
            lines.append(f"evaluation at step {step}: {numbers(metrics)}")
        lines += [f"{what}: {path}" for what, path in (("checkpoint", self.checkpoint), ("best", self.best)) if path]
        return "\n".join(lines)


class Run(ABC):
    """A training run, as callbacks see it.

    Attributes:
        training: What is trained.
        epoch: How many epochs are over.
        steps: How many steps the run has in all, if that is known.
        losses: The losses that have been read, of every step from the run's first.
        evaluations: What evaluations gave, with their steps.
        reason: Why it ends, or None.
        diverged_at: The step that `diverge` was called with first, or None.
    """

    def __init__(self, training: Training, steps: int | None):
        self.training = training
        self.epoch = 0
        self.steps = steps
        self.losses: list[float] = []
        self.evaluations: list[tuple[int, dict[str, float]]] = []
        self.reason: str | None = None
        self.diverged_at: int | None = None
        self._start = training.step_count

    @property
    def step(self) -> int:
        """The training's step count."""
        return self.training.step_count

    @property
    def steps_done(self) -> int:
        """How many steps of the run are done."""
        return self.step - self._start

    @property
    def first_step(self) -> int:
        """The number of the run's first step."""
        return self._start + 1

    @property
    def last_step(self) -> int | None:
        """The number of the run's last step, if that is known."""
        return None if self.steps is None else self._start + self.steps

    @property
    def is_within_step(self) -> bool:
        """Whether some micro-batches of a step have run, and others have not."""
        return self.training.accumulated > 0

    @property
    def is_first(self) -> bool:
        """Whether this is the first process of the training's group, or one on its own."""
        return self.training.group is None or self.training.group.rank == 0

    def by_first(self, act: Callable[[], object]) -> None:
        """Calls a function, such as one that writes a file, in the first process; others wait, and raise what it does.

        Every process of a group has to call this.
        """
        by_first(self.training.group, act, "tg.fit")

    def stop(self, reason: str) -> None:
        """Ends the run after this step.

        The processes of a group end it together, whichever asks for it: when all of them were told something, and at
        the latest when losses are read.
        """
        self.reason = self.reason or reason

    @abstractmethod
    def diverge(self, step: int, what: str) -> None:
        """Ends the run because of numbers that are NaN or infinite; from now on no checkpoint is written.

        Args:
            step: Whose numbers they are.
            what: Which, such as "the loss was nan".
        """

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> bool:
        """Writes a checkpoint of everything that the run needs to resume; none where it has diverged.

        A loss is that before its step's update, so that a checkpoint behind it may have parameters that are NaN: those
        are looked at, too, unless `on_nan` is "ignore".

        Returns:
            Whether it is written.
        """

    @abstractmethod
    def report(self) -> Report:
        """Returns how the run went so far."""


@dataclass(frozen=True)
class Record:
    """What a step gave.

    Attributes:
        step: Its number; the first is 1.
        epoch: How many epochs were over.
        loss: The loss before the update; the mean over micro-batches, where a step has several.
        metrics: The loss' metrics that are scalars, by path; means likewise.
        learning_rate: The learning rate.
    """

    step: int
    epoch: int
    loss: np.generic
    metrics: Mapping[str, np.generic]
    learning_rate: float


class Callback:
    """Something that is told what happens in a run; override what it needs.

    Every process of a group has its own, which is told the same. One whose `first_only` is true is told in the first
    process alone: it writes, and must not do what all have to do, such as `run.save`.
    """

    first_only: ClassVar[bool] = False

    def on_start(self, run: Run) -> None:
        """Before the first step, and once more after a checkpoint is loaded."""

    def on_records(self, run: Run, records: Sequence[Record]) -> None:
        """What steps gave, in order, read from the device some dozens at a time; all are given before an evaluation."""

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """After an evaluation; its place is `run.step`."""

    def on_step(self, run: Run) -> None:
        """After each step, and its evaluation if it has one, without waiting for the device."""

    def on_epoch(self, run: Run) -> None:
        """After the last step of an epoch, and its evaluation."""

    def on_end(self, run: Run) -> None:
        """When the run is over, or interrupted; not when it fails."""

    def close(self) -> None:
        """At last, whatever has happened."""

    def watches(self) -> str | None:
        """Returns the evaluation metric that this needs, if any; `tg.fit` checks first that it exists."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that this needs to resume, as JSON. Called for each checkpoint, in the first process."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there; called before `on_start`."""
