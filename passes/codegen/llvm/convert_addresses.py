"""Splits address computations by the loops they vary in.

LLVM turns a sum into a bitwise `or` if it can prove that the terms have no bits in common, such as a row's start and a
column index. The loop vectorizer then fails to see that the address advances by one, and emits gathers. So the terms
that vary in outer loops are added to the address first, by a separate instruction. Constants come last: addresses that
differ only by a constant, such as those in a register block, share everything else, and CPUs fold a constant into the
addressing mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects import cpu


@dataclass(frozen=True)
class Index:
    """A memory index, as a sum.

    Attributes:
        groups: Its terms, grouped by the loop they vary in, outermost first.
        constant: The sum of its constant terms.
        is_split: Whether it is added to an address in several steps, so that the sum itself is not needed.
    """

    groups: tuple[tuple[SSAValue, ...], ...]
    constant: int
    is_split: bool


class Indices:
    """The indices of a kernel's memory accesses.

    Args:
        body: The kernel's body.
    """

    def __init__(self, body: Block):
        self._indices: dict[SSAValue, Index] = {}
        self._depths: dict[SSAValue, int] = {}
        self._unneeded: set[Operation] = set()
        self._look(body)

    def of(self, value: SSAValue) -> Index:
        """Returns an index of memory accesses as a sum."""
        return self._indices[value]

    def is_unneeded(self, op: Operation) -> bool:
        """Returns whether an op is a sum used only in indices that are added to addresses in parts."""
        return op in self._unneeded

    def _look(self, block: Block) -> None:
        """Visits the ops of a block and its nested blocks in reverse order: users before definitions."""
        op = block.last_op
        while op is not None:
            for region in op.regions:
                for inner in region.blocks:
                    self._look(inner)
            if type(op) is arith.AddiOp:
                if all(self._is_apart(use.operation, op.result) for use in op.result.uses):
                    self._unneeded.add(op)
            else:
                for value in indices_of(op):
                    if value not in self._indices:
                        self._indices[value] = self._index(value)
            op = op.prev_op

    def _is_apart(self, user: Operation, value: SSAValue) -> bool:
        """Returns whether a user of a sum takes its terms separately."""
        if user in self._unneeded:
            return True
        return indices_of(user) == [value] and user.operands.count(value) == 1 and self._indices[value].is_split

    def _index(self, value: SSAValue) -> Index:
        groups: dict[int, list[SSAValue]] = {}
        constant = 0
        for term in _terms(value):
            if type(term.owner) is arith.ConstantOp:
                constant += cast("IntegerAttr[Any]", term.owner.value).value.data
            else:
                groups.setdefault(self._depth(term), []).append(term)
        steps = len(groups) + (constant != 0)
        return Index(tuple(tuple(groups[depth]) for depth in sorted(groups)), constant, steps > 1)

    def _depth(self, value: SSAValue) -> int:
        """Returns the depth of the innermost loop on whose induction variable or carried values a value depends.

        A load counts as if computed from its index: the index tables of kernels don't change in the loops that read
        them. If the memory does change, only the order of the sum is suboptimal.
        """
        result = self._depths.get(value)
        if result is None:
            owner = value.owner
            if isinstance(owner, Block) or owner.regions:
                result = _loops_around(value)
            else:
                result = max(map(self._depth, owner.operands), default=0)
            self._depths[value] = result
        return result


ACCESSES: Mapping[type[Operation], int] = {
    memref.LoadOp: 1,
    vector.LoadOp: 1,
    cpu.LoadLanesOp: 1,
    memref.StoreOp: 2,
    vector.StoreOp: 2,
}
"""Memory accesses, and the number of operands that precede the indices of each."""


def indices_of(op: Operation) -> list[SSAValue]:
    """Returns the indices of a memory access; none for any other op."""
    first = ACCESSES.get(type(op))
    return [] if first is None else list(op.operands[first:])


def _terms(value: SSAValue) -> Iterator[SSAValue]:
    if type(value.owner) is arith.AddiOp:
        for operand in value.owner.operands:
            yield from _terms(operand)
    else:
        yield value


def _loops_around(value: SSAValue) -> int:
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    depth = 0
    while block is not None:
        parent = block.parent_op()
        depth += isinstance(parent, scf.ForOp)
        block = None if parent is None else parent.parent
    return depth
