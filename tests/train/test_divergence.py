"""`tg.fit` with losses and parameters that are NaN or infinite, and with missing metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import MLP, compiled, squared_error
from safetensors.numpy import load_file

import tensorgrad as tg
from tensorgrad.errors import DivergenceError, InputError, OptionError, TensorgradError
from tensorgrad.runtime.backend import Executable
from tensorgrad.train.callbacks import Checkpoints, EarlyStop, TerminateOnNaN
from tensorgrad.train.run import Callback, Run


def batches(bad: int, value: float = math.nan, count: int = 100) -> list[dict[str, np.ndarray]]:
    """Batches, one of which has NaN labels."""
    generator = np.random.default_rng(0)
    drawn = [
        {"x": generator.normal(size=(4, 3)).astype("f4"), "y": generator.normal(size=(4, 2)).astype("f4")}
        for _ in range(count)
    ]
    drawn[bad - 1]["y"][0] = value
    return drawn


def fitted(training: tg.Training, bad: int, folder: Path | None = None, **options: Any) -> tg.Report:
    settings: dict[str, Any] = {"steps": 100, "progress": False}
    if folder is not None:
        settings["checkpoint"] = Checkpoints(folder, every=3, keep=2)
    value = options.pop("value", math.nan)
    return tg.fit(training, batches(bad, value), **{**settings, **options})


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("bad", [8, 70, 100])
def test_a_run_ends_where_the_loss_is_no_number(bad: int, value: float, tmp_path: Path) -> None:
    training = compiled()
    evaluated: list[int] = []
    report = fitted(
        training, bad, tmp_path, value=value, evaluate=lambda training_: evaluated.append(training_.step_count) or 1.0
    )
    last = tmp_path / f"step-{(bad - 1) // 3 * 3:08d}.safetensors"
    assert report.diverged_at == bad and report.checkpoint == last
    assert report.reason == f"the loss was {value:g} at step {bad}; the last checkpoint before is {last}"
    assert bad <= report.step <= bad + 32 and np.isfinite(report.losses[: bad - 1]).all()
    assert not evaluated and report.reason in str(report)
    assert all(np.isfinite(array).all() for name, array in load_file(last).items() if not name.startswith("fit/"))


def test_a_run_of_checkpoints_goes_on_from_before(tmp_path: Path) -> None:
    source = tg.data.generated(lambda number: batches(8)[number])
    settings: dict[str, Any] = {"steps": 12, "progress": False, "resume": True}
    report = tg.fit(compiled(), source, checkpoint=Checkpoints(tmp_path, every=3), **settings)
    assert report.diverged_at == 8 and len(report.losses) > 7
    mended = tg.data.generated(lambda number: batches(8, 0.5)[number])
    again, whole = compiled(), compiled()
    report = tg.fit(again, mended, checkpoint=Checkpoints(tmp_path, every=3), **settings)
    tg.fit(whole, tg.data.generated(lambda number: batches(8, 0.5)[number]), steps=12, progress=False)
    assert report.steps_run == 6 and report.diverged_at is None
    assert all(np.array_equal(value, whole.parameters()[path]) for path, value in again.parameters().items())


class Root(tg.nn.Module):
    def __init__(self) -> None:
        self.w = tg.nn.param(2, 1.0)


def test_parameters_are_looked_at_before_they_are_kept(tmp_path: Path) -> None:
    """A loss of 0 with a NaN derivative: only the next loss would reveal it, after the last good checkpoint is gone."""
    training = tg.compile(
        Root(),
        loss=lambda model, x: tg.sum(tg.sqrt(model.w * x)),
        optimizer=tg.optim.sgd(0.01),
        inputs={"x": 2},
        device="numpy",
    )
    data = [{"x": np.full(2, float(step != 5), np.float32)} for step in range(1, 10)]
    report = tg.fit(training, data, steps=9, checkpoint=Checkpoints(tmp_path, every=1, keep=1), progress=False)
    assert report.diverged_at == 5 and np.isfinite(report.losses).all()
    assert report.reason.startswith("the parameter w was not finite after the update at step 5; the last checkpoint")
    assert [file.name for file in tmp_path.iterdir()] == ["step-00000004.safetensors"]


def test_it_may_be_an_error_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(
        DivergenceError, match=r"test_divergence.py:\d+: fit: the loss was nan at step 8; there is no c"
    ):
        fitted(compiled(), 8, on_nan="raise")
    report = fitted(compiled(), 8, tmp_path, on_nan="ignore")
    assert report.step == 100 and report.reason == "all steps done" and report.diverged_at is None
    assert report.checkpoint == tmp_path / "step-00000100.safetensors"
    with pytest.raises(OptionError, match="on_nan must be one of stop, raise, ignore, got 'halt'"):
        fitted(compiled(), 8, on_nan="halt")


def test_nothing_is_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters are only checked when they are read for a checkpoint anyway."""
    reads: list[object] = []
    training = compiled()
    kind: type[Executable] = type(training._executable)  # type: ignore[assignment]
    read = kind.read
    monkeypatch.setattr(kind, "read", lambda self, *names: reads.append(names) or read(self, *names))
    assert fitted(training, 99).diverged_at == 99 and not reads


class Saver(Callback):
    """Saves at the end of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_end(self, run: Run) -> None:
        self.saved = run.save(self.path)


@pytest.mark.parametrize("bad", [8, 99])
def test_a_run_that_has_diverged_is_not_saved(bad: int, tmp_path: Path) -> None:
    saver = Saver(tmp_path / "last.safetensors")
    fitted(compiled(), bad, callbacks=[saver], steps=20)
    assert saver.saved == saver.path.exists() == (bad > 20)


def with_metric(model: Any, x: Any, y: Any) -> Any:
    return squared_error(model, x, x[:, :2]), {"apart": tg.mean(y)}


def test_metrics_and_evaluations_are_watched_by_a_callback(tmp_path: Path) -> None:
    metric = fitted(compiled(loss=with_metric), 8, callbacks=[TerminateOnNaN()])
    assert metric.diverged_at == 8 and metric.reason.startswith("apart was nan at step 8")
    assert fitted(compiled(loss=with_metric), 8).reason == "all steps done"
    values = iter([1.0, 0.5, math.inf])
    options: dict[str, Any] = {"evaluate": lambda _: {"error": next(values)}, "evaluate_every": 10}
    report = fitted(compiled(loss=with_metric), 99, tmp_path, callbacks=[TerminateOnNaN()], on_nan="ignore", **options)
    assert report.diverged_at == 30 and report.reason.startswith("the evaluation's error was inf at step 30")
    assert report.checkpoint == tmp_path / "step-00000027.safetensors"


def test_a_best_that_is_not_written_is_none(tmp_path: Path) -> None:
    """NaN parameters may have a good metric, but only what has a checkpoint counts as the best."""
    values = iter([0.0, 0.1, 0.9])
    report = fitted(
        compiled(),
        8,
        checkpoint=Checkpoints(tmp_path, every=50, best="accuracy", mode="max"),
        evaluate=lambda _: {"accuracy": next(values)},
        evaluate_every=4,
    )
    best = tmp_path / "step-00000004.safetensors"
    assert report.best == best and best.exists()


def never(training: tg.Training) -> dict[str, float]:
    return {"error": 1.0}


MISSING: dict[str, tuple[Callable[[Path], dict[str, Any]], type[TensorgradError], str]] = {
    "a stop": (
        lambda folder: {"callbacks": [EarlyStop("loss")], "evaluate": never},
        InputError,
        "EarlyStop: the evaluation has no 'loss'; it has error",
    ),
    "the best": (
        lambda folder: {"checkpoint": Checkpoints(folder, best="accuracy"), "evaluate": never},
        InputError,
        "Checkpoints: the evaluation has no 'accuracy'; it has error",
    ),
    "no evaluation": (
        lambda folder: {"callbacks": [EarlyStop("loss")]},
        OptionError,
        "EarlyStop watches 'loss' of evaluations, and there is no evaluate=",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_metrics_that_there_are_none_of_are_found_before_the_first_step(name: str, tmp_path: Path) -> None:
    options, error, message = MISSING[name]
    training = compiled()
    with pytest.raises(error, match=message):
        fitted(training, 99, **{"log": tmp_path / "log.csv", **options(tmp_path / "files")})
    assert training.step_count == 0 and not list(tmp_path.iterdir())


def test_and_before_a_run_goes_on(tmp_path: Path) -> None:
    def run(monitor: str, training: tg.Training) -> tg.Report:
        source = tg.data.generated(lambda number: batches(99)[number])
        stop = EarlyStop(monitor, patience=9)
        options: dict[str, Any] = {"callbacks": [stop], "evaluate": never, "evaluate_every": 2, "progress": False}
        return tg.fit(training, source, steps=4, checkpoint=tmp_path, resume=True, **options)

    run("error", compiled())
    other = compiled(model=MLP(3, 2))
    before = other.state_dict()
    with pytest.raises(InputError, match="the evaluation has no 'eror'; it has error"):
        run("eror", other)
    assert other.step_count == 0 and all(np.array_equal(value, other.state_dict()[k]) for k, value in before.items())
