"""Cases of scatters to computed positions along an axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Case, NumpyArray, boolean, f32, i32, integers, normal, u32, uniform

from tensorgrad.dialects.tg import index
from tensorgrad.ops import scatter

SUMS = ("sum", "mean")
FOLDS = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def written(x: NumpyArray, axis: int, i: NumpyArray, u: NumpyArray) -> NumpyArray:
    """Writes the updates one by one."""
    result, extent = x.copy(), x.shape[axis]
    for place in np.ndindex(*i.shape):
        if -extent <= i[place] < extent:
            result[(*place[:axis], int(i[place]), *place[axis + 1 :])] = u[place]
    return result


def reduced(x: NumpyArray, axis: int, i: NumpyArray, u: NumpyArray, name: str, include_self: bool) -> NumpyArray:
    """Combines the updates one by one."""
    result, extent, counts = x.copy(), x.shape[axis], np.full(x.shape, int(include_self))
    for place in np.ndindex(*i.shape):
        if -extent <= i[place] < extent:
            target = (*place[:axis], int(i[place]) % extent, *place[axis + 1 :])
            result[target] = FOLDS[name](result[target], u[place]) if counts[target] else u[place]
            counts[target] += 1
    if name != "mean":
        return result
    counts = np.maximum(counts, 1)
    return result // counts.astype(x.dtype) if x.dtype.kind != "f" else (result / counts).astype(x.dtype)


def scatter_cases() -> Iterator[Case]:
    yield from last_of_equals()
    yield from reductions()
    yield from segments()


def last_of_equals() -> Iterator[Case]:
    x = normal(3, 4)
    samples: dict[str, tuple[NumpyArray, int, NumpyArray, NumpyArray, bool]] = {
        "repeated": (x, 1, i32(3, 0, 1, 1, 2, 0).reshape(2, 3), normal(2, 3, seed=8), True),
        "negative": (x, 0, i32(2, -1, 0, -3).reshape(2, 2), normal(2, 2, seed=8), True),
        "many": (x, 1, integers(0, 4, 3, 80), normal(3, 80), False),
        "u32": (normal(6), 0, u32(1, 5, 1), normal(3), True),
        "integers": (integers(-9, 9, 5), 0, i32(4, 4, 0), i32(1, 2, 3), False),
        "booleans": (boolean(1, 0, 1), 0, i32(2, 1), boolean(0, 1), False),
        "special": (normal(4), 0, i32(0, 0, 1, 3), f32(1, np.nan, np.inf, -0.0), False),
    }
    for note, (into, axis, i, u, smooth) in samples.items():
        yield Case(
            index.TakeAlongAxisOp,
            f"scatter {note}",
            lambda x, i, u, a=axis: scatter.scatter(x, a, i, u),
            (into, i, u),
            lambda x, i, u, a=axis: written(x, a, i, u),
            derivative=smooth,
            rtol=0,
        )
    yield Case(
        index.TakeAlongAxisOp,
        "scatter outside",
        lambda x, i, u: scatter.scatter(x, 0, i, u),
        (normal(4), i32(9, 1, -5, 1), normal(4, seed=2)),
        lambda x, i, u: written(x, 0, i, u),
        derivative=True,
        rtol=0,
        refused=True,
    )
    yield Case(
        index.TakeAlongAxisOp,
        "scatter a number",
        lambda x, i: scatter.scatter(x, 1, i, 2.5),
        (x, i32(3, 0, 1, 1, 2, 0).reshape(2, 3)),
        lambda x, i: written(x, 1, i, np.full(i.shape, 2.5)),
        derivative=True,
        rtol=0,
    )


def reductions() -> Iterator[Case]:
    rows = i32(3, 0, 1, 1, 2, 0).reshape(2, 3)
    samples: dict[str, tuple[NumpyArray, int, NumpyArray, NumpyArray, bool]] = {
        "rows": (normal(3, 4), 1, rows, normal(2, 3, seed=8), True),
        "columns": (normal(4, 3), 0, rows, normal(2, 3, seed=8), True),
        "many": (normal(2, 3), 1, integers(0, 3, 2, 90), uniform(0.8, 1.2, 2, 90), False),
        "zeros": (f32(1, 2, 0, 3), 0, i32(0, 0, 1, 2, 1), f32(0, 5, 3, -2, 0), False),
        "i32": (integers(-9, 9, 4), 0, i32(0, 0, -1, 2, 0), integers(-9, 9, 5), False),
        "special": (f32(1, np.nan, -np.inf, 4), 0, i32(0, 0, 2, 3, 2), f32(np.nan, 1, np.inf, -np.inf, 2), False),
    }
    for name in scatter.REDUCTIONS:
        op = index.ScatterAddAlongAxisOp if name in SUMS else index.ScatterReduceAlongAxisOp
        for include in (True, False):
            for note, (x, axis, i, u, smooth) in samples.items():
                yield Case(
                    op,
                    f"scatter {name} {'with' if include else 'without'} self {note}",
                    lambda x, i, u, a=axis, n=name, s=include: scatter.scatter_reduce(x, a, i, u, n, s),
                    (x, i, u),
                    lambda x, i, u, a=axis, n=name, s=include: reduced(x, a, i, u, n, s),
                    derivative=smooth or (note == "zeros" and name == "prod"),
                    rtol=1e-5,
                )
        yield Case(
            op,
            f"scatter {name} outside",
            lambda x, i, u, n=name: scatter.scatter_reduce(x, 0, i, u, n),
            (normal(4), i32(9, 1, -5, 1), normal(4, seed=2)),
            lambda x, i, u, n=name: reduced(x, 0, i, u, n, True),
            derivative=name not in scatter.EXTREMES,
            refused=True,
        )


SEGMENTS = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}


def segmented(x: NumpyArray, i: NumpyArray, count: int, name: str) -> NumpyArray:
    """Combines the rows one by one."""
    size = i.size
    rows, numbers = x.reshape(size, -1), np.where((i.reshape(size, 1) >= 0), i.reshape(size, 1), count)
    into = np.full((count, rows.shape[1]), EMPTY[name], x.dtype)
    folds = reduced(into, 0, np.broadcast_to(numbers, rows.shape), rows, SEGMENTS[name], False)
    return folds.reshape(count, *x.shape[i.ndim :])


def segments() -> Iterator[Case]:
    samples: dict[str, tuple[NumpyArray, NumpyArray, int, bool]] = {
        "rows": (normal(7, 3), i32(2, 0, 1, 1, -1, 0, 9), 3, True),
        "numbers": (normal(6), i32(1, 1, 1, 0, 0, 2), 3, True),
        "axes": (normal(2, 3, 2, 2), i32(0, 1, 2, 2, 1, 2).reshape(2, 3), 3, True),
        "many": (uniform(0.8, 1.2, 150, 2), integers(-1, 3, 150), 3, False),
        "empty": (normal(3, 2), u32(3, 3, 0), 5, False),
    }
    for name in SEGMENTS:
        op = index.ScatterAddOp if name in SUMS else index.ScatterReduceOp
        for note, (x, i, count, smooth) in samples.items():
            yield Case(
                op,
                f"segment {name} {note}",
                lambda x, i, n=name, c=count: getattr(scatter, f"segment_{n}")(x, i, c),
                (x, i),
                lambda x, i, n=name, c=count: segmented(x, i, c, n),
                derivative=smooth,
                rtol=1e-5,
            )
