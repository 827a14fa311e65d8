"""Random keys that the host makes for each step: Threefry-2x32, as in `tg.random`, kept small enough for a web page."""

from __future__ import annotations

from typing import TypeAlias

Key: TypeAlias = tuple[int, int]
"""Two 32-bit words."""

WORD = 0xFFFFFFFF
_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def key(seed: int) -> Key:
    """Returns the key of a seed, of which only the low 64 bits count; see `tg.random.key`."""
    return seed >> 32 & WORD, seed & WORD


def fold_in(key: Key, data: int) -> Key:
    """Returns a new key from a key and a number, of which only the low 32 bits count; see `tg.random.fold_in`."""
    schedule = (*key, key[0] ^ key[1] ^ _PARITY)
    x, y = schedule[0], (data & WORD) + schedule[1] & WORD
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y & WORD
            y = (y << rotation | y >> 32 - rotation) & WORD ^ x
        x = x + schedule[(group + 1) % 3] & WORD
        y = y + schedule[(group + 2) % 3] + group + 1 & WORD
    return x, y
