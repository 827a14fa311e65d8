"""The pass `group-collectives`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.passes.levels import TENSORS, LevelPass


@dataclass(frozen=True)
class GroupCollectivesPass(LevelPass):
    """Moves collectives behind each other, so that one message carries the tensors of several.

    Expects functions of `tg`. Guarantees the same values. In each block, a collective comes to stand in front of the
    first op that needs one of those that wait by then; those that wait go with it, alike ones side by side. So the
    gradients of a step are exchanged together where the first update begins, which is one message, with the loss and
    the batch statistics that nothing needs before. Every process moves its collectives in the same way.
    """

    name = "group-collectives"
    levels = TENSORS

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            for region in inner.regions:
                for block in region.blocks:
                    if any(isinstance(one, CollectiveOp) for one in block.ops):
                        _group(block)


def _group(block: Block) -> None:
    waiting: list[CollectiveOp] = []
    results: set[SSAValue] = set()
    for op in list(block.ops):
        if isinstance(op, CollectiveOp) and op.operand not in results:
            waiting.append(op)
            results.add(op.result)
            continue
        if any(operand in results for inner in op.walk() for operand in inner.operands) or op is block.last_op:
            _put(waiting, op, block)
            waiting, results = [], set()
        if isinstance(op, CollectiveOp):
            waiting.append(op)
            results.add(op.result)


def _put(waiting: list[CollectiveOp], before: Operation, block: Block) -> None:
    """Moves collectives in front of an op: those of one kind and element type side by side."""
    order: dict[object, list[CollectiveOp]] = {}
    for op in waiting:
        kind = {name: value for name, value in op.properties.items() if name != "axis"}
        order.setdefault((op.name, tuple(kind.items()), op.type.get_element_type()), []).append(op)
    for found in order.values():
        for op in found:
            op.detach()
            block.insert_op_before(op, before)
