"""The pass `distribute`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of, type_of
from tensorgrad.dialects.tg.traits import is_elementwise
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.accumulate_gradients import PREFIX
from tensorgrad.passes.tensors.distribute.placement import PARTIAL, WHOLE, Distribution, Layout, Placed
from tensorgrad.passes.tensors.distribute.walk import Known, distribute

OPTIMIZER = "optimizer"
"""What `shard` may name: the state that updates of parameters keep between steps."""


@dataclass(frozen=True)
class DistributePass(LevelPass):
    """Turns the step of a whole batch into that of one process of a group, each of which has a part of the batch.

    Expects a function of `tg` that sees the whole batch, derivatives and updates included, and no collectives.
    Guarantees the step of the process `rank`: inputs are cut along their first axis, and so is what is computed of
    them, as far as ops work on parts; a sum over what is cut is a sum in each process, and is exchanged
    (`tg.all_reduce`) where it is first needed, such as a gradient by its update. Parameters, state and results are
    whole, and equal in all processes. What it computes is what the whole batch gives, but for roundings: norms,
    batch statistics, random numbers and metrics are those of the whole batch. Where an op needs more than a part, its
    operands are gathered. Processes of all ranks have the same collectives in the same order.

    With `shard=optimizer`, each process keeps one of as many equal parts of each state of the optimizer, along the
    first axis that has them: gradients are exchanged by `tg.reduce_scatter`, and the parts of the parameters that are
    updated so by `tg.all_gather`, which moves as many bytes. It is the first stage of ZeRO (Rajbhandari et al., 2020).

    Sums of micro-batches, as `accumulate-gradients` keeps them, stay sums over the processes.

    Attributes:
        size: The number of processes.
        rank: This one.
        shard: What else is cut; nothing, or `optimizer`.
        replicated: The inputs that every process has all of; scalars are too.
        function: The function; may be absent where there is only one.
    """

    name = "distribute"
    levels = TENSORS

    size: int
    rank: int = 0
    shard: str | None = None
    replicated: tuple[str, ...] = ()
    function: str | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.size < 1 or not 0 <= self.rank < self.size:
            raise DiagnosticException(f"{self.name}: rank {self.rank} is not one of a group of {self.size}")
        if self.shard not in (None, OPTIMIZER):
            raise DiagnosticException(f"{self.name}: shard is {OPTIMIZER} or nothing, not {self.shard!r}")
        function = find_function(op, self.function)
        block, slots = block_of(function), arguments_of(function)
        layouts: dict[SSAValue, Layout] = {
            value: self._layout(slot, value, function) for slot, value in zip(slots, block.args, strict=True)
        }
        self._run(function, slots, layouts)

    def _layout(self, slot: Slot, value: SSAValue, function: FuncOp) -> Layout:
        """Returns how the group holds an argument."""
        shape = shape_of(value)
        if slot.role == "input" and shape and slot.name not in self.replicated:
            if shape[0] % self.size:
                raise DiagnosticException(
                    f"{self.name}: input {slot.name!r} of @{function.sym_name.data} is {type_of(value)}: its first "
                    f"axis has no {self.size} equal parts"
                )
            return Layout(0)
        if slot.role == "state" and slot.name.startswith(f"{PREFIX}/"):
            return PARTIAL
        if slot.role == "state" and self.shard == OPTIMIZER and _is_of_optimizer(slot, function):
            axis = next((axis for axis, extent in enumerate(shape) if extent and extent % self.size == 0), None)
            return WHOLE if axis is None else Layout(axis)
        return WHOLE

    def _run(self, function: FuncOp, slots: Sequence[Slot], layouts: Mapping[SSAValue, Layout]) -> None:
        block, last = block_of(function), return_of(function)
        states = {
            value: layout for slot, (value, layout) in zip(slots, layouts.items(), strict=True) if slot.role == "state"
        }
        d = Distribution(TensorBuilder(block, before=last), self.size, self.rank, _wanted(states, block))
        known: Known = {}
        old_arguments, old_ops = list(block.args), [op for op in block.ops if op is not last]
        for argument in old_arguments:
            new = block.insert_arg(d.local(type_of(argument), layouts[argument]), len(block.args))
            new.location, new.name_hint = argument.location, argument.name_hint
            known[argument] = Placed(new, layouts[argument])
        distribute(d, old_ops, known)
        d.builder.location = last.location
        kept = {slot.name: states[value] for slot, value in zip(slots, old_arguments, strict=True) if value in states}
        results = results_of(function)
        values = [
            d.as_layout(known[value], kept.get(slot.name, WHOLE) if slot.role == "update" else WHOLE).value
            for slot, value in zip(results, last.operands, strict=True)
        ]
        set_returned(function, values)
        for op in reversed(old_ops):
            op.detach()
            op.erase()
        for argument in reversed(old_arguments):
            block.erase_arg(argument)
        set_signature(function, slots, results)


def _is_of_optimizer(slot: Slot, function: FuncOp) -> bool:
    """Returns whether a state is a parameter's: buffers of a model are the model's own."""
    _, _, name = slot.name.partition("/")
    return any(one.role == "parameter" and one.name == name for one in arguments_of(function))


def _wanted(states: Mapping[SSAValue, Layout], block: Block) -> dict[SSAValue, int]:
    """Returns the axis along which values are cut that are combined, element by element, with state that is cut."""
    found = {value: layout.axis for value, layout in states.items() if layout.axis is not None}
    pending = list(found)
    while pending:
        value = pending.pop()
        for op in (*(use.operation for use in value.uses), value.owner):
            if not is_elementwise(op):
                continue
            for other in (*op.operands, *op.results):
                if other not in found and other.owner is not block and shape_of(other) == shape_of(value):
                    found[other] = found[value]
                    pending.append(other)
    return found
