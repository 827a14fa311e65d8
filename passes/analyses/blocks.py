"""Extents cut into blocks."""

from __future__ import annotations


def rounded_up(extent: int, block: int) -> int:
    """Returns the extent of the whole blocks that cover another one."""
    return -(-extent // block) * block


def evenest(extent: int, most: int) -> int:
    """Returns the largest block, of two thirds of `most` to `most`, that leaves the fewest over at the end."""
    least = max(most * 2 // 3, 1)
    return min(extent, min(range(least, most + 1), key=lambda one: (rounded_up(extent, one), -one)))
