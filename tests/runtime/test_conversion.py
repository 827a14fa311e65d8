"""Conversion of array-like inputs: what is accepted, and what it becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from models import MLP, batch, compiled

import tensorgrad as tg
from tensorgrad.errors import DTypeError, InputError, OptionError
from tensorgrad.runtime.conversion import converted, to_numpy

pytestmark = pytest.mark.usefixtures("kept_programs")

X = np.arange(12, dtype=np.float32).reshape(4, 3)


class WithArray:
    """Has `__array__`, like the arrays of other libraries."""

    def __init__(self, values: np.ndarray):
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=copy)


class WithDLPack:
    """Has only `__dlpack__`."""

    def __init__(self, values: Any, on_host: bool = True):
        self.values, self.on_host = values, on_host

    def __dlpack__(self, **options: Any) -> Any:
        if not self.on_host:
            raise BufferError("the memory is on a GPU")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Recorded(WithArray):
    """A tensor of a library that records gradients."""

    requires_grad = True


class Elsewhere(WithArray):
    """A tensor on another device."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


HOLDERS = [lambda x: x, WithArray, WithDLPack, tg.array, np.ndarray.tolist, lambda x: [tg.array(row) for row in x]]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("hold", HOLDERS)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_whatever_holds_numbers(hold, device):
    training, expected = compiled(device=device), compiled(device=device)
    inputs = {**batch(), "x": X}
    assert float(training.step(x=hold(X), y=inputs["y"])) == float(expected.step(**inputs))
    predict = training.attach(lambda model, x: x * 1.0, inputs={"x": (2, 3)})
    assert np.array_equal(predict(x=hold(X)), X)
    assert np.array_equal(training.attach(lambda model, x: x + 0.0)(x=hold(X)), X)
    values = training.parameters()
    training.load_parameters({**values, "layers.1.bias": hold(np.full(2, 3, np.float32))})
    assert training.parameters()["layers.1.bias"].tolist() == [3, 3]
    assert np.array_equal(tg.array(hold(X)), X)
    if hold not in HOLDERS[-2:]:  # lists are trees there
        assert np.array_equal(tg.jit(lambda x: x * 1.0, device=device)(hold(X)), X)


REFUSED = [
    (Recorded(X), r"requires a gradient.*detach\(\)"),
    (Elsewhere(X), "cuda:0"),
    (WithDLPack(X, False), "on a GPU"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED)
def test_what_is_refused(value, message):
    training = compiled()
    with pytest.raises(InputError, match=f"input 'x' .*{message}"):
        training.step(**{**batch(), "x": value})
    with pytest.raises(InputError, match=f"parameter 'layers.1.bias' .*{message}"):
        training.load_parameters({**training.parameters(), "layers.1.bias": value})
    for call in (tg.array, tg.jit(lambda x: x), tg.exp):
        with pytest.raises(DTypeError, match=message):
            call(value)
    with pytest.raises(OptionError, match=f"init .*{message}"):
        tg.nn.param((4, 3), init=value)
    assert training.step_count == 0


def test_a_parameter_from_whatever_holds_numbers():
    class Held(tg.nn.Module):
        def __init__(self, values: Any):
            super().__init__()
            self.w = tg.nn.param((4, 3), init=values)

    for hold in HOLDERS:
        training = compiled(model=Held(hold(X)), loss=lambda model: tg.mean(model.w), inputs={})
        assert np.array_equal(training.parameters()["w"], X)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (np.array([2.0**40]), "i4", r"x has values from 1099511627776 to 1099511627776, outside of i32"),
        (np.array([np.nan]), "i4", "x has values that are not finite, for i32"),
        (np.array([1e39, np.inf]), "f4", "x has values too large for f32"),
        (np.array([2**31]), "i4", "outside of i32"),
        (np.array([-1]), "u4", "outside of u32"),
    ],
)
def test_values_that_do_not_fit(value, dtype, message):
    with pytest.raises(InputError, match=message):
        converted(value, np.dtype(dtype), {"i4": "i32", "f4": "f32", "u4": "u32"}[dtype], "x")


def test_values_that_fit():
    same = to_numpy(X, "x")
    assert same is X and converted(X, X.dtype, "f32", "x") is X
    for values, dtype, expected in [
        ([np.nan, np.inf, 0.1], "f4", np.array([np.nan, np.inf, 0.1], "f4")),
        ([2**31 - 1, -(2**31)], "i4", [2**31 - 1, -(2**31)]),
        ([True, False], "f4", [1, 0]),
        ([2.5, -2.5], "i4", [2, -2]),
        ([], "i4", []),
    ]:
        actual = converted(np.array(values), np.dtype(dtype), dtype, "x")
        assert actual.dtype == dtype and np.array_equal(actual, expected, equal_nan=True)


def test_checks():
    training = compiled(checks=True, loss=lambda model, x, y: tg.mse(tg.capture("y", model(x)), y))
    predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
    good, bad = batch(), {**batch(), "x": np.where(X == 7, np.nan, np.where(X > 9, np.inf, X))}
    for call in (
        training.step,
        lambda **inputs: training.capture("y", **inputs),
        lambda **inputs: predict(x=inputs["x"]),
    ):
        with pytest.raises(InputError, match=r"input 'x' is nan at \(2, 1\); 3 of its values are not finite"):
            call(**bad)
    assert training.step_count == 0 and float(training.step(**good)) == float(compiled().step(**good))
    assert np.isnan(float(compiled().step(**bad)))


def test_what_the_caller_changes_later_changes_nothing():
    values = X.copy()
    array = tg.array(values)
    model: Any = MLP(3, 5, 2)
    model.w = tg.nn.param((4, 3), init=values)
    training = compiled(model=model, device="numpy")
    predict = training.attach(lambda model, x: (x, model.w), inputs={"x": (4, 3)})
    x, w = predict(x=values)
    values[:] = 0
    assert np.array_equal(array, X) and np.array_equal(x, X) and np.array_equal(w, X)


def test_bf16_is_shared_with_pytorch_over_dlpack() -> None:
    """NumPy has no bf16 to pass on; PyTorch's arrays have no other way."""
    theirs = torch.tensor([[1.5, -2.0], [3.0, 2.0**-130]], dtype=torch.bfloat16)
    ours = tg.from_dlpack(theirs)
    assert ours.dtype == tg.bf16 and ours.tolist() == theirs.tolist()
    assert tg.array(theirs).tolist() == to_numpy(WithDLPack(theirs), "x").tolist() == theirs.tolist()
    shared = tg.from_dlpack(theirs, copy=False)
    theirs[0, 0] = 4
    assert shared.tolist()[0] == [4, -2]
    back = torch.from_dlpack(ours)
    assert back.dtype == torch.bfloat16 and back.tolist() == ours.tolist()
    assert torch.from_dlpack(ours.mT).tolist() == back.mT.tolist()
