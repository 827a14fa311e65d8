"""Draws large arrays of random numbers from one key: in blocks that stay in caches, on all cores.

The numbers are those that the ops of `tensorgrad.ops.random` give one after another, to the last bit: every step is the
same ufunc on the same dtype. A word depends on its own position alone, so blocks are independent of one another.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.dialects.tg.random import PARITY, ROTATIONS, ErfinvOp

Block: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Finish: TypeAlias = Callable[[Block], Block]
"""Makes a block's words, which it may write over, the numbers wanted."""

BLOCK = 1 << 15
"""Words in a block: what a round touches stays in the second-level cache."""

TABLE_BITS = 23
"""A uniform number has so many random bits; a normal one is a function of them."""

LEAST_TABLED = 1 << 22
"""Draws of so many normal numbers look them up: making the table costs about as much as this."""


def draw(key: Block, shape: tuple[int, ...], finish: Finish, dtype: np.dtype[Any]) -> Block:
    """Returns an array whose elements are `finish` of the words of a key's counters, in order.

    Args:
        key: The two words of one key.
        shape: The array's shape.
        finish: Called with blocks of u32, on several threads.
        dtype: That of what `finish` gives.
    """
    found = np.empty(math.prod(shape), dtype)
    first, second = np.uint32(key[0]), np.uint32(key[1])

    def fill(start: int) -> None:
        end = min(start + BLOCK, found.size)
        with np.errstate(all="ignore"):
            found[start:end] = finish(_words(first, second, start, end))

    starts = range(0, found.size, BLOCK)
    if len(starts) > 1:
        with ThreadPoolExecutor(_cores()) as pool:
            list(pool.map(fill, starts))
    else:
        list(map(fill, starts))
    return found.reshape(shape)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(first: np.uint32, second: np.uint32, start: int, end: int) -> Block:
    """Returns the words of the counters from `start` on: both words of the encrypted pairs by exclusive or."""
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


def uniform(least: float, span: float) -> Finish:
    """Returns what makes words uniform f32 numbers: see `random.uniform`, whose bounds these are."""
    low, extent = np.float32(least), np.float32(span)

    def finish(words: Block) -> Block:
        words &= np.uint32(0xFFFFFE00)
        found = words.astype(np.float32)
        found *= np.float32(2.0**-32)
        if least == 0:
            return found if span == 1 else np.multiply(found, extent, out=found)
        found *= extent
        found += low
        return np.maximum(low, found, out=found)

    return finish


def normal(size: int) -> Finish:
    """Returns what makes words normally distributed f32 numbers: see `random.normal`; for draws of so many."""
    if size < LEAST_TABLED:
        return _normal
    table = _table()

    def finish(words: Block) -> Block:
        words >>= np.uint32(32 - TABLE_BITS)
        return table[words]

    return finish


def _normal(words: Block) -> Block:
    above_minus_one = np.nextafter(np.float32(-1), np.float32(0))
    found = ErfinvOp.function(uniform(float(above_minus_one), float(np.float32(1) - above_minus_one))(words))
    found *= np.float32(math.sqrt(2))
    return found


@lru_cache(1)
def _table() -> Block:
    """Returns the normal number of every uniform one."""
    found = np.empty(1 << TABLE_BITS, np.float32)

    def fill(start: int) -> None:
        words = np.arange(start, start + BLOCK, dtype=np.uint32)
        words <<= np.uint32(32 - TABLE_BITS)
        with np.errstate(all="ignore"):
            found[start : start + BLOCK] = _normal(words)

    with ThreadPoolExecutor(_cores()) as pool:
        list(pool.map(fill, range(0, found.size, BLOCK)))
    return found


def release() -> None:
    """Frees what is kept from one draw to the next: 32 MB behind a large one."""
    _table.cache_clear()
