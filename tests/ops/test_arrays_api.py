"""Joining, sorting, reducing and indexing: what they reject, and their derivatives in edge cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tensorgrad as tg

X = np.arange(6, dtype=np.float32).reshape(2, 3)
INDICES = np.array([[0, 1]], np.int32)

REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "concat of nothing": (tg.errors.ShapeError, "nothing to join", lambda: tg.concat([])),
    "concat of shapes": (tg.errors.ShapeError, "differ on another axis than 0", lambda: tg.concat([X, X.T])),
    "concat of ranks": (tg.errors.ShapeError, "differ on another axis", lambda: tg.concat([X, X[0]], 0)),
    "concat of scalars": (tg.errors.ShapeError, "out of range for a tensor of 0 axes", lambda: tg.concat([1.0, 2.0])),
    "concat of dtypes": (
        tg.errors.DTypeError,
        "no common type",
        lambda: tg.concat([INDICES, tg.array(INDICES, "u64")]),
    ),
    "stack of shapes": (tg.errors.ShapeError, "stack: shapes", lambda: tg.stack([X, X[0]])),
    "split unevenly": (tg.errors.ShapeError, "does not divide into 2 parts", lambda: tg.split(X, 2, 1)),
    "narrow too far": (tg.errors.ShapeError, "out of range for axis 1", lambda: tg.narrow(X, 1, 2, 2)),
    "roll by too many": (tg.errors.ShapeError, "2 shifts for 1 axes", lambda: tg.roll(X, (1, 2), 0)),
    "negative repeats": (tg.errors.ShapeError, "does not fit", lambda: tg.repeat(X, -1)),
    "repeats of another length": (tg.errors.ShapeError, "does not fit", lambda: tg.repeat(X, [1, 2], 1)),
    "negative tile": (tg.errors.ShapeError, "negative", lambda: tg.tile(X, -1)),
    "pad width": (tg.errors.ShapeError, "widths", lambda: tg.pad(X, [1, 2, 3])),
    "pad by more than nothing is left": (tg.errors.ShapeError, "crop more than axis", lambda: tg.pad(X, (-9, 9))),
    "pad mode": (tg.errors.OptionError, "is not one of constant, edge", lambda: tg.pad(X, 1, "mirror")),
    "reflect more than there is": (tg.errors.ShapeError, "at most 2 elements", lambda: tg.pad(X[0], 3, "reflect")),
    "mirror more than there is": (tg.errors.ShapeError, "at most 3", lambda: tg.pad(X[0], (0, 4), "symmetric")),
    "wrap more than once": (tg.errors.ShapeError, "at most 3 elements", lambda: tg.pad(X[0], (4, 0), "wrap")),
    "arange past i32": (tg.errors.DTypeError, "outside of i32", lambda: tg.arange(2**31 - 1, 2**31 + 2)),
    "arange below u32": (tg.errors.DTypeError, "outside of u32", lambda: tg.arange(-1, 3, dtype="u32")),
    "arange of floats past i32": (tg.errors.DTypeError, "outside", lambda: tg.arange(3e9, 3e9 + 2, 1.0, dtype="i32")),
    "traced arange past i32": (
        tg.errors.DTypeError,
        "outside of i32",
        lambda: tg.trace(lambda x: x + tg.arange(2**31 - 1, 2**31 + 1), (2,)),
    ),
    "linspace past i32": (tg.errors.DTypeError, "outside of i32", lambda: tg.linspace(0, 1e10, 3, dtype="i32")),
    "linspace of NaN": (tg.errors.DTypeError, "not finite", lambda: tg.linspace(0, float("nan"), 3, dtype="i32")),
    "no classes": (tg.errors.OptionError, "positive integer", lambda: tg.one_hot([0, 1], -1)),
    "half a class": (tg.errors.OptionError, "positive integer", lambda: tg.one_hot([0, 1], cast(Any, 2.5))),
    **{
        f"{name} of dtype None": (tg.errors.DTypeError, "None is not a dtype", lambda call=call: call(None))
        for name, call in {
            "cast": lambda dtype: tg.cast(X, dtype),
            "astype": lambda dtype: tg.array(X).astype(dtype),
            "eye": lambda dtype: tg.eye(2, dtype=dtype),
            "linspace": lambda dtype: tg.linspace(0, 1, 3, dtype=dtype),
            "one_hot": lambda dtype: tg.one_hot([0], 2, dtype),
            "spec": lambda dtype: tg.spec(2, dtype),
            "param": lambda dtype: tg.nn.param((2,), 0.0, dtype),
        }.items()
    },
    "a known index": (tg.errors.ShapeError, "index 3 is out of range", lambda: tg.take(X, [0, 3], 1)),
    "a known index of a key": (tg.errors.ShapeError, "index -4 is out of range", lambda: tg.array(X)[[0, 1], [0, -4]]),
    "a known index in a trace": (
        tg.errors.ShapeError,
        "index 2 is out of range",
        lambda: tg.trace(lambda x: x[np.array([0, 2])], (2, 3)),
    ),
    "counted indices": (
        tg.errors.ShapeError,
        "index 2 is out of range",
        lambda: tg.trace(lambda x: x[tg.arange(4), tg.arange(4)], (2, 3)),
    ),
    "a known place": (tg.errors.ShapeError, "index 5 is out of range", lambda: tg.array(X).at[[5]].add(1.0)),
    "a known label": (tg.errors.ShapeError, "index -1 is out of range", lambda: tg.cross_entropy(X, [0, -1])),
    "a row that is not there": (tg.errors.ShapeError, "index 9 is out of range", lambda: tg.embedding(X, [9])),
    "gather along": (tg.errors.ShapeError, "out of range", lambda: tg.take_along_axis(X, np.array([[3]], np.int32), 1)),
    "arrays that don't broadcast": (tg.errors.ShapeError, "broadcast to one", lambda: tg.array(X)[[0, 1], [0, 1, 2]]),
    "a mask of another shape": (tg.errors.ShapeError, "a mask of shape", lambda: tg.array(X)[np.ones((3, 2), bool)]),
    "a mask without axes": (tg.errors.ShapeError, "a mask of shape", lambda: tg.array(X)[np.array(True), 0]),
    "two ellipses": (tg.errors.ShapeError, "more than one", lambda: tg.array(X)[..., 0, ...]),
    "cosine of shapes": (tg.errors.ShapeError, "do not broadcast", lambda: tg.cosine_similarity(X, X.T)),
    "pad an empty axis": (tg.errors.ShapeError, "is empty", lambda: tg.pad(X[:0], 1, "edge")),
    "triangle of a vector": (tg.errors.ShapeError, "two axes or more", lambda: tg.tril(X[0])),
    "diagonal of one axis": (tg.errors.ShapeError, "are the same", lambda: tg.diagonal(X, 0, 1, -1)),
    "permute too few": (tg.errors.ShapeError, "not a permutation", lambda: tg.permute(X, 0)),
    "moveaxis apart": (tg.errors.ShapeError, "different numbers", lambda: tg.moveaxis(X, (0, 1), 0)),
    "eye of less than nothing": (tg.errors.ShapeError, "negative", lambda: tg.eye(-1)),
    "linspace of less than nothing": (tg.errors.ShapeError, "negative", lambda: tg.linspace(0, 1, -1)),
    "argmax of nothing": (tg.errors.ShapeError, "empty", lambda: tg.argmax(X[:0], 0)),
    "sum as booleans": (
        tg.errors.DTypeError,
        "sum: dtype must be one of numbers, got bool",
        lambda: tg.sum(X, dtype=bool),
    ),
    "mean as integers": (
        tg.errors.DTypeError,
        "mean: dtype must be one of floats, got i32",
        lambda: tg.mean(X, dtype="i32"),
    ),
    "grid of another indexing": (tg.errors.OptionError, "not one of xy, ij", lambda: tg.meshgrid(X[0], indexing="yx")),
    "grid of matrices": (tg.errors.ShapeError, "takes vectors", lambda: tg.meshgrid(X)),
    "traced repeats": (
        tg.errors.TraceError,
        "repeat: the numbers of repeats",
        lambda: tg.trace(lambda n: tg.repeat(X, n, 1), tg.spec(3, "i32")),
    ),
    "polygamma of no order": (
        tg.errors.OptionError,
        "polygamma: n must be an integer from 0 to 100, got 1.5",
        lambda: tg.polygamma(cast(Any, 1.5), X),
    ),
    "polygamma of a negative order": (tg.errors.OptionError, "from 0 to 100, got -1", lambda: tg.polygamma(-1, X)),
    "norm of no order": (tg.errors.OptionError, "NaN", lambda: tg.norm(X, float("nan"))),
    "sort a scalar": (tg.errors.ShapeError, "out of range", lambda: tg.sort(np.float32(1))),
    "too many largest": (tg.errors.ShapeError, "does not have 4 elements", lambda: tg.top_k(X, 4)),
    "gather rank": (tg.errors.ShapeError, "do not fit", lambda: tg.gather(X, 1, INDICES[0])),
    "gather too long": (tg.errors.ShapeError, "do not fit", lambda: tg.gather(X, 1, np.zeros((3, 1), np.int32))),
    "gather by floats": (tg.errors.DTypeError, "indices must be integers, got f32", lambda: tg.gather(X, 1, X)),
    "scatter of too few": (
        tg.errors.ShapeError,
        "scatter_add: updates .* do not cover the indices",
        lambda: tg.scatter_add(X, 1, INDICES, X[:, :1]),
    ),
    "scatter of updates without an axis": (
        tg.errors.ShapeError,
        "scatter: updates .* do not cover the indices",
        lambda: tg.scatter(X, 1, INDICES, X[0]),
    ),
    "scatter too long": (
        tg.errors.ShapeError,
        "scatter: .*do not fit",
        lambda: tg.scatter(X, 1, np.zeros((3, 1), np.int32), 1.0),
    ),
    "scatter to a known index": (
        tg.errors.ShapeError,
        "scatter: index 3 is out of range",
        lambda: tg.scatter(X[0], 0, [3], [1.0]),
    ),
    "scatter by floats": (tg.errors.DTypeError, "indices must be integers, got f32", lambda: tg.scatter(X, 1, X, X)),
    "reduce by another name": (
        tg.errors.OptionError,
        "reduce 'median' is not one of sum, prod, mean, amax, amin",
        lambda: tg.scatter_reduce(X, 1, INDICES, 1.0, "median"),
    ),
    "reduce booleans": (
        tg.errors.DTypeError,
        "scatter_reduce: takes numbers, not bool",
        lambda: tg.scatter_reduce(X > 1, 1, INDICES, 1, "sum"),
    ),
    "one-hot of floats": (tg.errors.DTypeError, "indices must be integers, got f32", lambda: tg.one_hot(X, 3)),
    "at too many": (tg.errors.ShapeError, "3 indices", lambda: tg.array(X).at[0, 0, 0]),
    "at values that don't fit": (tg.errors.ShapeError, "broadcast", lambda: tg.array(X).at[0].set(np.ones(2))),
    "at by floats": (tg.errors.DTypeError, "indices must be integers, got f32", lambda: tg.array(X).at[X].add(1.0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    kind, message, call = REFUSED[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "test_arrays_api.py" in str(caught.value)


def gradient(function: Callable[[Any], Any], *values: float) -> list[float]:
    return np.asarray(tg.grad(lambda x: tg.sum(function(x)))(np.array(values, np.float32))).tolist()


def test_derivatives_at_edges() -> None:
    assert gradient(tg.norm, 0, 0) == [0, 0]
    assert gradient(lambda x: tg.norm(x, 3), 0, 0) == [0, 0]
    assert gradient(tg.std, 4, 4, 4) == [0, 0, 0]
    assert gradient(tg.prod, 2, 0, 3) == [0, 6, 0]
    assert gradient(tg.prod, 2, 0, 0) == [0, 0, 0]
    assert gradient(tg.cumprod, 2, 0, 3) == [1, 8, 0]
    assert gradient(lambda x: tg.cummax(x)[0], 1, 5, 5, 2) == [1, 1, 2, 0]
    assert gradient(lambda x: tg.cummin(x)[0], 2, 2, 5) == [1, 2, 0]
    assert gradient(tg.logcumsumexp, -np.inf, -np.inf, 0) == [0, 0, 1]
    for include, slopes in ((True, [0, 1 / 3, 1 / 3, 1 / 3]), (False, [0, 0, 0.5, 0.5])):
        gradients = gradient(lambda x, s=include: tg.scatter_reduce(x[:2], 0, [1, 1], x[2:], "amax", s)[1], 9, 5, 5, 5)
        assert np.allclose(gradients, slopes)
    assert gradient(tg.prod, 3e38, 0) == [0, np.float32(3e38)]
    assert gradient(tg.prod, 0, 1, 1e30, 1e30, 0, 1, 1, 1) == [0] * 8
    assert gradient(tg.prod, 0, 1, 1e30, 1e30) == [np.inf, 0, 0, 0]
    assert gradient(lambda x: tg.top_k(x, 1)[0], 1, 5, 5) == [0, 1, 0]
    assert gradient(lambda x: tg.top_k(x, 0)[0], 1, 5) == [0, 0]


def test_second_derivatives_of_what_is_out_of_range() -> None:
    """A scatter leaves it out, so it has no part in the derivative by the updates."""

    def second(x: Any, updates: Any, indices: Any) -> Any:
        def first(updates: Any) -> Any:
            slopes = tg.grad(lambda x: tg.sum(tg.take_along_axis(x, indices, 0) * updates))(x)
            return tg.sum(slopes * x)

        return tg.grad(first)(updates)

    x, indices = np.array([2, 3, 5], np.float32), np.array([2, 7], np.int32)
    slopes = tg.jit(second, device="numpy")(x, np.ones(2, np.float32), indices)
    assert np.asarray(slopes).tolist() == [5, 0]


def test_second_derivatives_of_a_product_with_zeros() -> None:
    first = tg.grad(lambda x: tg.prod(x))
    hessian_row = tg.grad(lambda x: first(x)[1])(np.array([2, 0, 3], np.float32))
    assert np.asarray(hessian_row).tolist() == [3, 0, 2]


def test_concat_joins_more_tensors_than_a_kernel_binds() -> None:
    module = tg.trace(lambda *parts: tg.concat(parts), *[(2,)] * 40)
    joined = [op for op in module.walk() if op.name == "tg.concat"]
    assert len(joined) == 9
    assert max(len(op.operands) for op in joined) <= 7


def test_changes_store_no_constant_of_the_whole_shape() -> None:
    module = tg.trace(lambda x: x.at[1:50, ::2].set(3.0), (100, 100))
    assert len(str(module)) < 5000
    assert not [
        op for op in module.walk() if op.name == "tg.constant" and "[" in str(op.properties["value"]).split(":")[0]
    ]


def test_methods() -> None:
    x = tg.array(X)
    for name in ("prod", "any", "argmax", "cumsum", "std", "norm"):
        assert getattr(x, name)(axis=1).shape == getattr(tg, name)(X, axis=1).shape
    assert x.sort(0, descending=True).numpy().tolist() == X[::-1].tolist()
    assert x.at[0, 1].add(5.0).numpy()[0, 1] == 6
    assert np.array_equal(x.numpy(), X), "a changed copy leaves the tensor as it was"


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_grids(indexing: Any) -> None:
    x, y, z = (np.arange(n, dtype=np.float32) for n in (3, 4, 2))
    samples: list[tuple[Any, ...]] = [(), (x,), (x, y), (x, y, z), (x, np.float32(2))]
    for axes in samples:
        grids = tg.meshgrid(*axes, indexing=indexing), np.meshgrid(*axes, indexing=indexing)
        for actual, expected in zip(*grids, strict=True):
            assert np.array_equal(actual, expected)


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_axes_at_least(name: str) -> None:
    shapes = [(), (2,), (2, 3), (2, 3, 4), (1, 2, 3, 4)]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    actual, expected = getattr(tg, name)(*arrays), getattr(np, name)(*arrays)
    assert [array.shape for array in actual] == [array.shape for array in expected]
    assert getattr(tg, name)(1.0).shape == getattr(np, name)(1.0).shape


def test_repeats_in_a_tensor() -> None:
    assert tg.repeat([1, 2, 3], tg.array([2, 0, 1])).numpy().tolist() == [1, 1, 3]
    assert tg.repeat([1, 2], np.array(2)).numpy().tolist() == [1, 1, 2, 2]


def test_dtypes_of_reductions() -> None:
    halves = tg.array(np.array([60000, 60000], np.float16))
    assert float(tg.sum(halves, dtype="f32")) == 120_000 and float(halves.mean(dtype="f32")) == 60_000
    assert halves.mean().dtype == tg.f16 and np.isinf(float(halves.sum()))
    assert tg.sum([1, 2], dtype=float).dtype == tg.f32 and tg.prod([1.5, 2.5], dtype="i32").numpy() == 2
    assert tg.cumsum([1.9, 1.9], dtype="i32").numpy().tolist() == [1, 2]
    assert tg.cumprod([True, True], dtype="f32").dtype == tg.f32


def test_statistics_of_too_few() -> None:
    nothing, single, two = np.zeros((0, 2), np.float32), np.ones((1, 2), np.float32), np.array([1, 2], np.float32)
    for function, expected in (
        (lambda: tg.mean(nothing, 0), [np.nan, np.nan]),
        (lambda: tg.var(nothing, 0), [np.nan, np.nan]),
        (lambda: tg.std(nothing, 0), [np.nan, np.nan]),
        (lambda: tg.var(single, 0, correction=1), [np.nan, np.nan]),
        (lambda: tg.std(two, correction=3), np.inf),
        (lambda: tg.jit(lambda x: tg.mean(x, 0), device="wgpu")(nothing), [np.nan, np.nan]),
        (lambda: tg.jit(lambda x: tg.var(x, 0, 1), device="wgpu")(single), [np.nan, np.nan]),
    ):
        with pytest.warns(tg.errors.EmptyAxisWarning, match="the result is not finite") as caught:
            assert np.array_equal(function(), expected, equal_nan=True)
        assert [Path(warning.filename).name for warning in caught] == ["test_arrays_api.py"]
        assert "test_arrays_api.py" in str(caught[0].message)
