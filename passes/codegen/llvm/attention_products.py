"""Products of attention tiles: for each row of a block, registers hold sums for a few columns or features at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import vector
from xdsl.ir import SSAValue

from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.codegen.common.attention import Numbers, Scores
from tensorgrad.passes.codegen.llvm.attention_memory import ColumnFeatures, ColumnTile, RowFeatures, TileMemory
from tensorgrad.passes.codegen.llvm.loop_kinds import sequential
from tensorgrad.passes.scalars import Value


class TileProducts(TileMemory):
    """The products of a block of rows with tiles of columns."""

    def products(self, rows: RowFeatures, columns: ColumnFeatures, tile: ColumnTile) -> Scores:
        sums, stride, features = self.columns_at_once, self.schedule.rows, self.code.number(rows.features)
        scores = Scores(self.new_array(rounded_up(self.schedule.columns, sums) * stride))
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
            self._store(totals, scores.memory, self._places(first, row, sums, stride))

        panels = (tile.count + (sums - 1)) // sums
        self._each_block(self.row_count, panels, block)
        return scores

    def accumulate(
        self,
        sums: RowFeatures,
        scores: Scores,
        columns: ColumnFeatures,
        tile: ColumnTile,
        shrink: Numbers | None = None,
    ) -> None:
        held_at_once, stride = self.feature_sums(columns.features), self.schedule.rows

        def block(panel: Value, row: Value) -> None:
            first = panel * held_at_once
            places = self._places(first, row, held_at_once, stride)
            held = [self.code.vector(sums.memory, place, self.kind) for place in places]
            if shrink is not None:
                factors = [self.code.vector(shrink.memory, place, self.kind) for place in self._places(row, row, 1, 0)]
                held = [value * factors[i % len(factors)] for i, value in enumerate(held)]

            def numbers(k: Value) -> list[Value]:
                begin = k * columns.width + first
                return [self.code.element(columns.memory, begin + i) for i in range(held_at_once)]

            self._store(self._summed(tile.count, scores.memory, stride, row, numbers, held), sums.memory, places)

        panels = self.code.number(-(-columns.features // held_at_once))
        self._each_block(self.row_count, panels, block)

    def accumulate_columns(self, scores: Scores, rows: RowFeatures, tile: ColumnTile) -> None:
        lines, totals, stride = rows.by_row, self.column_totals, self.schedule.rows
        assert lines is not None  # they were loaded for this
        width = lines.width

        def panel_of(sums: int, begin: Value) -> Callable[[Value, Value], None]:
            def block(panel: Value, feature: Value) -> None:
                first = begin + panel * sums
                places = self._places(tile.start + first, feature, sums, width)
                held = [self.code.vector(totals, place, self.kind) for place in places]
                corner = first * stride

                def numbers(k: Value) -> list[Value]:
                    at = corner + k
                    return [self.code.element(scores.memory, at + i * stride) for i in range(sums)]

                self._store(self._summed(self.row_count, lines.memory, width, feature, numbers, held), totals, places)

            return block

        sums = self.columns_at_once
        whole = tile.count // sums
        self._each_block(self.code.number(width), whole, panel_of(sums, self.code.number(0)))
        if self.schedule.columns > 1:
            behind = whole * sums
            self._each_block(self.code.number(width), tile.count - behind, panel_of(1, behind))

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
