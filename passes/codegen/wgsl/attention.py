"""Attention: each workgroup computes a block of rows, iterating over tiles of the columns that they attend to.

A thread holds the accumulators of a few rows, at every `lanes`-th feature. For each tile it computes the scores of its
rows with its lane's columns; then the lanes exchange the weights, by subgroup broadcasts or through workgroup memory,
and each accumulates its own features. Rows are queries and columns are keys; for the cotangents of keys and values it
is the other way round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

from tensorgrad.dialects.attention import FORWARD, KEYS, QUERIES
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import AttentionSchedule
from tensorgrad.passes.codegen.common.attention import KEY, LOWEST, QUERY, first_place
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.wgsl.attention_block import AttentionBlock, ColumnTile, Grid
from tensorgrad.passes.scalars import Value, both, largest


def write_attention(kernel: KernelOp, schedule: AttentionSchedule, code: Code) -> None:
    """Writes the code of an attention, or of a part of its derivative."""
    stage = kernel.attention
    assert stage is not None  # guaranteed by the kernel's verifier
    writers = {FORWARD: _Forward, QUERIES: _Queries, KEYS: _Keys}
    writers[stage.part.data](stage, code, schedule).write()


class _Forward(AttentionBlock):
    """The forward pass, by online softmax: sums are rescaled when the running maximum grows."""

    def write(self) -> None:
        code, rows = self.code, self.tile.rows
        lowest = code.constant(LOWEST, self.element)
        state = [*[lowest] * rows, *[self.zero] * rows, *self.accumulators(2)]
        loop = code.loop_to(self.key_limit(code), state, self._tile, step=self.width)
        top, partial, sums = loop[:rows], loop[rows : 2 * rows], loop[2 * rows :]
        total = self.across_lanes(code, [[value] for value in partial], "add")
        count = len(sums) // rows
        is_empty = [value.equals(self.zero) for value in total] if self.a.zeros else []
        if self.a.zeros:
            total = [code.select(e, self.one, value) for e, value in zip(is_empty, total, strict=True)]
        results = [value / total[i // count] for i, value in enumerate(sums)]
        self.store_rows(0, results)
        if len(self.stage.outputs) > 1:
            logs = [m + value.log() for m, value in zip(top, total, strict=True)]
            if self.a.zeros:
                logs = [code.select(e, self.zero, value) for e, value in zip(is_empty, logs, strict=True)]
            self.store_logarithms(logs)

    def _tile(self, start: Value, held: Sequence[Value]) -> Sequence[Value]:
        code, rows = self.code, self.tile.rows
        top, total, sums = list(held[:rows]), list(held[rows : 2 * rows]), list(held[2 * rows :])
        tile = self.tile_at(start, self.a.keys)
        columns, inside = self.lane_columns(tile)
        scores = self.scores(code, columns)
        for i, row in enumerate(self.rows):
            for j, (column, within) in enumerate(zip(columns, inside, strict=True)):
                allowed = self.allowed(code, row, column)
                if allowed is not None:
                    scores[i][j] = code.select(allowed, scores[i][j], self.fill)
                if within is not None:
                    scores[i][j] = code.select(within, scores[i][j], self.infinity)
        tops = self.across_lanes(code, scores, "max")
        new_top = [largest(old, new) for old, new in zip(top, tops, strict=True)]
        shrink = [(old - new).exp() for old, new in zip(top, new_top, strict=True)]
        weights = [[(x - new_top[i]).exp() for x in row] for i, row in enumerate(scores)]
        for i, row in enumerate(weights):
            total[i] = total[i] * shrink[i] + reduce(operator.add, row)
        count = len(sums) // rows
        sums = [value * shrink[i // count] for i, value in enumerate(sums)]
        return [*new_top, *total, *self.accumulate(code, weights, 0, 2, tile, sums)]


class _Backward(AttentionBlock):
    """Base of the backward kernels: recomputes the weights, and computes the cotangents of the scores."""

    def by_scores(
        self,
        code: Code,
        columns: Sequence[Value],
        inside: Sequence[Value | None],
        of_place: Callable[[int, int], tuple[Value, Value]],
    ) -> tuple[Grid, Grid]:
        """Returns the weights, and the scores' cotangents times the scale.

        `of_place` gives the logsumexp and the sum of result times cotangent, by row and column.
        """
        scores = self.scores(code, columns)
        after_inputs = 3 + self.a.biases + self.a.masks
        row_operand, column_operand = (after_inputs, 2) if self.row_loop == QUERY else (2, after_inputs)
        by_weights = self.products(code, row_operand, column_operand, columns)
        weights = [list(row) for row in scores]
        for i, row in enumerate(self.rows):
            for j, (column, within) in enumerate(zip(columns, inside, strict=True)):
                total, delta = of_place(i, j)
                allowed = self.allowed(code, row, column)
                value = scores[i][j]
                if allowed is not None and not self.a.zeros:
                    value = code.select(allowed, value, self.fill)
                weight = (value - total).exp()
                counts = within if not self.a.zeros or allowed is None else both(within, allowed)
                weight = weight if counts is None else code.select(counts, weight, self.zero)
                result = weight * (by_weights[i][j] - delta)
                counts = within if allowed is None else both(within, allowed)
                result = result if counts is None else code.select(counts, result, self.zero)
                weights[i][j] = weight
                scores[i][j] = result * self.scale if self.a.scale != 1 else result
        return weights, scores


class _Queries(_Backward):
    """The cotangent of the queries."""

    def write(self) -> None:
        code, scores = self.code, 3 + self.a.biases + self.a.masks
        totals = [element.load(code) for element in self.of_rows(code, scores + 1)]
        deltas = [element.load(code) for element in self.of_rows(code, scores + 2)]

        def over_tile(start: Value, held: Sequence[Value]) -> Sequence[Value]:
            tile = self.tile_at(start, self.a.keys)
            columns, inside = self.lane_columns(tile)
            _, by_scores = self.by_scores(code, columns, inside, lambda i, j: (totals[i], deltas[i]))
            return self.accumulate(code, by_scores, 0, 1, tile, held)

        sums = code.loop_to(self.key_limit(code), self.accumulators(1), over_tile, step=self.width)
        self.store_rows(0, sums)


class _Keys(_Backward):
    """The cotangents of keys and values."""

    row_loop, column_loop = KEY, QUERY
    alternates = True

    def write(self) -> None:
        code, a = self.code, self.a
        start = [*self.accumulators(0), *self.accumulators(3 + a.biases + a.masks)]
        first = self._first_query(code)
        heads = a.queries // a.period

        def over_head(before: Value | None, held: Sequence[Value]) -> list[Value]:
            def over_tile(start: Value, now: Sequence[Value]) -> Sequence[Value]:
                return self._tile(self.tile_at(start, a.period, a.skips, before), now)

            return code.loop_to(code.number(a.period), held, over_tile, start=first, step=self.width)

        if heads == 1:
            sums = over_head(None, start)
        else:
            sums = code.loop(heads, start, lambda head, held: over_head(head * a.period, held))
        split = len(self.accumulators(0))
        self.store_rows(0, sums[:split])
        self.store_rows(1, sums[split:])

    def _first_query(self, code: Code) -> Value:
        """Returns the first query of a head that attends to any of the workgroup's keys."""
        return first_place(self.a, self.block_start) if self.a.skips else code.number(0)

    def _tile(self, tile: ColumnTile, held: Sequence[Value]) -> Sequence[Value]:
        code, scores = self.code, 3 + self.a.biases + self.a.masks
        columns, inside = self.lane_columns(tile)
        scalars = [
            [self.element_at(operand).with_loops(code, self.known(column=column)).load(code) for column in columns]
            for operand in (scores + 1, scores + 2)
        ]
        weights, by_scores = self.by_scores(code, columns, inside, lambda i, j: (scalars[0][j], scalars[1][j]))
        split = len(self.accumulators(0))
        by_keys = self.accumulate(code, by_scores, 0, 0, tile, held[:split])
        by_values = self.accumulate(code, weights, 1, scores, tile, held[split:])
        return [*by_keys, *by_values]
