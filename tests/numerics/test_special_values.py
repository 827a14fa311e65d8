"""Functions of two floats at zeros, infinities, NaN and elsewhere, in every dtype that a device has, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from arithmetic import SMALLEST_NORMAL, divides_exactly, flushes_subnormals
from harness import NumpyArray, levels, traced

import tensorgrad as tg
from tensorgrad.tracing.tensor import Array

PLACES = [
    (device, dtype)
    for device, dtypes in (
        ("numpy", (np.float16, np.float32, np.float64)),
        ("cpu", (np.float16, np.float32, np.float64)),
        ("wgpu", (np.float32,)),
    )
    for dtype in dtypes
]
SPECIAL = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 1.5, -2.5, 1 / 3, 2047, -100]
EXPONENTS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 2.5, np.inf, -np.inf, np.nan)


def table(dtype: Any) -> tuple[NumpyArray, NumpyArray]:
    """Returns every special value beside every other."""
    values = np.array(SPECIAL, dtype)
    return np.repeat(values, values.size), np.tile(values, values.size)


def assert_same(result: Any, expected: NumpyArray, what: str, rtol: float = 0) -> None:
    """Checks numbers, and the signs of zeros."""
    actual = np.asarray(result)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=rtol, err_msg=what)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]), what)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "power": (tg.power, np.power),
    "hypot": (tg.hypot, np.hypot),
    "atan2": (tg.atan2, np.arctan2),
    "logaddexp": (tg.logaddexp, np.logaddexp),
    "fmod": (tg.fmod, np.fmod),
    "floor_divide": (tg.floor_divide, np.floor_divide),
    "remainder": (tg.remainder, np.remainder),
    "copysign": (tg.copysign, np.copysign),
}


@pytest.mark.parametrize(("device", "dtype"), PLACES, ids=lambda part: getattr(part, "__name__", part))
def test_functions_of_two(device: Any, dtype: Any) -> None:
    x, y = table(dtype)
    run = tg.jit(lambda x, y: {name: ours(x, y) for name, (ours, _) in FUNCTIONS.items()}, device=device)
    results = run(Array(x), Array(y))
    for name, (_, theirs) in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            expected = theirs(x, y)
        if device == "wgpu" and flushes_subnormals():
            expected = np.where(np.abs(expected) < SMALLEST_NORMAL, expected * np.float32(0), expected)
        assert_same(results[name], expected, name, 8 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize(("device", "dtype"), PLACES, ids=lambda part: getattr(part, "__name__", part))
def test_quotients_are_numpys(device: Any, dtype: Any) -> None:
    """Exactly, where a device divides so: of pairs of which one in a hundred loses digits that f16 lacks."""
    rng = np.random.default_rng(3)
    x, y = (np.asarray(rng.normal(size=3000) * 2.0 ** rng.integers(-12, 13, 3000), dtype) for _ in range(2))
    run = tg.jit(lambda x, y: (x // y, x % y), device=device)
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y), np.remainder(x, y)
    for actual, correct in zip(run(Array(x), Array(y)), expected, strict=True):
        assert_same(actual, correct, "", 0 if device != "wgpu" or divides_exactly() else 3e-7)


@pytest.mark.parametrize("count", [1, 3])
def test_constant_powers_are_those_of_c_at_every_level(count: int) -> None:
    """NumPy takes a square root if all exponents are 0.5: NaN at -inf, -0 at -0."""
    for at, expected in ((-np.inf, np.inf), (-0.0, 0.0), (4.0, 2.0)):
        x = np.full(count, at, np.float32)
        for level, (power,) in levels(traced(lambda x: x**0.5, [x]), [x]):
            assert_same(power, np.full(count, expected, np.float32), level)


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_constant_powers(device: Any) -> None:
    x = np.array(SPECIAL, np.float32)
    powers = tg.jit(lambda x: [x**exponent for exponent in EXPONENTS], device=device)(x)
    for exponent, power in zip(EXPONENTS, powers, strict=True):
        with np.errstate(all="ignore"):
            expected = np.power(x, np.full(x.shape, exponent, np.float32))
        assert_same(power, expected, f"{exponent}", 1e-6)
