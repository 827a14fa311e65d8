"""Perturbs floats like rounding errors; how far a result moves then estimates its error.

Parker's Monte Carlo arithmetic: the relative errors are random, but equal for equal values, so that values that are
equal by construction stay equal (D. S. Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997).
"""

from __future__ import annotations

import numpy as np

from tensorgrad.interpreters.scalars import Array

LARGEST = 4 * 2.0**-23
"""The largest relative perturbation: f32 rounding, and the error of device builtins."""


def perturbed(array: Array, seed: int) -> Array:
    """Returns an f64 array with relative errors of up to `LARGEST`, determined by its bits and the seed."""
    with np.errstate(all="ignore"):
        bits = np.ascontiguousarray(array).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9 + 2 * seed)
        share = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        return np.asarray(array * (1.0 + LARGEST * share.reshape(array.shape)))


def perturbed_sum(total: Array, size: Array, seed: int) -> Array:
    """Returns sums with errors relative to the sum of their terms' magnitudes, which bounds partial sums."""
    return total + (perturbed(size, seed) - size)
