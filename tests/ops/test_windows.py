"""Negative padding, and windows as axes and columns: compared with PyTorch, with gradients, and errors."""

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


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng([*shape]).normal(size=shape)


def compare(x: np.ndarray, ours: Callable[[Any], Any], theirs: Callable[[Any], Any]) -> None:
    """Compares values, which are copies or short sums, and gradients in f64."""
    tensor = torch.tensor(x, requires_grad=True)
    expected = theirs(tensor)
    cotangent = np.random.default_rng(1).normal(size=tuple(expected.shape))
    expected.backward(torch.tensor(cotangent))
    assert tensor.grad is not None
    np.testing.assert_allclose(np.asarray(ours(tg.array(x, "f64"))), expected.detach().numpy(), rtol=1e-14)
    gradient = tg.grad(lambda v: tg.sum(ours(v) * tg.array(cotangent, "f64")))(tg.array(x, "f64"))
    np.testing.assert_allclose(np.asarray(gradient), tensor.grad.numpy(), rtol=1e-12, atol=1e-14)


MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
"""What PyTorch calls a mode of `tg.pad`."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("behind", [-2, 0, 2])
def test_pad_crops_as_pytorch(mode: str, before: int, behind: int) -> None:
    theirs: Any = MODES[mode]
    compare(
        floats(2, 3, 5, 6),
        lambda x: tg.pad(x, [(0, 0), (0, 0), (behind, before), (before, behind)], mode),
        lambda x: functional.pad(x, (before, behind, behind, before), theirs),
    )


def test_pad_may_crop_everything() -> None:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        assert tg.pad(tg.zeros((3, 2)), [(-1, -2), (0, 0)], mode).shape == (0, 2)
        assert tg.pad(tg.zeros((0, 3)), [(0, 0), (1, 2)], mode).shape == (0, 6)
        assert tg.pad(tg.zeros((0, 0)), 0, mode).shape == (0, 0)
    assert tg.pad(tg.zeros(3), (-3, 2)).shape == (2,)


@pytest.mark.parametrize(("axis", "size", "step"), [(0, 2, 1), (1, 3, 2), (-1, 4, 3), (2, 6, 7), (-2, 5, 1)])
def test_unfold_as_pytorch(axis: int, size: int, step: int) -> None:
    compare(floats(3, 5, 6), lambda x: tg.unfold(x, axis, size, step), lambda x: x.unfold(axis, size, step))


def test_unfold_is_a_method() -> None:
    x: Any = tg.arange(5)
    np.testing.assert_array_equal(np.asarray(x.unfold(dim=0, size=2, step=2)), [[0, 1], [2, 3]])


COLUMNS: list[dict[str, Any]] = [
    {"size": 2},
    {"size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
    {"size": 3, "stride": 2, "padding": 1},
    {"size": (1, 4), "dilation": 2},
]


@pytest.mark.parametrize("settings", COLUMNS, ids=str)
def test_columns_as_pytorch(settings: dict[str, Any]) -> None:
    names = {"kernel_size" if name == "size" else name: value for name, value in settings.items()}
    images = floats(2, 3, 7, 8)
    columns = functional.unfold(torch.tensor(images), **names)
    compare(images, lambda x: tg.im2col(x, **settings), lambda x: functional.unfold(x, **names))
    compare(images, tg.nn.Unfold(**names), torch.nn.Unfold(**names))
    compare(columns.numpy(), lambda x: tg.col2im(x, (7, 8), **settings), lambda x: functional.fold(x, (7, 8), **names))
    compare(columns.numpy(), tg.nn.Fold((7, 8), **names), torch.nn.Fold((7, 8), **names))


@pytest.mark.parametrize("extents", [(9,), (4, 5, 6)])
def test_columns_of_other_images_are_transposes(extents: tuple[int, ...]) -> None:
    settings: dict[str, Any] = {"size": 3, "stride": 2, "padding": [(1, 0)] * len(extents)}
    x = tg.array(floats(2, 3, *extents), "f64")
    columns = tg.im2col(x, **settings)
    y = tg.array(floats(*columns.shape), "f64")
    there, back = tg.sum(columns * y), tg.sum(x * tg.col2im(y, extents, **settings))
    np.testing.assert_allclose(np.asarray(there), np.asarray(back), rtol=1e-12)
    assert tg.im2col(x, 3, 2, "same").shape[2] == int(np.prod([-(-n // 2) for n in extents]))


X = tg.zeros((2, 4, 8))

ERRORS: list[tuple[type[tg.errors.UserError], str, Callable[[], Any]]] = [
    (
        tg.errors.ShapeError,
        "pad: widths -1 and -2 crop more than axis 0 of (2, 4, 8) has",
        lambda: tg.pad(X, [(-1, -2), (0, 0), (0, 0)]),
    ),
    (tg.errors.ShapeError, "pad: widths must be integers, got 1.5", lambda: untyped.pad(X, 1.5)),
    (
        tg.errors.ShapeError,
        "unfold: windows of 9, 1 apart, do not fit axis 2 of (2, 4, 8); both numbers are at least 1",
        lambda: tg.unfold(X, -1, 9, 1),
    ),
    (
        tg.errors.ShapeError,
        "unfold: windows of 2, 0 apart, do not fit axis 0 of (2, 4, 8); both numbers are at least 1",
        lambda: tg.unfold(X, 0, 2, 0),
    ),
    (tg.errors.ShapeError, "unfold: size must be an integer, got 1.5", lambda: untyped.unfold(X, 0, 1.5, 1)),
    (
        tg.errors.ShapeError,
        "im2col: takes [batch, channels, spatial...], not (4, 8)",
        lambda: tg.im2col(X[0], 2),
    ),
    (
        tg.errors.ShapeError,
        "im2col: windows that span [11] do not fit images of [8] padded by [(1, 1)]",
        lambda: tg.im2col(X, 3, padding=1, dilation=5),
    ),
    (
        tg.errors.ShapeError,
        "col2im: (2, 4, 8) is not [batch, channels * 2, 7]",
        lambda: tg.col2im(X, [8], 2),
    ),
    (tg.errors.ShapeError, "col2im: (2, 4, 8) is not [batch, channels * 3, 8]", lambda: tg.col2im(X, [10], 3)),
    (tg.errors.DTypeError, "col2im: takes numbers, not bool; cast first", lambda: tg.col2im(X > 0, [9], 2)),
]


@pytest.mark.parametrize(("kind", "message", "call"), ERRORS, ids=[message for _, message, _ in ERRORS])
def test_mistakes_are_named(kind: type[tg.errors.UserError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.location is not None and "test_windows.py" in str(caught.value)
