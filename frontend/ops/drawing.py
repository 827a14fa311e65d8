"""Samples large arrays of random numbers from one key: in cache-sized blocks, on all cores, by native code.

The numbers are bit-identical to those of the ops of `tensorgrad.ops.random`. A word depends only on its own position,
so blocks are independent of one another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.dialects.tg.random import PARITY, ROTATIONS, ErfinvOp
from tensorgrad.ops.native_drawing import LANES, NativeDrawing, native_drawing
from tensorgrad.runtime.cpu.threads import thread_count

Block: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Finish: TypeAlias = Callable[[Block, "NativeDrawing | None"], Block]
"""Converts words to the requested numbers, by native code if available, possibly in place."""

BLOCK = 1 << 15
"""Words in a block: the working set of a round fits into the second-level cache."""

LEAST_NATIVE = 1 << 21
"""Native code is loaded once this many numbers have been sampled, which numpy does in the time that loading takes."""


class _Drawn:
    """How many random numbers this process has sampled."""

    count = 0

    @classmethod
    def native(cls, size: int) -> NativeDrawing | None:
        """Returns native code for sampling `size` more numbers, if it is available and saves time."""
        cls.count += size
        return native_drawing() if cls.count >= LEAST_NATIVE else None


def bits(key: Block, shape: tuple[int, ...]) -> Block:
    """Returns the words of one key's counters, in order, as an array of u32."""
    return _draw(key, shape, np.dtype(np.uint32), lambda words, native: words)


def uniform(key: Block, shape: tuple[int, ...], least: float, span: float) -> Block:
    """Returns uniform f32 numbers: see `random.uniform`, which has the same bounds."""

    def finish(words: Block, native: NativeDrawing | None) -> Block:
        return native.uniforms(words, least, span) if native else _uniform(words, least, span)

    return _draw(key, shape, np.dtype(np.float32), finish)


def normal(key: Block, shape: tuple[int, ...], deviation: float = 1.0, mean: float = 0.0) -> Block:
    """Returns the normally distributed f32 numbers of `random.normal`, scaled and shifted."""

    def finish(words: Block, native: NativeDrawing | None) -> Block:
        result = native.normals(words) if native else _normal(words)
        if (deviation, mean) != (1.0, 0.0):
            result *= np.float32(deviation)
            result += np.float32(mean)
        return result

    return _draw(key, shape, np.dtype(np.float32), finish)


def _draw(key: Block, shape: tuple[int, ...], dtype: np.dtype[Any], finish: Finish) -> Block:
    """Returns an array of the results of `finish` on the words of a key's counters, computed on several threads."""
    numbers = np.empty(math.prod(shape), dtype)
    first, second = np.uint32(key[0]), np.uint32(key[1])
    native = _Drawn.native(numbers.size)

    def fill(start: int) -> None:
        block = numbers[start : start + BLOCK]
        if native is None:
            words = _words(first, second, start, start + block.size)
        else:
            rest = -block.size % LANES
            words = np.empty(block.size + rest, np.uint32) if rest else block.view(np.uint32)
            native.words(words, int(first), int(second), start)
        with np.errstate(all="ignore"):
            drawn = finish(words, native)[: block.size]
        if drawn.ctypes.data != block.ctypes.data:
            block[:] = drawn

    def fill_all(starts: range) -> None:
        for start in starts:
            fill(start)

    starts = range(0, numbers.size, BLOCK)
    if len(starts) > 1:
        parts = min(thread_count(), len(starts))
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(fill_all, (starts[part::parts] for part in range(parts))))
    else:
        fill_all(starts)
    return numbers.reshape(shape)


def _words(first: np.uint32, second: np.uint32, start: int, end: int) -> Block:
    """Returns the words of the counters from `start` on: the exclusive or of both words of each encrypted pair."""
    keys = (first, second, first ^ second ^ np.uint32(PARITY))
    y = np.arange(start, end, dtype=np.uint32)
    y += second
    x, high = np.full_like(y, first), np.empty_like(y)
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x += y
            np.left_shift(y, np.uint32(rotation), out=high)
            y >>= np.uint32(32 - rotation)
            y |= high
            y ^= x
        x += keys[(group + 1) % 3]
        y += keys[(group + 2) % 3]
        y += np.uint32(group + 1)
    x ^= y
    return x


def _uniform(words: Block, least: float, span: float) -> Block:
    low, extent = np.float32(least), np.float32(span)
    words &= np.uint32(0xFFFFFE00)
    floats = words.astype(np.float32)
    floats *= np.float32(2.0**-32)
    if least == 0:
        return floats if span == 1 else np.multiply(floats, extent, out=floats)
    floats *= extent
    floats += low
    return np.maximum(low, floats, out=floats)


def _normal(words: Block) -> Block:
    above_minus_one = np.nextafter(np.float32(-1), np.float32(0))
    result = ErfinvOp.function(_uniform(words, float(above_minus_one), float(np.float32(1) - above_minus_one)))
    result *= np.float32(math.sqrt(2))
    return result
