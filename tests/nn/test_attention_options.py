"""Attention's window and bound of scores, and rotary positions of a batch, with scaled frequencies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def by_loops(q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int, softcap: float) -> np.ndarray:
    """Attention of one head, a query at a time, in f64."""
    ahead, rows = len(k) - len(q), []
    for number, query in enumerate(q.astype(np.float64)):
        last = number + ahead
        keys = range(max(0, last - window + 1), last + 1)
        scores = np.array([softcap * math.tanh(query @ k[i] / math.sqrt(len(query)) / softcap) for i in keys])
        weights = np.exp(scores - scores.max())
        rows.append(sum(weight * v[i] for weight, i in zip(weights, keys, strict=True)) / weights.sum())
    return np.array(rows)


@pytest.mark.parametrize(("queries", "window"), [(7, 3), (7, 1), (7, 20), (4, 3)])
def test_a_window_and_a_bound_of_scores(queries: int, window: int) -> None:
    q, k, v = 3 * drawn(1, queries, 6), drawn(1, 7, 6, seed=1), drawn(1, 7, 5, seed=2)
    actual = tg.nn.scaled_dot_product_attention(q, k, v, is_causal=True, window=window, softcap=0.7)
    np.testing.assert_allclose(np.asarray(actual)[0], by_loops(q[0], k[0], v[0], window, 0.7), atol=1e-6)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("softcap", [None, 0.7])
def test_a_window_where_attention_is_one_kernel(softcap: float | None) -> None:
    """There are enough scores that the compiler outlines attention; with a bound of scores it is composed."""
    q, k, v = (drawn(2, 2, 80, 8, seed=seed) for seed in range(3))

    def slope(q: Any, k: Any, v: Any) -> Any:
        attended = tg.nn.scaled_dot_product_attention(q, k, v, is_causal=True, window=9, softcap=softcap)
        return tg.sum(attended * tg.sin(attended))

    function = tg.grad(slope, argnums=(0, 1, 2))
    for actual, expected in zip(tg.jit(function, device="cpu")(q, k, v), function(q, k, v), strict=True):
        np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), atol=2e-5)


def test_derivatives_through_a_window_and_a_bound() -> None:
    q, k, v, along = drawn(1, 5, 4), drawn(1, 5, 4, seed=1), drawn(1, 5, 3, seed=2), drawn(1, 5, 4, seed=3)

    def loss(q: Any, k: Any, v: Any) -> Any:
        attended = tg.nn.scaled_dot_product_attention(q, k, v, is_causal=True, window=2, softcap=0.5)
        return tg.sum(attended * attended)

    gradient = np.asarray(tg.grad(loss, argnums=1)(q, k, v))

    def value(step: float) -> float:
        return float((by_loops(q[0], k[0] + step * along[0].astype(np.float64), v[0], 2, 0.5) ** 2).sum())

    assert (value(1e-5) - value(-1e-5)) / 2e-5 == pytest.approx(float((gradient * along).sum()), rel=1e-4)
    outside = np.asarray(tg.grad(lambda k: loss(q[:, -1:], k, v))(k))
    assert np.all(outside[0, :3] == 0) and np.all(outside[0, 3:] != 0)


def test_wrong_windows_and_bounds_are_refused() -> None:
    q = drawn(1, 3, 4)
    with pytest.raises(OptionError, match="a window needs is_causal=True"):
        tg.nn.scaled_dot_product_attention(q, q, q, window=2)
    with pytest.raises(OptionError, match="the window must be positive, got 0"):
        tg.nn.scaled_dot_product_attention(q, q, q, is_causal=True, window=0)
    with pytest.raises(OptionError, match="softcap"):
        tg.nn.scaled_dot_product_attention(q, q, q, softcap=0.0)


def test_rotary_positions_of_a_batch() -> None:
    x, positions = drawn(2, 3, 5, 8), np.array([[0, 1, 2, 3, 4], [7, 2, 9, 0, 1]])
    actual = np.asarray(tg.nn.rotary_embedding(x, positions))
    for number, places in enumerate(positions):
        np.testing.assert_array_equal(actual[number], np.asarray(tg.nn.rotary_embedding(x[number], places)))
    computed = tg.jit(tg.nn.rotary_embedding, device="numpy")(x, positions.astype(np.int32))
    np.testing.assert_allclose(np.asarray(computed), actual, atol=2e-6)
    same = np.asarray(tg.nn.rotary_embedding(x, positions[:1]))
    np.testing.assert_array_equal(same, np.asarray(tg.nn.rotary_embedding(x)))


def llama3(base: float, features: int, factor: float, low: float, high: float, length: int) -> list[float]:
    """The frequencies of Llama 3.1, pair by pair, as its authors' code computes them from wavelengths."""
    frequencies = []
    for pair in range(features // 2):
        frequency = base ** (-2 * pair / features)
        wavelength = 2 * math.pi / frequency
        if wavelength > length / low:
            frequency /= factor
        elif wavelength >= length / high:
            smooth = (length / wavelength - low) / (high - low)
            frequency = (1 - smooth) * frequency / factor + smooth * frequency
        frequencies.append(frequency)
    return frequencies


def test_scaled_frequencies() -> None:
    scaling = tg.nn.RotaryScaling(8.0, 1.0, 4.0, 64)
    actual = tg.nn.rotary_frequencies(32, 500.0, scaling)
    np.testing.assert_allclose(actual, llama3(500.0, 32, 8.0, 1.0, 4.0, 64), rtol=1e-12)
    plain = tg.nn.rotary_frequencies(32, 500.0)
    assert len(set(np.round(plain / actual, 6))) > 3, "some are kept, some are mixed, some are divided"
    np.testing.assert_allclose(tg.nn.rotary_frequencies(32, 500.0, tg.nn.RotaryScaling(4.0)), plain / 4)
    x = drawn(3, 32)
    twice = tg.nn.rotary_embedding(x, 2 * np.arange(3), frequencies=plain / 2)
    np.testing.assert_array_equal(np.asarray(twice), np.asarray(tg.nn.rotary_embedding(x, base=500.0)))


def yarn(base: float, features: int, factor: float, length: int) -> list[float]:
    """YaRN's frequencies, pair by pair: the number of turns of a pair gives its place between the two ends."""

    def place(turns: float) -> float:
        return features * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base))

    first, last = max(math.floor(place(32)), 0), min(math.ceil(place(1)), features - 1)
    frequencies = []
    for pair in range(features // 2):
        share = min(max((pair - first) / (last - first), 0), 1)
        frequency = base ** (-2 * pair / features)
        frequencies.append((1 - share) * frequency + share * frequency / factor)
    return frequencies


@pytest.mark.parametrize("length", [64, 512, 1 << 20])
def test_frequencies_of_yarn(length: int) -> None:
    scaling = tg.nn.YarnScaling(4.0, length)
    actual, plain = (tg.nn.rotary_frequencies(64, 1e4, each) for each in (scaling, None))
    np.testing.assert_allclose(actual, yarn(1e4, 64, 4.0, length), rtol=1e-12)
    assert len(set(np.round(plain / actual, 6))) > 2, "some are kept, some are mixed, some are divided"
    assert scaling.score_factor == pytest.approx((0.1 * math.log(4) + 1) ** 2)
    assert tg.nn.rotary_frequencies(2, 1e4, scaling) == [1.0]


def test_wrong_positions_and_frequencies_are_refused() -> None:
    x = drawn(2, 3, 5, 8)
    for positions in (np.arange(4), np.zeros((3, 5)), np.zeros((2, 3, 5))):
        with pytest.raises(ShapeError, match=r"expected 5 positions or \[2, 5\], got shape"):
            tg.nn.rotary_embedding(x, positions)
    with pytest.raises(ShapeError, match="expected 4 frequencies, got shape"):
        tg.nn.rotary_embedding(x, frequencies=np.ones(8))
    with pytest.raises(ShapeError, match="even number of features, got 7"):
        tg.nn.rotary_frequencies(7)
    with pytest.raises(OptionError, match="base must be positive"):
        tg.nn.rotary_frequencies(8, -1.0)
    with pytest.raises(OptionError, match="low_turns <= high_turns"):
        tg.nn.RotaryScaling(2.0, 4.0, 1.0)
    for factor, length, fast, slow in ((0.0, 8, 32.0, 1.0), (2.0, 0, 32.0, 1.0), (2.0, 8, 1.0, 2.0)):
        with pytest.raises(OptionError, match="slow_turns <= fast_turns"):
            tg.nn.YarnScaling(factor, length, fast, slow)
    with pytest.raises(OptionError, match="expected positive numbers"):
        tg.nn.YarnScaling(2.0, 8, magnitude=0.0)
