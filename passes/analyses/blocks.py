"""Splitting of extents into blocks."""

from __future__ import annotations


def rounded_up(extent: int, block: int) -> int:
    """Returns an extent, a size or an offset rounded up to whole blocks, or to an alignment."""
    return -(-extent // block) * block


def evenest(extent: int, most: int, overhead: int = 0) -> int:
    """Returns the largest block in [2/3 `most`, `most`] that leaves the smallest padding at the end.

    Args:
        extent: The extent.
        most: The longest block.
        overhead: How many lines more than it has a block takes the time of: with one, few lines of padding are better
            than shorter blocks.
    """
    least = max(most * 2 // 3, 1)
    return min(
        extent, min(range(least, most + 1), key=lambda block: (-(-extent // block) * (block + overhead), -block))
    )
