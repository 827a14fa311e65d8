"""Memory that is read and written in vectors of four."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.affine import Linear

VECTOR_WIDTH = 4
"""The elements of a vector in memory."""


def are_vector(places: Sequence[Linear]) -> bool:
    """Whether positions are those of a vector's elements."""
    first = places[0]
    numbers = (first.constant, *first.terms.values())
    follow = all(p.terms == first.terms and p.constant == first.constant + e for e, p in enumerate(places))
    return follow and all(number % VECTOR_WIDTH == 0 for number in numbers)


def vector_memory(kind: MemRefType[Attribute]) -> MemRefType[Attribute]:
    """1-D memory as vectors."""
    return MemRefType(wgsl.VECTOR, [kind.get_shape()[0] // VECTOR_WIDTH])
