"""Ranges that are live at the same time don't share bytes, whatever their sizes, lifetimes and alignment."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tensorgrad.passes.buffers.plan_memory.arenas import ArenaLayout, Range, by_lifetime, least_bytes, side_by_side

STEPS = 12
ALIGNMENTS = st.sampled_from((1, 4, 16, 256))
LIMITS = st.sampled_from((1, 300, 1000, 1 << 20))
SIZES = st.one_of(st.integers(1, 40), st.integers(200, 600))


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    first, last = sorted((draw(st.integers(0, STEPS - 1)), draw(st.integers(0, STEPS - 1))))
    return Range(draw(SIZES), first, last)


def check_places(layout: ArenaLayout, sizes: list[int], alignment: int, limit: int) -> None:
    """Checks that every range is aligned and inside its arena, and that arenas stay within the limit."""
    assert len(layout.places) == len(sizes)
    for (arena, start), size in zip(layout.places, sizes, strict=True):
        assert start % alignment == 0
        assert start + size <= layout.sizes[arena]
    for number, size in enumerate(layout.sizes):  # a range that is larger than the limit has an arena of its own
        assert size <= max(
            limit, *(extent for extent, place in zip(sizes, layout.places, strict=True) if place[0] == number)
        )


@given(st.lists(ranges(), max_size=16))
def test_the_least_bytes_are_those_of_the_fullest_step(lives: list[Range]) -> None:
    live = [sum(life.size for life in lives if life.first <= step <= life.last) for step in range(STEPS)]
    assert least_bytes(lives) == max(live)


@given(st.lists(ranges(), max_size=16), ALIGNMENTS, LIMITS)
def test_each_byte_has_one_owner_at_each_step(lives: list[Range], alignment: int, limit: int) -> None:
    layout = by_lifetime(lives, alignment, limit)
    check_places(layout, [life.size for life in lives], alignment, limit)
    for step in range(STEPS):
        live = [
            (*place, life.size)
            for place, life in zip(layout.places, lives, strict=True)
            if life.first <= step <= life.last
        ]
        for (arena, start, size), (other, begin, _) in itertools.pairwise(sorted(live)):
            assert arena != other or start + size <= begin, f"two ranges share bytes at step {step}"
        assert sum(size for *_, size in live) <= least_bytes(lives) <= sum(layout.sizes)


@given(st.lists(SIZES, max_size=16), ALIGNMENTS, LIMITS)
def test_side_by_side_nothing_is_shared(sizes: list[int], alignment: int, limit: int) -> None:
    layout = side_by_side(sizes, alignment, limit)
    check_places(layout, sizes, alignment, limit)
    spans = sorted((*place, size) for place, size in zip(layout.places, sizes, strict=True))
    for (arena, start, size), (other, begin, _) in itertools.pairwise(spans):
        assert arena != other or start + size <= begin
