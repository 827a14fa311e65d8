"""How ops move from one block to another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import returned


def moved(
    block: Block, operands: Sequence[SSAValue], values: Sequence[SSAValue], builder: TensorBuilder
) -> list[SSAValue]:
    """Moves the ops of a block, all but a terminator, to where the builder stands.

    Args:
        block: Is left without ops, and its arguments without uses.
        operands: What takes the place of its arguments.
        values: Values that are visible in the block.
        builder: Where the ops go.

    Returns:
        What `values` are now.
    """
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
    found = [known.get(value, value) for value in values]
    for op in list(block.ops):
        op.detach()
        if op.results:
            builder.insert(op)
        else:
            op.erase()
    for argument, operand in known.items():
        argument.replace_all_uses_with(operand)
    return found


def inlined(region: Region, operands: Sequence[SSAValue], builder: TensorBuilder) -> list[SSAValue]:
    """Copies the ops of a region of `tg.call` to where the builder stands; returns what the region returns."""
    block = copied(region)
    return moved(block, operands, returned(block), builder)


def copied(region: Region) -> Block:
    """Returns a copy of the only block of a region, in no region itself."""
    new = region.clone()
    block = new.block
    new.detach_block(block)
    return block
