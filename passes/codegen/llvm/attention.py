"""Writes kernels of the archetype `native_attention`: the loops, and scores with a line of rows for each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import NativeAttentionSchedule
from tensorgrad.passes.codegen.common.attention import QUERY, Element, Numbers, Scores, first_place, is_seen, seen_keys
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.attention_memory import ColumnTile, RowFeatures
from tensorgrad.passes.codegen.llvm.attention_products import TileProducts
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.scalars import Value, both, largest


def write_attention(kernel: KernelOp, schedule: NativeAttentionSchedule, code: Code, first: Value, last: Value) -> None:
    """Writes a loop over the blocks of the tasks in [`first`, `last`)."""
    stage = kernel.attention
    assert stage is not None  # guaranteed by the kernel's verifier
    block = _Block(stage, schedule, code)
    start, stop = first * schedule.blocks, last * schedule.blocks
    total = schedule.blocks_over(kernel.extents)
    if total % schedule.blocks:
        stop = stop.at_most(total)

    def write(number: Value) -> None:
        block.locate(number)
        block.write()

    sequential(code, stop, write, start=start)


class _Block(TileProducts):
    """The code of a block of rows, or of all blocks of a group."""

    # Loops

    def each_tile(self, carried: Sequence[Numbers | RowFeatures], body: Callable[[ColumnTile], None]) -> None:
        a, code = self.a, self.code
        if self.row_loop == QUERY:
            limit = seen_keys(a, self.first + self.row_count) if a.skips else code.number(a.keys)
            self._each_tile_of(code.number(0), limit, lambda at, count: body(ColumnTile(at, at, count)))
            return
        first = first_place(a, self.first) if a.skips else code.number(0)
        period = a.queries if a.causal is None else a.period

        def head(number: Value) -> None:
            before = number * period
            self._each_tile_of(first, code.number(period), lambda at, count: body(ColumnTile(before + at, at, count)))

        sequential(code, code.number(a.queries // period), head)

    def _each_tile_of(self, start: Value, stop: Value, body: Callable[[Value, Value], None]) -> None:
        """Writes a loop over the tiles of a range; `body` takes the first position and the number of columns."""
        columns = self.schedule.columns
        sequential(self.code, stop, lambda at: body(at, (stop - at).at_most(columns)), start=start, step=columns)

    def each_block(self, body: Callable[[], None]) -> None:
        def block(number: Value) -> None:
            self.locate_rows(self.code.number(0), number)
            body()

        sequential(self.code, self.code.number(-(-self.head // self.schedule.rows)), block)

    # Numbers of rows, and scores

    def each_row(self, targets: Sequence[Numbers], function: Callable[..., Sequence[Value]], *sources: Numbers) -> None:
        def each(row: Value) -> None:
            values = function(*(self.code.element(source.memory, row) for source in sources))
            for target, value in zip(targets, values, strict=True):
                self.code.put(value, target.memory, row)

        parallel(self.code, self.code.number(self.schedule.rows), None, each)

    def each_score(
        self,
        targets: Sequence[Scores],
        function: Callable[..., Sequence[Value]],
        tile: ColumnTile,
        *sources: Scores | Numbers,
    ) -> None:
        def each(column: Value, row: Value, at: Value) -> None:
            places = [at if isinstance(source, Scores) else column if source.of_columns else row for source in sources]
            values = function(
                *(self.code.element(source.memory, place) for source, place in zip(sources, places, strict=True))
            )
            for target, value in zip(targets, values, strict=True):
                self.code.put(value, target.memory, at)

        self._each_place(tile, each)

    def _each_place(
        self, tile: ColumnTile, body: Callable[[Value, Value, Value], None], is_inside: bool = False
    ) -> None:
        """Writes loops over the columns of a tile and the block's rows.

        Args:
            tile: The tile.
            body: Writes code for a score, given its column in the tile, row in the block, and place in the scores.
            is_inside: Whether missing rows are left out.
        """
        rows = self.row_count if is_inside else self.code.number(self.schedule.rows)

        def each(column: Value) -> None:
            line = column * self.schedule.rows
            parallel(self.code, rows, None, lambda row: body(column, row, line + row))

        sequential(self.code, tile.count, each)

    def raise_to(self, target: Numbers, least: Numbers, scores: Scores, tile: ColumnTile) -> None:
        def start(row: Value) -> None:
            self.code.put(self.code.element(least.memory, row), target.memory, row)

        def each(column: Value, row: Value, at: Value) -> None:
            score = largest(self.code.element(target.memory, row), self.code.element(scores.memory, at))
            self.code.put(score, target.memory, row)

        parallel(self.code, self.code.number(self.schedule.rows), None, start)
        self._each_place(tile, each)

    def add_scores(self, total: Numbers, scores: Scores, tile: ColumnTile) -> None:
        code, schedule = self.code, self.schedule

        def some_rows(row: Value) -> None:
            places = [row + i * schedule.lanes for i in range(schedule.vectors)]

            def add(column: Value, held: Sequence[Value]) -> list[Value]:
                line = column * schedule.rows
                lines = [code.vector(scores.memory, line + place, self.kind) for place in places]
                return [value + other for value, other in zip(held, lines, strict=True)]

            held = [code.vector(total.memory, place, self.kind) for place in places]
            for value, place in zip(code.loop_to(tile.count, held, add), places, strict=True):
                code.put_vector(value, total.memory, place)

        sequential(code, code.number(schedule.rows), some_rows, step=schedule.lanes * schedule.vectors)

    def join(self, total: Numbers) -> None:
        pass  # a row is in one lane

    # Biases and masks

    def add_biases(self, scores: Scores, tile: ColumnTile) -> None:
        for number in range(self.a.biases):
            at = self.element_at(3 + number)

            def add(column: Value, row: Value, place: Value, at: Element = at) -> None:
                bias = self._of_score(at, tile, column, row).load(self.code)
                self.code.put(self.code.element(scores.memory, place) + bias, scores.memory, place)

            self._each_place(tile, add, is_inside=True)

    def hide(self, scores: Sequence[Scores], number: float, tile: ColumnTile, outside: float) -> None:
        a, value = self.a, self.code.constant(number, self.element)
        masks = [self.element_at(3 + a.biases + i) for i in range(a.masks)]

        def by_masks(column: Value, row: Value, at: Value) -> None:
            seen: Value | None = None
            for mask in masks:
                seen = both(seen, self._of_score(mask, tile, column, row).load(self.code))
            assert seen is not None
            for each in scores:
                shown = self.code.select(seen, self.code.element(each.memory, at), value)
                self.code.put(shown, each.memory, at)

        def by_causality(column: Value) -> None:
            line = column * self.schedule.rows
            low, high = self._hidden_rows(tile.place + column)

            def put(row: Value) -> None:
                for each in scores:
                    self.code.put(value, each.memory, line + row)

            parallel(self.code, high, low, put, is_masked=True)

        if masks:
            self._each_place(tile, by_masks, is_inside=True)
        if a.causal is not None:
            self.code.when(self._hides(tile), lambda: sequential(self.code, tile.count, by_causality))

    def _hidden_rows(self, column: Value) -> tuple[Value, Value]:
        """Returns the first of the block's rows that the causal mask hides from a column, and one past the last."""
        if self.row_loop == QUERY:  # those before the first position that attends to the key
            place = first_place(self.a, column)
            behind = place.at_least(self.first) - self.first
            return self.code.number(0), behind.at_most(self.schedule.rows)
        keys = seen_keys(self.a, column + 1)
        seen = keys.at_least(self.first) - self.first
        return seen.at_most(self.schedule.rows), self.code.number(self.schedule.rows)

    def _hides(self, tile: ColumnTile) -> Value:
        """Returns whether the causal mask hides any score of a tile: its last key from its first query."""
        last_row = self.first + self.row_count - 1
        last_column = tile.place + tile.count - 1
        query, key = (self.first, last_column) if self.row_loop == QUERY else (tile.place, last_row)
        return is_seen(self.a, query, key) ^ 1

    def _of_score(self, at: Element, tile: ColumnTile, column: Value, row: Value) -> Element:
        """Returns an element at a column of a tile and a row of the block."""
        return at.with_loops(self.code, {self.row_loop: self.first_row + row, self.column_loop: tile.start + column})
