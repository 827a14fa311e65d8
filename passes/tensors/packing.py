"""Which parameters an optimizer updates together: rows of them, and of their gradients, that one kernel can bind."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
    """How many of as many squares to add up in one workgroup."""
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
    """The limit, less what padding a row may take."""
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
