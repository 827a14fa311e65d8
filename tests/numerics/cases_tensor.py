"""Cases of ops without operands, and of those that rearrange, reduce and contract tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from case import Case, NumpyArray, boolean, distinct, f32, i32, integers, normal, u32

from tensorgrad.dialects.tg import contract, leaves, reduce, shape
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, TensorOp, integer, ints
from tensorgrad.ops import creation
from tensorgrad.ops import reduce as reductions
from tensorgrad.ops import shape as shaping
from tensorgrad.ops.promotion import broadcast_to
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


def leaf_cases() -> Iterator[Case]:
    values: dict[str, NumpyArray] = {
        "f32": f32(0.0, -0.0, np.nan, np.inf, -np.inf, 0.1, 3e38),
        "f64": np.array([0.1, np.nan, -np.inf, 1e300]),
        "i32": i32(-(2**31), 2**31 - 1, 0),
        "u32": u32(0, 2**32 - 1),
        "bool": boolean(1, 0, 1),
        "f32 matrix": normal(5, 7),
        "f32 splat": np.full((3, 2), -0.0, np.float32),
        "f32 scalar": np.array(0.1, np.float32),
        "f32 one": f32(0.1),
        "i32 empty": np.zeros((2, 0), np.int32),
        "f32 empty": np.zeros((0,), np.float32),
        "bool splat": np.ones((4,), np.bool_),
        "u32 large splat": np.full((3,), 2**32 - 1, np.uint32),
    }
    for note, value in values.items():
        yield Case(leaves.ConstantOp, note, lambda v=value: Array(v), (), lambda v=value: v, rtol=0)
    yield Case(
        leaves.ConstantOp,
        "beside an input",
        lambda x: x * Array(f32(1, -2, 3)) + Array(f32(0.5, 0.5, 0.5)),
        (normal(2, 3),),
        lambda x: x * f32(1, -2, 3) + np.float32(0.5),
        derivative=True,
    )
    yield Case(
        leaves.ConstantOp,
        "folded with another",
        lambda x: x * (Array(f32(1, -2, 3)) * Array(f32(2, 2, 4))),
        (normal(2, 3),),
        lambda x: x * f32(2, -4, 12),
        derivative=True,
    )
    dtypes = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32}
    for (extents, axis), (name, dtype) in itertools.product(
        [((5,), 0), ((2, 3), 1), ((3, 1, 2), 0), ((0,), 0), ((2, 1), 1)], dtypes.items()
    ):
        yield Case(
            leaves.IotaOp,
            f"{name} {extents} {axis}",
            lambda e=extents, a=axis, d=dtype: emit(
                leaves.IotaOp, [], shape=ints(e), axis=integer(a), element=ELEMENT_TYPES[np.dtype(d)]
            ),
            (),
            lambda e=extents, a=axis, d=dtype: np.indices(e)[a].astype(d),
            rtol=0,
        )
    expected = np.arange(3, -9, -4).astype(np.int32)
    yield Case(leaves.IotaOp, "arange", lambda: creation.arange(3, -9, -4), (), lambda: expected)
    yield Case(
        leaves.IotaOp,
        "positions",
        lambda x: x * shaping.positions((2, 3), 0, np.dtype(np.float32)),
        (normal(2, 3),),
        lambda x: x * f32(0, 1).reshape(2, 1),
    )
    yield Case(
        leaves.IotaOp, "compared", lambda x: creation.arange(4) < x, (i32(2, 0, 9, 3),), lambda x: np.arange(4) < x
    )


def moved(
    op: type[TensorOp], note: str, ours: Callable[..., Any], x: NumpyArray, theirs: Callable[..., Any]
) -> Iterator[Case]:
    """Returns a case in f32, one in i32, and one of two rearrangements in a row."""
    smooth = bool(x.size)
    yield Case(op, note, ours, (x,), theirs, derivative=smooth, rtol=0)
    yield Case(op, f"{note} i32", ours, ((x * 1000).astype(np.int32),), theirs)
    yield Case(
        op,
        f"{note} computed",
        lambda x: ours(x * 3.0) * 0.5,
        (x,),
        lambda x: theirs(x * np.float32(3)) * np.float32(0.5),
        derivative=smooth,
    )


def shape_cases() -> Iterator[Case]:
    reshapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), (1, 1)),
        ((1,), ()),
        ((6,), (2, 3)),
        ((2, 3), (3, 2)),
        ((4, 6), (2, 2, 3, 2)),
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (4, 3, 2)),
        ((1, 5, 1), (5,)),
        ((0, 3), (3, 0, 2)),
        ((2, 1, 3, 2), (12,)),
    ]
    for old, new in reshapes:
        yield from moved(
            shape.ReshapeOp,
            f"{old} to {new}",
            lambda x, n=new: shaping.reshape(x, n),
            normal(*old),
            lambda x, n=new: np.reshape(x, n),
        )
    yield Case(
        shape.ReshapeOp,
        "of a transpose",
        lambda x: shaping.reshape(shaping.transpose(x), (2, 6)),
        (normal(3, 4),),
        lambda x: x.T.reshape(2, 6),
        derivative=True,
        rtol=0,
    )
    yield Case(
        shape.ReshapeOp,
        "chain",
        lambda x: shaping.reshape(shaping.transpose(shaping.reshape(shaping.flip(x, 0), (2, 3, 4)), (2, 0, 1)), (6, 4)),
        (normal(6, 4),),
        lambda x: np.flip(x, 0).reshape(2, 3, 4).transpose(2, 0, 1).reshape(6, 4),
        derivative=True,
        rtol=0,
    )
    yield Case(
        shape.ReshapeOp, "bool", lambda x: shaping.reshape(x, (2, 2)), (boolean(1, 0, 0, 1),), lambda x: x.reshape(2, 2)
    )
    for order in itertools.permutations(range(3)):
        if order != (0, 1, 2):
            yield from moved(
                shape.TransposeOp,
                str(order),
                lambda x, o=order: shaping.transpose(x, o),
                normal(2, 3, 4),
                lambda x, o=order: np.transpose(x, o),
            )
    yield from moved(
        shape.TransposeOp,
        "rank 4",
        lambda x: shaping.transpose(x, (2, 0, 3, 1)),
        normal(2, 1, 3, 2),
        lambda x: np.transpose(x, (2, 0, 3, 1)),
    )
    yield from moved(shape.TransposeOp, "empty", shaping.transpose, normal(0, 3), np.transpose)
    broadcasts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), (2, 3)),
        ((3,), (2, 3)),
        ((2, 1), (2, 3)),
        ((1, 3, 1), (2, 4, 3, 5)),
        ((1,), (1, 1)),
        ((1,), (0,)),
        ((1, 0), (3, 0)),
    ]
    for old, new in broadcasts:
        yield from moved(
            shape.BroadcastOp,
            f"{old} to {new}",
            lambda x, n=new: broadcast_to(x, n),
            normal(*old),
            lambda x, n=new: np.broadcast_to(x, n),
        )
    yield Case(
        shape.BroadcastOp,
        "inner axis",
        lambda x: emit(shape.BroadcastOp, [x], shape=ints([2, 3, 4]), dims=ints([0, 2])),
        (normal(2, 4),),
        lambda x: np.repeat(x[:, None, :], 3, 1),
        derivative=True,
        rtol=0,
    )
    keys: dict[str, Any] = {
        "first rows": slice(2),
        "first columns": (slice(None), slice(3)),
        "first of both": (slice(3), slice(1, 3)),
        "steps": (slice(None, None, 2), slice(1, 4)),
        "step past the end": (slice(1, 4, 4), slice(0, 5, 3)),
        "backwards": (slice(None, None, -1), slice(4, 0, -2)),
        "integers": (2, slice(-2, None)),
        "new axes": (None, slice(1, 3), None, -1),
        "empty": (slice(2, 2), slice(None)),
        "dots": (Ellipsis, 0),
        "one element": (1, 3),
    }
    for note, key in keys.items():
        yield from moved(
            shape.ReverseOp if note == "backwards" else shape.SliceOp,
            note,
            lambda x, k=key: x[k],
            normal(4, 5),
            lambda x, k=key: x[k],
        )
    yield from moved(shape.SliceOp, "of a slice", lambda x: x[1:9:2][1:3], normal(9), lambda x: x[1:9:2][1:3])
    yield from moved(
        shape.SliceOp, "rank 4", lambda x: x[:, :, 1:, ::2], normal(2, 1, 3, 3), lambda x: x[:, :, 1:, ::2]
    )
    yield Case(
        shape.SliceOp, "halves", lambda x: x[:3] * x[3:], (normal(6, 2),), lambda x: x[:3] * x[3:], derivative=True
    )
    yield Case(
        shape.SliceOp,
        "first rows summed",
        lambda x: reductions.sum(x[:3], 0),
        (normal(5, 2),),
        lambda x: x[:3].sum(0),
        derivative=True,
    )
    yield Case(
        shape.SliceOp,
        "first rows multiplied",
        lambda x, y: x[:2] @ y[:, :3],
        (normal(3, 2), normal(2, 4)),
        lambda x, y: x[:2] @ y[:, :3],
        derivative=True,
    )
    for axes in ((0,), (1,), (0, 1), ()):
        yield from moved(
            shape.ReverseOp,
            str(axes),
            lambda x, a=axes: emit(shape.ReverseOp, [x], axes=ints(a)),
            normal(3, 4),
            lambda x, a=axes: np.flip(x, a),
        )
    yield from moved(shape.ReverseOp, "scalar", shaping.flip, normal(), lambda x: x)
    yield from moved(shape.ReverseOp, "empty", shaping.flip, normal(2, 0), lambda x: x)
    yield Case(
        shape.ReverseOp,
        "plus itself",
        lambda x: x + shaping.flip(x),
        (normal(5),),
        lambda x: x + x[::-1],
        derivative=True,
    )
    yield Case(
        shape.ReverseOp,
        "summed",
        lambda x: reductions.sum(shaping.flip(x, 1), 1),
        (normal(3, 4),),
        lambda x: x.sum(1),
        derivative=True,
    )


def dilated(
    x: NumpyArray, value: NumpyArray, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> NumpyArray:
    """Pads element by element."""
    extents = [a + n + max(n - 1, 0) * i + b for a, n, i, b in zip(low, x.shape, interior, high, strict=True)]
    result = np.full(extents, value, x.dtype)
    for place in np.ndindex(*x.shape):
        result[tuple(a + p * (i + 1) for a, p, i in zip(low, place, interior, strict=True))] = x[place]
    return result


def pad_cases() -> Iterator[Case]:
    paddings: list[tuple[str, tuple[int, ...], list[int], list[int], list[int]]] = [
        ("scalar", (), [], [], []),
        ("both ends", (4,), [1], [2], [0]),
        ("interior", (4,), [0], [0], [2]),
        ("interior of one", (1,), [2], [0], [3]),
        ("all", (3, 2), [1, 0], [0, 2], [1, 2]),
        ("nothing", (3, 2), [0, 0], [0, 0], [0, 0]),
        ("empty operand", (0,), [2], [1], [1]),
        ("empty axis", (2, 0), [0, 1], [1, 1], [0, 0]),
        ("empty result", (0, 2), [0, 1], [0, 1], [5, 0]),
        ("rank 4", (2, 1, 3, 2), [0, 1, 0, 2], [1, 0, 0, 0], [0, 2, 1, 0]),
    ]
    for note, extents, low, high, interior in paddings:

        def ours(
            x: Tensor, v: Tensor, a: Sequence[int] = low, b: Sequence[int] = high, i: Sequence[int] = interior
        ) -> Tensor:
            return emit(shape.PadOp, [x, v], low=ints(a), high=ints(b), interior=ints(i))

        def theirs(
            x: NumpyArray, v: NumpyArray, a: Sequence[int] = low, b: Sequence[int] = high, i: Sequence[int] = interior
        ) -> NumpyArray:
            return dilated(x, v, a, b, i)

        full = dilated(normal(*extents), np.array(0), low, high, interior).size == int(np.prod(extents))
        yield Case(
            shape.PadOp,
            note,
            ours,
            (normal(*extents), normal(seed=4)),
            theirs,
            derivative=True,
            rtol=0,
            flat=(1,) if full else (),
        )
        yield Case(
            shape.PadOp,
            f"{note} computed",
            lambda x, v, f=ours: f(x * 2.0, v + 1.0) * 0.5,
            (normal(*extents), normal(seed=4)),
            lambda x, v, f=theirs: f(x * np.float32(2), v + np.float32(1)) * np.float32(0.5),
            derivative=True,
            flat=(1,) if full else (),
        )
        yield Case(shape.PadOp, f"{note} i32", ours, (integers(-9, 9, *extents), np.array(-5, np.int32)), theirs)
    yield Case(
        shape.PadOp,
        "of a slice",
        lambda x, v: emit(shape.PadOp, [x[1:, ::2], v], low=ints([1, 0]), high=ints([0, 0]), interior=ints([0, 1])),
        (normal(3, 5), normal(seed=4)),
        lambda x, v: dilated(x[1:, ::2], v, [1, 0], [0, 0], [0, 1]),
        derivative=True,
    )
    yield Case(
        shape.PadOp,
        "NaN",
        lambda x, v: emit(shape.PadOp, [x, v], low=ints([1]), high=ints([1]), interior=ints([0])),
        (f32(np.inf, np.nan), np.array(np.nan, np.float32)),
        lambda x, v: dilated(x, v, [1], [1], [0]),
    )
    yield Case(
        shape.PadOp,
        "bool",
        lambda x, v: emit(shape.PadOp, [x, v], low=ints([1]), high=ints([0]), interior=ints([1])),
        (boolean(0, 1), np.array(True)),
        lambda x, v: dilated(x, v, [1], [0], [1]),
    )


def _sum(x: NumpyArray, axes: tuple[int, ...]) -> NumpyArray:
    wide = x.astype(np.float64 if x.dtype.kind == "f" else object)
    total = np.asarray(wide.sum(axes) if axes else wide)
    if x.dtype.kind == "f":
        return total.astype(x.dtype)
    return np.array([int(v) & 0xFFFFFFFF for v in total.reshape(-1)], np.uint32).view(x.dtype).reshape(total.shape)


REDUCTIONS: dict[type[reduce.ReduceOp], tuple[Callable[..., Any], Callable[..., Any]]] = {
    reduce.SumOp: (reductions.sum, _sum),
    reduce.MaxOp: (reductions.max, lambda x, axes: np.amax(x, axes)),
    reduce.MinOp: (reductions.min, lambda x, axes: -np.amax(-x, axes) if x.dtype.kind == "f" else np.amin(x, axes)),
}


def reduced(
    op: type[reduce.ReduceOp], note: str, x: NumpyArray, axes: tuple[int, ...], smooth: bool = False, keep: bool = False
) -> Case:
    """Returns a case of one reduction; the API never passes the op an empty list of axes."""
    ours, theirs = REDUCTIONS[op]

    def expected(x: NumpyArray) -> NumpyArray:
        result = theirs(x, axes)
        return np.expand_dims(result, axes) if keep else result

    def function(x: Tensor) -> Tensor:
        return ours(x, axes, keep) if axes else emit(op, [x], axes=ints(axes))

    return Case(op, note, function, (x,), expected, derivative=smooth, rtol=3e-6)


def reduce_cases() -> Iterator[Case]:
    for op, (ours, theirs) in REDUCTIONS.items():
        case = functools.partial(reduced, op)
        for count in range(4):
            for axes in itertools.combinations(range(3), count):
                yield case(f"3d {axes}", distinct(2, 3, 4), axes, smooth=True)
        yield case("4d", distinct(2, 1, 3, 2), (1, 3), smooth=True)
        yield case("kept", distinct(2, 3, 2), (0, 2), smooth=True, keep=True)
        yield case("scalar", distinct(), (), smooth=True)
        yield case("extent 1", distinct(1, 3, 1), (0, 2), smooth=True)
        yield case("long", distinct(300), (0,))
        yield case("wide", distinct(3, 130), (1,))
        yield case("tall", distinct(130, 3), (0,))
        yield case("no rows", distinct(0, 3), (1,), smooth=True)
        yield case("infinities", f32(np.inf, 1, -np.inf, 2).reshape(2, 2), (1,))
        yield case("infinite together", f32(np.inf, 1, -np.inf, 2), (0,))
        yield case("NaN", f32(1, np.nan, 2, 3).reshape(2, 2), (0,))
        yield case("all infinite", f32(-np.inf, -np.inf), (0,))
        yield case("i32", i32(-(2**31), 2**31 - 1, 5, -1, 2**31 - 1, 7).reshape(3, 2), (0,))
        yield case("u32", u32(0, 2**32 - 1, 5, 2**31, 3, 2**31).reshape(3, 2), (0,))
        yield case("u32 all", u32(0, 2**32 - 1, 5, 2**31, 3, 2**31).reshape(3, 2), (0, 1))
        yield case("f64", distinct(3, 5).astype(np.float64), (0,))
        yield Case(
            op,
            "of a broadcast",
            lambda x, f=ours: f(broadcast_to(x, (3, 4)), (0,)),
            (distinct(4),),
            lambda x, f=theirs: f(np.broadcast_to(x, (3, 4)), (0,)),
            derivative=True,
        )
        yield Case(
            op,
            "of a transpose",
            lambda x, f=ours: f(shaping.transpose(x), (0,)),
            (distinct(3, 4),),
            lambda x, f=theirs: f(x.T, (0,)),
            derivative=True,
        )
        yield Case(
            op,
            "of a reshape",
            lambda x, f=ours: f(shaping.reshape(x, (3, 4)), (1,)),
            (distinct(2, 6),),
            lambda x, f=theirs: f(x.reshape(3, 4), (1,)),
            derivative=True,
        )
        yield Case(
            op,
            "of a reduction",
            lambda x, f=ours: f(f(x, 1) * 2.0, 0),
            (distinct(3, 4),),
            lambda x, f=theirs: f(f(x, (1,)) * np.float32(2), (0,)),
            derivative=True,
        )
    empty = np.zeros((2, 0), np.float32)
    yield Case(
        reduce.SumOp, "empty axis", lambda x: reductions.sum(x, 1), (empty,), lambda x: x.sum(1), derivative=True
    )
    yield Case(
        reduce.SumOp, "empty to scalar", lambda x: reductions.sum(x), (empty,), lambda x: np.float32(0), derivative=True
    )
    yield Case(
        reduce.SumOp, "empty i32", lambda x: reductions.sum(x, 0), (np.zeros((0, 3), np.int32),), lambda x: i32(0, 0, 0)
    )
    yield Case(reduce.SumOp, "bool", lambda x: reductions.sum(x), (boolean(1, 0, 1),), lambda x: np.int32(2))
    yield Case(
        reduce.SumOp, "mean", lambda x: reductions.mean(x, 0), (normal(3, 4),), lambda x: np.mean(x, 0), derivative=True
    )
    yield from normalizing_cases()
    yield from empty_normalizing_cases()


def empty_normalizing_cases() -> Iterator[Case]:
    """`softmax` of no elements is empty, and the sum of their exponentials is 0."""
    empty = np.zeros((2, 0, 3), np.float32)
    for name in ("softmax", "log_softmax"):
        function = getattr(reductions, name)
        yield Case(reduce.SumOp, f"{name} of none", lambda x, f=function: f(x, 1), (empty,), lambda x: x)
    infinite = np.full((2, 3), -np.inf, np.float32)
    yield Case(reduce.SumOp, "logsumexp of none", lambda x: reductions.logsumexp(x, 1), (empty,), lambda x: infinite)


def normalizing_cases() -> Iterator[Case]:
    def softmax(x: NumpyArray, axis: int) -> NumpyArray:
        powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        return (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)

    for axis in (0, 1, -1):
        yield Case(
            reduce.MaxOp,
            f"softmax {axis}",
            lambda x, a=axis: reductions.softmax(x, a),
            (distinct(3, 4),),
            lambda x, a=axis: softmax(x, a),
            derivative=True,
        )
        yield Case(
            reduce.MaxOp,
            f"log softmax {axis}",
            lambda x, a=axis: reductions.log_softmax(x, a),
            (distinct(3, 4),),
            lambda x, a=axis: np.log(softmax(x.astype(np.float64), a)).astype(x.dtype),
            derivative=True,
        )
    yield Case(
        reduce.MaxOp,
        "logsumexp",
        lambda x: reductions.logsumexp(x, (0, 2)),
        (distinct(2, 3, 2),),
        lambda x: np.log(np.exp(x.astype(np.float64)).sum((0, 2))).astype(x.dtype),
        derivative=True,
    )


def contract_cases() -> Iterator[Case]:
    shapes = [
        ((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (2, 4, 3)), ((1, 1), (1, 1)), ((3, 1), (1, 2)),
        ((0, 4), (4, 2)), ((2, 0), (0, 3)), ((0,), (0,)), ((2, 3, 0), (2, 0, 2)),
    ]  # fmt: skip
    for a, b in shapes:
        flat = (0, 1) if 0 in a else ()
        yield Case(
            contract.DotGeneralOp,
            f"{a} @ {b}",
            reductions.matmul,
            (normal(*a), normal(*b, seed=1)),
            lambda x, y: x @ y,
            derivative=True,
            flat=flat,
        )
    for a, b in (((17, 33), (33, 9)), ((70, 5), (5, 66)), ((2, 16, 16), (2, 16, 16)), ((1, 65), (65, 1))):
        yield Case(
            contract.DotGeneralOp, f"{a} @ {b}", reductions.matmul, (normal(*a), normal(*b, seed=1)), lambda x, y: x @ y
        )
    yield Case(
        contract.DotGeneralOp, "square of a matrix", lambda x: x @ x, (normal(3, 3),), lambda x: x @ x, derivative=True
    )
    yield Case(contract.DotGeneralOp, "gram", lambda x: x @ x.T, (normal(2, 3),), lambda x: x @ x.T, derivative=True)
    yield Case(
        contract.DotGeneralOp,
        "both transposed",
        lambda x, y: x.T @ y.T,
        (normal(4, 3), normal(2, 4)),
        lambda x, y: x.T @ y.T,
        derivative=True,
    )
    yield Case(
        contract.DotGeneralOp,
        "bias and activation",
        lambda x, w, b: (x @ w + b).tanh(),
        (normal(3, 4), normal(4, 2), normal(2)),
        lambda x, w, b: np.tanh(x @ w + b),
        derivative=True,
    )
    yield Case(
        contract.DotGeneralOp,
        "i32",
        reductions.matmul,
        (integers(-9, 9, 2, 3), integers(-9, 9, 3, 2)),
        lambda x, y: x @ y,
    )
    yield Case(
        contract.DotGeneralOp,
        "u32 wraps",
        reductions.matmul,
        (integers(2**30, 2**32, 2, 3, dtype=np.uint32), integers(0, 2**32, 3, 2, dtype=np.uint32)),
        lambda x, y: x @ y,
    )
    yield Case(
        contract.DotGeneralOp,
        "special",
        reductions.matmul,
        (f32(np.inf, 1, np.nan, 0).reshape(2, 2), f32(1, 0).reshape(2, 1)),
        lambda x, y: np.array([[np.inf], [np.nan]], np.float32),
    )
    general: list[
        tuple[str, tuple[int, ...], tuple[int, ...], tuple[list[int], list[int]], tuple[list[int], list[int]], str]
    ] = [
        ("outer", (2,), (3,), ([], []), ([], []), "a,b->ab"),
        ("scalars", (), (), ([], []), ([], []), ",->"),
        ("scalar left", (), (2, 3), ([], []), ([], []), ",ab->ab"),
        ("batch behind", (3, 4, 2), (4, 5, 2), ([2], [2]), ([1], [0]), "ikb,kjb->bij"),
        ("two batches crossed", (2, 3, 4), (3, 4, 2), ([0, 1], [2, 0]), ([2], [1]), "abk,bka->ab"),
        ("two contracted crossed", (2, 3, 4), (4, 5, 3), ([], []), ([1, 2], [2, 0]), "ikl,ljk->ij"),
        ("three contracted", (2, 3, 2), (3, 2, 2), ([], []), ([0, 1, 2], [2, 0, 1]), "abc,bca->"),
        ("batch only", (2, 3), (3, 2), ([0, 1], [1, 0]), ([], []), "ab,ba->ab"),
        ("all kinds", (2, 5, 3, 2), (3, 2, 2, 4), ([0], [1]), ([2], [0]), "bikf,kbgj->bifgj"),
    ]
    for note, a, b, batch, contracting, letters in general:
        yield Case(
            contract.DotGeneralOp,
            note,
            lambda x, y, p=batch, c=contracting: emit(
                contract.DotGeneralOp,
                [x, y],
                lhs_batch=ints(p[0]),
                rhs_batch=ints(p[1]),
                lhs_contracting=ints(c[0]),
                rhs_contracting=ints(c[1]),
            ),
            (normal(*a), normal(*b, seed=1)),
            lambda x, y, e=letters: np.einsum(e, x, y),
            derivative=True,
        )


def tensor_cases() -> Iterator[Case]:
    """Returns all cases of ops without operands, and of those that rearrange, reduce and contract."""
    yield from leaf_cases()
    yield from shape_cases()
    yield from pad_cases()
    yield from reduce_cases()
    yield from contract_cases()
