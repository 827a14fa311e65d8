"""Attention: each workgroup computes a block of rows, iterating over tiles of the columns that they attend to.

A thread holds the sums of a few rows, at every `lanes`-th feature, in registers. For each tile it computes the scores
of its rows with its lane's columns; then the lanes exchange them, by subgroup broadcasts or through workgroup memory,
and each adds up its own features.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import AttentionSchedule
from tensorgrad.passes.codegen.common.attention import QUERY, first_place, is_seen, seen_keys
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.wgsl.attention_block import AttentionBlock, ColumnTile, Grid, Numbers, Scores, Sums
from tensorgrad.passes.scalars import Value, both, largest


def write_attention(kernel: KernelOp, schedule: AttentionSchedule, code: Code) -> None:
    """Writes the code of an attention, or of a part of its derivative."""
    stage = kernel.attention
    assert stage is not None  # guaranteed by the kernel's verifier
    _Block(stage, code, schedule).write()


class _Block(AttentionBlock):
    """The code of a thread."""

    # Loops

    def each_tile(self, carried: Sequence[Numbers | Sums], body: Callable[[ColumnTile], None]) -> None:
        a, code = self.a, self.code
        start = [value for numbers in carried for value in numbers.values]

        def iteration(tile: ColumnTile, held: Sequence[Value]) -> list[Value]:
            _set(carried, held)
            body(tile)
            return [value for numbers in carried for value in numbers.values]

        if self.row_loop == QUERY:
            limit = code.number(a.keys)
            if a.skips:
                behind = self.block_start % a.period + self.schedule.rows * self.schedule.depth
                limit = seen_keys(a, behind.at_most(a.period))
            _set(
                carried,
                code.loop_to(limit, start, lambda at, held: iteration(self.tile(at, a.keys), held), step=self.width),
            )
            return
        first = first_place(a, self.block_start) if a.skips else code.number(0)

        def head(before: Value | None, held: Sequence[Value]) -> list[Value]:
            return code.loop_to(
                code.number(a.period),
                held,
                lambda at, held: iteration(self.tile(at, a.period, a.skips, before), held),
                start=first,
                step=self.width,
            )

        heads = a.queries // a.period
        if heads == 1:
            _set(carried, head(None, start))
        else:
            _set(carried, code.loop(heads, start, lambda number, held: head(number * a.period, held)))

    # Numbers of rows, and scores

    def each_row(self, targets: Sequence[Numbers], function: Callable[..., Sequence[Value]], *sources: Numbers) -> None:
        rows = [function(*(source.values[row] for source in sources)) for row in range(self.schedule.rows)]
        for number, target in enumerate(targets):
            target.values = [values[number] for values in rows]

    def each_score(
        self,
        targets: Sequence[Scores],
        function: Callable[..., Sequence[Value]],
        tile: ColumnTile,
        *sources: Scores | Numbers,
    ) -> None:
        for row in range(self.schedule.rows):
            for column in range(self.schedule.columns):
                values = function(*(_at(source, row, column) for source in sources))
                for target, value in zip(targets, values, strict=True):
                    target.grid[row][column] = value

    def raise_to(self, target: Numbers, least: Numbers, scores: Scores, tile: ColumnTile) -> None:
        tops = self.across_lanes(scores.grid, "max")
        target.values = [largest(old, new) for old, new in zip(least.values, tops, strict=True)]

    def add_scores(self, total: Numbers, scores: Scores, tile: ColumnTile) -> None:
        sums = [reduce(operator.add, row) for row in scores.grid]
        total.values = [old + new for old, new in zip(total.values, sums, strict=True)]

    def join(self, total: Numbers) -> None:
        total.values = self.across_lanes([[value] for value in total.values], "add")

    # Biases and masks

    def add_biases(self, scores: Scores, tile: ColumnTile) -> None:
        biases = [self.element_at(3 + number) for number in range(self.a.biases)]
        for i, row in enumerate(self.block_rows):
            for j, column in enumerate(tile.columns):
                for bias in biases:
                    number = bias.with_loops(self.code, self.known(row=row, column=column)).load(self.code)
                    scores.grid[i][j] = scores.grid[i][j] + number

    def hide(self, scores: Sequence[Scores], number: float, tile: ColumnTile, outside: float) -> None:
        for each in scores:
            self._hide(each.grid, number, tile, outside)

    def _hide(self, grid: Grid, number: float, tile: ColumnTile, outside: float) -> None:
        for i, row in enumerate(grid):
            for j, score in enumerate(row):
                allowed, inside = self._allowed(i, j, tile), tile.inside[j]
                if inside is not None and number == outside:
                    allowed, inside = inside if allowed is None else both(inside, allowed), None
                if allowed is not None:
                    score = self.code.select(allowed, score, number)
                if inside is not None:
                    score = self.code.select(inside, score, outside)
                row[j] = score

    def _allowed(self, i: int, j: int, tile: ColumnTile) -> Value | None:
        """Returns whether a row and a column of a thread attend to each other; `None` if all do."""
        a = self.a
        if (i, j) in tile.allowed or not a.is_masked:
            return tile.allowed.get((i, j))
        row, column, result = self.block_rows[i], tile.columns[j], None
        if a.causal is not None:
            query, key = (row, column) if self.row_loop == QUERY else (column, row)
            result = is_seen(a, query if a.period == a.queries else query % a.period, key)
        for mask in range(3 + a.biases, a.operands):
            element = self.element_at(mask).with_loops(self.code, self.known(row=row, column=column))
            result = both(result, element.load(self.code))
        assert result is not None
        tile.allowed[i, j] = result
        return result


def _at(source: Scores | Numbers, row: int, column: int) -> Value:
    if isinstance(source, Scores):
        return source.grid[row][column]
    return source.values[column if source.of_columns else row]


def _set(carried: Sequence[Numbers | Sums], values: Sequence[Value]) -> None:
    """Sets numbers to the values that a loop carries for them, or returns."""
    remaining = iter(values)
    for numbers in carried:
        numbers.values = [next(remaining) for _ in numbers.values]
