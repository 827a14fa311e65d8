"""The pass `append-updates`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.elementwise.functions import SqrtOp
from tensorgrad.passes.functions import return_of, set_returned, set_signature
from tensorgrad.passes.levels import TENSORS, Effect, LevelPass
from tensorgrad.passes.tensors.pack_updates import ROWS, Rows, chosen_rows
from tensorgrad.passes.tensors.packing import (
    Chunk,
    Row,
    laid_out,
    row_of_squares,
    stacked,
    sum_of_squares,
    sum_of_squares_by_axes,
    unstacked,
)
from tensorgrad.passes.tensors.update_plans import Pair, UpdatePlan, pairs_of, plans_of
from tensorgrad.passes.tensors.updates import Update, drop_updates

SumOfSquares: TypeAlias = Callable[[TensorBuilder, SSAValue, Attribute], SSAValue]
"""Builds the sum of the squares of a gradient, in a wide element type."""

NORM = (Role.NORM, "norm")
"""The role and name of the argument for the global norm of the gradients."""


@dataclass(frozen=True)
class AppendUpdatesPass(LevelPass):
    """Replaces a function's gradients with updates of its parameters, computed by the module's update functions.

    Expects a function whose results of role `gradient` have the names of arguments of role `parameter`, as `grad`
    returns it, and update functions, as `trace-optimizer` makes them. Guarantees: the update functions are removed;
    other results stay in front, followed by a result of role `update` for each parameter and for its state,
    `adam.m/<parameter>`. State is initially zero. New arguments come in groups, each in the order of the gradients: all
    state of one kind, then that of the next, then the scalars that the host computes, which are named by their
    formulas. Gradients without an update function remain.

    Parameters that are listed in the function's attribute `tg.rows`, which `pack-updates` sets, are updated together:
    their gradients, values and state are packed. The attribute is then removed. Every other parameter is updated
    separately, which can be done in the kernel that computes its gradient.

    Attributes:
        function: The function; may be omitted if there is only one.
        by_axes: Whether norms are summed axis by axis, so that `distribute` can shard each gradient along its own axis.
    """

    name = "append-updates"
    levels = TENSORS

    function: str | None = None
    by_axes: bool = False

    @property
    def effect(self) -> Effect:
        return Effect(adds_updates=True)

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        function = find_function(op, self.function)
        where = f"{self.name}: @{function.sym_name.data}"
        plans = plans_of(op, function, where)
        for plan in plans:
            plan.check_names(function, where)
        rows = chosen_rows(function, where)
        parts = [_rows_of(plan, rows, where) for plan in plans]
        function.attributes.pop(ROWS, None)
        for plan, part in zip(plans, parts, strict=True):
            _append(function, plan, where, part, sum_of_squares_by_axes if self.by_axes else sum_of_squares)
        drop_updates(op)


def _rows_of(plan: UpdatePlan, rows: Rows, where: str) -> Rows:
    """Returns the rows of a plan's parameters.

    Raises:
        DiagnosticException: They don't name each of its parameters once.
    """
    own = [row for row in rows if any(name in plan.computed for chunk in row for name in chunk)]
    counts = Counter(name for row in own for chunk in row for name in chunk)
    expected = Counter(name for name, type_ in plan.computed.items() if 0 not in type_.get_shape())
    if own and counts != expected:
        wrong = min((counts - expected) + (expected - counts))
        raise DiagnosticException(
            f"{where}: {ROWS} must name each parameter of an optimizer exactly once, but not {wrong!r}"
        )
    return own


def _append(function: FuncOp, plan: UpdatePlan, where: str, rows: Rows, add_up: SumOfSquares) -> None:
    """Replaces gradients of a function with the updates of one optimizer."""
    pairs = [pair for pair in pairs_of(function, where) if pair.name in plan.computed]
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    parameters = (value for slot, value in zip(slots, block.args, strict=True) if slot.role == Role.PARAMETER)
    wide = f64 if any(element_of(value) == f64 for value in parameters) else f32
    states = {key: block.insert_arg(type_, len(block.args)) for key, type_ in plan.states().items()}
    there = {slot.name: value for slot, value in zip(slots, block.args, strict=False) if slot.role == Role.SCALAR}
    new = [slot for slot in plan.scalars() if slot.name not in there]
    there |= {slot.name: block.insert_arg(tensor((), wide), len(block.args)) for slot in new}
    builder = TensorBuilder(block, before=return_of(function), location=function.location)
    written = _Writing(builder, plan, states, there, rows, wide, add_up, function.location).run(pairs)
    results = [(slot, value) for slot, value in entries if slot.role != Role.GRADIENT or slot.name not in plan.computed]
    results += [(Slot(pair.name, Role.UPDATE), written["", pair.name]) for pair in pairs]
    results += [(Slot(f"{kind}/{name}", Role.UPDATE), written[kind, name]) for kind, name in states]
    set_returned(function, [value for _, value in results])
    new_slots = [*(Slot(f"{kind}/{name}", Role.STATE) for kind, name in states), *new]
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in results])


@dataclass
class _Unit:
    """Parameters that are updated by the same ops: a single one, or several packed into a row.

    Attributes:
        pairs: The parameters; they all have the same settings.
        offsets: The offset of each of them.
        parameter: Their values before the step, in the element type of the update.
        gradient: The gradient, as transformed so far.
        states: The values of their state before the step, by kind.
        location: The location of the ops that update them.
    """

    pairs: Sequence[Pair]
    offsets: Sequence[int]
    parameter: SSAValue
    gradient: SSAValue
    states: Mapping[str, SSAValue]
    location: LocationAttr


@dataclass
class _Writing:
    """Appends updates of parameters to a function."""

    builder: TensorBuilder
    plan: UpdatePlan
    states: Mapping[tuple[str, str], SSAValue]
    scalars: Mapping[str, SSAValue]
    rows: Rows
    wide: Attribute
    add_up: SumOfSquares
    location: LocationAttr
    written: dict[tuple[str, str], SSAValue] = field(default_factory=dict[tuple[str, str], SSAValue])

    def run(self, pairs: Sequence[Pair]) -> dict[tuple[str, str], SSAValue]:
        """Returns the next values of each parameter and its state, by kind and name; a parameter has the kind "".

        Stages before the first norm can run in the kernels that compute gradients, so rows are packed after them.
        """
        for pair in pairs:
            if 0 in shape_of(pair.parameter):  # has no elements to update
                self.written["", pair.name] = pair.parameter
                self.written |= {key: value for key, value in self.states.items() if key[1] == pair.name}
        pairs = [pair for pair in pairs if 0 not in shape_of(pair.parameter)]
        start = self.plan.first_in_rows if self.rows else None
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
            norm, units = self._in_rows(pairs, any(update.needs_norm for update in first[0].values()))
            units = self._through_all((self._through(unit, norm, first) for unit in units), others)
        for _ in units:
            pass
        return self.written

    def _through_all(
        self, units: Iterator[_Unit], segments: Sequence[Sequence[Mapping[str, Update]]]
    ) -> Iterator[_Unit]:
        """Returns units after several segments; all but the first start with a stage that needs the norm."""
        for segment in segments:
            norm = None
            if any(update.needs_norm for update in segment[0].values()):
                updated = list(units)
                norm = self._norm([self.add_up(self.builder, unit.gradient, self.wide) for unit in updated])
                units = iter(updated)
            units = iter([self._through(unit, norm, segment) for unit in units])
        return units

    def _norm(self, squares: Sequence[SSAValue]) -> SSAValue | None:
        return self.builder.unary(SqrtOp, reduce(self.builder.add, squares)) if squares else None

    def _in_rows(self, pairs: Sequence[Pair], normed: bool) -> tuple[SSAValue | None, Iterator[_Unit]]:
        """Packs gradients into rows; returns their norm, if `normed`, and a unit for each chunk."""
        b = self.builder
        b.location = self.location
        members = {pair.name: pair.member(self.plan.alike(pair)) for pair in pairs}
        rows = laid_out([[[members[name] for name in chunk] for chunk in row] for row in self.rows])
        gradients = [self._gradients(row) for row in rows]
        rows_and_gradients = list(zip(rows, gradients, strict=True))
        squares = (
            [row_of_squares(b, gradient, row.columns, self.wide) for row, gradient in rows_and_gradients]
            if normed
            else []
        )
        units = (self._unit(chunk, gradient) for row, gradient in rows_and_gradients for chunk in row.chunks)
        return self._norm(squares), units

    def _gradients(self, row: Row[Pair]) -> SSAValue:
        """Returns a row of gradients, padded with zeros."""
        pairs = [member.item for chunk in row.chunks for member in chunk.members]
        offsets = [chunk.start + offset for chunk in row.chunks for offset in chunk.offsets]
        parts = [self.builder.cast(pair.gradient, pair.computed) for pair in pairs]
        return self.builder.pack(parts, offsets, row.padded)

    def _single(self, pair: Pair, gradient: SSAValue) -> _Unit:
        """Returns the unit of a single parameter."""
        b, owner = self.builder, gradient.owner
        b.location = owner.location if isinstance(owner, Operation) else b.location
        states = {kind: value for (kind, name), value in self.states.items() if name == pair.name}
        parameter, gradient = b.cast(pair.parameter, pair.computed), b.cast(gradient, pair.computed)
        return _Unit([pair], [0], parameter, gradient, states, b.location)

    def _unit(self, chunk: Chunk[Pair], row: SSAValue) -> _Unit:
        """Returns the unit of a chunk, whose gradients are a slice of a row."""
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
        """Returns a unit after the update functions of some stages."""
        self.builder.location = unit.location
        for stage in stages:
            update = stage.get(unit.pairs[0].name)
            if update is not None:
                unit = self._updated(unit, update, norm)
        return unit

    def _updated(self, unit: _Unit, update: Update, norm: SSAValue | None) -> _Unit:
        b, computed = self.builder, unit.pairs[0].computed
        values = {(Role.GRADIENT, "gradient"): unit.gradient, (Role.PARAMETER, "parameter"): unit.parameter}
        values |= {(Role.STATE, kind): unit.states[kind] for kind in update.states}
        by_batch = update.is_batched and not update.is_elementwise and len(unit.pairs) > 1
        if by_batch:
            extents = shape_of(unit.pairs[0].parameter)
            values = {key: stacked(b, value, unit.offsets, extents) for key, value in values.items()}
        scalars = [slot.name for slot in update.slots if slot.role == Role.SCALAR]
        values |= {(Role.SCALAR, name): b.cast(self.scalars[name], computed) for name in scalars}
        if update.needs_norm and norm is not None:
            values[NORM] = b.cast(norm, computed)
        if by_batch:
            value, *states = (unstacked(b, row, unit.offsets) for row in update.batched(b, values))
        else:
            value, *states = update.applied(b, values)
        for kind, state in zip(update.states, states, strict=True):
            self._put(unit, kind, state)
        if not update.is_last:
            return replace(unit, gradient=value)
        self._put(unit, "", b.cast(value, unit.pairs[0].stored))
        return unit

    def _put(self, unit: _Unit, kind: str, value: SSAValue) -> None:
        """Records the next value of parameters, or of their state."""
        for pair, offset in zip(unit.pairs, unit.offsets, strict=True):
            alone = len(unit.pairs) == 1
            own = value if alone else self.builder.part(value, offset, shape_of(pair.parameter))
            self.written[kind, pair.name] = own


def _segments(stages: Sequence[Mapping[str, Update]]) -> list[list[Mapping[str, Update]]]:
    """Returns the stages up to the first that needs the norm, and then each such stage with its successors."""
    results: list[list[Mapping[str, Update]]] = []
    for stage in stages:
        if not results or any(update.needs_norm for update in stage.values()):
            results.append([])
        results[-1].append(stage)
    return results
