"""Floats that are moved as rounding might move them: how far a result moves then says how far it may be off.

Parker's Monte Carlo arithmetic: relative errors at random, but equal for equal values, so that what is equal by
construction stays so (D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997).
"""

from __future__ import annotations

import numpy as np

from tensorgrad.interpreters.scalars import Array

MOVE = 4 * 2.0**-23
"""The largest relative error that is put in: f32's rounding, and what the builtins of devices may lose."""


def moved(array: Array, seed: int) -> Array:
    """Returns an array of f64 with relative errors up to `MOVE`, which follow from its bits and the seed."""
    with np.errstate(all="ignore"):
        bits = np.ascontiguousarray(array).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9 + 2 * seed)
        share = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        return np.asarray(array * (1.0 + MOVE * share.reshape(array.shape)))


def moved_sum(total: Array, size: Array, seed: int) -> Array:
    """Returns sums with errors that follow from the sum of their terms' sizes: partial sums may be as large."""
    return total + (moved(size, seed) - size)
