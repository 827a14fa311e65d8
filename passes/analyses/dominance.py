"""Verification that definitions dominate their uses, which xDSL's verifier doesn't do."""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.utils.exceptions import VerifyException


def verify_dominance(root: Operation) -> None:
    """Checks every op in `root`, in time linear in their number.

    Raises:
        VerifyException: An op uses a value whose definition doesn't dominate it; the message names both.
    """
    visible: set[SSAValue] = set()
    for region in root.regions:
        _verify_region(region, visible)


def _verify_region(region: Region, visible: set[SSAValue]) -> None:
    """Checks a region; `visible` has the values in scope, and is restored on return."""
    blocks = list(region.blocks)
    if len(blocks) == 1:
        added = _verify_block(blocks[0], visible)
        visible.difference_update(added)
        return
    dominance = DominanceInfo(region)
    defined = {block: _defined_in(block) for block in blocks}
    for block in blocks:
        above = [v for other in blocks if dominance.strictly_dominates(other, block) for v in defined[other]]
        visible.update(above)
        added = _verify_block(block, visible)
        visible.difference_update(above, added)


def _defined_in(block: Block) -> list[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]


def _verify_block(block: Block, visible: set[SSAValue]) -> list[SSAValue]:
    """Checks the ops of a block in order; returns the values added to `visible`."""
    added: list[SSAValue] = list(block.args)
    visible.update(added)
    for op in block.ops:
        for number, operand in enumerate(op.operands):
            if operand not in visible:
                raise VerifyException(_message(op, number, operand))
        for region in op.regions:
            _verify_region(region, visible)
        visible.update(op.results)
        added.extend(op.results)
    return added


def _message(op: Operation, number: int, operand: SSAValue) -> str:
    owner = operand.owner
    source = f"the result of {owner.name}" if isinstance(owner, Operation) else "a block's argument"
    hint = "" if operand.name_hint is None else f" (%{operand.name_hint})"
    return f"operand {number} of {op.name} is {source}{hint} that is not defined before it"
