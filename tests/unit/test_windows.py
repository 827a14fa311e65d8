"""Padding that crops, and windows as axes and columns: as PyTorch has them, with gradients, and errors."""

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
    """Compares values, which are copies or sums of few, and gradients in f64."""
    given = torch.tensor(x, requires_grad=True)
    wanted = theirs(given)
    cotangent = np.random.default_rng(1).normal(size=tuple(wanted.shape))
    wanted.backward(torch.tensor(cotangent))
    assert given.grad is not None
    np.testing.assert_allclose(np.asarray(ours(tg.array(x, "f64"))), wanted.detach().numpy(), rtol=1e-14)
    gradient = tg.grad(lambda v: tg.sum(ours(v) * tg.array(cotangent, "f64")))(tg.array(x, "f64"))
    np.testing.assert_allclose(np.asarray(gradient), given.grad.numpy(), rtol=1e-12, atol=1e-14)


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
    assert tg.pad(tg.zeros(3), (-3, 2)).shape == (2,)


X = tg.zeros((2, 4, 8))

ERRORS: list[tuple[type[tg.errors.UserError], str, Callable[[], Any]]] = [
    (
        tg.errors.ShapeError,
        "pad: widths -1 and -2 crop more than axis 0 of (2, 4, 8) has",
        lambda: tg.pad(X, [(-1, -2), (0, 0), (0, 0)]),
    ),
    (tg.errors.ShapeError, "pad: widths are integers, not 1.5", lambda: tg.pad(X, 1.5)),
]


@pytest.mark.parametrize(("kind", "message", "call"), ERRORS, ids=[message for _, message, _ in ERRORS])
def test_mistakes_are_named(kind: type[tg.errors.UserError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.location is not None and "test_windows.py" in str(caught.value)
