"""How far a value may be off that is computed in another way: it follows from the program itself.

That is a few times as far as the reference in f32 is off the one in f64, and never less than what an elementary
function may be off.
"""

from __future__ import annotations

import numpy as np

from tensorgrad.dialects.tg.base import NumpyArray

FACTOR = 8.0
"""How many times as far as f32 is off f64 in the reference may another order of its operations be off?"""

LEAST = 64 * 2.0**-23
"""How far a result may be off in any case, relative to its largest element: 64 ulp, several elementary functions'."""

NOTHING = 1e-8
"""What is as good as zero where values are of the size of one: a difference that cancels is off by that much."""

HALF = 64 * 2.0**-11
"""The same as `LEAST` where values between kernels are rounded to f16."""


def slack(value: NumpyArray, wide: NumpyArray, least: float = LEAST) -> float:
    """Returns how far elements may be off: see the head of this module; NaN where nothing can be said.

    Args:
        value: The reference.
        wide: The same in f64.
        least: `LEAST`, or `HALF`.
    """
    if value.dtype.kind != "f":
        return 0.0 if np.array_equal(value, wide) else np.nan
    finite = np.isfinite(value) & np.isfinite(wide)
    if not finite.any():
        return np.nan
    kept, exact = value[finite].astype(np.float64), wide[finite].astype(np.float64)
    return max(FACTOR * float(np.abs(kept - exact).max()), least * float(np.abs(exact).max()), NOTHING)
