"""How reductions are unrolled, and which are exact."""

from __future__ import annotations

from xdsl.dialects import arith

ACCUMULATORS = 4
"""The most independent accumulators of a reduction."""

EXACT = (arith.AddiOp, arith.MaximumfOp, arith.MinimumfOp, arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp)
"""The ops that return the bits of any value that they combine with their identity; a sum of 0 and -0 is 0."""


def accumulators(steps: int, most: int = ACCUMULATORS) -> int:
    """Returns the number of accumulators of an unrolled reduction: a power of two, as they are folded by halves."""
    return min(most, 1 << steps.bit_length() - 1)
