"""`tg.fit`: the training loop, with evaluations, checkpoints, a log, and resumption after being killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tensorgrad.driver.handles.compiled import Batch, checked_batch
from tensorgrad.driver.handles.training import Training
from tensorgrad.errors import DivergenceError, InputError, OptionError
from tensorgrad.runtime.group.agreement import of_first
from tensorgrad.runtime.group.group import agree
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import refuse_inside_trace
from tensorgrad.train.callbacks import Checkpoints, LossCurve
from tensorgrad.train.data import Ahead, Placed, Seekable, are_copies
from tensorgrad.train.log import Log
from tensorgrad.train.progress import ProgressBar
from tensorgrad.train.records import checked_metrics
from tensorgrad.train.run import Callback, Report
from tensorgrad.train.training_run import (
    EPOCH_END,
    ON_NAN,
    RAISE,
    STOP,
    Batches,
    Evaluate,
    Item,
    TrainingRun,
    is_kept,
)

INTERRUPTED = "interrupted"


def fit(
    training: Training,
    data: Batches,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    evaluate: Evaluate | None = None,
    evaluate_every: int | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | Checkpoints | None = None,
    resume: bool = False,
    log: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    prefetch: int = 2,
    progress: bool = True,
    on_nan: str = STOP,
) -> Report:
    """Trains on data, step by step. With `tg.compile(..., accumulate=n)`, a step is n batches of the data.

    Steps are submitted without waiting; losses are read every few dozen steps, or every second. Ctrl-C ends the run
    after the current step, as if it had been the last, but without another evaluation; a second Ctrl-C ends it
    immediately.

    With `checkpoint` and `resume`, a run that was stopped at any moment resumes from its last checkpoint when the same
    call is made again, and gives the same bits as an uninterrupted one: parameters, optimizer, random key, the order of
    the data and the position in it, callbacks, and the log, which is truncated to the checkpoint.

    A run ends when its loss becomes NaN or infinite, unless `on_nan` says otherwise. That is noticed when losses are
    read, so some dozens of further steps may run; no checkpoint is written after that step, so the last one precedes
    it.

    If the training has a `group`, every process makes the same call, with the same data: `tg.data` provides each
    process with its part of every batch, in the order of a single process, so that a run can resume from its checkpoint
    with any number of processes. The first process writes files and shows progress. All processes end together,
    whichever is interrupted. A callback for the first process alone is passed to all, with `first_only` true.

    Args:
        training: A training, as `tg.compile` returns it.
        data: The inputs of each step, such as those of `tg.data.batches`: by name, or tuples and lists of all inputs in
            the order in which they were declared. One pass over it is an epoch.
        steps: How many steps to run, including those before the checkpoint that the run resumes from.
        epochs: How many epochs to run. With both, whichever comes first ends the run. A step that the batches of an
            epoch don't fill is completed in the next epoch or run.
        evaluate: Called as `evaluate(training)`; returns a number, or several by name. If a callback watches a metric,
            such as `EarlyStop`, it is also called before the first step, to check that the metric exists.
        evaluate_every: The number of steps between evaluations; `None` evaluates after each epoch. The end is always
            evaluated.
        callbacks: Callbacks, in order; see `tg.callbacks`.
        checkpoint: A folder to keep checkpoints in, after each epoch, or `tg.callbacks.Checkpoints`.
        resume: Whether to resume from the last checkpoint in that folder, if there is one.
        log: A `.csv` or `.jsonl` file for the results of steps and evaluations: a new one, unless the run resumes.
        plot: A file for a plot of the losses, written at the end; needs matplotlib.
        prefetch: How many batches a thread prepares ahead; 0 for none, if the data depends on the training, or is an
            iterator that is continued afterwards, which would lack what was prepared. NumPy arrays are copied when they
            are prepared, so data may yield one buffer again and again; the batches of `tg.data.batches` and
            `tg.data.text`, and arrays that nobody can write to, are not.
        progress: Whether to show a progress bar, or lines without a terminal, and a summary.
        on_nan: What to do when the loss is NaN or infinite: "stop" ends the run, with the step and the last checkpoint
            in the report's `reason`; "raise" raises an error that says the same; "ignore" continues.

    Returns:
        A report of the run.

    Raises:
        OptionError: A setting is out of range.
        InputError: The data ends early or doesn't match, a metric has the name of another column of the log, the folder
            or the log is another run's, or the checkpoint doesn't belong to this run: a different model, optimizer,
            schedule, data or callbacks, or data without a position. Nothing is loaded then.
        DivergenceError: The loss was NaN or infinite, and `on_nan` is "raise".
        ParameterError: This is inside of `training.averaged()`.
        GroupError: Processes were given different arguments or data, or have different parameters or settings; or one
            did not join.
        TraceError: This is inside a trace.
        OSError: A file can't be read or written.

    Example:
        >>> model, loss = tg.nn.Linear(3, 2), lambda model, x: tg.mean(model(x) ** 2)
        >>> training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
        >>> data = tg.data.batches({"x": np.ones((8, 3), np.float32)}, 4)
        >>> report = tg.fit(training, data, epochs=3, progress=False)
        >>> report.step, report.epoch, bool(report.losses[-1] < report.losses[0])
        (6, 3, True)
    """
    refuse_inside_trace("tg.fit")
    where = f"{user_line()}: fit:"
    steps, epochs, evaluate_every = (
        None if value is None else checked_integer(value, f"{where} {name}", 1)
        for name, value in (("steps", steps), ("epochs", epochs), ("evaluate_every", evaluate_every))
    )
    prefetch = checked_integer(prefetch, f"{where} prefetch", 0)
    _check(where, training, data, steps, epochs, evaluate, evaluate_every)
    if training.group is not None and isinstance(data, Placed):
        data.check_parts()
    for name, path in (("log", log), ("plot", plot)):
        if path is not None and not isinstance(path, str | os.PathLike):
            raise OptionError(f"fit: {name} must be a path, got {path!r}")
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike | Checkpoints):
        raise OptionError(f"fit: checkpoint must be a folder or Checkpoints, got {checkpoint!r}")
    files = checkpoint if isinstance(checkpoint, Checkpoints) or checkpoint is None else Checkpoints(checkpoint)
    _check_callbacks(callbacks)
    if on_nan not in ON_NAN:
        raise OptionError(f"fit: on_nan must be one of {', '.join(ON_NAN)}, got {on_nan!r}")
    hooks = [*callbacks]
    hooks += [Log(log)] if log is not None else []
    hooks += [LossCurve(plot)] if plot is not None else []
    hooks += [ProgressBar()] if progress else []
    hooks += [files] if files is not None else []
    run = TrainingRun(training, data, hooks, _known_steps(training, data, steps, epochs), on_nan)
    _check_watching(hooks, evaluate)
    _check_metrics(training, hooks)
    if training.group is not None:
        told = [type(hook).__name__ for hook in hooks if not hook.first_only or is_kept(hook)]
        asked = {"steps": steps, "epochs": epochs, "evaluate_every": evaluate_every, "on_nan": on_nan, "resume": resume}
        facts = {**asked, "evaluate": evaluate is not None, "the callbacks": told, "batches": _length(data)}
        agree(training.group, {f"{name} of tg.fit": value for name, value in facts.items()})
        training._state.check_agreement(data.state_dict() if isinstance(data, Placed) else None)
    resumed = _resume(run, files, resume)
    if log is not None and not resume:
        _check_is_new(training, Path(log))
    if evaluate is not None and not run.evaluations and any(hook.watches() is not None for hook in hooks):
        run.check_watched(checked_metrics(evaluate(training)))
    with _closing(run), _interruptible(run), _items(data, prefetch, resumed, run) as items:
        run.tell("on_start")
        _loop(run, items, steps, epochs, evaluate, evaluate_every)
        if run.reason != INTERRUPTED and evaluate is not None and not _is_evaluated(run):
            run.evaluate(evaluate)
        run.flush()
        if run.diverged_at is not None and on_nan == RAISE:
            raise DivergenceError(f"fit: {run.reason}")
        run.end()
    return run.report()


def _loop(
    run: TrainingRun,
    items: Iterator[Item],
    steps: int | None,
    epochs: int | None,
    evaluate: Evaluate | None,
    evaluate_every: int | None,
) -> None:
    while run.goes_on():
        if steps is not None and run.steps_done >= steps:
            return run.finish("all steps done")
        if epochs is not None and run.epoch >= epochs:
            return run.finish("all epochs done")
        item = next(items, None)
        if item is None and run.reason is not None:  # asked to end while waiting for data
            return None
        if item is None:
            of = "" if steps is None else f" of {steps}"
            raise InputError(f"fit: the data ended after {run.steps_done}{of} steps")
        if item.batch is EPOCH_END:
            run.end_epoch(item)
            if evaluate is not None and evaluate_every is None and not _is_evaluated(run):
                run.evaluate(evaluate)
            run.tell("on_epoch")
        else:
            run.train(item)
            if run.is_within_step:
                continue
            if evaluate is not None and evaluate_every is not None and run.steps_done % evaluate_every == 0:
                run.evaluate(evaluate)
            run.tell("on_step")
    return None


def _is_evaluated(run: TrainingRun) -> bool:
    return bool(run.evaluations) and run.evaluations[-1][0] == run.step


def _check(
    where: str,
    training: object,
    data: object,
    steps: int | None,
    epochs: int | None,
    evaluate: object,
    evaluate_every: int | None,
) -> None:
    if not isinstance(training, Training):
        raise OptionError(f"{where} takes what tg.compile gives, got {type(training).__name__}")
    if not isinstance(data, Iterable) or isinstance(data, Mapping):
        raise InputError(f"{where} data must be an iterable of batches, got {type(data).__name__}")
    training._state.check_steps("fit")
    if steps is None and epochs is None:
        raise OptionError(f"{where} give steps= or epochs=")
    if isinstance(data, Iterator) and epochs is not None and epochs > 1:
        raise InputError(f"{where} an iterator can be gone through once, not for {epochs} epochs")
    if evaluate is not None and not callable(evaluate):
        raise OptionError(f"{where} evaluate must be a function of the training, got {evaluate!r}")
    if evaluate is None and evaluate_every is not None:
        raise OptionError(f"{where} evaluate_every without evaluate")


def _check_callbacks(callbacks: object) -> None:
    if not isinstance(callbacks, Sequence) or not all(isinstance(callback, Callback) for callback in callbacks):
        raise OptionError(f"fit: callbacks must be a list of tg.callbacks.Callback, got {callbacks!r}")


def _check_metrics(training: Training, hooks: Sequence[Callback]) -> None:
    """Checks that no metric of the loss has the name of something else that a callback writes.

    Raises:
        InputError: One has.
    """
    for hook in hooks:
        taken = hook.own_names.intersection(training._scalar_metrics()) if hook.own_names else ()
        for name in sorted(taken):
            raise InputError(f"fit: {type(hook).__name__} writes its own {name!r}, call the metric something else")


def _check_watching(hooks: Sequence[Callback], evaluate: object) -> None:
    for hook in hooks:
        if evaluate is None and (name := hook.watches()) is not None:
            raise OptionError(f"fit: {type(hook).__name__} watches {name!r} of evaluations, and there is no evaluate=")


def _known_steps(training: Training, data: Batches, steps: int | None, epochs: int | None) -> int | None:
    """Returns the total number of steps, for progress displays."""
    length = _length(data)
    batches = None if epochs is None or length is None else epochs * length
    whole = None if batches is None else (training.accumulated + batches) // training.accumulate
    known = [number for number in (steps, whole) if number is not None]
    return min(known) if known else None


def _length(data: Batches) -> int | None:
    try:
        return len(data) if isinstance(data, Sized) else None
    except TypeError:  # its length is not known at the moment
        return None


def _check_is_new(training: Training, log: Path) -> None:
    """Checks that a log's file is missing or empty.

    Raises:
        InputError: There is something in it.
    """
    size = log.stat().st_size if log.is_file() else 0
    if of_first(training.group, size, "tg.fit: log"):
        raise InputError(f"fit: {log} is a log already: delete it or give another file, or resume its run")


def _resume(run: TrainingRun, files: Checkpoints | None, resume: bool) -> bool:
    """Loads the last checkpoint, if there is one and `resume` asks for it."""
    if files is None:
        if resume:
            raise OptionError("fit: resume needs checkpoint=, the folder to go on from")
        return False
    latest = of_first(run.training.group, files.latest(), "tg.fit: resume")
    if latest is None:
        return False
    if not resume:
        raise InputError(
            f"fit: {files.folder} holds checkpoints of a run: give resume=True to go on with it, or another folder"
        )
    run.resume(latest)
    return True


def _epoch(data: Batches, training: Training) -> Iterator[Batch]:
    """Returns the batches of an epoch; of data with a position, only the parts that this process needs."""
    distribution = training._source.distribution
    if distribution is None or not isinstance(data, Placed):
        return iter(data)
    return data.parts(distribution.cut, distribution.group.rank, distribution.group.size)


def _walk(data: Batches, resumed: bool, training: Training) -> Iterator[Item]:
    """Yields batches, epoch by epoch, with the data's position after each."""
    first, seekable, names = True, isinstance(data, Seekable), [*training._source.loss_inputs]

    def place() -> dict[str, Any] | None:
        return data.state_dict() if isinstance(data, Seekable) else None

    while True:
        count = 0
        for batch in _epoch(data, training):
            count += 1
            yield Item(dict(checked_batch(batch, "fit", names)), place())
        if not count and not (first and seekable):
            raise InputError("fit: there are no batches in the data")
        # The data may be positioned at the end of an epoch: it counts only if this run had its batches.
        if count or resumed:
            yield Item(EPOCH_END, place())
        first = False
        if isinstance(data, Iterator):
            return


@contextmanager
def _items(data: Batches, prefetch: int, resumed: bool, run: TrainingRun) -> Iterator[Iterator[Item]]:
    items = _walk(data, resumed, run.training)
    if not prefetch:
        yield items
        return
    ahead = Ahead(items, prefetch, copies=not are_copies(data), is_over=lambda: run.reason is not None)
    try:
        yield ahead
    finally:
        ahead.close()


@contextmanager
def _closing(run: TrainingRun) -> Iterator[None]:
    """Closes everything at the end, whatever happens."""
    try:
        yield
    finally:
        run.close()


@contextmanager
def _interruptible(run: TrainingRun) -> Iterator[None]:
    """Turns the first Ctrl-C into a request to stop, in the main thread, where signals arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        run.stop(INTERRUPTED)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
