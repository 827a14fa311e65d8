"""Makes two loops of one whose index is divided by a constant, so that neither divides.

A vector of indices modulo a constant is a gather, as in a tensor that is repeated along its rows:

```
                           for q in 0 .. n / c:
for i in 0 .. n:             for r in 0 .. c:
  y[i] = x[i mod c]    =>      y[q * c + r] = x[r]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tensorgrad.passes.codegen.common.block_builder import BlockBuilder
from tensorgrad.passes.codegen.common.index_builder import index
from tensorgrad.passes.scalars import Value, constant_integer

FEWEST_ITERATIONS = 16
"""The fewest iterations of the inner loop, which fill a vector."""


def delinearize_loops(block: Block) -> None:
    """Divides the loops of a block that count to a multiple of a divisor of their index, and carry no values.

    Guarantees that the iterations are the same, in the same order.
    """
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                delinearize_loops(inner)
        if isinstance(op, scf.ForOp):
            _delinearize(op)


def _delinearize(loop: scf.ForOp) -> None:
    """Divides a loop by the largest divisor of its index, and then by the next one."""
    count, counted = constant_integer(loop.ub), loop.body.block.args[0]
    if loop.results or count is None or constant_integer(loop.lb) != 0 or constant_integer(loop.step) != 1:
        return
    divisions = list(_divisions(counted, count))
    fits = (each.divisor for each in divisions if FEWEST_ITERATIONS <= each.divisor < count)
    divisor = max((number for number in fits if count % number == 0), default=None)
    if divisor is None:
        return
    around, front = Block(arg_types=[index]), Block()
    outside, inside = BlockBuilder(around), BlockBuilder(front)
    quotient, remainder = inside.value(around.args[0]), inside.value(counted)
    start = outside.value(around.args[0]) * divisor
    whole = inside.value(start.ssa) + remainder
    divided = [
        (each.op, each.divided(quotient, remainder, divisor)) for each in divisions if divisor % each.divisor == 0
    ]
    counted.replace_uses_with_if(whole.ssa, lambda use: use.operation.parent is not front)
    for op, value in divided:
        Rewriter.replace_op(op, [], [value.ssa])
    body = loop.body.block
    assert body.first_op is not None
    Rewriter.inline_block(front, InsertPoint.before(body.first_op))
    _nest(loop, around, outside, count // divisor, divisor)
    _delinearize(loop)


@dataclass(frozen=True)
class _Division:
    """An op whose result is the quotient or the remainder of a loop's index."""

    op: Operation
    divisor: int

    def divided(self, quotient: Value, remainder: Value, divisor: int) -> Value:
        """Returns the result for the index `quotient * divisor + remainder`, of a multiple of the own divisor."""
        times = divisor // self.divisor
        if isinstance(self.op, arith.DivUIOp):
            return quotient if times == 1 else quotient * times + remainder // self.divisor
        return remainder if times == 1 else remainder % self.divisor


def _divisions(counted: SSAValue, count: int) -> Iterator[_Division]:
    """Yields the ops that divide an index below `count` by a constant."""
    for use in counted.uses:
        op = use.operation
        if isinstance(op, arith.DivUIOp | arith.RemUIOp) and op.lhs is counted and (n := constant_integer(op.rhs)):
            yield _Division(op, n)
        elif isinstance(op, arith.MinUIOp) and use.index == 0:
            yield from _wrapped(op, counted, count)


def _wrapped(op: arith.MinUIOp, counted: SSAValue, count: int) -> Iterator[_Division]:
    """Yields the remainder that repeated subtractions make, as `IndexBuilder` writes it for few repetitions."""
    divisor, value, times = _subtracted(op), counted, 1
    while divisor and count > divisor * (times + 1):
        value = op.result
        following = (use.operation for use in value.uses if use.index == 0)
        op = next((each for each in following if isinstance(each, arith.MinUIOp)), op)
        if op.lhs is not value or _subtracted(op) != divisor:
            return
        times += 1
    if divisor:
        yield _Division(op, divisor)


def _subtracted(op: arith.MinUIOp) -> int | None:
    """Returns the number that one operand is less than the other; `None` if they differ otherwise."""
    less = op.rhs.owner
    return constant_integer(less.rhs) if isinstance(less, arith.SubiOp) and less.lhs is op.lhs else None


def _nest(loop: scf.ForOp, around: Block, outside: BlockBuilder, quotients: int, divisor: int) -> None:
    """Moves a loop, which now counts to a divisor, into another one that counts the quotients."""
    whole = BlockBuilder(Block())
    start, stop, step = (whole.number(number).ssa for number in (0, quotients, 1))
    outer = scf.ForOp(start, stop, step, [], around)
    outer.attributes, outer.location = dict(loop.attributes), loop.location
    whole.append(outer)
    Rewriter.inline_block(whole.block, InsertPoint.before(loop))
    loop.detach()
    loop.operands = [outside.number(number).ssa for number in (0, divisor, 1)]
    around.add_ops([loop, scf.YieldOp()])
