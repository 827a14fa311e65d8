"""Cases of gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from case import Case, NumpyArray, boolean, distinct, f32, i32, integers, normal, u32

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import integer
from tensorgrad.ops import creation
from tensorgrad.ops import reduce as reductions
from tensorgrad.ops import shape as shaping
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


def fill_of(dtype: np.dtype[Any]) -> Any:
    return np.nan if dtype.kind == "f" else 0


def taken(x: NumpyArray, indices: NumpyArray, axis: int) -> NumpyArray:
    """Returns slices along an axis, one by one."""
    result = np.full((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), fill_of(x.dtype), x.dtype)
    for place in np.ndindex(*indices.shape):
        if 0 <= int(indices[place]) < x.shape[axis]:
            before = (slice(None),) * axis
            result[(*before, *place)] = x[(*before, int(indices[place]))]
    return result


def scattered(updates: NumpyArray, indices: NumpyArray, axis: int, extent: int) -> NumpyArray:
    """Adds slices along an axis, one by one."""
    result = np.zeros((*updates.shape[:axis], extent, *updates.shape[axis + indices.ndim :]), updates.dtype)
    for place in np.ndindex(*indices.shape):
        if 0 <= int(indices[place]) < extent:
            before = (slice(None),) * axis
            result[(*before, int(indices[place]))] += updates[(*before, *place)]
    return result


def taken_along(x: NumpyArray, indices: NumpyArray, axis: int) -> NumpyArray:
    """Returns elements along an axis, one by one."""
    result = np.full(indices.shape, fill_of(x.dtype), x.dtype)
    for place in np.ndindex(*indices.shape):
        if 0 <= int(indices[place]) < x.shape[axis]:
            result[place] = x[(*place[:axis], int(indices[place]), *place[axis + 1 :])]
    return result


def scattered_along(updates: NumpyArray, indices: NumpyArray, axis: int, extent: int) -> NumpyArray:
    """Adds elements along an axis, one by one."""
    result = np.zeros((*updates.shape[:axis], extent, *updates.shape[axis + 1 :]), updates.dtype)
    for place in np.ndindex(*indices.shape):
        if 0 <= int(indices[place]) < extent:
            result[(*place[:axis], int(indices[place]), *place[axis + 1 :])] += updates[place]
    return result


TAKES: list[tuple[str, tuple[int, ...], NumpyArray, int]] = [
    ("rows", (5, 3), i32(4, 0, 2), 0),
    ("repeated", (5, 3), i32(1, 1, 3, 1), 0),
    ("columns", (3, 5), i32(4, 0), 1),
    ("middle", (2, 4, 3), i32(3, 3, 0), 1),
    ("matrix of indices", (4, 2), i32(0, 3, 3, 1, 2, 0).reshape(2, 3), 0),
    ("scalar index", (4, 2), np.array(2, np.int32), 0),
    ("scalar index inside", (2, 4, 2), np.array(3, np.int32), 1),
    ("vector", (6,), i32(5, 5, 0), 0),
    ("u32", (4, 2), u32(3, 0, 3), 0),
    ("one row", (1, 3), i32(0, 0), 0),
    ("rank 4", (2, 3, 1, 2), i32(2, 0, 2).reshape(3, 1), 1),
]  # fmt: skip


def index_cases() -> Iterator[Case]:
    def take(axis: int) -> Callable[..., Tensor]:
        return lambda x, i: emit(index.TakeOp, [x, i], axis=integer(axis))

    def scatter(axis: int, extent: int) -> Callable[..., Tensor]:
        return lambda u, i: emit(index.ScatterAddOp, [u, i], axis=integer(axis), extent=integer(extent))

    for note, extents, indices, axis in TAKES:
        x, extent, ours = normal(*extents), extents[axis], take(axis)
        updates = taken(normal(*extents, seed=5), indices, axis)
        yield Case(
            index.TakeOp, note, take(axis), (x, indices), lambda x, i, a=axis: taken(x, i, a), derivative=True, rtol=0
        )
        yield Case(
            index.TakeOp,
            f"{note} of a sum",
            lambda x, i, f=ours: f(x + x * 2.0, i),
            (x, indices),
            lambda x, i, a=axis: taken(x + x * 2, i, a),
            derivative=True,
        )
        yield Case(
            index.TakeOp,
            f"{note} i32",
            take(axis),
            ((x * 100).astype(np.int32), indices),
            lambda x, i, a=axis: taken(x, i, a),
        )
        yield Case(
            index.ScatterAddOp,
            note,
            scatter(axis, extent),
            (updates, indices),
            lambda u, i, a=axis, e=extent: scattered(u, i, a, e),
            derivative=True,
        )
        yield Case(
            index.ScatterAddOp,
            f"{note} i32",
            scatter(axis, extent),
            ((updates * 100).astype(np.int32), indices),
            lambda u, i, a=axis, e=extent: scattered(u, i, a, e),
        )
    outside = i32(-1, 2, 5, -(2**31), 2**31 - 1, 0, 6)
    for axis, extents in ((0, (5, 2)), (1, (2, 5))):
        x = normal(*extents)
        yield Case(index.TakeOp, f"out of range {axis}", take(axis), (x, outside), lambda x, i, a=axis: taken(x, i, a))
        yield Case(
            index.ScatterAddOp,
            f"out of range {axis}",
            scatter(axis, 5),
            (taken(normal(*extents), outside % 5, axis), outside),
            lambda u, i, a=axis: scattered(u, i, a, 5),
            derivative=True,
        )
    yield Case(
        index.TakeOp,
        "out of range u32",
        take(0),
        (i32(1, 2, 3), u32(0, 2**32 - 1, 2**31, 2)),
        lambda x, i: taken(x, i, 0),
    )
    yield Case(index.TakeOp, "out of range bool", take(0), (boolean(1, 1), i32(-1, 0, 2)), lambda x, i: taken(x, i, 0))
    yield Case(
        index.TakeOp,
        "no indices",
        take(0),
        (normal(3, 2), i32()),
        lambda x, i: taken(x, i, 0),
        derivative=True,
        flat=(0,),
    )
    yield Case(index.TakeOp, "of nothing", take(0), (normal(0, 2), i32(0, 1)), lambda x, i: taken(x, i, 0))
    yield Case(
        index.TakeOp, "of nothing i32", take(0), (np.zeros((0, 2), np.int32), i32(0, 1)), lambda x, i: taken(x, i, 0)
    )
    yield Case(
        index.TakeOp,
        "negative counts from the end",
        lambda x, i: shaping.take(x, i, 1),
        (normal(2, 4), i32(-1, 0, -4, 3)),
        lambda x, i: np.take(x, i, 1),
        derivative=True,
    )
    yield Case(
        index.TakeOp,
        "by a key",
        lambda x, i: x[:, i, 1:],
        (normal(2, 3, 4), i32(2, 0, 2)),
        lambda x, i: x[:, i, 1:],
        derivative=True,
    )
    yield Case(
        index.TakeOp, "of a constant", lambda i: shaping.take(Array(f32(1, 2, 3)), i), (i32(2, 0),), lambda i: f32(3, 1)
    )
    yield Case(
        index.TakeOp, "of a splat", lambda i: shaping.take(creation.ones((3,)), i), (i32(2, 0),), lambda i: f32(1, 1)
    )
    yield Case(
        index.TakeOp,
        "at constants",
        lambda x: shaping.take(x, Array(i32(2, 0, 2))),
        (normal(3, 2),),
        lambda x: x[[2, 0, 2]],
        derivative=True,
    )
    yield Case(
        index.TakeOp,
        "of a reversed transpose",
        lambda x, i: shaping.take(shaping.flip(x.T, 0), i, 0),
        (normal(2, 4), i32(3, 1, 3)),
        lambda x, i: x.T[::-1][i],
        derivative=True,
    )
    yield Case(
        index.ScatterAddOp,
        "no updates",
        scatter(0, 3),
        (normal(0, 2), i32()),
        lambda u, i: scattered(u, i, 0, 3),
        derivative=True,
    )
    yield Case(
        index.ScatterAddOp,
        "to nothing",
        scatter(0, 0),
        (normal(2, 2), i32(0, 1)),
        lambda u, i: scattered(u, i, 0, 0),
        derivative=True,
        flat=(0,),
    )
    yield Case(
        index.ScatterAddOp,
        "NaN stays in its row",
        scatter(0, 3),
        (f32(np.nan, 1, np.inf), i32(0, 2, 7)),
        lambda u, i: scattered(u, i, 0, 3),
    )
    yield Case(
        index.ScatterAddOp,
        "u32 wraps",
        scatter(0, 2),
        (u32(2**31, 2**31, 5), i32(1, 1, 0)),
        lambda u, i: scattered(u, i, 0, 2),
    )
    yield Case(
        index.ScatterAddOp,
        "rows of vectors, by sorting",
        lambda u, i, x: scatter(0, 1100)(u, i) * x,
        (normal(17, 16), i32(*[1099, 3, 3, 0] * 4, 1100), normal(1100, 16)),
        lambda u, i, x: scattered(u, i, 0, 1100) * x,
        derivative=True,
    )
    yield Case(
        index.ScatterAddOp,
        "of what take reads",
        lambda x, i: scatter(0, 4)(take(0)(x, i), i),
        (normal(4, 2), i32(3, 1, 3)),
        lambda x, i: scattered(taken(x, i, 0), i, 0, 4),
        derivative=True,
    )
    yield from along_cases()


def along_cases() -> Iterator[Case]:
    samples: list[tuple[str, tuple[int, ...], NumpyArray, int]] = [
        ("labels", (4, 3), i32(2, 0, 1, 2).reshape(4, 1), 1),
        ("wide", (3, 2), integers(0, 2, 3, 5), 1),
        ("first axis", (4, 3), integers(0, 4, 2, 3), 0),
        ("middle", (2, 4, 3), integers(0, 4, 2, 5, 3), 1),
        ("u32", (3, 4), integers(0, 4, 3, 2, dtype=np.uint32), 1),
        ("vector", (5,), i32(4, 4, 0), 0),
        ("rank 4", (2, 1, 3, 2), integers(0, 3, 2, 1, 2, 2), 2),
    ]  # fmt: skip

    def scatter(axis: int, extent: int) -> Callable[..., Tensor]:
        return lambda u, i: emit(index.ScatterAddAlongAxisOp, [u, i], axis=integer(axis), extent=integer(extent))

    for note, extents, indices, axis in samples:
        extent = extents[axis]
        yield Case(
            index.TakeAlongAxisOp,
            note,
            lambda x, i, a=axis: shaping.take_along_axis(x, i, a),
            (normal(*extents), indices),
            lambda x, i, a=axis: np.take_along_axis(x, i.astype(np.int64), a),
            derivative=True,
            rtol=0,
        )
        yield Case(
            index.ScatterAddAlongAxisOp,
            note,
            scatter(axis, extent),
            (normal(*indices.shape), indices),
            lambda u, i, a=axis, e=extent: scattered_along(u, i, a, e),
            derivative=True,
        )
        yield Case(
            index.ScatterAddAlongAxisOp,
            f"{note} i32",
            scatter(axis, extent),
            (integers(-9, 9, *indices.shape), indices),
            lambda u, i, a=axis, e=extent: scattered_along(u, i, a, e),
        )
    outside = i32(-1, 3, 0, 2, 2**31 - 1, -(2**31)).reshape(2, 3)
    for dtype in (np.float32, np.int32):
        x = (normal(2, 3) * 10).astype(dtype)
        yield Case(
            index.TakeAlongAxisOp,
            f"out of range {dtype.__name__}",
            lambda x, i: emit(index.TakeAlongAxisOp, [x, i], axis=integer(1)),
            (x, outside),
            lambda x, i: taken_along(x, i, 1),
        )
    yield Case(
        index.ScatterAddAlongAxisOp,
        "out of range",
        scatter(1, 3),
        (normal(2, 3), outside),
        lambda u, i: scattered_along(u, i, 1, 3),
        derivative=True,
    )
    yield Case(
        index.ScatterAddAlongAxisOp,
        "out of range first axis",
        scatter(0, 2),
        (normal(3, 2), outside.reshape(3, 2)),
        lambda u, i: scattered_along(u, i, 0, 2),
        derivative=True,
    )
    yield Case(
        index.TakeAlongAxisOp,
        "broadcast",
        lambda x, i: shaping.take_along_axis(x, i, 1),
        (normal(1, 4), i32(-1, 2, 0).reshape(3, 1)),
        lambda x, i: x[0][i],
        derivative=True,
    )
    yield Case(
        index.TakeAlongAxisOp,
        "cross entropy",
        lambda x, i: -reductions.mean(shaping.take_along_axis(reductions.log_softmax(x), shaping.expand_dims(i, 1), 1)),
        (distinct(3, 4), i32(3, 0, 2)),
        lambda x, i: np.mean([np.log(np.exp(r).sum()) - r[k] for r, k in zip(x, i, strict=True)], dtype=x.dtype),
        derivative=True,
    )
    yield Case(
        index.TakeAlongAxisOp,
        "empty",
        lambda x, i: shaping.take_along_axis(x, i, 1),
        (normal(2, 3), np.zeros((2, 0), np.int32)),
        lambda x, i: np.zeros((2, 0), np.float32),
        derivative=True,
        flat=(0,),
    )
    yield Case(
        index.TakeAlongAxisOp,
        "of nothing",
        lambda x, i: emit(index.TakeAlongAxisOp, [x, i], axis=integer(1)),
        (normal(2, 0), np.zeros((2, 1), np.int32)),
        lambda x, i: np.full((2, 1), np.nan, np.float32),
    )
    yield Case(
        index.ScatterAddAlongAxisOp,
        "no updates",
        scatter(1, 3),
        (normal(2, 0), np.zeros((2, 0), np.int32)),
        lambda u, i: np.zeros((2, 3), np.float32),
        derivative=True,
    )
    yield Case(
        index.ScatterAddAlongAxisOp,
        "of a slice",
        lambda u, i: scatter(1, 3)(u[:, ::2], i[:, ::2]),
        (normal(2, 4), integers(0, 3, 2, 4)),
        lambda u, i: scattered_along(u[:, ::2], i[:, ::2], 1, 3),
        derivative=True,
    )
