"""The pass `distribute`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of, type_of
from tensorgrad.dialects.tg.traits import is_elementwise
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, Effect, LevelPass
from tensorgrad.passes.tensors.accumulate_gradients import PREFIX
from tensorgrad.passes.tensors.distribute.placement import PARTIAL, WHOLE, Distribution, Placed, Placement
from tensorgrad.passes.tensors.distribute.walk import Known, distribute

OPTIMIZER = "optimizer"
"""The value of `shard` that shards the state which optimizers keep for each parameter between steps."""


@dataclass(frozen=True)
class DistributePass(LevelPass):
    """Turns the step of a whole batch into that of one process of a group, which holds a shard of the batch.

    Expects a function of `tg` on the whole batch, derivatives and updates included, without collectives. Guarantees the
    step of the process `rank`, with the results of the whole batch up to rounding: norms, batch statistics, random
    numbers and metrics are those of the whole batch. The processes of all ranks have the same collectives in the same
    order.

    Inputs are sharded along their first axis, and so are the values computed from them, as far as ops can work on
    shards. A reduction over a sharded axis gives a partial sum in each process, which is reduced (`tg.all_reduce`)
    where the total is first needed: a gradient, for example, by its update. Where an op needs more than a shard, its
    operands are gathered. Parameters, state and results are replicated.

    With `shard=optimizer`, each process keeps one of `size` equal parts of each state of the optimizer, along the first
    axis that can be divided. Gradients are then reduced by `tg.reduce_scatter`, and the updated shards of the
    parameters are gathered by `tg.all_gather`, which together move as many bytes as an all-reduce. This is stage 1 of
    ZeRO (Rajbhandari et al., 2020).

    Gradients that `accumulate-gradients` sums over micro-batches remain partial sums.

    Attributes:
        size: The number of processes.
        rank: The rank of this process.
        shard: What else is sharded: nothing, or `optimizer`.
        replicated: The names of the inputs that every process holds whole; scalars always are.
        function: The function; may be omitted if there is only one.
    """

    name = "distribute"
    levels = TENSORS

    size: int
    rank: int = 0
    shard: str | None = None
    replicated: tuple[str, ...] = ()
    function: str | None = None

    @property
    def effect(self) -> Effect:
        return Effect(distributes=True)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.size < 1 or not 0 <= self.rank < self.size:
            raise DiagnosticException(
                f"{self.name}: rank {self.rank} is out of range for a group of {self.size} processes"
            )
        if self.shard not in (None, OPTIMIZER):
            raise DiagnosticException(f"{self.name}: shard must be '{OPTIMIZER}' or empty, got {self.shard!r}")
        function = find_function(op, self.function)
        block, slots = block_of(function), arguments_of(function)
        layouts: dict[SSAValue, Placement] = {
            value: self._layout(slot, value, function) for slot, value in zip(slots, block.args, strict=True)
        }
        self._run(function, slots, layouts)

    def _layout(self, slot: Slot, value: SSAValue, function: FuncOp) -> Placement:
        """Returns the layout of an argument."""
        shape = shape_of(value)
        if slot.role == Role.INPUT and shape and slot.name not in self.replicated:
            if shape[0] % self.size:
                raise DiagnosticException(
                    f"{self.name}: input {slot.name!r} of @{function.sym_name.data} is {type_of(value)}: its first "
                    f"axis, of extent {shape[0]}, is not divisible by {self.size}"
                )
            return Placement(0)
        if slot.role == Role.STATE and slot.name.startswith(f"{PREFIX}/"):
            return PARTIAL
        if slot.role == Role.STATE and self.shard == OPTIMIZER and _is_of_optimizer(slot, function):
            axis = next((axis for axis, extent in enumerate(shape) if extent and extent % self.size == 0), None)
            return WHOLE if axis is None else Placement(axis)
        return WHOLE

    def _run(self, function: FuncOp, slots: Sequence[Slot], layouts: Mapping[SSAValue, Placement]) -> None:
        block, last = block_of(function), return_of(function)
        states = {
            value: layout
            for slot, (value, layout) in zip(slots, layouts.items(), strict=True)
            if slot.role == Role.STATE
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
        state_layouts = {
            slot.name: states[value] for slot, value in zip(slots, old_arguments, strict=True) if value in states
        }
        results = results_of(function)
        values = [
            d.as_layout(known[value], state_layouts.get(slot.name, WHOLE) if slot.role == Role.UPDATE else WHOLE).value
            for slot, value in zip(results, last.operands, strict=True)
        ]
        set_returned(function, values)
        for op in reversed(old_ops):
            Rewriter.erase_op(op)
        for argument in reversed(old_arguments):
            block.erase_arg(argument)
        set_signature(function, slots, results)


def _is_of_optimizer(slot: Slot, function: FuncOp) -> bool:
    """Returns whether a state is an optimizer's, for a parameter, rather than a buffer of the model."""
    _, _, name = slot.name.partition("/")
    return any(argument.role == Role.PARAMETER and argument.name == name for argument in arguments_of(function))


def _wanted(states: Mapping[SSAValue, Placement], block: Block) -> dict[SSAValue, int]:
    """Returns, for each value that elementwise ops combine with sharded state, the axis of that state's sharding."""
    results = {value: layout.axis for value, layout in states.items() if layout.axis is not None}
    pending = list(results)
    while pending:
        value = pending.pop()
        for op in (*(use.operation for use in value.uses), value.owner):
            if not is_elementwise(op):
                continue
            for other in (*op.operands, *op.results):
                if other not in results and other.owner is not block and shape_of(other) == shape_of(value):
                    results[other] = results[value]
                    pending.append(other)
    return results
