"""The pass `inline-calls`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import element_bytes
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.call import CallOp, returned
from tensorgrad.dialects.tg.control import ScanOp
from tensorgrad.dialects.tg.traits import is_view
from tensorgrad.passes.analyses.storage import bindings_of
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.moving import moved
from tensorgrad.runtime.target import Target


@dataclass(frozen=True)
class InlineCallsPass(LevelPass):
    """Replaces every `tg.call` with its body, also inside other ops, and drops custom derivatives.

    Expects functions on `tg` that have been differentiated. Guarantees the same results. Ops keep their locations.

    Composite calls remain, for a lowering that supports them, if the target has enough bindings for their kernels. Each
    loop around a kernel takes a binding, and a tensor larger than the largest binding takes several. Outside of loops,
    a call also remains if one binding can hold all values that are live at once: its tensors then lie in one arena.

    Attributes:
        recompute: Whether to inline calls marked `recompute` too. They must remain as long as a later pass would merge
            their ops with equal ones outside.
        target: A profile or JSON that limits the bindings of a kernel; unlimited if omitted.
    """

    name = "inline-calls"
    levels = TENSORS

    recompute: bool = True
    target: Target | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp):
                for block in function.body.blocks:
                    self._inline(block, 0)

    def _inline(self, block: Block, loops: int) -> None:
        for op in list(block.ops):
            if not isinstance(op, CallOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._inline(inner, loops + isinstance(op, ScanOp))
                continue
            body = op.body.block
            self._inline(body, loops)
            if op.composite is not None and (self.target is None or _binds(op, loops, self.target)):
                drop_derivative(op)
                continue
            if op.recompute is not None and not self.recompute:
                continue
            results = moved(body, list(op.operands), returned(body), TensorBuilder(block, before=op))
            for old, new in zip(op.results, results, strict=True):
                new.name_hint = new.name_hint or old.name_hint
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)


def _binds(call: CallOp, loops: int, target: Target) -> bool:
    """Returns whether a target has enough bindings for the kernels of a composite call inside `loops` loops."""
    if most_bindings(call, target) + loops <= target.max_storage_buffers_per_shader_stage:
        return True
    block = call.parent
    assert block is not None
    return loops == 0 and most_bytes(block) <= target.max_storage_buffer_binding_size


def most_bindings(call: CallOp, target: Target) -> int:
    """Returns the most bindings that a kernel of a composite call needs: for all operands and two results."""
    operands = {_viewed(operand) for operand in call.operands}
    results = max(bindings_of(_bytes(result), target) for result in call.results)
    return sum(bindings_of(_bytes(operand), target) for operand in operands) + 2 * results


def most_bytes(block: Block) -> int:
    """Returns the peak bytes of live values in a block."""
    number = {op: place for place, op in enumerate(block.ops)}
    change = [0] * (len(number) + 1)
    last: dict[SSAValue, int] = {}
    for op, place in number.items():
        for operand in op.operands:
            last[_viewed(operand)] = place
    for op, place in number.items():
        for result in op.results:
            if not is_view(op):
                change[place] += _bytes(result)
                change[last.get(result, place) + 1] -= _bytes(result)
    return max(accumulate(change))


def _bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value)) * element_bytes(element_of(value))


def _viewed(value: SSAValue) -> SSAValue:
    """Returns the value at the root of a chain of views; `value` itself if it is no view."""
    while is_view(owner := value.owner):
        value = owner.operands[0]
    return value


def drop_derivative(call: CallOp) -> None:
    """Erases the custom derivative of a call, or the mark that it uses that of an enclosing call."""
    for region in list(call.derivative):
        call.detach_region(region)
        region.erase()
    for name in ("wrt", "recursive"):
        call.properties.pop(name, None)
