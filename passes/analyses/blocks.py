"""Splitting of extents into blocks."""

from __future__ import annotations


def rounded_up(extent: int, block: int) -> int:
    """Returns an extent, a size or an offset rounded up to whole blocks, or to an alignment."""
    return -(-extent // block) * block


def evenest(extent: int, most: int) -> int:
    """Returns the largest block in [2/3 `most`, `most`] that leaves the smallest padding at the end."""
    return _least(extent, most, 0)


def fastest(extent: int, most: int) -> int:
    """Returns the block in [2/3 `most`, `most`] whose blocks take the least time to cover an extent.

    A block takes as long as one line more than it has: what all of its lines share is loaded for each block.
    """
    return _least(extent, most, 1)


def _least(extent: int, most: int, cost: int) -> int:
    """Returns the largest of the best blocks; each costs as much as some lines more than it has."""
    least = max(most * 2 // 3, 1)
    return min(extent, min(range(least, most + 1), key=lambda block: (-(-extent // block) * (block + cost), -block)))
