"""Takes conditions that are the same in all iterations out of innermost loops.

LLVM does so at its highest level only; below, the vectorizer computes both branches in each iteration, under masks. A
concatenation along channels, say, asks once for each image, not for each point:

```
for i:                              if c:
  y[i] = if c: a[i] else: b[i]  =>    for i: y[i] = a[i]
                                    else:
                                      for i: y[i] = b[i]
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.passes.analyses.walking import cloned, operations
from tensorgrad.passes.codegen.common.block_builder import yield_op
from tensorgrad.passes.codegen.common.hoisting import hoist_invariants, stands_in

MOST_OPS_TWICE = 256
"""The most ops of a loop's body that are written twice."""


def unswitch_loops(block: Block, unwritten: Collection[SSAValue]) -> None:
    """Takes such conditions out of the innermost loops of a block.

    Expects invariants in front of their loops, and guarantees it: those of a branch were not.

    Args:
        block: The block.
        unwritten: Memory that no op in the block writes; see `hoist_invariants`.
    """
    for op in list(block.ops):
        loops = [inner for region in op.regions for inner in region.blocks]
        if isinstance(op, scf.ForOp) and (choice := _choice(op)) is not None:
            unswitched = _unswitched(op, choice)
            block.insert_op_before(unswitched, op)
            Rewriter.erase_op(op)
            loops = [region.block for region in unswitched.regions]
            for branch in loops:
                hoist_invariants(branch, unwritten)
        for inner in loops:
            unswitch_loops(inner, unwritten)


def _choice(loop: scf.ForOp) -> scf.IfOp | None:
    """Returns the only choice in a loop's body by a condition from before it; `None` if the loop stays as it is.

    So do loops with several, of which there would be a copy for each combination, loops around others, and those that
    carry sums, which are cut into blocks where they are nests of loops.
    """
    body = loop.body.block
    choices = [op for op in body.ops if isinstance(op, scf.IfOp) and not stands_in(op.cond, body)]
    if loop.results or len(choices) != 1:
        return None
    ops = list(operations(body))
    return None if len(ops) > MOST_OPS_TWICE or any(isinstance(op, scf.ForOp) for op in ops) else choices[0]


def _unswitched(loop: scf.ForOp, choice: scf.IfOp) -> scf.IfOp:
    """Returns the choice between two copies of a loop, in each of which it has been made."""
    if_true, if_false = (
        Region(Block([with_choices(loop, {choice: outcome}), yield_op(())])) for outcome in (True, False)
    )
    result = scf.IfOp(choice.cond, [], if_true, if_false)
    result.location = choice.location
    return result


def with_choices(loop: scf.ForOp, outcomes: Mapping[scf.IfOp, bool]) -> scf.ForOp:
    """Returns a copy of a loop without results, with the ops of one branch in place of each choice that is made.

    Choices lie in the loop's body, or in branches of others that are made.
    """
    body = Block(arg_types=[argument.type for argument in loop.body.block.args])
    values: dict[SSAValue, SSAValue] = dict(zip(loop.body.block.args, body.args, strict=True))

    def copy(ops: Iterable[Operation]) -> None:
        for op in ops:
            if isinstance(op, scf.IfOp) and op in outcomes:
                branch = op.true_region if outcomes[op] else op.false_region
                inner = list(branch.block.ops) if branch.blocks else []
                copy(inner[:-1])
                results = inner[-1].operands if inner else ()
                values.update((old, values.get(new, new)) for old, new in zip(op.results, results, strict=True))
            else:
                body.add_op(cloned(op, values))

    copy(loop.body.block.ops)
    result = scf.ForOp(loop.lb, loop.ub, loop.step, (), body)
    result.attributes |= loop.attributes
    result.location = loop.location
    return result
