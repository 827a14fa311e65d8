"""Random numbers on the host, from keys: Threefry-2x32 in the layout of JAX's partitionable generator.

A key is an array of two uint32. Nothing has a hidden state: the same key gives the same numbers, on every machine, and
`fold_in` and `split` make new keys. Numbers agree with `jax.random` under `jax_threefry_partitionable=True`: bits and
`uniform` exactly, `normal` to rounding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.errors import OptionError

Key: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)

# The inverse error function, by Giles: polynomials in w = -log(1 - x²), near the middle and in the tails.
_MIDDLE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def threefry(key: Key, high: Words, low: Words) -> tuple[Words, Words]:
    """Encrypts pairs of words by a key: 20 rounds of Threefry-2x32."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x, y = high + keys[0], low + keys[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y = y ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def key(seed: int) -> Key:
    """The key of a seed.

    Args:
        seed: Any integer; its low 64 bits count.

    Raises:
        OptionError: It is no integer.
    """
    number = _integer("seed", seed)
    return np.array([number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF], np.uint32)


def fold_in(key: Key, data: int) -> Key:
    """A new key from a key and a number, of which the low 32 bits count."""
    number = _integer("data", data)
    words = threefry(_checked(key), np.zeros(1, np.uint32), np.array([number & 0xFFFFFFFF], np.uint32))
    return np.concatenate(words)


def split(key: Key, count: int = 2) -> Key:
    """Independent new keys from one, as the rows of an array."""
    return np.stack(threefry(_checked(key), *_positions(_integer("count", count))), axis=-1)


def bits(key: Key, shape: int | Sequence[int] = ()) -> Words:
    """Uniformly random uint32 words."""
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    high, low = threefry(_checked(key), *_positions(math.prod(extents)))
    return (high ^ low).reshape(extents)


def uniform(
    key: Key, shape: int | Sequence[int] = (), low: float = 0.0, high: float = 1.0
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Uniformly random f32 in `[low, high)`.

    Raises:
        OptionError: The bounds are not finite, or not in order.
    """
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise OptionError(f"uniform: bounds must be finite and in order, got {low} and {high}")
    least, most = np.float32(low), np.float32(high)
    mantissas = (bits(key, shape) >> np.uint32(9)) | np.uint32(0x3F800000)
    unit = mantissas.view(np.float32) - np.float32(1)
    return np.asarray(np.maximum(least, unit * (most - least) + least))


def normal(key: Key, shape: int | Sequence[int] = ()) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Normally distributed f32 of mean 0 and standard deviation 1."""
    lowest = np.nextafter(np.float32(-1), np.float32(0))
    return np.asarray(np.float32(np.sqrt(2)) * _inverse_erf(uniform(key, shape, float(lowest), 1.0)))


def _inverse_erf(x: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    w = -np.log1p(-x * x)
    middle = w < 5
    shifted = np.where(middle, w - np.float32(2.5), np.sqrt(w) - np.float32(3)).astype(np.float32)
    result = np.zeros_like(shifted)
    for near, far in zip(_MIDDLE, _TAIL, strict=True):
        result = result * shifted + np.where(middle, np.float32(near), np.float32(far))
    return result * x


def _positions(count: int) -> tuple[Words, Words]:
    """The numbers below `count`, as high and low words."""
    numbers = np.arange(count, dtype=np.uint64)
    return (numbers >> np.uint64(32)).astype(np.uint32), (numbers & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _integer(what: str, value: int) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise OptionError(f"{what} must be an integer, got {value!r}")


def _checked(key: Key) -> Key:
    if not isinstance(key, np.ndarray) or key.shape != (2,) or key.dtype != np.uint32:
        raise OptionError(f"a key is an array of two uint32, such as tg.random.key(0) gives; got {key!r}")
    return key
