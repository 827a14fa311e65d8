"""Splits addresses by the loops that they change in.

LLVM turns a sum into a bitwise `or` where it sees that no bit is in both terms, such as a row's start and a column. The
loop vectorizer then does not see that the address advances by one, and gathers single elements. So what changes in
fewer loops is added to the address first, by an instruction of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, scf
from xdsl.ir import Block, SSAValue


def terms_by_depth(index: SSAValue) -> list[list[SSAValue]]:
    """Returns the terms of an index, together where they change in the same loop, the outermost first."""
    groups: dict[int, list[SSAValue]] = {}
    known: dict[SSAValue, int] = {}
    for term in _terms(index):
        groups.setdefault(_depth(term, known), []).append(term)
    return [groups[depth] for depth in sorted(groups)]


def _terms(value: SSAValue) -> Iterator[SSAValue]:
    if isinstance(value.owner, arith.AddiOp):
        for operand in value.owner.operands:
            yield from _terms(operand)
    else:
        yield value


def _depth(value: SSAValue, known: dict[SSAValue, int]) -> int:
    """Returns how many loops are around the innermost one whose index, or carried values, a value is computed from.

    A load counts as computed from its index: the tables of indices that kernels have don't change in the loops that
    read them. Where memory changes, only the order of the sum is not the best.
    """
    if value not in known:
        owner = value.owner
        if isinstance(owner, Block) or owner.regions:
            known[value] = _loops_around(value)
        else:
            known[value] = max((_depth(operand, known) for operand in owner.operands), default=0)
    return known[value]


def _loops_around(value: SSAValue) -> int:
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    depth = 0
    while block is not None:
        parent = block.parent_op()
        depth += isinstance(parent, scf.ForOp)
        block = None if parent is None else parent.parent
    return depth
