"""Donated arguments of `tg.jit` are replaced by results in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError

DEVICES = ["numpy", "cpu", "wgpu"]


def extend(cache: Any, x: Any, at: Any) -> Any:
    """Appends a row to a cache, and returns the sum of its rows."""
    keys = cache["keys"].at[at].set(x)
    return tg.sum(keys, axis=0), {"count": cache["count"] + 1, "keys": keys}


def start() -> dict[str, Any]:
    return {"keys": np.zeros((5, 3), np.float32), "count": np.int32(0)}


def row(number: int) -> np.ndarray:
    return np.arange(3, dtype=np.float32) + number


@pytest.mark.parametrize("device", DEVICES)
def test_a_cache_is_passed_back_without_copies(device: tg.DeviceName, monkeypatch: pytest.MonkeyPatch) -> None:
    function: Any = tg.jit(extend, donate="cache", device=device)
    cache, expected = start(), start()["keys"]
    _, cache = function(cache, row(0), 0)
    expected[0] = row(0)
    executable = function._latest("test")._executable
    moved: list[str] = []
    monkeypatch.setattr(executable, "write", lambda values: moved.extend(values))
    monkeypatch.setattr(executable, "read", lambda names=None: moved.extend(names or ["all"]))
    totals = []
    for number in range(1, 4):
        total, cache = function(cache, row(number), number)
        expected[number] = row(number)
        totals.append((total, expected.sum(0)))
    assert moved == []
    monkeypatch.undo()
    for total, value in totals:
        np.testing.assert_allclose(np.asarray(total), value)
    np.testing.assert_array_equal(np.asarray(cache["keys"]), expected)
    assert int(cache["count"]) == 4


def test_the_memory_is_that_of_one_cache() -> None:
    shape = (1024, 64)

    def double(cache: Any) -> Any:
        return cache * 2

    peaks = []
    for donate in ((), "cache"):
        function: Any = tg.jit(double, donate=donate, device="cpu")
        function(np.ones(shape, np.float32))
        peaks.append(function.stats()["peak_bytes"])
    assert peaks[0] - peaks[1] == 4 * 1024 * 64


@pytest.mark.parametrize("device", DEVICES)
def test_a_donated_array_is_gone(device: tg.DeviceName) -> None:
    function: Any = tg.jit(extend, donate="cache", device=device)
    _, first = function(start(), row(1), 1)
    _, second = function(first, row(2), 2)
    with pytest.raises(InputError, match=r"was donated to extend\(\)"):
        np.asarray(first["keys"])
    with pytest.raises(InputError, match="was donated"):
        function(first, row(2), 2)
    assert int(second["count"]) == 2


@pytest.mark.parametrize("device", DEVICES)
def test_other_arrays_can_be_passed_in_between(device: tg.DeviceName) -> None:
    """Results that are still held keep their values when another cache takes the memory."""
    function: Any = tg.jit(extend, donate="cache", device=device)
    _, state = function(start(), row(1), 1)
    _, other = function(start(), row(2), 2)
    total, state = function(state, row(3), 3)
    np.testing.assert_allclose(np.asarray(total), row(1) + row(3))
    total, other = function(other, row(4), 4)
    np.testing.assert_allclose(np.asarray(total), row(2) + row(4))
    assert np.asarray(state["keys"])[3].tolist() == row(3).tolist()


def test_arrays_that_change_places_are_read_first() -> None:
    function: Any = tg.jit(lambda a, b: (a + 1, b + 10), donate=("a", "b"), device="cpu")
    a, b = function(np.zeros(2, np.float32), np.ones(2, np.float32))
    b, a = function(b, a)
    assert (np.asarray(b).tolist(), np.asarray(a).tolist()) == ([12.0, 12.0], [11.0, 11.0])


def test_an_error_keeps_the_state() -> None:
    function: Any = tg.jit(extend, donate="cache", device="cpu")
    _, cache = function(start(), row(1), 1)
    with pytest.raises(tg.errors.TensorgradError):
        function(cache, np.zeros(7, np.float32), 1)
    total, cache = function(cache, row(2), 2)
    np.testing.assert_allclose(np.asarray(total), row(1) + row(2))


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="donate argument 'other' is none of"):
        tg.jit(extend, donate="other")
    with pytest.raises(OptionError, match="is static, which has no memory"):
        tg.jit(extend, donate="at", static="at")
    with pytest.raises(OptionError, match="donate must be names"):
        wrong: Any = 3
        tg.jit(extend, donate=wrong)
    function: Any = tg.jit(lambda x: tg.sum(x), donate="x", device="numpy")
    with pytest.raises(OptionError, match=r"no result of .* takes the place of 'x', of shape \(3,\) and dtype f32"):
        function(np.zeros(3, np.float32))
