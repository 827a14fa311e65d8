"""Pooling compared with PyTorch's: indices, unpooling, divisors, adaptive pooling, layers, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import tensorgrad as tg

untyped: Any = tg
"""The package as code without types calls it."""


def images(*extents: int) -> np.ndarray:
    """Returns images of two channels, with distinct elements."""
    shape = (2, 2, *extents)
    return np.random.default_rng([*extents]).permutation(int(np.prod(shape))).reshape(shape) / 7.0


def compare(x: np.ndarray, ours: Callable[[Any], Any], theirs: Callable[[Any], Any]) -> None:
    """Compares values and gradients in f64."""
    tensor = torch.tensor(x, requires_grad=True)
    expected = theirs(tensor)
    cotangent = np.random.default_rng(1).normal(size=tuple(expected.shape))
    expected.backward(torch.tensor(cotangent))
    assert tensor.grad is not None
    np.testing.assert_allclose(np.asarray(ours(tg.array(x, "f64"))), expected.detach().numpy(), rtol=1e-13)
    gradient = tg.grad(lambda v: tg.sum(ours(v) * tg.array(cotangent, "f64")))(tg.array(x, "f64"))
    np.testing.assert_allclose(np.asarray(gradient), tensor.grad.numpy(), rtol=1e-12, atol=1e-14)


POOLS: dict[int, tuple[Any, Any, Any, Any]] = {
    1: (functional.max_pool1d, functional.max_unpool1d, functional.avg_pool1d, (9,)),
    2: (functional.max_pool2d, functional.max_unpool2d, functional.avg_pool2d, (7, 8)),
    3: (functional.max_pool3d, functional.max_unpool3d, functional.avg_pool3d, (5, 6, 4)),
}
"""PyTorch's functions for a number of axes, and extents."""

SETTINGS: list[dict[str, Any]] = [
    {"size": 2},
    {"size": 3, "stride": 2, "padding": 1},
    {"size": 3, "stride": 1},
    {"size": 2, "stride": 3, "ceil_mode": True},
    {"size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
]


def foreign(settings: dict[str, Any]) -> dict[str, Any]:
    return {"kernel_size" if name == "size" else name: value for name, value in settings.items()}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("count", POOLS)
@pytest.mark.parametrize("settings", [*SETTINGS, {"size": 2, "stride": 2, "dilation": 2, "padding": 1}], ids=str)
def test_indices_as_pytorch(count: int, settings: dict[str, Any]) -> None:
    pool, _, _, extents = POOLS[count]
    x = images(*extents)
    top, places = tg.max_pool(tg.array(x, "f64"), **settings, return_indices=True)
    expected, indices = pool(torch.tensor(x), **foreign(settings), return_indices=True)
    np.testing.assert_array_equal(np.asarray(top), expected.numpy())
    np.testing.assert_array_equal(np.asarray(places), indices.numpy())
    assert places.dtype == np.int32
    compare(x, lambda v: tg.max_pool(v, **settings, return_indices=True)[0], lambda v: pool(v, **foreign(settings)))


def test_indices_of_equals_and_of_padding() -> None:
    lowest = np.full((1, 1, 3, 3), -np.inf)
    for x in (lowest, np.zeros((1, 1, 3, 3))):
        _, places = tg.max_pool(x, 2, 1, 1, return_indices=True)
        _, expected = functional.max_pool2d(torch.tensor(x), 2, 1, 1, return_indices=True)
        np.testing.assert_array_equal(np.asarray(places), expected.numpy())
    least = np.full(4, np.iinfo(np.int32).min, np.int32)
    np.testing.assert_array_equal(np.asarray(tg.max_pool(least, [2], 2, 1, return_indices=True)[1]), [0, 1, 3])
    nans = np.array([1, np.nan, np.nan, 5], np.float32)
    np.testing.assert_array_equal(np.asarray(tg.max_pool(nans, [4], return_indices=True)[1]), [1])


@pytest.mark.parametrize("count", POOLS)
def test_unpooling_as_pytorch(count: int) -> None:
    pool, unpool, _, extents = POOLS[count]
    x = images(*extents)
    for settings in ({"size": 2}, {"size": 3, "stride": 3, "padding": 1}):
        top, indices = pool(torch.tensor(x), **foreign(settings), return_indices=True)
        compare(
            top.numpy(),
            lambda v, s=settings, i=indices: tg.max_unpool(v, i.int().numpy(), **s, output_size=extents),
            lambda v, s=settings, i=indices: unpool(v, i, **foreign(s), output_size=extents),
        )
        expected = unpool(top, indices * 0, **foreign(settings))
        assert tg.max_unpool(top.numpy(), indices.int().numpy() * 0, **settings).shape == tuple(expected.shape)
    assert tg.max_unpool(np.ones((1, 1, 2)), np.zeros((1, 1, 2), np.int32), 2, output_size=(1, 1, 5)).shape == (1, 1, 5)


def test_the_last_of_equal_indices_wins() -> None:
    x, places = np.array([1.0, 2.0, 3.0]), np.array([2, 2, 0], np.int32)
    np.testing.assert_array_equal(np.asarray(tg.max_unpool(x, places, [2], 1)), [3, 0, 2, 0])
    gradient = tg.grad(lambda v: tg.sum(tg.max_unpool(v, places, [2], 1) ** 2))(x)
    np.testing.assert_array_equal(np.asarray(gradient), [0, 4, 6])


def test_unpooling_in_a_program() -> None:
    """Indices known only at run time; those out of range are dropped."""
    unpool = tg.jit(lambda x, places: tg.max_unpool(x, places, [2]), device="numpy")
    unpooled = unpool(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([[1, 4], [-1, 3]], np.int32))
    np.testing.assert_array_equal(np.asarray(unpooled), [[0, 1, 0, 0], [0, 0, 0, 4]])


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("count", POOLS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_averages_as_pytorch(count: int, settings: dict[str, Any]) -> None:
    _, _, pool, extents = POOLS[count]
    for counted in (True, False):
        compare(
            images(*extents),
            lambda x, c=counted: untyped.avg_pool(x, **foreign(settings), count_include_pad=c),
            lambda x, c=counted: pool(x, **foreign(settings), count_include_pad=c),
        )
    if count > 1:
        compare(
            images(*extents),
            lambda x: tg.avg_pool(x, **settings, divisor_override=5),
            lambda x: pool(x, **foreign(settings), divisor_override=5),
        )


ADAPTIVE: dict[int, tuple[Any, Any, Any, list[Any]]] = {
    1: (functional.adaptive_avg_pool1d, functional.adaptive_max_pool1d, (10,), [1, 3, 4, 5, 7, 10, 12]),
    2: (
        functional.adaptive_avg_pool2d,
        functional.adaptive_max_pool2d,
        (7, 12),
        [1, 4, (7, 5), (None, 3), (2, None), (9, 13), (3, 8)],
    ),
    3: (functional.adaptive_avg_pool3d, functional.adaptive_max_pool3d, (3, 4, 6), [1, (2, 3, 4), (None, 2, 5)]),
}


@pytest.mark.parametrize("count", ADAPTIVE)
def test_adaptive_pooling_as_pytorch(count: int) -> None:
    average, highest, extents, sizes = ADAPTIVE[count]
    x = images(*extents)
    for size in sizes:
        compare(x, lambda v, n=size: tg.adaptive_avg_pool(v, n), lambda v, n=size: average(v, n))
        compare(x, lambda v, n=size: tg.adaptive_max_pool(v, n), lambda v, n=size: highest(v, n))
        top, places = tg.adaptive_max_pool(tg.array(x, "f64"), size, return_indices=True)
        expected, indices = highest(torch.tensor(x), size, return_indices=True)
        np.testing.assert_array_equal(np.asarray(top), expected.numpy())
        np.testing.assert_array_equal(np.asarray(places), indices.numpy())


def test_adaptive_pooling_of_long_axes_gathers() -> None:
    x = images(101)
    compare(x, lambda v: tg.adaptive_avg_pool(v, 7), lambda v: functional.adaptive_avg_pool1d(v, 7))


def test_infinities_of_adaptive_parts() -> None:
    """Shorter parts get no share of other parts' derivatives; NaN stays in its part."""
    x = np.full(5, -np.inf, np.float32)
    gradient = tg.grad(lambda v: tg.sum(tg.adaptive_max_pool(v, [3])))(x)
    np.testing.assert_allclose(np.asarray(gradient), [1 / 2, 1 / 2 + 1 / 3, 1 / 3, 1 / 3 + 1 / 2, 1 / 2], rtol=1e-6)
    mean = tg.adaptive_avg_pool(np.array([np.nan, 1, 2, 3, 4], np.float32), [3])
    np.testing.assert_array_equal(np.asarray(mean), [np.nan, 2, 3.5])


LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, (7, 8)),
    ("AvgPool2d", (3, 2, 1, True, False), {}, (7, 8)),
    ("AvgPool3d", (2,), {"divisor_override": 3}, (4, 5, 4)),
    ("AdaptiveAvgPool1d", (3,), {}, (7,)),
    ("AdaptiveAvgPool2d", ((None, 3),), {}, (7, 8)),
    ("AdaptiveAvgPool3d", (2,), {}, (4, 5, 6)),
    ("AdaptiveMaxPool1d", (3,), {}, (7,)),
    ("AdaptiveMaxPool2d", ((2, 3),), {}, (7, 8)),
    ("AdaptiveMaxPool3d", (2,), {}, (4, 5, 6)),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "extents"), LAYERS, ids=str)
def test_layers_as_pytorch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], extents: tuple[int, ...]) -> None:
    compare(images(*extents), getattr(tg.nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs))


@pytest.mark.parametrize("count", POOLS)
def test_layers_with_indices(count: int) -> None:
    x = images(*POOLS[count][3])
    pool = getattr(tg.nn, f"MaxPool{count}d")(2, return_indices=True)
    top, places = pool(tg.array(x, "f64"))
    back = getattr(tg.nn, f"MaxUnpool{count}d")(2)(top, places, output_size=x.shape)
    is_maximum = np.asarray(back) != 0
    np.testing.assert_array_equal(np.asarray(back)[is_maximum], x[is_maximum])
    assert is_maximum.sum() == top.size - np.count_nonzero(np.asarray(top) == 0)
    _, parts = getattr(tg.nn, f"AdaptiveMaxPool{count}d")(1, return_indices=True)(x)
    np.testing.assert_array_equal(np.asarray(parts).reshape(-1), x.reshape(4, -1).argmax(1))


X, PLACES = tg.zeros((2, 4, 8)), tg.zeros((2, 4, 8), "i32")

ERRORS: list[tuple[type[tg.errors.UserError], str, Callable[[], Any]]] = [
    (tg.errors.OptionError, "avg_pool: divisor_override is 0", lambda: tg.avg_pool(X, 2, divisor_override=0)),
    (
        tg.errors.ShapeError,
        "avg_pool: divisor_override must be an integer, got 1.5",
        lambda: untyped.avg_pool(X, 2, divisor_override=1.5),
    ),
    (
        tg.errors.ShapeError,
        "max_unpool: (2, 4, 8) and indices (4, 8) differ in shape",
        lambda: tg.max_unpool(X, PLACES[0], 2),
    ),
    (tg.errors.DTypeError, "max_unpool: indices must be integers, got f32", lambda: tg.max_unpool(X, X, 2)),
    (
        tg.errors.ShapeError,
        "max_unpool: index 16 is out of range, it must be in 0 to 15",
        lambda: tg.max_unpool(X, PLACES + 16, 2),
    ),
    (
        tg.errors.ShapeError,
        "max_unpool: paddings [9] leave nothing of windows of [2]",
        lambda: tg.max_unpool(X, PLACES, 2, 1, 9),
    ),
    (
        tg.errors.ShapeError,
        "adaptive_avg_pool: sizes: one integer or 1, at least 1, not [0]",
        lambda: tg.adaptive_avg_pool(X, 0),
    ),
    (
        tg.errors.ShapeError,
        "adaptive_max_pool: (2, 4, 0) has an axis without elements",
        lambda: tg.adaptive_max_pool(X[..., :0], 2),
    ),
]


@pytest.mark.parametrize(("kind", "message", "call"), ERRORS, ids=[message for _, message, _ in ERRORS])
def test_mistakes_are_named(kind: type[tg.errors.UserError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.location is not None and "test_pooling.py" in str(caught.value)
