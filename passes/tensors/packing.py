"""Which parameters an optimizer updates together: rows of them, and of their gradients, that one kernel can bind."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT

ROW = 1024
"""How many squares one workgroup adds up for a norm, at least; a row of gradients has a multiple of it."""

MOST_ROWS = 4096
"""How many such sums there are at most for a row of gradients."""

T = TypeVar("T")


@dataclass(frozen=True)
class Member(Generic[T]):
    """A parameter that is to be packed.

    Attributes:
        item: Whatever stands for it.
        size: The number of its elements.
        stored: The bytes of an element of the parameter.
        computed: The bytes of an element of its state.
        group: What it has in common with those that one kernel may update with it.
        dtype: What its gradient has in common with those that may lie in one row with it.
    """

    item: T
    size: int
    stored: int
    computed: int
    group: Hashable
    dtype: Hashable

    @property
    def alignment(self) -> int:
        """The elements at whose multiples it starts: 256 bytes of whatever has the smallest elements."""
        return PACK_ALIGNMENT // min(self.stored, self.computed)


@dataclass
class Chunk(Generic[T]):
    """Parameters that one kernel updates; the first starts at 0, and at `start` of the row of gradients."""

    members: list[Member[T]] = field(default_factory=list[Member[T]])
    offsets: list[int] = field(default_factory=list[int])
    size: int = 0
    start: int = 0


@dataclass
class Row(Generic[T]):
    """A row of gradients, of which each chunk is a part."""

    chunks: list[Chunk[T]] = field(default_factory=list[Chunk[T]])
    size: int = 0

    @property
    def columns(self) -> int:
        """How many squares to add up in one workgroup."""
        return columns_of(self.size)

    @property
    def padded(self) -> int:
        """The elements of the row with zeros at its end, a multiple of `columns`."""
        return up_to(self.size, self.columns)


def columns_of(size: int) -> int:
    """Returns how many of as many squares to add up in one workgroup."""
    columns = ROW
    while columns * MOST_ROWS < size:
        columns *= 2
    return columns


def up_to(size: int, alignment: int) -> int:
    """`size` rounded up to a multiple."""
    return -(-size // alignment) * alignment


def packed(members: Sequence[Member[T]], limit: int) -> list[Row[T]]:
    """Rows of gradients, and the chunks of parameters in them, so that none takes more bytes than `limit`.

    Args:
        members: The parameters in the order in which they lie in their arenas, groups together.
        limit: The most bytes of a binding, and of an arena.

    Returns:
        One chunk for each run of members of one group, unless it takes more bytes; as few rows as that takes.
    """
    rows: list[Row[T]] = []
    for chunk in _chunks(members, limit):
        first = chunk.members[0]
        start = up_to(rows[-1].size, first.alignment) if rows else 0
        fits = (start + chunk.size) * first.computed <= _room(limit)
        if not rows or not fits or rows[-1].chunks[0].members[0].dtype != first.dtype:
            rows.append(Row())
            start = 0
        chunk.start = start
        rows[-1].chunks.append(chunk)
        rows[-1].size = start + chunk.size
    return rows


def _room(limit: int) -> int:
    """Returns the limit, less what padding a row may take."""
    return limit - limit % (1 << 20 if limit >= 1 << 20 else 4 * ROW)


def _chunks(members: Sequence[Member[T]], limit: int) -> list[Chunk[T]]:
    chunks: list[Chunk[T]] = []
    place = 0
    for member in members:
        bytes_stored = member.size * member.stored
        start = up_to(place, PACK_ALIGNMENT)
        arena_ends = start + bytes_stored > limit  # as plan-memory lays parameters out
        place = bytes_stored if arena_ends else start + bytes_stored
        offset = up_to(chunks[-1].size, member.alignment) if chunks else 0
        fits = (offset + member.size) * max(member.stored, member.computed) <= _room(limit)
        if not chunks or arena_ends or not fits or chunks[-1].members[0].group != member.group:
            chunks.append(Chunk())
            offset = 0
        chunks[-1].members.append(member)
        chunks[-1].offsets.append(offset)
        chunks[-1].size = offset + member.size
    return chunks


def row_of_squares(builder: TensorBuilder, row: SSAValue, columns: int, wide: Attribute) -> SSAValue:
    """Returns the sum of the squares of a row, added up some at a time."""
    several = builder.reshape(row, [shape_of(row)[0] // columns, columns])
    sums = builder.sum(builder.mul(several, several), [1])
    return builder.cast(builder.sum(sums, [0]), wide)


def sum_of_squares(builder: TensorBuilder, value: SSAValue, wide: Attribute) -> SSAValue:
    """Returns the sum of the squares of a tensor: in two steps, where it is large."""
    size = math.prod(shape_of(value))
    flat = builder.reshape(value, [size])
    columns = columns_of(size)
    if size <= columns:
        return builder.cast(builder.sum(builder.mul(flat, flat), [0]), wide)
    zero = builder.zeros((), element_of(value))
    row = builder.pad(flat, zero, [0], [up_to(size, columns) - size], [0])
    return row_of_squares(builder, row, columns, wide)


def stacked(b: TensorBuilder, row: SSAValue, offsets: Sequence[int], extents: Sequence[int]) -> SSAValue:
    """Returns the tensors of one shape that lie in a row, with an axis of them in front."""
    count, size, stride = len(offsets), math.prod(extents), offsets[1]
    padded = b.pad(row, b.zeros((), element_of(row)), [0], [count * stride - shape_of(row)[0]], [0])
    apart = b.slice(b.reshape(padded, [count, stride]), [0, 0], [count, size], [1, 1])
    return b.reshape(apart, [count, *extents])


def unstacked(b: TensorBuilder, stack: SSAValue, offsets: Sequence[int]) -> SSAValue:
    """Returns the row that `stacked` was given."""
    count, stride = len(offsets), offsets[1]
    size = math.prod(shape_of(stack)) // count
    flat, zero = b.reshape(stack, [count, size]), b.zeros((), element_of(stack))
    wide = b.pad(flat, zero, [0, 0], [0, stride - size], [0, 0])
    return b.slice(b.reshape(wide, [count * stride]), [0], [offsets[-1] + size], [1])
