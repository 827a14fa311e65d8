"""The pass `append-updates`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, f16, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import Tensor, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.dialects.tg.elementwise.functions import SqrtOp
from tensorgrad.passes.functions import find_function, order_parameters, return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, LevelPass
from tensorgrad.passes.tensors.packing import (
    Chunk,
    Member,
    Row,
    packed,
    row_of_squares,
    stacked,
    sum_of_squares,
    unstacked,
)
from tensorgrad.passes.tensors.updates import Update, drop_updates, updates_of

NORM = ("norm", "norm")
"""The role and name of the argument that is the norm of all gradients."""


@dataclass(frozen=True)
class AppendUpdatesPass(LevelPass):
    """Replaces a function's gradients by updates of its parameters, as the update functions of the module say.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind, and update functions, such as `trace-optimizer` makes. Guarantees: the update functions are gone, and
    the other results stay, in front; behind them comes a result of role `update` for each parameter and for its state,
    `adam.m/<parameter>`. State is zero at first. New arguments come in groups, each in the order of the gradients: all
    state of one kind, then that of the next, then the scalars that the host computes, which are called by their
    formulas. Gradients that no update function is for stay.

    Where the norm of all gradients counts, such as where they are clipped, all of them are needed before any parameter
    changes. Then gradients, parameters and state are packed, each as rows in which one kernel works on all parameters
    that are updated alike, and those parameters come one behind another among the function's arguments. Else, and in
    functions with loops or branches, each parameter has an update of its own, which can run in the kernel that computes
    its gradient.

    Attributes:
        function: The function; may be absent where there is only one.
        row_bytes: The most bytes of parameters, gradients or state that one kernel binds as one row: the target's
            limits on bindings and buffers.
    """

    name = "append-updates"
    levels = TENSORS

    function: str | None = None
    row_bytes: int = 1 << 27

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        function, updates = find_function(op, self.function), updates_of(op)
        where = f"{self.name}: @{function.sym_name.data}"
        if not updates:
            raise DiagnosticException(f"{where}: the module has no update functions; run trace-optimizer first")
        optimizers = sorted({one.optimizer for one in updates})
        plans = [_Plan.of(function, [one for one in updates if one.optimizer == n], where) for n in optimizers]
        counts = Counter(name for plan in plans for name in plan.computed)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise DiagnosticException(f"{where}: two optimizers update {twice[0]!r}")
        for plan in plans:
            plan.check_names(function, where)
        for plan in plans:
            _append(function, plan, where, self.row_bytes)
        drop_updates(op)


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
        """Returns what is packed, with those that are updated alike."""
        return Member(
            item=self,
            size=math.prod(shape_of(self.parameter)),
            stored=numpy_dtype(self.stored).itemsize,
            computed=numpy_dtype(self.computed).itemsize,
            group=alike,
            dtype=self.computed,
        )


@dataclass(frozen=True)
class _Plan:
    """Which update functions each parameter of one optimizer goes through.

    Attributes:
        updates: The functions by stage, and of each stage by parameter.
        computed: For each parameter, in the order of the gradients, the type that it has in its update.
        alone: Whether nothing may be packed, since the function has loops or branches.
    """

    updates: Mapping[int, Mapping[str, Update]]
    computed: Mapping[str, Tensor]
    alone: bool

    @classmethod
    def of(cls, function: FuncOp, updates: Sequence[Update], where: str) -> _Plan:
        by_stage: dict[int, dict[str, Update]] = {}
        for one in sorted(updates, key=lambda one: one.stage):
            by_stage.setdefault(one.stage, {}).update(dict.fromkeys(one.parameters, one))
        wanted = {name for one in updates if one.is_last for name in one.parameters}
        pairs = [pair for pair in _pairs(function, where) if pair.name in wanted]
        missing = {name for one in updates for name in one.parameters} - {pair.name for pair in pairs}
        if missing:
            raise DiagnosticException(f"{where} has no gradient of {min(missing)!r}, which is to be updated")
        # Rows are for functions without loops and branches, also once calls are inlined.
        loops = any(isinstance(op, ScanOp | CondOp) for op in function.walk())
        kinds = {pair.name: tensor(shape_of(pair.parameter), pair.computed) for pair in pairs}
        return cls(by_stage, kinds, loops)

    @property
    def all(self) -> list[Update]:
        """Every function once, in order."""
        return list({id(one): one for stage in self.updates.values() for one in stage.values()}.values())

    @property
    def first_in_rows(self) -> int | None:
        """The stage from which on parameters are in rows, if there is one."""
        if self.alone:
            return None
        return min((one.stage for one in self.all if one.needs_norm or one.is_batched), default=None)

    def states(self) -> dict[tuple[str, str], Tensor]:
        """Returns the types of all state, by kind and parameter; all of one kind, then those of the next."""
        kinds = dict.fromkeys(kind for one in self.all for kind in one.states)
        return {
            (kind, name): whole if stage[name].is_elementwise else tensor(stage[name].states[kind], whole.element_type)
            for kind in kinds
            for name, whole in self.computed.items()
            for stage in self.updates.values()
            if name in stage and kind in stage[name].states
        }

    def scalars(self) -> list[Slot]:
        """Returns the scalars that the host computes."""
        return list(dict.fromkeys(slot for one in self.all for slot in one.slots if slot.role == "scalar"))

    def check_names(self, function: FuncOp, where: str) -> None:
        """Requires state to have names that no argument has."""
        taken = {(slot.role, slot.name) for slot in arguments_of(function)}
        for kind, name in self.states():
            if ("state", f"{kind}/{name}") in taken:
                raise DiagnosticException(f"{where} has a state {kind}/{name} already")

    def alike(self, pair: _Pair) -> Hashable:
        """Returns what a parameter has in common with those that one kernel may update with it."""
        start = self.first_in_rows or 0
        path = [stage[pair.name] for place, stage in self.updates.items() if place >= start and pair.name in stage]
        batched = any(one.is_batched for one in path)
        alone = any(not one.is_elementwise and not one.is_batched for one in path)
        shape = shape_of(pair.parameter) if batched else None
        return tuple(map(id, path)), shape, pair.name if alone else None, pair.stored


def _append(function: FuncOp, plan: _Plan, where: str, row_bytes: int) -> None:
    """Replaces gradients of a function by the updates of one optimizer."""
    together = plan.first_in_rows is not None
    pairs = [pair for pair in _pairs(function, where) if pair.name in plan.computed]
    if together:
        _bring_together(function, plan, pairs)
        pairs = [pair for pair in _pairs(function, where) if pair.name in plan.computed]
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    parameters = (value for slot, value in zip(slots, block.args, strict=True) if slot.role == "parameter")
    wide = f64 if any(element_of(value) == f64 for value in parameters) else f32
    states = {key: block.insert_arg(type_, len(block.args)) for key, type_ in plan.states().items()}
    there = {slot.name: value for slot, value in zip(slots, block.args, strict=False) if slot.role == "scalar"}
    new = [slot for slot in plan.scalars() if slot.name not in there]
    there |= {slot.name: block.insert_arg(tensor((), wide), len(block.args)) for slot in new}
    builder = TensorBuilder(block, before=return_of(function), location=function.location)
    written = _Writing(builder, plan, states, there, row_bytes, wide, function.location).run(pairs)
    kept = [(slot, value) for slot, value in entries if slot.role != "gradient" or slot.name not in plan.computed]
    kept += [(Slot(pair.name, "update"), written["", pair.name]) for pair in pairs]
    kept += [(Slot(f"{kind}/{name}", "update"), written[kind, name]) for kind, name in states]
    set_returned(function, [value for _, value in kept])
    new_slots = [*(Slot(f"{kind}/{name}", "state") for kind, name in states), *new]
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in kept])


@dataclass
class _Unit:
    """Parameters that the same ops update: one of them, or several in a row.

    Attributes:
        pairs: The parameters; they all have the same settings.
        offsets: Where each of them starts.
        parameter: Their values before the step, in the element type of the update.
        gradient: What has become of the gradient so far.
        states: The values of their state before the step, by kind.
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
    plan: _Plan
    states: Mapping[tuple[str, str], SSAValue]
    scalars: Mapping[str, SSAValue]
    row_bytes: int
    wide: Attribute
    location: LocationAttr
    written: dict[tuple[str, str], SSAValue] = field(default_factory=dict[tuple[str, str], SSAValue])

    def run(self, pairs: Sequence[_Pair]) -> dict[tuple[str, str], SSAValue]:
        """Returns the next values of each parameter and its state, by kind and name; a parameter has the kind "".

        All from the first norm on is computed in rows of parameters; what comes before it can run in the kernels that
        compute gradients.
        """
        for pair in pairs:
            if 0 in shape_of(pair.parameter):  # needs no room, and is up to date
                self.written["", pair.name] = pair.parameter
                self.written |= {key: value for key, value in self.states.items() if key[1] == pair.name}
        pairs = [pair for pair in pairs if 0 not in shape_of(pair.parameter)]
        start = self.plan.first_in_rows
        stages = list(self.plan.updates.items())
        early = [stage for place, stage in stages if start is None or place < start]
        late = [stage for place, stage in stages if start is not None and place >= start]
        segments = _segments(early)
        units: Iterator[_Unit] = (self._single(pair, pair.gradient) for pair in pairs)
        if not late:
            units = self._through_all(units, segments)
        elif early:
            before = [self._through(unit, None, early) for unit in units]
            pairs = [replace(unit.pairs[0], gradient=unit.gradient) for unit in before]
        if late:
            first, *others = _segments(late)
            norm, units = self._in_rows(pairs, any(one.needs_norm for one in first[0].values()))
            units = self._through_all((self._through(unit, norm, first) for unit in units), others)
        for _ in units:
            pass
        return self.written

    def _through_all(
        self, units: Iterator[_Unit], segments: Sequence[Sequence[Mapping[str, Update]]]
    ) -> Iterator[_Unit]:
        """Units through segments, each but the first of which starts with a stage that needs the norm."""
        for segment in segments:
            norm = None
            if any(one.needs_norm for one in segment[0].values()):
                found = list(units)
                norm = self._norm([sum_of_squares(self.builder, unit.gradient, self.wide) for unit in found])
                units = iter(found)
            units = iter([self._through(unit, norm, segment) for unit in units])
        return units

    def _norm(self, squares: Sequence[SSAValue]) -> SSAValue | None:
        return self.builder.unary(SqrtOp, reduce(self.builder.add, squares)) if squares else None

    def _in_rows(self, pairs: Sequence[_Pair], normed: bool) -> tuple[SSAValue | None, Iterator[_Unit]]:
        """Returns the norm of all gradients, and the parameters in rows."""
        b = self.builder
        b.location = self.location
        places: dict[SSAValue, int] = {argument: place for place, argument in enumerate(b.block.args)}
        ordered = sorted(pairs, key=lambda pair: places[pair.parameter])
        rows = packed([pair.member(self.plan.alike(pair)) for pair in ordered], self.row_bytes)
        gradients = [self._gradients(row) for row in rows]
        made = list(zip(rows, gradients, strict=True))
        squares = [row_of_squares(b, one, row.columns, self.wide) for row, one in made] if normed else []
        units = (self._unit(chunk, gradient) for row, gradient in made for chunk in row.chunks)
        return self._norm(squares), units

    def _gradients(self, row: Row[_Pair]) -> SSAValue:
        """Returns a row of gradients, with zeros at its end."""
        pairs = [member.item for chunk in row.chunks for member in chunk.members]
        offsets = [chunk.start + offset for chunk in row.chunks for offset in chunk.offsets]
        parts = [self.builder.cast(pair.gradient, pair.computed) for pair in pairs]
        return self.builder.pack(parts, offsets, row.padded)

    def _single(self, pair: _Pair, gradient: SSAValue) -> _Unit:
        """Returns a parameter on its own."""
        b, owner = self.builder, gradient.owner
        b.location = owner.location if isinstance(owner, Operation) else b.location
        states = {kind: value for (kind, name), value in self.states.items() if name == pair.name}
        parameter, gradient = b.cast(pair.parameter, pair.computed), b.cast(gradient, pair.computed)
        return _Unit([pair], [0], parameter, gradient, states, b.location)

    def _unit(self, chunk: Chunk[_Pair], row: SSAValue) -> _Unit:
        """Returns the parameters of a chunk, with a row of gradients that theirs are a part of."""
        b, pairs = self.builder, [member.item for member in chunk.members]
        if len(pairs) == 1:
            unit = self._single(pairs[0], b.part(row, chunk.start, shape_of(pairs[0].parameter)))
            return replace(unit, location=b.location)
        gradient = b.slice(row, [chunk.start], [chunk.start + chunk.size], [1])
        parameter = b.pack([pair.parameter for pair in pairs], chunk.offsets, chunk.size)
        states = {
            kind: b.pack([self.states[kind, pair.name] for pair in pairs], chunk.offsets, chunk.size)
            for kind, name in self.states
            if name == pairs[0].name and (kind, name) not in self.written
        }
        computed = pairs[0].computed
        parameter, gradient = b.cast(parameter, computed), b.cast(gradient, computed)
        return _Unit(pairs, chunk.offsets, parameter, gradient, states, b.location)

    def _through(self, unit: _Unit, norm: SSAValue | None, stages: Sequence[Mapping[str, Update]]) -> _Unit:
        """Returns a unit with what the update functions of some stages make of its gradient, its state and itself."""
        self.builder.location = unit.location
        for stage in stages:
            update = stage.get(unit.pairs[0].name)
            if update is not None:
                unit = self._updated(unit, update, norm)
        return unit

    def _updated(self, unit: _Unit, update: Update, norm: SSAValue | None) -> _Unit:
        b, computed = self.builder, unit.pairs[0].computed
        given = {("gradient", "gradient"): unit.gradient, ("parameter", "parameter"): unit.parameter}
        given |= {("state", kind): unit.states[kind] for kind in update.states}
        by_batch = update.is_batched and not update.is_elementwise and len(unit.pairs) > 1
        if by_batch:
            extents = shape_of(unit.pairs[0].parameter)
            given = {key: stacked(b, value, unit.offsets, extents) for key, value in given.items()}
        scalars = [slot.name for slot in update.slots if slot.role == "scalar"]
        given |= {("scalar", name): b.cast(self.scalars[name], computed) for name in scalars}
        if update.needs_norm and norm is not None:
            given[NORM] = b.cast(norm, computed)
        if by_batch:
            value, *states = (unstacked(b, one, unit.offsets) for one in update.batched(b, given))
        else:
            value, *states = update.applied(b, given)
        for kind, state in zip(update.states, states, strict=True):
            self._put(unit, kind, state)
        if not update.is_last:
            return replace(unit, gradient=value)
        self._put(unit, "", b.cast(value, unit.pairs[0].stored))
        return unit

    def _put(self, unit: _Unit, kind: str, value: SSAValue) -> None:
        """Takes the next value of parameters, or of their state."""
        for pair, offset in zip(unit.pairs, unit.offsets, strict=True):
            alone = len(unit.pairs) == 1
            own = value if alone else self.builder.part(value, offset, shape_of(pair.parameter))
            self.written[kind, pair.name] = own


def _segments(stages: Sequence[Mapping[str, Update]]) -> list[list[Mapping[str, Update]]]:
    """Returns the stages up to the first that needs the norm, and then each such stage with those behind it."""
    found: list[list[Mapping[str, Update]]] = []
    for stage in stages:
        if not found or any(one.needs_norm for one in stage.values()):
            found.append([])
        found[-1].append(stage)
    return found


def _bring_together(function: FuncOp, plan: _Plan, pairs: Sequence[_Pair]) -> None:
    """Puts parameters that are updated alike one behind another among the arguments, and others behind them."""
    names = [slot.name for slot in arguments_of(function) if slot.role == "parameter"]
    by_name = {pair.name: pair for pair in pairs}
    ranks: dict[Hashable, int] = {}

    def rank(name: str) -> int:
        if name not in by_name:
            return len(names)
        return ranks.setdefault(plan.alike(by_name[name]), len(ranks))

    order_parameters(function, sorted(names, key=rank))


def _pairs(function: FuncOp, where: str) -> list[_Pair]:
    """Returns the parameters with their gradients, in the order of the gradients.

    Raises:
        DiagnosticException: There is no gradient, one without its parameter, or one of another type.
    """
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters: dict[str, SSAValue] = {slot.name: value for slot, value in arguments if slot.role == "parameter"}
    results = zip(results_of(function), return_of(function).operands, strict=True)
    gradients = {slot.name: value for slot, value in results if slot.role == "gradient"}
    if not gradients:
        raise DiagnosticException(f"{where} returns no gradient; run grad first")
    found: list[_Pair] = []
    for name, gradient in gradients.items():
        if name not in parameters:
            raise DiagnosticException(f"{where} has a gradient but no parameter {name!r}")
        pair = _Pair(name, parameters[name], gradient)
        if gradient.type not in [tensor(shape_of(pair.parameter), one) for one in (pair.stored, pair.computed)]:
            raise DiagnosticException(
                f"{where}: parameter {name!r} is {parameters[name].type}, its gradient {gradient.type}"
            )
        found.append(pair)
    return found
