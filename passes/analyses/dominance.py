"""Verification that definitions dominate their uses, which xDSL's verifier doesn't do."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.utils.exceptions import VerifyException


def verify_dominance(root: Operation) -> None:
    """Checks every op in `root`, in time linear in their number.

    Raises:
        VerifyException: An op uses a value whose definition doesn't dominate it; the message names both.
    """
    for op, number in undominated_uses(root):
        raise VerifyException(_message(op, number, op.operands[number]))


def undominated_uses(root: Operation) -> Iterator[tuple[Operation, int]]:
    """Yields the ops in `root` that use values whose definitions don't dominate them, with the operands' numbers."""
    visible: set[SSAValue] = set()
    for region in root.regions:
        yield from _in_region(region, visible)


def _in_region(region: Region, visible: set[SSAValue]) -> Iterator[tuple[Operation, int]]:
    """Checks a region; `visible` has the values in scope, and is restored at the end."""
    blocks = list(region.blocks)
    if len(blocks) == 1:
        yield from _in_block(blocks[0], visible)
        visible.difference_update(_defined_in(blocks[0]))
        return
    dominance = DominanceInfo(region)
    defined = {block: _defined_in(block) for block in blocks}
    for block in blocks:
        above = [v for other in blocks if dominance.strictly_dominates(other, block) for v in defined[other]]
        visible.update(above)
        yield from _in_block(block, visible)
        visible.difference_update(above, defined[block])


def _defined_in(block: Block) -> list[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]


def _in_block(block: Block, visible: set[SSAValue]) -> Iterator[tuple[Operation, int]]:
    """Checks the ops of a block in order, and adds what they define to `visible`."""
    visible.update(block.args)
    for op in block.ops:
        for number, operand in enumerate(op.operands):
            if operand not in visible:
                yield op, number
        for region in op.regions:
            yield from _in_region(region, visible)
        visible.update(op.results)


def _message(op: Operation, number: int, operand: SSAValue) -> str:
    owner = operand.owner
    source = f"the result of {owner.name}" if isinstance(owner, Operation) else "a block's argument"
    hint = "" if operand.name_hint is None else f" (%{operand.name_hint})"
    return f"operand {number} of {op.name} is {source}{hint} that is not defined before it"
