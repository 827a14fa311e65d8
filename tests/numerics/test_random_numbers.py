"""A key gives the same random numbers at every level and on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import levels, traced
from scheduled import GPU, SOFTWARE, on_device

from tensorgrad.ops import random
from tensorgrad.runtime.webgpu import WebGPUDevice

KEY = np.array([0x9E3779B9, 42], np.uint32)
KEYS = np.array([[1, 2], [2**32 - 1, 2**31], [0, 0]], np.uint32)
LOGITS = np.sin(np.arange(12, dtype=np.float32)).reshape(3, 4)


def exact(key: Any) -> list[Any]:
    """Returns the results that are equal to the last bit."""
    folded = random.fold_in(key, 7)
    return [
        random.split(key, 3),
        folded,
        random.bits(key, (5, 3)),
        random.uniform(folded, (2, 2, 9)),
        random.bernoulli(key, 0.3, 17),
        random.permutation(key, 11),
        random.randint(key, 9, -4, 1000),
        random.randint(key, 9, 5, 3_000_000_000, "u32"),
        random.randint(key, 9, -100, 128, "i8"),
        random.randint(key, 9, 7, 50_000, "u16"),
        random.key(random.bits(key)),
    ]


def close(key: Any) -> list[Any]:
    """Returns the results that are equal up to rounding."""
    return [
        random.uniform(key, (4, 5), -2.0, 3.0),
        random.normal(key, (40, 50)),
        random.gumbel(key, (6, 7)),
        random.dropout(key, random.normal(key, (4, 5)), 0.25),
    ]


def eager(function: Any, key: np.ndarray) -> list[np.ndarray]:
    """Returns the results without a trace."""
    return [np.asarray(x) for x in function(random.fold_in(key, 0))]


def from_key(function: Any) -> Any:
    """The function of a key that isn't an argument's value itself."""
    return lambda key: function(random.fold_in(key, 0))


@pytest.mark.nightly
def test_every_level_draws_the_same_numbers() -> None:
    for keys in (KEY, KEYS):
        expected = eager(exact, keys)
        for level, results in levels(traced(from_key(exact), [keys]), [keys]):
            for result, correct in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result.view(correct.dtype), correct, level)
    expected = eager(close, KEY)
    for level, results in levels(traced(from_key(close), [KEY]), [KEY]):
        for result, correct in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, correct, rtol=1e-6, atol=1e-6, err_msg=level)


@pytest.mark.nightly
def test_the_device_draws_the_same_bits(device: WebGPUDevice) -> None:
    for target in (SOFTWARE, GPU):
        for keys in (KEY, KEYS):
            _, results, _ = on_device(device, from_key(exact), [keys], target)
            for drawn, expected in zip(results, eager(exact, keys), strict=True):
                np.testing.assert_array_equal(drawn.view(expected.dtype), expected)


def test_the_device_draws_the_same_numbers(device: WebGPUDevice) -> None:
    _, results, _ = on_device(device, from_key(close), [KEY], GPU)
    for actual, expected in zip(results, eager(close, KEY), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)
    _, (drawn,), (expected,) = on_device(device, lambda key: random.categorical(key, LOGITS, shape=(50, 3)), [KEY], GPU)
    np.testing.assert_array_equal(drawn, expected)


def test_dropout_is_computed_where_it_is_used(device: WebGPUDevice) -> None:
    """The mask is computed again in the forward and in the backward pass, and never stored."""
    import tensorgrad as tg

    def gradient(x: Any, key: Any) -> Any:
        return tg.grad(lambda v: tg.sum(tg.tanh(random.dropout(key, v, 0.5))))(x)

    x = np.linspace(-1, 1, 300, dtype=np.float32).reshape(20, 15)
    archetypes, (actual,), (expected,) = on_device(device, gradient, [x, KEY], GPU)
    assert sum(archetypes.values()) == 1
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
