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
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.llvm.unswitch import with_choices
from tensorgrad.passes.rewriting import index_before, insert_before
from tensorgrad.passes.scalars import constant_integer

FEWEST_ITERATIONS = 32
"""The fewest iterations of a loop that is split, if they are known: shorter ones fill few vectors, where masks cost
less."""

MOST_LOOPS, MOST_OPS = 8, 512
"""The most loops that one is split into, and the most ops of all of them: each is compiled on its own."""


@dataclass(frozen=True)
class _Condition:
    """A choice that holds for the indices from `start` on, up to `stop`, which is excluded."""

    choice: scf.IfOp
    start: int
    stop: int


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
        if isinstance(op, scf.ForOp):
            changed |= _split(op)
    return changed


def _split(loop: scf.ForOp) -> bool:
    """Replaces a loop by one for each range of its index in which no condition changes; returns whether it has any."""
    low, high = constant_integer(loop.lb), constant_integer(loop.ub)
    is_short = low is not None and high is not None and high - low < FEWEST_ITERATIONS
    if loop.results or is_short or constant_integer(loop.step) != 1:
        return False
    conditions = list(_conditions(loop.body.block, loop.body.block.args[0]))
    first, last = low or 0, high
    bounds = sorted({bound for condition in conditions for bound in (condition.start, condition.stop)})
    inside = [bound for bound in bounds if bound > first and (last is None or bound < last)]
    ops = list(operations(loop.body.block))
    count = len(inside) + 1
    if not conditions or count > MOST_LOOPS or count * len(ops) > MOST_OPS:
        return False
    if any(isinstance(op, scf.ForOp) for op in ops):
        return False
    values = [loop.lb, *(_within(loop, bound) for bound in inside), loop.ub]
    for number, start in enumerate([first, *inside]):
        part = with_choices(loop, {c.choice: c.start <= start < c.stop for c in conditions})
        part.operands = [values[number], values[number + 1], *part.operands[2:]]
        part.location = loop.location
        Rewriter.insert_op(part, InsertPoint.before(loop))
    Rewriter.erase_op(loop)
    return True


def _conditions(block: Block, index: SSAValue) -> Iterator[_Condition]:
    """Yields the choices in a block whose conditions are ranges of a loop's index, and those in their branches."""
    for op in block.ops:
        if isinstance(op, scf.IfOp) and isinstance(cond := op.cond.owner, arith.CmpiOp):
            offset, bound = _offset(cond.lhs, index), constant_integer(cond.rhs)
            if cond.predicate.value.data == _BELOW and offset is not None and bound is not None:
                start = max(-offset, 0)
                yield _Condition(op, start, max(bound - offset, start))
                for region in op.regions:
                    for branch in region.blocks:
                        yield from _conditions(branch, index)


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


def _within(loop: scf.ForOp, bound: int) -> SSAValue:
    """Returns a bound as a value within those of a loop that aren't known."""
    result = index_before(bound, loop)
    if constant_integer(loop.ub) is None:
        result = insert_before(arith.MinUIOp(result, loop.ub), loop)
    if constant_integer(loop.lb) is None:
        result = insert_before(arith.MaxUIOp(result, loop.lb), loop)
    return result
