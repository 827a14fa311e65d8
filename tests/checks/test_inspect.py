"""`Training.inspect`: the values of a line, forward, backward and in the update, of the current or a past step."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.checks.inspection import Inspected
from tensorgrad.dialects.locations import calls_in, line_in
from tensorgrad.driver.storage.program_key import fingerprint
from tensorgrad.errors import InputError, OptionError

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def loss(model: Any, x: tg.Tensor) -> Any:
    hidden = tg.tanh(model(x))  # the hidden layer
    last, _ = tg.scan(lambda carry, _: (carry * 0.5, None), hidden, length=3)  # the loop
    return tg.mean(last**2)


def line(text: str) -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"test_inspect.py:{1 + next(number for number, content in enumerate(lines) if text in content)}"


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
    inspected = training.inspect(line("# the hidden layer"), x=X)
    forward = [value for value in inspected if value.phase == "forward" and value.op == "tg.tanh"]
    assert len(forward) == 1
    np.testing.assert_allclose(forward[0].value, hidden, rtol=1e-5)
    slope = 0.125 * (2 * 0.125 * hidden / hidden.size) * (1 - hidden**2)
    backward = [value.value for value in inspected if value.phase == "backward" and value.value.shape == hidden.shape]
    assert any(np.allclose(value, slope, rtol=1e-4, atol=1e-7) for value in backward)
    order = [["forward", "backward", "update"].index(value.phase) for value in inspected]
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
    products = [
        value
        for value in training.inspect(line("# the loop"), x=X)
        if value.phase == "forward" and value.op == "tg.mul"
    ]
    assert len(products) == 3
    for number, product in enumerate(products):
        np.testing.assert_allclose(product.value, hidden * 0.5 ** (number + 1), rtol=1e-5)


def test_updates_have_the_optimizers_lines() -> None:
    inspected = compiled().inspect("tg.sqrt", x=X)
    assert {value.phase for value in inspected} == {"update"}


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
    assert [value.value.tobytes() for value in again] == [value.value.tobytes() for value in seen[2]]
    assert [value.value.tobytes() for value in again] != [value.value.tobytes() for value in seen[1]]


def test_a_value_is_summarized() -> None:
    (value,) = compiled().inspect("tg.tanh", x=X)
    number = r"-?\d[\d.e-]*"
    start = re.escape(f"{Path(__file__)}:{line('# the hidden layer').partition(':')[2]}")
    assert re.fullmatch(rf"{start}: tg\.tanh \(forward\): float32\[4, 2\] from {number} to {number}", str(value))


def test_what_is_nowhere_is_refused() -> None:
    training = compiled()
    places = rf"there are the lines \S*{re.escape(line('# the hidden layer'))}, .*\S*{re.escape(line('# the loop'))}"
    with pytest.raises(OptionError, match=rf"inspect: no op of the step is from 'nowhere.py:3'; {places}"):
        training.inspect("nowhere.py:3", x=X)
    with pytest.raises(InputError, match="input 'x'"):
        training.inspect("tg.tanh", x=X[:, :2])


class Cell(tg.nn.Module):
    """A layer with a nested layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = tg.nn.Linear(3, 3, init=tg.initializers.normal(0.5))

    def __call__(self, x: tg.Tensor) -> Any:
        return tg.tanh(self.linear(x)) + x


class Scaled(Cell):
    """A layer that calls its base class."""

    def __call__(self, x: tg.Tensor) -> Any:
        return super().__call__(x) * 0.5


class Blocks(tg.nn.Module):
    """Layers in a list, in a container, and one with two names that is called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [Cell(), Scaled()]
        self.stack = tg.nn.Sequential(Cell(), tg.relu)
        self.cell = Cell()
        self.parts = {"again": self.cell}

    def __call__(self, x: tg.Tensor) -> Any:
        for block in self.blocks:
            x = block(x)
        x = self.cell(self.cell(self.stack(x)))
        return self.parts["again"](x)


def blocks(device: tg.DeviceName = "numpy", **options: Any) -> tg.Training:
    return tg.compile(
        Blocks(),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device=device,
        **options,
    )


def cell_of(training: tg.Training, path: str, x: np.ndarray) -> np.ndarray:
    parameters = training.parameters()
    return np.tanh(x @ parameters[f"{path}.linear.weight"] + parameters[f"{path}.linear.bias"]) + x


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_module_has_its_values_and_their_derivatives(device: tg.DeviceName) -> None:
    training = blocks(device)
    inspected = training.inspect("blocks.0", x=X)
    assert {value.module for value in inspected} == {"blocks.0", "blocks.0.linear"}
    assert {value.phase for value in inspected} == {"forward", "backward"}
    (result,) = (value for value in inspected if value.is_result)
    np.testing.assert_allclose(result.value, cell_of(training, "blocks.0", X), rtol=1e-5)
    assert f"tg.{result.op.removeprefix('tg.')} (forward, in blocks.0, a result): float32[4, 3]" in str(result)
    inner = training.inspect("blocks.0.linear", x=X)
    assert {value.module for value in inner} == {"blocks.0.linear"}
    whole = [(value.op, value.value.tobytes()) for value in inspected]
    assert all((value.op, value.value.tobytes()) in whole for value in inner)


def test_a_call_of_a_base_class_is_the_modules_own() -> None:
    training = blocks()
    inspected = training.inspect("blocks.1", x=X)
    assert {value.module for value in inspected} == {"blocks.1", "blocks.1.linear"}
    (result,) = (value for value in inspected if value.is_result)
    before = cell_of(training, "blocks.0", X)
    np.testing.assert_allclose(result.value, 0.5 * cell_of(training, "blocks.1", before), rtol=1e-5)


def test_lists_and_containers_of_modules_have_paths() -> None:
    training = blocks()
    assert {value.module for value in training.inspect("stack", x=X)} == {"stack", "stack.0", "stack.0.linear"}
    listed = [value.module for value in training.inspect("blocks", x=X) if value.is_result]
    assert listed == ["blocks.0", "blocks.1"]


def test_a_module_that_is_called_again_has_all_its_calls() -> None:
    training = blocks()
    results = [value for value in training.inspect("cell", x=X) if value.is_result]
    assert [result.module for result in results] == ["cell", "cell#2", "cell#3"]
    for before, after in itertools.pairwise(results):
        np.testing.assert_allclose(after.value, cell_of(training, "cell", before.value), rtol=1e-5)
    (second,) = (value for value in training.inspect("cell#2", x=X) if value.is_result)
    assert second.value.tobytes() == results[1].value.tobytes()


def test_a_module_under_two_names_is_found_by_both() -> None:
    training = blocks()
    first, again = training.inspect("cell", x=X), training.inspect("parts.again", x=X)
    assert [str(value) for value in first] == [str(value) for value in again]
    (third,) = (value for value in training.inspect("parts.again#3", x=X) if value.is_result)
    assert third.module == "cell#3"


def test_modules_of_a_tree_without_a_class() -> None:
    training = tg.compile(
        {"encoder": [tg.nn.Linear(3, 2)], "scale": tg.nn.param((2,), init=1.0)},
        loss=lambda model, x: tg.mean((model["encoder"][0](x) * model["scale"]) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device="numpy",
    )
    assert {value.module for value in training.inspect("encoder.0", x=X)} == {"encoder.0"}


def test_a_form_for_inference_and_a_loop_keep_their_modules() -> None:
    class Dropped(tg.nn.Module):
        """A layer with dropout."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = tg.nn.Linear(3, 3)
            self.dropout = tg.nn.Dropout(0.5)

        def __call__(self, x: tg.Tensor, key: Any = None) -> Any:
            return self.dropout(self.linear(x), key)

    def loss(model: Any, x: tg.Tensor) -> Any:
        inner = tg.nn.inference(model)
        last, _ = tg.scan(lambda carry, _: (inner.linear(carry), None), inner(x), length=3)
        return tg.mean(last**2)

    training = tg.compile(Dropped(), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")
    products = [
        value for value in training.inspect("linear", x=X) if value.phase == "forward" and value.op == "tg.dot_general"
    ]
    assert [product.module for product in products] == ["linear", *["linear#2"] * 3]


def test_modules_change_neither_programs_nor_their_keys() -> None:
    def plain(model: Any, x: tg.Tensor) -> Any:
        return tg.mean(model(x) ** 2)

    class Around(tg.nn.Module):
        """One layer."""

        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.inner = layer

        def __call__(self, x: tg.Tensor) -> Any:
            return self.inner(x)

    traced = tg.trace(plain, Around(tg.nn.Linear(3, 2)), (4, 3))
    stripped = traced.clone()
    for op in stripped.walk():
        line = line_in(op.location)
        assert line is not None
        op.location = line
    assert any(calls_in(op.location) == ("inner",) for op in traced.walk())
    assert fingerprint(traced) == fingerprint(stripped)


def test_a_module_that_is_not_there_is_refused() -> None:
    nearest = "blocks.1, blocks.0, blocks.1.linear, blocks.0.linear"
    with pytest.raises(OptionError) as caught:
        blocks().inspect("blocks.2", x=X)
    assert str(caught.value).endswith(f"inspect: no op of the step is from 'blocks.2'; there are the modules {nearest}")
    assert str(caught.value).startswith(__file__)
