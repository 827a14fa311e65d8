"""The pass `remat`: divides the forward pass into segments that the derivative recomputes instead of keeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import element_bytes
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg.base import size_of
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.dialects.tg.shape import BroadcastOp
from tensorgrad.passes.functions import block_of
from tensorgrad.passes.levels import TENSORS, LevelPass


@dataclass(frozen=True)
class RematPass(LevelPass):
    """Wraps segments of a function's ops in calls marked `recompute`, except the last segment.

    Expects a `tg` function of one block, before `grad`. Guarantees the same results. `grad` then keeps only
    values that cross from one segment to another, and recomputes each segment for its derivative (T. Chen et al.,
    Training Deep Nets with Sublinear Memory Cost, 2016). Segments have about equal bytes of values, and end where few
    bytes cross. Constants stay with their users.

    Attributes:
        segments: The number of segments; with 1, nothing changes.
        function: The function; may be omitted if there is only one.
    """

    name = "remat"
    levels = TENSORS

    segments: int
    function: str | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.segments < 1:
            raise DiagnosticException(f"segments must be at least 1, got {self.segments}")
        block = block_of(find_function(op, self.function))
        ops = [inner for inner in block.ops if inner.operands and inner is not block.last_op]
        cuts = _cuts(ops, self.segments)
        for number, (start, end) in enumerate(pairwise([0, *cuts]), 1):
            wrap(block, ops[start:end], f"segment_{number}")


def wrap(block: Block, ops: Sequence[Operation], name: str) -> CallOp:
    """Moves ops of a block, given in order, into a call marked `recompute` in the place of the last.

    Constants among their operands are copied into the call.
    """
    body = Block()
    inside = {result for op in ops for result in op.results}
    known: dict[SSAValue, SSAValue] = {}
    operands: list[SSAValue] = []
    results = [result for op in ops for result in op.results if _is_used_outside(result, set(ops))]
    last = ops[-1]
    anchor = last.next_op
    assert anchor is not None
    for op in ops:
        op.detach()
        for place, operand in enumerate(op.operands):
            if operand in inside:
                continue
            if operand not in known:
                known[operand] = _entering(operand, body, operands)
            op.operands[place] = known[operand]
        body.add_op(op)
    end = ReturnOp(results)
    end.location = last.location
    body.add_op(end)
    call = CallOp.of(name, operands, body, recompute=True)
    call.location = ops[0].location
    block.insert_op_before(call, anchor)
    for old, new in zip(results, call.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: use.operation.parent is not body)
    return call


def _entering(value: SSAValue, body: Block, operands: list[SSAValue]) -> SSAValue:
    """Returns an outer value's replacement in a body: a copy of a constant, or an argument."""
    if isinstance(value.owner, Operation) and not value.owner.operands and not value.owner.regions:
        copy = value.owner.clone()
        body.add_op(copy)
        return copy.results[0]
    operands.append(value)
    argument = body.insert_arg(value.type, len(body.args))
    argument.name_hint = value.name_hint
    return argument


def _is_used_outside(value: SSAValue, ops: set[Operation]) -> bool:
    return any(use.operation not in ops for use in value.uses)


def _cuts(ops: Sequence[Operation], segments: int) -> list[int]:
    """Returns the ends of all segments but the last: near equal shares of bytes, where the fewest bytes cross."""
    if len(ops) < 2 or segments < 2:
        return []
    sizes = list(accumulate(sum(_bytes(result) for result in op.results) for op in ops))
    crossing = _crossing(ops)
    cuts: list[int] = []
    for number in range(1, segments):
        low, high = ((number + side) / segments * sizes[-1] for side in (-0.5, 0.5))
        size = number / segments * sizes[-1]
        near = [at for at in range(1, len(ops)) if low < sizes[at - 1] <= high and at > (cuts[-1] if cuts else 0)]
        if near:
            cuts.append(min(near, key=lambda at: (crossing[at], abs(sizes[at - 1] - size))))
    return cuts


def _crossing(ops: Sequence[Operation]) -> list[int]:
    """Returns, for each position between ops, the bytes of values computed before it and used after it."""
    places = {op: place for place, op in enumerate(ops)}
    change = [0] * (len(ops) + 1)
    for place, op in enumerate(ops):
        for result in op.results:
            # The function's results are used after all of them.
            last = max((places.get(use.operation, len(ops)) for use in result.uses), default=place)
            size = _bytes(result)
            change[place + 1] += size
            if last + 1 <= len(ops):
                change[last + 1] -= size
    return list(accumulate(change))


def _bytes(value: SSAValue) -> int:
    """Returns the bytes that keeping a value takes; for a broadcast, those of its operand."""
    if isinstance(value.owner, BroadcastOp):
        value = value.owner.operands[0]
    return size_of(shape_of(value)) * element_bytes(element_of(value))
