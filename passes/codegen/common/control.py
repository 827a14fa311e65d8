"""Kernel support for loops and branches: rows that advance with iterations, and indirect dispatch counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.buf import ArenaOp
from tensorgrad.dialects.buf_control import RowOp
from tensorgrad.dialects.signature import Role
from tensorgrad.passes.codegen.common.block_builder import BlockBuilder
from tensorgrad.passes.scalars import Value, both

Condition: TypeAlias = tuple[SSAValue, bool]
"""A predicate, and its required value."""

Row: TypeAlias = "tuple[AffineMap, list[SSAValue]]"
"""The start of a row, as a map over iteration indices, and the counters that hold these."""

MOST_COUNTERS = 4
"""WebGPU's minimum limit on bindings with dynamic offsets."""


@dataclass(frozen=True)
class Entry:
    """A table entry with the start of a buffer, in elements.

    Attributes:
        table: The table's binding.
        first: The index of the entry of the first of the kernels that are written once.
        step: The distance to the next kernel's entry.
    """

    table: int
    first: int
    step: int


@dataclass(frozen=True)
class BufferLocation:
    """The location of a buffer in a dispatch: one of its bindings, and a first element.

    Attributes:
        moved: An additional offset in elements: a map over the iteration indices in some bindings.
        entry: The table entry with an additional offset in elements.
    """

    binding: int
    start: int
    moved: tuple[AffineMap, tuple[int, ...]] | None = None
    entry: Entry | None = None


class Moves:
    """The offsets by which loops move a kernel's buffers, computed at its start."""

    def __init__(self, block: Block):
        self.block = block
        self._code = BlockBuilder(block)
        self._numbers: dict[int, Value] = {}
        self._known: dict[tuple[AffineMap, tuple[int, ...]], SSAValue] = {}

    def of(self, placed: BufferLocation) -> SSAValue | None:
        """Returns the offset of a buffer in elements, `None` if loops don't move it."""
        if placed.moved is None:
            return None
        if placed.moved not in self._known:
            at, counters = placed.moved
            numbers = [self._number(counter) for counter in counters]
            self._known[placed.moved] = self._code.expression(at.results[0], numbers).ssa
        return self._known[placed.moved]

    def _number(self, counter: int) -> Value:
        if counter not in self._numbers:
            code = self._code
            loaded = code.element(code.block.args[counter], code.number(0))
            self._numbers[counter] = loaded.as_index()
        return self._numbers[counter]


class Starts:
    """The starts of buffers of kernels that are written once, read from a table at the start of their code."""

    def __init__(self, code: BlockBuilder, block: Block, member: Value | None):
        """Reads the starts from a block's bindings, for the kernel with index `member`, or for the only one."""
        self._code = code
        self._block = block
        self._member = member
        self._known: dict[Entry, SSAValue] = {}

    def of(self, entry: Entry) -> SSAValue:
        """Returns the element that a buffer starts at."""
        if entry not in self._known:
            code = self._code
            at = code.number(entry.first)
            if self._member is not None:
                at = self._member * entry.step + entry.first
            loaded = code.element(self._block.args[entry.table], at)
            self._known[entry] = loaded.as_index().ssa
        return self._known[entry]


def write_choice(
    kinds: Sequence[Attribute],
    placed: Sequence[BufferLocation],
    outcomes: Sequence[bool],
    groups: Sequence[Sequence[tuple[int, int, int]]],
) -> Block:
    """Returns a kernel that writes the workgroup counts of the dispatches of two branches.

    Args:
        kinds: The types of the bindings; the last one receives the counts, three for each dispatch.
        placed: The locations of the predicates, those of enclosing branches first.
        outcomes: The value of each predicate for the first of the two branches to run; the last predicate is their own.
        groups: The workgroups of each branch's dispatches.
    """
    block = Block(arg_types=kinds)
    moves = Moves(block)
    code = BlockBuilder(block)
    holds: list[Value] = []
    for outcome in placed:
        moved = moves.of(outcome)
        at = code.number(0) if moved is None else code.value(moved)
        holds.append(code.element(block.args[outcome.binding], at))
    true = code.constant(1, i1)
    around: Value | None = None
    for value, outcome in zip(holds[:-1], outcomes[:-1], strict=True):
        met = value if outcome else value ^ true
        around = both(around, met)
    zero = code.constant(0, i32)
    position = 0
    for branch, group in enumerate(groups):
        runs = holds[-1] if branch == 0 else holds[-1] ^ true
        runs = both(around, runs)
        for numbers in group:
            for number in numbers:
                code.put(code.select(runs, number, zero), block.args[-1], code.number(position))
                position += 1
    return block


def counter_of(index: SSAValue) -> SSAValue:
    """Returns the buffer with a loop's iteration index."""
    operations = [use.operation for use in index.uses if isinstance(use.operation, RowOp)]
    return next(row.result for row in operations if cast(ArenaOp, row.base.arena.owner).role.data == Role.COUNTER)
