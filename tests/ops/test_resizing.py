"""Resizing compared with PyTorch's `interpolate`: values and gradients over shapes, factors, methods; and errors."""

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

THEIRS = {
    ("nearest", 1): "nearest-exact",
    ("nearest-exact", 2): "nearest-exact",
    ("nearest", 3): "nearest-exact",
    ("nearest-floor", 1): "nearest",
    ("nearest-floor", 2): "nearest",
    ("nearest-floor", 3): "nearest",
    ("linear", 1): "linear",
    ("bilinear", 2): "bilinear",
    ("trilinear", 3): "trilinear",
    ("bicubic", 2): "bicubic",
}
"""PyTorch's name of a method, by the number of dimensions."""

SIZES = [(1, 1), (1, 3), (4, 1), (5, 5), (2, 4), (3, 9), (8, 4), (9, 3), (4, 6), (6, 4), (7, 11), (11, 7), (5, 2)]
"""Extents before and after."""

FACTORS = [(4, 0.5), (6, 1 / 3), (3, 2.0), (2, 3), (5, 1.5), (4, 1.0), (7, 0.7), (5, 1.3), (9, 0.45), (1, 3.5)]
"""Extents and scale factors; rounding changes the distance of elements in half of them.

None makes of an extent the same or its double by rounding: PyTorch's backward of `nearest` takes other places then.
"""


def images(extent: int, count: int) -> np.ndarray:
    """Returns images whose axes are slightly longer and shorter."""
    shape = (2, 3, extent, extent + 1, max(extent - 1, 1))[: 2 + count]
    return np.random.default_rng([extent, count]).normal(size=shape)


def compare(x: np.ndarray, ours: Callable[[Any], Any], theirs: Callable[[Any], Any], tolerance: float = 1e-12) -> None:
    """Compares values and gradients in f64."""
    tensor = torch.tensor(x, requires_grad=True)
    expected = theirs(tensor)
    cotangent = np.random.default_rng(1).normal(size=tuple(expected.shape))
    expected.backward(torch.tensor(cotangent))
    assert tensor.grad is not None
    actual = ours(tg.array(x, "f64"))
    np.testing.assert_allclose(np.asarray(actual), expected.detach().numpy(), rtol=0, atol=tolerance)
    gradient = tg.grad(lambda v: tg.sum(ours(v) * tg.array(cotangent, "f64")))(tg.array(x, "f64"))
    np.testing.assert_allclose(np.asarray(gradient), tensor.grad.numpy(), rtol=0, atol=tolerance * 10)


SETTINGS = [
    (method, count, aligned)
    for method, count in THEIRS
    for aligned in ([False] if "nearest" in method else [False, True])
]


@pytest.mark.in_turns(5)
@pytest.mark.parametrize(("method", "count", "aligned"), SETTINGS)
def test_sizes_as_pytorch(method: str, count: int, aligned: bool) -> None:
    mode: Any = THEIRS[method, count]
    option: Any = None if "nearest" in method else aligned
    for extent, expected in SIZES:
        size = [expected, expected + 1, expected][:count]
        compare(
            images(extent, count),
            lambda x, n=size: tg.resize(x, n, method, aligned),
            lambda x, n=size: functional.interpolate(x, n, mode=mode, align_corners=option),
        )


@pytest.mark.in_turns(10)
@pytest.mark.parametrize(("method", "count", "aligned"), SETTINGS)
@pytest.mark.parametrize("recomputed", [False, True])
def test_factors_as_pytorch(method: str, count: int, aligned: bool, recomputed: bool) -> None:
    mode: Any = THEIRS[method, count]
    option: Any = None if "nearest" in method else aligned
    for extent, factor in FACTORS:
        x = images(extent, count)
        if int(min(x.shape[2:]) * factor) < 1:
            continue
        compare(
            x,
            lambda x, f=factor: tg.resize(
                x, method=method, align_corners=aligned, scale_factor=f, recompute_scale_factor=recomputed
            ),
            lambda x, f=factor: functional.interpolate(
                x, scale_factor=f, mode=mode, align_corners=option, recompute_scale_factor=recomputed
            ),
        )


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["bilinear", "bicubic"])
@pytest.mark.parametrize("aligned", [False, True])
def test_averages_as_pytorch(method: str, aligned: bool) -> None:
    for extent, expected in [*SIZES, (20, 3), (31, 7), (40, 2)]:
        compare(
            images(extent, 2),
            lambda x, n=expected: tg.resize(x, (n, n + 1), method, aligned, antialias=True),
            lambda x, n=expected: functional.interpolate(
                x, (n, n + 1), mode=method, align_corners=aligned, antialias=True
            ),
        )
    for extent, factor in [*FACTORS, (23, 0.13)]:
        for recomputed in (False, True):
            if int(max(extent - 1, 1) * factor):
                compare(
                    images(extent, 2),
                    lambda x, f=factor, r=recomputed: tg.resize(
                        x, None, method, aligned, f, recompute_scale_factor=r, antialias=True
                    ),
                    lambda x, f=factor, r=recomputed: functional.interpolate(
                        x, None, f, method, aligned, recompute_scale_factor=r, antialias=True
                    ),
                )


def test_averages_of_whole_factors_are_weighted_means() -> None:
    """Halving a line with the triangle filter weights four neighbours by 1/8, 3/8, 3/8 and 1/8."""
    x = np.random.default_rng(0).normal(size=(12,))
    averages = np.asarray(tg.resize(tg.array(x, "f64"), [6], "linear", antialias=True))
    expected = x[1:9:2] + 3 * x[2:10:2] + 3 * x[3:11:2] + x[4:12:2]
    np.testing.assert_allclose(averages[1:5], expected / 8, rtol=1e-12)
    images_ = tg.zeros((2, 3, 8, 8))
    assert tg.resize(images_, 8, "bicubic", antialias=True) is images_
    assert tg.resize(tg.arange(8), [3], "linear", antialias=True).dtype == np.float32


def test_what_is_averaged_has_derivatives_of_higher_order() -> None:
    tg.testing.check_grads(lambda x: tg.resize(x**3, (3, 4), "bicubic", antialias=True), (images(7, 2)[0, 0],), order=2)


def test_a_factor_for_each_axis() -> None:
    compare(
        images(4, 2),
        lambda x: tg.resize(x, method="bilinear", scale_factor=(1.7, 0.6)),
        lambda x: functional.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear"),
    )
    assert tg.resize(tg.zeros((4, 5)), scale_factor=[2.0, 3.0]).shape == (8, 15)


def test_linear_copies_an_axis_whose_extent_stays() -> None:
    compare(
        images(5, 2),
        lambda x: tg.resize(x, method="bilinear", scale_factor=1.19),
        lambda x: functional.interpolate(x, scale_factor=1.19, mode="bilinear"),
    )
    x = tg.arange(4.0)
    assert tg.resize(x, method="linear", scale_factor=[1.2]) is x
    assert tg.resize(x, method="cubic", scale_factor=[1.2], antialias=True) is x
    image = torch.arange(16.0).reshape(1, 1, 4, 4)  # PyTorch's backward doesn't copy it back
    assert torch.equal(functional.interpolate(image, scale_factor=1.2, mode="bicubic", antialias=True), image)


def test_a_factor_is_the_fraction_that_is_meant() -> None:
    """1.2 is 6/5: the new element 6 is at the old element 5, not before it."""
    copies = tg.resize(tg.arange(10), method="nearest-floor", scale_factor=[1.2])
    np.testing.assert_array_equal(np.asarray(copies), np.arange(12) * 5 // 6)


def test_scale_factors_say_how_far_elements_are_apart() -> None:
    x = np.arange(5.0)
    apart = tg.resize(x, method="linear", scale_factor=[1.3])
    np.testing.assert_allclose(np.asarray(apart), np.clip((np.arange(6) + 0.5) / 1.3 - 0.5, 0, 4), rtol=1e-6, atol=1e-7)
    again = tg.resize(x, method="linear", scale_factor=[1.3], recompute_scale_factor=True)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(tg.resize(x, [6], "linear")))


def test_corners_stay() -> None:
    x = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
    corners = np.asarray(tg.resize(x, [3, 4], "bilinear", align_corners=True))
    np.testing.assert_allclose(corners[[0, 0, -1, -1], [0, -1, 0, -1]], [1, 2, 3, 5], rtol=1e-6)


def test_only_elements_with_a_weight_are_looked_at() -> None:
    x = np.array([1, np.nan, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(np.asarray(tg.resize(x, [3], "cubic", align_corners=True)), [1, 2, 4])


def test_nearest_takes_the_element_under_the_centre() -> None:
    x = np.arange(12, dtype=np.int32)
    for new_extent in (1, 3, 4, 5, 7, 9, 24, 36):
        expected = x[((np.arange(new_extent) + 0.5) * 12 / new_extent).astype(int)]
        np.testing.assert_array_equal(np.asarray(tg.resize(x, [new_extent])), expected)


def test_resize_keeps_what_it_can() -> None:
    x = tg.array(images(4, 2), "f64")
    assert tg.resize(x, [4, 5], "bilinear") is x
    constant = tg.resize(tg.ones((2, 7)), [5], "bilinear")
    np.testing.assert_allclose(np.asarray(constant), np.ones((2, 5)), rtol=1e-6)
    assert tg.resize(np.array([1, 3], np.int32), [4], "bilinear").dtype == np.float32


@pytest.mark.parametrize(("extent", "new_extent"), [(50, 49), (30, 20), (3, 40)])
def test_linear_resize_of_a_line_is_a_line(extent: int, new_extent: int) -> None:
    """Between the outermost centers; beyond them it is constant."""
    line = (np.arange(extent) + 0.5) / extent
    expected = np.clip((np.arange(new_extent) + 0.5) / new_extent, line[0], line[-1])
    np.testing.assert_allclose(
        np.asarray(tg.resize(tg.array(line, "f64"), [new_extent], "bilinear")), expected, rtol=1e-12
    )


X = tg.zeros((2, 4, 8))

ERRORS: list[tuple[type[tg.errors.UserError], str, Callable[[], Any]]] = [
    (
        tg.errors.OptionError,
        "resize: the method must be one of nearest, nearest-exact, nearest-floor, linear, bilinear, trilinear, cubic, "
        "bicubic, got 'area'",
        lambda: tg.resize(X, 4, "area"),
    ),
    (
        tg.errors.OptionError,
        "resize: align_corners is for methods that weigh elements, not 'nearest'",
        lambda: tg.resize(X, 4, align_corners=True),
    ),
    (
        tg.errors.OptionError,
        "resize: antialias is for methods that weigh elements, not 'nearest-floor'",
        lambda: tg.resize(X, 4, "nearest-floor", antialias=True),
    ),
    (tg.errors.OptionError, "resize: takes size= or scale_factor=, one of them", lambda: tg.resize(X)),
    (
        tg.errors.OptionError,
        "resize: takes size= or scale_factor=, one of them",
        lambda: tg.resize(X, 4, scale_factor=2),
    ),
    (
        tg.errors.OptionError,
        "resize: recompute_scale_factor is for scale_factor=, not for size=",
        lambda: tg.resize(X, 4, recompute_scale_factor=True),
    ),
    (
        tg.errors.OptionError,
        "resize: scale factors must be positive numbers, got -1.5",
        lambda: tg.resize(X, scale_factor=-1.5),
    ),
    (
        tg.errors.OptionError,
        "resize: scale factors must be positive numbers, got 'two'",
        lambda: untyped.resize(X, scale_factor="two"),
    ),
    (
        tg.errors.ShapeError,
        "resize: 0.1 times the extents of (2, 4, 8) leaves an axis no element",
        lambda: tg.resize(X, scale_factor=0.1),
    ),
    (tg.errors.ShapeError, "resize: sizes: one integer or 1, at least 1, not 0", lambda: tg.resize(X, 0)),
    (tg.errors.ShapeError, "resize: (2, 4, 0) has an axis without elements", lambda: tg.resize(X[..., :0], 4)),
    (
        tg.errors.ShapeError,
        "resize: (4, 8) has no spatial axes for 2.0",
        lambda: tg.resize(X[0], scale_factor=2.0),
    ),
]


@pytest.mark.parametrize(("kind", "message", "call"), ERRORS, ids=[message for _, message, _ in ERRORS])
def test_mistakes_are_named(kind: type[tg.errors.UserError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.location is not None and "test_resizing.py" in str(caught.value)
