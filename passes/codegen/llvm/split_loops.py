"""Splits innermost loops where a condition on their index changes.

Otherwise each iteration computes both branches, under masks, as in a concatenation or a rotation along a row:

```
for i in 0 .. n:                            for i in 0 .. c: y[i] = a[i]
  y[i] = if i < c: a[i] else: b[i - c]  =>  for i in c .. n: y[i] = b[i - c]
```

K. Kennedy, J. Allen: Optimizing Compilers for Modern Architectures (2002), section 5.7, "index-set splitting".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.llvm.unswitch import MOST_OPS_TWICE, with_branch
from tensorgrad.passes.scalars import constant_integer

FEWEST_ITERATIONS = 32
"""The fewest iterations of a loop that is split: shorter ones fill few vectors, and masks cost less."""


@dataclass(frozen=True)
class _Condition:
    """A choice that holds for the indices from `first` on, but before `last`."""

    choice: scf.IfOp
    first: int
    last: int


def split_loops(block: Block) -> bool:
    """Splits the innermost loops of a block, and returns whether there were any to split.

    Expects conditions that are the same in all iterations in front of their loops. Invariants of the branches may be
    left in the new loops.
    """
    changed = False
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                changed |= split_loops(inner)
        if isinstance(op, scf.ForOp) and (condition := _condition(op)) is not None:
            _split(op, condition)
            changed = True
    return changed


def _condition(loop: scf.ForOp) -> _Condition | None:
    """Returns the first condition on a loop's index in its body; `None` if the loop stays as it is."""
    low, high = constant_integer(loop.lb), constant_integer(loop.ub)
    is_short = low is not None and high is not None and high - low < FEWEST_ITERATIONS
    if loop.results or is_short or constant_integer(loop.step) != 1:
        return None
    ops = list(operations(loop.body.block))
    if len(ops) > MOST_OPS_TWICE or any(isinstance(op, scf.ForOp) for op in ops):
        return None
    return next(_conditions(loop), None)


def _conditions(loop: scf.ForOp) -> Iterator[_Condition]:
    index = loop.body.block.args[0]
    for op in loop.body.block.ops:
        if isinstance(op, scf.IfOp) and isinstance(cond := op.cond.owner, arith.CmpiOp):
            offset, bound = _offset(cond.lhs, index), constant_integer(cond.rhs)
            if cond.predicate.value.data == _BELOW and offset is not None and bound is not None:
                first = max(-offset, 0)
                yield _Condition(op, first, max(bound - offset, first))


_BELOW = arith.CMPI_COMPARISON_OPERATIONS.index("ult")


def _offset(value: SSAValue, index: SSAValue) -> int | None:
    """Returns the number that is added to a loop's index; `None` for any other value."""
    if value is index:
        return 0
    op = value.owner
    if not isinstance(op, arith.AddiOp | arith.SubiOp) or op.lhs is not index:
        return None
    number = constant_integer(op.rhs)
    return -number if number is not None and isinstance(op, arith.SubiOp) else number


def _split(loop: scf.ForOp, condition: _Condition) -> None:
    """Replaces a loop by those before, in and behind the range in which a condition holds, and splits these further."""
    block, choice = loop.parent, condition.choice
    assert block is not None
    middle = [_within(loop, bound) for bound in (condition.first, condition.last)]
    bounds = [loop.lb, *middle, loop.ub]
    branches = (choice.false_region, choice.true_region, choice.false_region)
    for low, high, branch in zip(bounds, bounds[1:], branches, strict=False):
        if not _is_empty(low, high):
            part = with_branch(loop, choice, branch)
            part.operands = [low, high, *part.operands[2:]]
            block.insert_op_before(part, loop)
            following = _condition(part)
            if following is not None:
                _split(part, following)
    Rewriter.erase_op(loop)


def _is_empty(low: SSAValue, high: SSAValue) -> bool:
    first, last = constant_integer(low), constant_integer(high)
    return low is high or (first is not None and last is not None and first >= last)


def _within(loop: scf.ForOp, bound: int) -> SSAValue:
    """Returns a bound within those of a loop."""
    low, high = constant_integer(loop.lb), constant_integer(loop.ub)
    if bound <= (low or 0):  # no index is less than 0
        return loop.lb
    if high is not None and bound >= high:
        return loop.ub
    result = _insert(loop, arith.ConstantOp(IntegerAttr(bound, IndexType())))
    if high is None:
        result = _insert(loop, arith.MinUIOp(result, loop.ub))
    return result if low is not None else _insert(loop, arith.MaxUIOp(result, loop.lb))


def _insert(loop: scf.ForOp, op: Operation) -> SSAValue:
    block = loop.parent
    assert block is not None
    op.location = loop.location
    block.insert_op_before(op, loop)
    return op.results[0]
