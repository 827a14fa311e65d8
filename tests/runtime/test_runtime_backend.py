"""What all backends share: validation of inputs and scalars, and output handles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tensorgrad.runtime.errors import FormulaError, InputError
from tensorgrad.runtime.inputs import ScalarInputs, check_inputs
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.program import TensorSlot


def slot(dtype: str, shape: tuple[int, ...] = (2,), name: str = "x", formula: str | None = None) -> TensorSlot:
    return TensorSlot(name, "input", shape, dtype, 0, 0, formula)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f32", np.array([1.5, 2], np.float32)),
        ("f32", [1, 2]),
        ("f32", np.array([0.1, 1e-60])),
        ("f32", np.array([math.inf, math.nan])),
        ("f32", np.array([1.5, 2], np.float16)),
        ("f32", np.array([True, False])),
        ("f32", np.array([2**31, 1])),
        ("f16", [65504, 1]),
        ("f16", np.array([0.1, math.inf], np.float32)),
        ("i32", [-(2**31), 2**31 - 1]),
        ("i32", np.array([1, 2], np.uint64)),
        ("i32", np.array([True, False])),
        ("u32", [0, 2**32 - 1]),
        ("u32", np.array([1, 2], np.int8)),
        ("bool", [True, False]),
        ("f64", [0.1, 0.2]),
        ("f32", np.array([1.0, 2.0], ">f8")),
    ],
)
def test_converted(dtype: str, value: Any) -> None:
    names = {"f16": "float16", "f32": "float32", "f64": "float64", "i32": "int32", "u32": "uint32", "bool": "bool"}
    result = check_inputs({"x": slot(dtype)}, {"x": value})["x"]
    assert result.dtype == names[dtype]
    np.testing.assert_array_equal(result, np.asarray(value).astype(names[dtype]))


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("f32", [1.0, 2.0, 3.0], r"input 'x' has shape \(3,\), expected \(2,\)"),
        ("f32", 1.0, r"has shape \(\)"),
        ("f32", np.array([1e39, 0]), "values too large for f32"),
        ("f16", [65520, 1], "values too large for f16"),
        ("f32", [1j, 0], "complex128, which does not convert to f32"),
        ("f32", ["a", "b"], "does not convert to f32"),
        ("f32", [None, 1], "does not convert to f32"),
        ("f32", [[1], [1, 2]], "input 'x' is not an array"),
        ("i32", [1.0, 2.0], "float64, which does not convert to i32"),
        ("i32", [0, 2**31], "values from 0 to 2147483648, outside of i32"),
        ("i32", np.array([2**32 - 1, 0], np.uint32), "outside of i32"),
        ("u32", [-1, 0], "values from -1 to 0, outside of u32"),
        ("u32", [2**32, 0], "outside of u32"),
        ("bool", [0, 1], "int64, which does not convert to bool"),
    ],
)
def test_refused(dtype: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_inputs({"x": slot(dtype)}, {"x": value})


def test_names() -> None:
    slots = {"x": slot("f32"), "y": slot("f32"), "z": slot("f32")}
    with pytest.raises(InputError, match=r"unknown inputs 'a', 'b'; missing inputs 'y', 'z' \(expected: x, y, z\)"):
        check_inputs(slots, {"x": [1, 2], "b": 0, "a": 0})
    with pytest.raises(ValueError, match="unknown state 'a'"):
        check_inputs(slots, {"a": 0}, what="state", partial=True)
    assert check_inputs(slots, {}, partial=True) == {}
    assert check_inputs({"x": slot("i32", (0,))}, {"x": np.zeros(0, np.int64)})["x"].shape == (0,)


def scalars() -> ScalarInputs:
    return ScalarInputs(
        [
            slot("f32", (), "rate", "learning_rate / step"),
            slot("f32", (), "step"),
            slot("i32", (), "seed"),
            slot("u32", (), "twice", "step * 2"),
        ]
    )


def test_scalars() -> None:
    inputs = scalars()
    assert inputs.names == {"learning_rate", "step", "seed"}
    passed: dict[str, Any] = {"learning_rate": 1, "step": np.int64(4), "seed": np.array(-3.0)}
    values = inputs.evaluate(passed)
    assert {name: (value.item(), str(value.dtype)) for name, value in values.items()} == {
        "rate": (0.25, "float32"),
        "step": (4.0, "float32"),
        "seed": (-3, "int32"),
        "twice": (8, "uint32"),
    }


def test_scalars_are_computed_again_when_what_they_are_made_of_changes() -> None:
    inputs = ScalarInputs([slot("f32", (), "inverse", "1 / x"), slot("f32", (), "scale"), slot("f32", (), "two", "2")])
    first = inputs.evaluate({"x": 2.0, "scale": 0.0})
    second = inputs.evaluate({"x": 2.0, "scale": -0.0})
    assert second["inverse"] is first["inverse"] and second["two"] is first["two"]
    assert math.copysign(1.0, second["scale"]) == -1.0
    third = inputs.evaluate({"x": 4.0, "scale": -0.0})
    assert third["inverse"] == 0.25 and first["inverse"] == 0.5


def test_scalars_of_constants_are_computed_once() -> None:
    inputs = ScalarInputs([slot("f32", (), "six", "2 * 3")])
    assert inputs.names == frozenset()
    assert inputs.evaluate({})["six"] == 6.0 and inputs.evaluate({})["six"] is inputs.evaluate({})["six"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 1}, r"unknown scalar 'rate' \(expected: learning_rate, seed, step\)"),
        ({"step": "4"}, "scalar 'step' must be a number, got '4'"),
        ({"step": None}, "must be a number"),
        ({"step": 0}, "scalar 'rate': formula 'learning_rate / step' has no value"),
        ({"step": 1e39}, "scalar 'step' has values too large for f32"),
        ({"step": 1.3}, "scalar 'twice' is float64, which does not convert to u32"),
        ({"seed": 2**31}, "scalar 'seed' has values from 2147483648"),
        ({"seed": math.nan}, "scalar 'seed' must be finite, got nan"),
        ({"learning_rate": math.nan}, "scalar 'learning_rate' must be finite, got nan"),
        ({"step": math.inf}, "scalar 'step' must be finite, got inf"),
    ],
)
def test_refused_scalars(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        scalars().evaluate({"learning_rate": 1.0, "step": 4, "seed": 1, **changes})


def test_scalar_names_and_formulas() -> None:
    with pytest.raises(InputError, match="missing scalars 'learning_rate', 'seed'"):
        scalars().evaluate({"step": 1})
    with pytest.raises(FormulaError):
        ScalarInputs([slot("f32", (), "rate", "a b")])


def test_handle() -> None:
    reads: list[int] = []

    def fetch() -> np.ndarray:
        reads.append(1)
        return np.array([2.5], np.float32)

    handle = OutputHandle(slot("f32", (1,), "loss"), fetch)
    assert (handle.shape, handle.dtype, handle.is_pending, reads) == ((1,), np.float32, True, [])
    assert float(handle) == 2.5
    assert repr(handle) == "OutputHandle('loss', array([2.5], dtype=float32))"
    assert np.asarray(handle, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.array(handle) + handle.numpy(), [5])
    assert reads == [1]
    assert not handle.is_pending
    with pytest.raises(ValueError, match="read-only"):
        handle.numpy()[0] = 1
    with pytest.raises(ValueError, match="size 1"):
        float(OutputHandle(slot("f32"), lambda: np.zeros(2, np.float32)))
