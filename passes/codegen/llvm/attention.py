"""Writes kernels of the archetype `native_attention`: attention, and its derivative, as two kernels or fused.

The method is that of T. Dao: FlashAttention-2 (2023, https://arxiv.org/abs/2307.08691).
"""

from __future__ import annotations

import sys
from abc import abstractmethod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tensorgrad.dialects.attention import BACKWARD, FORWARD, KEYS, QUERIES, AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import NativeAttentionSchedule
from tensorgrad.passes.codegen.common.attention import FEATURE, KEY, LOWEST, QUERY, first_place, seen_keys
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.attention_products import TileCode
from tensorgrad.passes.codegen.llvm.loops import parallel
from tensorgrad.passes.codegen.llvm.packing import sequential
from tensorgrad.passes.scalars import Value, largest


def write_attention(kernel: KernelOp, schedule: NativeAttentionSchedule, code: Code, first: Value, last: Value) -> None:
    """Writes a loop over the blocks of the tasks in [`first`, `last`)."""
    stage = kernel.attention
    assert stage is not None  # guaranteed by the kernel's verifier
    writers = {FORWARD: _Forward, QUERIES: _Queries, KEYS: _Keys, BACKWARD: _Cotangents}
    block = writers[stage.part.data](stage, schedule, code)
    start, stop = first * schedule.blocks, last * schedule.blocks
    total = schedule.blocks_over(kernel.extents)
    if total % schedule.blocks:
        stop = stop.at_most(total)

    def write(number: Value) -> None:
        block.locate(number)
        block.write()

    sequential(code, stop, write, start=start)


class _Block(TileCode):
    """Base of the forward and backward kernels."""

    @abstractmethod
    def write(self) -> None:
        """Writes one block."""

    def key_limit(self) -> Value:
        """Returns the number of keys that the block's queries may attend to."""
        if not self.a.skips:
            return self.code.number(self.a.keys)
        return seen_keys(self.a, self.first + self.row_count)


class _Forward(_Block):
    """The forward pass, by online softmax: sums are rescaled when the running maximum grows."""

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        super().__init__(stage, schedule, code)
        self.queries, self.results = self.rows_of(0), self.rows_of(self.after_inputs)
        self.keys, self.values = self.columns_of(1), self.columns_of(2)
        self.weights = self.scores()
        self.top_score, self.new_top, self.shrink, self.total = self.row_values(4)

    def write(self) -> None:
        self.fill_rows(0, self.queries, self.a.scale)
        self.clear(self.results)
        lowest, zero = self.code.constant(self.lowest, self.element), self.code.constant(0.0, self.element)

        def begin(row: Value) -> None:
            self.code.put(lowest, self.top_score, row)
            self.code.put(zero, self.total, row)

        self.each_row(begin)
        self.each_tile(self.code.number(0), self.key_limit(), self._tile)
        if len(self.stage.outputs) > 1:
            self.store_logarithms(self._logarithm)
        self.each_row(self._invert)
        self.store_rows(0, self.results, self.total)

    @property
    def lowest(self) -> float:
        """The initial running maximum: finite, so that a row without scores produces no NaN."""
        return LOWEST if self.element == f32 else -sys.float_info.max

    def _tile(self, start: Value, count: Value) -> None:
        self.fill_columns(self.keys, start, count)
        self.fill_columns(self.values, start, count)
        self.multiply(self.queries, self.keys, count, self.weights)
        self.add_biases(self.weights, start, count)
        self.put_where_hidden(self.a.fill, self.weights, start, start, count)
        self.each_row(lambda row: self.code.put(self.code.element(self.top_score, row), self.new_top, row))
        self.each_score(count, self._raise)
        self.each_row(self._shrink)
        self.each_score(count, self._weigh)
        self.accumulate(self.values, count, self.weights, self.results, self.shrink)

    def _raise(self, column: Value, row: Value, at: Value) -> None:
        largest_score = largest(self.code.element(self.new_top, row), self.code.element(self.weights, at))
        self.code.put(largest_score, self.new_top, row)

    def _shrink(self, row: Value) -> None:
        new = self.code.element(self.new_top, row)
        factor = (self.code.element(self.top_score, row) - new).exp()
        self.code.put(factor, self.shrink, row)
        self.code.put(self.code.element(self.total, row) * factor, self.total, row)
        self.code.put(new, self.top_score, row)

    def _weigh(self, column: Value, row: Value, at: Value) -> None:
        score, top = self.code.element(self.weights, at), self.code.element(self.top_score, row)
        weight = (score - top).exp()
        self.code.put(weight, self.weights, at)
        self.code.put(self.code.element(self.total, row) + weight, self.total, row)

    def _logarithm(self, row: Value) -> Value:
        """Returns the logsumexp of a row; 0 for an empty row, whose result is zeros."""
        total = self.code.element(self.total, row)
        result = self.code.element(self.top_score, row) + total.log()
        if not self.a.zeros:
            return result
        zero = self.code.constant(0.0, self.element)
        return self.code.select(total.equals(zero), zero, result)

    def _invert(self, row: Value) -> None:
        """Stores the factor that normalizes a row's sums."""
        total, one = self.code.element(self.total, row), self.code.constant(1.0, self.element)
        if self.a.zeros:
            is_empty = total.equals(self.code.constant(0.0, self.element))
            total = self.code.select(is_empty, one, total)
        self.code.put(one / total, self.total, row)


class _Backward(_Block):
    """Base of the backward kernels: recomputes the weights, and computes the cotangents of the scores."""

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        super().__init__(stage, schedule, code)
        self.weights, self.by_scores = self.scores(), self.scores()

    def scores_again(self, start: Value, place: Value, count: Value, of_row: bool) -> None:
        """Turns a tile's scores into weights, and the weights' cotangents into those of the scores.

        Args:
            start: The tile's first column.
            place: That column's position in its head.
            count: The number of columns in the tile.
            of_row: Whether the logsumexp, and the sum of result times cotangent, are per row rather than per column.
        """
        self.add_biases(self.weights, start, count)
        self.put_where_hidden(self.a.fill, self.weights, start, place, count)

        def weigh(column: Value, row: Value, at: Value) -> None:
            query = row if of_row else column
            total, delta = self.code.element(self.totals, query), self.code.element(self.deltas, query)
            weight = (self.code.element(self.weights, at) - total).exp()
            self.code.put(weight, self.weights, at)
            by_weight = self.code.element(self.by_scores, at) - delta
            self.code.put(weight * by_weight, self.by_scores, at)

        self.each_score(count, weigh)
        self.put_where_hidden(0.0, self.by_scores, start, place, count)

    totals: SSAValue
    deltas: SSAValue


class _Queries(_Backward):
    """The cotangent of the queries."""

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        super().__init__(stage, schedule, code)
        self.queries, self.by_results = self.rows_of(0), self.rows_of(self.after_inputs)
        self.keys, self.values = self.columns_of(1), self.columns_of(2)
        self.by_queries = self.rows_of(len(stage.inputs))
        self.totals, self.deltas = self.row_values(2)

    def write(self) -> None:
        self.fill_rows(0, self.queries, self.a.scale)
        self.fill_rows(self.after_inputs, self.by_results)
        self.fill_row_values(self.after_inputs + 1, self.totals)
        self.fill_row_values(self.after_inputs + 2, self.deltas)
        self.clear(self.by_queries)
        self.each_tile(self.code.number(0), self.key_limit(), self._tile)
        self.store_rows(0, self.by_queries, self.a.scale)

    def _tile(self, start: Value, count: Value) -> None:
        self.fill_columns(self.keys, start, count)
        self.fill_columns(self.values, start, count)
        self.multiply(self.queries, self.keys, count, self.weights)
        self.multiply(self.by_results, self.values, count, self.by_scores)
        self.scores_again(start, start, count, of_row=True)
        self.accumulate(self.keys, count, self.by_scores, self.by_queries)


class _Keys(_Backward):
    """The cotangents of keys and values: rows are keys, columns are the queries, head by head."""

    row_loop, column_loop = KEY, QUERY

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        super().__init__(stage, schedule, code)
        self.keys, self.values = self.rows_of(1), self.rows_of(2)
        self.queries, self.by_results = self.columns_of(0), self.columns_of(self.after_inputs)
        self.by_keys, self.by_values = self.rows_of(1), self.rows_of(2)
        self.totals, self.deltas = (self.new_array(schedule.columns) for _ in range(2))

    def write(self) -> None:
        self.fill_rows(1, self.keys)
        self.walk()
        self.store_rows(0, self.by_keys)
        self.store_rows(1, self.by_values)

    def walk(self) -> None:
        """Writes the sums over all queries that attend to the block's keys, which are already loaded."""
        self.fill_rows(2, self.values)
        self.clear(self.by_keys)
        self.clear(self.by_values)
        first = first_place(self.a, self.first) if self.a.skips else self.code.number(0)
        period = self.a.queries if self.a.causal is None else self.a.period
        stop = self.code.number(period)

        def head(number: Value) -> None:
            before = number * period
            self.each_tile(first, stop, lambda place, count: self._tile(before, place, count))

        sequential(self.code, self.code.number(self.a.queries // period), head)

    def _tile(self, before: Value, place: Value, count: Value) -> None:
        self.tile(before + place, place, count)

    def tile(self, start: Value, place: Value, count: Value) -> None:
        """Writes a tile of queries, given the first one, its position in its head, and their count."""
        self.fill_columns(self.queries, start, count, self.a.scale)
        self.fill_columns(self.by_results, start, count)
        self.fill_column_values(self.after_inputs + 1, start, count, self.totals)
        self.fill_column_values(self.after_inputs + 2, start, count, self.deltas)
        self.multiply(self.keys, self.queries, count, self.weights)
        self.multiply(self.values, self.by_results, count, self.by_scores)
        self.scores_again(start, place, count, of_row=False)
        self.accumulate(self.queries, count, self.by_scores, self.by_keys)
        self.accumulate(self.by_results, count, self.weights, self.by_values)


class _Cotangents(_Keys):
    """All cotangents of a group: its blocks of keys add to the queries' cotangents sequentially."""

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        super().__init__(stage, schedule, code)
        self.key_lines = self.key_features()
        self.by_queries = self.new_array(self.a.queries * self.key_lines.width)

    @property
    def head(self) -> int:
        return self.a.keys

    def locate(self, number: Value) -> None:
        self.group = number

    def write(self) -> None:
        zero = self.code.constant(0.0, self.element)
        extent = self.code.number(self.a.queries * self.key_lines.width)
        parallel(self.code, extent, None, lambda at: self.code.put(zero, self.by_queries, at))

        def block(number: Value) -> None:
            self.locate_rows(self.code.number(0), number)
            self.fill_rows(1, self.keys, lines=self.key_lines)
            self.walk()
            self.store_rows(1, self.by_keys)
            self.store_rows(2, self.by_values)

        sequential(self.code, self.code.number(-(-self.a.keys // self.schedule.rows)), block)
        self._store_queries()

    def tile(self, start: Value, place: Value, count: Value) -> None:
        super().tile(start, place, count)
        self.accumulate_columns(self.key_lines, self.by_scores, start, count, self.by_queries)

    def _store_queries(self) -> None:
        at, scale = self.element_at(len(self.stage.inputs)), self.code.constant(self.a.scale, self.element)

        def query(number: Value) -> None:
            place = at.with_loops(self.code, {QUERY: number})
            line = number * self.key_lines.width

            def feature(f: Value) -> None:
                value = self.code.element(self.by_queries, line + f)
                place.with_loops(self.code, {FEATURE: f}).store(self.code, value * scale)

            parallel(self.code, self.code.number(self.a.features), None, feature)

        sequential(self.code, self.code.number(self.a.queries), query)
