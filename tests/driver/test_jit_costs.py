"""What a call of a compiled function costs for each parameter that it takes: Python calls, and copies to the device."""

from __future__ import annotations

import contextlib
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import ShapeError
from tensorgrad.runtime import executable
from tensorgrad.runtime.cpu import CpuExecutable
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.inputs import check_inputs

FEW, MANY = 2, 12
X = np.ones((1, 4), np.float32)


class Layers(tg.nn.Module):
    """Linear layers."""

    def __init__(self, count: int):
        super().__init__()
        self.layers = [tg.nn.Linear(4, 4) for _ in range(count)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def calls(act: Any) -> int:
    """Returns how many calls of Python functions `act` makes, on average over some that are alike."""
    count = [0]

    def note(frame: FrameType, event: str, argument: object) -> None:
        count[0] += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for _ in range(4):
            act()
    finally:
        sys.setprofile(before)
    return count[0] // 4


def cost(device: tg.DeviceName | None, at: int, gradients: bool) -> int:
    """Returns how many calls a jitted function makes with a model of this many layers."""
    function = tg.jit(lambda model, x: model(x), device="cpu")
    model = Layers(at).initialized(0, device=device)
    with contextlib.nullcontext() if gradients else tg.no_grad():
        for _ in range(3):
            np.asarray(function(model, X))
        return calls(lambda: np.asarray(function(model, X)))


@pytest.mark.parametrize(("device", "gradients", "most"), [(None, True, 0), ("cpu", True, 16), ("cpu", False, 8)])
def test_calls_of_python_for_each_parameter(device: tg.DeviceName | None, gradients: bool, most: int) -> None:
    """A walk through the module would make dozens, and tracing anew thousands."""
    few, many = cost(device, FEW, gradients), cost(device, MANY, gradients)
    assert many - few <= most * 2 * (MANY - FEW)


def test_numpy_converts_a_result_by_few_calls() -> None:
    """It asks for other protocols first, which tensors don't have."""
    result = tg.jit(lambda x: x + 1, device="cpu")(X)
    np.asarray(result)
    assert calls(lambda: np.asarray(result)) <= 16


def test_an_attached_function_passes_no_parameter() -> None:
    def attached(count: int) -> int:
        model = Layers(count)
        training = tg.compile(
            model, loss=lambda model, x: tg.mean(model(x)), optimizer=None, inputs={"x": (1, 4)}, device="cpu"
        )
        function = training.attach(lambda model, x: model(x), inputs={"x": (1, 4)})
        np.asarray(function(x=X))
        return calls(lambda: np.asarray(function(x=X)))

    assert attached(FEW) == attached(MANY)


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_only_what_changed_is_checked_and_copied(device: tg.DeviceName, monkeypatch: pytest.MonkeyPatch) -> None:
    function = tg.jit(lambda model, x: model(x), device=device)
    model = Layers(3).initialized(0)
    function(model, X)
    written: list[str] = []
    checked: list[str] = []

    def check(*args: Any, **options: Any) -> dict[str, np.ndarray]:
        arrays = check_inputs(*args, **options)
        checked.extend(arrays)
        return arrays

    monkeypatch.setattr(executable, "check_inputs", check)
    kind: Any = CpuExecutable if device == "cpu" else ProgramExecutable
    write = kind._write_input
    monkeypatch.setattr(
        kind, "_write_input", lambda self, name, array: (written.append(name), write(self, name, array))
    )
    function(model, X)
    assert written == checked == ["x"]


def test_a_changed_model_is_noticed() -> None:
    """What a call keeps of a module is dropped when an attribute, or an array that is a constant, changes."""

    class Scaled(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = tg.nn.Linear(4, 4)
            self.power, self.shift = 1, np.array([1, 2, 3, 4])

        def __call__(self, x: Any) -> Any:
            return self.layer(x) ** self.power + self.shift

    declared = Scaled()
    model = declared.initialized(0)
    function = tg.jit(lambda model, x: model(x), device="cpu")
    first = np.asarray(function(model, X))
    declared.shift[:] = 0
    changed = tg.jit(lambda model, x: model(x), device="cpu")(declared.initialized(0), X)
    np.testing.assert_allclose(np.asarray(changed), first - [1, 2, 3, 4], rtol=1e-5)
    other = np.asarray(function(declared.initialized(0), X))
    np.testing.assert_allclose(other, np.asarray(changed), rtol=1e-6)
    assert function.specializations == 2


def test_gradients_flow_through_a_function_that_is_traced_once() -> None:
    traces: list[int] = []

    def loss(model: Any, x: Any) -> Any:
        traces.append(1)
        return tg.mean(model(x) ** 2)

    function: Any = tg.jit(loss, device="cpu")
    for scale in (1.0, 2.0, 3.0):
        model = Layers(2).initialized(0, device="cpu")
        other = Layers(2).initialized(0, device="cpu")
        value, expected = function(model, X * scale), tg.mean(other(X * scale) ** 2)
        value.backward()
        expected.backward()
        for parameter, other_parameter in zip(model.parameters(), other.parameters(), strict=True):
            np.testing.assert_allclose(
                np.asarray(parameter.grad), np.asarray(other_parameter.grad), rtol=1e-5, atol=1e-7
            )
    assert len(traces) == 1


def test_in_place_changes_reach_a_function_that_is_traced_once() -> None:
    function: Any = tg.jit(lambda w, x: tg.sum(w * x), device="cpu")
    w = tg.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    assert float(function(w, np.array([1.0, 1.0], np.float32))) == 3.0
    with tg.no_grad():
        w += 1.0
    assert float(function(w, np.array([1.0, 1.0], np.float32))) == 5.0


def test_indices_are_checked_in_each_call() -> None:
    function: Any = tg.jit(lambda w, index: tg.take(w, index, axis=0).sum(), device="cpu")
    w = tg.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    assert float(function(w, np.array([0, 1], np.int32))) == 3.0
    with pytest.raises(ShapeError, match="7"):
        function(w, np.array([0, 7], np.int32))
