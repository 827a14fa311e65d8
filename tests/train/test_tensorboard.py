"""Files of `tg.callbacks.TensorBoard`, read by TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import compiled, squared_error
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.train.callbacks import Checkpoints, TensorBoard


def loss(model: Any, x: Any, y: Any) -> Any:
    error = squared_error(model, x, y)
    return error, {"doubled": 2 * error}


def batch(number: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(number)
    return {"x": generator.normal(size=(4, 3)).astype("f4"), "y": generator.normal(size=(4, 2)).astype("f4")}


def fitted(folder: Path, steps: int, resume: bool = False) -> tg.Report:
    training = compiled(loss=loss, optimizer=tg.optim.adam(tg.optim.schedules.linear(1e-2, 20)))
    return tg.fit(
        training,
        tg.data.generated(batch),
        steps=steps,
        evaluate=lambda training: {"error": training.step_count / 2},
        evaluate_every=3,
        callbacks=[TensorBoard(folder / "events")],
        checkpoint=Checkpoints(folder / "checkpoints", every=4, keep=9),
        resume=resume,
        progress=False,
    )


def shown(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events: Any = EventAccumulator(str(folder / "events"), size_guidance={"scalars": 0})
    events.Reload()
    tags: list[str] = events.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


def test_a_run_is_shown(tmp_path: Path) -> None:
    report = fitted(tmp_path, 10)
    scalars = shown(tmp_path)
    assert {*scalars} == {"train/loss", "train/doubled", "train/learning_rate", "evaluation/error"}
    assert scalars["train/loss"] == [(step, np.float32(value)) for step, value in enumerate(report.losses, 1)]
    assert scalars["train/doubled"] == [(step, np.float32(2 * value)) for step, value in enumerate(report.losses, 1)]
    rate = tg.optim.schedules.linear(1e-2, 20)
    assert scalars["train/learning_rate"] == [(step, np.float32(rate(step))) for step in range(1, 11)]
    assert scalars["evaluation/error"] == [(3, 1.5), (6, 3.0), (9, 4.5), (10, 5.0)]


def test_a_run_that_goes_on_is_shown_as_one(tmp_path: Path) -> None:
    """Records after the checkpoint are gone, and each step occurs once."""
    fitted(tmp_path, 10)
    for step in (10,):  # as if it had been killed between the last checkpoints
        Checkpoints(tmp_path / "checkpoints").path(step).unlink()
    report = fitted(tmp_path, 13, resume=True)
    assert report.steps_run == 5
    scalars = shown(tmp_path)
    assert scalars["train/loss"] == [(step, np.float32(value)) for step, value in enumerate(report.losses, 1)]
    assert [step for step, _ in scalars["evaluation/error"]] == [3, 6, 9, 12, 13]


def test_a_new_run_replaces_another(tmp_path: Path) -> None:
    fitted(tmp_path, 10)
    for file in (tmp_path / "checkpoints").iterdir():
        file.unlink()
    fitted(tmp_path, 4)
    assert [step for step, _ in shown(tmp_path)["train/loss"]] == [1, 2, 3, 4]


def test_without_tensorboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(OptionError, match=r"TensorBoard needs tensorboard: pip install tensorboard"):
        TensorBoard(tmp_path)
