"""Cases of cumulative sums, products, extrema and log-sum-exps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from case import Case, NumpyArray, boolean, distinct, f32, integers, normal, uniform

from tensorgrad.dialects.tg import index, reduce
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.ops import cumulative


def cumulative_cases() -> Iterator[Case]:
    yield from sums_and_products()
    yield from extremes()
    yield from logarithms()


def sums_and_products() -> Iterator[Case]:
    for shape_, axis in (((5,), 0), ((2, 3), None), ((2, 3, 2), 1), ((1,), 0), ((3, 1), 1)):
        smooth = shape_ != (1,)
        yield Case(
            reduce.SumOp,
            f"cumsum {shape_} {axis}",
            lambda x, a=axis: cumulative.cumsum(x * 1.5, a),
            (normal(*shape_),),
            lambda x, a=axis: np.cumsum(x * np.float32(1.5), a),
            derivative=smooth,
        )
        yield Case(
            reduce.ProdOp,
            f"cumprod {shape_} {axis}",
            lambda x, a=axis: cumulative.cumprod(x * 1.5, a),
            (normal(*shape_),),
            lambda x, a=axis: np.cumprod(x * np.float32(1.5), a),
            derivative=True,
        )
    yield Case(
        reduce.SumOp,
        "cumsum of blocks",
        lambda x: cumulative.cumsum(x, 1),
        (normal(2, 70),),
        lambda x: np.cumsum(x, 1),
        rtol=1e-5,
        derivative=True,
    )
    yield Case(
        reduce.SumOp,
        "cumsum of blocks of blocks",
        lambda x: cumulative.cumsum(x),
        (uniform(0.5, 1.5, 2100),),
        lambda x: np.cumsum(x.astype(np.float64)).astype(np.float32),
        rtol=1e-6,
    )
    yield Case(
        reduce.SumOp,
        "cumsum wraps",
        lambda x: cumulative.cumsum(x),
        (integers(-(2**31), 2**31, 130),),
        lambda x: np.cumsum(x, dtype=np.int32),
    )
    yield Case(
        reduce.SumOp,
        "cumsum of booleans",
        lambda x: cumulative.cumsum(x),
        (boolean(1, 0, 1),),
        lambda x: np.cumsum(x, dtype=np.int32),
    )
    yield Case(
        reduce.SumOp,
        "cumsum special",
        lambda x: cumulative.cumsum(x),
        (f32(1, np.inf, 2, -np.inf, 3, np.nan),),
        np.cumsum,
    )
    yield Case(
        reduce.ProdOp,
        "cumprod with zeros",
        lambda x: cumulative.cumprod(x, 1),
        (f32(2, 0, 3, 4, 0, 1, 0, 5).reshape(2, 4),),
        lambda x: np.cumprod(x, 1),
        derivative=True,
    )
    yield Case(
        reduce.ProdOp,
        "cumprod of blocks",
        lambda x: cumulative.cumprod(x, 1),
        (np.where(np.arange(140).reshape(2, 70) == 110, np.float32(0), uniform(0.8, 1.2, 2, 70)),),
        lambda x: np.cumprod(x, 1),
        rtol=1e-5,
        derivative=True,
    )
    yield Case(
        reduce.ProdOp,
        "cumprod of blocks of blocks",
        lambda x: cumulative.cumprod(x),
        (uniform(0.95, 1.05, 2100),),
        lambda x: np.cumprod(x.astype(np.float64)).astype(np.float32),
        rtol=1e-5,
    )
    yield Case(
        reduce.ProdOp,
        "cumprod wraps",
        lambda x: cumulative.cumprod(x),
        (integers(-9, 9, 40),),
        lambda x: np.cumprod(x, dtype=np.int32),
    )


def first_and_last(x: NumpyArray, axis: int | None, best: Callable[..., Any]) -> tuple[NumpyArray, NumpyArray]:
    """Returns running extrema and their indices, element by element; NaN counts as the extremum."""
    rows = np.moveaxis(x.reshape(-1) if axis is None else x, axis or 0, -1)
    values, places = rows.copy(), np.zeros(rows.shape, np.int32)
    for row in np.ndindex(*rows.shape[:-1]):
        for i in range(1, rows.shape[-1]):
            new, old = rows[row][i], values[row][i - 1]
            is_new = np.isnan(new) or (not np.isnan(old) and best(new, old))
            values[row][i] = new if is_new else old
            places[row][i] = i if is_new else places[row][i - 1]
    return np.moveaxis(values, -1, axis or 0), np.moveaxis(places, -1, axis or 0)


def extremes() -> Iterator[Case]:
    kinds: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "cummax": (cumulative.cummax, np.greater_equal),
        "cummin": (cumulative.cummin, np.less_equal),
    }
    samples: dict[str, tuple[NumpyArray, int | None, bool]] = {
        "vector": (distinct(7), 0, True),
        "flattened": (distinct(2, 4), None, True),
        "middle": (distinct(2, 5, 2), 1, True),
        "of blocks": (distinct(2, 70), 1, True),
        "of blocks of blocks": (integers(0, 900, 2100).astype(np.float32), 0, False),
        "ties": (integers(0, 3, 3, 10).astype(np.float32), 1, False),
        "special": (f32(1, -np.inf, 2, np.inf, -np.inf, 3, np.nan, 4, np.nan, 5), 0, False),
        "infinities": (f32(-np.inf, -np.inf, np.inf, np.inf, 0), 0, False),
        "i32": (integers(-(2**31), 2**31, 2, 9), 1, False),
        "u32": (integers(0, 2**32, 9, dtype=np.uint32), 0, False),
        "booleans": (boolean(0, 1, 0, 1), 0, False),
    }
    for name, (running, best) in kinds.items():
        for note, (x, axis, smooth) in samples.items():
            yield Case(
                index.TakeAlongAxisOp,
                f"{name} {note}",
                lambda x, f=running, a=axis: f(x, a)[0],
                (x,),
                lambda x, b=best, a=axis: first_and_last(x, a, b)[0],
                derivative=smooth,
                rtol=0,
            )
            yield Case(
                reduce.MaxOp,
                f"{name} places {note}",
                lambda x, f=running, a=axis: f(x, a)[1],
                (x,),
                lambda x, b=best, a=axis: first_and_last(x, a, b)[1],
            )
    yield Case(arithmetic.MulOp, "cummax of none", lambda x: cumulative.cummax(x, 0)[0] * 2.0, (normal(0, 3),), np.copy)


def logarithms() -> Iterator[Case]:
    def running(x: NumpyArray, axis: int | None = None) -> NumpyArray:
        sums = np.logaddexp.accumulate(np.asarray(x.reshape(-1) if axis is None else x, np.float64), axis or 0)
        return sums.astype(np.float32)

    samples: dict[str, tuple[NumpyArray, int | None, bool]] = {
        "vector": (normal(5), 0, True),
        "flattened": (normal(2, 3), None, True),
        "middle": (normal(2, 4, 2), 1, True),
        "one": (normal(3, 1), 1, True),
        "of blocks": (normal(2, 70), 1, True),
        "of blocks of blocks": (normal(2100), 0, False),
        "far apart": (f32(1000, -1000, 1001, 88, -104, 1001.5), 0, False),
        "falling": (f32(9, -8, 10, 3, -12, 9.5), 0, True),
        "nothing": (f32(-np.inf, -np.inf, -np.inf), 0, False),
        "after nothing": (f32(-np.inf, -np.inf, 3, -np.inf, 1e30, -1e30), 0, False),
        "infinities": (f32(1, np.inf, 2, -np.inf), 0, False),
        "not numbers": (f32(1, -np.inf, np.nan, 2), 0, False),
        "integers": (integers(-9, 9, 6), 0, False),
    }
    for note, (x, axis, smooth) in samples.items():
        yield Case(
            reduce.SumOp,
            f"logcumsumexp {note}",
            lambda x, a=axis: cumulative.logcumsumexp(x, a),
            (x,),
            lambda x, a=axis: running(x, a),
            derivative=smooth,
            rtol=3e-6,
        )
