"""Products and scores of attention tiles.

For each row of a block, registers hold sums for a few columns or features at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import vector
from xdsl.ir import SSAValue

from tensorgrad.passes.codegen.common.attention import QUERY, Element, first_place, is_seen, seen_keys
from tensorgrad.passes.codegen.llvm.attention_memory import ColumnFeatures, RowFeatures, TileMemory
from tensorgrad.passes.codegen.llvm.loops import parallel
from tensorgrad.passes.codegen.llvm.packing import sequential
from tensorgrad.passes.scalars import Value, both

OfScore = Callable[[Value, Value, Value], None]
"""Writes code for a score, given its column in the tile, row in the block, and position in the tile's scores."""


class TileCode(TileMemory):
    """The code of a block of rows."""

    # Products

    def multiply(self, rows: RowFeatures, columns: ColumnFeatures, count: Value, to: SSAValue) -> None:
        """Stores the products of rows with `count` columns, a line for each column."""
        sums, stride, features = self.column_sums, self.schedule.rows, self.code.number(rows.features)
        zero = self.code.make(vector.BroadcastOp, (self.code.constant(0.0, self.element).ssa,), self.kind)
        start = [zero] * (sums * self.schedule.vectors)

        def block(panel: Value, row: Value) -> None:
            first = panel * sums
            corner = first * columns.width

            def numbers(k: Value) -> list[Value]:
                begin = corner + k
                places = [begin + i * columns.width for i in range(sums)]
                return [self.code.element(columns.memory, place) for place in places]

            totals = self._summed(features, rows.memory, stride, row, numbers, start)
            self._store(totals, to, self._places(first, row, sums, stride))

        panels = (count + (sums - 1)) // sums
        self._each_block(self.row_count, panels, block)

    def accumulate(
        self,
        columns: ColumnFeatures,
        count: Value,
        weights: SSAValue,
        to: RowFeatures,
        shrink: SSAValue | None = None,
    ) -> None:
        """Adds the weighted features of `count` columns to sums, which are first multiplied by their row's `shrink`."""
        sums, stride = self.feature_sums(columns.features), self.schedule.rows

        def block(panel: Value, row: Value) -> None:
            first = panel * sums
            places = self._places(first, row, sums, stride)
            held = [self.code.vector(to.memory, place, self.kind) for place in places]
            if shrink is not None:
                factors = [self.code.vector(shrink, place, self.kind) for place in self._places(row, row, 1, 0)]
                held = [value * factors[i % len(factors)] for i, value in enumerate(held)]

            def numbers(k: Value) -> list[Value]:
                begin = k * columns.width + first
                return [self.code.element(columns.memory, begin + i) for i in range(sums)]

            self._store(self._summed(count, weights, stride, row, numbers, held), to.memory, places)

        panels = self.code.number(-(-columns.features // sums))
        self._each_block(self.row_count, panels, block)

    def accumulate_columns(
        self, rows: ColumnFeatures, weights: SSAValue, start: Value, count: Value, to: SSAValue
    ) -> None:
        """Adds the weighted features of the block's rows to sums for `count` columns from `start` on.

        Args:
            rows: The features, a line for each row: whole vectors.
            weights: The weights of a tile.
            start: The first column.
            count: The number of columns.
            to: The sums of all columns, a line for each.
        """
        stride, width = self.schedule.rows, rows.width

        def panel_of(sums: int, begin: Value) -> Callable[[Value, Value], None]:
            def block(panel: Value, feature: Value) -> None:
                first = begin + panel * sums
                places = self._places(start + first, feature, sums, width)
                held = [self.code.vector(to, place, self.kind) for place in places]
                corner = first * stride

                def numbers(k: Value) -> list[Value]:
                    at = corner + k
                    return [self.code.element(weights, at + i * stride) for i in range(sums)]

                totals = self._summed(self.row_count, rows.memory, width, feature, numbers, held)
                self._store(totals, to, places)

            return block

        sums = self.column_sums
        whole = count // sums
        self._each_block(self.code.number(width), whole, panel_of(sums, self.code.number(0)))
        if self.schedule.columns > 1:
            behind = whole * sums
            self._each_block(self.code.number(width), count - behind, panel_of(1, behind))

    def _each_block(self, extent: Value, panels: Value, body: Callable[[Value, Value], None]) -> None:
        """Writes loops over vectors of an extent, and over a number of panels."""
        code, width = self.code, self.schedule.lanes * self.schedule.vectors
        sequential(code, extent, lambda at: sequential(code, panels, lambda panel: body(panel, at)), step=width)

    def _summed(
        self,
        steps: Value,
        lines: SSAValue,
        stride: int,
        at: Value,
        numbers: Callable[[Value], list[Value]],
        held: Sequence[Value],
    ) -> list[Value]:
        """Returns sums of lines times scalars: a vector for each scalar and each vector from `at` on in a line.

        Args:
            steps: The number of lines.
            lines: The lines.
            stride: The distance between lines.
            at: The offset in a line where the vectors begin.
            numbers: Returns the scalars for a line.
            held: The initial sums.
        """

        def step(k: Value, sums: Sequence[Value]) -> list[Value]:
            vectors = [self.code.vector(lines, place, self.kind) for place in self._places(k, at, 1, stride)]
            results: list[Value] = []
            for number in numbers(k):
                spread = self.code.make(vector.BroadcastOp, (number.ssa,), self.kind).ssa
                for values in vectors:
                    factors = (spread, values.ssa, sums[len(results)].ssa)
                    results.append(self.code.make(vector.FMAOp, factors, self.kind))
            return results

        return self.code.loop_to(steps, held, step)

    def _store(self, values: Sequence[Value], memory: SSAValue, places: Sequence[Value]) -> None:
        for place, value in zip(places, values, strict=True):
            self.code.put_vector(value, memory, place)

    def _places(self, first: Value, at: Value, lines: int, stride: int) -> list[Value]:
        """Returns the positions of the vectors at `at` and after it, in `lines` lines from the first on."""
        corner = first * stride + at
        return [
            corner + (i * stride + j * self.schedule.lanes) for i in range(lines) for j in range(self.schedule.vectors)
        ]

    # Scores

    def each_score(self, count: Value, body: OfScore, inside: bool = False) -> None:
        """Writes loops over the columns of a tile and the block's rows; with `inside`, skipping missing ones."""
        rows = self.row_count if inside else self.code.number(self.schedule.rows)

        def each(column: Value) -> None:
            line = column * self.schedule.rows
            parallel(self.code, rows, None, lambda row: body(column, row, line + row))

        sequential(self.code, count, each)

    def add_biases(self, scores: SSAValue, start: Value, count: Value) -> None:
        """Adds the biases of a tile whose first column is `start`."""
        for number in range(self.a.biases):
            at = self.element_at(3 + number)

            def add(column: Value, row: Value, place: Value, at: Element = at) -> None:
                bias = self._of_score(at, start, column, row).load(self.code)
                self.code.put(self.code.element(scores, place) + bias, scores, place)

            self.each_score(count, add, inside=True)

    def put_where_hidden(self, number: float, scores: SSAValue, start: Value, place: Value, count: Value) -> None:
        """Stores a value where a row and a column of a tile do not attend to each other.

        Args:
            number: The value.
            scores: The tile's scores to store to.
            start: The tile's first column.
            place: That column's position in its head.
            count: The number of columns in the tile.
        """
        a, value = self.a, self.code.constant(number, self.element)
        masks = [self.element_at(3 + a.biases + i) for i in range(a.masks)]

        def hide(at: Value, seen: Value) -> None:
            self.code.put(self.code.select(seen, self.code.element(scores, at), value), scores, at)

        def by_masks(column: Value, row: Value, at: Value) -> None:
            seen: Value | None = None
            for mask in masks:
                seen = both(seen, self._of_score(mask, start, column, row).load(self.code))
            assert seen is not None
            hide(at, seen)

        def by_causality(column: Value) -> None:
            line = column * self.schedule.rows
            low, high = self._hidden_rows(place + column)
            parallel(self.code, high, low, lambda r: self.code.put(value, scores, line + r), True)

        if masks:
            self.each_score(count, by_masks, inside=True)
        if a.causal is not None:
            is_cut = self._hides(place, count)
            self.code.when(is_cut, lambda: sequential(self.code, count, by_causality))

    def _hidden_rows(self, column: Value) -> tuple[Value, Value]:
        """Returns the first of the block's rows that the causal mask hides from a column, and one past the last."""
        if self.row_loop == QUERY:  # those before the first position that attends to the key
            place = first_place(self.a, column)
            behind = place.at_least(self.first) - self.first
            return self.code.number(0), behind.at_most(self.schedule.rows)
        keys = seen_keys(self.a, column + 1)
        seen = keys.at_least(self.first) - self.first
        return seen.at_most(self.schedule.rows), self.code.number(self.schedule.rows)

    def _hides(self, place: Value, count: Value) -> Value:
        """Returns whether the causal mask hides any score of a tile: its last key from its first query."""
        last_row = self.first + self.row_count - 1
        last_column = place + count - 1
        query, key = (self.first, last_column) if self.row_loop == QUERY else (place, last_row)
        return is_seen(self.a, query, key) ^ 1

    def _of_score(self, at: Element, start: Value, column: Value, row: Value) -> Element:
        """Returns an element at a column of a tile and a row of the block."""
        loops = {
            self.row_loop: self.first_row + row,
            self.column_loop: start + column,
        }
        return at.with_loops(self.code, loops)
