"""The pass `inline-calls`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

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
    """Replaces every `tg.call` with its body, also inside other ops; custom derivatives are dropped.

    Composite calls remain, for a lowering that knows them, if a target binds all that their kernels need. A loop around
    a kernel takes a binding, and a tensor that is larger than a binding several. Outside of loops, a call remains as
    well where one binding can hold all that is in use at once: its tensors will lie in one arena then.

    Expects functions on `tg`, after everything that differentiates them. Guarantees the same results. Ops keep their
    locations.

    Attributes:
        recompute: Whether calls marked `recompute` are inlined too. They remain until no later pass merges their ops
            with equal ones outside.
        target: A profile or JSON with the number of bindings that a kernel may have; unlimited if absent.
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
            op.detach()
            op.erase()


def _binds(call: CallOp, loops: int, target: Target) -> bool:
    """Returns whether a target binds all that a kernel of a composite call needs, in some loops."""
    if most_bindings(call, target) + loops <= target.max_storage_buffers_per_shader_stage:
        return True
    block = call.parent
    assert block is not None
    return loops == 0 and most_bytes(block) <= target.max_storage_buffer_binding_size


def most_bindings(call: CallOp, target: Target) -> int:
    """Returns the most bindings of a kernel of a composite call, for its operands and two results."""
    operands = {_viewed(operand) for operand in call.operands}
    results = max(bindings_of(_bytes(result), target) for result in call.results)
    return sum(bindings_of(_bytes(operand), target) for operand in operands) + 2 * results


def most_bytes(block: Block) -> int:
    """Returns the most bytes of a block's values that are in use at once."""
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
    """Returns what a value is a view of."""
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
