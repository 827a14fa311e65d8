"""Cases of products, sorting and concatenation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from case import Case, NumpyArray, boolean, distinct, f32, i32, integers, normal, u32, uniform

from tensorgrad.dialects.tg import index, reduce, shape, sort
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.ops import creation, joining
from tensorgrad.ops import reduce as reductions
from tensorgrad.ops import shape as shaping
from tensorgrad.ops import sort as sorting
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def prod_cases() -> Iterator[Case]:
    def prod(axes: tuple[int, ...]) -> Callable[..., Tensor]:
        return lambda x: emit(reduce.ProdOp, [x], axes=ints(axes))

    def case(note: str, x: NumpyArray, axes: tuple[int, ...], smooth: bool = False, flat: tuple[int, ...] = ()) -> Case:
        return Case(
            reduce.ProdOp,
            note,
            prod(axes),
            (x,),
            lambda x: np.prod(x, axes, dtype=x.dtype),
            derivative=smooth,
            flat=flat,
            rtol=1e-5,
        )

    for count in range(1, 4):
        for axes in itertools.combinations(range(3), count):
            yield case(f"3d {axes}", normal(2, 3, 2), axes, smooth=True)
    yield case("one", normal(3, 1), (1,), smooth=True)
    yield case("five", normal(2, 5), (1,), smooth=True)
    yield case("none", normal(2, 0), (1,))
    yield case("no rows", normal(0, 3), (1,), smooth=True)
    yield case("a zero", f32(2, 0, 3, 1, 5, 0.5).reshape(2, 3), (1,), smooth=True)
    yield case("two zeros", f32(2, 0, 0, 1, 5, 0.5).reshape(2, 3), (1,), smooth=True)
    yield case("long", uniform(0.9, 1.1, 300), (0,))
    yield case("wide", uniform(-1.5, 1.5, 3, 70), (1,))
    yield case("tall", uniform(-1.5, 1.5, 70, 3), (0,))
    yield case("i32 wraps", integers(-(2**31), 2**31, 4, 3), (0,))
    yield case("u32 wraps", integers(0, 2**32, 4, 3, dtype=np.uint32), (1,))
    yield case("special", f32(np.inf, 0, np.nan, 2, -np.inf, -1).reshape(3, 2), (1,))
    yield Case(reduce.ProdOp, "all", lambda x: reductions.prod(x), (normal(2, 3),), np.prod, derivative=True)
    yield Case(
        reduce.ProdOp,
        "kept",
        lambda x: reductions.prod(x * 2.0, -1, keepdims=True),
        (normal(2, 3),),
        lambda x: np.prod(x * 2, -1, keepdims=True),
        derivative=True,
    )
    yield Case(
        reduce.ProdOp,
        "of booleans",
        lambda x: reductions.prod(x, 0),
        (boolean(1, 0, 1, 1).reshape(2, 2),),
        lambda x: np.prod(x, 0, dtype=np.int32),
    )


def composed_reductions() -> Iterator[Case]:
    flags = boolean(1, 0, 0, 0, 1, 1).reshape(3, 2)
    for x in (flags, f32(0, np.nan, 0, 0, -0.0, 2).reshape(3, 2), i32(0, 5, 0, 0, 1, 1).reshape(3, 2)):
        for axis in (None, 0, 1):
            yield Case(
                reduce.SumOp,
                f"any {x.dtype} {axis}",
                lambda x, a=axis: reductions.any(x, a),
                (x,),
                lambda x, a=axis: np.any(x, a),
            )
            yield Case(
                reduce.SumOp,
                f"all {x.dtype} {axis}",
                lambda x, a=axis: reductions.all(x, a, keepdims=True),
                (x,),
                lambda x, a=axis: np.all(x, a, keepdims=True),
            )
    yield Case(
        reduce.SumOp,
        "any of none",
        lambda x: reductions.any(x, 1),
        (np.zeros((2, 0), np.bool_),),
        lambda x: np.any(x, 1),
    )
    yield Case(
        reduce.SumOp,
        "all of none",
        lambda x: reductions.all(x, 1),
        (np.zeros((2, 0), np.bool_),),
        lambda x: np.all(x, 1),
    )
    for axis in (None, 0, (0, 2)):
        yield Case(
            reduce.SumOp,
            f"var {axis}",
            lambda x, a=axis: reductions.var(x, a),
            (normal(2, 3, 2),),
            lambda x, a=axis: np.var(x, a),
            derivative=True,
            rtol=1e-5,
        )
        yield Case(
            reduce.SumOp,
            f"std {axis}",
            lambda x, a=axis: reductions.std(x, a, 1),
            (normal(2, 3, 2),),
            lambda x, a=axis: np.std(x, a, ddof=1),
            derivative=True,
            rtol=1e-5,
        )
    yield Case(
        reduce.SumOp,
        "var far from zero",
        lambda x: reductions.var(x),
        (normal(50) + np.float32(10000),),
        np.var,
        rtol=1e-3,
    )
    for order in (1, 2, 3, 2.5, 0.5):
        yield Case(
            reduce.SumOp,
            f"norm {order}",
            lambda x, o=order: reductions.norm(x, o, 1),
            (normal(2, 4),),
            lambda x, o=order: np.linalg.norm(x, o, 1),
            derivative=True,
            rtol=1e-5,
        )
    yield Case(
        reduce.SumOp,
        "norm 0",
        lambda x: reductions.norm(x, 0, 1),
        (f32(0, 1, 2, 0, 0, -0.0).reshape(2, 3),),
        lambda x: f32(2, 0),
    )
    yield Case(
        reduce.MaxOp,
        "norm inf",
        lambda x: reductions.norm(x, np.inf, 1),
        (distinct(2, 4),),
        lambda x: np.abs(x).max(1),
        derivative=True,
    )
    yield Case(
        reduce.MinOp,
        "norm -inf",
        lambda x: reductions.norm(x, -np.inf),
        (distinct(2, 4),),
        lambda x: np.abs(x).min(),
        derivative=True,
    )
    ties = f32(1, 3, 3, -2, -2, 0, 0, 0, np.nan, 5, np.nan, 9).reshape(3, 4)
    for x in (
        ties,
        ties[:2],
        i32(4, 4, -(2**31), 2**31 - 1).reshape(2, 2),
        f32(np.inf, -np.inf, np.inf, 0).reshape(2, 2),
        f32(7),
    ):
        for axis in (None, 0, -1):
            yield Case(
                reduce.MaxOp,
                f"argmax {x.dtype} {x.shape} {x.flat[0]} {axis}",
                lambda x, a=axis: reductions.argmax(x, a),
                (x,),
                lambda x, a=axis: np.argmax(x, a).astype(np.int32),
            )
            yield Case(
                reduce.MinOp,
                f"argmin {x.dtype} {x.shape} {x.flat[0]} {axis}",
                lambda x, a=axis: reductions.argmin(x, a, keepdims=True),
                (x,),
                lambda x, a=axis: np.argmin(x, a, keepdims=True).astype(np.int32),
            )
    yield Case(
        reduce.MaxOp,
        "argmax long",
        lambda x: reductions.argmax(x),
        (distinct(500),),
        lambda x: np.argmax(x).astype(np.int32),
    )


def grid_cases() -> Iterator[Case]:
    for indexing in ("xy", "ij"):
        for place in range(3):
            known: Any = indexing  # numpy's types want each name spelled out
            yield Case(
                shape.BroadcastOp,
                f"meshgrid {indexing} {place}",
                lambda *axes, i=known, p=place: joining.meshgrid(*axes, indexing=i)[p] * 2.0,
                (normal(3), normal(4), normal(2)),
                lambda *axes, i=known, p=place: np.meshgrid(*axes, indexing=i)[p] * np.float32(2),
                derivative=True,
                flat=tuple(other for other in range(3) if other != place),
            )
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        yield Case(
            shape.ReshapeOp,
            name,
            lambda x, n=name: getattr(shaping, n)(reductions.sum(x)) * 1.5 + getattr(shaping, n)(x),
            (normal(4),),
            lambda x, n=name: getattr(np, n)(np.sum(x)) * np.float32(1.5) + getattr(np, n)(x),
            derivative=True,
        )


def converted_reductions() -> Iterator[Case]:
    """Returns cases of reductions that convert their operand first."""
    yield Case(
        reduce.SumOp,
        "of integers as f32",
        lambda x: reductions.sum(x, 0, dtype="f32"),
        (integers(0, 2**31, 3, 2),),
        lambda x: np.sum(x, 0, dtype=np.float64).astype(np.float32),
    )
    yield Case(
        reduce.SumOp,
        "mean of f16 in f32",
        lambda x: reductions.mean(x, 1, dtype="f32"),
        (normal(2, 5).astype(np.float16),),
        lambda x: np.mean(x, 1, dtype=np.float32),
    )
    yield Case(
        reduce.ProdOp,
        "of floats as i32",
        lambda x: reductions.prod(x, dtype="i32"),
        (f32(1.9, -2.9, 3.1),),
        lambda x: np.prod(x.astype(np.int32), dtype=np.int32),
    )


def sort_cases() -> Iterator[Case]:
    def positions(x: NumpyArray, descending: bool) -> NumpyArray:
        """Sorted by value, NaN as the largest, then by position, one by one."""
        result = np.zeros(x.shape, np.int32)
        for row in np.ndindex(*x.shape[:-1]):
            keys = [(1, 0.0) if v != v else (0, v.item()) for v in x[row]]
            sign = -1 if descending else 1
            order = sorted(range(len(keys)), key=lambda i, k=keys: (sign * k[i][0], sign * k[i][1], i))
            result[row] = order
        return result

    samples: dict[str, NumpyArray] = {
        "ties": integers(0, 4, 3, 10).astype(np.float32),
        "one": normal(3, 1),
        "two": f32(2, 1),
        "three": f32(2, 1, 1),
        "power": distinct(2, 16),
        "odd": integers(-9, 9, 2, 37).astype(np.float32),
        "long": integers(0, 60, 200).astype(np.float32),
        "rank 3": distinct(2, 1, 5),
        "special": f32(np.nan, 1, -np.inf, np.inf, 0.0, -0.0, np.nan, -1, 1e-30),
        "none": normal(0, 3),
        "empty": normal(2, 0),
        "i32": i32(5, -(2**31), 2**31 - 1, 0, -1, 5),
        "u32": u32(5, 2**31, 2**32 - 1, 0, 5),
        "f64": distinct(7).astype(np.float64),
    }
    for (note, x), descending in itertools.product(samples.items(), (False, True)):
        yield Case(
            sort.ArgsortOp,
            f"{note} {'falling' if descending else 'rising'}",
            lambda x, d=descending: emit(sort.ArgsortOp, [x], descending=integer(int(d))),
            (x,),
            lambda x, d=descending: positions(x, d),
        )
    for axis in (0, 1, None):
        yield Case(
            sort.ArgsortOp,
            f"sort {axis}",
            lambda x, a=axis: sorting.sort(x, a),
            (distinct(3, 4),),
            lambda x, a=axis: np.sort(x, a),
            derivative=True,
            rtol=0,
        )
    yield Case(
        sort.ArgsortOp,
        "sort falling",
        lambda x: sorting.sort(x * 2.0, 0, descending=True),
        (distinct(5, 2),),
        lambda x: -np.sort(-x * 2, 0),
        derivative=True,
    )
    yield Case(
        sort.ArgsortOp,
        "sort special",
        lambda x: sorting.sort(x),
        (f32(np.nan, 1, -np.inf, np.inf, 0.0, np.nan, -1),),
        np.sort,
    )
    yield Case(
        sort.ArgsortOp,
        "argsort of booleans",
        lambda x: sorting.argsort(x, 0),
        (boolean(1, 0, 1, 0).reshape(4, 1),),
        lambda x: np.argsort(x, 0, kind="stable").astype(np.int32),
    )
    yield Case(
        sort.ArgsortOp,
        "median",
        lambda x: sorting.sort(x)[..., 2],
        (distinct(3, 5),),
        lambda x: np.median(x, -1).astype(x.dtype),
        derivative=True,
    )
    yield Case(
        sort.ArgsortOp,
        "top ten",
        lambda x: sorting.top_k(x, 10)[0],
        (distinct(2, 12),),
        lambda x: -np.sort(-x, -1)[:, :10],
        derivative=True,
    )
    yield Case(
        reduce.MaxOp,
        "top three",
        lambda x: sorting.top_k(x, 3)[0],
        (distinct(2, 6),),
        lambda x: -np.sort(-x, -1)[:, :3],
        derivative=True,
    )
    yield Case(
        reduce.MaxOp,
        "positions of the least",
        lambda x: sorting.top_k(x, 2, 0, largest=False)[1],
        (integers(0, 3, 6, 2),),
        lambda x: np.argsort(x, 0, kind="stable").astype(np.int32)[:2],
    )
    yield Case(sort.ArgsortOp, "sort long", lambda x: sorting.sort(x), (integers(-(2**31), 2**31, 300),), np.sort)


def pack_cases() -> Iterator[Case]:
    a, b, empty = normal(2, 3), normal(5, seed=1), normal(0, 2, seed=2)

    def pack(*offsets: int, size: int) -> Callable[..., Tensor]:
        return lambda *xs: emit(shape.PackOp, list(xs), offsets=ints(offsets), size=integer(size))

    def packed(offsets: Sequence[int], size: int) -> Callable[..., NumpyArray]:
        def row(*xs: NumpyArray) -> NumpyArray:
            result = np.zeros(size, xs[0].dtype)
            for x, offset in zip(xs, offsets, strict=True):
                result[offset : offset + x.size] = x.ravel()
            return result

        return row

    # Offsets that are aligned in f16 too.
    both, first = pack(128, 256, size=268), packed((128, 256), 268)
    yield Case(shape.PackOp, "with gaps", both, (a, b), first, rtol=0, derivative=True)
    yield Case(
        shape.PackOp,
        "with an empty one",
        pack(0, 128, 128, size=256),
        (a, empty, b),
        packed((0, 128, 128), 256),
        rtol=0,
        derivative=True,
        flat=(1,),
    )
    yield Case(
        shape.PackOp,
        "in the middle",
        lambda x, y: both(x * 2.0, y)[124:] * 3.0,
        (a, b),
        lambda x, y: first(x * 2, y)[124:] * np.float32(3),
        derivative=True,
    )
    yield Case(
        shape.PackOp,
        "the same twice",
        lambda x: both(x * x, x * x),
        (a,),
        lambda x: first(x * x, x * x),
        derivative=True,
    )
    yield Case(
        shape.PackOp,
        "squares",
        lambda x, y: reductions.sum(both(x.T, y) ** 2),
        (a, b),
        lambda x, y: (x * x).sum() + (y * y).sum(),
        derivative=True,
    )


def concat_cases() -> Iterator[Case]:
    a, b, c = normal(2, 3), normal(2, 1, seed=1), normal(2, 0, seed=2)

    def concat(axis: int) -> Callable[..., Tensor]:
        return lambda *xs: emit(shape.ConcatOp, list(xs), axis=integer(axis))

    def case(
        note: str, ours: Callable[..., Any], inputs: tuple[NumpyArray, ...], theirs: Callable[..., Any], **more: Any
    ) -> Case:
        return Case(shape.ConcatOp, note, ours, inputs, theirs, rtol=0, **more)

    yield case("columns", concat(1), (a, b), lambda *xs: np.concatenate(xs, 1), derivative=True)
    yield case(
        "with an empty one", concat(1), (c, a, c, b), lambda *xs: np.concatenate(xs, 1), derivative=True, flat=(0, 2)
    )
    yield case("of empty ones", concat(1), (c, c), lambda *xs: np.concatenate(xs, 1), derivative=True, flat=(0, 1))
    yield case(
        "no rows",
        concat(1),
        (normal(0, 3), normal(0, 2)),
        lambda *xs: np.concatenate(xs, 1),
        derivative=True,
        flat=(0, 1),
    )
    yield case("twice the same", lambda x: concat(0)(x, x), (a,), lambda x: np.concatenate([x, x]), derivative=True)
    yield case("vectors", concat(0), (f32(1, np.nan), f32(np.inf)), lambda *xs: np.concatenate(xs))
    yield case("one by one", concat(0), (f32(1), f32(2), f32(3)), lambda *xs: np.concatenate(xs), derivative=True)
    yield case("bool", concat(0), (boolean(1, 0), boolean(1)), lambda *xs: np.concatenate(xs))
    yield case("u32", concat(0), (u32(1, 2**32 - 1), u32(3)), lambda *xs: np.concatenate(xs))
    yield case(
        "of views",
        lambda x: concat(0)(shaping.transpose(x), shaping.flip(x[:, :2]).T),
        (normal(3, 3),),
        lambda x: np.concatenate([x.T, x[:, 1::-1][::-1].T]),
        derivative=True,
    )
    yield case(
        "with a splat",
        lambda x: concat(1)(x, creation.ones((2, 2), x.dtype)),
        (a,),
        lambda x: np.concatenate([x, np.ones((2, 2), x.dtype)], 1),
        derivative=True,
    )
    yield Case(
        shape.ConcatOp,
        "in the middle",
        lambda x, y: concat(0)(x * 2.0, y + x) * 3.0,
        (a, normal(2, 3, seed=4)),
        lambda x, y: np.concatenate([x * 2, y + x]) * np.float32(3),
        derivative=True,
    )
    yield Case(
        shape.ConcatOp,
        "summed",
        lambda x, y: reductions.sum(concat(1)(x, y), 1),
        (a, b),
        lambda x, y: np.concatenate([x, y], 1).sum(1),
        derivative=True,
    )
    yield Case(
        shape.ConcatOp,
        "multiplied",
        lambda x, y: concat(1)(x, y) @ concat(0)(y.T, x.T)[:, :1],
        (a, b),
        lambda x, y: np.concatenate([x, y], 1) @ np.concatenate([y.T, x.T])[:, :1],
        derivative=True,
    )
    many = tuple(normal(1 + i % 2, 2, seed=i) for i in range(15))
    yield case("of many", lambda *xs: joining.concat(xs), many, lambda *xs: np.concatenate(xs), derivative=True)
    yield case(
        "flattened",
        lambda x, y: joining.concat([x, y], None),
        (a, b),
        lambda x, y: np.concatenate([x, y], None),
        derivative=True,
    )
    for axis in (0, 1, -1):
        yield case(
            f"stack {axis}",
            lambda x, y, a=axis: joining.stack([x, y, x], a),
            (a, normal(2, 3, seed=5)),
            lambda x, y, a=axis: np.stack([x, y, x], a),
            derivative=True,
        )
    for by, axis in ((1, 0), (-3, 1), (2, None), ((1, 2), (1, 0)), (1, (0, 1))):
        yield case(
            f"roll {by} {axis}",
            lambda x, b=by, a=axis: joining.roll(x, b, a),
            (normal(3, 4),),
            lambda x, b=by, a=axis: np.roll(x, b, a),
            derivative=True,
        )
    modes = ("edge", "reflect", "symmetric", "wrap")
    for mode, width in (*itertools.product(modes, (1, ((0, 2), (1, 0)), ((2, 0), (0, 1)))), ("edge", ((1, 2), (7, 0)))):
        yield case(
            f"pad {mode} {width}",
            lambda x, m=mode, w=width: joining.pad(x, w, m),
            (normal(3, 2),),
            lambda x, m=mode, w=width: padded(x, w, m),
            derivative=True,
        )
    for mode, columns in (
        ("edge", [1, 2, 2, 2]),
        ("reflect", [1, 2, 1, 0]),
        ("symmetric", [1, 2, 2, 1]),
        ("wrap", [1, 2, 1, 2]),
    ):
        yield case(
            f"pad {mode} and crop",
            lambda x, m=mode: joining.pad(x, [(0, 0), (-1, 2)], m),
            (normal(2, 3),),
            lambda x, k=columns: x[:, k],
            derivative=True,
        )


def padded(x: NumpyArray, width: Any, mode: Any) -> NumpyArray:
    """Returns an array padded in one of numpy's modes."""
    return np.pad(x, width, mode)


def joining_cases() -> Iterator[Case]:
    x = normal(2, 3, 4)

    def case(
        op: Any, note: str, ours: Callable[..., Any], theirs: Callable[..., Any], operand: NumpyArray = x, **more: Any
    ) -> Case:
        return Case(op, note, ours, (operand,), theirs, derivative=True, rtol=0, **more)

    for source, destination in ((0, -1), ((0, 1), (2, 0)), (-1, 0)):
        yield case(
            shape.TransposeOp,
            f"moveaxis {source} {destination}",
            lambda x, s=source, d=destination: joining.moveaxis(x, s, d),
            lambda x, s=source, d=destination: np.moveaxis(x, s, d),
        )
    yield case(
        shape.TransposeOp, "permute", lambda x: joining.permute(x, 2, 0, 1), lambda x: np.transpose(x, (2, 0, 1))
    )
    for part in range(3):
        yield case(
            shape.SliceOp,
            f"split {part}",
            lambda x, p=part: joining.split(x, [1, 3], 2)[p],
            lambda x, p=part: np.split(x, [1, 3], 2)[p],
        )
    yield case(shape.SliceOp, "split evenly", lambda x: joining.split(x, 2, -1)[1], lambda x: np.split(x, 2, -1)[1])
    yield case(shape.SliceOp, "narrow", lambda x: joining.narrow(x, 1, -2, 1), lambda x: x[:, 1:2])
    yield case(shape.BroadcastOp, "repeat", lambda x: joining.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1))
    yield case(shape.BroadcastOp, "repeat flat", lambda x: joining.repeat(x, 2), lambda x: np.repeat(x, 2))
    yield case(
        index.TakeOp, "repeat each", lambda x: joining.repeat(x, [2, 0, 1], 1), lambda x: np.repeat(x, [2, 0, 1], 1)
    )
    for repeats in (2, (2, 1, 3), (2, 1, 1, 2)):
        yield case(
            shape.BroadcastOp,
            f"tile {repeats}",
            lambda x, r=repeats: joining.tile(x, r),
            lambda x, r=repeats: np.tile(x, r),
        )
    yield case(
        shape.PadOp,
        "pad by NumPy's widths",
        lambda x: joining.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=7),
        lambda x: np.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=7),
    )
    yield case(
        shape.PadOp,
        "pad and crop",
        lambda x: joining.pad(x, [(0, 1), (-2, 1), (-1, -2)], constant_values=7),
        lambda x: np.pad(x[:, 2:, 1:-2], [(0, 1), (0, 1), (0, 0)], constant_values=7),
    )
    for k in (-5, -1, 0, 2):
        yield case(
            arithmetic.SelectOp,
            f"tril {k}",
            lambda x, k=k: joining.tril(x, k),
            lambda x, k=k: np.tril(x, k),
            flat=(0,) if k == -5 else (),
        )
        yield case(arithmetic.SelectOp, f"triu {k}", lambda x, k=k: joining.triu(x, k), lambda x, k=k: np.triu(x, k))
    for offset, axes in itertools.product((-1, 0, 1), ((0, 1), (2, 1), (-1, 0))):
        yield Case(
            shape.ReshapeOp,
            f"diagonal {offset} {axes}",
            lambda x, o=offset, a=axes: shaping.reshape(joining.diagonal(x, o, *a), (1, -1)),
            (x,),
            lambda x, o=offset, a=axes: np.diagonal(x, o, *a).reshape(1, -1),
            derivative=bool(np.diagonal(x, offset, *axes).size),
            rtol=0,
        )
    yield Case(
        arithmetic.CompareOp,
        "eye",
        lambda x: x * joining.eye(3, 4, 1),
        (normal(3, 4),),
        lambda x: x * np.eye(3, 4, 1, dtype=np.float32),
    )
    yield Case(
        arithmetic.AddOp,
        "linspace",
        lambda x: x + joining.linspace(-1, 2, 5),
        (normal(5),),
        lambda x: x + np.linspace(-1, 2, 5, dtype=np.float32),
    )


def array_cases() -> Iterator[Case]:
    """Returns all cases of this file."""
    yield from prod_cases()
    yield from composed_reductions()
    yield from converted_reductions()
    yield from grid_cases()
    yield from sort_cases()
    yield from pack_cases()
    yield from concat_cases()
    yield from joining_cases()
