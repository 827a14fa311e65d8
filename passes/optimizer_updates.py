"""Appending an update rule to a function that returns gradients: what every optimizer pass runs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import LocationAttr, ModuleOp, f16, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.functions import find_function, order_parameters, return_of, set_returned, set_signature
from tensorgrad.passes.lower_tg_to_buf.outline import has_control
from tensorgrad.passes.optimizer_groups import Coefficients, Group, coefficients
from tensorgrad.passes.optimizer_links import AddDecayedWeightsLink, NormLink, PlainLink, Stage
from tensorgrad.passes.optimizer_rules import Rule, Update
from tensorgrad.passes.packing import Chunk, Member, Row, columns_of, packed, up_to

if TYPE_CHECKING:
    from tensorgrad.passes.optimizer import OptimizerPass

PARAMETER = ""
"""What stands for the parameter itself among the prefixes of its state."""


@dataclass(frozen=True)
class _Groups:
    """Which settings a parameter has."""

    options: OptimizerPass
    stages: Sequence[Stage]
    groups: list[Group]
    places: Mapping[str, int]

    @classmethod
    def of(cls, options: OptimizerPass, stages: Sequence[Stage]) -> _Groups:
        groups = options.each_group()
        places = {name: i for i, group in enumerate(groups) for name in group.parameters}
        return cls(options, stages, groups, places)

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
        concerned = tuple(stage.link.concerns(name) for stage in self.stages)
        return self.place(name), self.decays(name), concerned, stored

    def coefficients(self, rule: Rule) -> Coefficients:
        """What the rule's formulas come to in each group."""
        unused = [() if self.group_decays(group) else rule.of_decay for group in self.groups]
        return coefficients(rule.coefficients, [self.options.terms(group) for group in self.groups], unused)


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


def append_updates(module: ModuleOp, options: OptimizerPass, rule: Rule, stages: Sequence[Stage]) -> None:
    """Replaces a function's gradients by updates of the parameters they belong to.

    New arguments come in groups, each in the order of the gradients: all state of one prefix, then that of the next,
    then the scalars. The updates come in the same order, behind the other results: parameters first, then state.

    Args:
        module: Holds the function.
        options: The pass.
        rule: The optimizer.
        stages: What becomes of gradients before.

    Raises:
        DiagnosticException: There is no gradient, one without its parameter, an argument of a new one's name, or no
            parameter that is to decay.
    """
    function = find_function(module, options.function)
    where = f"{options.name}: @{function.sym_name.data}"
    groups = _Groups.of(options, stages)
    made = groups.coefficients(rule)
    together = any(isinstance(stage.link, NormLink) for stage in stages) and not has_control(function)
    if together:
        _bring_together(function, groups)
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    pairs = _pairs(function, where)
    prefixes = [*(prefix for stage in stages for prefix in stage.prefixes), *rule.states]
    scalars = [*made.slots, *(slot for stage in stages for slot in stage.slots)]
    new_slots = [Slot(f"{prefix}/{pair.name}", "state") for prefix in prefixes for pair in pairs] + scalars
    _check_names(slots, new_slots, pairs, groups, where)
    wide = f64 if any(pair.stored == f64 for pair in pairs) else f32
    states = {
        (pair.name, prefix): block.insert_arg(tensor(shape_of(pair.parameter), pair.computed), len(block.args))
        for prefix in prefixes
        for pair in pairs
    }
    numbers = {slot.name: block.insert_arg(tensor((), wide), len(block.args)) for slot in scalars}
    builder = TensorBuilder(block, before=return_of(function), location=function.location)
    writing = _Writing(builder, groups, rule, stages, states, numbers, made.by_group, wide, function.location)
    written = writing.run(pairs, together)
    kept = [entry for entry in entries if entry[0].role != "gradient"]
    kept += [(Slot(pair.name, "update"), written[pair.name, PARAMETER]) for pair in pairs]
    kept += [(Slot(f"{prefix}/{name}", "update"), written[name, prefix]) for name, prefix in states]
    set_returned(function, [value for _, value in kept])
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in kept])


@dataclass
class _Unit:
    """Parameters that the same ops update: one of them, or several in a row.

    Attributes:
        pairs: The parameters; they all have the same settings.
        offsets: Where each of them starts.
        parameter: Their values before the step, in the element type of the update.
        gradient: What has become of the gradient so far.
        states: The values of their state before the step, by prefix.
        location: Where ops that update them belong to.
    """

    pairs: Sequence[_Pair]
    offsets: Sequence[int]
    parameter: SSAValue
    gradient: SSAValue
    states: Mapping[str, SSAValue]
    location: LocationAttr


@dataclass
class _Writing:
    """Writes updates of parameters into a function."""

    builder: TensorBuilder
    groups: _Groups
    rule: Rule
    stages: Sequence[Stage]
    states: Mapping[tuple[str, str], SSAValue]
    scalars: Mapping[str, SSAValue]
    by_group: Sequence[Mapping[str, float | str]]
    wide: Attribute
    location: LocationAttr
    written: dict[tuple[str, str], SSAValue] = field(default_factory=dict[tuple[str, str], SSAValue])

    def run(self, pairs: Sequence[_Pair], together: bool) -> dict[tuple[str, str], SSAValue]:
        """The next values of each parameter and its state, by name and prefix.

        With `together`, all from the first norm on is computed in rows of parameters; what comes before it can run in
        the kernels that compute gradients.
        """
        (_, plain), *segments = self._segments()
        if together:
            pairs = [self._before(pair, plain) for pair in pairs] if plain else pairs
            (norm, plain), *segments = segments
            scale, units = self._in_rows(pairs, norm)
        else:
            scale, units = None, (self._single(pair, pair.gradient) for pair in pairs)
        units = [self._through(unit, scale, plain, not segments) for unit in units]
        while segments:
            (norm, plain), *segments = segments
            scale = self._scale(norm, [_all_squares(self.builder, unit.gradient, self.wide) for unit in units])
            units = [self._through(unit, scale, plain, not segments) for unit in units]
        return self.written

    def _segments(self) -> list[tuple[Stage | None, list[Stage]]]:
        """The links up to the first norm, and then each norm with the links behind it."""
        found: list[tuple[Stage | None, list[Stage]]] = [(None, [])]
        for stage in self.stages:
            if isinstance(stage.link, NormLink):
                found.append((stage, []))
            else:
                found[-1][1].append(stage)
        return found

    def _before(self, pair: _Pair, stages: Sequence[Stage]) -> _Pair:
        """A parameter with what becomes of its gradient before the first norm."""
        return replace(pair, gradient=self._through(self._single(pair, pair.gradient), None, stages, False).gradient)

    def _in_rows(self, pairs: Sequence[_Pair], norm: Stage | None) -> tuple[SSAValue | None, Iterator[_Unit]]:
        """What the first norm scales gradients by, and the parameters in rows."""
        b = self.builder
        b.location = self.location
        for pair in pairs:
            if 0 in shape_of(pair.parameter):  # needs no room, and is up to date
                self.written[pair.name, PARAMETER] = pair.parameter
                self.written |= {key: value for key, value in self.states.items() if key[0] == pair.name}
        places: dict[SSAValue, int] = {argument: place for place, argument in enumerate(b.block.args)}
        ordered = sorted(pairs, key=lambda pair: places[pair.parameter])
        sized = [pair for pair in ordered if 0 not in shape_of(pair.parameter)]
        members = [pair.member(self.groups.alike(pair.name, pair.stored)) for pair in sized]
        rows = packed(members, self.groups.options.row_bytes)
        gradients = [self._gradients(row) for row in rows]
        squares = [_squares(b, gradient, row.columns, self.wide) for gradient, row in zip(gradients, rows, strict=True)]
        chunks = [(chunk, gradient) for gradient, row in zip(gradients, rows, strict=True) for chunk in row.chunks]
        return self._scale(norm, squares), (self._unit(chunk, gradient) for chunk, gradient in chunks)

    def _gradients(self, row: Row[_Pair]) -> SSAValue:
        """A row of gradients, with zeros at its end."""
        pairs = [member.item for chunk in row.chunks for member in chunk.members]
        offsets = [chunk.start + offset for chunk in row.chunks for offset in chunk.offsets]
        parts = [self.builder.cast(pair.gradient, pair.computed) for pair in pairs]
        return self.builder.pack(parts, offsets, row.padded)

    def _single(self, pair: _Pair, gradient: SSAValue) -> _Unit:
        """A parameter on its own."""
        b, owner = self.builder, gradient.owner
        b.location = owner.location if isinstance(owner, Operation) else b.location
        states = {prefix: value for (name, prefix), value in self.states.items() if name == pair.name}
        parameter, gradient = b.cast(pair.parameter, pair.computed), b.cast(gradient, pair.computed)
        return _Unit([pair], [0], parameter, gradient, states, b.location)

    def _unit(self, chunk: Chunk[_Pair], row: SSAValue) -> _Unit:
        """The parameters of a chunk, with a row of gradients that theirs are a part of."""
        b, pairs = self.builder, [member.item for member in chunk.members]
        if len(pairs) == 1:
            unit = self._single(pairs[0], b.part(row, chunk.start, shape_of(pairs[0].parameter)))
            return replace(unit, location=b.location)
        gradient = b.slice(row, [chunk.start], [chunk.start + chunk.size], [1])
        parameter = b.pack([pair.parameter for pair in pairs], chunk.offsets, chunk.size)
        states = {
            prefix: b.pack([self.states[pair.name, prefix] for pair in pairs], chunk.offsets, chunk.size)
            for prefix in dict.fromkeys(prefix for _, prefix in self.states)
        }
        computed = pairs[0].computed
        parameter, gradient = b.cast(parameter, computed), b.cast(gradient, computed)
        return _Unit(pairs, chunk.offsets, parameter, gradient, states, b.location)

    def _through(self, unit: _Unit, scale: SSAValue | None, stages: Sequence[Stage], is_last: bool) -> _Unit:
        """A unit with its gradient scaled, and sent through links, up to the update if that comes next."""
        b = self.builder
        b.location = unit.location
        if scale is not None:
            wide = b.broadcast(b.cast(scale, element_of(unit.gradient)), shape_of(unit.gradient), [])
            unit = replace(unit, gradient=b.mul(unit.gradient, wide))
        for stage in stages:
            unit = self._linked(unit, stage)
        if is_last:
            self._update(unit)
        return unit

    def _linked(self, unit: _Unit, stage: Stage) -> _Unit:
        """A unit with what a link makes of its gradient."""
        assert isinstance(stage.link, PlainLink)
        if not stage.link.concerns(unit.pairs[0].name):
            return unit
        gradient, *state = stage.link.write(self._given(unit, stage.prefixes, self._numbers(stage.numbers), True))
        for prefix, value in zip(stage.prefixes, state, strict=True):
            self._put(unit, prefix, value)
        return replace(unit, gradient=gradient)

    def _scale(self, stage: Stage | None, squares: Sequence[SSAValue]) -> SSAValue | None:
        """What a link scales all gradients by, from sums of their squares."""
        if stage is None or not squares:
            return None
        assert isinstance(stage.link, NormLink)
        norm = self.builder.unary(SqrtOp, reduce(self.builder.add, squares))
        return stage.link.factor(self.builder, norm, self._numbers(stage.numbers))

    def _update(self, unit: _Unit) -> None:
        """The optimizer's own part."""
        pair = unit.pairs[0]
        numbers = self._numbers(self.by_group[self.groups.place(pair.name)])
        update = self._given(unit, self.rule.states, numbers, self.groups.decays(pair.name))
        found = self.rule.write(update)
        self._put(unit, PARAMETER, self.builder.cast(self.builder.sub(found.parameter, found.step), pair.stored))
        for prefix, value in zip(self.rule.states, found.state, strict=True):
            self._put(unit, prefix, value)

    def _given(
        self, unit: _Unit, prefixes: Sequence[str], numbers: Mapping[str, float | SSAValue], decays: bool
    ) -> Update:
        states = tuple(unit.states[prefix] for prefix in prefixes)
        return Update(self.builder, unit.parameter, unit.gradient, states, numbers, decays)

    def _numbers(self, names: Mapping[str, float | str]) -> dict[str, float | SSAValue]:
        """Numbers, with the scalars that names stand for."""
        return {name: self.scalars[one] if isinstance(one, str) else one for name, one in names.items()}

    def _put(self, unit: _Unit, prefix: str, value: SSAValue) -> None:
        """Takes the next value of parameters, or of their state."""
        for pair, offset in zip(unit.pairs, unit.offsets, strict=True):
            alone = len(unit.pairs) == 1
            own = value if alone else self.builder.part(value, offset, shape_of(pair.parameter))
            self.written[pair.name, prefix] = own


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
    masks = [stage.link.decay or () for stage in groups.stages if isinstance(stage.link, AddDecayedWeightsLink)]
    decaying = {name for mask in (groups.options.decay or (), *masks) for name in mask}
    for names, what in ((decaying, "is to decay"), (groups.places, "is in a group")):
        missing = {*names} - there
        if missing:
            raise DiagnosticException(f"{where} has no gradient of {min(missing)!r}, which {what}")


def _squares(builder: TensorBuilder, row: SSAValue, columns: int, wide: Attribute) -> SSAValue:
    """The sum of the squares of a row, added up some at a time."""
    several = builder.reshape(row, [shape_of(row)[0] // columns, columns])
    sums = builder.sum(builder.mul(several, several), [1])
    return builder.cast(builder.sum(sums, [0]), wide)


def _all_squares(builder: TensorBuilder, value: SSAValue, wide: Attribute) -> SSAValue:
    """The sum of the squares of a tensor: in two steps, where it is large."""
    size = math.prod(shape_of(value))
    flat = builder.reshape(value, [size])
    columns = columns_of(size)
    if size <= columns:
        return builder.cast(builder.sum(builder.mul(flat, flat), [0]), wide)
    zero = builder.zeros((), element_of(value))
    return _squares(builder, builder.pad(flat, zero, [0], [up_to(size, columns) - size], [0]), columns, wide)


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
