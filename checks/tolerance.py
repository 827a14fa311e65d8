"""Tolerances for comparing a value with one that is computed differently, derived from the program itself.

A tolerance is a multiple of the reference's error in f32 against f64, and at least the error of an elementary
function.
"""

from __future__ import annotations

import numpy as np

from tensorgrad.dialects.short_floats import UNIT_ROUNDOFF
from tensorgrad.dialects.tg.base import NumpyArray

FACTOR = 8.0
"""The factor on the reference's f32 error that a different order of operations may reach."""

SEVERAL = 64
"""The roundings that the error of several elementary functions amounts to."""

LEAST = SEVERAL * 2.0**-23
"""The minimum tolerance, relative to the largest element of a result: 64 ulp, that of several elementary functions."""

FEW = 16
"""Results with fewer elements get four times `LEAST`: the errors of a few sums may all be small by chance."""

NOTHING = 1e-8
"""A value that counts as zero among values of magnitude one: the error of a difference that cancels."""

SHORT = {"float16": SEVERAL * UNIT_ROUNDOFF["f16"], "bfloat16": SEVERAL * UNIT_ROUNDOFF["bf16"]}
"""Like `LEAST`, for values that are rounded to a short float, by its name in NumPy."""


def least_of(size: int) -> float:
    """Returns the minimum tolerance of a result with this many elements, relative to the largest one."""
    return 4 * LEAST if size < FEW else LEAST


def is_float(value: NumpyArray) -> bool:
    """Returns whether elements are floats; NumPy has no kind for bf16."""
    return value.dtype.kind == "f" or value.dtype.name in SHORT


def slack(value: NumpyArray, wide: NumpyArray, least: float = LEAST) -> float:
    """Returns the tolerance of elements, see the module docstring; NaN if none can be given.

    Args:
        value: The reference.
        wide: The same value in f64.
        least: `LEAST`, or one of `SHORT`.
    """
    if not is_float(value):
        return 0.0 if np.array_equal(value, wide) else np.nan
    finite = np.isfinite(value) & np.isfinite(wide)
    if not finite.any():
        return np.nan
    finite_value, exact = value[finite].astype(np.float64), wide[finite].astype(np.float64)
    return max(FACTOR * float(np.abs(finite_value - exact).max()), least * float(np.abs(exact).max()), NOTHING)
