"""Remainders of f32 in native code: every bit is that of C's `fmod`."""

from __future__ import annotations

import numpy as np
import pytest
from draws import generator
from harness import NumpyArray

import tensorgrad as tg

COUNT = 1 << 16
SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, 3.4028235e38, 1.1754944e-38, 1.0, 1.0000001, 0.99999994],
    np.float32,
)
RANDOM = generator(0)


def any_bits() -> NumpyArray:
    """Returns floats of all magnitudes, a tenth of which are special."""
    bits = RANDOM.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)
    return np.where(RANDOM.random(COUNT) < 0.1, RANDOM.choice(SPECIAL, COUNT), bits)


def multiples() -> tuple[NumpyArray, NumpyArray]:
    """Returns rounded multiples of divisors, and the divisors: quotients are next to an integer."""
    divisors = RANDOM.uniform(1e-3, 1e3, COUNT).astype(np.float32)
    return (divisors * RANDOM.integers(-(1 << 26), 1 << 26, COUNT)).astype(np.float32), divisors


def extremes() -> tuple[NumpyArray, NumpyArray]:
    """Returns the largest dividends and the smallest divisors, whose quotients have 277 bits."""
    dividends = RANDOM.uniform(1e37, 3e38, COUNT).astype(np.float32)
    return dividends, RANDOM.integers(1, 1 << 20, COUNT, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("x", "y"),
    [(any_bits(), any_bits()), multiples(), extremes(), (any_bits(), np.full(COUNT, 0.1, np.float32))],
    ids=["any bits", "multiples", "extremes", "one divisor"],
)
def test_remainders_are_those_of_c(x: NumpyArray, y: NumpyArray) -> None:
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    result = np.asarray(tg.jit(tg.fmod, device="cpu")(x, y))
    assert (np.isnan(result) == np.isnan(expected)).all()
    np.testing.assert_array_equal(
        result.view(np.uint32), np.where(np.isnan(expected), result, expected).view(np.uint32)
    )
