"""Memory plans: ranges that are live at the same time are laid out apart, for all sizes, lifetimes and alignments.

The functions of `plan-memory` run unchanged on up to three ranges. A step sees only what is proved of those it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, cast

import pytest
from symbolic import Number, Path, Refuted, Theorem, explore, most, path, term, within, z3

from tensorgrad.passes.buffers.plan_memory import arenas
from tensorgrad.passes.buffers.plan_memory.arenas import ArenaLayout, Range

Busy = Sequence[tuple[int, Any, Any]]


def integers(name: str, count: int, least: int = 0) -> list[Any]:
    """Returns any integers of at least some number."""
    numbers = [path().fresh(name) for _ in range(count)]
    path().assume(*(number.term >= least for number in numbers))
    return numbers


def flat(numbers: Any) -> Any:
    return list(numbers) if isinstance(numbers, Iterator) else numbers


@pytest.fixture(autouse=True)
def merged_extremes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "max", lambda *numbers, default=0: most(*map(flat, numbers)), raising=False)


def apart(start: Any, size: Any, other: Any, length: Any) -> Theorem:
    return z3.Or(term(start + size) <= term(other), term(other + length) <= term(start))


def prove_multiple(current: Path, offset: Any, alignment: Number) -> None:
    current.prove(term(offset) >= 0, "not before the arena")
    current.prove((Number(term(offset)) % alignment).term == 0, "aligned")


def test_rounded_up() -> None:
    def run(current: Path) -> None:
        (size,), (alignment,) = integers("size", 1), integers("alignment", 1, 1)
        result: Any = arenas.rounded_up(size, alignment)
        current.prove((result % alignment).term == 0, "a multiple")
        current.prove(within(result.term, size, size + alignment - 1), "the next one")

    explore(run)


def rounded_up(size: Any, alignment: Any) -> Number:
    """Is what `rounded_up` promises."""
    result = path().fresh("aligned")
    path().assume((result % alignment).term == 0, within(result.term, size, size + alignment - 1))
    return result


@pytest.mark.parametrize("places", [(), (0,), (0, 0), (0, 1)], ids=str)
def test_lowest(places: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found is free: of the ranges in some arenas, which may overlap, none has a byte of it."""
    monkeypatch.setattr(arenas, "rounded_up", rounded_up)

    def run(current: Path) -> None:
        starts, lengths = integers("start", len(places)), integers("length", len(places), 1)
        (size, limit), (alignment,) = integers("size", 2, 1), integers("alignment", 1, 1)
        busy = list(zip(places, starts, lengths, strict=True))
        arena, offset = arenas._lowest(busy, size, alignment, limit)
        prove_multiple(current, offset, alignment)
        for other, start, length in busy:
            if other == arena:
                current.prove(apart(offset, size, start, length), "free")
                current.prove(term(offset + size) <= limit.term, "within the limit")

    explore(run)


def lowest(busy: Busy, size: Any, alignment: Any, limit: Any) -> tuple[int, Any]:
    """Is what `_lowest` promises, in one arena."""
    (offset,) = integers("offset", 1)
    path().assume(*(apart(offset, size, start, length) for _, start, length in busy))
    return 0, offset


def prove_layout(
    current: Path, layout: ArenaLayout, sizes: Sequence[Number], live: Callable[[int, int], Theorem]
) -> None:
    """Proves that ranges are in their arenas, and those that are live at the same time apart."""
    for (arena, start), size in zip(layout.places, sizes, strict=True):
        current.prove(term(start + size) <= term(layout.sizes[arena]), "within the arena")
    for first, second in combinations(range(len(sizes)), 2):
        (arena, start), (other, place) = layout.places[first], layout.places[second]
        if arena == other:
            disjoint = apart(start, sizes[first], place, sizes[second])
            current.prove(z3.Or(z3.Not(live(first, second)), disjoint), "apart")


def test_by_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order the ranges are placed."""
    monkeypatch.setattr(arenas, "_lowest", lowest)
    monkeypatch.setattr(arenas, "sorted", lambda numbers, key: list(numbers), raising=False)

    def run(current: Path) -> None:
        sizes, firsts, lasts = integers("size", 3, 1), integers("first", 3), integers("last", 3)
        ranges = [Range(*each) for each in zip(sizes, firsts, lasts, strict=True)]
        layout = arenas.by_lifetime(ranges, cast(int, None), cast(int, None))
        time = current.fresh("time").term

        def live(*both: int) -> Theorem:
            return z3.And(*(z3.And(firsts[each].term <= time, time <= lasts[each].term) for each in both))

        prove_layout(current, layout, sizes, live)

    explore(run)


def test_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "rounded_up", rounded_up)

    def run(current: Path) -> None:
        sizes, (alignment,), (limit,) = integers("size", 3, 1), integers("alignment", 1, 1), integers("limit", 1)
        layout = arenas.side_by_side(sizes, alignment, limit)
        prove_layout(current, layout, sizes, lambda *both: z3.BoolVal(True))
        for (arena, start), size in zip(layout.places, sizes, strict=True):
            prove_multiple(current, start, alignment)
            alone = sum(other == arena for other, _ in layout.places) == 1
            current.prove(z3.Or(alone, term(start + size) <= limit.term), "within the limit")

    explore(run)


def test_least_bytes() -> None:
    """At no time more bytes are live."""

    def run(current: Path) -> None:
        sizes, firsts, lasts = integers("size", 2, 1), integers("first", 2), integers("last", 2)
        least = arenas.least_bytes([Range(*each) for each in zip(sizes, firsts, lasts, strict=True)])
        time = current.fresh("time").term
        live = (
            z3.If(z3.And(first.term <= time, time <= last.term), size.term, 0)
            for size, first, last in zip(sizes, firsts, lasts, strict=True)
        )
        current.prove(z3.Sum(*live) <= term(least), "live bytes")

    explore(run)


def overlaps_inside(self: Range, other: Range) -> bool:
    """Ranges that touch in time are taken for apart."""
    return self.first < other.last and other.first < self.last


def test_a_wrong_lifetime_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Range, "overlaps", overlaps_inside)
    with pytest.raises(Refuted, match=r"apart: first.\d+ = "):
        test_by_lifetime(monkeypatch)


def test_a_wrong_gap_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place behind a range is rounded down."""
    monkeypatch.setattr(arenas, "rounded_up", lambda size, alignment: size // alignment * alignment)

    def run(current: Path) -> None:
        sizes, (alignment,) = integers("size", 2, 1), integers("alignment", 1, 1)
        layout = arenas.side_by_side(sizes, alignment, cast(int, Number(1 << 60)))
        prove_layout(current, layout, sizes, lambda *both: z3.BoolVal(True))

    with pytest.raises(Refuted, match=r"within the arena: alignment.\d+ = "):
        explore(run)
