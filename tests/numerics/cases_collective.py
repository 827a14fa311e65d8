"""Cases of collectives in a group of one process; `test_collectives.py` has larger groups."""

from __future__ import annotations

from collections.abc import Iterator

from case import Case, NumpyArray, distinct, f32, i32, integers, normal

from tensorgrad.dialects.tg.collective import AllGatherOp, AllReduceOp, CollectiveBroadcastOp, ReduceScatterOp
from tensorgrad.ops.collective import all_gather, all_reduce, broadcast_from, reduce_scatter


def doubled(x: NumpyArray) -> NumpyArray:
    return x * x.dtype.type(2)


def collective_cases() -> Iterator[Case]:
    for reduction in ("sum", "mean", "max", "min"):
        smooth, inputs = reduction in ("sum", "mean"), (normal(3, 4),)
        yield Case(
            AllReduceOp,
            f"the {reduction} of one process",
            lambda x, r=reduction: all_reduce(x * 2, r),
            inputs if smooth else (distinct(3, 4),),
            doubled,
            derivative=True,
        )
    yield Case(AllReduceOp, "of a scalar", lambda x: all_reduce(x * 2), (f32(1.5).reshape(()),), doubled)
    yield Case(AllReduceOp, "of integers", lambda x: all_reduce(x, "max"), (integers(-9, 9, 5),), lambda x: x)
    for axis in (0, 1):
        yield Case(
            ReduceScatterOp,
            f"along axis {axis}",
            lambda x, a=axis: reduce_scatter(x * 2, a),
            (normal(2, 3, 2),),
            doubled,
            derivative=True,
        )
        yield Case(
            AllGatherOp,
            f"along axis {axis}",
            lambda x, a=axis: all_gather(x * 2, a),
            (normal(2, 3, 2),),
            doubled,
            derivative=True,
        )
    yield Case(ReduceScatterOp, "of integers", lambda x: reduce_scatter(x), (i32(3, 1, 2),), lambda x: x)
    yield Case(AllGatherOp, "of booleans", lambda x: all_gather(x > 0), (normal(5),), lambda x: x > 0)
    yield Case(
        CollectiveBroadcastOp, "of floats", lambda x: broadcast_from(x * 2), (normal(4, 3),), doubled, derivative=True
    )
    yield Case(CollectiveBroadcastOp, "of a scalar", lambda x: broadcast_from(x), (f32(2.0).reshape(()),), lambda x: x)
    yield Case(CollectiveBroadcastOp, "of integers", lambda x: broadcast_from(x), (i32(4, 5),), lambda x: x)
