"""Memory that is accessed in four-component vectors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.affine import Linear
from tensorgrad.passes.analyses.machine import VECTOR


def are_vector(places: Sequence[Linear]) -> bool:
    """Returns whether positions are those of one vector's elements."""
    first = places[0]
    numbers = (first.constant, *first.terms.values())
    follow = all(p.terms == first.terms and p.constant == first.constant + e for e, p in enumerate(places))
    return follow and all(number % VECTOR == 0 for number in numbers)


def place_key(place: Linear) -> tuple[object, ...]:
    """Returns a key that is equal for equal positions."""
    return frozenset(place.terms.items()), place.constant


def vector_and_lane(place: Linear) -> tuple[Linear, int]:
    """Returns an element's vector and lane; expects a position that differs from others only by its constant."""
    lane = place.constant % VECTOR
    return Linear(place.terms, place.constant - lane).over(VECTOR), lane


def may_be_vector(place: Linear) -> bool:
    """Returns whether the lane of a position in its vector is static."""
    return all(factor % VECTOR == 0 for factor in place.terms.values())


def are_whole(places: Sequence[Linear]) -> bool:
    """Returns whether positions cover exactly one or more whole vectors."""
    if not all(map(may_be_vector, places)):
        return False
    lanes: dict[tuple[object, ...], set[int]] = {}
    for vector, lane in map(vector_and_lane, places):
        lanes.setdefault(place_key(vector), set()).add(lane)
    return all(len(lanes_of_value) == VECTOR for lanes_of_value in lanes.values())


def vector_memory(kind: MemRefType[Attribute]) -> MemRefType[Attribute]:
    """Returns the type of 1-D memory as an array of vectors."""
    return MemRefType(wgsl.VECTOR, [kind.get_shape()[0] // VECTOR])
