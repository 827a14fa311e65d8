"""The pass `inline-calls`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from tensorgrad.dialects.tg.build import TensorBuilder
from tensorgrad.dialects.tg.call import CallOp, returned
from tensorgrad.passes.moving import moved


@dataclass(frozen=True)
class InlineCallsPass(ModulePass):
    """Replaces every `tg.call` by its body, also inside of other ops; custom derivatives are dropped.

    Composite calls stay calls, for a lowering that knows them, but where the function has loops or branches.

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
                control = any(one.regions and not isinstance(one, CallOp | FuncOp) for one in function.walk())
                for block in function.body.blocks:
                    self._inline(block, not control)

    def _inline(self, block: Block, composite: bool) -> None:
        for op in list(block.ops):
            if not isinstance(op, CallOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._inline(inner, composite)
                continue
            body = op.body.block
            self._inline(body, composite)
            if op.composite is not None and composite:
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


def drop_derivative(call: CallOp) -> None:
    """Erases the custom derivative of a call, or the mark that it has one of a call around it."""
    for region in list(call.derivative):
        call.detach_region(region)
        region.erase()
    for name in ("wrt", "recursive"):
        call.properties.pop(name, None)
