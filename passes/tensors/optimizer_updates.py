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
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.functions import find_function, order_parameters, return_of, set_returned, set_signature
from tensorgrad.passes.tensors.optimizer_groups import Coefficients, Group, coefficients
from tensorgrad.passes.tensors.optimizer_links import AddDecayedWeightsLink, NormLink, PlainLink, Stage
from tensorgrad.passes.tensors.optimizer_rules import Rule, Update, row_of_squares, sum_of_squares
from tensorgrad.passes.tensors.packing import Chunk, Member, Row, packed

if TYPE_CHECKING:
    from tensorgrad.passes.tensors.optimizer import OptimizerPass

PARAMETER = ""
"""What stands for the parameter itself among the prefixes of its state."""


@dataclass(frozen=True)
class _Part:
    """Parameters that one optimizer updates."""

    options: OptimizerPass
    rule: Rule
    groups: list[Group]
    places: Mapping[str, int]
    coefficients: Coefficients

    @classmethod
    def of(cls, options: OptimizerPass) -> _Part:
        groups, rule = options.each_group(), options.rule()
        places = {name: i for i, group in enumerate(groups) for name in group.parameters}
        decays = [bool(group.values.get("weight_decay", options.weight_decay)) for group in groups]
        unused = [() if one else rule.of_decay for one in decays]
        numbers = coefficients(rule.coefficients, [options.terms(group) for group in groups], unused)
        return cls(options, rule, groups, places, numbers)

    def place(self, name: str) -> int:
        """The number of a parameter's group."""
        return self.places.get(name, 0)

    def decays(self, name: str) -> bool:
        """Whether a parameter decays."""
        masked = self.options.decay is not None and name not in self.options.decay
        return not masked and bool(self.groups[self.place(name)].values.get("weight_decay", self.options.weight_decay))

    def alike(self, pair: _Pair) -> Hashable:
        """What a parameter has in common with those that one kernel may update with it."""
        name = pair.name
        return self.place(name), self.decays(name), self.rule.alike(name, shape_of(pair.parameter)), pair.stored


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


def append_updates(module: ModuleOp, options: OptimizerPass, stages: Sequence[Stage]) -> None:
    """Replaces a function's gradients by updates of the parameters they belong to.

    New arguments come in groups, each in the order of the gradients: all state of one prefix, then that of the next,
    then the scalars. The updates come in the same order, behind the other results: parameters first, then state.

    Args:
        module: Holds the function.
        options: The pass.
        stages: What becomes of gradients before.

    Raises:
        DiagnosticException: There is no gradient, one without its parameter, an argument of a new one's name, or no
            parameter that is to decay.
    """
    function = find_function(module, options.function)
    where = f"{options.name}: @{function.sym_name.data}"
    parts = [_Part.of(one) for one in options.each_optimizer()]
    pairs = _pairs(function, where, options.parameters)
    chosen = {pair.name: parts[_part_of(parts, pair, where)] for pair in pairs}
    norms = any(isinstance(stage.link, NormLink) for stage in stages)
    # Rows are for functions without loops and branches, also once calls are inlined.
    loops = any(isinstance(op, ScanOp | CondOp) for op in function.walk())
    together = (norms or any(part.rule.in_rows for part in parts)) and not loops
    shapes = _state_shapes(pairs, parts, chosen, stages)
    scalars = [*(slot for part in parts for slot in part.coefficients.slots)]
    scalars += [slot for stage in stages for slot in stage.slots]
    new_slots = [Slot(f"{prefix}/{name}", "state") for name, prefix in shapes]
    new_slots += [replace(slot, name=options.host + slot.name) for slot in scalars]
    _check_names(arguments_of(function), new_slots, pairs, parts, stages, where)
    alike = _Alike(parts, chosen, stages)
    if together:
        _bring_together(function, alike, pairs)
        pairs = _pairs(function, where, options.parameters)
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    wide = f64 if any(pair.stored == f64 for pair in pairs) else f32
    computed = {pair.name: pair.computed for pair in pairs}
    states = {
        (name, prefix): block.insert_arg(tensor(shape, computed[name]), len(block.args))
        for (name, prefix), shape in shapes.items()
    }
    numbers = {slot.name: block.insert_arg(tensor((), wide), len(block.args)) for slot in scalars}
    builder = TensorBuilder(block, before=return_of(function), location=function.location)
    written = _Writing(builder, alike, states, numbers, options.row_bytes, wide, function.location).run(pairs, together)
    kept = [(slot, value) for slot, value in entries if slot.role != "gradient" or slot.name not in chosen]
    kept += [(Slot(pair.name, "update"), written[pair.name, PARAMETER]) for pair in pairs]
    kept += [(Slot(f"{prefix}/{name}", "update"), written[name, prefix]) for name, prefix in states]
    set_returned(function, [value for _, value in kept])
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in kept])


def _part_of(parts: Sequence[_Part], pair: _Pair, where: str) -> int:
    """The number of the optimizer that updates a parameter."""
    for number, part in enumerate(parts):
        if part.options.takes(pair.name, shape_of(pair.parameter)):
            return number
    raise DiagnosticException(f"{where}: {parts[0].options.refusal(pair.name, shape_of(pair.parameter))}")


def _state_shapes(
    pairs: Sequence[_Pair], parts: Sequence[_Part], chosen: Mapping[str, _Part], stages: Sequence[Stage]
) -> dict[tuple[str, str], tuple[int, ...]]:
    """The shapes of all state, by parameter and prefix; all of one prefix, then those of the next."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for prefix in (prefix for stage in stages for prefix in stage.prefixes):
        found |= {(pair.name, prefix): shape_of(pair.parameter) for pair in pairs}
    for part in parts:
        for prefix in part.rule.states:
            for pair in pairs:
                shape = part.rule.state_shape(prefix, shape_of(pair.parameter))
                if chosen[pair.name] is part and shape is not None:
                    found[pair.name, prefix] = shape
    return found


@dataclass(frozen=True)
class _Alike:
    """Which optimizer updates a parameter, and what with."""

    parts: Sequence[_Part]
    chosen: Mapping[str, _Part]
    stages: Sequence[Stage]

    def __call__(self, pair: _Pair) -> Hashable:
        """What a parameter has in common with those that one kernel may update with it."""
        part = self.chosen[pair.name]
        concerned = tuple(stage.link.concerns(pair.name) for stage in self.stages)
        norms = [place for place, stage in enumerate(self.stages) if isinstance(stage.link, NormLink)]
        # What comes before the first norm works on each parameter anyway, before rows are made.
        behind = self.stages[norms[0] :] if norms else ()
        alone = pair.name if any(stage.link.is_alone for stage in behind) else None
        return self.parts.index(part), part.alike(pair), concerned, alone


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
    alike: _Alike
    states: Mapping[tuple[str, str], SSAValue]
    scalars: Mapping[str, SSAValue]
    row_bytes: int
    wide: Attribute
    location: LocationAttr
    written: dict[tuple[str, str], SSAValue] = field(default_factory=dict[tuple[str, str], SSAValue])

    def run(self, pairs: Sequence[_Pair], together: bool) -> dict[tuple[str, str], SSAValue]:
        """The next values of each parameter and its state, by name and prefix.

        With `together`, all from the first norm on is computed in rows of parameters; what comes before it can run in
        the kernels that compute gradients.
        """
        for pair in pairs:
            if 0 in shape_of(pair.parameter):  # needs no room, and is up to date
                self.written[pair.name, PARAMETER] = pair.parameter
                self.written |= {key: value for key, value in self.states.items() if key[0] == pair.name}
        pairs = [pair for pair in pairs if 0 not in shape_of(pair.parameter)]
        (_, plain), *segments = self._segments()
        if together:
            pairs = [self._before(pair, plain) for pair in pairs] if plain else pairs
            norm, plain = None, []
            if segments:
                (norm, plain), *segments = segments
            scale, units = self._in_rows(pairs, norm)
        else:
            scale, units = None, (self._single(pair, pair.gradient) for pair in pairs)
        units = [self._through(unit, scale, plain, not segments) for unit in units]
        while segments:
            (norm, plain), *segments = segments
            scale = self._scale(norm, [sum_of_squares(self.builder, unit.gradient, self.wide) for unit in units])
            units = [self._through(unit, scale, plain, not segments) for unit in units]
        return self.written

    def _segments(self) -> list[tuple[Stage | None, list[Stage]]]:
        """The links up to the first norm, and then each norm with the links behind it."""
        found: list[tuple[Stage | None, list[Stage]]] = [(None, [])]
        for stage in self.alike.stages:
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
        places: dict[SSAValue, int] = {argument: place for place, argument in enumerate(b.block.args)}
        ordered = sorted(pairs, key=lambda pair: places[pair.parameter])
        rows = packed([pair.member(self.alike(pair)) for pair in ordered], self.row_bytes)
        gradients = [self._gradients(row) for row in rows]
        made = list(zip(rows, gradients, strict=True))
        squares = [] if norm is None else [row_of_squares(b, one, row.columns, self.wide) for row, one in made]
        units = (self._unit(chunk, gradient) for row, gradient in made for chunk in row.chunks)
        return self._scale(norm, squares), units

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
            for name, prefix in self.states
            if name == pairs[0].name and (name, prefix) not in self.written
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
        part = self.alike.chosen[pair.name]
        numbers = self._numbers(part.coefficients.by_group[part.place(pair.name)])
        prefixes = [prefix for prefix in part.rule.states if (pair.name, prefix) in self.states]
        found = part.rule.write(self._given(unit, prefixes, numbers, part.decays(pair.name)))
        self._put(unit, PARAMETER, self.builder.cast(self.builder.sub(found.parameter, found.step), pair.stored))
        for prefix, value in zip(prefixes, found.state, strict=True):
            self._put(unit, prefix, value)

    def _given(
        self, unit: _Unit, prefixes: Sequence[str], numbers: Mapping[str, float | SSAValue], decays: bool
    ) -> Update:
        states, extents = tuple(unit.states[prefix] for prefix in prefixes), shape_of(unit.pairs[0].parameter)
        return Update(
            self.builder, unit.parameter, unit.gradient, states, numbers, decays, extents, tuple(unit.offsets)
        )

    def _numbers(self, names: Mapping[str, float | str]) -> dict[str, float | SSAValue]:
        """Numbers, with the scalars that names stand for."""
        return {name: self.scalars[one] if isinstance(one, str) else one for name, one in names.items()}

    def _put(self, unit: _Unit, prefix: str, value: SSAValue) -> None:
        """Takes the next value of parameters, or of their state."""
        for pair, offset in zip(unit.pairs, unit.offsets, strict=True):
            alone = len(unit.pairs) == 1
            own = value if alone else self.builder.part(value, offset, shape_of(pair.parameter))
            self.written[pair.name, prefix] = own


def _bring_together(function: FuncOp, alike: _Alike, pairs: Sequence[_Pair]) -> None:
    """Puts parameters that are updated alike one behind another among the arguments, and others behind them."""
    names = [slot.name for slot in arguments_of(function) if slot.role == "parameter"]
    by_name = {pair.name: pair for pair in pairs}
    ranks: dict[Hashable, int] = {}

    def rank(name: str) -> int:
        if name not in by_name:
            return len(names)
        return ranks.setdefault(alike(by_name[name]), len(ranks))

    order_parameters(function, sorted(names, key=rank))


def _check_names(
    slots: Sequence[Slot],
    new_slots: Sequence[Slot],
    pairs: Sequence[_Pair],
    parts: Sequence[_Part],
    stages: Sequence[Stage],
    where: str,
) -> None:
    taken = {(slot.role, slot.name) for slot in slots} & {(slot.role, slot.name) for slot in new_slots}
    if taken:
        raise DiagnosticException(f"{where} has a {' '.join(min(taken))} already")
    there = {pair.name for pair in pairs}
    masks = [stage.link.decay for stage in stages if isinstance(stage.link, AddDecayedWeightsLink)]
    decaying = {name for mask in (*masks, *(part.options.decay for part in parts)) for name in mask or ()}
    grouped = {name for part in parts for name in part.places}
    for names, what in ((decaying, "is to decay"), (grouped, "is in a group")):
        missing = names - there
        if missing:
            raise DiagnosticException(f"{where} has no gradient of {min(missing)!r}, which {what}")


def _pairs(function: FuncOp, where: str, chosen: Sequence[str] | None) -> list[_Pair]:
    """The parameters to update with their gradients, in the order of the gradients."""
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters: dict[str, SSAValue] = {slot.name: value for slot, value in arguments if slot.role == "parameter"}
    results = zip(results_of(function), return_of(function).operands, strict=True)
    gradients = {slot.name: value for slot, value in results if slot.role == "gradient"}
    if not gradients:
        raise DiagnosticException(f"{where} returns no gradient; run grad first")
    if chosen is not None:
        missing = {*chosen} - {*gradients}
        if missing:
            raise DiagnosticException(f"{where} returns no gradient of {min(missing)!r}, which it is to update")
        gradients = {name: gradient for name, gradient in gradients.items() if name in {*chosen}}
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
