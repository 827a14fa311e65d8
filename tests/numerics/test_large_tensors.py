"""Axes of more than 2^31 positions: indices are as wide as such an axis needs, whatever their dtype is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import as_native_code, reference, traced
from xdsl.dialects.builtin import i64

import tensorgrad as tg
from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.build import element_of
from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.tracing.dtypes import as_dtype

LARGE = 2**31 + 70
MARKS = {5: 9, 2**31 - 1: 3, 2**31: 5, LARGE - 1: 7}
"""The elements of the tensor of bytes that are not 0."""

AT: dict[str, list[int]] = {
    "u8": [5, 255],
    "u16": [5, 2**16 - 1],
    "u32": [*MARKS, LARGE, 2**32 - 1],
    "u64": [*MARKS, LARGE, 2**32, 2**63],
    "i8": [5, -1],
    "i32": [5, 2**31 - 1, -1, -(2**31)],
    "i64": [*MARKS, LARGE, -1, -LARGE, -LARGE - 1, 2**32 + 5],
}
"""Indices of each dtype, of which some are out of range."""

GATHERS: dict[str, Callable[[Any, Any], Any]] = {
    "take": tg.take,
    "key": lambda x, i: x[i],
    "along": lambda x, i: tg.take_along_axis(tg.reshape(x, (1, -1)), tg.reshape(i, (1, -1)), 1),
}


def expected(indices: list[int]) -> list[int]:
    return [MARKS.get(i % LARGE, 0) if -LARGE <= i < LARGE else 0 for i in indices]


def marked() -> np.ndarray:
    """Returns the tensor, of which only the pages with marks take memory."""
    x = np.zeros(LARGE, np.int8)
    for at, value in MARKS.items():
        x[at] = value
    return x


@pytest.mark.parametrize("dtype", AT)
@pytest.mark.parametrize("name", GATHERS)
def test_indices_reach_every_position(name: str, dtype: str) -> None:
    inputs = [marked(), np.array(AT[dtype], as_dtype(dtype))]
    (gathered,) = reference(traced(GATHERS[name], inputs), inputs)
    assert gathered.reshape(-1).tolist() == expected(AT[dtype])


@pytest.mark.nightly
def test_native_code_reaches_every_position() -> None:
    """All gathers in one program, and rows of two elements, whose index is below 2^31 but not their place."""
    inputs = [marked(), *(np.array(at, as_dtype(dtype)) for dtype, at in AT.items())]

    def gathers(x: Any, *indices: Any) -> list[Any]:
        return [gather(x, i) for gather in GATHERS.values() for i in indices] + [
            tg.reshape(x, (-1, 2))[indices[2] // 2]
        ]

    *gathered, rows = as_native_code(traced(gathers, inputs), inputs)
    assert [values.reshape(-1).tolist() for values in gathered] == 3 * [expected(at) for at in AT.values()]
    assert rows.tolist() == [expected([i // 2 * 2, i // 2 * 2 + 1]) for i in AT["u32"]]


def test_positions_of_a_scatter_are_widened() -> None:
    """What several updates of a position are combined by, too."""
    zeros = np.broadcast_to(np.int8(0), LARGE)
    updates, indices = np.ones(3, np.int8), np.array([-1, 5, 2**31 - 1], np.int32)
    for scatter in (
        lambda x, i, u: x.at[i].add(u),
        lambda x, i, u: x.at[i].set(u),
        lambda x, i, u: tg.scatter_add(x, 0, i, u),
        lambda x, i, u: tg.scatter_reduce(x, 0, i, u, "amax"),
    ):
        module = traced(scatter, [zeros, indices, updates])
        scatters = [op for op in module.walk() if isinstance(op, index.ScatterOp)]
        assert scatters and all(element_of(op.indices) == i64 for op in scatters if op.shape[-1] == LARGE)


def test_rows_of_a_batch_are_counted_in_64_bits() -> None:
    """The rows of all examples are one axis, of more positions than the indices of an example can count."""
    x, i = np.broadcast_to(np.int8(0), (1024, 2**21, 3)), np.zeros((1024, 1), np.int32)
    for function in (tg.take, lambda x, i: tg.grad(lambda x: tg.sum(tg.take(tg.cast(x, "f32"), i)))(x)):
        floats = np.broadcast_to(np.float32(0), x.shape)
        module = traced(tg.vmap(function), [x if function is tg.take else floats, i])
        moved = [op for op in module.walk() if isinstance(op, index.TakeOp | index.ScatterAddOp)]
        assert moved and all(element_of(op.indices) == i64 for op in moved)


def test_positions_that_i32_cannot_count_are_refused() -> None:
    x = np.broadcast_to(np.int8(0), LARGE)
    for function in (tg.argmax, tg.argsort, lambda x: tg.cummax(x, 0)[1]):
        with pytest.raises((DTypeError, ShapeError), match="i32"):
            traced(function, [x])
