"""Shared code of attention kernels: a thread's rows, products, and sums over a tile."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.attention import KEYS, AttentionOp
from tensorgrad.dialects.schedule import AttentionSchedule
from tensorgrad.passes.codegen.common.attention import FEATURE, GROUP, Element, lowest
from tensorgrad.passes.codegen.common.attention_program import AttentionProgram
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value, both, largest

UNROLLED = 4
"""The unroll factor of products over features, if it divides their number."""

Grid = list[list[Value]]
"""A value for each row of a thread and each of its columns."""


@dataclass(frozen=True)
class ColumnTile:
    """A tile of columns: a part of a range of the column loop.

    Attributes:
        start: The tile's first position in the range.
        stop: The number of positions in the range.
        is_cut: Whether the tile may extend past the range.
        before: The number of columns before the range; `None` for none.
        columns: The index in the column loop of each of the thread's columns.
        inside: Whether each is in the range; `None` if it must be.
        allowed: Whether a row and a column of the thread attend to each other, as far as that has been computed.
    """

    start: Value
    stop: int
    is_cut: bool
    before: Value | None
    columns: list[Value] = field(default_factory=list[Value])
    inside: list[Value | None] = field(default_factory=list["Value | None"])
    allowed: dict[tuple[int, int], Value] = field(default_factory=dict[tuple[int, int], Value])

    def clamped(self, place: Value) -> Value:
        """Returns a position, or the range's last one instead of any past it."""
        return place.at_most(self.stop - 1) if self.is_cut else place

    def column(self, place: Value) -> Value:
        """Returns the index in the column loop of a position in the range."""
        return place if self.before is None else place + self.before


@dataclass(frozen=True)
class Features:
    """The features of an operand's rows or columns, which are read where they are needed.

    Attributes:
        operand: The operand.
        factor: A factor of all features.
    """

    operand: int
    factor: float = 1.0


@dataclass
class Scores:
    """The scores of a thread's rows with its columns."""

    grid: Grid


@dataclass
class Numbers:
    """A number for each row of a thread, or for each of its columns."""

    values: list[Value]
    of_columns: bool = False


@dataclass
class Sums:
    """The sums of a thread's features, row after row."""

    values: list[Value]


class AttentionBlock(AttentionProgram[ColumnTile, Features, Features, Sums, Scores, Numbers]):
    """A thread's rows, and its part of the sums over a tile."""

    def __init__(self, stage: AttentionOp, code: Code, schedule: AttentionSchedule):
        super().__init__(stage, code)
        self.code, self.schedule = code, schedule
        self.width = schedule.lanes * schedule.columns
        self.row_count = stage.grid[1]
        self.top = code.block
        self.zero = code.constant(0.0, self.element)
        # Two arrays of workgroup memory are used alternately, each for one of the two sums of a tile.
        self.alternates = stage.part.data == KEYS
        self._locate(schedule.groups)
        self.shared: list[SSAValue] = []
        self._array = 0

    def _locate(self, groups: Sequence[int]) -> None:
        code, schedule, a = self.code, self.schedule, self.a
        self.lane = code.add(wgsl.LocalIdOp(0))
        self.depth = code.add(wgsl.LocalIdOp(1))
        group = code.add(wgsl.WorkgroupIdOp(1))
        self.group_inside: Value | None = None
        if groups[2] > 1:
            layer = code.add(wgsl.WorkgroupIdOp(2)) * groups[1]
            group = group + layer
        if groups[1] * groups[2] != a.groups:
            self.group_inside = group < a.groups
            group = group.at_most(a.groups - 1)
        self.group = group
        self.block_start = code.add(wgsl.WorkgroupIdOp(0)) * (schedule.rows * schedule.depth)
        mine = self.depth * schedule.rows
        self.first = self.block_start + mine if schedule.depth > 1 else self.block_start
        self.cut_rows = self.row_count % (schedule.rows * schedule.depth) != 0
        self.block_rows = [self._row(i) for i in range(schedule.rows)]
        # With subgroups, each lane reads every `lanes`-th row of the block and broadcasts it.
        shared = (
            [self.lane % schedule.rows]
            if schedule.rows < schedule.lanes
            else [self.lane + start for start in range(0, schedule.rows, schedule.lanes)]
        )
        self.lane_rows = [self._within(self.first + row) for row in shared]

    def _row(self, i: int) -> Value:
        return self._within(self.first + i)

    def _within(self, row: Value) -> Value:
        return row.at_most(self.row_count - 1) if self.cut_rows else row

    # Operands

    def element_at(self, operand: int) -> Element:
        """Returns the element of an operand in this thread's group."""
        return Element.of(self.stage, operand, self.code).with_loops(self.code, {GROUP: self.group})

    def known(self, **loops: Value) -> dict[int, Value]:
        """Returns the loop indices of a thread: its group, and the given `row`, `column` and `feature`."""
        places = {"row": self.row_loop, "column": self.column_loop, "feature": FEATURE}
        return {GROUP: self.group, **{places[name]: value for name, value in loops.items()}}

    def of_rows(self, operand: int) -> list[Element]:
        """Returns an operand's elements in each row of the thread."""
        at = self.element_at(operand)
        return [at.with_loops(self.code, self.known(row=row)) for row in self.block_rows]

    def of_columns(self, operand: int, tile: ColumnTile) -> list[Element]:
        """Returns an operand's elements in each column of the thread."""
        at = self.element_at(operand)
        return [at.with_loops(self.code, self.known(column=column)) for column in tile.columns]

    def rows(self, operand: int, factor: float = 1.0, as_lines: bool = False) -> Features:
        return Features(operand, factor)

    def columns(self, operand: int, tile: ColumnTile, factor: float = 1.0) -> Features:
        return Features(operand, factor)

    def numbers(self, name: str) -> Numbers:
        return Numbers([])

    def row_numbers(self, operand: int) -> Numbers:
        return Numbers([at.load(self.code) for at in self.of_rows(operand)])

    def column_numbers(self, operand: int, tile: ColumnTile) -> Numbers:
        return Numbers([at.load(self.code) for at in self.of_columns(operand, tile)], of_columns=True)

    def tile(self, start: Value, stop: int, starts_anywhere: bool = False, before: Value | None = None) -> ColumnTile:
        """Returns the tile at a position of a range.

        Args:
            start: The position, a multiple of the tile's width unless `starts_anywhere`.
            stop: The number of positions in the range.
            starts_anywhere: Whether tiles don't start at multiples of their width.
            before: The number of columns before the range; `None` for none.
        """
        tile = ColumnTile(start, stop, stop % self.width != 0 or starts_anywhere, before)
        places = [start + (self.lane + j * self.schedule.lanes) for j in range(self.schedule.columns)]
        for place in places:
            tile.inside.append(place < stop if tile.is_cut else None)
            tile.columns.append(tile.column(tile.clamped(place)))
        return tile

    # Products

    def products(self, rows: Features, columns: Features, tile: ColumnTile) -> Scores:
        code, schedule = self.code, self.schedule
        features, count = self.features(rows.operand), schedule.columns
        across = self.of_columns(columns.operand, tile)
        if schedule.broadcast:
            at_row = self.element_at(rows.operand)
            down = [at_row.with_loops(code, self.known(row=row)) for row in self.lane_rows]
        else:
            down = self.of_rows(rows.operand)
        steps = UNROLLED if features % UNROLLED == 0 else 1

        def body(at: Value, held: Sequence[Value]) -> Sequence[Value]:
            sums = list(held)
            for step in range(steps):
                feature = {FEATURE: at + step}
                loaded = [place.with_loops(code, feature).load(code) for place in down]
                if schedule.broadcast:
                    loaded = [
                        code.add(wgsl.SubgroupBroadcastOp(loaded[row // schedule.lanes].ssa, row % schedule.lanes))
                        for row in range(schedule.rows)
                    ]
                others = [element.with_loops(code, feature).load(code) for element in across]
                for i, x in enumerate(loaded):
                    for j, y in enumerate(others):
                        sums[i * count + j] = sums[i * count + j] + x * y
            return sums

        flat = _scaled(code.loop(features, [self.zero] * (schedule.rows * count), body, step=steps), rows, columns)
        return Scores([flat[i * count : (i + 1) * count] for i in range(schedule.rows)])

    def sums(self, operand: int) -> Sums:
        return Sums([self.zero] * (self.schedule.rows * len(self._feature_places(operand))))

    def accumulate(
        self, sums: Sums, scores: Scores, columns: Features, tile: ColumnTile, shrink: Numbers | None = None
    ) -> None:
        code, schedule = self.code, self.schedule
        features = self._feature_places(columns.operand)
        count, at = len(features), self.element_at(columns.operand)
        if shrink is not None:
            sums.values = [value * shrink.values[i // count] for i, value in enumerate(sums.values)]

        def add(place: Value, weights: Sequence[Value], held: Sequence[Value]) -> list[Value]:
            column = at.with_loops(code, self.known(column=tile.column(tile.clamped(place))))
            values = [column.with_loops(code, {FEATURE: feature}).load(code) for feature in features]
            return [
                held[i * count + j] + weight * value
                for i, weight in enumerate(weights)
                for j, value in enumerate(values)
            ]

        grid = [_scaled(row, columns) for row in scores.grid]
        if schedule.broadcast:
            for j in range(schedule.columns):
                for lane in range(schedule.lanes):
                    weights = [code.add(wgsl.SubgroupBroadcastOp(row[j].ssa, lane)) for row in grid]
                    sums.values = add(tile.start + (j * schedule.lanes + lane), weights, sums.values)
            return
        array = self._share(grid)
        begin = [self._shared_row(i) for i in range(schedule.rows)]

        def body(k: Value, held: Sequence[Value]) -> Sequence[Value]:
            return add(tile.start + k, [code.element(array, start + k) for start in begin], held)

        remaining = tile.stop - tile.start
        sums.values = code.loop_to(remaining.at_most(self.width), sums.values, body)

    def _feature_places(self, operand: int) -> list[Value]:
        """Returns the features that this lane adds up, clamped to the last one; those past it are not stored."""
        features, lanes = self.features(operand), self.schedule.lanes
        places = [self.lane + i * lanes for i in range(-(-features // lanes))]
        if features % lanes:
            places[-1] = places[-1].at_most(features - 1)
        return places

    # Communication between lanes

    def _shared_row(self, i: int) -> Value:
        return (self.depth * self.schedule.rows + i) * self.width

    def _share(self, values: Grid) -> SSAValue:
        """Writes the thread's values to workgroup memory, one row per row of the block, and waits for all threads.

        A barrier first waits until no thread still reads the memory; if two arrays alternate, the other's barrier did
        that.
        """
        code, schedule = self.code, self.schedule
        if len(self.shared) == self._array:
            kind = MemRefType(self.element, [schedule.rows * schedule.depth * self.width])
            memory_op = wgsl.WorkgroupAllocOp(kind)
            self.top.add_op(memory_op)
            self.shared.append(memory_op.results[0])
        array = self.shared[self._array]
        if self.alternates:
            self._array = 1 - self._array
        else:
            code.block.add_op(wgsl.BarrierOp())
        for i, row in enumerate(values):
            begin = self._shared_row(i) + self.lane
            for j, value in enumerate(row):
                code.put(value, array, begin + j * schedule.lanes)
        code.block.add_op(wgsl.BarrierOp())
        return array

    def across_lanes(self, values: Grid, kind: str) -> list[Value]:
        """Returns, for each row, the maximum ("max") or sum ("add") over all lanes."""
        code, fold = self.code, largest if kind == "max" else operator.add
        if self.schedule.broadcast:
            mine = [reduce(fold, row) for row in values]
            return [code.add(wgsl.SubgroupReduceOp(kind, value.ssa)) for value in mine]
        array = self._share(values)
        begin = [self._shared_row(i) for i in range(self.schedule.rows)]

        def body(k: Value, held: Sequence[Value]) -> Sequence[Value]:
            elements = [code.element(array, start + k) for start in begin]
            return [fold(old, new) for old, new in zip(held, elements, strict=True)]

        start = code.constant(lowest(self.element), self.element) if kind == "max" else self.zero
        return code.loop(self.schedule.lanes * len(values[0]), [start] * len(values), body)

    # Results

    def store(self, output: int, sums: Sums, factors: Numbers | float = 1.0) -> None:
        operand, lanes = self.operand_of(output), self.schedule.lanes
        places = self._feature_places(operand)
        last = self.features(operand) - (len(places) - 1) * lanes
        for i, element in enumerate(self.of_rows(operand)):
            row = sums.values[i * len(places) : (i + 1) * len(places)]
            if isinstance(factors, Numbers):
                row = [value * factors.values[i] for value in row]
            elif factors != 1:
                row = [value * factors for value in row]
            whole = len(row) if last == lanes else len(row) - 1

            def store(start: int, stop: int, to: Element = element, row: Sequence[Value] = row) -> None:
                for place, value in zip(places[start:stop], row[start:stop], strict=True):
                    to.with_loops(self.code, {FEATURE: place}).store(self.code, value)

            self._when(self._row_conditions(i), lambda s=store, n=whole: s(0, n))
            if whole < len(row):
                conditions = [*self._row_conditions(i), self.lane < last]
                self._when(conditions, lambda s=store, n=whole: s(n, n + 1))

    def store_numbers(self, output: int, numbers: Numbers) -> None:
        """Stores one value per row, from the first lane."""
        elements = self.of_rows(self.operand_of(output))
        for i, (element, value) in enumerate(zip(elements, numbers.values, strict=True)):
            first = self.lane.equals(0)
            self._when([*self._row_conditions(i), first], lambda e=element, v=value: e.store(self.code, v))

    def _row_conditions(self, i: int) -> list[Value]:
        results = [] if self.group_inside is None else [self.group_inside]
        if self.cut_rows:
            results.append(self.first + i < self.row_count)
        return results

    def _when(self, conditions: Sequence[Value], body: Callable[[], None]) -> None:
        if conditions:
            self.code.when(reduce(both, conditions), body)
        else:
            body()


def _scaled(values: Sequence[Value], *features: Features) -> list[Value]:
    """Returns values times the factors of features."""
    factor = math.prod(each.factor for each in features)
    return list(values) if factor == 1 else [value * factor for value in values]
