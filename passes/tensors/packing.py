"""Packs parameters, and their gradients, that an optimizer updates together into rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT, PackOp
from tensorgrad.passes.analyses.blocks import rounded_up

ROW = 1024
"""The least number of squares that one workgroup adds up for a norm; the size of a row is a multiple of it."""

MOST_ROWS = 4096
"""The most such sums for a row of gradients."""

T = TypeVar("T")


@dataclass(frozen=True)
class Member(Generic[T]):
    """A parameter to pack.

    Attributes:
        item: Any value that identifies it.
        size: The number of its elements.
        stored: The bytes of an element of the parameter.
        computed: The bytes of an element of its state.
        group: Equal for parameters that one kernel may update together.
        dtype: Equal for parameters whose gradients may share a row.
    """

    item: T
    size: int
    stored: int
    computed: int
    group: Hashable
    dtype: Hashable

    @property
    def alignment(self) -> int:
        """Its alignment in elements: 256 bytes of the smallest element type involved."""
        return PACK_ALIGNMENT // min(self.stored, self.computed)


@dataclass
class Chunk(Generic[T]):
    """Parameters that one kernel updates, with their offsets; their gradients begin at `start` in the row."""

    members: list[Member[T]] = field(default_factory=list[Member[T]])
    offsets: list[int] = field(default_factory=list[int])
    size: int = 0
    start: int = 0

    def end_with(self, member: Member[T]) -> int:
        """Returns the size of the chunk with one more member."""
        return rounded_up(self.size, member.alignment) + member.size

    def add(self, member: Member[T]) -> None:
        """Appends a member, at its alignment."""
        self.size = self.end_with(member)
        self.members.append(member)
        self.offsets.append(self.size - member.size)


@dataclass
class Row(Generic[T]):
    """A row of gradients, which consists of chunks."""

    chunks: list[Chunk[T]] = field(default_factory=list[Chunk[T]])
    size: int = 0

    def end_with(self, chunk: Chunk[T]) -> int:
        """Returns the size of the row with one more chunk."""
        return rounded_up(self.size, chunk.members[0].alignment) + chunk.size

    def add(self, chunk: Chunk[T]) -> None:
        """Appends a chunk, at the alignment of its first member."""
        self.size = self.end_with(chunk)
        chunk.start = self.size - chunk.size
        self.chunks.append(chunk)

    @property
    def columns(self) -> int:
        """The number of squares that one workgroup adds up."""
        return columns_of(self.size)

    @property
    def padded(self) -> int:
        """The elements of the row with zeros at its end, a multiple of `columns`."""
        return rounded_up(self.size, self.columns)


def columns_of(size: int) -> int:
    """Returns how many of `size` squares one workgroup adds up."""
    columns = ROW
    while columns * MOST_ROWS < size:
        columns *= 2
    return columns


def laid_out(rows: Sequence[Sequence[Sequence[Member[T]]]]) -> list[Row[T]]:
    """Returns rows with the given members in their chunks."""
    results: list[Row[T]] = []
    for chunks in rows:
        row = Row[T]()
        for members in chunks:
            chunk = Chunk[T]()
            for member in members:
                chunk.add(member)
            row.add(chunk)
        results.append(row)
    return results


def packed(members: Sequence[Member[T]], limit: int) -> list[Row[T]]:
    """Divides parameters into rows of gradients, and chunks in them, none of which takes more bytes than `limit`.

    Args:
        members: The parameters in the order of their arenas; those of one group are consecutive.
        limit: The most bytes of a binding, and of an arena.

    Returns:
        One chunk for each run of members of one group, unless it takes more bytes; as few rows as possible.
    """
    rows: list[Row[T]] = []
    for chunk in _chunks(members, limit):
        first = chunk.members[0]
        fits = bool(rows) and rows[-1].end_with(chunk) * first.computed <= _room(limit)
        if not fits or rows[-1].chunks[0].members[0].dtype != first.dtype:
            rows.append(Row())
        rows[-1].add(chunk)
    return rows


def _room(limit: int) -> int:
    """Returns the limit, less the padding that a row may need."""
    return limit - limit % (1 << 20 if limit >= 1 << 20 else 4 * ROW)


def _chunks(members: Sequence[Member[T]], limit: int) -> list[Chunk[T]]:
    chunks: list[Chunk[T]] = []
    place = 0
    for member in members:
        bytes_stored = member.size * member.stored
        start = rounded_up(place, PACK_ALIGNMENT)
        arena_ends = start + bytes_stored > limit  # as plan-memory lays parameters out
        place = bytes_stored if arena_ends else start + bytes_stored
        most = max(member.stored, member.computed)
        fits = bool(chunks) and chunks[-1].end_with(member) * most <= _room(limit)
        if arena_ends or not fits or chunks[-1].members[0].group != member.group:
            chunks.append(Chunk())
        chunks[-1].add(member)
    return chunks


def row_of_squares(builder: TensorBuilder, row: SSAValue, columns: int, wide: Attribute) -> SSAValue:
    """Returns the sum of the squares of a row, via partial sums."""
    several = builder.reshape(row, [shape_of(row)[0] // columns, columns])
    sums = builder.sum(builder.mul(several, several), [1])
    return builder.cast(builder.sum(sums, [0]), wide)


def sum_of_squares(builder: TensorBuilder, value: SSAValue, wide: Attribute) -> SSAValue:
    """Returns the sum of the squares of a tensor, via partial sums if it is large."""
    size = math.prod(shape_of(value))
    flat = builder.reshape(value, [size])
    columns = columns_of(size)
    if size <= columns:
        return builder.cast(builder.sum(builder.mul(flat, flat), [0]), wide)
    zero = builder.zeros((), element_of(value))
    row = builder.pad(flat, zero, [0], [rounded_up(size, columns) - size], [0])
    return row_of_squares(builder, row, columns, wide)


def sum_of_squares_by_axes(builder: TensorBuilder, value: SSAValue, wide: Attribute) -> SSAValue:
    """Returns the sum of the squares of a tensor, axis by axis from the last: no axis is split or merged."""
    total = builder.mul(value, value)
    for axis in reversed(range(len(shape_of(value)))):
        total = builder.sum(total, [axis])
    return builder.cast(total, wide)


def stacked(b: TensorBuilder, row: SSAValue, offsets: Sequence[int], extents: Sequence[int]) -> SSAValue:
    """Returns the tensors of the same shape in a row, stacked along a new leading axis."""
    count, size, stride = len(offsets), math.prod(extents), offsets[1]
    padded = b.pad(row, b.zeros((), element_of(row)), [0], [count * stride - shape_of(row)[0]], [0])
    apart = b.slice(b.reshape(padded, [count, stride]), [0, 0], [count, size], [1, 1])
    return b.reshape(apart, [count, *extents])


def unstacked(b: TensorBuilder, stack: SSAValue, offsets: Sequence[int]) -> SSAValue:
    """Returns the row from which `stacked` made a stack."""
    count, stride = len(offsets), offsets[1]
    size = math.prod(shape_of(stack)) // count
    flat, zero = b.reshape(stack, [count, size]), b.zeros((), element_of(stack))
    wide = b.pad(flat, zero, [0, 0], [0, stride - size], [0, 0])
    return b.slice(b.reshape(wide, [count * stride]), [0], [offsets[-1] + size], [1])


def concatenated(b: TensorBuilder, row: PackOp, parts: Sequence[SSAValue], lead: Sequence[int] = ()) -> SSAValue:
    """Returns a row as a concatenation of its parts and of zeros, which moves them.

    Args:
        b: Builds it.
        row: The row.
        parts: Its parts, which may have axes in front.
        lead: The extents of these axes.
    """
    offsets, none, zero = row.offsets.get_values(), [0] * len(lead), b.zeros((), element_of(row.result))
    ends = [*offsets[1:], row.shape[0]]
    pieces: list[SSAValue] = []
    for part, start, end in zip(parts, offsets, ends, strict=True):
        size = math.prod(shape_of(part)) // math.prod(lead)
        low = 0 if pieces else start
        flat = b.reshape(part, [*lead, size])
        pieces.append(b.pad(flat, zero, [*none, low], [*none, end - start - size], [*none, 0]))
    return b.concat(pieces, len(lead))
