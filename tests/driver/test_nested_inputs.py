"""Inputs of a training step that are trees of arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, InputError


@dataclass
class Batch:
    """Rows, and several targets for each."""

    x: Any
    targets: list[Any]


BATCH = Batch(np.arange(12.0).reshape(4, 3) / 12, [np.ones((4, 2)), np.zeros((4, 2))])
DICT = {"x": BATCH.x, "targets": BATCH.targets}
FLAT = {"x": BATCH.x, "first": BATCH.targets[0], "second": BATCH.targets[1]}


def squared(model: Any, x: Any, targets: Any, weight: Any) -> Any:
    return weight * sum(tg.mse(model(x), target) for target in targets)


def of_dict(model: Any, batch: Any, weight: Any) -> Any:
    return squared(model, batch["x"], batch["targets"], weight)


def of_dataclass(model: Any, batch: Any, weight: Any) -> Any:
    return squared(model, batch.x, batch.targets, weight)


def of_arrays(model: Any, x: Any, first: Any, second: Any, weight: Any) -> Any:
    return squared(model, x, [first, second], weight)


def training(loss: Any, **inputs: Any) -> Any:
    specs = tg.like({**inputs, "weight": np.float32(1)})
    return tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs=specs, device="numpy")


@pytest.mark.parametrize(("loss", "batch"), [(of_dict, DICT), (of_dataclass, BATCH)])
def test_a_tree_is_as_its_leaves(loss: Any, batch: Any) -> None:
    nested, flat = training(loss, batch=batch), training(of_arrays, **FLAT)
    for _ in range(2):
        assert float(nested.step(batch=batch, weight=2.0)) == float(flat.step(**FLAT, weight=2.0))
    gradients = nested.gradients(batch=batch, weight=2.0), flat.gradients(**FLAT, weight=2.0)
    np.testing.assert_array_equal(gradients[0]["weight"], gradients[1]["weight"])
    again = nested.replace_model(optimizer=tg.optim.adam(0.1))
    assert float(again.step(batch=batch, weight=2.0)) == float(flat.step(**FLAT, weight=2.0))


def test_another_batch_size() -> None:
    longer = replace(BATCH, x=np.ones((7, 3)), targets=[np.ones((7, 2)), np.zeros((7, 2))])
    nested = training(of_dataclass, batch=BATCH)
    flat = training(of_arrays, **FLAT)
    expected = flat.step(x=longer.x, first=longer.targets[0], second=longer.targets[1], weight=1.0)
    assert float(nested.step(batch=longer, weight=1.0)) == float(expected)


def test_a_training_of_trees_is_fitted_and_diagnosed() -> None:
    nested = training(of_dict, batch=DICT)
    before = float(nested.replay(lambda value: None, batch=DICT, weight=1.0))
    tg.fit(nested, [{"batch": DICT, "weight": 1.0}], epochs=3, progress=False)
    assert float(nested.step(batch=DICT, weight=1.0)) < before
    assert nested.blame(batch=DICT, weight=1.0) is None
    assert nested.inspect("tg.sub", batch=DICT, weight=1.0)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"batch": {"x": BATCH.x}}, "missing inputs 'batch.targets.0', 'batch.targets.1'"),
        ({"batch": BATCH.x}, "unknown input 'batch'"),
        ({"batch": {**DICT, "z": 1.0}}, "unknown input 'batch.z'"),
    ],
)
def test_another_tree_is_an_error(inputs: Any, message: str) -> None:
    nested = training(of_dict, batch=DICT)
    with pytest.raises(InputError, match=message):
        nested.step(**inputs, weight=1.0)
    assert nested.step_count == 0


SAME_PATHS: list[tuple[dict[Any, Any], str]] = [
    ({"a.b": 1.0, "a": {"b": 2.0}}, r"the input 'batch\.a\.b' is given twice"),
    ({"a": [1.0], "a.0": 2.0}, r"the input 'batch\.a\.0' is given twice"),
    ({1: 1.0, "1": 2.0}, "a dict has the keys 1 and '1'"),
]


@pytest.mark.parametrize(("batch", "message"), SAME_PATHS)
def test_two_parts_with_one_path_are_an_error(batch: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        training(of_dict, batch=batch)
    assert __file__ in str(caught.value)
    nested = training(of_dict, batch=DICT)
    forward = nested.attach(lambda model, batch: batch)
    for call in (lambda: nested.step(batch=batch, weight=1.0), lambda: forward(batch=batch)):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(InputError, match=message):
        nested.attach(lambda model, batch: batch, inputs=tg.like({"batch": batch}))
    assert nested.step_count == 0


def test_a_loss_without_the_argument_is_an_error() -> None:
    with pytest.raises(InputError, match=r"it is called with \(model, other, weight\)"):
        training(of_dict, other=DICT)


@pytest.mark.usefixtures("kept_programs")
@pytest.mark.parametrize(
    ("loss", "batch", "x_of"), [(of_dict, DICT, lambda batch: batch["x"]), (of_dataclass, BATCH, lambda batch: batch.x)]
)
def test_a_file_takes_the_same_trees(loss: Any, batch: Any, x_of: Any, tmp_path: Path) -> None:
    specs = tg.like({"batch": batch, "weight": np.float32(1)})
    made = tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs=specs, device="cpu")
    made.save(tmp_path / "step.tgp")
    forward = made.attach(lambda model, batch: model(x_of(batch)), inputs={"batch": specs["batch"]})
    forward.save(tmp_path / "forward.tgp")
    loaded: Any = tg.load(tmp_path / "forward.tgp", device="cpu")
    expected = np.asarray(forward(batch=batch))
    for result in (loaded(batch=batch), loaded(batch)):
        np.testing.assert_array_equal(np.asarray(result), expected)
    for twice in ({"batch": batch, "batch.x": BATCH.x}, {"batch": {1: BATCH.x, "1": BATCH.x}}):
        with pytest.raises(ArgumentError, match=r"the input 'batch\.[x1]' is given twice"):
            loaded(**twice)
    step: Any = tg.load(tmp_path / "step.tgp", device="cpu")
    assert sorted(step.inputs) == ["batch.targets.0", "batch.targets.1", "batch.x", "weight"]
    assert float(step.step(batch=batch, weight=2.0)) == float(made.step(batch=batch, weight=2.0))
    with pytest.raises(ArgumentError, match=r"step takes its inputs by name: batch=\.\.\., weight=\.\.\."):
        step.step(batch, 2.0)
    with pytest.raises(InputError, match=r"missing input 'batch\.x'"):
        step.step(batch={"targets": DICT["targets"]}, weight=2.0)
    nested = [row.tolist() for row in BATCH.x]  # numbers in lists are an array, where the file has one of that name
    flat = {"batch.x": nested, "batch": {"targets": DICT["targets"]}, "weight": 2.0}
    assert float(step.step(**flat)) == float(made.step(batch=batch, weight=2.0))
