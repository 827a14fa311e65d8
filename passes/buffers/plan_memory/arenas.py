"""Lays out ranges in arenas: side by side, or overlapping where lifetimes are disjoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorgrad.passes.analyses.blocks import rounded_up


@dataclass(frozen=True)
class Range:
    """Bytes that are live from step `first` of the order to step `last`, inclusive."""

    size: int
    first: int
    last: int

    def overlaps(self, other: Range) -> bool:
        """Returns whether both are live at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass
class ArenaLayout:
    """The arena and offset of each range, and the sizes of the arenas."""

    places: list[tuple[int, int]]
    sizes: list[int] = field(default_factory=list[int])


def side_by_side(sizes: Sequence[int], alignment: int, limit: int) -> ArenaLayout:
    """Places ranges one after another, each in the last arena if that stays within `limit` bytes, else in a new one."""
    layout = ArenaLayout([])
    for size in sizes:
        start = rounded_up(layout.sizes[-1], alignment) if layout.sizes else 0
        if not layout.sizes or start + size > limit:
            layout.sizes.append(0)
            start = 0
        layout.places.append((len(layout.sizes) - 1, start))
        layout.sizes[-1] = start + size
    return layout


def by_lifetime(ranges: Sequence[Range], alignment: int, limit: int) -> ArenaLayout:
    """Lets ranges overlap where their lifetimes are disjoint: largest first, each at the lowest free offset.

    Greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020.
    """
    layout = ArenaLayout([(0, 0)] * len(ranges))
    placed: list[int] = []
    # Small ranges fit into the gaps between large ones; placed first, they would scatter these.
    for number in sorted(range(len(ranges)), key=lambda i: (-ranges[i].size, ranges[i].first)):
        range_ = ranges[number]
        busy = [(*layout.places[other], ranges[other].size) for other in placed if ranges[other].overlaps(range_)]
        arena, offset = _lowest(busy, range_.size, alignment, limit)
        layout.places[number] = (arena, offset)
        placed.append(number)
        while len(layout.sizes) <= arena:
            layout.sizes.append(0)
        layout.sizes[arena] = max(layout.sizes[arena], offset + range_.size)
    return layout


def _lowest(busy: Sequence[tuple[int, int, int]], size: int, alignment: int, limit: int) -> tuple[int, int]:
    """Returns the first arena and offset with `size` bytes free."""
    arena = 0
    while True:
        offset = 0
        for _, start, length in sorted(entry for entry in busy if entry[0] == arena):
            if offset + size <= start:
                break
            offset = max(offset, rounded_up(start + length, alignment))
        # A range above the limit gets an arena of its own; whether a device can have it is checked elsewhere.
        if offset + size <= limit or not any(entry[0] == arena for entry in busy):
            return arena, offset
        arena += 1


def least_bytes(ranges: Sequence[Range]) -> int:
    """Returns the most bytes that are live at one step, a lower bound on any layout for this order."""
    steps = {range_.first for range_ in ranges}  # the sum grows only where a range begins
    return max((sum(r.size for r in ranges if r.first <= step <= r.last) for step in steps), default=0)
