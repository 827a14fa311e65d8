"""`Training.inspect`: the values of a line, forward, backward and in the update, of this step or of one of the past."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.driver.inspection import Inspected
from tensorgrad.errors import InputError, OptionError

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def loss(model: Any, x: tg.Tensor) -> Any:
    hidden = tg.tanh(model(x))  # the hidden layer
    last, _ = tg.scan(lambda carry, _: (carry * 0.5, None), hidden, length=3)  # the loop
    return tg.mean(last**2)


def line(text: str) -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"test_inspect.py:{1 + next(number for number, one in enumerate(lines) if text in one)}"


def compiled(device: tg.DeviceName = "numpy") -> tg.Training:
    return tg.compile(
        tg.nn.Linear(3, 2, init=tg.initializers.normal(0.5)),
        loss=loss,
        optimizer=tg.optim.adam(0.1),
        inputs={"x": (4, 3)},
        device=device,
    )


def hidden_of(training: tg.Training, x: np.ndarray = X) -> np.ndarray:
    parameters = training.parameters()
    return np.tanh(x @ parameters["weight"] + parameters["bias"])


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_a_line_has_its_values_and_those_of_its_derivative(device: tg.DeviceName) -> None:
    training = compiled(device)
    hidden = hidden_of(training)
    found = training.inspect(line("# the hidden layer"), x=X)
    forward = [one for one in found if one.phase == "forward" and one.op == "tg.tanh"]
    assert len(forward) == 1
    np.testing.assert_allclose(forward[0].value, hidden, rtol=1e-5)
    slope = 0.125 * (2 * 0.125 * hidden / hidden.size) * (1 - hidden**2)
    backward = [one.value for one in found if one.phase == "backward" and one.value.shape == hidden.shape]
    assert any(np.allclose(value, slope, rtol=1e-4, atol=1e-7) for value in backward)
    order = [["forward", "backward", "update"].index(one.phase) for one in found]
    assert order == sorted(order)


def test_nothing_changes() -> None:
    training = compiled("cpu")
    training.step(x=X)
    before = training.state_dict()
    training.inspect("tg.tanh", x=X)
    after = training.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert training.step_count == 1


def test_an_op_in_a_loop_has_a_value_for_each_iteration() -> None:
    training = compiled()
    hidden = hidden_of(training)
    found = [one for one in training.inspect(line("# the loop"), x=X) if one.phase == "forward" and one.op == "tg.mul"]
    assert len(found) == 3
    for number, one in enumerate(found):
        np.testing.assert_allclose(one.value, hidden * 0.5 ** (number + 1), rtol=1e-5)


def test_updates_have_the_optimizers_lines() -> None:
    found = compiled().inspect("tg.sqrt", x=X)
    assert {one.phase for one in found} == {"update"}


def test_a_step_of_the_past_is_inspected_from_its_checkpoint(tmp_path: Path) -> None:
    training = compiled("cpu")
    batches = [X * (number + 1) for number in range(4)]
    seen: list[tuple[Inspected, ...]] = []
    for number, x in enumerate(batches):
        training.save_checkpoint(tmp_path / f"{number}")
        seen.append(training.inspect("tg.tanh", x=x))
        training.step(x=x)
    other = compiled("numpy")
    other.load_checkpoint(tmp_path / "2")
    again = other.inspect("tg.tanh", x=batches[2])
    assert other.step_count == 2
    assert [one.value.tobytes() for one in again] == [one.value.tobytes() for one in seen[2]]
    assert [one.value.tobytes() for one in again] != [one.value.tobytes() for one in seen[1]]


def test_a_value_is_summarized() -> None:
    (one,) = compiled().inspect("tg.tanh", x=X)
    number = r"-?\d[\d.e-]*"
    start = re.escape(f"{Path(__file__)}:{line('# the hidden layer').partition(':')[2]}")
    assert re.fullmatch(rf"{start}: tg\.tanh \(forward\): float32\[4, 2\] from {number} to {number}", str(one))


def test_what_is_nowhere_is_refused() -> None:
    training = compiled()
    places = rf"there are the lines \S*{re.escape(line('# the hidden layer'))}, .*\S*{re.escape(line('# the loop'))}"
    with pytest.raises(OptionError, match=rf"inspect: no op of the step is from 'nowhere.py:3'; {places}"):
        training.inspect("nowhere.py:3", x=X)
    with pytest.raises(InputError, match="input 'x'"):
        training.inspect("tg.tanh", x=X[:2])
