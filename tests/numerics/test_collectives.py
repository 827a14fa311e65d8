"""Collectives in groups simulated by threads: values, bit-identical results, derivatives, batching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from harness import NumpyArray
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

import tensorgrad as tg
from tensorgrad.dialects.tg.base import integer, tensor
from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.collective import CollectiveBroadcastOp, CollectiveOp, combined
from tensorgrad.errors import AxisError, DTypeError, GroupError, OptionError, ShapeError
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.group.simulated import simulate

TIMEOUT = 120.0
SIZES = (1, 2, 3, 4)
DEVICES: tuple[tg.DeviceName, ...] = ("numpy", "cpu", "wgpu")


def drawn(rank: int, *shape: int) -> NumpyArray:
    return np.random.default_rng([rank, *shape]).normal(size=shape).astype(np.float32)


def on_all(
    size: int, function: Callable[..., Any], values: Sequence[Any], device: tg.DeviceName = "numpy"
) -> list[NumpyArray]:
    """Returns the results of a compiled function on each rank for its value."""

    def run(group: Group) -> NumpyArray:
        return np.asarray(tg.jit(function, device=device)(values[group.rank]))

    return simulate(size, run, timeout=TIMEOUT)


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[list[NumpyArray], int], NumpyArray]]] = {
    "sum": (tg.all_reduce, lambda all_, rank: combined(all_, "sum")),
    "max": (lambda x: tg.all_reduce(x, "max"), lambda all_, rank: np.max(all_, 0)),
    "min": (lambda x: tg.all_reduce(x, "min"), lambda all_, rank: np.min(all_, 0)),
    "mean": (
        lambda x: tg.all_reduce(x, "mean"),
        lambda all_, rank: combined(all_, "sum") * np.float32(1 / len(all_)),
    ),
    "scattered rows": (tg.reduce_scatter, lambda all_, rank: np.split(combined(all_, "sum"), len(all_))[rank]),
    "scattered columns": (
        lambda x: tg.reduce_scatter(x, 1),
        lambda all_, rank: np.split(combined(all_, "sum"), len(all_), 1)[rank],
    ),
    "gathered rows": (tg.all_gather, lambda all_, rank: np.concatenate(all_)),
    "gathered columns": (lambda x: tg.all_gather(x, -1), lambda all_, rank: np.concatenate(all_, 1)),
    "from the last": (lambda x: tg.broadcast_from(x, tg.distributed.size() - 1), lambda all_, rank: all_[-1]),
    "of a view": (
        lambda x: tg.all_reduce(x.T[1:]),
        lambda all_, rank: combined([value.T[1:] for value in all_], "sum"),
    ),
    "in a row": (
        lambda x: tg.all_reduce(tg.exp(tg.all_reduce(x) * 0.1)),
        lambda all_, rank: combined([np.exp(combined(all_, "sum") * np.float32(0.1))] * len(all_), "sum"),
    ),
    "in a loop": (
        lambda x: tg.scan(lambda c, row: (tg.all_reduce(c + row) * 0.5, c), x[0], x)[0],
        lambda all_, rank: _scanned(all_),
    ),
}


def _scanned(all_: list[NumpyArray]) -> NumpyArray:
    carries = [value[0] for value in all_]
    for row in range(len(all_[0])):
        total = combined([carry + value[row] for carry, value in zip(carries, all_, strict=True)], "sum")
        carries = [total * np.float32(0.5)] * len(all_)
    return carries[0]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, size: int, device: tg.DeviceName) -> None:
    function, expected = FORMS[form]
    values = [drawn(rank, 12, 24) for rank in range(size)]
    for rank, result in enumerate(on_all(size, function, values, device)):
        correct = expected(values, rank)
        if form == "in a row":
            np.testing.assert_allclose(result, correct, rtol=2e-6)
        else:
            np.testing.assert_array_equal(result, correct)


@pytest.mark.parametrize("device", DEVICES)
def test_several_are_one_message(device: tg.DeviceName) -> None:
    """Adjacent collectives of equal kind share a message, with different shapes, and are unpacked correctly."""

    def function(x: Any) -> Any:
        sums = tg.all_reduce(x), tg.all_reduce(x[:3, 0]), tg.all_reduce(x[0])
        parts = tg.reduce_scatter(x), tg.reduce_scatter(x[:4, :2])
        rows = tg.all_gather(x[:2]), tg.all_gather(x[0, :5])
        return (*sums, *parts, *rows)

    values = [drawn(rank, 8, 6) for rank in range(2)]

    def run(group: Group) -> tuple[list[NumpyArray], int]:
        compiled = tg.jit(function, device=device)
        computed = [np.asarray(result) for result in compiled(values[group.rank])]
        return computed, group.traffic.calls

    total = combined(values, "sum")
    for rank, (results, calls) in enumerate(simulate(2, run, timeout=TIMEOUT)):
        half = slice(4 * rank, 4 * rank + 4)
        expected = [total, total[:3, 0], total[0], total[half], total[:4, :2][2 * rank : 2 * rank + 2]]
        expected += [
            np.concatenate([value[:2] for value in values]),
            np.concatenate([value[0, :5] for value in values]),
        ]
        for result, correct in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, correct)
        assert device == "numpy" or calls == 3


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.uint32])
def test_dtypes(dtype: Any) -> None:
    values = [(drawn(rank, 40) * 100).astype(np.int32).astype(dtype) for rank in range(3)]
    for result in on_all(3, tg.all_reduce, values, "cpu"):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, combined(values, "sum"))


@pytest.mark.parametrize("form", [name for name in FORMS if name not in ("max", "min")])
@pytest.mark.parametrize("size", [2, 3])
def test_derivatives(form: str, size: int) -> None:
    """The cotangent on each rank is the derivative of the sum of all ranks' results, by central differences."""
    function, expected = FORMS[form]
    values = [drawn(rank, 6, 6).astype(np.float64) for rank in range(size)]
    slopes = on_all(size, tg.grad(lambda x: tg.sum(tg.sin(function(x)))), values)

    def total(all_: list[NumpyArray]) -> float:
        return float(sum(np.sin(expected(all_, rank)).sum() for rank in range(size)))

    for rank, place in [(0, (1, 2)), (size - 1, (5, 0)), (size - 1, (3, 3)), (0, (4, 5))]:
        shifted = []
        for sign in (1, -1):
            moved = [value.copy() for value in values]
            moved[rank][place] += sign * 1e-5
            shifted.append(total(moved))
        central = (shifted[0] - shifted[1]) / 2e-5
        np.testing.assert_allclose(slopes[rank][place], central, rtol=2e-6, atol=2e-6)


def test_extremes_share_their_cotangent() -> None:
    """Two of three ranks have the maximum, so each gets half of the sum of all three cotangents."""
    values = [np.array([1.0, 5.0]), np.array([3.0, 5.0]), np.array([2.0, 4.0])]
    gradients = on_all(3, tg.grad(lambda x: tg.sum(tg.all_reduce(x, "max") * 2)), values)
    np.testing.assert_array_equal(gradients, [[0.0, 3.0], [6.0, 3.0], [0.0, 0.0]])


@pytest.mark.parametrize("form", ["sum", "scattered rows", "scattered columns", "gathered columns", "from the last"])
def test_batched(form: str) -> None:
    """A single collective carries all positions along `vmap`'s axis."""
    function, expected = FORMS[form]
    values = [drawn(rank, 5, 4, 6) for rank in range(2)]
    for rank, result in enumerate(on_all(2, tg.vmap(function), values)):
        corrects = [expected([value[position] for value in values], rank) for position in range(5)]
        np.testing.assert_array_equal(result, corrects)


def test_the_meaning_in_the_dialect_is_that_of_a_group() -> None:
    """`exchange`, which defines an op's semantics, agrees with a group of as many processes."""
    values = [drawn(rank, 6, 6) for rank in range(3)]
    block = Block(arg_types=[tensor((6, 6), f32)])
    builder, x = TensorBuilder(block), block.args[0]
    samples: list[tuple[Callable[[Any], Any], SSAValue]] = [
        (tg.all_reduce, builder.all_reduce(x, 3)),
        (lambda x: tg.all_reduce(x, "min"), builder.all_reduce(x, 3, "min")),
        (lambda x: tg.reduce_scatter(x, 1), builder.reduce_scatter(x, 1, 3)),
        (lambda x: tg.all_gather(x, 1), builder.all_gather(x, 1, 3)),
        (
            lambda x: tg.broadcast_from(x, 2),
            builder.emit(CollectiveBroadcastOp, [x], root=integer(2), size=integer(3)),
        ),
    ]
    for function, value in samples:
        assert isinstance(value.owner, CollectiveOp)
        for result, correct in zip(on_all(3, function, values), value.owner.exchange(values), strict=True):
            np.testing.assert_array_equal(result, correct)


@pytest.mark.parametrize("device", DEVICES)
def test_a_group_of_another_size_is_refused(device: tg.DeviceName) -> None:
    x = np.ones(3, np.float32)

    def compiled(group: Group) -> Any:
        function = tg.jit(tg.all_reduce, device=device)
        function(x)
        return function

    function = simulate(2, compiled, timeout=TIMEOUT)[0]
    with pytest.raises(GroupError, match=r"for a group of 2 processes, this one is in a group of 1; compile it again"):
        np.asarray(function(x))


def test_errors() -> None:
    x = np.ones((3, 4), np.float32)

    def run(group: Group) -> None:
        with pytest.raises(ShapeError, match=r"reduce_scatter: axis 0 of shape \(3, 4\) is not divisible by 2"):
            tg.jit(tg.reduce_scatter)(x)
        with pytest.raises(AxisError, match="all_gather"):
            tg.jit(lambda x: tg.all_gather(x, 2))(x)
        with pytest.raises(OptionError, match="reduction must be one of sum, max, min, mean, not 'prod'"):
            tg.jit(lambda x: tg.all_reduce(x, "prod"))(x)
        with pytest.raises(DTypeError, match="a mean is of floats, not of i32"):
            tg.jit(lambda x: tg.all_reduce(x, "mean"))(x.astype(np.int32))
        with pytest.raises(DTypeError, match="takes numbers, not bool"):
            tg.jit(lambda x: tg.all_reduce(x > 0))(x)
        with pytest.raises(OptionError, match="root, a rank of the group, must be an integer from 0 to 1, got 2"):
            tg.jit(lambda x: tg.broadcast_from(x, 2))(x)

    simulate(2, run, timeout=TIMEOUT)
