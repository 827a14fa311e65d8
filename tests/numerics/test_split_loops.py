"""Native loops that are split where a condition on their index changes: concatenations, rotations, pads along rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg

SIZES = [(5, 40), (40, 5), (31, 1), (1, 31), (16, 16), (100, 200), (20_000, 30_000)]


@pytest.mark.parametrize("sizes", SIZES)
def test_parts(sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(3, size)).astype(np.float32) for size in sizes)
    joined = np.concatenate([x, y, x], 1)
    module = tg.jit(lambda x, y: (tg.concat([x, y, x], 1), tg.concat([x[0], y[0], x[0]])), device="cpu")
    rows, row = module(x, y)
    np.testing.assert_array_equal(rows, joined)
    np.testing.assert_array_equal(row, joined[0])


@pytest.mark.parametrize("size", [33, 200, 40_000])
@pytest.mark.parametrize("shift", [0, 1, -1, 7, 32])
def test_rotations_and_pads(size: int, shift: int) -> None:
    x = np.random.default_rng(1).normal(size=(3, size)).astype(np.float32)
    low, high = max(shift, 0), max(-shift, 0)
    functions: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda x: tg.roll(x, shift, 1), np.roll(x, shift, 1)),
        (lambda x: tg.pad(x, ((0, 0), (low, high))), np.pad(x, ((0, 0), (low, high)))),
        (lambda x: tg.pad(x[0], (low, high), mode="reflect"), np.pad(x[0], (low, high), "reflect")),
        (lambda x: tg.concat([x[:, 9:], x[:, :9]], 1) * tg.roll(x, shift, 1), np.roll(x, -9, 1) * np.roll(x, shift, 1)),
    ]
    for function, expected in functions:
        np.testing.assert_array_equal(tg.jit(function, device="cpu")(x), expected)


@pytest.mark.parametrize("size", [200, 40_000])
@pytest.mark.parametrize(("shifts", "is_split"), [([7] * 12, True), ([3, 5, 7, 3], True), (range(3, 13), False)])
def test_several_conditions(size: int, shifts: Sequence[int], is_split: bool) -> None:
    """Those of equal ranges share a loop, and there are never many, also where blocks begin at run time."""
    x = np.random.default_rng(3).normal(size=(2, size)).astype(np.float32)

    def sums(x: Any, library: Any) -> Any:
        total = x
        for shift in shifts:
            total = total * 0.5 + library.roll(x, shift, 1)
        return total

    module = tg.jit(lambda x: sums(x, tg), device="cpu")
    np.testing.assert_array_equal(module(x), sums(x, np))
    code = module.module("cpu")
    assert code.count("scf.for") <= 8 and ("scf.if" not in code) == is_split


def test_gradients() -> None:
    """Of a rotary embedding's halves, whose cotangents change places."""
    random = np.random.default_rng(2)
    x, w = (random.normal(size=(4, 96)).astype(np.float32) for _ in range(2))

    def loss(x: Any) -> Any:
        return tg.sum(tg.concat([-x[:, 48:], x[:, :48]], 1) * x * w)

    expected = np.concatenate([-x[:, 48:], x[:, :48]], 1) * w
    back = x * w
    expected += np.concatenate([back[:, 48:], -back[:, :48]], 1)
    np.testing.assert_allclose(tg.jit(tg.grad(loss), device="cpu")(x), expected, rtol=1e-6, atol=1e-6)
