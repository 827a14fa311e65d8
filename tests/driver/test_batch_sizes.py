"""A step takes batches of other sizes: it is compiled for each, and continues with the same state."""

from __future__ import annotations

import gc
import logging
import re
import weakref
from typing import Any

import numpy as np
import pytest
from models import MLP, compiled

import tensorgrad as tg
from tensorgrad.driver.handles import batch_sizes
from tensorgrad.errors import DivergenceError, InputError

pytestmark = pytest.mark.usefixtures("kept_programs")

DEVICES = ["numpy", "cpu", "wgpu"]
SIZES = [4, 2, 4, 3, 2]


def examples(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(size, n)).astype(np.float32) for name, n in (("x", 3), ("y", 2))}


def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
    return tg.mse(model(x) + 0.1 * tg.random.normal(key, (2,)), y)


def close(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_the_state_goes_on(device: str) -> None:
    """Each step equals that of a training compiled for its size: parameters, moments, key, schedule and step count."""
    options: dict[str, Any] = {
        "loss": noisy,
        "optimizer": tg.optim.adamw(tg.optim.schedules.cosine(1e-2, 9, warmup=2), clip_norm=0.5),
    }
    training = compiled(device=device, **options)
    others = {size: compiled(inputs={"x": (size, 3), "y": (size, 2)}, **options) for size in set(SIZES)}
    state = others[4].state_dict()
    for number, size in enumerate(SIZES):
        others[size].load_state_dict(state)
        expected = float(others[size].step(**examples(size, number)))
        state = others[size].state_dict()
        assert float(training.step(**examples(size, number))) == pytest.approx(expected, rel=1e-5)
    close(training.state_dict(), state)
    assert training.step_count == len(SIZES)


def test_a_size_is_compiled_once(caplog: pytest.LogCaptureFixture) -> None:
    training = compiled()
    with caplog.at_level(logging.INFO, "tensorgrad"):
        for size in SIZES:
            training.step(**examples(size))
    lines = [record.getMessage() for record in caplog.records if "batch size" in record.getMessage()]
    assert [re.sub(r"\d+\.\d\d s", "T s", line) for line in lines] == [
        f"squared_error: compiled for another batch size in T s: x ({n}, 3), y ({n}, 2)" for n in (2, 3)
    ]


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("options", [{"device": "numpy"}, {"device": "wgpu", "on_device_lost": "restart"}], ids=str)
def test_only_the_last_sizes_are_kept(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was compiled beside them; steps of forgotten sizes remain counted, and compile again."""
    monkeypatch.setattr(batch_sizes, "MOST_SIZES", 2)
    training, plain = compiled(**options), compiled(**options)
    forgotten = []
    for number, size in enumerate([2, 3, 5, 2, 6]):
        training.step(**examples(size, number))
        training.gradients(**examples(size, number))
        forgotten.append(weakref.ref(training._programs.of(examples(size), "step")[0]))
        assert training.step_count == number + 1
    monkeypatch.setattr(batch_sizes, "MOST_SIZES", 8)
    for number, size in enumerate([2, 3, 5, 2, 6]):
        plain.step(**examples(size, number))
    gc.collect()
    assert [reference() is None for reference in forgotten] == [True, True, True, False, False]
    assert all(np.array_equal(value, plain.state_dict()[name]) for name, value in training.state_dict().items())


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_micro_batches_of_other_sizes(device: str) -> None:
    """The update is by the mean of the gradients of the micro-batches, whatever their sizes."""
    training = compiled(device=device, accumulate=2, optimizer=tg.optim.sgd(0.1))
    before = training.parameters()
    parts = [examples(4, 1), examples(2, 2)]
    gradients = [training.gradients(**part) for part in parts]
    for part in parts:
        training.step(**part)
    expected = {
        name: value - 0.1 * np.mean([np.asarray(gradient[name]) for gradient in gradients], 0)
        for name, value in before.items()
    }
    close(training.parameters(), expected)
    assert (training.step_count, training.accumulated) == (1, 0)


def test_other_functions_take_the_size_too() -> None:
    training = compiled(device="cpu")
    part = examples(2)
    loss = float(compiled(inputs={"x": (2, 3), "y": (2, 2)}).step(**part))
    assert float(training.replay(lambda inspected: None, **part)) == pytest.approx(loss)
    assert training.blame(**part) is None
    assert training.inspect("tg.tanh", **part)[0].value.shape == (2, 5)
    assert training.step_count == 0


def test_indices_are_checked_for_each_size() -> None:
    def loss(model: Any, x: Any, label: Any) -> Any:
        return tg.cross_entropy(model(x), label)

    inputs = {"x": (4, 3), "label": tg.spec(4, "i32")}
    training = compiled(loss=loss, inputs=inputs, checks=True)
    with pytest.raises(InputError, match="label"):
        training.step(x=np.zeros((2, 3), np.float32), label=np.array([0, 7]))
    assert training.step_count == 0


def test_a_divergent_step_of_another_size_is_taken_back() -> None:
    training = compiled(check_numerics=True)
    before = training.state_dict()
    with pytest.raises(DivergenceError, match="step 1,"):
        training.step(x=np.zeros((2, 3), np.float32), y=np.full((2, 2), 1e30, np.float32))
    close(training.state_dict(), before)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": (3, 3), "y": (4, 2)}, r"has shape \(3, 3\), expected \(4, 3\); another batch size is .* of x, y and"),
        ({"x": (3, 3), "y": (2, 2)}, r"another batch size"),
        ({"x": (0, 3), "y": (0, 2)}, r"from 1"),
        ({"x": (2, 5), "y": (2, 2)}, r"has shape \(2, 5\), expected \(4, 3\)"),
        ({"x": (2,), "y": (2, 2)}, r"has shape \(2,\), expected \(4, 3\)"),
        ({"x": (2, 3)}, r"missing input 'y'"),
    ],
)
def test_anything_else_is_an_error(inputs: dict[str, tuple[int, ...]], message: str) -> None:
    training = compiled()
    before = training.state_dict()
    with pytest.raises(InputError, match=message):
        training.step(**{name: np.zeros(shape, np.float32) for name, shape in inputs.items()})
    assert all(np.array_equal(value, before[name]) for name, value in training.state_dict().items())


def test_inputs_of_other_extents_keep_theirs() -> None:
    """A table that all examples share is no part of the batch."""

    def loss(model: Any, x: Any, table: Any, scale: Any) -> Any:
        return tg.mean(model(x) @ table) * scale

    training = compiled(loss=loss, inputs={"x": (4, 3), "table": (2, 6), "scale": ()})
    rest = {"table": np.ones((2, 6), np.float32), "scale": np.float32(2)}
    training.step(x=np.ones((3, 3), np.float32), **rest)
    with pytest.raises(InputError, match="of x and of no other input"):
        training.step(x=np.ones((3, 3), np.float32), **{**rest, "table": np.ones((3, 6), np.float32)})


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_fit_takes_a_smaller_last_batch(device: str) -> None:
    data = tg.data.batches(examples(10), 4, last="keep")
    training = compiled(device=device, model=MLP(3, 5, 2))
    report = tg.fit(training, data, epochs=2, progress=False)
    assert report.steps_run == training.step_count == 6
    assert np.isfinite(report.losses).all()
