"""Reductions of the arrays of several ranks, in rank order: the same bits wherever they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.runtime.plan import HOST_DTYPES

Array = np.ndarray[Any, np.dtype[Any]]

COMBINED_BY: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""By reduction, what combines two arrays. `np.maximum` and `np.minimum` hand NaN on; of bools they are or, and and."""

DTYPE_NAMES = {np.dtype(dtype): name for name, dtype in HOST_DTYPES.items()}
"""The short names of the dtypes that can be reduced."""

ELEMENTWISE = ("sum", "prod", "max", "min")

REDUCTIONS_OF = {"f": (*ELEMENTWISE, "mean"), "i": ELEMENTWISE, "u": ELEMENTWISE, "b": ("max", "min")}
"""By the kind of a dtype, the reductions that it has."""

_BLOCK = 1 << 15
"""Elements that are reduced over all ranks before the next ones, so that partial sums stay in the cache."""


def reduce_in_rank_order(parts: Array, reduction: str, out: Array) -> None:
    """Writes the reduction of the ranks' arrays: `((part 0 + part 1) + part 2) + …`, and for a mean times 1/ranks.

    f16 is reduced in f32 and rounded once. Integers wrap around.

    Args:
        parts: A row for each rank; of shape (ranks, elements).
        reduction: A name of `COMBINED_BY`.
        out: Takes the result; of shape (elements,) and the parts' dtype.
    """
    for start in range(0, out.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        _reduce_block(parts[:, block], reduction, out[block])


def _reduce_block(parts: Array, reduction: str, out: Array) -> None:
    is_half = out.dtype == np.float16
    total = np.empty(out.size, np.float32) if is_half else out
    with np.errstate(all="ignore"):
        # The first two are read and written once, which is all there is for two ranks.
        if len(parts) == 1:
            np.copyto(total, parts[0])
        else:
            COMBINED_BY[reduction](parts[0], parts[1], out=total, dtype=total.dtype)
        for part in parts[2:]:
            COMBINED_BY[reduction](total, part, out=total)
        if reduction == "mean":
            np.multiply(total, total.dtype.type(1 / len(parts)), out=total)
        if is_half:
            np.copyto(out, total, casting="same_kind")
