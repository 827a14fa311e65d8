"""A training run as callbacks see it, the records that they receive, and the final report."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tensorgrad.driver.handles.training import Training
from tensorgrad.runtime.group.agreement import by_first


def numbers(metrics: Mapping[str, float]) -> str:
    """Returns metrics formatted as one line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


POINTS = 400
"""The most points of a curve."""


def curve(losses: np.ndarray) -> str:
    """Returns the finite losses of a run as a picture in SVG, or "" if there are fewer than two."""
    steps = np.flatnonzero(np.isfinite(losses))
    if len(steps) < 2:
        return ""
    least, most = losses[steps].min(), losses[steps].max()
    steps = steps[np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).astype(int)]
    across = 300 * steps / (len(losses) - 1)
    down = 95 - 90 * (losses[steps] - least) / max(most - least, np.finfo(np.float64).tiny)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    title = f"losses from {most:.4g} to {least:.4g}"
    line = f'<polyline points="{points}" fill="none" stroke="#4c78a8" stroke-width="1.5"/>'
    return f'<svg width="300" height="100" role="img" aria-label="{title}"><title>{title}</title>{line}</svg>'


@dataclass(frozen=True)
class Report:
    """The report of a run.

    Attributes:
        step: The training's step count.
        epoch: The number of completed epochs.
        reason: Why it ended.
        seconds: How long this process ran it.
        steps_run: How many steps this process ran.
        losses: The loss of every step of the run, f64, including those before it was resumed; the mean over
            micro-batches, if a step has several.
        evaluations: The evaluations, with their steps.
        checkpoint: The last checkpoint, if there is one.
        best: The best checkpoint, if it was requested.
        diverged_at: The first step whose loss or parameters were NaN or infinite, if that ended the run.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> report = tg.fit(training, data, steps=5, progress=False)
        >>> report.reason, report.steps_run, report.losses.shape
        ('all steps done', 5, (5,))
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

    def _repr_html_(self) -> str:
        """Returns the report with the curve of the losses, for notebooks."""
        return f"<pre>{escape(str(self))}</pre>{curve(self.losses)}"

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
        training: The training.
        epoch: The number of completed epochs.
        steps: The total number of steps, if it is known.
        losses: The losses read so far, from the run's first step on.
        evaluations: The evaluations, with their steps.
        reason: Why the run ends, or None.
        diverged_at: The first step that `diverge` was called with, or None.
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
        """The number of completed steps of the run."""
        return self.step - self._start

    @property
    def first_step(self) -> int:
        """The number of the run's first step."""
        return self._start + 1

    @property
    def last_step(self) -> int | None:
        """The number of the run's last step, if it is known."""
        return None if self.steps is None else self._start + self.steps

    @property
    def is_within_step(self) -> bool:
        """Whether a step is incomplete: only some of its micro-batches have run."""
        return self.training.accumulated > 0

    @property
    def is_first(self) -> bool:
        """Whether this is the first process of the training's group, or the only one."""
        return self.training.group is None or self.training.group.rank == 0

    def by_first(self, act: Callable[[], object]) -> None:
        """Calls a function, such as one that writes a file, in the first process; others wait, and raise if it does.

        Every process of a group has to call this.
        """
        by_first(self.training.group, act, "tg.fit")

    def stop(self, reason: str) -> None:
        """Ends the run after this step.

        The processes of a group end it together, whichever requests it: after the next callback, or when losses are
        read at the latest.
        """
        self.reason = self.reason or reason

    @abstractmethod
    def diverge(self, step: int, what: str) -> None:
        """Ends the run because of a NaN or an infinity; no checkpoint is written from now on.

        Args:
            step: The step in which it occurred.
            what: Where it occurred, such as "the loss was nan".
        """

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> bool:
        """Writes a checkpoint of everything that the run needs to resume, unless it has diverged.

        The loss of a step is computed before its update, so parameters may be NaN even if the loss isn't: they are
        checked too, unless `on_nan` is "ignore".

        Returns:
            Whether it was written.
        """

    @abstractmethod
    def report(self) -> Report:
        """Returns the report of the run so far."""


@dataclass(frozen=True)
class Record:
    """The results of a step.

    Attributes:
        step: Its number; the first is 1.
        epoch: The number of completed epochs.
        loss: The loss before the update; the mean over micro-batches, if a step has several.
        metrics: The loss' scalar metrics by path; means likewise.
        learning_rate: The learning rate.

    Example:
        >>> tg.callbacks.Record(step=1, epoch=0, loss=0.5, metrics={}, learning_rate=0.1)
        Record(step=1, epoch=0, loss=0.5, metrics={}, learning_rate=0.1)
    """

    step: int
    epoch: int
    loss: np.generic
    metrics: Mapping[str, np.generic]
    learning_rate: float


class Callback:
    """A base class with a method for each event of a run; override those that you need.

    Every process of a group has its own instance, which gets the same calls. One whose `first_only` is true is called
    only in the first process: it may write files, but not do what all processes have to do, such as `run.save`.

    Example:
        >>> class Losses(tg.callbacks.Callback):
        ...     def on_records(self, run, records):
        ...         print([record.step for record in records])
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> report = tg.fit(training, data, steps=2, callbacks=[Losses()], progress=False)
        [1, 2]
    """

    first_only: ClassVar[bool] = False
    own_names: ClassVar[frozenset[str]] = frozenset()  # of what it writes beside metrics, which can't have these names

    def on_start(self, run: Run) -> None:
        """Called before the first step, and again after a checkpoint has been loaded."""

    def on_records(self, run: Run, records: Sequence[Record]) -> None:
        """Called with the results of steps, in order, some dozens at a time; all arrive before an evaluation."""

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Called after an evaluation, at `run.step`."""

    def on_step(self, run: Run) -> None:
        """Called after each step and its evaluation, if any, without waiting for the device."""

    def on_epoch(self, run: Run) -> None:
        """Called after the last step of an epoch and its evaluation."""

    def on_end(self, run: Run) -> None:
        """Called when the run is over or interrupted, but not when it fails."""

    def close(self) -> None:
        """Called last, whatever happened."""

    def watches(self) -> str | None:
        """Returns the evaluation metric that the callback needs, if any; `tg.fit` checks that it exists."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that the callback needs to resume, as JSON. Called per checkpoint, in the first process."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state; called before `on_start`."""
