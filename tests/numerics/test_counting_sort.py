"""Sorts and scatters by counting, in native code: beside NumPy's, for each type of keys, and of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Names, NumpyArray, apply, on_buffers, traced

import tensorgrad as tg
from tensorgrad.passes.buffers.lower_tg_to_buf.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.runtime.target import CPU

DTYPES = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}
SPECIAL = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-40, -1e-40]


def keys(dtype: type[np.generic], shape: tuple[int, ...]) -> NumpyArray:
    """Returns keys of the whole range of a type, some of them equal, and what is special among floats."""
    random = np.random.default_rng(0)
    if issubclass(dtype, np.floating):
        with np.errstate(all="ignore"):
            values = (random.normal(size=shape) * 10.0 ** random.integers(-6, 5, shape)).astype(dtype)
            special = random.choice(np.array(SPECIAL), shape).astype(dtype)
        return np.where(random.random(shape) < 0.4, special, values)
    limits = np.iinfo(np.dtype(dtype).name)
    values = random.integers(limits.min, limits.max, shape, np.dtype(dtype), endpoint=True)
    return np.where(random.random(shape) < 0.3, values % 5, values).astype(dtype)


def positions(x: NumpyArray, descending: bool) -> NumpyArray:
    """Returns the positions that sort rows stably, in either direction; NaN is the largest."""
    if not descending:
        return np.argsort(x, -1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize("shape", [(170,), (3, 300), (2, 2, 2048)])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_positions(dtype: str, descending: bool, shape: tuple[int, ...]) -> None:
    x = keys(DTYPES[dtype], shape)
    module = tg.jit(lambda x: tg.argsort(x, descending=descending), device="cpu")
    np.testing.assert_array_equal(module(tg.array(x, dtype)), positions(x, descending))
    assert "buf.counting_sort" in module.module("buf")


def test_short_floats_and_booleans() -> None:
    values = keys(np.float32, (2, 300))
    short = tg.array(values, "bf16")
    order = tg.jit(tg.argsort, device="cpu")(short)
    np.testing.assert_array_equal(order, positions(np.asarray(tg.cast(short, "f32")), False))
    truths = values > 0
    np.testing.assert_array_equal(tg.jit(tg.argsort, device="cpu")(truths), positions(truths, False))


def test_rows_that_lie_across() -> None:
    x = keys(np.float32, (100, 7))
    order = tg.jit(lambda x: tg.argsort(x, axis=0), device="cpu")(x)
    np.testing.assert_array_equal(order, positions(x.T, False).T)


INDICES: dict[str, tuple[type[np.generic], list[int]]] = {
    "i32": (np.int32, [-1, -(2**31), 30, 2**31 - 1]),
    "u32": (np.uint32, [30, 2**31, 2**32 - 1]),
    "i64": (np.int64, [-1, -(2**63), 30, 2**32, 2**63 - 1]),
}
"""Types of indices, with numbers that are in no row of 30."""


@pytest.mark.parametrize("dtype", INDICES)
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_updates(dtype: str, axis: int) -> None:
    """Of integers, so that the order of a sum doesn't show; `test_the_order_of_sums` has floats."""
    kind, outside = INDICES[dtype]
    random = np.random.default_rng(1)
    numbers = random.choice(np.array([*range(30), *outside], kind), 200)
    shape = (200, 8) if axis == 0 else (8, 200)
    updates = random.integers(-9, 9, shape).astype(np.float32)

    def scattered(updates: Any, numbers: Any) -> Any:
        if axis == 0:
            return tg.segment_sum(updates, numbers, 30)
        return tg.transpose(tg.segment_sum(tg.transpose(updates), numbers, 30))

    expected = np.zeros((30, 8) if axis == 0 else (8, 30), np.float32)
    for place, number in enumerate(numbers.tolist()):
        if 0 <= number < 30:
            expected[(number,) if axis == 0 else (slice(None), number)] += updates.take(place, axis)
    module = tg.jit(scattered, device="cpu")
    np.testing.assert_array_equal(module(updates, tg.array(numbers, dtype)), expected)
    assert "buf.counting_sort" in module.module("buf")


def test_rows_with_indices_of_their_own() -> None:
    random = np.random.default_rng(2)
    numbers, updates = random.integers(0, 400, (6, 40)).astype(np.int32), random.normal(size=(6, 40)).astype(np.float32)
    module = tg.jit(lambda u, i: tg.scatter_add(tg.zeros((6, 400)), 1, i, u), device="cpu")
    expected = np.zeros((6, 400), np.float32)
    np.add.at(expected, (np.arange(6)[:, None], numbers), updates)
    np.testing.assert_array_equal(module(updates, numbers), expected)
    assert "buf.counting_sort" in module.module("buf")


def test_the_order_of_sums() -> None:
    """Updates of an index are added in increasing order of their positions, and many of them in blocks."""
    numbers = np.arange(3000, dtype=np.int32) % 3
    for updates in ([1e8, 1.0, -1e8] * 1000, [1.0] * 3000):
        x = np.array(updates, np.float32)[np.argsort(numbers, kind="stable").argsort()]
        sums = np.asarray(tg.jit(lambda x, i: tg.segment_sum(x, i, 400), device="cpu")(x, numbers))
        known = np.asarray(tg.jit(lambda x: tg.segment_sum(x, numbers, 400), device="cpu")(x))
        np.testing.assert_array_equal(sums, known)
    np.testing.assert_array_equal(sums[:3], [1000, 1000, 1000])


def test_levels() -> None:
    """A scatter and a sort at the level of buffers, by NumPy, give what native code does."""
    random = np.random.default_rng(3)
    x, numbers = random.integers(-9, 9, (200, 2)).astype(np.float32), random.integers(-3, 33, 200).astype(np.int32)

    def function(x: Any, numbers: Any) -> Any:
        return tg.segment_sum(x, numbers, 30), tg.argsort(x, axis=0, descending=True)

    module = traced(function, [x, numbers])
    names = Names(module)
    apply(LowerTgToBufPass(CPU), module)
    by_numpy = on_buffers(module, [x, numbers], names)
    for ours, native in zip(by_numpy, tg.jit(function, device="cpu")(x, numbers), strict=True):
        np.testing.assert_array_equal(ours, native)
