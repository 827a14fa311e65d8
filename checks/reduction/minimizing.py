"""Delta debugging: a minimal failing subset (Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimized(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Returns a subset of the items that still fails, from which no single item can be removed.

    Args:
        items: The items; all of them together fail, which is not tested.
        fails: Returns whether some items, in their order, fail.
    """
    remaining = list(items)
    if not remaining or fails([]):
        return []
    parts = 2
    while len(remaining) > 1:
        size = -(-len(remaining) // parts)
        starts = range(0, len(remaining), size)
        chunks = [remaining[start : start + size] for start in starts]
        rests = [remaining[:start] + remaining[start + size :] for start in starts] if len(chunks) > 2 else []
        smaller = next(((some, 2) for some in chunks if fails(some)), None)
        smaller = smaller or next(((some, max(parts - 1, 2)) for some in rests if fails(some)), None)
        if smaller is not None:
            remaining, parts = smaller
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(remaining))
    return remaining


def spread(count: int) -> list[int]:
    """Returns the numbers below a count, the middle first, then the quarters, and so on."""
    order, spans = list[int](), [(0, count)]
    for low, high in spans:  # grows as it is walked
        if low < high:
            middle = (low + high) // 2
            order.append(middle)
            spans += [(low, middle), (middle + 1, high)]
    return order
