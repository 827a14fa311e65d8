"""Sampling of large arrays in native code: the same bits as the ops, in blocks and threads, and fixed over time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorgrad.dialects.tg.random import ErfinvOp, threefry
from tensorgrad.errors import DeviceError
from tensorgrad.nn import initializers
from tensorgrad.ops import drawing, random
from tensorgrad.ops import native_drawing as native_drawing_module
from tensorgrad.ops.native_drawing import LANES, native_drawing

DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "bits": random.bits,
    "uniform": random.uniform,
    "uniform within bounds": lambda key, shape: random.uniform(key, shape, -0.3, 1.7),
    "uniform from one": lambda key, shape: random.uniform(key, shape, 1, 1.5),
    "uniform from zero": lambda key, shape: random.uniform(key, shape, 0, 0.25),
    "normal": random.normal,
}
SHAPES = [(), (0,), (1,), (7,), (3, 5), (1023,), (drawing.BLOCK,), (drawing.BLOCK + 1,), (3, 65537)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DRAWS)
def test_one_key_draws_what_the_ops_draw(name: str, shape: tuple[int, ...]) -> None:
    for seed in (0, 12345678901):
        key = np.asarray(random.key(seed))
        at_once = np.asarray(DRAWS[name](key, shape))
        by_ops = np.asarray(DRAWS[name](key[None], shape))[0]  # keys with leading axes are a program's
        assert at_once.shape == shape and at_once.dtype == by_ops.dtype
        assert at_once.tobytes() == by_ops.tobytes()


def test_native_code_draws_the_bits_of_numpy() -> None:
    native = native_drawing()
    assert native
    words = np.empty(4 * LANES, np.uint32)
    for first, second, start in ((0, 0, 0), (1, 0xFFFFFFFF, 0xFFFFFFF0), (0x9E3779B9, 2, 12345)):
        native.words(words, first, second, start)
        counters = (np.arange(words.size) + start).astype(np.uint32)
        key = np.full_like(words, first), np.full_like(words, second)
        assert (words == np.bitwise_xor(*threefry(*key, np.zeros_like(words), counters))).all()


def test_every_normal_number_has_the_bits_of_the_ops() -> None:
    native = native_drawing()
    assert native
    least = np.nextafter(np.float32(-1), np.float32(0))
    for start in range(0, 1 << 23, 1 << 20):  # the 23 bits that count of a word
        words = np.arange(start, start + (1 << 20), dtype=np.uint32) << np.uint32(9)
        uniform = words.astype(np.float32) * np.float32(2.0**-32) * (np.float32(1) - least) + least
        expected = ErfinvOp.function(uniform) * np.float32(math.sqrt(2))
        assert native.normals(words).tobytes() == expected.tobytes()


def test_native_code_is_loaded_once_enough_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(drawing, "native_drawing", lambda: asked.append(1))
    monkeypatch.setattr(drawing._Drawn, "count", 0)
    for size in (1000, drawing.LEAST_NATIVE - 1001):
        np.asarray(random.normal(random.key(1), size))
    assert not asked
    np.asarray(random.normal(random.key(1), 1))
    assert asked


def test_small_and_large_draws_begin_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in DRAWS.values():
        large = np.asarray(draw(random.key(1), drawing.LEAST_NATIVE + 5))
        monkeypatch.setattr(drawing, "native_drawing", lambda: None)
        assert np.asarray(draw(random.key(1), drawing.LEAST_NATIVE + 5)).tobytes() == large.tobytes()
        monkeypatch.undo()
        assert np.asarray(draw(random.key(1), 1001)).tobytes() == large[:1001].tobytes()


def test_without_native_code_numpy_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*texts: str) -> None:
        raise DeviceError("no code generator")

    monkeypatch.setattr(native_drawing_module, "NativeCode", refuse)
    native_drawing.cache_clear()
    assert native_drawing() is None
    native_drawing.cache_clear()


RECORDED = {
    "normal (300, 301) f32": "8b7b2ec5ee26fe2e",
    "normal (300, 301) f64": "726079e6f069b9a3",
    "truncated_normal (65537,) f32": "c80373eeddb1e0ed",
    "glorot_uniform (300, 301) f16": "efa725eaf5118ef0",
    "erfinv": "9c699f52f562db7d",
}


def _drawn(name: str) -> np.ndarray:
    key = random.key(12345678901)
    if name == "erfinv":
        return np.asarray(random.erfinv(np.linspace(-1.2, 1.2, 100001).astype(np.float32)))
    return {
        "normal (300, 301) f32": lambda: initializers.normal(0.02)(key, (300, 301), np.dtype(np.float32)),
        "normal (300, 301) f64": lambda: initializers.normal(0.02)(key, (300, 301), np.dtype(np.float64)),
        "truncated_normal (65537,) f32": lambda: initializers.truncated_normal(0.02)(
            key, (65537,), np.dtype(np.float32)
        ),
        "glorot_uniform (300, 301) f16": lambda: initializers.glorot_uniform(key, (300, 301), np.dtype(np.float16)),
    }[name]()


@pytest.mark.parametrize("name", RECORDED)
def test_the_bits_are_those_of_earlier_versions(name: str) -> None:
    assert hashlib.sha256(_drawn(name).tobytes()).hexdigest()[:16] == RECORDED[name]
