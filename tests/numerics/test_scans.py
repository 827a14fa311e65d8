"""Scans in native code beside NumPy's: every guard of a term, both directions, several at once, strips of any width."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from harness import NumpyArray, as_native_code, traced
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp, ScheduleAttr
from tensorgrad.dialects.native_schedules import ScanSchedule
from tensorgrad.ops.creation import arange
from tensorgrad.tracing.tensor import Tensor

POINTS = 5
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "less": lambda x, y: x < y,
    "at most": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "at least": lambda x, y: x >= y,
}


def scans_in(module: ModuleOp) -> Iterator[KernelOp]:
    """Yields the kernels that are scheduled as scans."""
    for op in module.walk():
        if isinstance(op, KernelOp) and op.schedule is not None and isinstance(op.schedule.data, ScanSchedule):
            yield op


@pytest.mark.parametrize("terms", [3, 5, 9])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_every_guard(comparison: str, terms: int) -> None:
    """Sums of the terms whose number compares with a multiple of the point's number plus an offset."""
    compare, x = COMPARISONS[comparison], np.arange(1, terms + 1, dtype=np.int32) ** 2
    forms = list(product((1, 2, 3, -1), range(-4, 6)))

    def sums(x: Tensor) -> list[Tensor]:
        points, numbers = tg.expand_dims(arange(POINTS), 1), arange(terms)
        return [tg.sum(tg.where(compare(numbers, points * step + offset), x, 0), 1) for step, offset in forms]

    count = 0

    def count_scans(module: ModuleOp) -> None:
        nonlocal count
        count = sum(1 for _ in scans_in(module))

    results = as_native_code(traced(sums, [x]), [x], each=False, change=count_scans)
    points, numbers = np.arange(POINTS)[:, None], np.arange(terms)
    for (step, offset), result in zip(forms, results, strict=True):
        expected = np.where(compare(numbers, points * step + offset), x, 0).sum(1)
        np.testing.assert_array_equal(result, expected, f"{step} * point + {offset}")
    assert count > 0


def running(x: Tensor) -> tuple[Tensor, ...]:
    """Returns running folds, of which each is a scan or more, and the derivative of a sum of some, in reverse."""
    slopes = tg.grad(lambda v: tg.sum(tg.cumsum(v, 1) ** 2))(x)
    return (tg.cumsum(x, 1), tg.cumprod(x, 1), *tg.cummax(x, 1), tg.cumsum(x, 0), slopes)


@pytest.mark.parametrize("abreast", [1, 2, 3, 6])
@pytest.mark.parametrize("strips", [1, 4])
def test_strips(abreast: int, strips: int) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (6, 48)).astype(np.float32)
    changed = 0

    def change(module: ModuleOp) -> None:
        nonlocal changed
        for kernel in scans_in(module):
            assert kernel.schedule is not None and isinstance(kernel.schedule.data, ScanSchedule)
            loop = kernel.schedule.data.loop
            rows = math.prod(kernel.extents) // kernel.extents[loop]
            width = abreast if rows % abreast == 0 else 1
            kernel.schedule = ScheduleAttr(ScanSchedule.of(kernel.extents, loop, width, strips))
            changed += 1

    results = as_native_code(traced(running, [x]), [x], each=False, change=change)
    assert changed >= 6
    sums, maxima = np.cumsum(x, 1), np.maximum.accumulate(x, 1)
    order = np.maximum.accumulate(np.where(x == maxima, np.arange(48), 0), 1)
    slopes = 2 * np.cumsum(sums[:, ::-1], 1)[:, ::-1]
    for result, value in zip(results, (sums, np.cumprod(x, 1), maxima, order, np.cumsum(x, 0), slopes), strict=True):
        np.testing.assert_array_equal(result, value)


def test_two_scans_at_each_point() -> None:
    """Sums before each point and products up to it, in one kernel that works on both."""
    x = np.random.default_rng(0).integers(1, 3, 20).astype(np.int32)

    def both(x: Tensor) -> Tensor:
        points, numbers = tg.expand_dims(arange(20), 1), arange(20)
        return tg.sum(tg.where(points > numbers, x, 0), 1) * tg.prod(tg.where(points >= numbers, x, 1), 1)

    kernels: list[int] = []
    (result,) = as_native_code(
        traced(both, [x]), [x], each=False, change=lambda m: kernels.extend(len(k.stages) for k in scans_in(m))
    )
    np.testing.assert_array_equal(result, (np.cumsum(x) - x) * np.cumprod(x))
    assert kernels == [3]


def test_guards_of_the_point_alone() -> None:
    """What two numbers of the point say lets all terms pass, or none."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    def below(x: Tensor) -> Tensor:
        rows, columns = tg.reshape(arange(2), (2, 1, 1)), tg.reshape(arange(3), (1, 3, 1))
        return tg.sum(tg.where(rows >= columns, x, 0), 2)

    (result,) = as_native_code(traced(below, [x]), [x], each=False)
    np.testing.assert_array_equal(result, np.tril(x.sum(2)))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_short_floats_are_extended_term_by_term(dtype: str) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (6, 48)).astype(np.float32)
    function = tg.jit(lambda x: tg.cumsum(x, 1), device="cpu")
    result = function(tg.array(x, dtype))
    np.testing.assert_array_equal(np.asarray(result).astype(np.float32), np.cumsum(x, 1))
    assert "#buf.schedule<scan" in str(function.module("buf"))


def test_terms_end_before_the_points() -> None:
    """What lies behind the terms in memory is no term: here larger ones."""
    x = np.arange(1, 9, dtype=np.float32)

    def maxima(x: Tensor) -> Tensor:
        return tg.max(tg.where(arange(3) >= tg.expand_dims(arange(5), 1), x[:3], -math.inf), 1)

    (result,) = as_native_code(traced(maxima, [x]), [x], each=False)
    np.testing.assert_array_equal(result, [3, 3, 3, -math.inf, -math.inf])


@pytest.mark.parametrize(("dtype", "start"), [("i8", 124), ("i16", 32764), ("i32", 2**31 - 4)])
def test_numbers_that_wrap(dtype: str, start: int) -> None:
    """What is compared is what integers of few bits hold, not the number of the point plus a constant."""
    x = np.arange(1, 9, dtype=np.float32)

    def sums(x: Tensor) -> Tensor:
        numbers = arange(8, dtype=dtype) + start
        return tg.sum(tg.where(numbers <= tg.expand_dims(numbers, 1), x, 0), 1)

    (result,) = as_native_code(traced(sums, [x]), [x], each=False)
    np.testing.assert_array_equal(result, [27, 29, 32, 36, 5, 11, 18, 26])


def test_long_sums_keep_their_digits() -> None:
    """One accumulator for 20,000 terms would be off by 2e-4; they are added in blocks."""
    x = np.full(20_000, 0.1, np.float32)

    def sums(x: Tensor) -> Tensor:
        return tg.sum(tg.where(tg.expand_dims(arange(8), 1) * 2_500 > arange(x.size), x, 0), 1)

    (result,) = as_native_code(traced(sums, [x]), [x], each=False)
    np.testing.assert_allclose(result, np.arange(8) * 2_500 * np.float64(x[0]), rtol=1e-6)


def test_a_schedule_of_another_loop_is_refused() -> None:
    x: NumpyArray = np.ones((4, 40), np.float32)

    def change(module: ModuleOp) -> None:
        (kernel,) = scans_in(module)
        kernel.schedule = ScheduleAttr(ScanSchedule.of(kernel.extents, 0, 1, 1))

    with pytest.raises(Exception, match="no scans along loop 0 of its grid: take its schedule away"):
        as_native_code(traced(lambda x: tg.cumsum(x, 1), [x]), [x], each=False, change=change)


def test_strips_that_leave_rows_are_refused() -> None:
    schedule = ScanSchedule.of((6, 48), 1, 2, 1)
    schedule.check_covers((6, 48))
    for wrong, message in (
        (replace(schedule, abreast=4), "strips of 4 rows don't divide those of grid"),
        (replace(schedule, loop=2), "a grid of 2 loops has none with number 2"),
        (replace(schedule, strips=2), "has .* tasks"),
    ):
        with pytest.raises(Exception, match=message):
            wrong.check_covers((6, 48))
