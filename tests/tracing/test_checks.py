"""Options that are integers: NumPy's are as good as Python's, and booleans are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.tracing.checks import checked_integer

X = np.arange(24, dtype=np.float32).reshape(1, 4, 6)

TAKEN: dict[str, Callable[[Any], Any]] = {
    "chunk": lambda n: tg.chunk(X, n)[0],
    "pixel_shuffle": lambda n: tg.pixel_shuffle(X[:, :, :4].reshape(1, 4, 2, 2), n),
    "group_norm": lambda n: tg.group_norm(X, n),
    "one_hot": lambda n: tg.one_hot([1, 0], n),
    "bincount": lambda n: tg.bincount([1, 0], length=n),
    "segment_sum": lambda n: tg.segment_sum([1.0, 2.0], [0, 1], n),
    "Linear": lambda n: tg.nn.Linear(n, n).initialized(0)(np.ones((1, 2), np.float32)),
    "Embedding": lambda n: tg.nn.Embedding(n, n).initialized(0)([1, 0]),
    "Conv2d": lambda n: tg.nn.Conv2d(n, n, n).initialized(0)(np.ones((1, 2, 3, 3), np.float32)),
    "batches": lambda n: next(iter(tg.data.batches({"x": X[0]}, size=n)))["x"],
    "scan": lambda n: tg.scan(lambda c, x: (c + 1.0, c), 0.0, length=n)[1],
    "top_k": lambda n: tg.top_k(np.arange(300.0), n)[1],
    "top_k of few": lambda n: tg.top_k(np.arange(50_257.0), n * 5)[1],
    "repeat": lambda n: tg.repeat(X[0], n, 0),
    "ignore_index": lambda n: tg.cross_entropy(X[0], np.arange(4), ignore_index=n),
    "avg_pool": lambda n: tg.avg_pool(X, n, divisor_override=n),
    "schedule": lambda n: np.float32(tg.optim.schedules.step(0.1, every=n, factor=0.5)(3)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_integers_of_numpy(name: str) -> None:
    function = TAKEN[name]
    expected = np.asarray(function(2))
    for number in (np.int64(2), np.uint8(2), np.array(2)):
        np.testing.assert_array_equal(np.asarray(function(number)), expected)


def test_callbacks_keep_pythons() -> None:
    """Of an unsigned integer the negative one is large."""
    two: Any = np.uint8(2)
    checkpoints = tg.callbacks.Checkpoints("folder", every=two, keep=two)
    stop = tg.callbacks.EarlyStop("loss", patience=two)
    for number in (checkpoints.every, checkpoints.keep, stop.patience):
        assert type(number) is int


def test_booleans_say_what_is_repeated() -> None:
    assert tg.repeat([1, 2, 3], [True, False, True]).tolist() == [1, 3]


def test_what_is_refused() -> None:
    for value, least, most, message in (
        (True, None, None, "x must be an integer, got True"),
        (np.False_, None, None, "x must be an integer, got np.False_"),
        (2.0, 1, None, "x must be a positive integer, got 2.0"),
        (0, 1, None, "x must be a positive integer, got 0"),
        ("3", 0, None, "x must be an integer from 0, got '3'"),
        (7, 0, 6, "x must be an integer from 0 to 6, got 7"),
        (np.array([1, 2]), None, None, "x must be an integer, got array"),
        (tg.array(True), None, None, "x must be an integer, got Array"),
    ):
        with pytest.raises(OptionError, match=message):
            checked_integer(value, "x", least, most)
    with pytest.raises(ShapeError, match="x must be an integer, got None"):
        checked_integer(None, "x", error=ShapeError)
