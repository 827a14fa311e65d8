"""The run that `tg.fit` drives: its steps, what callbacks are told, its checkpoints and its end."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tensorgrad.driver.handles.compiled import Batch
from tensorgrad.driver.handles.training import Training
from tensorgrad.driver.storage import checkpoints
from tensorgrad.errors import InputError, TensorgradError
from tensorgrad.runtime.group.agreement import of_first, together
from tensorgrad.tracing.location import user_line
from tensorgrad.train.callbacks import Checkpoints, watched
from tensorgrad.train.data import Seekable
from tensorgrad.train.meetings import Meetings
from tensorgrad.train.progress import ProgressBar
from tensorgrad.train.records import Done, checked_metrics, record, scalars
from tensorgrad.train.run import Callback, Report, Run
from tensorgrad.train.run_state import LOSSES, RunState, read_run

STOP, RAISE, IGNORE = ON_NAN = ("stop", "raise", "ignore")
"""How `fit` reacts to a loss that is NaN or infinite."""

T = TypeVar("T")
Evaluate: TypeAlias = Callable[[Training], float | Mapping[str, float]]
Batches: TypeAlias = Iterable[Batch]


class EpochEnd:
    """Comes after the last batch of an epoch."""


EPOCH_END: Final = EpochEnd()


class Item(NamedTuple):
    """A batch, or the end of an epoch, and the position of the data afterwards."""

    batch: Mapping[str, Any] | EpochEnd
    place: dict[str, Any] | None


class TrainingRun(Run):
    """The run that `fit` drives."""

    def __init__(
        self, training: Training, data: Batches, hooks: Sequence[Callback], steps: int | None, on_nan: str = "stop"
    ):
        super().__init__(training, steps)
        self._on_nan = on_nan
        self._all_hooks = hooks
        self._hooks = [hook for hook in hooks if self.is_first or not hook.first_only]
        self._meetings = Meetings(training.group, hooks)
        self._data = data
        self._place = data.state_dict() if isinstance(data, Seekable) else None
        self._pending: list[Done] = []
        self._micro: list[Any] = []
        self._started = time.perf_counter()
        self._first_here = self._start

    def diverge(self, step: int, what: str) -> None:
        """See `Run`."""
        if self.diverged_at is not None:
            return
        files = self._files()
        latest = None if files is None else files.latest()
        last = "there is no checkpoint" if latest is None else f"the last checkpoint before is {latest}"
        self.diverged_at = step
        self.reason = f"{what} at step {step}; {last}"

    def stop(self, reason: str) -> None:
        """See `Run`."""
        if self.training.group is None:
            super().stop(reason)
        else:
            self._meetings.wish = self._meetings.wish or reason

    def finish(self, reason: str) -> None:
        """Ends the run for a reason that all processes see at the same step."""
        self.reason = self.reason or reason

    def goes_on(self) -> bool:
        """Returns whether there are further steps to run, once all processes agree."""
        self.reason = self.reason or self._meetings.agreed_reason()
        return self.reason is None

    def train(self, item: Item) -> None:
        """Runs a step, or a micro-batch of it, without waiting for it."""
        rate = self.training.learning_rate
        assert not isinstance(item.batch, EpochEnd)
        self._micro.append(self.training.step(**item.batch))
        self._place = item.place
        if self.is_within_step:
            return
        self._pending.append(Done(self.step, self.epoch, rate, self._micro))
        self._micro = []
        if self._meetings.are_due(len(self._pending)):
            self.flush()

    def end_epoch(self, item: Item) -> None:
        """Counts an epoch."""
        self.epoch += 1
        self._place = item.place

    def evaluate(self, function: Evaluate) -> None:
        """Evaluates once all earlier results are known, unless the run has diverged."""
        self.flush()
        if self.diverged_at is not None:
            return
        metrics = of_first(self.training.group, checked_metrics(function(self.training)), "tg.fit: an evaluation")
        self.evaluations.append((self.step, metrics))
        self.tell("on_evaluate", metrics)

    def check_watched(self, metrics: Mapping[str, float]) -> None:
        """Checks that evaluations have the metrics that callbacks watch.

        Raises:
            InputError: One is missing.
        """
        for hook in self._all_hooks:
            if (name := hook.watches()) is not None:
                watched(type(hook).__name__, name, metrics)

    def flush(self) -> None:
        """Reads the results of steps, and passes them to the callbacks."""
        records = [record(done) for done in self._pending]
        self._pending.clear()
        self._meetings.have_read(len(records))
        if records:
            self.losses += [float(record.loss) for record in records]
            self.tell("on_records", records)
            bad = next((record for record in records if not math.isfinite(record.loss)), None)
            if bad is not None and self._on_nan != IGNORE:
                self.diverge(bad.step, f"the loss was {float(bad.loss):g}")

    def tell(self, event: str, *arguments: Any) -> None:
        """Calls a method of all callbacks, in order."""
        self._meetings.are_told(event)
        for hook in self._hooks:
            getattr(hook, event)(self, *arguments)

    def save(self, path: str | os.PathLike[str]) -> bool:
        """See `Run`."""
        self.flush()
        if self.diverged_at is not None:
            return False
        state = self.training._state.to_write()
        if self._on_nan != IGNORE:
            bad = next(
                (path for path in self.training._state.parameter_paths if not np.isfinite(state[path]).all()), None
            )
            if bad is not None:
                self.diverge(self.step, f"the parameter {bad} was not finite after the update")
                return False
        self._micro = [scalars(result) for result in self._micro]
        self.by_first(lambda: self._write(path, state))
        return True

    def _write(self, path: str | os.PathLike[str], state: Mapping[str, np.ndarray]) -> None:
        run = {
            "start": self._start,
            "micro": [
                [float(loss), {path: float(value) for path, value in metrics.items()}] for loss, metrics in self._micro
            ],
            "epoch": self.epoch,
            "data": self._place,
            "schedule": _schedule(self.training),
            "settings": self.training._state.settings.initial(),
            "callbacks": [[name, hook.state_dict()] for name, hook in self._kept()],
            "evaluations": self.evaluations,
        }
        checkpoints.write_checkpoint(path, {**state, LOSSES: np.array(self.losses, np.float64)}, run)

    def resume(self, path: Path) -> None:
        """Resumes from a checkpoint, but for settings that the training is compiled with other values of.

        Raises:
            InputError: It belongs to a different run. The training and the data are unchanged then.
        """
        where = f"{user_line()}: {path}"
        state, run = self._together(lambda: self._checked(path, where))
        told = {id(hook) for hook in self._hooks}
        parts: list[tuple[str, Any, Any]] = [("the data", self._data, run.data)]
        parts += [
            (name, hook, values)
            for (name, hook), (_, values) in zip(self._kept(), run.callbacks, strict=True)
            if id(hook) in told
        ]
        before = [part.state_dict() for _, part, _ in parts]
        try:
            self._together(lambda: [_bring(part, values, f"{where}: {name}") for name, part, values in parts])
            self.training.load_state_dict({**checkpoints.of_training(state), **self._changed_settings(run)})
        except BaseException:
            for (_, part, _), values in zip(parts, before, strict=True):
                part.load_state_dict(values)
            raise
        self._start, self.epoch, self._place = run.start, run.epoch, run.data
        self._micro = list(run.micro)
        self.losses = run.losses
        self.evaluations = run.evaluations
        self._first_here = self.step

    def _changed_settings(self, run: RunState) -> dict[str, np.ndarray]:
        """Returns the settings whose values at `tg.compile` aren't those of the run."""
        return {
            f"{checkpoints.TRAINING}{label}": np.array(value, np.float64)
            for label, value in self.training._state.settings.initial().items()
            if run.settings.get(label, value) != value
        }

    def _together(self, act: Callable[[], T]) -> T:
        """Calls a function that may fail in only one process of a group, so that all processes raise."""
        return together(self.training.group, act, "tg.fit: resume")

    def _checked(self, path: Path, where: str) -> tuple[checkpoints.State, RunState]:
        """Reads a checkpoint, and checks that it belongs to this run.

        Raises:
            InputError: It belongs to a different one.
        """
        state, saved = checkpoints.read_checkpoint(path)
        run = read_run(saved, state, where)
        if not isinstance(self._data, Seekable) or run.data is None:
            raise InputError(
                f"{where}: the data can't be brought to where it was, as what has state_dict and load_state_dict can, "
                "such as tg.data.batches and tg.data.generated"
            )
        names, saved_names = [name for name, _ in self._kept()], [name for name, _ in run.callbacks]
        if names != saved_names:
            raise InputError(f"{where}: the callbacks are {_listed(names)}, they were {_listed(saved_names)}")
        if _schedule(self.training) != run.schedule:
            raise InputError(f"{where}: the schedule is {_schedule(self.training)}, it was {run.schedule}")
        if run.evaluations:
            self.check_watched(run.evaluations[-1][1])
        return state, run

    def close(self) -> None:
        """Closes callbacks, and sets the data's position to that of the run, however far it was prefetched."""
        with ExitStack() as stack:  # all of it, also if a file can't be closed
            if isinstance(self._data, Seekable) and self._place is not None:
                stack.callback(self._data.load_state_dict, self._place)
            for hook in reversed(self._hooks):
                stack.callback(hook.close)

    def end(self) -> None:
        """Tells callbacks that the run is over; the summary names the last checkpoint, so it comes last."""
        for hook in sorted(self._hooks, key=lambda hook: isinstance(hook, ProgressBar)):
            hook.on_end(self)

    def report(self) -> Report:
        """See `Run`."""
        files = self._files()
        best = None if files is None or files.best_step is None else files.path(files.best_step)
        return Report(
            self.step,
            self.epoch,
            self.reason or "not at its end",
            time.perf_counter() - self._started,
            self.step - self._first_here,
            np.array(self.losses, np.float64),
            list(self.evaluations),
            None if files is None else files.latest(),
            best,
            self.diverged_at,
        )

    def _files(self) -> Checkpoints | None:
        return next((hook for hook in self._hooks if isinstance(hook, Checkpoints)), None)

    def _kept(self) -> list[tuple[str, Callback]]:
        """Returns the callbacks that have state to keep, by the names of their classes."""
        return [(type(hook).__name__, hook) for hook in self._all_hooks if is_kept(hook)]


def is_kept(hook: Callback) -> bool:
    """Returns whether a callback has something that checkpoints keep."""
    return type(hook).state_dict is not Callback.state_dict


def _bring(part: Any, values: Mapping[str, Any], where: str) -> None:
    """Restores the state of data or a callback from a checkpoint.

    Raises:
        InputError: It can't resume from there.
    """
    try:
        part.load_state_dict(values)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, TensorgradError):
            raise
        raise InputError(f"{where} can't go on from what the checkpoint has of it: {error!r}") from error


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _schedule(training: Training) -> str | dict[str, str] | None:
    """Returns the name of the learning rate's schedule, as in checkpoints."""
    schedules = training.schedules
    return schedules.get("") if schedules.keys() <= {""} else schedules
