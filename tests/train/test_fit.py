"""`tg.fit`: what it runs, writes and rejects; a resumed run equals an uninterrupted one."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import threading
from collections import UserDict
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from models import MLP, compiled, squared_error
from safetensors import numpy as safetensors_numpy
from safetensors import torch as safetensors_torch

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, TensorgradError, TraceError
from tensorgrad.train.callbacks import Checkpoints, EarlyStop, ReduceOnPlateau
from tensorgrad.train.progress import STEPS_A_LINE, ProgressBar
from tensorgrad.train.run import Callback

pytestmark = pytest.mark.usefixtures("kept_programs")

untyped: Any = tg
"""The package as code without types calls it."""


def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
    """A loss that depends on the step's key, with a metric."""
    loss = squared_error(model, x + 0.1 * tg.random.normal(key, x.shape), y)
    return loss, {"doubled": 2 * loss, "vector": y[:, 0]}


def training(**options: Any) -> tg.Training:
    schedule = tg.optim.schedules.cosine(1e-2, 40, warmup=5)
    settings: dict[str, Any] = {"loss": noisy, "optimizer": tg.optim.adamw(schedule), "seed": 3}
    return compiled(**{**settings, **options})


def arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {"x": generator.normal(size=(22, 3)).astype("f4"), "y": generator.normal(size=(22, 2)).astype("f4")}


def data(**options: Any) -> tg.data.Batches:
    return tg.data.batches(arrays(), 4, **{"shuffle": 5, **options})  # 5 batches in an epoch


def error_of(training_: tg.Training) -> dict[str, float]:
    def error(model: Any, x: Any, y: Any) -> Any:
        return squared_error(model, x, y)

    return {"error": training_.evaluate(error, [arrays()])}


def fitted(training_: tg.Training, folder: Path | None = None, **options: Any) -> tg.Report:
    settings: dict[str, Any] = {
        "data": data(),
        "steps": 23,
        "evaluate": error_of,
        "evaluate_every": 7,
        "progress": False,
    }
    if folder is not None:
        settings["checkpoint"] = Checkpoints(folder / "checkpoints", every=5)
        settings["log"] = folder / "log.csv"
    settings = {**settings, **options}
    return tg.fit(training_, settings.pop("data"), **settings)


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        np.asarray(left[name]).tobytes() == np.asarray(right[name]).tobytes() for name in left
    )


class StopAt(Callback):
    """Raises after a step, to simulate a failing process."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, run: Any) -> None:
        if run.step == self.step:
            raise RuntimeError("killed")


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_it_is_the_plain_loop(device):
    fitted_training, looped = training(device=device), training(device=device)
    report = fitted(fitted_training)
    source = data()
    batches = itertools.islice(itertools.chain.from_iterable(itertools.repeat(source)), 23)
    losses = [looped.step(**batch)[0] for batch in batches]
    assert report.losses.tolist() == [float(loss) for loss in losses]
    assert same(fitted_training.state_dict(), looped.state_dict())
    assert report.step == report.steps_run == 23 and report.epoch == 4 and report.reason == "all steps done"
    assert [step for step, _ in report.evaluations] == [7, 14, 21, 23]
    assert report.evaluations[-1][1] == error_of(looped)
    assert report.checkpoint is None and "23 steps, all steps done" in str(report)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_prefetching_changes_nothing(prefetch):
    source = data()
    report = fitted(training(), data=source, prefetch=prefetch)
    assert report.losses.tolist() == fitted(training()).losses.tolist()
    assert (source.epoch, source.index) == (4, 3)


@pytest.mark.parametrize("kind", [dict, UserDict])
def test_data_may_reuse_its_arrays(kind):
    def reusing() -> Any:
        batch = {name: np.zeros_like(array[:4]) for name, array in arrays().items()}
        for item in data():
            for name, array in item.items():
                batch[name][...] = array
            yield kind(batch)

    assert fitted(training(), data=reusing(), steps=5).losses.tolist() == fitted(training(), steps=5).losses.tolist()


def test_epochs():
    report = fitted(training(), steps=None, epochs=3, evaluate_every=None)
    assert report.step == 15 and report.epoch == 3 and report.reason == "all epochs done"
    assert [step for step, _ in report.evaluations] == [5, 10, 15]
    assert fitted(training(), epochs=1).step == 5
    once = fitted(training(), data=iter(data()), steps=None, epochs=1)
    assert once.losses.tolist() == report.losses[:5].tolist()


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_losses_are_read_seldom(device, monkeypatch):
    reads: list[int] = []
    fitted_training = training(device=device)
    if device == "wgpu":
        from tensorgrad.runtime.webgpu import WebGPUDevice

        read = WebGPUDevice.read_ranges

        def counted(self: Any, ranges: Any, *doing: str) -> Any:
            reads.append(len(ranges))
            return read(self, ranges, *doing)

        monkeypatch.setattr(WebGPUDevice, "read_ranges", counted)
        monkeypatch.setattr("tensorgrad.train.meetings.SECONDS_BETWEEN_READS", 1e9)
    assert len(fitted(fitted_training, steps=64, evaluate=None, evaluate_every=None).losses) == 64
    assert len(reads) <= 64 // 16


@pytest.mark.in_turns(24, 4)
@pytest.mark.parametrize("every", [None, 1, 5])
@pytest.mark.parametrize("killed", [1, 4, 5, 6, 10, 14, 22, 23])
def test_a_run_that_failed_goes_on_bit_for_bit(killed, every, tmp_path):
    whole, parts = training(), training()

    def stop() -> EarlyStop:
        return EarlyStop("error", patience=50)

    def files(folder: str) -> Checkpoints:
        return Checkpoints(tmp_path / folder / "checkpoints", every, keep=2, best="error")

    expected = fitted(whole, tmp_path / "whole", callbacks=[stop()], checkpoint=files("whole"))
    with pytest.raises(RuntimeError, match="killed"):
        fitted(parts, tmp_path / "parts", callbacks=[StopAt(killed), stop()], checkpoint=files("parts"))
    # Where there is a checkpoint, it has the parameters and the seed; else the run starts again.
    other = training(seed=8 if files("parts").latest() else 3)
    report = fitted(other, tmp_path / "parts", callbacks=[stop()], checkpoint=files("parts"), resume=True)
    assert same(other.state_dict(), whole.state_dict())
    assert report.losses.tolist() == expected.losses.tolist() and report.evaluations == expected.evaluations
    assert report.epoch == expected.epoch and (report.steps_run < 23 or killed <= 5)
    assert (tmp_path / "parts" / "log.csv").read_bytes() == (tmp_path / "whole" / "log.csv").read_bytes()
    names = [sorted(file.name for file in (tmp_path / part / "checkpoints").iterdir()) for part in ("whole", "parts")]
    assert names[0] == names[1] and report.best is not None and report.best.exists()


@pytest.mark.nightly
def test_a_finished_run_has_nothing_to_do_and_can_be_prolonged(tmp_path):
    first, second, longer = training(), training(), training()
    fitted(first, tmp_path / "a", evaluate=None, evaluate_every=None)
    report = fitted(second, tmp_path / "a", evaluate=None, evaluate_every=None, resume=True)
    assert report.steps_run == 0 and same(first.state_dict(), second.state_dict()) and len(report.losses) == 23
    fitted(second, tmp_path / "a", evaluate=None, evaluate_every=None, resume=True, steps=31)
    expected = fitted(longer, evaluate=None, evaluate_every=None, steps=31)
    assert same(longer.state_dict(), second.state_dict()) and expected.step == 31


def test_a_checkpoint_is_read_by_others_and_by_the_training(tmp_path):
    original = training()
    report = fitted(original, tmp_path)
    path = tmp_path / "checkpoints" / "step-00000023.safetensors"
    assert report.checkpoint == path
    tensors = safetensors_numpy.load_file(path)
    assert tensors.keys() == {*original.state_dict(), "fit/losses"} == safetensors_torch.load_file(path).keys()
    other = training(seed=9)
    other.load_checkpoint(path)
    assert same(other.state_dict(), original.state_dict())
    names = sorted(file.name for file in (tmp_path / "checkpoints").iterdir())
    assert names == [f"step-000000{step}.safetensors" for step in (15, 20, 23)]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_logs(kind, tmp_path):
    report = fitted(training(), log=tmp_path / "new" / f"log.{kind}")
    text = (tmp_path / "new" / f"log.{kind}").read_text()
    if kind == "csv":
        rows: list[dict[str, Any]] = [
            {name: float(value) for name, value in row.items() if value} for row in csv.DictReader(text.splitlines())
        ]
    else:
        rows = [json.loads(line) for line in text.splitlines()]
    steps = [row for row in rows if "loss" in row]
    assert [np.float32(row["loss"]) for row in steps] == report.losses.astype(np.float32).tolist()
    assert [row["step"] for row in steps] == list(range(1, 24)) and steps[5]["epoch"] == 1
    assert {*steps[0]} == {"step", "epoch", "loss", "doubled", "learning_rate"}
    schedule = tg.optim.schedules.cosine(1e-2, 40, warmup=5)
    assert [row["learning_rate"] for row in steps] == [schedule(step) for step in range(1, 24)]
    logged = [(row["step"], row["evaluation.error"]) for row in rows if "loss" not in row]
    assert logged == [(step, metrics["error"]) for step, metrics in report.evaluations]


def test_a_log_of_another_run_is_refused(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("of last night\n")
    with pytest.raises(InputError, match=r"log\.csv is a log already: delete it or give another file"):
        fitted(training(), log=log, steps=3)
    assert log.read_text() == "of last night\n"
    log.write_text("")
    fitted(training(), log=log, steps=3)
    assert len(log.read_text().splitlines()) == 1 + 3 + 1


def test_a_run_goes_on_with_an_empty_log(tmp_path):
    options: dict[str, Any] = {"evaluate": None, "evaluate_every": None}
    fitted(training(), tmp_path, steps=20, **options)
    log = tmp_path / "log.csv"
    lines = log.read_text().splitlines()
    log.unlink()
    with pytest.raises(InputError, match=r"has 0 rows, there were 20 at the checkpoint: bring it back, or put an emp"):
        fitted(training(), tmp_path, resume=True, **options)
    log.touch()
    for steps in (22, 23):
        fitted(training(), tmp_path, resume=True, steps=steps, **options)
    new = log.read_text().splitlines()
    assert new[0] == lines[0] and [line.split(",")[0] for line in new[1:]] == ["21", "22", "23"]


def test_numbers_that_are_none_in_a_log(tmp_path):
    broken = training(loss=squared_error)
    broken.load_parameters({path: value * np.nan for path, value in broken.parameters().items()})
    fitted(broken, log=tmp_path / "log.jsonl", steps=2, evaluate=None, evaluate_every=None, on_nan="ignore")
    assert [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [None, None]


@pytest.mark.parametrize("name", ["step", "epoch", "loss", "learning_rate"])
def test_a_metric_with_the_name_of_another_column_is_refused(name, tmp_path):
    def loss(model: Any, x: Any, y: Any, shape: tuple[int, ...] = ()) -> Any:
        return squared_error(model, x, y), {name: tg.ones(shape), "other": tg.ones(())}

    def vector(model: Any, x: Any, y: Any) -> Any:
        return loss(model, x, y, (2,))

    path = tmp_path / "log.csv"
    path.write_text("before")
    refused, board = training(loss=loss), tg.callbacks.TensorBoard(tmp_path)
    with pytest.raises(InputError, match=f"fit: Log writes its own '{name}', call the metric something else"):
        fitted(refused, log=path)
    if name in board.own_names:
        with pytest.raises(InputError, match=f"fit: TensorBoard writes its own '{name}'"):
            fitted(refused, callbacks=[board])
    assert refused.step_count == 0 and path.read_text() == "before"
    assert (
        fitted(refused, steps=1).step == 1 == fitted(training(loss=vector), log=tmp_path / "vector.csv", steps=1).step
    )


def files_of(folder: Path) -> list[int]:
    return Checkpoints(folder).steps()


def test_early_stop(tmp_path):
    values = [3.0, 2.0, 2.5, float("nan"), 1.0, 1.0, 2.0, 3.0, 0.0]

    def settings(values_left: Any) -> dict[str, Any]:
        stop, files = EarlyStop("value", patience=3), Checkpoints(tmp_path, best="value", keep=1)
        options: dict[str, Any] = {"callbacks": [stop], "checkpoint": files, "evaluate_every": 2}
        return {**options, "evaluate": lambda _: next(values_left)}

    stopped, other = training(), training()
    report = fitted(stopped, **settings(iter([0.5, *values])))  # the first is only to see which metrics there are
    assert report.step == 16 and report.reason == "value was no better than 1 in 3 evaluations"
    assert report.best == tmp_path / "step-00000010.safetensors" and files_of(tmp_path) == [10, 16]
    assert report.checkpoint == tmp_path / "step-00000016.safetensors"
    again = fitted(other, **settings(iter([])), resume=True)
    assert again.step == 16 and again.steps_run == 0 and again.reason == report.reason
    most = EarlyStop("value", patience=1, mode="max", min_delta=0.5)
    few = iter([1.0, 1.0, 1.4])
    short = fitted(training(), callbacks=[most], evaluate=lambda _: next(few))
    assert short.step == 14


def test_batches_in_the_order_of_inputs():
    """Tuples and lists, as PyTorch's loaders make them, are the same as dicts."""
    named, placed = training(), training()
    batches = [*data()]
    tuples, lists = ([kind((batch["x"], batch["y"])) for batch in batches] for kind in (tuple, list))
    np.testing.assert_equal(placed.run(5, tuples), named.run(5, batches))
    assert placed.evaluate(squared_error, lists) == named.evaluate(squared_error, batches)
    reports = [tg.fit(each, data_, steps=10, progress=False) for each, data_ in ((placed, lists), (named, batches))]
    np.testing.assert_equal(reports[0].losses, reports[1].losses)
    message = "fit: a batch must be a dict of inputs by name, or a tuple of x, y, got tuple of 3"
    with pytest.raises(InputError, match=message):
        tg.fit(placed, [(1, 2, 3)], steps=12, progress=False)


def test_reduce_on_plateau(tmp_path):
    values = [3.0, 2.0, 2.5, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    rates, rate = list[float](), training().settings["learning_rate"]

    class Rates(Callback):
        def on_evaluate(self, run: Any, metrics: Any) -> None:
            rates.append(run.training.settings["learning_rate"])

    def run(steps: int, values_left: Any, **options: Any) -> None:
        slower = ReduceOnPlateau("value", patience=2, factor=0.5, min_rate=rate / 5)
        settings: dict[str, Any] = {"callbacks": [slower, Rates()], "evaluate_every": 2, "steps": steps, **options}
        fitted(training(), tmp_path, evaluate=lambda _: next(values_left), **settings)

    run(8, iter([0.5, *values]))  # the first is only to see which metrics there are
    run(18, iter([0.5, *values[4:]]), resume=True)
    expected = [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert rates == pytest.approx([rate * max(factor, 1 / 5) for factor in expected])


def test_ctrl_c_ends_the_run_with_a_checkpoint(tmp_path):
    class Interrupt(Callback):
        def on_step(self, run: Any) -> None:
            if run.step == 8:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    interrupted, other, whole = training(), training(), training()
    report = fitted(interrupted, tmp_path, callbacks=[Interrupt()])
    assert report.reason == "interrupted" and report.step == 8 and report.checkpoint is not None
    assert report.checkpoint.name == "step-00000008.safetensors" and len(report.evaluations) == 1
    assert signal.getsignal(signal.SIGINT) is before
    fitted(other, tmp_path, resume=True)
    fitted(whole, tmp_path / "whole")
    assert same(other.state_dict(), whole.state_dict())
    assert (tmp_path / "log.csv").read_bytes() == (tmp_path / "whole" / "log.csv").read_bytes()


def test_ctrl_c_while_there_is_no_data(tmp_path):
    """The thread that prepares batches waits, as for a network; the run ends as always."""
    is_waiting, is_over = threading.Event(), threading.Event()

    class Over(Callback):
        def on_step(self, run: Any) -> None:
            if run.steps_done == 3:
                is_waiting.set()

        def on_end(self, run: Any) -> None:
            is_over.set()

    def batch(number: int) -> dict[str, Any]:
        if number == 3:
            assert is_waiting.wait(60)  # for what is prepared may be ahead
            os.kill(os.getpid(), signal.SIGINT)
            assert is_over.wait(60)
        return data().at(0, 0)

    interrupted = training()
    options: dict[str, Any] = {"data": tg.data.generated(batch), "callbacks": [Over()]}
    report = fitted(interrupted, tmp_path, **options)
    assert (report.reason, report.step, len(report.losses)) == ("interrupted", 3, 3)
    assert files_of(tmp_path / "checkpoints") == [3]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + 3


def test_a_picture(tmp_path):
    path = tmp_path / "new" / "loss.png"
    fitted(training(), plot=path)
    assert path.read_bytes().startswith(b"\x89PNG") and [file.name for file in path.parent.iterdir()] == ["loss.png"]


def test_output_without_a_terminal(capsys):
    fitted(training(), progress=True, steps=20)
    out, err = capsys.readouterr()
    assert err == "" and "\x1b" not in out and "\r" not in out
    lines = out.splitlines()
    assert len(lines) <= 10 + 3 + 4
    assert "step 7, evaluation: error " in out and "20 steps, all steps done: 20 in " in out


def test_lines_of_a_long_run(capsys):
    bar = ProgressBar()
    run: Any = SimpleNamespace(steps=None, last_step=None, steps_done=0, step=0)
    bar.on_start(run)
    for run.steps_done in range(7, 3 * STEPS_A_LINE, 7):
        bar.on_records(run, [tg.callbacks.Record(run.steps_done, 0, np.float32(1), {}, learning_rate=0.1)])
    steps = [int(line.split()[1].rstrip(":")) for line in capsys.readouterr().out.splitlines()]
    assert [step // STEPS_A_LINE for step in steps] == [1, 2]


def test_output_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    fitted(training(), progress=True)
    out, _ = capsys.readouterr()
    assert "steps/s" in out and "23 steps, all steps done" in out


def test_silence(capsys):
    fitted(training())
    assert capsys.readouterr() == ("", "")


def test_a_second_run_in_the_same_training():
    in_two, at_once = training(), training()
    source = data()
    first, second = fitted(in_two, data=source, steps=10), fitted(in_two, data=source, steps=13)
    whole = fitted(at_once)
    assert [*first.losses, *second.losses] == whole.losses.tolist() and second.step == 23


def test_what_fails_leaves_the_place_of_the_data():
    source = data()
    with pytest.raises(RuntimeError, match="killed"):
        fitted(training(), data=source, callbacks=[StopAt(7)])
    assert (source.epoch, source.index) == (1, 2)

    def broken() -> Any:
        yield from data()
        raise KeyError("disk")

    with pytest.raises(KeyError, match="disk"):
        fitted(training(), data=broken())


def changed_folder(tmp_path: Path) -> Path:
    fitted(training(), tmp_path)
    return tmp_path


REFUSED_RESUMES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another model": ({"model": MLP(3, 7, 2)}, {}, r"layers\.0\.weight is float32\[3, 5\], expected float32\[3, 7\]"),
    "another optimizer": (
        {"optimizer": tg.optim.sgd(tg.optim.schedules.cosine(1e-2, 40, warmup=5))},
        {},
        "unexpected: optimizer/adam",
    ),
    "another schedule": ({"optimizer": tg.optim.adamw(1e-2)}, {}, "the schedule is None, it was "),
    "another batch size": ({}, {"data": tg.data.batches(arrays(), 3, shuffle=5)}, "size is 3, it was 4"),
    "another order": ({}, {"data": tg.data.batches(arrays(), 4)}, "shuffle is None"),
    "an iterator": ({}, {"data": iter(data())}, "can't be brought to where it was"),
    "other callbacks": ({}, {"callbacks": [EarlyStop("error")]}, "are EarlyStop, Log, Checkpoints, they were Log, Che"),
    "no log": ({}, {"log": None}, "callbacks are Checkpoints, they were Log"),
    "another log": ({}, {"log": "other.csv"}, "has 0 rows, there were 27 at the checkpoint"),
    "no wish to": ({}, {"resume": False}, "holds checkpoints of a run"),
}


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", REFUSED_RESUMES)
def test_a_run_goes_on_as_itself_alone(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled_with, fitted_with, message = REFUSED_RESUMES[name]
    folder = changed_folder(tmp_path)
    other = training(**compiled_with)
    source = fitted_with.get("data", data())
    before, log = other.state_dict(), (folder / "log.csv").read_bytes()
    place = source.state_dict() if isinstance(source, tg.data.Batches) else None
    with pytest.raises(InputError, match=message):
        fitted(other, folder, **{"data": source, "resume": True, **fitted_with})
    assert same(other.state_dict(), before) and (folder / "log.csv").read_bytes() == log
    assert place is None or source.state_dict() == place


def test_a_run_goes_on_with_the_settings_that_it_is_compiled_with(tmp_path):
    changed_folder(tmp_path)
    other = training(optimizer=tg.optim.adamw(tg.optim.schedules.cosine(1e-4, 40, warmup=5)))
    fitted(other, tmp_path, resume=True)
    assert other.state_dict()["training/learning_rate"] == 1e-4


def test_settings_that_changed_in_a_run_stay(tmp_path):
    first = training()
    first.set(learning_rate=3e-3)
    fitted(first, tmp_path)
    other = training()
    fitted(other, tmp_path, resume=True)
    assert other.state_dict()["training/learning_rate"] == 3e-3


def test_another_monitor_is_refused(tmp_path):
    fitted(training(), tmp_path, callbacks=[EarlyStop("error", patience=99)])
    with pytest.raises(InputError, match="EarlyStop: its mode is 'max', it was 'min'"):
        fitted(training(), tmp_path, callbacks=[EarlyStop("error", patience=99, mode="max")], resume=True)


def test_a_checkpoint_that_fit_has_not_written(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    training().save_checkpoint(tmp_path / "checkpoints" / "step-00000001.safetensors")
    with pytest.raises(InputError, match=r"not a checkpoint of tg\.fit"):
        fitted(training(), tmp_path, resume=True)


def test_an_iterator_is_fine_until_it_has_to_be_found_again(tmp_path):
    endless = itertools.chain.from_iterable(itertools.repeat(data()))
    report = fitted(training(), tmp_path, data=endless)
    assert report.step == 23
    with pytest.raises(InputError, match="can't be brought to where it was"):
        fitted(training(), tmp_path, data=itertools.chain.from_iterable(itertools.repeat(data())), resume=True)


class Unwritable(Callback):
    def state_dict(self) -> dict[str, Any]:
        return {"array": np.zeros(3)}


WRONG: dict[str, tuple[Any, type[TensorgradError], str]] = {
    "no training": (
        lambda: untyped.fit(MLP(3, 2), data(), steps=1),
        OptionError,
        "takes what tg.compile gives, got MLP",
    ),
    "no data": (lambda: fitted(training(), data=3), InputError, "iterable of batches, got int"),
    "one batch": (lambda: fitted(training(), data=arrays()), InputError, "iterable of batches, got dict"),
    "no length": (lambda: fitted(training(), steps=None), OptionError, "give steps= or epochs="),
    "steps": (lambda: fitted(training(), steps=0), OptionError, "steps must be a positive integer, got 0"),
    "epochs": (lambda: fitted(training(), epochs=1.5), OptionError, "epochs must be"),
    "prefetch": (lambda: fitted(training(), prefetch=-1), OptionError, "prefetch must be"),
    "evaluate": (lambda: fitted(training(), evaluate=3), OptionError, "evaluate must be a function"),
    "when": (lambda: fitted(training(), evaluate=None), OptionError, "evaluate_every without"),
    "gives": (lambda: fitted(training(), evaluate=lambda _: "good"), InputError, "must return a number, or several"),
    "once": (lambda: fitted(training(), data=iter(data()), epochs=2), InputError, "once, not for 2 epochs"),
    "early": (lambda: fitted(training(), data=iter(data())), InputError, "ended after 5 of 23 steps"),
    "empty": (lambda: fitted(training(), data=[]), InputError, "no batches"),
    "folder": (lambda: fitted(training(), resume=True), OptionError, "resume needs checkpoint="),
    "log": (lambda: fitted(training(), log="log.txt"), OptionError, r"a \.csv or a \.jsonl file"),
    "monitor": (lambda: fitted(training(), callbacks=[EarlyStop("x")]), InputError, "no 'x'; it has error"),
    "mode": (lambda: EarlyStop("x", mode="least"), OptionError, "one of min, max"),
    "patience": (lambda: EarlyStop("x", patience=0), OptionError, "patience must be"),
    "delta": (lambda: EarlyStop("x", min_delta=-1), OptionError, "min_delta must be"),
    "factor": (lambda: ReduceOnPlateau("x", factor=1.0), OptionError, "factor must be"),
    "least rate": (lambda: ReduceOnPlateau("x", min_rate=-1.0), OptionError, "min_rate must be"),
    "every": (lambda: Checkpoints("x", every=0), OptionError, "every must be"),
    "keep": (lambda: Checkpoints("x", keep=0), OptionError, "keep must be"),
    "None": (
        lambda: fitted(training(), data=[None], steps=None, epochs=1),
        InputError,
        "a batch must be a dict of inputs by name, or a tuple of x, y, got NoneType",
    ),
    "batch": (lambda: fitted(training(), data=[{"x": 1}]), InputError, "missing input 'y'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use(name):
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="must be JSON"):
        fitted(training(), tmp_path, callbacks=[Unwritable()])


def test_not_inside_a_trace():
    training_ = training()
    with pytest.raises(TraceError, match=r"tg\.fit inside a trace"):
        tg.trace(lambda x: fitted(training_), (1,))
