"""Moves and copies ops between blocks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import returned


def moved(
    block: Block, operands: Sequence[SSAValue], values: Sequence[SSAValue], builder: TensorBuilder
) -> list[SSAValue]:
    """Moves the ops of a block, except a terminator, to the builder's insertion point.

    Args:
        block: Is left without ops, and its arguments without uses.
        operands: Replacements for its arguments.
        values: Values that are visible in the block.
        builder: The insertion point.

    Returns:
        The replacements of `values`.
    """
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
    moved_values = [known.get(value, value) for value in values]
    for op in list(block.ops):
        op.detach()
        if op.results:
            builder.insert(op)
        else:
            op.erase()
    for argument, operand in known.items():
        argument.replace_all_uses_with(operand)
    return moved_values


def inlined(region: Region, operands: Sequence[SSAValue], builder: TensorBuilder) -> list[SSAValue]:
    """Copies the ops of a region of `tg.call` to the builder's insertion point; returns the region's results."""
    block = copied(region)
    return moved(block, operands, returned(block), builder)


def copied(region: Region) -> Block:
    """Returns a detached copy of the only block of a region."""
    new = region.clone()
    block = new.block
    new.detach_block(block)
    return block
