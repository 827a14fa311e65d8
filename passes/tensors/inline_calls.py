"""The pass `inline-calls`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import CallOp, returned
from tensorgrad.dialects.tg.control import ScanOp
from tensorgrad.dialects.tg.traits import is_view
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.moving import moved
from tensorgrad.runtime.target import Target


@dataclass(frozen=True)
class InlineCallsPass(LevelPass):
    """Replaces every `tg.call` with its body, also inside other ops; custom derivatives are dropped.

    Composite calls remain, for a lowering that knows them; inside loops, each of which needs a binding too, only those
    whose kernels fit the target's binding limit remain.

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
        limit = None if self.target is None else self.target.max_storage_buffers_per_shader_stage
        for function in op.walk():
            if isinstance(function, FuncOp):
                for block in function.body.blocks:
                    self._inline(block, 0, limit)

    def _inline(self, block: Block, loops: int, limit: int | None) -> None:
        for op in list(block.ops):
            if not isinstance(op, CallOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._inline(inner, loops + isinstance(op, ScanOp), limit)
                continue
            body = op.body.block
            self._inline(body, loops, limit)
            fits = limit is None or not loops or most_bindings(op) + loops <= limit
            if op.composite is not None and fits:
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


def most_bindings(call: CallOp) -> int:
    """Returns the most buffers that a kernel of a composite call binds: its operands and two results."""

    def viewed(value: SSAValue) -> SSAValue:
        while is_view(owner := value.owner):
            value = owner.operands[0]
        return value

    return len({viewed(operand) for operand in call.operands}) + 2


def drop_derivative(call: CallOp) -> None:
    """Erases the custom derivative of a call, or the mark that it uses that of an enclosing call."""
    for region in list(call.derivative):
        call.detach_region(region)
        region.erase()
    for name in ("wrt", "recursive"):
        call.properties.pop(name, None)
