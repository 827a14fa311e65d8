"""Cuts short loops into whole vectors and single iterations, for targets whose masked vectors are slow.

LLVM gives all vectors of a loop of few iterations a mask, on every target, if it has a remainder. A Zen 3 stores
by a mask of AVX2 at a fraction of the speed, so the remainder is written as it is:

```
for i in 0 .. 10:          for i in 0 .. 8: y[i] = f(x[i])
  y[i] = f(x[i])      =>   y[8] = f(x[8])
                           y[9] = f(x[9])
```
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.dialects.cpu import MASKED
from tensorgrad.passes.analyses.walking import cloned, operations
from tensorgrad.passes.codegen.common.weights import weight_of
from tensorgrad.passes.codegen.llvm.unswitch import with_choices
from tensorgrad.passes.rewriting import index_before
from tensorgrad.passes.scalars import constant_integer

MOST_BEHIND, MOST_ALONE = 160, 600
"""The most additions that a remainder costs, behind whole vectors and alone: a masked vector is faster than more."""


def cut_remainders(block: Block, lanes: int) -> None:
    """Takes the mark `cpu.masked` from the loops of a block, and the remainders out of those of constant extents.

    Args:
        block: The block.
        lanes: The iterations of a whole vector.
    """
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                cut_remainders(inner, lanes)
        if isinstance(op, scf.ForOp) and op.attributes.pop(MASKED, None) is not None:
            _cut(op, lanes)


def _cut(loop: scf.ForOp, lanes: int) -> None:
    """Replaces a loop of independent iterations by one of whole vectors and its last iterations."""
    low, high = constant_integer(loop.lb), constant_integer(loop.ub)
    if low is None or high is None or loop.results or constant_integer(loop.step) != 1:
        return
    behind = (high - low) % lanes
    most = MOST_BEHIND if high - low > behind else MOST_ALONE
    if not 0 < behind * weight_of(operations(loop.body.block)) <= most:
        return
    if high - low > behind:
        whole = with_choices(loop, {})
        whole.operands = [loop.lb, index_before(high - behind, loop), *whole.operands[2:]]
        Rewriter.insert_op(whole, InsertPoint.before(loop))
    for at in range(high - behind, high):
        values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: index_before(at, loop)}
        for op in list(loop.body.block.ops)[:-1]:
            Rewriter.insert_op(cloned(op, values), InsertPoint.before(loop))
    Rewriter.erase_op(loop)
