"""The first elements of an order, one after another, are those that sorting gives: ties, NaN and infinities too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.ops import sort

RANDOM = generator(0)
NUMBERS = [-np.inf, -1.5, -0.0, 0.0, 1.5, 3.0, np.inf, np.nan]
DTYPES = ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "u32", "u64", "bool")


def elements(dtype: str, shape: tuple[int, ...]) -> tg.Tensor:
    """Returns elements of which many are equal, and some are extreme."""
    if dtype == "bool":
        return tg.array(RANDOM.integers(0, 2, shape) > 0)
    if dtype[0] in "fb":
        return tg.array(RANDOM.choice(NUMBERS, shape), dtype)
    limits = np.iinfo(np.dtype(dtype.replace("i", "int").replace("u", "uint")))
    numbers = np.array([limits.min, limits.min + 1, 1, 2, limits.max], limits.dtype)
    return tg.array(RANDOM.choice(numbers, shape), dtype)


on_devices = pytest.mark.parametrize(
    ("device", "dtype"),
    [
        (device, dtype)
        for device in ("numpy", "cpu", "wgpu")
        for dtype in DTYPES
        if device != "wgpu" or dtype not in ("f64", "i64", "u64")
    ],
)


@pytest.mark.in_turns(2)
@on_devices
def test_selected_as_sorted(device: tg.DeviceName, dtype: str) -> None:
    for shape, axis, k, largest in (((5, 9), 1, 8, True), ((7, 4), 0, 3, False), ((2, 3, 6), -1, 6, False)):
        x = elements(dtype, shape)
        function: Any = tg.jit(lambda x, k=k, axis=axis, largest=largest: tg.top_k(x, k, axis, largest), device=device)
        values, order = map(np.asarray, function(x))
        expected = np.asarray(tg.argsort(x, axis, largest)).take(range(k), axis)
        np.testing.assert_array_equal(order, expected)
        taken = np.take_along_axis(np.asarray(x), expected, axis)
        np.testing.assert_array_equal(values.astype(np.float64), taken.astype(np.float64))


SHAPES: tuple[tuple[tuple[int, ...], int, int, bool], ...] = (
    ((2, 700), 1, 9, True),
    ((650, 2), 0, 20, False),
    ((2, 1, 2000), -1, 31, True),
    ((320,), 0, 10, False),
)


@pytest.mark.in_turns(6, 1)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@on_devices
def test_few_of_many_as_sorted(
    device: tg.DeviceName, dtype: str, shape: tuple[tuple[int, ...], int, int, bool]
) -> None:
    """Elements of small integers, of which many are equal; the last block is padded, as if with the least element."""
    extents, axis, k, largest = shape
    x = elements(dtype, extents)
    for values in (x, tg.full_like(x, -np.inf if dtype.startswith(("f", "bf")) else 0)):
        order = tg.jit(lambda x: tg.top_k(x, k, axis, largest)[1], device=device)(values)
        np.testing.assert_array_equal(order, np.asarray(tg.argsort(values, axis, largest)).take(range(k), axis))


def test_gradients_go_to_what_is_selected() -> None:
    x = np.array([[3.0, 1.0, 3.0, 2.0]], np.float32)
    gradient = tg.grad(lambda x: tg.sum(tg.top_k(x, 3)[0] * np.array([1, 10, 100], np.float32)))(x)
    assert np.asarray(gradient).tolist() == [[1, 0, 10, 100]]


def test_more_elements_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    x = elements("f32", (3, 20))
    selected = tg.top_k(x, sort.SELECTED)[1]
    monkeypatch.setattr(sort, "SELECTED", 0)
    np.testing.assert_array_equal(selected, tg.top_k(x, 8)[1])
    assert tg.top_k(x, 20)[1].shape == (3, 20) and tg.top_k(x, 0)[1].shape == (3, 0)
