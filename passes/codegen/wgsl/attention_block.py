"""Shared code of attention kernels: a thread's rows, products, and sums over a tile."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.schedule import AttentionSchedule
from tensorgrad.passes.codegen.common.attention import (
    FEATURE,
    GROUP,
    KEY,
    LOWEST,
    QUERY,
    Element,
    is_seen,
    seen_keys,
)
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
    """

    start: Value
    stop: int
    is_cut: bool
    before: Value | None = None

    def clamped(self, place: Value) -> Value:
        """Returns a position, or the range's last one instead of any past it."""
        return place.at_most(self.stop - 1) if self.is_cut else place

    def column(self, place: Value) -> Value:
        """Returns the index in the column loop of a position in the range."""
        return place if self.before is None else place + self.before


class AttentionBlock(ABC):
    """Base of the three kernels."""

    row_loop, column_loop = QUERY, KEY

    alternates = False
    """Whether two arrays of workgroup memory are used alternately (double buffering)."""

    def __init__(self, stage: AttentionOp, code: Code, tile: AttentionSchedule):
        self.stage, self.code, self.tile = stage, code, tile
        self.a = stage.attention
        self.element = stage.computed_in
        self.width = tile.lanes * tile.columns
        self.row_count = self.a.queries if self.row_loop == QUERY else self.a.keys
        self.top = code.block
        self.zero = code.constant(0.0, self.element)
        self.one = code.constant(1.0, self.element)
        self.infinity = code.constant(float("-inf"), self.element)
        self.fill = self.infinity if self.a.fill == -math.inf else code.constant(self.a.fill, self.element)
        self.scale = code.constant(self.a.scale, self.element)
        self._locate(tile.groups)
        self.shared: list[SSAValue] = []

    def _locate(self, groups: Sequence[int]) -> None:
        code, tile, a = self.code, self.tile, self.a
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
        self.block_start = code.add(wgsl.WorkgroupIdOp(0)) * (tile.rows * tile.depth)
        mine = self.depth * tile.rows
        self.first = self.block_start + mine if tile.depth > 1 else self.block_start
        self.cut_rows = self.row_count % (tile.rows * tile.depth) != 0
        self.rows = [self._row(i) for i in range(tile.rows)]
        # With subgroups, each lane reads every `lanes`-th row of the block and broadcasts it.
        shared = (
            [self.lane % tile.rows]
            if tile.rows < tile.lanes
            else [self.lane + start for start in range(0, tile.rows, tile.lanes)]
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

    def of_rows(self, code: Code, operand: int) -> list[Element]:
        """Returns an operand's elements in each row of the thread."""
        at = self.element_at(operand)
        return [at.with_loops(code, self.known(row=row)) for row in self.rows]

    # Products

    def products(self, code: Code, row_operand: int, column_operand: int, columns: Sequence[Value]) -> Grid:
        """Returns the dot products of the thread's rows with its columns, over two operands' features."""
        tile, a = self.tile, self.a
        features = a.shapes(self.stage.part.data)[row_operand][-1]
        at_column = self.element_at(column_operand)
        across = [at_column.with_loops(code, self.known(column=column)) for column in columns]
        if tile.broadcast:
            at_row = self.element_at(row_operand)
            down = [at_row.with_loops(self.code, self.known(row=row)) for row in self.lane_rows]
        else:
            down = self.of_rows(self.code, row_operand)
        steps = UNROLLED if features % UNROLLED == 0 else 1

        def body(at: Value, held: Sequence[Value]) -> Sequence[Value]:
            sums = list(held)
            for step in range(steps):
                feature = {FEATURE: at + step}
                loaded = [place.with_loops(code, feature).load(code) for place in down]
                if tile.broadcast:
                    loaded = [
                        code.add(wgsl.SubgroupBroadcastOp(loaded[row // tile.lanes].ssa, row % tile.lanes))
                        for row in range(tile.rows)
                    ]
                others = [element.with_loops(code, feature).load(code) for element in across]
                for i, x in enumerate(loaded):
                    for j, y in enumerate(others):
                        place = i * len(others) + j
                        sums[place] = sums[place] + x * y
            return sums

        flat = code.loop(features, [self.zero] * (tile.rows * len(columns)), body, step=steps)
        return [flat[i * len(columns) : (i + 1) * len(columns)] for i in range(tile.rows)]

    def accumulate(
        self, code: Code, weights: Grid, memory: int, operand: int, columns: ColumnTile, held: Sequence[Value]
    ) -> list[Value]:
        """Adds the weighted features of a tile's columns to the accumulators.

        Args:
            code: Where to write.
            weights: The weights of the thread's rows and columns.
            memory: The workgroup array to pass them through, without subgroups.
            operand: The operand with the features.
            columns: The tile.
            held: The accumulators, row by row.
        """
        tile = self.tile
        features = self.feature_places(operand)
        at = self.element_at(operand)

        def add(place: Value, row_weights: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
            column = columns.column(columns.clamped(place))
            column_element = at.with_loops(code, self.known(column=column))
            values = [column_element.with_loops(code, {FEATURE: feature}).load(code) for feature in features]
            count = len(features)
            return [
                sums[i * count + j] + weight * value
                for i, weight in enumerate(row_weights)
                for j, value in enumerate(values)
            ]

        if tile.broadcast:
            results = list(held)
            for j in range(tile.columns):
                for lane in range(tile.lanes):
                    place = columns.start + (j * tile.lanes + lane)
                    row_weights = [code.add(wgsl.SubgroupBroadcastOp(row[j].ssa, lane)) for row in weights]
                    results = add(place, row_weights, results)
            return results
        self._share(code, weights, memory)
        begin = [self._shared_row(i) for i in range(tile.rows)]

        def body(k: Value, sums: Sequence[Value]) -> Sequence[Value]:
            row_weights = [code.element(self.shared[memory], start + k) for start in begin]
            return add(columns.start + k, row_weights, sums)

        remaining = columns.stop - columns.start
        return code.loop_to(remaining.at_most(self.width), held, body)

    def feature_places(self, operand: int) -> list[Value]:
        """Returns the features that this lane accumulates, clamped to the last one; those past it are not stored."""
        features = self.a.shapes(self.stage.part.data)[operand][-1]
        lanes = self.tile.lanes
        places = [self.lane + i * lanes for i in range(-(-features // lanes))]
        if features % lanes:
            places[-1] = places[-1].at_most(features - 1)
        return places

    # Communication between lanes

    def _shared_row(self, i: int) -> Value:
        return (self.depth * self.tile.rows + i) * self.width

    def _share(self, code: Code, values: Grid, memory: int) -> None:
        """Writes the thread's values to workgroup memory, one row per row of the block, and waits for all threads.

        A barrier first waits until no thread still reads the memory; if two arrays alternate, the other's barrier did
        that.
        """
        while len(self.shared) <= memory:
            kind = MemRefType(self.element, [self.tile.rows * self.tile.depth * self.width])
            memory_op = wgsl.WorkgroupAllocOp(kind)
            self.top.add_op(memory_op)
            self.shared.append(memory_op.results[0])
        if not self.alternates:
            code.block.add_op(wgsl.BarrierOp())
        for i, row in enumerate(values):
            begin = self._shared_row(i) + self.lane
            for j, value in enumerate(row):
                at = begin + j * self.tile.lanes
                code.put(value, self.shared[memory], at)
        code.block.add_op(wgsl.BarrierOp())

    def across_lanes(self, code: Code, values: Grid, kind: str) -> list[Value]:
        """Returns, for each row, the maximum ("max") or sum ("add") over all lanes."""
        fold = largest if kind == "max" else operator.add
        if self.tile.broadcast:
            mine = [reduce(fold, row) for row in values]
            return [code.add(wgsl.SubgroupReduceOp(kind, value.ssa)) for value in mine]
        self._share(code, values, 0)
        count = self.tile.lanes * len(values[0])
        begin = [self._shared_row(i) for i in range(self.tile.rows)]

        def body(k: Value, held: Sequence[Value]) -> Sequence[Value]:
            elements = [code.element(self.shared[0], start + k) for start in begin]
            return [fold(old, new) for old, new in zip(held, elements, strict=True)]

        start = self.code.constant(LOWEST, self.element) if kind == "max" else self.zero
        return code.loop(count, [start] * len(values), body)

    # Scores

    def tile_at(
        self, start: Value, stop: int, starts_anywhere: bool = False, before: Value | None = None
    ) -> ColumnTile:
        """Returns the tile at a position of a range.

        Args:
            start: The position, a multiple of the tile's width unless `starts_anywhere`.
            stop: The number of positions in the range.
            starts_anywhere: Whether tiles don't start at multiples of their width.
            before: The number of columns before the range; `None` for none.
        """
        return ColumnTile(start, stop, stop % self.width != 0 or starts_anywhere, before)

    def lane_columns(self, columns: ColumnTile) -> tuple[list[Value], list[Value | None]]:
        """Returns this lane's columns in a tile, and whether each is in its range; `None` if it must be."""
        places, inside = list[Value](), list[Value | None]()
        for j in range(self.tile.columns):
            place = columns.start + (self.lane + j * self.tile.lanes)
            inside.append(place < columns.stop if columns.is_cut else None)
            places.append(columns.clamped(place))
        return [columns.column(place) for place in places], inside

    def scores(self, code: Code, columns: Sequence[Value]) -> Grid:
        """Returns scaled products of queries and keys plus biases, unmasked."""
        row_operand, column_operand = (0, 1) if self.row_loop == QUERY else (1, 0)
        products = self.products(code, row_operand, column_operand, columns)
        biases = [self.element_at(3 + i) for i in range(self.a.biases)]
        for i, row in enumerate(self.rows):
            for j, column in enumerate(columns):
                value = products[i][j] * self.scale if self.a.scale != 1 else products[i][j]
                for bias in biases:
                    value = value + bias.with_loops(code, self.known(row=row, column=column)).load(code)
                products[i][j] = value
        return products

    def allowed(self, code: Code, row: Value, column: Value) -> Value | None:
        """Returns whether a row and a column attend to each other; `None` if all do."""
        a = self.a
        result: Value | None = None
        if a.causal is not None:
            query, key = (row, column) if self.row_loop == QUERY else (column, row)
            place = query if a.period == a.queries else query % a.period
            result = is_seen(a, place, key)
        for i in range(a.masks):
            element = self.element_at(3 + a.biases + i)
            mask = element.with_loops(code, self.known(row=row, column=column)).load(code)
            result = both(result, mask)
        return result

    def key_limit(self, code: Code) -> Value:
        """Returns the number of keys that the workgroup's queries may attend to."""
        a = self.a
        if not a.skips:
            return code.number(a.keys)
        first = self.block_start % a.period
        behind = first + self.tile.rows * self.tile.depth
        return seen_keys(a, behind.at_most(a.period))

    # Results

    def store_rows(self, output: int, sums: Sequence[Value]) -> None:
        """Stores accumulators as rows of an output."""
        code, operand = self.code, len(self.stage.inputs) + output
        features = self.a.shapes(self.stage.part.data)[operand][-1]
        places = self.feature_places(operand)
        last = features - (len(places) - 1) * self.tile.lanes
        elements = self.of_rows(code, operand)
        for i, element in enumerate(elements):
            row = sums[i * len(places) : (i + 1) * len(places)]
            whole = len(row) if last == self.tile.lanes else len(row) - 1

            def store(start: int, stop: int, to: Element = element, row: Sequence[Value] = row) -> None:
                for place, value in zip(places[start:stop], row[start:stop], strict=True):
                    to.with_loops(code, {FEATURE: place}).store(code, value)

            self._when(self._row_conditions(i), lambda s=store, n=whole: s(0, n))
            if whole < len(row):
                conditions = [*self._row_conditions(i), self.lane < last]
                self._when(conditions, lambda s=store, n=whole: s(n, n + 1))

    def store_logarithms(self, values: Sequence[Value]) -> None:
        """Stores one value per row in the second output, from the first lane."""
        code, elements = self.code, self.of_rows(self.code, len(self.stage.inputs) + 1)
        for i, (element, value) in enumerate(zip(elements, values, strict=True)):
            first = self.lane.equals(0)
            self._when([*self._row_conditions(i), first], lambda e=element, v=value: e.store(code, v))

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

    def accumulators(self, operand: int) -> list[Value]:
        """Returns zeros for the features of an operand that a thread accumulates."""
        return [self.zero] * (self.tile.rows * len(self.feature_places(operand)))

    @abstractmethod
    def write(self) -> None:
        """Writes the kernel."""
