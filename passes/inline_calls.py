"""The pass `inline-calls`, and how ops move from one block to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import CallOp, returned


@dataclass(frozen=True)
class InlineCallsPass(ModulePass):
    """Replaces every `tg.call` by its body, also in the bodies of others; custom derivatives are dropped.

    Expects functions on `tg`, after everything that differentiates them. Guarantees the same results. Ops keep their
    locations.

    Attributes:
        recompute: Whether calls marked `recompute` are inlined too. They stay apart until no later pass would merge
            what they compute with what was computed before.
    """

    name = "inline-calls"

    recompute: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp):
                for block in function.body.blocks:
                    self._inline(block)

    def _inline(self, block: Block) -> None:
        for op in list(block.ops):
            if not isinstance(op, CallOp):
                continue
            body = op.body.block
            self._inline(body)
            if op.recompute is not None and not self.recompute:
                continue
            results = moved(body, list(op.operands), returned(body), TensorBuilder(block, before=op))
            for old, new in zip(op.results, results, strict=True):
                new.name_hint = new.name_hint or old.name_hint
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()


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
    """A copy of the only block of a region, in no region itself."""
    new = region.clone()
    block = new.block
    new.detach_block(block)
    return block


def erase_unneeded(block: Block, values: Sequence[SSAValue]) -> None:
    """Erases the ops of a block, which has no terminator, that none of `values` needs."""
    needed: set[SSAValue] = set(values)
    for op in reversed(list(block.ops)):
        if any(result in needed for result in op.results):
            needed.update(op.operands)
        else:
            op.detach()
            op.erase()
