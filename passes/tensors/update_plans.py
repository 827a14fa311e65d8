"""Plans of updates: which update functions each parameter of a function goes through."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import Tensor, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import element_of, shape_of
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.tensors.packing import Member
from tensorgrad.passes.tensors.updates import Update, updates_of


@dataclass(frozen=True)
class Pair:
    """A parameter and its gradient, whose element type is the parameter's or that of the update."""

    name: str
    parameter: SSAValue
    gradient: SSAValue

    @property
    def stored(self) -> Attribute:
        return element_of(self.parameter)

    @property
    def computed(self) -> Attribute:
        """The element type of state and arithmetic: half floats are updated in f32."""
        return f32 if self.stored in SHORT_FLOATS.values() else self.stored

    def member(self, alike: Hashable) -> Member[Pair]:
        """Returns the parameter's size and alignment in a row, with the group of those that are updated alike."""
        return Member(
            item=self,
            size=math.prod(shape_of(self.parameter)),
            stored=numpy_dtype(self.stored).itemsize,
            computed=numpy_dtype(self.computed).itemsize,
            group=alike,
            dtype=self.computed,
        )


@dataclass(frozen=True)
class UpdatePlan:
    """Which update functions each parameter of one optimizer goes through.

    Attributes:
        updates: The update functions by stage, then by parameter.
        computed: The type of each parameter in its update, in the order of the gradients.
    """

    updates: Mapping[int, Mapping[str, Update]]
    computed: Mapping[str, Tensor]

    @classmethod
    def of(cls, function: FuncOp, updates: Sequence[Update], where: str) -> UpdatePlan:
        by_stage: dict[int, dict[str, Update]] = {}
        for update in sorted(updates, key=lambda update_: update_.stage):
            by_stage.setdefault(update.stage, {}).update(dict.fromkeys(update.parameters, update))
        names = {name for update in updates if update.is_last for name in update.parameters}
        pairs = [pair for pair in pairs_of(function, where) if pair.name in names]
        missing = {name for update in updates for name in update.parameters} - {pair.name for pair in pairs}
        if missing:
            raise DiagnosticException(f"{where} has no gradient of {min(missing)!r}, which an optimizer updates")
        return cls(by_stage, {pair.name: tensor(shape_of(pair.parameter), pair.computed) for pair in pairs})

    @property
    def all(self) -> list[Update]:
        """Every function once, in order."""
        return list({id(update): update for stage in self.updates.values() for update in stage.values()}.values())

    @property
    def first_in_rows(self) -> int | None:
        """The first stage that needs the norm of all gradients or runs as a batch: packing starts there."""
        return min((update.stage for update in self.all if update.needs_norm or update.is_batched), default=None)

    def states(self) -> dict[tuple[str, str], Tensor]:
        """Returns the types of all state, by kind and parameter; all of one kind, then those of the next."""
        kinds = dict.fromkeys(kind for update in self.all for kind in update.states)
        return {
            (kind, name): whole if stage[name].is_elementwise else tensor(stage[name].states[kind], whole.element_type)
            for kind in kinds
            for name, whole in self.computed.items()
            for stage in self.updates.values()
            if name in stage and kind in stage[name].states
        }

    def scalars(self) -> list[Slot]:
        """Returns the scalars that the host computes."""
        return list(dict.fromkeys(slot for update in self.all for slot in update.slots if slot.role == Role.SCALAR))

    def check_names(self, function: FuncOp, where: str) -> None:
        """Checks that no argument has the name of a state.

        Raises:
            DiagnosticException: One has.
        """
        arguments = {(slot.role, slot.name) for slot in arguments_of(function)}
        for kind, name in self.states():
            if (Role.STATE, f"{kind}/{name}") in arguments:
                raise DiagnosticException(f"{where} has a state {kind}/{name} already")

    def alike(self, pair: Pair) -> Hashable:
        """Returns a key that is equal for parameters that one kernel may update together."""
        start = self.first_in_rows or 0
        path = [stage[pair.name] for place, stage in self.updates.items() if place >= start and pair.name in stage]
        batched = any(update.is_batched for update in path)
        alone = any(not update.is_elementwise and not update.is_batched for update in path)
        shape = shape_of(pair.parameter) if batched else None
        return tuple(map(id, path)), shape, pair.name if alone else None, pair.stored


def plans_of(module: ModuleOp, function: FuncOp, where: str) -> list[UpdatePlan]:
    """Returns the plan of each optimizer whose update functions a module has.

    Args:
        module: The module that contains the update functions.
        function: The function that returns the gradients.
        where: The prefix of messages.

    Raises:
        DiagnosticException: There are no update functions, a parameter has no gradient, or two optimizers update it.
    """
    updates = updates_of(module)
    if not updates:
        raise DiagnosticException(f"{where}: the module has no update functions; run trace-optimizer first")
    optimizers = sorted({update.optimizer for update in updates})
    plans = [
        UpdatePlan.of(function, [update for update in updates if update.optimizer == number], where)
        for number in optimizers
    ]
    counts = Counter(name for plan in plans for name in plan.computed)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DiagnosticException(f"{where}: two optimizers update {twice[0]!r}")
    return plans


def pairs_of(function: FuncOp, where: str) -> list[Pair]:
    """Returns the parameters with their gradients, in the order of the gradients.

    Raises:
        DiagnosticException: There is no gradient, one lacks its parameter, or one has another type than its parameter.
    """
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters: dict[str, SSAValue] = {slot.name: value for slot, value in arguments if slot.role == Role.PARAMETER}
    results = zip(results_of(function), return_of(function).operands, strict=True)
    gradients = {slot.name: value for slot, value in results if slot.role == Role.GRADIENT}
    if not gradients:
        raise DiagnosticException(f"{where} returns no gradient; run grad first")
    pairs: list[Pair] = []
    for name, gradient in gradients.items():
        if name not in parameters:
            raise DiagnosticException(f"{where} has a gradient but no parameter {name!r}")
        pair = Pair(name, parameters[name], gradient)
        if gradient.type not in [tensor(shape_of(pair.parameter), element) for element in (pair.stored, pair.computed)]:
            raise DiagnosticException(
                f"{where}: parameter {name!r} is {parameters[name].type}, its gradient {gradient.type}"
            )
        pairs.append(pair)
    return pairs
