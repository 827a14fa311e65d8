"""Products and scores of an attention's tiles.

For each row of a block, registers hold sums with a few columns, or of a few features, at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, vector
from xdsl.ir import SSAValue

from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import sequential
from tensorgrad.passes.kernels.lower_buf_to_cpu.tile_memory import ColumnFeatures, RowFeatures, TileMemory
from tensorgrad.passes.kernels.writing.attention import QUERY, Element, first_place, is_seen, seen_keys
from tensorgrad.passes.kernels.writing.emission import Code
from tensorgrad.passes.kernels.writing.scalars import both, chosen, product, summed

OfScore = Callable[[Code, SSAValue, SSAValue, SSAValue], None]
"""Writes code for a score: its column in the tile, its row in the block, and its place in a tile of scores."""


class TileCode(TileMemory):
    """The code of a block of rows."""

    # Products

    def multiply(self, code: Code, rows: RowFeatures, columns: ColumnFeatures, count: SSAValue, to: SSAValue) -> None:
        """Stores the products of rows with `count` columns, a line for each column."""
        sums, stride, features = self.column_sums, self.schedule.rows, code.number(rows.features)
        zero = code.add(vector.BroadcastOp(code.scalar(0.0, self.element), self.kind))
        start = [zero] * (sums * self.schedule.vectors)

        def block(inner: Code, panel: SSAValue, row: SSAValue) -> None:
            first = inner.index_op(arith.MuliOp, panel, sums)
            corner = inner.index_op(arith.MuliOp, first, columns.width)

            def numbers(c: Code, k: SSAValue) -> list[SSAValue]:
                begin = c.index_op(arith.AddiOp, corner, k)
                places = [c.index_op(arith.AddiOp, begin, i * columns.width) for i in range(sums)]
                return [c.element(columns.memory, place) for place in places]

            found = self._summed(inner, features, rows.memory, stride, row, numbers, start)
            self._store(inner, found, to, self._places(inner, first, row, sums, stride))

        panels = code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, count, sums - 1), sums)
        self._each_block(code, self.row_count, panels, block)

    def accumulate(
        self,
        code: Code,
        columns: ColumnFeatures,
        count: SSAValue,
        weights: SSAValue,
        to: RowFeatures,
        shrink: SSAValue | None = None,
    ) -> None:
        """Adds the weighted features of `count` columns to sums, multiplied by `shrink` of their row first."""
        sums, stride = self.feature_sums(columns.features), self.schedule.rows

        def block(inner: Code, panel: SSAValue, row: SSAValue) -> None:
            first = inner.index_op(arith.MuliOp, panel, sums)
            places = self._places(inner, first, row, sums, stride)
            held = [self.vector(inner, to.memory, place) for place in places]
            if shrink is not None:
                factors = [self.vector(inner, shrink, place) for place in self._places(inner, row, row, 1, 0)]
                held = [product(inner, value, factors[i % len(factors)]) for i, value in enumerate(held)]

            def numbers(c: Code, k: SSAValue) -> list[SSAValue]:
                begin = c.index_op(arith.AddiOp, c.index_op(arith.MuliOp, k, columns.width), first)
                return [c.element(columns.memory, c.index_op(arith.AddiOp, begin, i)) for i in range(sums)]

            self._store(inner, self._summed(inner, count, weights, stride, row, numbers, held), to.memory, places)

        panels = code.number(-(-columns.features // sums))
        self._each_block(code, self.row_count, panels, block)

    def accumulate_columns(
        self, code: Code, rows: ColumnFeatures, weights: SSAValue, start: SSAValue, count: SSAValue, to: SSAValue
    ) -> None:
        """Adds the weighted features of the block's rows to sums for `count` columns from `start` on.

        Args:
            code: Where to write.
            rows: The features, a line for each row: whole vectors.
            weights: Those of a tile.
            start: The first column.
            count: How many there are.
            to: The sums of all columns, a line for each.
        """
        stride, width = self.schedule.rows, rows.width

        def panel_of(sums: int, begin: SSAValue) -> Callable[[Code, SSAValue, SSAValue], None]:
            def block(inner: Code, panel: SSAValue, feature: SSAValue) -> None:
                first = inner.index_op(arith.AddiOp, begin, inner.index_op(arith.MuliOp, panel, sums))
                line = inner.index_op(arith.AddiOp, start, first)
                places = self._places(inner, line, feature, sums, width)
                held = [self.vector(inner, to, place) for place in places]
                corner = inner.index_op(arith.MuliOp, first, stride)

                def numbers(c: Code, k: SSAValue) -> list[SSAValue]:
                    at = c.index_op(arith.AddiOp, corner, k)
                    return [c.element(weights, c.index_op(arith.AddiOp, at, i * stride)) for i in range(sums)]

                found = self._summed(inner, self.row_count, rows.memory, width, feature, numbers, held)
                self._store(inner, found, to, places)

            return block

        sums = self.column_sums
        whole = code.index_op(arith.DivUIOp, count, sums)
        self._each_block(code, code.number(width), whole, panel_of(sums, code.number(0)))
        if self.schedule.columns > 1:
            behind = code.index_op(arith.MuliOp, whole, sums)
            left = code.index_op(arith.SubiOp, count, behind)
            self._each_block(code, code.number(width), left, panel_of(1, behind))

    def _each_block(
        self, code: Code, extent: SSAValue, panels: SSAValue, body: Callable[[Code, SSAValue, SSAValue], None]
    ) -> None:
        """Writes loops over vectors of an extent, and over a number of panels."""

        def vectors(inner: Code, at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            sequential(inner, panels, lambda c, panel: body(c, panel, at))
            return []

        code.loop_to(extent, [], vectors, step=self.schedule.lanes * self.schedule.vectors)

    def _summed(
        self,
        code: Code,
        steps: SSAValue,
        lines: SSAValue,
        stride: int,
        at: SSAValue,
        numbers: Callable[[Code, SSAValue], list[SSAValue]],
        held: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """Returns sums of lines times numbers: a vector for each number and each vector from `at` on in a line.

        Args:
            code: Where to write.
            steps: How many lines there are.
            lines: The lines.
            stride: How far they lie apart.
            at: Where in a line the vectors begin.
            numbers: Gives the numbers for a line.
            held: What the sums start from.
        """

        def step(inner: Code, k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            vectors = [self.vector(inner, lines, place) for place in self._places(inner, k, at, 1, stride)]
            found: list[SSAValue] = []
            for number in numbers(inner, k):
                spread = inner.add(vector.BroadcastOp(number, self.kind))
                for values in vectors:
                    found.append(inner.add(vector.FMAOp(spread, values, sums[len(found)])))
            return found

        return code.loop_to(steps, held, step)

    def _store(self, code: Code, values: Sequence[SSAValue], memory: SSAValue, places: Sequence[SSAValue]) -> None:
        for place, value in zip(places, values, strict=True):
            code.block.add_op(vector.StoreOp(value, memory, [place]))

    def _places(self, code: Code, first: SSAValue, at: SSAValue, lines: int, stride: int) -> list[SSAValue]:
        """Returns where the vectors from `at` on are, in some lines from the first on."""
        corner = code.index_op(arith.AddiOp, code.index_op(arith.MuliOp, first, stride), at)
        return [
            code.index_op(arith.AddiOp, corner, i * stride + j * self.schedule.lanes)
            for i in range(lines)
            for j in range(self.schedule.vectors)
        ]

    # Scores

    def each_score(self, code: Code, count: SSAValue, body: OfScore, inside: bool = False) -> None:
        """Writes loops over the columns of a tile and the block's rows; `inside`, over those that are there alone."""
        rows = self.row_count if inside else code.number(self.schedule.rows)

        def column(inner: Code, c: SSAValue) -> None:
            line = inner.index_op(arith.MuliOp, c, self.schedule.rows)
            parallel(inner, rows, None, lambda d, r: body(d, c, r, d.index_op(arith.AddiOp, line, r)))

        sequential(code, count, column)

    def add_biases(self, code: Code, scores: SSAValue, start: SSAValue, count: SSAValue) -> None:
        """Adds the biases of a tile whose first column is `start`."""
        for number in range(self.a.biases):
            at = self.element_at(code, 3 + number)

            def add(inner: Code, column: SSAValue, row: SSAValue, place: SSAValue, at: Element = at) -> None:
                bias = self._of_score(inner, at, start, column, row).load(inner)
                inner.put(summed(inner, inner.element(scores, place), bias), scores, place)

            self.each_score(code, count, add, inside=True)

    def put_where_hidden(
        self, code: Code, number: float, scores: SSAValue, start: SSAValue, place: SSAValue, count: SSAValue
    ) -> None:
        """Stores a number where a row and a column of a tile do not attend to each other.

        Args:
            code: Where to write.
            number: What is stored.
            scores: In which of the tile's numbers.
            start: The tile's first column.
            place: That column's place in its head.
            count: How many columns the tile has.
        """
        a, value = self.a, code.scalar(number, self.element)
        masks = [self.element_at(code, 3 + a.biases + i) for i in range(a.masks)]

        def hide(inner: Code, at: SSAValue, seen: SSAValue) -> None:
            inner.put(chosen(inner, seen, inner.element(scores, at), value), scores, at)

        def by_masks(inner: Code, column: SSAValue, row: SSAValue, at: SSAValue) -> None:
            seen: SSAValue | None = None
            for mask in masks:
                seen = both(inner, seen, self._of_score(inner, mask, start, column, row).load(inner))
            assert seen is not None
            hide(inner, at, seen)

        def by_causality(inner: Code, column: SSAValue) -> None:
            line = inner.index_op(arith.MuliOp, column, self.schedule.rows)
            low, high = self._hidden_rows(inner, inner.index_op(arith.AddiOp, place, column))
            parallel(inner, high, low, lambda c, r: c.put(value, scores, c.index_op(arith.AddiOp, line, r)), True)

        if masks:
            self.each_score(code, count, by_masks, inside=True)
        if a.causal is not None:
            is_cut = self._hides(code, place, count)
            code.when(is_cut, lambda inner: sequential(inner, count, by_causality))

    def _hidden_rows(self, code: Code, column: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Returns the first of the block's rows that causality hides from a column, and the one behind the last."""
        if self.row_loop == QUERY:  # those in front of the first place that attends to the key
            place = first_place(code, self.a, column)
            behind = code.index_op(arith.SubiOp, code.index_op(arith.MaxUIOp, place, self.first), self.first)
            return code.number(0), code.index_op(arith.MinUIOp, behind, self.schedule.rows)
        keys = seen_keys(code, self.a, code.index_op(arith.AddiOp, column, 1))
        seen = code.index_op(arith.SubiOp, code.index_op(arith.MaxUIOp, keys, self.first), self.first)
        return code.index_op(arith.MinUIOp, seen, self.schedule.rows), code.number(self.schedule.rows)

    def _hides(self, code: Code, place: SSAValue, count: SSAValue) -> SSAValue:
        """Returns whether causality hides a score of a tile: its last key from its first query."""
        last_row = code.index_op(arith.SubiOp, code.index_op(arith.AddiOp, self.first, self.row_count), 1)
        last_column = code.index_op(arith.SubiOp, code.index_op(arith.AddiOp, place, count), 1)
        query, key = (self.first, last_column) if self.row_loop == QUERY else (place, last_row)
        true = code.add(arith.ConstantOp.from_int_and_width(1, 1))
        return code.add(arith.XOrIOp(is_seen(code, self.a, query, key), true))

    def _of_score(self, code: Code, at: Element, start: SSAValue, column: SSAValue, row: SSAValue) -> Element:
        """Returns an element at a column of a tile and a row of the block."""
        loops = {
            self.row_loop: code.index_op(arith.AddiOp, self.first_row, row),
            self.column_loop: code.index_op(arith.AddiOp, start, column),
        }
        return at.with_loops(code, loops)
