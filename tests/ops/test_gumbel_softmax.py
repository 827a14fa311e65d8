"""`gumbel_softmax`: its distribution, its limits, and the straight-through derivative."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError

P = np.array([0.5, 0.3, 0.15, 0.05], np.float32)
KEY = tg.random.key(3)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_the_categories_are_drawn_with_their_probabilities(device: tg.DeviceName) -> None:
    rows = np.broadcast_to(np.log(P), (20000, 4))
    hard = np.asarray(tg.jit(lambda x: tg.gumbel_softmax(x, KEY, 0.3, hard=True), device=device)(rows))
    assert set(np.unique(hard)) == {0.0, 1.0} and np.array_equal(hard.sum(-1), np.ones(20000))
    deviation = np.sqrt(P * (1 - P) / 20000)
    assert (np.abs(hard.mean(0) - P) < 4 * deviation).all()
    soft = np.asarray(tg.gumbel_softmax(rows, KEY, 0.3))
    np.testing.assert_allclose(soft.sum(-1), 1, rtol=1e-5)
    assert np.array_equal(soft.argmax(-1), hard.argmax(-1)), "the same key draws the same categories"


def test_it_is_softmax_of_noisy_logits() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    noise = np.asarray(tg.random.gumbel(KEY, x.shape))
    for axis in (1, -1):
        samples = tg.gumbel_softmax(x, KEY, temperature=2.0, axis=axis)
        np.testing.assert_allclose(samples, tg.softmax((x + noise) / 2, axis), rtol=1e-6)
        untyped: Any = tg.gumbel_softmax
        assert np.array_equal(untyped(x, KEY, tau=2.0, dim=axis), samples), "PyTorch's names"
    each = tg.gumbel_softmax(x, KEY, tg.array([1.0, 2.0, 4.0]), axis=1)
    np.testing.assert_allclose(each[..., 2], tg.softmax((x + noise) / 4, 1)[..., 2], rtol=1e-6)
    assert tg.gumbel_softmax(x, tg.random.split(KEY, 7), hard=True, axis=0).shape == (7, 2, 5, 3)
    assert tg.gumbel_softmax(tg.cast(x, "f16"), KEY).dtype == tg.f16


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_hard_samples_have_the_derivatives_of_soft_ones(device: tg.DeviceName) -> None:
    x = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    weights = np.arange(24, dtype=np.float32).reshape(6, 4)

    def slope(hard: bool) -> Any:
        function = tg.grad(lambda x, t: tg.sum(weights * tg.gumbel_softmax(x, KEY, t, hard)), (0, 1))
        return tg.jit(function, device=device)(x, np.float32(0.7))

    for soft, hard in zip(slope(False), slope(True), strict=True):
        np.testing.assert_allclose(hard, soft, rtol=1e-4, atol=1e-5)
        assert np.abs(np.asarray(soft)).max() > 0.01
    tg.testing.check_grads(lambda x, t: tg.gumbel_softmax(x, KEY, t), (x, 0.7), rtol=1e-5, atol=1e-5)


def test_mistakes() -> None:
    for wrong in (0, -1.0, np.inf, np.nan):
        with pytest.raises(OptionError, match="gumbel_softmax: temperature must be positive and finite, got"):
            tg.gumbel_softmax(P, KEY, wrong)
    with pytest.raises(OptionError, match="a key is two u32"):
        tg.gumbel_softmax(P, cast(Any, 3))
    with pytest.raises(ShapeError, match="gumbel_softmax"):
        tg.gumbel_softmax(P, KEY, axis=1)
