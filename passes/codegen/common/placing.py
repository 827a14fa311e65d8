"""Binds the buffers of dispatches: bindings, and offsets into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import (
    ArenaOp,
    KernelOp,
    ViewOp,
    buffer_type,
    element_bytes,
    element_of,
)
from tensorgrad.dialects.buf_control import RowOp, view_of
from tensorgrad.dialects.signature import ROLE, Role, Slot
from tensorgrad.dialects.tg.base import dense
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.storage import PEAK_BYTES, bindings_of, chunk_bytes
from tensorgrad.passes.codegen.common.control import MOST_COUNTERS, BufferLocation, Entry, Row, counter_of
from tensorgrad.runtime.target import Target

STARTS = "starts"
"""The label of the arena for tables of buffer starts."""

Team = list[KernelOp]
"""Kernels of a dispatch that share one copy of the code: equal but for their buffers."""
Place = tuple[SSAValue, int]
"""A bound view, and an offset into it in elements."""


@dataclass
class BindingLayout:
    """A dispatch's bindings, and the locations of its kernels' operands in them.

    Attributes:
        teams: The kernels.
        views: The bound views.
        placed: The location of each operand of the first kernel of each team.
    """

    teams: list[Team]
    views: list[SSAValue]
    placed: list[list[BufferLocation]] = field(default_factory=list[list[BufferLocation]])


class Placing:
    """Finds the bindings of one function's dispatches.

    Each buffer has its own binding, as long as there are enough. Arenas that contain too many of a dispatch's buffers,
    or whose buffers differ between kernels that are written once, are bound as a whole; the buffers' starts are then in
    a table, another binding, so that the code doesn't depend on placement. A buffer larger than the binding size limit
    takes several consecutive bindings.
    """

    def __init__(self, function: FuncOp, target: Target):
        self.function = function
        self.target = target
        self.scalars = self._pack_scalars()
        self._views: dict[tuple[SSAValue, int, int, Attribute], SSAValue] = {}
        self._wholes: dict[tuple[SSAValue, int, int, Attribute], SSAValue] = {}
        self._tables: dict[tuple[int, ...], SSAValue] = {}
        self._starts: ArenaOp | None = None

    def _pack_scalars(self) -> dict[SSAValue, Place]:
        """Creates one view over all scalars of an arena that have one type; returns each scalar's position in it."""
        views_by_type: dict[tuple[SSAValue, Attribute], list[ViewOp]] = {}
        for op in self.function.body.block.ops:
            role = op.attributes.get(ROLE) if isinstance(op, ViewOp) else None
            if isinstance(op, ViewOp) and isinstance(role, StringAttr) and role.data == Role.SCALAR:
                views_by_type.setdefault((op.arena, element_of(op.result)), []).append(op)
        packed: dict[SSAValue, Place] = {}
        for (arena, element), views in views_by_type.items():
            first, size = min(view.start for view in views), element_bytes(element)
            count = (max(view.start for view in views) - first) // size + 1
            view = ViewOp.of(arena, first, buffer_type([count], element))
            view.location = views[0].location
            self.function.body.block.insert_op_after(view, views[-1])
            packed |= {v.result: (view.result, (v.start - first) // size) for v in views}
        return packed

    def whole(self, operand: SSAValue) -> SSAValue:
        """Returns the view that defines or contains an operand: the same one for all views of the same bytes."""
        view = view_of(operand)
        kind = element_of(view.result)
        return self._views.setdefault((view.arena, view.start, view.size, kind), view.result)

    def rows(self, operands: Sequence[SSAValue]) -> tuple[list[Row | None], list[SSAValue]]:
        """Returns the offset of each operand that a loop moves, with its counters; and all counters."""
        rows: list[Row | None] = []
        for operand in operands:
            owner = operand.owner
            rows_of_views = (
                (owner.at.data, [counter_of(index) for index in owner.indices]) if isinstance(owner, RowOp) else None
            )
            rows.append(rows_of_views)
        counters = list(dict.fromkeys(counter for row in rows if row is not None for counter in row[1]))
        if len(counters) > MOST_COUNTERS:
            raise DiagnosticException(f"{len(counters)} loops inside of each other; devices take {MOST_COUNTERS}")
        return rows, counters

    def layout(self, teams: list[Team]) -> BindingLayout:
        """Returns the bindings of a dispatch; may exceed the limit.

        Teams whose buffers no table can locate are split into single kernels.
        """
        kernels = [kernel for team in teams for kernel in team]
        operands = [operand for kernel in kernels for operand in kernel.operands]
        rows, counters = self.rows(operands)
        places = {operand: self.scalars.get(operand) or self._aligned(self.whole(operand)) for operand in operands}
        if not counters:
            result = self._by_table(teams, places)
            if result is not None:
                return result
        limit = self.target.max_storage_buffers_per_shader_stage - len(counters)
        places = self._within_bindings(places, limit)
        views = [*dict.fromkeys(places[operand][0] for operand in operands), *counters]
        placed = iter(
            BufferLocation(views.index(view), start, None if row is None else (row[0], tuple(map(views.index, row[1]))))
            for (view, start), row in zip((places[operand] for operand in operands), rows, strict=True)
        )
        singles = [[kernel] for kernel in kernels]
        return BindingLayout(singles, views, [[next(placed) for _ in kernel.operands] for kernel in kernels])

    def _aligned(self, view: SSAValue) -> Place:
        """Returns a bindable view and the position of `view` in it: itself if aligned, else one that starts earlier."""
        op = cast(ViewOp, view.owner)
        before = op.start % self.target.min_storage_buffer_offset_alignment
        if before == 0:
            return view, 0
        bound = self._flat_view(op.arena, op.start - before, op.start + op.size, [op])
        return bound, before // element_bytes(element_of(view))

    def chunks(self, view: SSAValue) -> list[SSAValue]:
        """Returns the bindings of a view: itself, or flat views over its parts if it exceeds the size limit."""
        if not isinstance(view.owner, ViewOp) or bindings_of(view.owner.size, self.target) == 1:
            return [view]
        first, end, each = view.owner.start, view.owner.start + view.owner.size, chunk_bytes(self.target)
        starts = range(first, end, each)
        return [self._flat_view(view.owner.arena, at, min(at + each, end), [view.owner]) for at in starts]

    # Whole arenas, with a table

    def _by_table(self, teams: list[Team], places: dict[SSAValue, Place]) -> BindingLayout | None:
        """Binds arenas as a whole where teams or a lack of bindings require it; `None` if neither does, or it fails."""
        teams, arenas_to_bind = self._settled(teams, places)
        arenas = self._arenas_to_bind(places, arenas_to_bind)
        if not arenas:
            return None
        spans = {arena: self._span(arena, views) for arena, views in self._by_arena(places).items() if arena in arenas}
        columns: list[int] = []
        views = [spans[arena] if (arena := _arena(view)) in spans else view for view, _ in places.values()]
        views = list(dict.fromkeys(views))
        placed: list[list[BufferLocation]] = []
        table = len(views)
        for team in teams:
            numbers: dict[tuple[int, ...], int] = {}
            base = len(columns)
            entries: list[BufferLocation | tuple[int, tuple[int, ...]]] = []
            for member_operands in zip(*(kernel.operands for kernel in team), strict=True):
                view, start = places[member_operands[0]]
                span = spans.get(_arena(view))
                if span is None:
                    entries.append(BufferLocation(views.index(view), start))
                    continue
                starts = tuple(_start_within(span, *places[operand]) for operand in member_operands)
                numbers.setdefault(starts, len(numbers))
                entries.append((views.index(span), starts))
            columns += [starts[member] for member in range(len(team)) for starts in numbers]
            placed.append(
                [
                    entry
                    if isinstance(entry, BufferLocation)
                    else BufferLocation(entry[0], 0, None, Entry(table, base + numbers[entry[1]], len(numbers)))
                    for entry in entries
                ]
            )
        return BindingLayout(teams, [*views, self._table(tuple(columns))], placed)

    def _settled(self, teams: list[Team], places: dict[SSAValue, Place]) -> tuple[list[Team], set[SSAValue]]:
        """Returns the teams, split where a table can't serve them; and the arenas that need the table."""
        by_arena = self._by_arena(places)
        settled: list[Team] = []
        arenas_to_bind: set[SSAValue] = set()
        for team in teams:
            differing = [
                [places[operand] for operand in operands]
                for operands in zip(*(kernel.operands for kernel in team), strict=True)
                if len({places[operand] for operand in operands}) > 1
            ]
            arenas = {_arena(view) for pairs in differing for view, _ in pairs}
            together = all(len({_arena(view) for view, _ in pairs}) == 1 for pairs in differing)
            if together and all(self._can_be_one(by_arena[arena]) for arena in arenas):
                settled.append(team)
                arenas_to_bind |= arenas
            else:
                settled += [[kernel] for kernel in team]
        return settled, arenas_to_bind

    def _arenas_to_bind(self, places: dict[SSAValue, Place], arenas: set[SSAValue]) -> set[SSAValue]:
        """Returns the arenas to bind as a whole: those in `arenas`, and more if there are too few bindings."""
        limit = self.target.max_storage_buffers_per_shader_stage
        by_arena = self._by_arena(places)
        bound = set(arenas)

        def needed() -> int:
            return sum(1 if arena in bound else self._needed(views) for arena, views in by_arena.items()) + bool(bound)

        for views in _ranked(by_arena.values()):
            if needed() <= limit:
                break
            if len(views) > 1 and self._can_be_one(views):
                bound.add(views[0].arena)
        return bound if needed() <= limit else set()

    def _span(self, arena: SSAValue, views: Sequence[ViewOp]) -> SSAValue:
        """Returns a flat view over an arena: all of it or, if that exceeds the binding size limit, over `views`."""
        size = cast(ArenaOp, arena.owner).size
        if size <= self.target.max_storage_buffer_binding_size:
            return self._flat_view(arena, 0, size, views)
        return self._view_over(views)

    def _table(self, numbers: tuple[int, ...]) -> SSAValue:
        """Returns a view of a constant table of these numbers."""
        if numbers not in self._tables:
            block, alignment = self.function.body.block, self.target.min_storage_buffer_offset_alignment
            before = 0 if self._starts is None else self._starts.size
            start = rounded_up(before, alignment)
            arena = ArenaOp.of(STARTS, Role.CONSTANT, start + 4 * len(numbers))
            arena.location = self.function.location
            first = block.first_op
            assert first is not None
            block.insert_op_before(arena, first)
            old = self._starts
            if old is not None:
                old.result.replace_all_uses_with(arena.result)
                Rewriter.erase_op(old)
            self._starts = arena
            view = ViewOp.of(arena.result, start, buffer_type([len(numbers)], i32))
            view.location = self.function.location
            # An index of a GPU has the same 32 bits. Starts from 2^31 on wrap around here.
            values = dense(np.asarray(numbers, np.uint32).view(np.int32))
            view.attributes.update(Slot(f"{STARTS}{len(self._tables)}", Role.CONSTANT, value=values).attributes())
            block.insert_op_after(view, arena)
            self._tables[numbers] = view.result
            self._count(arena.size - before)
        return self._tables[numbers]

    def _count(self, size: int) -> None:
        """Adds `size` bytes to the plan's total."""
        known = self.function.attributes.get(PEAK_BYTES)
        if isinstance(known, IntegerAttr):
            self.function.attributes[PEAK_BYTES] = IntegerAttr(known.value.data + size, i64)

    # Parts of arenas, with offsets in the code

    def _within_bindings(self, places: dict[SSAValue, Place], limit: int) -> dict[SSAValue, Place]:
        """Binds each arena once for all its tensors in a dispatch that would have too many bindings.

        If these have several types, once per group of adjacent ones: bindings must not overlap.
        """
        count = self._needed(cast(ViewOp, view.owner) for view in {view for view, _ in places.values()})
        moved = dict(places)
        runs = [run for views in self._by_arena(places).values() for run in _runs(views)]
        for group in _ranked(runs):
            if count <= limit:
                break
            if len(group) > 1 and self._can_be_one(group):
                shared, members = self._view_over(group), {member.result for member in group}
                for operand, (view, at) in places.items():
                    if view in members:
                        moved[operand] = shared, _start_within(shared, view, at)
                count -= len(group) - 1
        return moved

    def _needed(self, views: Iterable[ViewOp]) -> int:
        """Returns how many bindings views take if bound separately."""
        return sum(bindings_of(view.size, self.target) for view in views)

    def _by_arena(self, places: dict[SSAValue, Place]) -> dict[SSAValue, list[ViewOp]]:
        """Returns the distinct views of each arena."""
        groups: dict[SSAValue, list[ViewOp]] = {}
        for view in dict.fromkeys(view for view, _ in places.values()):
            groups.setdefault(_arena(view), []).append(cast(ViewOp, view.owner))
        return groups

    def _can_be_one(self, group: Sequence[ViewOp]) -> bool:
        """Returns whether one binding can hold all views of an arena."""
        size = max(view.start + view.size for view in group) - min(view.start for view in group)
        one_type = len({element_of(view.result) for view in group}) == 1
        return one_type and size <= self.target.max_storage_buffer_binding_size

    def _view_over(self, group: Sequence[ViewOp]) -> SSAValue:
        """Returns a flat view over all views of a group."""
        first, end = min(view.start for view in group), max(view.start + view.size for view in group)
        return self._flat_view(group[0].arena, first, end, group)

    def _flat_view(self, arena: SSAValue, first: int, end: int, group: Sequence[ViewOp]) -> SSAValue:
        element = element_of(group[0].result)
        key = (arena, first, end, element)
        if key not in self._wholes:
            view = ViewOp.of(arena, first, buffer_type([(end - first) // element_bytes(element)], element))
            view.location = group[0].location
            self.function.body.block.insert_op_after(view, cast(ArenaOp, arena.owner))
            self._wholes[key] = view.result
        return self._wholes[key]


def _runs(views: Iterable[ViewOp]) -> Iterator[list[ViewOp]]:
    """Yields the views of an arena, grouped by runs with the same element type."""
    in_order = sorted(views, key=lambda view: view.start)
    for _, run in groupby(in_order, key=lambda view: element_of(view.result)):
        yield list(run)


def _ranked(groups: Iterable[list[ViewOp]]) -> Iterator[list[ViewOp]]:
    """Yields the views by arena: parameters and state first, then in decreasing number."""
    return iter(sorted(groups, key=lambda group: (_role(group[0]) not in (Role.PARAMETER, Role.STATE), -len(group))))


def _arena(view: SSAValue) -> SSAValue:
    return cast(ViewOp, view.owner).arena


def _start_within(span: SSAValue, view: SSAValue, at: int) -> int:
    """Returns the position in a span of an element of a view."""
    outer, inner = cast(ViewOp, span.owner), cast(ViewOp, view.owner)
    return (inner.start - outer.start) // element_bytes(element_of(view)) + at


def _role(view: ViewOp) -> str:
    """Returns the role of a view's arena."""
    return cast(ArenaOp, view.arena.owner).role.data
