"""The pass `accumulate-gradients`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.passes.functions import return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, Effect, LevelPass

PREFIX, KEPT = "accumulated", "accumulated.kept"
"""The prefix of the sums' names, and the scalar that says whether there is a sum yet."""


@dataclass(frozen=True)
class AccumulateGradientsPass(LevelPass):
    """Accumulates gradients over micro-batches, so that one update uses their mean.

    A step needs two functions with the same state `accumulated/<parameter>`. Each of the first `steps - 1`
    micro-batches runs the function that this pass makes with `last=false`, and the last micro-batch runs the other.

    Expects a function whose results of role `gradient` have the names of arguments of role `parameter`, as `grad`
    returns it. Guarantees, with `last`: each gradient becomes the mean of itself and the accumulated ones, for an
    optimizer pass to use; the sums are unchanged, because the next step overwrites them. Without `last`: the gradients
    are replaced with results of role `update` that accumulate them. The host then provides the scalar
    `accumulated.kept`, computed from the number `micro_step` of the micro-batch, which counts from 1: in the first, the
    sum is the gradient itself, whatever its old value was, even NaN. Half floats are accumulated in f32, and their
    means remain f32.

    Attributes:
        steps: The number of micro-batches in a step; at least 2.
        last: Whether to make the function for the last of them.
        function: The function; may be omitted if there is only one.
    """

    name = "accumulate-gradients"
    levels = TENSORS

    steps: int
    last: bool = True
    function: str | None = None

    @property
    def effect(self) -> Effect:
        return Effect(changes_gradients=True)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.steps < 2:
            raise DiagnosticException(f"{self.name}: steps must be at least 2, got {self.steps}")
        function = find_function(op, self.function)
        where = f"{self.name}: @{function.sym_name.data}"
        block, slots = function.body.block, arguments_of(function)
        entries = list(zip(results_of(function), return_of(function).operands, strict=True))
        gradients = [(slot, value) for slot, value in entries if slot.role == Role.GRADIENT]
        if not gradients:
            raise DiagnosticException(f"{where} returns no gradient; run grad first")
        new_slots = [Slot(f"{PREFIX}/{slot.name}", Role.STATE) for slot, _ in gradients]
        kinds = [tensor(shape_of(value), _summed(value)) for _, value in gradients]
        if not self.last:
            new_slots.append(Slot(KEPT, Role.SCALAR, "0.0 if micro_step == 1 else 1.0"))
            kinds.append(tensor((), f64 if any(kind.element_type == f64 for kind in kinds) else f32))
        clashes = {(slot.role, slot.name) for slot in slots} & {(slot.role, slot.name) for slot in new_slots}
        if clashes:
            raise DiagnosticException(f"{where} has a {' '.join(min(clashes))} already")
        added = [block.insert_arg(kind, len(block.args)) for kind in kinds]
        builder = TensorBuilder(block, before=return_of(function), location=function.location)
        has_any = None if self.last else builder.compare("gt", added[-1], builder.full_like(added[-1], 0.0))
        written = {
            slot.name: self._write(builder, value, before, has_any)
            for (slot, value), before in zip(gradients, added, strict=False)
        }
        role, prefix = (Role.GRADIENT, "") if self.last else (Role.UPDATE, f"{PREFIX}/")
        others = [(slot, value) for slot, value in entries if slot.role != Role.GRADIENT]
        results = [*others, *((Slot(prefix + name, role), value) for name, value in written.items())]
        set_returned(function, [value for _, value in results])
        set_signature(function, [*slots, *new_slots], [slot for slot, _ in results])

    def _write(self, b: TensorBuilder, gradient: SSAValue, before: SSAValue, has_any: SSAValue | None) -> SSAValue:
        """Returns the mean with the accumulated gradients, or their sum."""
        b.location = gradient.owner.location if isinstance(gradient.owner, Operation) else b.location
        gradient = b.cast(gradient, element_of(before))
        if has_any is None:
            return b.scale(b.add(before, gradient), 1 / self.steps)
        # The gradient is read only once, so in a group it remains a partial sum.
        return b.add(b.select(b.broadcast(has_any, shape_of(before), []), before, b.full_like(before, 0.0)), gradient)


def _summed(gradient: SSAValue) -> Attribute:
    """Returns the element type in which a gradient is accumulated."""
    return f32 if element_of(gradient) in SHORT_FLOATS.values() else element_of(gradient)
