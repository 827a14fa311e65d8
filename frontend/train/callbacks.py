"""Callbacks of a training run: early stopping, checkpoints, logs, and loss plots.

A callback is a `Callback` with some of its methods overridden. State that it keeps between steps belongs in its
`state_dict`, so that a resumed run equals an uninterrupted one.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.runtime.files import PART, replacing
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.train.run import Callback, Record, Run
from tensorgrad.train.run_state import count, kept, number, optional

__all__ = [
    "Callback",
    "Checkpoints",
    "EarlyStop",
    "LossCurve",
    "Record",
    "ReduceOnPlateau",
    "TensorBoard",
    "TerminateOnNaN",
]

MODES = ("min", "max")


def watched(owner: str, monitor: str, metrics: Mapping[str, float]) -> float:
    """Returns one of an evaluation's metrics.

    Raises:
        InputError: There is no metric of that name.
    """
    if monitor not in metrics:
        raise InputError(f"{owner}: the evaluation has no {monitor!r}; it has {', '.join(metrics)}")
    return metrics[monitor]


def _mode(owner: str, mode: str) -> str:
    if mode not in MODES:
        raise OptionError(f"{owner}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    return mode


def _is_better(value: float, best: float | None, mode: str, by: float = 0.0) -> bool:
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value < best - by if mode == "min" else value > best + by


@dataclass
class _Patient(Callback):
    """Counts consecutive evaluations without an improvement."""

    monitor: str
    patience: int = 3
    mode: str = "min"
    min_delta: float = 0.0
    best: float | None = field(default=None, init=False)
    waited: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        name = type(self).__name__
        _mode(name, self.mode)
        self.patience = checked_integer(self.patience, f"{name}: patience", 1)
        if not 0 <= self.min_delta < math.inf:
            raise OptionError(f"{name}: min_delta must be a number from 0, got {self.min_delta!r}")

    def watches(self) -> str | None:
        """Returns the metric."""
        return self.monitor

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Counts the evaluations without an improvement."""
        value = watched(type(self).__name__, self.monitor, metrics)
        if _is_better(value, self.best, self.mode, self.min_delta):
            self.best, self.waited = value, 0
        else:
            self.waited += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns the best value, and the number of evaluations since; and of what."""
        return {"monitor": self.monitor, "mode": self.mode, "best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state.

        Raises:
            InputError: It is that of another metric, or it is damaged.
        """
        owner = type(self).__name__
        for name, own in (("monitor", self.monitor), ("mode", self.mode)):
            if state.get(name, own) != own:
                raise InputError(f"{owner}: its {name} is {own!r}, it was {state[name]!r}")
        best = kept(owner, state, "best", optional(number))
        self.best, self.waited = best, kept(owner, state, "waited", count)


@dataclass
class EarlyStop(_Patient):
    """Ends a run when evaluations stop improving.

    Attributes:
        monitor: The metric of the evaluation.
        patience: How many consecutive evaluations without an improvement end the run.
        mode: "min" if lower is better, "max" if higher is.
        min_delta: The smallest change that counts as an improvement.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data, stop = [{"x": np.ones((4, 3), np.float32)}], tg.callbacks.EarlyStop("loss", patience=2)
        >>> tg.fit(training, data, epochs=9, evaluate=lambda _: {"loss": 1.0}, callbacks=[stop], progress=False).epoch
        3
    """

    def on_start(self, run: Run) -> None:
        """Ends a run immediately if it had been stopped before it was resumed."""
        self._check(run)

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Counts the evaluations without an improvement, and ends the run after enough of them."""
        super().on_evaluate(run, metrics)
        self._check(run)

    def _check(self, run: Run) -> None:
        if self.waited >= self.patience:
            best = "a number" if self.best is None else f"{self.best:.6g}"
            run.stop(f"{self.monitor} was no better than {best} in {self.waited} evaluations")


@dataclass
class ReduceOnPlateau(_Patient):
    """Reduces the learning rate when evaluations stop improving; PyTorch's ReduceLROnPlateau.

    With a schedule, the rate that it scales is reduced. Groups and parts with rates of their own keep these.

    Attributes:
        monitor: The metric of the evaluation.
        patience: How many consecutive evaluations without an improvement reduce the rate.
        mode: "min" if lower is better, "max" if higher is.
        min_delta: The smallest change that counts as an improvement.
        factor: What the rate is multiplied by.
        min_rate: The rate that it is not reduced below.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data, slower = [{"x": np.ones((4, 3), np.float32)}], tg.callbacks.ReduceOnPlateau("loss", patience=2)
        >>> done = tg.fit(
        ...     training, data, epochs=3, evaluate=lambda _: {"loss": 1.0}, callbacks=[slower], progress=False
        ... )
        >>> training.learning_rate
        0.01
    """

    factor: float = 0.1
    min_rate: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.factor < 1:
            raise OptionError(f"ReduceOnPlateau: factor must be a number between 0 and 1, got {self.factor!r}")
        if not 0 <= self.min_rate < math.inf:
            raise OptionError(f"ReduceOnPlateau: min_rate must be a number from 0, got {self.min_rate!r}")

    def on_start(self, run: Run) -> None:
        """Checks that there is a rate to reduce.

        Raises:
            OptionError: Parts have optimizers of their own.
        """
        if "learning_rate" not in run.training.settings:
            raise OptionError("ReduceOnPlateau: the training has no learning rate for all parameters")

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Counts the evaluations without an improvement, and reduces the rate after enough of them."""
        super().on_evaluate(run, metrics)
        if self.waited < self.patience:
            return
        self.waited, rate = 0, run.training.settings["learning_rate"]
        run.training.set_learning_rate(min(rate, max(rate * self.factor, self.min_rate)))


class TerminateOnNaN(Callback):
    """Ends a run when the loss, a metric or an evaluation is NaN or infinite.

    `tg.fit` on its own does that only for the loss, unless `on_nan="ignore"`. No checkpoint is written from then on.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> nans = [{"x": np.full((4, 3), np.nan, np.float32)}]
        >>> tg.fit(training, nans, steps=3, callbacks=[tg.callbacks.TerminateOnNaN()], progress=False).reason
        'the loss was nan at step 1; there is no checkpoint'
    """

    def on_records(self, run: Run, records: Sequence[Record]) -> None:
        """Checks losses and metrics."""
        for record in records:
            self._check(run, record.step, {"the loss": record.loss, **record.metrics})

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Checks an evaluation."""
        self._check(run, run.step, {f"the evaluation's {name}": value for name, value in metrics.items()})

    def _check(self, run: Run, step: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if not math.isfinite(value):
                run.diverge(step, f"{name} was {float(value):g}")


def _moment(run: Run) -> tuple[int, int, int]:
    """Returns the step, epoch and micro-batch, which identify a checkpoint within its run."""
    return run.step, run.epoch, run.training.accumulated


FILE = re.compile(r"step-(\d{8,})\.safetensors")


@dataclass
class Checkpoints(Callback):
    """Keeps the last checkpoints of a run, and the best, as `step-00001000.safetensors` in a folder.

    Files are written atomically, and older ones are deleted afterwards. A checkpoint is also written at the end of a
    run, unless it fails.

    Attributes:
        folder: The folder, which is created if necessary. Each run needs its own.
        every: The number of steps between checkpoints; `None` writes one after each epoch.
        keep: How many to keep.
        best: A metric of the evaluation; the checkpoint with its best value is written and kept as well.
        mode: "min" if lower is better, "max" if higher is.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> import os, tempfile
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     keep = tg.callbacks.Checkpoints(folder, every=2)
        ...     report = tg.fit(training, data, steps=4, callbacks=[keep], progress=False)
        ...     sorted(os.listdir(folder))
        ['step-00000002.safetensors', 'step-00000004.safetensors']
    """

    folder: str | os.PathLike[str]
    every: int | None = None
    keep: int = 3
    best: str | None = None
    mode: str = "min"
    best_value: float | None = field(default=None, init=False)
    best_step: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        if self.every is not None:
            self.every = checked_integer(self.every, "Checkpoints: every", 1)
        self.keep = checked_integer(self.keep, "Checkpoints: keep", 1)
        _mode("Checkpoints", self.mode)
        self._improved = False
        self._before: tuple[float | None, int | None] = (None, None)
        self._saved: tuple[int, int, int] | None = None

    def watches(self) -> str | None:
        """Returns the metric by which the best checkpoint is chosen."""
        return self.best

    def path(self, step: int) -> Path:
        """Returns the file of a step."""
        return Path(self.folder) / f"step-{step:08d}.safetensors"

    def steps(self) -> list[int]:
        """Returns the steps that have files, in order."""
        matches = [FILE.fullmatch(file.name) for file in Path(self.folder).glob("step-*.safetensors")]
        return sorted(int(match[1]) for match in matches if match)

    def latest(self) -> Path | None:
        """Returns the file to resume from."""
        steps = self.steps()
        return self.path(steps[-1]) if steps else None

    def on_start(self, run: Run) -> None:
        """Creates the folder, and deletes unfinished files of a killed process."""
        run.by_first(self._prepare)

    def _prepare(self) -> None:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob(f".step-*{PART}"):
            part.unlink(missing_ok=True)
        self._prune()

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Records whether this evaluation is the best."""
        if self.best is None:
            return
        value = watched("Checkpoints", self.best, metrics)
        if _is_better(value, self.best_value, self.mode):
            self._before = self.best_value, self.best_step
            self.best_value, self.best_step, self._improved = value, run.step, True

    def on_step(self, run: Run) -> None:
        """Saves if a checkpoint is due, or if this is the best."""
        if self._improved or (self.every is not None and run.steps_done % self.every == 0):
            self._save(run)

    def on_epoch(self, run: Run) -> None:
        """Saves if a checkpoint is due, or if this is the best."""
        if self._improved or self.every is None:
            self._save(run)

    def on_end(self, run: Run) -> None:
        """Saves, unless this step is already saved."""
        if self._improved or self._saved != _moment(run):
            self._save(run)

    def _save(self, run: Run) -> None:
        if run.save(self.path(run.step)):
            self._saved = _moment(run)
        elif self._improved:
            self.best_value, self.best_step = self._before
        self._improved = False
        run.by_first(self._prune)

    def _prune(self) -> None:
        steps = self.steps()
        for step in steps[: -self.keep]:
            if step != self.best_step:
                self.path(step).unlink(missing_ok=True)

    def state_dict(self) -> dict[str, Any]:
        """Returns which checkpoint is the best."""
        return {"best_value": self.best_value, "best_step": self.best_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state."""
        best = kept("Checkpoints", state, "best_value", optional(number))
        self.best_value, self.best_step = best, kept("Checkpoints", state, "best_step", optional(count))


@dataclass
class LossCurve(Callback):
    """Plots the losses of all steps and the evaluations when the run ends. Needs matplotlib.

    Attributes:
        path: The file to write; its suffix determines the format.

    Raises:
        OptionError: matplotlib is not installed.

    Example:
        >>> import os, tempfile
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     curve = tg.callbacks.LossCurve(f"{folder}/loss.png")
        ...     report = tg.fit(training, data, steps=4, callbacks=[curve], progress=False)
        ...     os.listdir(folder)
        ['loss.png']
    """

    first_only: ClassVar[bool] = True

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        try:
            importlib.import_module("matplotlib.figure")
        except ImportError as error:
            advice = "pip install matplotlib"
            raise OptionError(f"a loss curve needs matplotlib: {advice} ({error})") from None

    def on_end(self, run: Run) -> None:
        """Writes the plot, atomically."""
        from matplotlib.figure import Figure

        losses = np.asarray(run.losses)
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        steps = np.arange(run.first_step, run.first_step + len(losses))
        axes.plot(steps, losses, linewidth=0.8, label="loss")
        if len(losses) and np.all(losses[np.isfinite(losses)] > 0):
            axes.set_yscale("log")
        names = sorted({name for _, metrics in run.evaluations for name in metrics})
        if names:
            other = axes.twinx()
            for number, name in enumerate(names, 1):
                points = [(step, metrics[name]) for step, metrics in run.evaluations if name in metrics]
                other.plot(*zip(*points, strict=True), f"C{number}.-", label=name)
            other.set_ylabel("evaluation")
            other.legend(loc="upper right")
        axes.set(xlabel="step", ylabel="loss")
        axes.grid(alpha=0.3)
        target = Path(self.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as aside:
            figure.savefig(aside, dpi=150, format=target.suffix.removeprefix(".") or None)


@dataclass
class TensorBoard(Callback):
    """Writes losses, metrics and evaluations for TensorBoard: `tensorboard --logdir folder`. Needs tensorboard.

    Losses and metrics are `train/<name>`, learning rates `train/learning_rate`, evaluations `evaluation/<name>`. A run
    that is resumed or restarted writes another file: TensorBoard drops the data of earlier files from that step on.

    Attributes:
        folder: The folder to write to; each run needs its own.

    Raises:
        OptionError: tensorboard is not installed.

    Example:
        >>> import os, tempfile
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     board = tg.callbacks.TensorBoard(folder)
        ...     report = tg.fit(training, data, steps=4, callbacks=[board], progress=False)
        ...     len(os.listdir(folder))
        1
    """

    first_only: ClassVar[bool] = True
    own_names: ClassVar[frozenset[str]] = frozenset(("loss", "learning_rate"))

    folder: str | os.PathLike[str]

    def __post_init__(self) -> None:
        try:
            self._writers: Any = importlib.import_module("tensorboard.summary.writer.event_file_writer")
            self._events: Any = importlib.import_module("tensorboard.compat.proto.event_pb2")
            self._summaries: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        except ImportError as error:
            advice = "pip install tensorboard"
            raise OptionError(f"TensorBoard needs tensorboard: {advice} ({error})") from None
        self._writer: Any = None

    def on_start(self, run: Run) -> None:
        """Starts a file, which supersedes others from the next step on."""
        self.close()
        self._writer = self._writers.EventFileWriter(os.fspath(self.folder))
        start = self._events.SessionLog(status=self._events.SessionLog.START)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=run.step + 1, session_log=start))

    def on_records(self, run: Run, records: Sequence[Record]) -> None:
        """Writes losses and metrics."""
        for record in records:
            values = {"loss": record.loss, **record.metrics, "learning_rate": record.learning_rate}
            self._write(record.step, {f"train/{name}": value for name, value in values.items()})
        self._writer.flush()

    def on_evaluate(self, run: Run, metrics: Mapping[str, float]) -> None:
        """Writes an evaluation."""
        self._write(run.step, {f"evaluation/{name}": value for name, value in metrics.items()})
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: Mapping[str, Any]) -> None:
        scalars = [self._summaries.Summary.Value(tag=tag, simple_value=float(value)) for tag, value in values.items()]
        summary = self._summaries.Summary(value=scalars)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
