"""Memory that is read and written in vectors of four."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.affine import Linear
from tensorgrad.passes.analyses.machine import VECTOR


def are_vector(places: Sequence[Linear]) -> bool:
    """Returns whether positions are those of a vector's elements."""
    first = places[0]
    numbers = (first.constant, *first.terms.values())
    follow = all(p.terms == first.terms and p.constant == first.constant + e for e, p in enumerate(places))
    return follow and all(number % VECTOR == 0 for number in numbers)


def place_key(place: Linear) -> tuple[object, ...]:
    """Returns a key that is equal for equal positions."""
    return frozenset(place.terms.items()), place.constant


def vector_and_lane(place: Linear) -> tuple[Linear, int]:
    """Returns an element's vector and lane; expects a position that differs from others by its constant."""
    lane = place.constant % VECTOR
    return Linear(place.terms, place.constant - lane).over(VECTOR), lane


def may_be_vector(place: Linear) -> bool:
    """Returns whether it is known which part of a vector a position is."""
    return all(factor % VECTOR == 0 for factor in place.terms.values())


def are_whole(places: Sequence[Linear]) -> bool:
    """Returns whether positions are those of all elements of one vector or several."""
    if not all(map(may_be_vector, places)):
        return False
    lanes: dict[tuple[object, ...], set[int]] = {}
    for vector, lane in map(vector_and_lane, places):
        lanes.setdefault(place_key(vector), set()).add(lane)
    return all(len(found) == VECTOR for found in lanes.values())


def vector_memory(kind: MemRefType[Attribute]) -> MemRefType[Attribute]:
    """1-D memory as vectors."""
    return MemRefType(wgsl.VECTOR, [kind.get_shape()[0] // VECTOR])
