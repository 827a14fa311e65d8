"""`tg.fit` in a group equals the run of one process; only the first process writes files and output."""

from __future__ import annotations

import json
import math
import re
import threading
from typing import Any

import numpy as np
import pytest
from distributed_models import CLASSES, EXAMPLES, FEATURES, INPUTS, compiled, in_group, same

import tensorgrad as tg
from tensorgrad.callbacks import Callback, Checkpoints, EarlyStop
from tensorgrad.errors import DivergenceError, GroupError, InputError

pytestmark = pytest.mark.usefixtures("kept_programs")

TOTAL = 52
"""Six batches and a half."""


def arrays(total: int = TOTAL) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(7)
    x = generator.normal(size=(total, FEATURES)).astype(np.float32)
    return {"x": x, "y": (np.abs(x[:, 0] * 3).astype(np.int32)) % CLASSES}


def data(**options: Any) -> Any:
    return tg.data.batches(arrays(), EXAMPLES, **{"shuffle": 5, **options})


def masked(model: Any, x: Any, y: Any, mask: Any, key: Any) -> Any:
    return tg.sum(tg.cross_entropy(model(x, key), y, reduction="none") * mask) / tg.sum(mask)


def scores(model: Any, x: Any, y: Any) -> Any:
    logits = tg.nn.inference(model)(x)
    return {"loss": tg.cross_entropy(logits, y), "accuracy": tg.mean(tg.equal(tg.argmax(logits, -1), y))}


def evaluate(training: Any) -> Any:
    return training.evaluate(scores, tg.data.batches(arrays(20), EXAMPLES, last="keep"))


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def run(group: Any, folder: Any = None, training: Any = None, **options: Any) -> Any:
    settings: dict[str, Any] = {"steps": 15, "evaluate": evaluate, "progress": False}
    if folder is not None:
        settings |= {"checkpoint": Checkpoints(folder, every=4, best="loss"), "log": folder / "log.jsonl"}
    source = options.pop("data") if "data" in options else data()
    training = training or compiled(group, shard="optimizer", device=options.pop("device", "numpy"))
    return tg.fit(training, source, **{**settings, **options}), training


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize(("device", "size"), [("numpy", 1), ("numpy", 2), ("numpy", 4), ("cpu", 2)])
def test_a_group_fits_as_one_process_does(device, size, tmp_path):
    alone, _ = run(None, tmp_path / "alone", device=device)
    together = in_group(size, lambda group: run(group, tmp_path / "group", device=device)[0])
    for report in together:
        close(report.losses, alone.losses)
        assert (report.step, report.epoch, report.reason) == (15, 2, "all steps done")
        assert [step for step, _ in report.evaluations] == [step for step, _ in alone.evaluations]
        for (_, actual), (_, expected) in zip(report.evaluations, alone.evaluations, strict=True):
            assert actual.keys() == expected.keys()
            close(list(actual.values()), list(expected.values()))
        assert report.checkpoint == together[0].checkpoint and report.best == together[0].best
    names = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert sorted(path.name for path in (tmp_path / "group").iterdir()) == names
    rows, expected = (
        [json.loads(line) for line in (tmp_path / folder / "log.jsonl").read_text().splitlines()]
        for folder in ("group", "alone")
    )
    assert len(rows) == len(expected) == 15 + len(alone.evaluations)
    assert [row.keys() for row in rows] == [row.keys() for row in expected]


@pytest.mark.nightly
def test_padding_and_short_batches(tmp_path):
    inputs = {**INPUTS, "mask": (EXAMPLES,)}

    def fit(group):
        training = compiled(group, loss=masked, inputs=inputs)
        return run(group, training=training, data=data(last="pad"), steps=9)[0].losses

    alone = fit(None)
    for losses in in_group(4, fit):
        close(losses, alone)

    def short(group):
        message = (
            "the last batch of an epoch has 4 examples, the others 8: a group takes its parts of equal batches; give "
            "last='pad' or last='drop'"
        )
        with pytest.raises(InputError, match=re.escape(message)):
            run(group, data=data(last="keep"), epochs=1, steps=None)
        with pytest.raises(
            InputError,
            match=r"input 'x' has shape \(4, 6\); a group of 4 processes takes the whole batch, \(8, 6\), or this "
            r"process's part of it, \(2, 6\)",
        ):
            compiled(group).step(**tg.data.batches(arrays(4), 4).at(0, 0))
        return True

    assert all(in_group(4, short))


@pytest.mark.parametrize("last", ["drop", "pad", "keep"])
@pytest.mark.parametrize("shuffle", [None, 3])
def test_parts_of_batches_are_batches(last, shuffle):
    source = data(last=last, shuffle=shuffle)
    for index in range(len(source)):
        whole = source.at(1, index)
        parts = [source.part_at(1, index, ("x", "mask"), rank, 4) for rank in range(4)]
        assert all(part.keys() == whole.keys() for part in parts)
        assert {len(part["x"]) for part in parts} == {len(whole["x"]) // 4}
        for name in whole.keys() & {"x", "mask"}:
            assert np.array_equal(np.concatenate([part[name] for part in parts]), whole[name])
        assert all(np.array_equal(part["y"], whole["y"]) for part in parts)
    odd = source.part_at(0, 0, ("x",), 1, 3)
    assert np.array_equal(odd["x"], source.at(0, 0)["x"])  # what has no equal parts stays whole


@pytest.mark.nightly
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize(("before", "after"), [(4, 4), (4, 1), (2, 4), (1, 2)])
def test_a_run_goes_on_with_any_number_of_processes(before, after, accumulate, tmp_path):
    def fit(group, steps, folder):
        training = compiled(group, shard="optimizer", accumulate=accumulate)
        report, _ = run(group, folder, training=training, steps=steps, resume=True)
        return report, training.state_dict()

    (whole, state), *_ = in_group(before, lambda group: fit(group, 13, tmp_path / "whole"))
    in_group(before, lambda group: fit(group, 7, tmp_path / "parts"))
    for report, final_state in in_group(after, lambda group: fit(group, 13, tmp_path / "parts")):
        assert report.steps_run == 6
        if before == after:
            assert same(final_state, state) and report.losses.tobytes() == whole.losses.tobytes()
        close(report.losses, whole.losses)
    logs = [(tmp_path / folder / "log.jsonl").read_text().count("\n") for folder in ("whole", "parts")]
    assert logs[0] == 13 + len(whole.evaluations) and logs[1] == logs[0] + 1  # the evaluation at step 7


def test_progress_is_shown_once(capsys):
    in_group(2, lambda group: run(group, progress=True))
    shown = capsys.readouterr().out
    assert shown.count("15 steps, all steps done") == 1
    assert shown.count("step 15, evaluation") == 1


class Stopping(Callback):
    """Requests an end, in some processes, each with a different reason."""

    def __init__(self, is_asking: bool, at: int):
        self.is_asking, self.at = is_asking, at

    def on_records(self, run, records):
        if self.is_asking and run.step >= self.at:
            run.stop("one had enough")


class StoppingAtStep(Stopping):
    def on_records(self, run, records):
        pass

    def on_step(self, run):
        if self.is_asking and run.step == self.at:
            run.stop("a step was reached")


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(
    ("what", "differs"),
    [
        ("the callbacks", lambda first: {"callbacks": [Stopping(False, 5)] if first else []}),
        ("the callbacks", lambda first: {"callbacks": [EarlyStop("loss")] if first else []}),
        ("steps", lambda first: {"steps": 4 if first else 5}),
        ("on_nan", lambda first: {"on_nan": "raise" if first else "stop"}),
        ("evaluate", lambda first: {} if first else {"evaluate": None}),
    ],
)
def test_processes_that_ask_for_other_runs_are_told(what, differs):
    def fit(group):
        with pytest.raises(GroupError) as caught:
            run(group, **{"steps": 4, **differs(group.rank == 0)})
        return str(caught.value)

    messages = in_group(2, fit)
    assert messages[0] == messages[1] and messages[0].startswith(f"the ranks do not agree on {what} of tg.fit: ")


def test_the_first_process_may_show_progress_alone():
    steps = in_group(2, lambda group: run(group, steps=4, progress=group.rank == 0)[0].step)
    assert steps == [4, 4]


@pytest.mark.nightly
def test_all_end_where_one_wishes():
    def fit(group):
        report, _ = run(group, steps=200, evaluate=None, callbacks=[Stopping(group.rank == 2, 5)])
        return report.step, report.reason

    ends = in_group(4, fit)
    assert len(set(ends)) == 1 and ends[0][1] == "one had enough" and 5 <= ends[0][0] < 200


@pytest.mark.nightly
def test_callbacks_end_a_run_behind_the_step_where_one_process_ends():
    def by_steps(group):
        return run(group, evaluate=None, callbacks=[StoppingAtStep(True, 7)])[0]

    def early(group):
        callback = EarlyStop("loss", patience=1, min_delta=1e3)
        return run(group, steps=100, evaluate_every=3, callbacks=[callback])[0]

    for fit, step in ((by_steps, 7), (early, 6)):
        reports = [fit(None), *in_group(2, fit)]
        assert [report.step for report in reports] == [step] * 3
        assert len({report.reason[:20] for report in reports}) == 1


def test_an_interruption_of_one_process_ends_all():
    def fit(group):
        class Interrupted(Callback):
            def on_records(self, run, records):
                if group.rank == 1:
                    run.stop("interrupted")

        evaluated = []
        report, _ = run(
            group,
            steps=200,
            evaluate_every=100,
            callbacks=[Interrupted()],
            evaluate=lambda training: evaluated.append(1) or evaluate(training),
        )
        return report.step, report.reason, len(evaluated)

    endings = in_group(2, fit)
    assert endings[0] == endings[1] and endings[0][1:] == ("interrupted", 0)


@pytest.mark.nightly
@pytest.mark.parametrize("on_nan", ["stop", "raise"])
def test_divergence_ends_all_at_the_same_step(on_nan, tmp_path):
    broken = arrays()
    broken["x"][30] = np.nan  # in one process's part of one batch

    def fit(group):
        source = tg.data.batches(broken, EXAMPLES)
        try:
            report, _ = run(
                group,
                tmp_path / on_nan,
                data=source,
                steps=40,
                evaluate=None,
                on_nan=on_nan,
                checkpoint=Checkpoints(tmp_path / on_nan, every=1),
            )
        except DivergenceError as error:
            return str(error).partition(": fit: ")[2]
        return report.reason

    reasons = in_group(4, fit)
    assert len(set(reasons)) == 1 and reasons[0].startswith("the loss was nan at step 4")
    assert sorted(path.stem for path in (tmp_path / on_nan).glob("*.safetensors"))[-1] == "step-00000003"


def test_the_first_process_decides_what_an_evaluation_gave():
    values = iter([3.0, 4.0])
    lock = threading.Lock()

    def fit(group):
        def own(training):
            with lock:
                return next(values)

        return run(group, steps=2, evaluate=own)[0].evaluations

    first, second = in_group(2, fit)
    assert first == second and first[0][1]["value"] in (3.0, 4.0)


@pytest.mark.nightly
def test_what_one_process_cannot_go_on_from_none_does(tmp_path):
    in_group(2, lambda group: run(group, tmp_path, steps=5))

    def fit(group):
        training = compiled(group, shard="optimizer")
        before = training.state_dict()
        source = tg.data.batches(arrays(TOTAL - 2 * group.rank), EXAMPLES, shuffle=5)
        with pytest.raises(
            GroupError, match=r"do not agree on the data: .*'examples': 52.* on rank 0; .*'examples': 50"
        ):
            run(group, tmp_path, training=training, data=source, resume=True)
        assert same(training.state_dict(), before)
        return source.epoch, source.index

    assert in_group(2, fit) == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda training: training._state._executable.write({"last.bias": np.ones(CLASSES)}),
            "values of the parameters",
        ),
        (lambda training: training.set(learning_rate=1e-3), "the settings of the optimizer: {'learning_rate': 0.01"),
        (lambda training: training.reset(8), "the seed: 3 on rank 0; 8 on rank 1"),
        (None, r"the data: .*'shuffle': \[0, 5\]} on rank 0; .*'shuffle': \[0, 6\]} on rank 1"),
    ],
    ids=["parameters", "settings", "seed", "data"],
)
def test_a_state_of_one_process_alone_is_refused(change, message):
    def fit(group):
        training = compiled(group)
        if group.rank and change is not None:
            change(training)
        source = data(shuffle=5 + group.rank) if change is None else data()
        with pytest.raises(GroupError, match=f"the ranks do not agree on (the )?{message}"):
            run(group, training=training, data=source, evaluate=None)
        return training.step_count

    assert in_group(2, fit) == [0, 0]


def test_parameters_are_loaded_by_all_processes():
    def load(group):
        training = compiled(group)
        before, values = training.state_dict(), training.state_dict("model")
        values["last.bias"] = np.zeros(CLASSES + group.rank, np.float32)
        with pytest.raises(InputError, match=r"last\.bias"):
            training.load_parameters(values)
        assert same(training.state_dict(), before)
        values["last.bias"] = np.ones(CLASSES, np.float32)
        training.load_parameters(values)
        return run(group, training=training, steps=2, evaluate=None)[0].step

    assert in_group(2, load) == [2, 2]


def test_a_folder_that_cannot_be_made_is_an_error_of_all(tmp_path):
    (tmp_path / "file").write_text("")

    def fit(group):
        with pytest.raises(OSError):
            run(group, steps=2, evaluate=None, checkpoint=tmp_path / "file" / "folder")
        return True

    assert all(in_group(2, fit))


@pytest.mark.nightly
def test_batches_that_functions_make_and_iterators_give():
    def batch_of(number):
        rows = np.random.default_rng(number).permutation(TOTAL)[:EXAMPLES]
        return {name: array[rows] for name, array in arrays().items()}

    def fit(group):
        losses = run(group, data=tg.data.generated(batch_of), steps=4, evaluate=None)[0].losses
        part = slice(0, EXAMPLES)
        if group is not None:
            each = EXAMPLES // group.size
            part = slice(group.rank * each, (group.rank + 1) * each)
        parts = [{name: array[part] for name, array in batch_of(number).items()} for number in range(4)]
        return losses, run(group, data=iter(parts), steps=4, evaluate=None)[0].losses

    alone = fit(None)
    assert math.isfinite(alone[0][0])
    for losses_of_process in in_group(4, fit):
        close(losses_of_process, alone)
