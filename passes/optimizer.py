"""What the optimizer passes share: appending an update rule to a function that returns gradients."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import reduce
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f16, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.functions import find_function, order_parameters, return_of, set_returned, set_signature
from tensorgrad.passes.lower_tg_to_buf.outline import has_control
from tensorgrad.passes.optimizer_groups import RATE, Coefficients, Group, coefficients, read_groups
from tensorgrad.passes.packing import Chunk, Member, Row, packed
from tensorgrad.runtime.errors import FormulaError
from tensorgrad.runtime.formula import Formula

NORM_OFFSET = 1e-6
"""What is added to the norm that gradients are divided by; PyTorch's."""


@dataclass(frozen=True)
class Update:
    """What one parameter's update is written with.

    Attributes:
        builder: Appends to the function, at the gradient's location.
        parameter: The parameter's value before the step.
        gradient: The loss' derivative by it.
        state: The values of its state before the step, in the order of the rule's prefixes.
        coefficients: Constants of the program, and scalars that the host computed for this step.
        decays: Whether this parameter decays.
    """

    builder: TensorBuilder
    parameter: SSAValue
    gradient: SSAValue
    state: tuple[SSAValue, ...]
    coefficients: Mapping[str, float | SSAValue]
    decays: bool

    def decayed_gradient(self, weight_decay: str) -> SSAValue:
        """The gradient of the loss and of `weight_decay / 2` times the square of the parameter."""
        if not self.decays:
            return self.gradient
        return self.builder.add(self.gradient, self.scaled(self.parameter, weight_decay))

    def running_mean(self, mean: SSAValue, value: SSAValue, kept: str, new: str) -> SSAValue:
        """`kept * mean + new * value`: a running mean, where these add up to 1."""
        return self.builder.add(self.scaled(mean, kept), self.scaled(value, new))

    def scaled(self, value: SSAValue, name: str) -> SSAValue:
        """A value times a coefficient."""
        coefficient = self.coefficients[name]
        if isinstance(coefficient, SSAValue):
            return self.builder.mul(value, self.full(name))
        return self.builder.scale(value, coefficient)

    def full(self, name: str) -> SSAValue:
        """A coefficient, repeated to the parameter's shape."""
        coefficient = self.coefficients[name]
        if not isinstance(coefficient, SSAValue):
            return self.builder.full_like(self.parameter, coefficient)
        value = self.builder.cast(coefficient, element_of(self.parameter))
        return self.builder.broadcast(value, shape_of(self.parameter), [])


Write: TypeAlias = Callable[[Update], Sequence[SSAValue]]


@dataclass(frozen=True)
class Rule:
    """An optimizer, to `append_updates`.

    Attributes:
        states: The prefixes of the state that each parameter has, all of its shape and zero at first.
        coefficients: The formula of each number that it takes, in terms of `step` (1 at first) and of settings.
        write: Gives one parameter's next value, and those of its state.
        of_decay: Those of the coefficients that parameters that don't decay do without.
    """

    states: tuple[str, ...]
    coefficients: Mapping[str, str]
    write: Write
    of_decay: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptimizerPass(ModulePass, ABC):
    """A pass that replaces a function's gradients by updates of its parameters.

    Where gradients are clipped, all of them are needed before any parameter changes. Then gradients, parameters and
    state are packed, each as rows in which one kernel works on all parameters that are updated alike, and those
    parameters come one behind another among the function's arguments. Else, and in functions with loops or branches,
    each parameter has an update of its own, which can run in the kernel that computes its gradient.

    Attributes:
        function: The function; may be absent where there is only one.
        learning_rate: A formula that stands for the learning rate, in terms of `step` and `learning_rate`.
        clip_norm: The norm of all gradients together above which they are scaled down to it; absent for never.
        weight_decay: The factor of the decay, which is added to the gradient unless the optimizer says otherwise.
        decay: The parameters that decay; absent for all.
        row_bytes: The most bytes of parameters, gradients or state that one kernel binds as one row: the target's
            limits on bindings and buffers.
        live: The settings that the host gives at each step, by their names; others are constants of the program.
        groups: JSON: parameters that have settings of their own; see `read_groups`.
    """

    function: str | None = None
    _: KW_ONLY
    learning_rate: str = "learning_rate"
    clip_norm: float | None = None
    weight_decay: float = 0.0
    decay: tuple[str, ...] | None = None
    row_bytes: int = 1 << 27
    live: tuple[str, ...] = ()
    groups: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        unknown = {*self.live} - {*self.settings(), "clip_norm"}
        if unknown:
            raise DiagnosticException(f"{self.name}: there is no setting {min(unknown)!r} for the host to give")
        self.check("weight_decay")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise DiagnosticException(f"{self.name}: clip_norm must be more than 0 and finite, got {self.clip_norm}")
        try:
            unknown = Formula(self.learning_rate).names - {"step", "learning_rate"}
        except FormulaError as error:
            raise DiagnosticException(f"{self.name}: learning_rate: {error}") from error
        if unknown:
            raise DiagnosticException(
                f"{self.name}: learning_rate is computed from step and learning_rate, not {', '.join(sorted(unknown))}"
            )
        append_updates(op, self, self.rule())

    @abstractmethod
    def rule(self) -> Rule:
        """What the optimizer does.

        Raises:
            DiagnosticException: An option is out of range.
        """

    def settings(self) -> dict[str, float]:
        """The options that groups may have of their own, and that the host may give."""
        fixed = {"row_bytes", "clip_norm"}
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in fixed}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    def each_group(self) -> list[Group]:
        """The groups, of which the first has all parameters that are in no other.

        Raises:
            DiagnosticException: `groups` is no such JSON.
        """
        own = Group(names={name: name for name in self.live})
        return [own, *read_groups(self.groups, self.settings(), self.name)]

    def uses(self, setting: str) -> bool:
        """Whether a setting is other than zero for any parameter."""
        return any(group.values.get(setting, getattr(self, setting)) for group in self.each_group())

    def check(self, *options: str, below: float = math.inf) -> None:
        """Requires options to be numbers from 0 to just under `below`, in every group.

        Raises:
            DiagnosticException: One is not; names it.
        """
        for option in options:
            for group in self.each_group():
                check_option(self.name, option, group.values.get(option, getattr(self, option)), below=below)

    def terms(self, group: Group) -> dict[str, str]:
        """What stands for each setting in the formulas of a group."""
        values = {**self.settings(), **group.values}
        names = {name: name for name in self.live if name not in group.values} | {**group.names}
        terms = {name: names.get(name, repr(float(value))) for name, value in values.items()}
        rate = terms.get(RATE, RATE)
        if self.learning_rate == RATE:
            return {**terms, RATE: rate}
        scheduled = re.sub(rf"\b{RATE}\b", lambda _: rate, self.learning_rate)
        return {**terms, RATE: f"({scheduled})"}


@dataclass(frozen=True)
class _Groups:
    """Which settings a parameter has."""

    options: OptimizerPass
    groups: list[Group]
    places: Mapping[str, int]

    @classmethod
    def of(cls, options: OptimizerPass) -> _Groups:
        groups = options.each_group()
        return cls(options, groups, {name: i for i, group in enumerate(groups) for name in group.parameters})

    def place(self, name: str) -> int:
        """The number of a parameter's group."""
        return self.places.get(name, 0)

    def group_decays(self, group: Group) -> bool:
        """Whether parameters of a group decay."""
        return bool(group.values.get("weight_decay", self.options.weight_decay))

    def decays(self, name: str) -> bool:
        """Whether a parameter decays."""
        masked = self.options.decay is not None and name not in self.options.decay
        return not masked and self.group_decays(self.groups[self.place(name)])

    def alike(self, name: str, stored: Attribute) -> Hashable:
        """What a parameter has in common with those that one kernel may update with it."""
        return self.place(name), self.decays(name), stored

    def coefficients(self, rule: Rule) -> Coefficients:
        """What the rule's formulas come to in each group."""
        unused = [() if self.group_decays(group) else rule.of_decay for group in self.groups]
        found = coefficients(rule.coefficients, [self.options.terms(group) for group in self.groups], unused)
        if self.options.clip_norm is None or "clip_norm" not in self.options.live:
            return found
        return replace(found, slots=(*found.slots, Slot("clip_norm", "scalar", "clip_norm")))


@dataclass(frozen=True)
class _Pair:
    """A parameter and its gradient, in the element type that the function has and in that of the update."""

    name: str
    parameter: SSAValue
    gradient: SSAValue

    @property
    def stored(self) -> Attribute:
        return element_of(self.parameter)

    @property
    def computed(self) -> Attribute:
        """The element type of state and arithmetic: half floats are updated in f32."""
        return f32 if self.stored == f16 else self.stored

    def member(self, alike: Hashable) -> Member[_Pair]:
        """What is packed, with those that are updated alike."""
        return Member(
            item=self,
            size=math.prod(shape_of(self.parameter)),
            stored=numpy_dtype(self.stored).itemsize,
            computed=numpy_dtype(self.computed).itemsize,
            group=alike,
            dtype=self.computed,
        )


def append_updates(module: ModuleOp, options: OptimizerPass, rule: Rule) -> None:
    """Replaces a function's gradients by updates of the parameters they belong to.

    New arguments come in groups, each in the order of the gradients: all state of one prefix, then that of the next,
    then the scalars. The updates come in the same order, behind the other results: parameters first, then state.

    Args:
        module: Holds the function.
        options: The pass.
        rule: The optimizer.

    Raises:
        DiagnosticException: There is no gradient, one without its parameter, an argument of a new one's name, or no
            parameter that is to decay.
    """
    function = find_function(module, options.function)
    where = f"{options.name}: @{function.sym_name.data}"
    groups = _Groups.of(options)
    made = groups.coefficients(rule)
    together = options.clip_norm is not None and not has_control(function)
    if together:
        _bring_together(function, groups)
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    pairs = _pairs(function, where)
    new_slots = [Slot(f"{prefix}/{pair.name}", "state") for prefix in rule.states for pair in pairs]
    new_slots += made.slots
    _check_names(slots, new_slots, pairs, groups, where)
    wide = f64 if any(pair.stored == f64 for pair in pairs) else f32
    kinds = [tensor(shape_of(pair.parameter), pair.computed) for _ in rule.states for pair in pairs]
    kinds += [tensor((), wide) for _ in made.slots]
    added = [block.insert_arg(kind, len(block.args)) for kind in kinds]
    scalars = dict(zip((slot.name for slot in made.slots), added[len(kinds) - len(made.slots) :], strict=True))
    writing = _Writing(
        TensorBuilder(block, before=return_of(function), location=function.location),
        groups,
        rule,
        {
            pair: tuple(added[i + group * len(pairs)] for group in range(len(rule.states)))
            for i, pair in enumerate(pairs)
        },
        [{n: scalars[c] if isinstance(c, str) else c for n, c in one.items()} for one in made.by_group],
        scalars.get("clip_norm", options.clip_norm),
    )
    written = writing.packed(pairs, wide) if together else writing.one_by_one(pairs, wide)
    names = [[pair.name, *(f"{prefix}/{pair.name}" for prefix in rule.states)] for pair in pairs]
    kept = [entry for entry in entries if entry[0].role != "gradient"]
    for group in range(1 + len(rule.states)):
        kept += [(Slot(names[i][group], "update"), written[pair][group]) for i, pair in enumerate(pairs)]
    set_returned(function, [value for _, value in kept])
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in kept])


@dataclass(frozen=True)
class _Writing:
    """Writes updates of parameters into a function."""

    builder: TensorBuilder
    groups: _Groups
    rule: Rule
    states: Mapping[_Pair, tuple[SSAValue, ...]]
    coefficients: Sequence[Mapping[str, float | SSAValue]]
    limit: float | SSAValue | None

    def one_by_one(self, pairs: Sequence[_Pair], wide: Attribute) -> dict[_Pair, list[SSAValue]]:
        """The next values of each parameter and its state, each computed on its own."""
        scale, limit, b = None, self.limit, self.builder
        if limit is not None:
            flat = [b.reshape(pair.gradient, [math.prod(shape_of(pair.gradient))]) for pair in pairs]
            wider = [b.cast(one, pair.computed) for one, pair in zip(flat, pairs, strict=True)]
            scale = _clipping_scale(b, [b.cast(b.sum(b.mul(one, one), [0]), wide) for one in wider], limit)
        written: dict[_Pair, list[SSAValue]] = {}
        for pair in pairs:
            owner = pair.gradient.owner
            self.builder.location = owner.location if isinstance(owner, Operation) else self.builder.location
            written[pair] = self._update(pair, pair.parameter, pair.gradient, self.states[pair], scale)
        return written

    def packed(self, pairs: Sequence[_Pair], wide: Attribute) -> dict[_Pair, list[SSAValue]]:
        """The next values of each parameter and its state, computed in rows of them, with their gradients clipped."""
        b = self.builder
        # What has no elements needs no room, and is up to date.
        places: dict[SSAValue, int] = {argument: place for place, argument in enumerate(b.block.args)}
        ordered = sorted(pairs, key=lambda pair: places[pair.parameter])
        sized = [pair for pair in ordered if 0 not in shape_of(pair.parameter)]
        members = [pair.member(self.groups.alike(pair.name, pair.stored)) for pair in sized]
        rows = packed(members, self.groups.options.row_bytes)
        gradients = [self._gradients(row) for row in rows]
        assert self.limit is not None
        norms = [_squares(b, gradient, row.columns, wide) for gradient, row in zip(gradients, rows, strict=True)]
        scale = _clipping_scale(b, norms, self.limit) if norms else None
        written = {pair: [pair.parameter, *self.states[pair]] for pair in pairs}
        for gradient, row in zip(gradients, rows, strict=True):
            for chunk in row.chunks:
                written.update(self._chunk(chunk, gradient, scale))
        return written

    def _gradients(self, row: Row[_Pair]) -> SSAValue:
        """A row of gradients, with zeros at its end."""
        pairs = [member.item for chunk in row.chunks for member in chunk.members]
        offsets = [chunk.start + offset for chunk in row.chunks for offset in chunk.offsets]
        parts = [self.builder.cast(pair.gradient, pair.computed) for pair in pairs]
        return self.builder.pack(parts, offsets, row.padded)

    def _chunk(self, chunk: Chunk[_Pair], gradients: SSAValue, scale: SSAValue | None) -> dict[_Pair, list[SSAValue]]:
        """What `packed` gives, for the parameters of one chunk."""
        b, pairs = self.builder, [member.item for member in chunk.members]
        if len(pairs) == 1:
            pair = pairs[0]
            gradient = b.part(gradients, chunk.start, shape_of(pair.parameter))
            return {pair: self._update(pair, pair.parameter, gradient, self.states[pair], scale)}
        gradient = b.slice(gradients, [chunk.start], [chunk.start + chunk.size], [1])
        parameter = b.pack([pair.parameter for pair in pairs], chunk.offsets, chunk.size)
        state = tuple(
            b.pack(values, chunk.offsets, chunk.size) for values in zip(*(self.states[p] for p in pairs), strict=True)
        )
        written = self._update(pairs[0], parameter, gradient, state, scale)
        return {
            pair: [b.part(value, offset, shape_of(pair.parameter)) for value in written]
            for pair, offset in zip(pairs, chunk.offsets, strict=True)
        }

    def _update(
        self,
        pair: _Pair,
        parameter: SSAValue,
        gradient: SSAValue,
        state: tuple[SSAValue, ...],
        scale: SSAValue | None,
    ) -> list[SSAValue]:
        """The next values of parameters and their state, where all of them are updated as that of `pair` is."""
        b = self.builder
        parameter, gradient = b.cast(parameter, pair.computed), b.cast(gradient, pair.computed)
        if scale is not None:
            gradient = b.mul(gradient, b.broadcast(b.cast(scale, pair.computed), shape_of(gradient), []))
        numbers, decays = self.coefficients[self.groups.place(pair.name)], self.groups.decays(pair.name)
        first, *rest = self.rule.write(Update(b, parameter, gradient, state, numbers, decays))
        return [b.cast(first, pair.stored), *rest]


def _bring_together(function: FuncOp, settings: _Groups) -> None:
    """Puts parameters that are updated alike one behind another among the arguments, and others behind them."""
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    elements = {slot.name: element_of(value) for slot, value in arguments if slot.role == "parameter"}
    gradients = {slot.name for slot in results_of(function) if slot.role == "gradient"}
    ranks: dict[Hashable, int] = {}

    def rank(name: str) -> int:
        if name not in gradients:
            return len(elements)
        return ranks.setdefault(settings.alike(name, elements[name]), len(ranks))

    order_parameters(function, sorted(elements, key=rank))


def _check_names(
    slots: Sequence[Slot], new_slots: Sequence[Slot], pairs: Sequence[_Pair], groups: _Groups, where: str
) -> None:
    taken = {(slot.role, slot.name) for slot in slots} & {(slot.role, slot.name) for slot in new_slots}
    if taken:
        raise DiagnosticException(f"{where} has a {' '.join(min(taken))} already")
    there = {pair.name for pair in pairs}
    for names, what in ((groups.options.decay or (), "is to decay"), (groups.places, "is in a group")):
        missing = {*names} - there
        if missing:
            raise DiagnosticException(f"{where} has no gradient of {min(missing)!r}, which {what}")


def _squares(builder: TensorBuilder, row: SSAValue, columns: int, wide: Attribute) -> SSAValue:
    """The sum of the squares of a row, added up some at a time."""
    several = builder.reshape(row, [shape_of(row)[0] // columns, columns])
    sums = builder.sum(builder.mul(several, several), [1])
    return builder.cast(builder.sum(sums, [0]), wide)


def _clipping_scale(builder: TensorBuilder, squares: Sequence[SSAValue], limit: float | SSAValue) -> SSAValue:
    """The factor that brings the norm of all gradients down to a limit; 1 where it is below, NaN where it is NaN."""
    norm = builder.unary(SqrtOp, reduce(builder.add, squares))
    most = limit if isinstance(limit, SSAValue) else builder.full_like(norm, limit)
    scale = builder.div(most, builder.add(norm, builder.full_like(norm, NORM_OFFSET)))
    one = builder.full_like(scale, 1.0)
    return builder.select(builder.compare("gt", scale, one), one, scale)


def _pairs(function: FuncOp, where: str) -> list[_Pair]:
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters: dict[str, SSAValue] = {slot.name: value for slot, value in arguments if slot.role == "parameter"}
    results = zip(results_of(function), return_of(function).operands, strict=True)
    gradients = {slot.name: value for slot, value in results if slot.role == "gradient"}
    if not gradients:
        raise DiagnosticException(f"{where} returns no gradient; run grad first")
    for name, gradient in gradients.items():
        if name not in parameters:
            raise DiagnosticException(f"{where} has a gradient but no parameter {name!r}")
        pair = _Pair(name, parameters[name], gradient)
        wanted = [tensor(shape_of(pair.parameter), one) for one in (pair.stored, pair.computed)]
        if gradient.type not in wanted:
            raise DiagnosticException(
                f"{where}: parameter {name!r} is {parameters[name].type}, its gradient {gradient.type}"
            )
    return [_Pair(name, parameters[name], gradient) for name, gradient in gradients.items()]


def check_option(pass_name: str, option: str, value: float, *, below: float = math.inf) -> None:
    """Requires a number from 0 to just under `below`.

    Raises:
        DiagnosticException: It is not; names the option.
    """
    if not 0 <= value < below:
        limit = "finite" if below == math.inf else f"less than {below:g}"
        raise DiagnosticException(f"{pass_name}: {option} must be at least 0 and {limit}, got {value}")
