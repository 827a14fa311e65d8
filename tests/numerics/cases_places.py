"""Cases of indexing: reading and updating tensors at keys and indices, and scatters of many indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from case import Case, NumpyArray, i32, integers, normal, u32

from tensorgrad.dialects.tg import contract, index
from tensorgrad.dialects.tg.base import integer
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.ops import index as indexing
from tensorgrad.ops.creation import arange
from tensorgrad.ops.promotion import broadcast_to
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


def place_cases() -> Iterator[Case]:
    x = normal(3, 4)
    keys: dict[str, Any] = {
        "row": 1,
        "column": (slice(None), -1),
        "steps": (slice(None, None, 2), slice(3, 0, -2)),
        "new axis": (None, 2),
        "none": slice(0, 0),
        "all": ...,
    }
    for note, key in keys.items():
        values = normal(*x[key].shape, seed=3)
        op = arithmetic.SelectOp

        def put(x: NumpyArray, v: NumpyArray, key: Any = key) -> NumpyArray:
            result = x.copy()
            result[key] = v
            return result

        def added(x: NumpyArray, v: NumpyArray, key: Any = key) -> NumpyArray:
            result = x.copy()
            result[key] += v
            return result

        flat = () if values.size else (1,)
        yield Case(
            op,
            f"at {note} set",
            lambda x, v, k=key: x.at[k].set(v),
            (x, values),
            put,
            derivative=note != "all",
            flat=flat,
            rtol=0,
        )
        yield Case(
            arithmetic.AddOp,
            f"at {note} add",
            lambda x, v, k=key: x.at[k].add(v),
            (x, values),
            added,
            derivative=True,
            flat=flat,
        )
    for note, indices in {
        "distinct": i32(2, 0),
        "repeated": i32(1, 1, -1, 1),
        "outside": i32(0, 9, 2),
        "none": i32(),
        "matrix": i32(0, 1, 0, 1).reshape(2, 2),
    }.items():
        inside = np.where((indices >= -3) & (indices < 3), indices % 3, 3)
        values = normal(4, *indices.shape, seed=6)

        def put_taken(x: NumpyArray, i: NumpyArray, v: NumpyArray, inside: NumpyArray = inside) -> NumpyArray:
            result = np.concatenate([x, x[:1]])
            for place in np.ndindex(*inside.shape):
                result[inside[place]] = v[(slice(None), *place)]
            return result[:3]

        def add_taken(x: NumpyArray, i: NumpyArray, v: NumpyArray, inside: NumpyArray = inside) -> NumpyArray:
            result = np.concatenate([x, x[:1]])
            for place in np.ndindex(*inside.shape):
                result[inside[place]] += v[(slice(None), *place)]
            return result[:3]

        flat = (2,) if not indices.size else ()
        yield Case(
            arithmetic.SelectOp,
            f"at {note} indices set",
            lambda x, i, v: x.T.at[:, i].set(v).T,
            (x, indices, values),
            put_taken,
            derivative=True,
            flat=flat,
            rtol=0,
            refused=note == "outside",
        )
        yield Case(
            index.ScatterAddOp,
            f"at {note} indices add",
            lambda x, i, v: x.T.at[:, i].add(v).T,
            (x, indices, values),
            add_taken,
            derivative=True,
            flat=flat,
            refused=note == "outside",
        )
    i = i32(3, 0, 1, 1, 2, 0).reshape(2, 3)
    yield Case(
        index.TakeAlongAxisOp,
        "gather",
        lambda x, i: indexing.gather(x, 1, i),
        (x, i),
        lambda x, i: np.take_along_axis(x[:2], i, 1),
        derivative=True,
    )
    yield Case(
        index.ScatterAddAlongAxisOp,
        "scatter add to",
        lambda x, i, u: indexing.scatter_add(x, 1, i, u),
        (x, i, normal(2, 3, seed=8)),
        lambda x, i, u: x + np.concatenate([scatter_rows(u, i, 4), np.zeros((1, 4), u.dtype)]),
        derivative=True,
    )
    yield Case(
        index.TakeOp,
        "embedding",
        indexing.embedding,
        (x, i32(0, 2, 2, -1).reshape(2, 2)),
        lambda x, i: x[i],
        derivative=True,
    )
    yield Case(
        arithmetic.CompareOp,
        "one hot",
        lambda i: indexing.one_hot(i, 4),
        (i32(0, 3, -1, 4),),
        lambda i: np.eye(6, 4, dtype=np.float32)[[0, 3, 4, 5]],
    )
    yield Case(
        contract.DotGeneralOp,
        "one hot multiplied",
        lambda i, w: indexing.one_hot(i, 4) @ w,
        (i32(0, 3, 1), normal(4, 2)),
        lambda i, w: w[i],
        derivative=True,
    )
    yield from several_arrays()
    yield from sorted_scatters()


def several_arrays() -> Iterator[Case]:
    """Returns cases of keys with several integer arrays, along with slices and integers."""
    rows, columns = i32(0, -1, 2, 0), i32(1, 3, -2, 1)
    keys: dict[str, tuple[tuple[int, ...], tuple[NumpyArray, ...], Any]] = {
        "pairs": ((3, 4), (rows, columns), lambda i, j: (i, j)),
        "every row": ((4, 5), (columns,), lambda j: (arange(4) if isinstance(j, Tensor) else np.arange(4), j)),
        "apart": ((3, 2, 4), (rows, columns), lambda i, j: (i, slice(None), j)),
        "an integer apart": ((3, 2, 4), (columns,), lambda j: (1, slice(None), j)),
        "broadcast": ((2, 3, 4), (rows.reshape(4, 1), columns[:3]), lambda i, j: (slice(None, None, -1), i, j)),
        "new axes": ((3, 4, 2), (rows, columns), lambda i, j: (None, i, j, None, ..., slice(1, None))),
        "u32": ((3, 4), (u32(0, 2, 1), i32(-1, 1, 2)), lambda i, j: (i, j)),
    }
    for note, (extents, arrays, key) in keys.items():
        x, place = normal(*extents), key(*arrays)
        values = normal(*x[place].shape, seed=4)

        def put(x: NumpyArray, v: NumpyArray, *arrays: NumpyArray, key: Any = key) -> NumpyArray:
            result = x.copy()
            result[key(*arrays)] = v
            return result

        def added(x: NumpyArray, v: NumpyArray, *arrays: NumpyArray, key: Any = key) -> NumpyArray:
            result = x.copy()
            np.add.at(result, key(*arrays), v)
            return result

        yield Case(
            index.TakeOp,
            f"arrays {note}",
            lambda x, *a, k=key: x[k(*a)],
            (x, *arrays),
            lambda x, *a, k=key: x[k(*a)],
            derivative=True,
            rtol=0,
        )
        yield Case(
            index.ScatterAddOp,
            f"arrays {note} add",
            lambda x, v, *a, k=key: x.at[k(*a)].add(v),
            (x, values, *arrays),
            added,
            derivative=True,
        )
        yield Case(
            arithmetic.SelectOp,
            f"arrays {note} set",
            lambda x, v, *a, k=key: x.at[k(*a)].set(v),
            (x, values, *arrays),
            put,
            derivative=True,
            rtol=0,
        )
    outside = i32(0, 3, 2, -5), i32(4, 1, 3, 0)
    yield Case(
        index.TakeOp,
        "arrays outside",
        lambda x, i, j: x[i, j],
        (normal(3, 4), *outside),
        lambda x, i, j: np.array([np.nan, np.nan, x[2, 3], np.nan], x.dtype),
        refused=True,
    )
    yield Case(
        index.ScatterAddOp,
        "arrays outside add",
        lambda x, i, j: x.at[i, j].add(1.0),
        (normal(3, 4), *outside),
        lambda x, i, j: x + np.pad([[1.0]], ((2, 0), (3, 0))).astype(x.dtype),
        refused=True,
    )


def scatter_rows(updates: NumpyArray, indices: NumpyArray, extent: int) -> NumpyArray:
    """Adds each row's elements at its own indices, one by one."""
    result = np.zeros((updates.shape[0], extent), updates.dtype)
    for row, column in np.ndindex(*updates.shape):
        if 0 <= indices[row, column] < extent:
            result[row, indices[row, column]] += updates[row, column]
    return result


def sorted_scatters() -> Iterator[Case]:
    """Returns cases of scatters with enough indices to be sorted."""
    for note, low, high, dtype in (
        ("i32", -5, 305, np.int32),
        ("u32", 0, 305, np.uint32),
        ("a few rows", 7, 9, np.int32),
    ):
        indices = integers(low, high, 10, 20, dtype=dtype)
        for updates in (normal(10, 20, 2), integers(-9, 9, 10, 20, 2)):

            def added(u: NumpyArray, i: NumpyArray) -> NumpyArray:
                result = np.zeros((300, 2), u.dtype)
                for place in np.ndindex(*i.shape):
                    if 0 <= i[place] < 300:
                        result[int(i[place])] += u[place]
                return result

            yield Case(
                index.ScatterAddOp,
                f"sorted {note} {updates.dtype}",
                lambda u, i: emit(index.ScatterAddOp, [u, i], axis=integer(0), extent=integer(300)),
                (updates, indices),
                added,
                rtol=1e-5,
            )
    indices, updates = integers(-3, 205, 2, 100), normal(2, 100)
    yield Case(
        index.ScatterAddAlongAxisOp,
        "sorted rows",
        lambda u, i: emit(index.ScatterAddAlongAxisOp, [u, i], axis=integer(1), extent=integer(200)),
        (updates, indices),
        lambda u, i: scatter_rows(u, i, 200),
        rtol=1e-5,
    )
    yield Case(
        index.ScatterAddAlongAxisOp,
        "sorted columns",
        lambda u, i: emit(index.ScatterAddAlongAxisOp, [u.T * 2.0, i.T], axis=integer(0), extent=integer(200)),
        (updates, indices),
        lambda u, i: scatter_rows(u * 2, i, 200).T,
        rtol=1e-5,
    )
    few, places = normal(3, 2), integers(-1, 20_001, 3, 2)
    yield Case(
        index.ScatterAddAlongAxisOp,
        "few among many",
        lambda u, i: emit(index.ScatterAddAlongAxisOp, [u, i], axis=integer(1), extent=integer(20_000)),
        (few, places),
        lambda u, i: scatter_rows(u, i, 20_000),
    )
    yield Case(
        index.ScatterAddOp,
        "one among many",
        lambda u, i: emit(index.ScatterAddOp, [u, i], axis=integer(1), extent=integer(20_000)),
        (normal(3, 1), integers(0, 20_000, 1)),
        lambda u, i: scatter_rows(u, np.broadcast_to(i, (3, 1)), 20_000),
    )
    yield Case(
        index.ScatterAddOp,
        "sorted inside",
        lambda u, i: (
            emit(
                index.ScatterAddOp,
                [broadcast_to(u, (2, 100)), Array(i32(*range(100, 0, -1)))],
                axis=integer(1),
                extent=integer(200),
            )
            * i
        ),
        (normal(100), normal(200)),
        lambda u, i: (
            np.concatenate([np.zeros((2, 1)), np.broadcast_to(u[::-1], (2, 100)), np.zeros((2, 99))], 1).astype(u.dtype)
            * i
        ),
        derivative=False,
    )
