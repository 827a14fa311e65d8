"""Writes kernels of the archetype `tiles`: attention, and its derivative, in two parts or as one.

The method is that of T. Dao: FlashAttention-2 (2023, https://arxiv.org/abs/2307.08691).
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.attention import BACKWARD, FORWARD, KEYS, QUERIES, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import TilesSchedule
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import sequential
from tensorgrad.passes.kernels.lower_buf_to_cpu.tiles import TileCode
from tensorgrad.passes.kernels.writing.attention import FEATURE, KEY, LOWEST, QUERY, first_place, seen_keys
from tensorgrad.passes.kernels.writing.emission import Code
from tensorgrad.passes.kernels.writing.scalars import (
    chosen,
    difference,
    exponential,
    largest,
    product,
    summed,
)


def write_tiles(kernel: KernelOp, schedule: TilesSchedule, code: Code, first: SSAValue, last: SSAValue) -> None:
    """Writes a loop over the blocks of the tasks from `first` up to `last`."""
    stage = kernel.attention
    assert stage is not None  # the verifier of a kernel demands it
    writers = {FORWARD: _Forward, QUERIES: _Queries, KEYS: _Keys, BACKWARD: _Cotangents}
    block = writers[stage.part.data](stage, schedule, code.block)
    start = code.index_op(arith.MuliOp, first, schedule.blocks)
    stop = code.index_op(arith.MuliOp, last, schedule.blocks)
    total = schedule.blocks_over(kernel.extents)
    if total % schedule.blocks:
        stop = code.index_op(arith.MinUIOp, stop, total)

    def write(inner: Code, number: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        block.locate(inner, number)
        block.write(inner)
        return []

    code.loop_to(stop, [], write, start=start)


class _Block(TileCode):
    """What all parts share."""

    @abstractmethod
    def write(self, code: Code) -> None:
        """Writes one block."""

    def key_limit(self, code: Code) -> SSAValue:
        """Returns how many keys the block's queries may attend to."""
        if not self.a.skips:
            return code.number(self.a.keys)
        return seen_keys(code, self.a, code.index_op(arith.AddiOp, self.first, self.row_count))


class _Forward(_Block):
    """The result, by a softmax that runs along: what is summed is scaled down when a larger score comes."""

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, top: Block):
        super().__init__(stage, schedule, top)
        self.queries, self.results = self.rows_of(0), self.rows_of(self.given)
        self.keys, self.values = self.columns_of(1), self.columns_of(2)
        self.weights = self.scores()
        self.top_score, self.new_top, self.shrink, self.total = self.row_values(4)

    def write(self, code: Code) -> None:
        self.fill_rows(code, 0, self.queries, self.a.scale)
        self.clear(code, self.results)
        lowest, zero = code.scalar(self.lowest, self.element), code.scalar(0.0, self.element)

        def begin(inner: Code, row: SSAValue) -> None:
            inner.put(lowest, self.top_score, row)
            inner.put(zero, self.total, row)

        self.each_row(code, begin)
        self.each_tile(code, code.number(0), self.key_limit(code), self._tile)
        if len(self.stage.outputs) > 1:
            self.store_row_values(code, 1, self._logarithm)
        self.each_row(code, self._invert)
        self.store_rows(code, 0, self.results, self.total)

    @property
    def lowest(self) -> float:
        """Where running maxima start: finite, so that a row without any score gives no NaN on its way."""
        return LOWEST if self.element == f32 else -sys.float_info.max

    def _tile(self, code: Code, start: SSAValue, count: SSAValue) -> None:
        self.fill_columns(code, self.keys, start, count)
        self.fill_columns(code, self.values, start, count)
        self.multiply(code, self.queries, self.keys, count, self.weights)
        self.add_biases(code, self.weights, start, count)
        self.put_where_hidden(code, self.a.fill, self.weights, start, start, count)
        self.each_row(code, lambda inner, row: inner.put(inner.element(self.top_score, row), self.new_top, row))
        self.each_score(code, count, self._raise)
        self.each_row(code, self._shrink)
        self.each_score(code, count, self._weigh)
        self.accumulate(code, self.values, count, self.weights, self.results, self.shrink)

    def _raise(self, code: Code, column: SSAValue, row: SSAValue, at: SSAValue) -> None:
        found = largest(code, code.element(self.new_top, row), code.element(self.weights, at))
        code.put(found, self.new_top, row)

    def _shrink(self, code: Code, row: SSAValue) -> None:
        new = code.element(self.new_top, row)
        factor = exponential(code, difference(code, code.element(self.top_score, row), new))
        code.put(factor, self.shrink, row)
        code.put(product(code, code.element(self.total, row), factor), self.total, row)
        code.put(new, self.top_score, row)

    def _weigh(self, code: Code, column: SSAValue, row: SSAValue, at: SSAValue) -> None:
        score, top = code.element(self.weights, at), code.element(self.top_score, row)
        weight = exponential(code, difference(code, score, top))
        code.put(weight, self.weights, at)
        code.put(summed(code, code.element(self.total, row), weight), self.total, row)

    def _logarithm(self, code: Code, row: SSAValue) -> SSAValue:
        """Returns the logarithm of a row's sum of exponentials; 0 where zeros stand for a row of nothing."""
        total = code.element(self.total, row)
        found = summed(code, code.element(self.top_score, row), code.add(math_ops.LogOp(total)))
        if not self.a.zeros:
            return found
        zero = code.scalar(0.0, self.element)
        return chosen(code, code.add(arith.CmpfOp(total, zero, "oeq")), zero, found)

    def _invert(self, code: Code, row: SSAValue) -> None:
        """Stores by what a row's sums are multiplied."""
        total, one = code.element(self.total, row), code.scalar(1.0, self.element)
        if self.a.zeros:
            is_empty = code.add(arith.CmpfOp(total, code.scalar(0.0, self.element), "oeq"))
            total = chosen(code, is_empty, one, total)
        code.put(code.add(arith.DivfOp(one, total)), self.total, row)


class _Backward(_Block):
    """What all parts of the derivative share: the weights again, and the cotangents of the scores."""

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, top: Block):
        super().__init__(stage, schedule, top)
        self.weights, self.by_scores = self.scores(), self.scores()

    def scores_again(self, code: Code, start: SSAValue, place: SSAValue, count: SSAValue, of_row: bool) -> None:
        """Makes weights of a tile's scores, and of the weights' cotangents those of the scores.

        Args:
            code: Where to write.
            start: The tile's first column.
            place: That column's place in its head.
            count: How many columns the tile has.
            of_row: Whether the logarithm of the sum, and the sum of result times cotangent, are the row's.
        """
        self.add_biases(code, self.weights, start, count)
        self.put_where_hidden(code, self.a.fill, self.weights, start, place, count)

        def weigh(inner: Code, column: SSAValue, row: SSAValue, at: SSAValue) -> None:
            query = row if of_row else column
            total, delta = inner.element(self.totals, query), inner.element(self.deltas, query)
            weight = exponential(inner, difference(inner, inner.element(self.weights, at), total))
            inner.put(weight, self.weights, at)
            by_weight = difference(inner, inner.element(self.by_scores, at), delta)
            inner.put(product(inner, weight, by_weight), self.by_scores, at)

        self.each_score(code, count, weigh)
        self.put_where_hidden(code, 0.0, self.by_scores, start, place, count)

    totals: SSAValue
    deltas: SSAValue


class _Queries(_Backward):
    """The cotangent of the queries."""

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, top: Block):
        super().__init__(stage, schedule, top)
        self.queries, self.by_results = self.rows_of(0), self.rows_of(self.given)
        self.keys, self.values = self.columns_of(1), self.columns_of(2)
        self.by_queries = self.rows_of(len(stage.inputs))
        self.totals, self.deltas = self.row_values(2)

    def write(self, code: Code) -> None:
        self.fill_rows(code, 0, self.queries, self.a.scale)
        self.fill_rows(code, self.given, self.by_results)
        self.fill_row_values(code, self.given + 1, self.totals)
        self.fill_row_values(code, self.given + 2, self.deltas)
        self.clear(code, self.by_queries)
        self.each_tile(code, code.number(0), self.key_limit(code), self._tile)
        self.store_rows(code, 0, self.by_queries, self.a.scale)

    def _tile(self, code: Code, start: SSAValue, count: SSAValue) -> None:
        self.fill_columns(code, self.keys, start, count)
        self.fill_columns(code, self.values, start, count)
        self.multiply(code, self.queries, self.keys, count, self.weights)
        self.multiply(code, self.by_results, self.values, count, self.by_scores)
        self.scores_again(code, start, start, count, of_row=True)
        self.accumulate(code, self.keys, count, self.by_scores, self.by_queries)


class _Keys(_Backward):
    """The cotangents of keys and values: rows are keys, columns the queries of one head after another."""

    row_loop, column_loop = KEY, QUERY

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, top: Block):
        super().__init__(stage, schedule, top)
        self.keys, self.values = self.rows_of(1), self.rows_of(2)
        self.queries, self.by_results = self.columns_of(0), self.columns_of(self.given)
        self.by_keys, self.by_values = self.rows_of(1), self.rows_of(2)
        self.totals, self.deltas = (self.new_array(schedule.columns) for _ in range(2))

    def write(self, code: Code) -> None:
        self.fill_rows(code, 1, self.keys)
        self.walk(code)
        self.store_rows(code, 0, self.by_keys)
        self.store_rows(code, 1, self.by_values)

    def walk(self, code: Code) -> None:
        """Writes what follows when the keys are there: sums over all queries that attend to them."""
        self.fill_rows(code, 2, self.values)
        self.clear(code, self.by_keys)
        self.clear(code, self.by_values)
        first = first_place(code, self.a, self.first) if self.a.skips else code.number(0)
        period = self.a.queries if self.a.causal is None else self.a.period
        stop = code.number(period)

        def head(inner: Code, number: SSAValue) -> None:
            before = inner.index_op(arith.MuliOp, number, period)
            self.each_tile(inner, first, stop, lambda c, place, count: self._tile(c, before, place, count))

        sequential(code, code.number(self.a.queries // period), head)

    def _tile(self, code: Code, before: SSAValue, place: SSAValue, count: SSAValue) -> None:
        self.tile(code, code.index_op(arith.AddiOp, before, place), place, count)

    def tile(self, code: Code, start: SSAValue, place: SSAValue, count: SSAValue) -> None:
        """Writes a tile of queries: given the first, its place in its head, and how many there are."""
        self.fill_columns(code, self.queries, start, count, self.a.scale)
        self.fill_columns(code, self.by_results, start, count)
        self.fill_column_values(code, self.given + 1, start, count, self.totals)
        self.fill_column_values(code, self.given + 2, start, count, self.deltas)
        self.multiply(code, self.keys, self.queries, count, self.weights)
        self.multiply(code, self.values, self.by_results, count, self.by_scores)
        self.scores_again(code, start, place, count, of_row=False)
        self.accumulate(code, self.queries, count, self.by_scores, self.by_keys)
        self.accumulate(code, self.by_results, count, self.weights, self.by_values)


class _Cotangents(_Keys):
    """All cotangents of a group: its blocks of keys, one after the other, add to those of the queries."""

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, top: Block):
        super().__init__(stage, schedule, top)
        self.key_lines = self.lines_of(1)
        self.by_queries = self.new_array(self.a.queries * self.key_lines.width)

    @property
    def head(self) -> int:
        return self.a.keys

    def locate(self, code: Code, number: SSAValue) -> None:
        self.group = number

    def write(self, code: Code) -> None:
        zero = code.scalar(0.0, self.element)
        extent = code.number(self.a.queries * self.key_lines.width)
        parallel(code, extent, None, lambda inner, at: inner.put(zero, self.by_queries, at))

        def block(inner: Code, number: SSAValue) -> None:
            self.locate_rows(inner, inner.number(0), number)
            self.fill_rows(inner, 1, self.keys, lines=self.key_lines)
            self.walk(inner)
            self.store_rows(inner, 1, self.by_keys)
            self.store_rows(inner, 2, self.by_values)

        sequential(code, code.number(-(-self.a.keys // self.schedule.rows)), block)
        self._store_queries(code)

    def tile(self, code: Code, start: SSAValue, place: SSAValue, count: SSAValue) -> None:
        super().tile(code, start, place, count)
        self.accumulate_columns(code, self.key_lines, self.by_scores, start, count, self.by_queries)

    def _store_queries(self, code: Code) -> None:
        at, scale = self.element_at(code, len(self.stage.inputs)), code.scalar(self.a.scale, self.element)

        def query(inner: Code, number: SSAValue) -> None:
            here = at.with_loops(inner, {QUERY: number})
            line = inner.index_op(arith.MuliOp, number, self.key_lines.width)

            def feature(c: Code, f: SSAValue) -> None:
                value = c.element(self.by_queries, c.index_op(arith.AddiOp, line, f))
                here.with_loops(c, {FEATURE: f}).store(c, product(c, value, scale))

            parallel(inner, inner.number(self.a.features), None, feature)

        sequential(code, code.number(self.a.queries), query)
