"""Reductions of the arrays of several ranks in rank order, which give the same bits wherever they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.plan import HOST_DTYPES

Array = np.ndarray[Any, np.dtype[Any]]

COMBINED_BY: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""The combiner of each reduction. `np.maximum` and `np.minimum` propagate NaN; for bools they are `or` and `and`."""

DTYPE_NAMES = {np.dtype(dtype): name for name, dtype in HOST_DTYPES.items()}
"""The tensorgrad names of the dtypes that can be reduced."""

ELEMENTWISE = ("sum", "prod", "max", "min")

REDUCTIONS_OF = {"f": (*ELEMENTWISE, "mean"), "i": ELEMENTWISE, "u": ELEMENTWISE, "b": ("max", "min")}
"""The reductions supported for each numpy dtype kind."""

_BLOCK = 1 << 15
"""The number of elements to reduce over all ranks before the next ones, so that partial sums stay in cache."""


def reduce_in_rank_order(parts: Array, reduction: str, out: Array) -> None:
    """Reduces the ranks' arrays in order: `((part 0 + part 1) + part 2) + …`, for a mean times 1/ranks.

    Floats of 16 bits are accumulated in f32 and rounded once. Integers wrap around.

    Args:
        parts: One row per rank; of shape (ranks, elements).
        reduction: A name of `COMBINED_BY`.
        out: Receives the result; of shape (elements,) and the parts' dtype.
    """
    for start in range(0, out.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        _reduce_block(parts[:, block], reduction, out[block])


def _reduce_block(parts: Array, reduction: str, out: Array) -> None:
    is_half = kind_of(out.dtype) == "f" and out.dtype.itemsize == 2
    total = np.empty(out.size, np.float32) if is_half else out
    with np.errstate(all="ignore"):
        # The first two are combined in one pass, which is all that two ranks need.
        if len(parts) == 1:
            np.copyto(total, parts[0])
        else:
            COMBINED_BY[reduction](parts[0], parts[1], out=total, dtype=total.dtype)
        for part in parts[2:]:
            COMBINED_BY[reduction](total, part, out=total)
        if reduction == "mean":
            np.multiply(total, total.dtype.type(1 / len(parts)), out=total)
        if is_half:
            np.copyto(out, total, casting="unsafe")  # NumPy has no kind for bf16
