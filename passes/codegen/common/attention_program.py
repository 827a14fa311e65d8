"""Attention as a program over tiles, which each target writes with its own loops, memory and registers.

A block of rows goes through tiles of columns, so that no score is stored in a buffer. Rows are queries and columns are
keys; for the cotangents of keys and values it is the other way round.

The method is that of T. Dao: FlashAttention-2 (2023, https://arxiv.org/abs/2307.08691).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, NoReturn, TypeVar

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import BACKWARD, FORWARD, KEYS, QUERIES, AttentionOp
from tensorgrad.dialects.locations import line_of
from tensorgrad.passes.codegen.common.attention import KEY, QUERY, lowest
from tensorgrad.passes.scalars import ScalarBuilder, Value

Tile = TypeVar("Tile")
"""A range of columns."""

Rows = TypeVar("Rows")
"""The features of an operand in the block's rows."""

Columns = TypeVar("Columns")
"""The features of an operand in a tile's columns."""

Sums = TypeVar("Sums")
"""Sums of features for each row of the block."""

Scores = TypeVar("Scores")
"""A number for each row of the block and each column of a tile."""

Numbers = TypeVar("Numbers")
"""A number for each row of the block, or for each column of a tile."""

QUERY_OPERAND, KEY_OPERAND, VALUE_OPERAND = range(3)


class AttentionProgram(ABC, Generic[Tile, Rows, Columns, Sums, Scores, Numbers]):
    """What a block of rows computes, and the operations on tiles that a target has to write for that.

    Args:
        stage: The attention, or a part of its derivative.
        code: Builds scalars, in functions of numbers and scores.
    """

    def __init__(self, stage: AttentionOp, code: ScalarBuilder):
        self.stage, self.scalars = stage, code
        self.a, self.element = stage.attention, stage.computed_in
        part = stage.part.data
        self.row_loop, self.column_loop = (KEY, QUERY) if part in (KEYS, BACKWARD) else (QUERY, KEY)

    def write(self) -> None:
        """Writes a block of rows; for the whole derivative, a group."""
        programs = {
            FORWARD: self._forward,
            QUERIES: self._by_queries,
            KEYS: self._by_keys_and_values,
            BACKWARD: self._by_all,
        }
        programs[self.stage.part.data]()

    # The algorithm

    def _forward(self) -> None:
        """The result, by online softmax: sums are rescaled when the largest score grows."""
        a, constant = self.a, self.scalars.constant
        queries = self.rows(QUERY_OPERAND, a.scale)
        top, new_top, shrink, total = map(self.numbers, ("top", "new_top", "shrink", "total"))
        results = self.sums(VALUE_OPERAND)

        def begin() -> Sequence[Value]:
            return constant(lowest(self.element), self.element), constant(0.0, self.element)

        def rescale(old: Value, new: Value, held: Value) -> Sequence[Value]:
            factor = (old - new).exp()
            return factor, held * factor, new

        def weigh(score: Value, largest: Value) -> Sequence[Value]:
            return ((score - largest).exp(),)

        def over(tile: Tile) -> None:
            keys, values = self.columns(KEY_OPERAND, tile), self.columns(VALUE_OPERAND, tile)
            scores = self._scores(queries, keys, tile)
            self.raise_to(new_top, top, scores, tile)
            self.each_row((shrink, total, top), rescale, top, new_top, total)
            self.each_score((scores,), weigh, tile, scores, top)
            self.add_scores(total, scores, tile)
            self.accumulate(results, scores, values, tile, shrink)

        self.each_row((top, total), begin)
        self.each_tile((top, total, results), over)
        self.join(total)
        if len(self.stage.outputs) > 1:
            logarithm = self.numbers("logarithm")
            self.each_row((logarithm,), self._logarithm, top, total)
            self.store_numbers(1, logarithm)
        self.each_row((total,), self._inverse, total)
        self.store(0, results, total)

    def _logarithm(self, top: Value, total: Value) -> Sequence[Value]:
        """Returns the logarithm of a row's sum of exponentials; 0 for an empty row, whose result is zeros."""
        result = top + total.log()
        return (self.scalars.select(total.equals(0.0), 0.0, result) if self.a.zeros else result,)

    def _inverse(self, total: Value) -> Sequence[Value]:
        """Returns the factor that normalizes a row's sums."""
        return (1.0 / (self.scalars.select(total.equals(0.0), 1.0, total) if self.a.zeros else total),)

    def _by_queries(self) -> None:
        """The cotangent of the queries."""
        queries, by_results = self.rows(QUERY_OPERAND, self.a.scale), self.rows(self.a.operands)
        totals, deltas = (self.row_numbers(self.a.operands + number) for number in (1, 2))
        by_queries = self.sums(QUERY_OPERAND)

        def over(tile: Tile) -> None:
            keys, values = self.columns(KEY_OPERAND, tile), self.columns(VALUE_OPERAND, tile)
            weights, by_weights = self._scores(queries, keys, tile), self.products(by_results, values, tile)
            self._to_cotangents(weights, by_weights, totals, deltas, tile)
            self.hide((by_weights,), 0.0, tile, outside=0.0)
            self.accumulate(by_queries, by_weights, keys, tile)

        self.each_tile((by_queries,), over)
        self.store(0, by_queries, self.a.scale)

    def _by_keys_and_values(self, with_queries: bool = False) -> None:
        """The cotangents of keys and values, and what the block's keys add to those of the queries."""
        a, first = self.a, 1 if with_queries else 0
        keys, values = self.rows(KEY_OPERAND, as_lines=with_queries), self.rows(VALUE_OPERAND)
        by_keys, by_values = self.sums(KEY_OPERAND), self.sums(VALUE_OPERAND)

        def over(tile: Tile) -> None:
            queries, by_results = self.columns(QUERY_OPERAND, tile, a.scale), self.columns(a.operands, tile)
            totals, deltas = (self.column_numbers(a.operands + number, tile) for number in (1, 2))
            weights, by_weights = self._scores(keys, queries, tile), self.products(values, by_results, tile)
            self._to_cotangents(weights, by_weights, totals, deltas, tile)
            # Hidden weights are 0 already, but those of a query whose total is NaN.
            self.hide((weights, by_weights) if a.zeros else (by_weights,), 0.0, tile, outside=0.0)
            self.accumulate(by_keys, by_weights, queries, tile)
            self.accumulate(by_values, weights, by_results, tile)
            if with_queries:
                self.accumulate_columns(by_weights, keys, tile)

        self.each_tile((by_keys, by_values), over)
        self.store(first, by_keys)
        self.store(first + 1, by_values)

    def _by_all(self) -> None:
        """All cotangents of a group: its blocks of keys add to those of the queries, one after another."""
        self.clear_columns()
        self.each_block(lambda: self._by_keys_and_values(with_queries=True))
        self.store_columns(0, self.a.scale)

    def _scores(self, rows: Rows, columns: Columns, tile: Tile) -> Scores:
        """Writes the scores of a tile; where a query doesn't attend to a key, the attention's fill."""
        scores = self.products(rows, columns, tile)
        self.add_biases(scores, tile)
        self.hide((scores,), self.a.hidden, tile, outside=-math.inf)
        return scores

    def _to_cotangents(self, scores: Scores, by_weights: Scores, totals: Numbers, deltas: Numbers, tile: Tile) -> None:
        """Turns scores into weights, and the cotangents of weights into those of scores, hidden ones too.

        Args:
            scores: The scores of a tile, which become weights.
            by_weights: The cotangents of the weights, which become those of the scores.
            totals: The logarithm of each query's sum of exponentials.
            deltas: The sum of each query's result times its cotangent.
            tile: The tile.
        """

        def turn(score: Value, by_weight: Value, total: Value, delta: Value) -> Sequence[Value]:
            weight = (score - total).exp()
            return weight, weight * (by_weight - delta)

        self.each_score((scores, by_weights), turn, tile, scores, by_weights, totals, deltas)

    # Operands and results

    def features(self, operand: int) -> int:
        """Returns the number of features of an operand."""
        return self.a.shapes(self.stage.part.data)[operand][-1]

    def operand_of(self, output: int) -> int:
        """Returns the operand that an output is."""
        return len(self.stage.inputs) + output

    @abstractmethod
    def rows(self, operand: int, factor: float = 1.0, as_lines: bool = False) -> Rows:
        """Loads the features of an operand in the block's rows, times a factor.

        Args:
            operand: The operand.
            factor: The factor.
            as_lines: Whether `accumulate_columns` takes them.
        """

    @abstractmethod
    def columns(self, operand: int, tile: Tile, factor: float = 1.0) -> Columns:
        """Loads the features of an operand in a tile's columns, times a factor."""

    @abstractmethod
    def row_numbers(self, operand: int) -> Numbers:
        """Loads the numbers of an operand in the block's rows."""

    @abstractmethod
    def column_numbers(self, operand: int, tile: Tile) -> Numbers:
        """Loads the numbers of an operand in a tile's columns."""

    @abstractmethod
    def store(self, output: int, sums: Sums, factors: Numbers | float = 1.0) -> None:
        """Stores sums to the block's rows of an output, times a factor per row, or one for all."""

    @abstractmethod
    def store_numbers(self, output: int, numbers: Numbers) -> None:
        """Stores numbers to the block's rows of an output."""

    # Loops

    @abstractmethod
    def each_tile(self, carried: Sequence[Numbers | Sums], body: Callable[[Tile], None]) -> None:
        """Writes a loop over the tiles of the columns that may attend to the block's rows, or these to them.

        Args:
            carried: All numbers and sums from before the loop that the body changes.
            body: Writes the code for a tile.
        """

    # Scores, and numbers of rows

    @abstractmethod
    def numbers(self, name: str) -> Numbers:
        """Returns numbers of rows that are not set yet; the name is for readers of IR."""

    @abstractmethod
    def each_row(self, targets: Sequence[Numbers], function: Callable[..., Sequence[Value]], *sources: Numbers) -> None:
        """Sets numbers of each row to what a function of others returns."""

    @abstractmethod
    def each_score(
        self,
        targets: Sequence[Scores],
        function: Callable[..., Sequence[Value]],
        tile: Tile,
        *sources: Scores | Numbers,
    ) -> None:
        """Sets scores to what a function of others, and of numbers of their rows or columns, returns."""

    @abstractmethod
    def raise_to(self, target: Numbers, least: Numbers, scores: Scores, tile: Tile) -> None:
        """Sets the number of each row to the largest of its scores and its `least`."""

    @abstractmethod
    def add_scores(self, total: Numbers, scores: Scores, tile: Tile) -> None:
        """Adds the scores of each row to its total, of which threads may hold parts until `join`."""

    @abstractmethod
    def join(self, total: Numbers) -> None:
        """Adds up the parts of each total."""

    @abstractmethod
    def add_biases(self, scores: Scores, tile: Tile) -> None:
        """Adds the attention's biases to scores."""

    @abstractmethod
    def hide(self, scores: Sequence[Scores], number: float, tile: Tile, outside: float) -> None:
        """Sets scores to a number where a query doesn't attend to a key.

        Args:
            scores: Scores, or numbers computed from them.
            number: The number.
            tile: The tile.
            outside: The number of columns outside of the range of tiles, on a target that computes such.
        """

    # Products

    @abstractmethod
    def products(self, rows: Rows, columns: Columns, tile: Tile) -> Scores:
        """Returns the dot products of rows and columns."""

    @abstractmethod
    def sums(self, operand: int) -> Sums:
        """Returns zeros for the features of an operand in each row."""

    @abstractmethod
    def accumulate(
        self, sums: Sums, scores: Scores, columns: Columns, tile: Tile, shrink: Numbers | None = None
    ) -> None:
        """Adds columns weighted by scores to sums of rows, which are first multiplied by their row's `shrink`."""

    # Whole groups, which a target may leave out

    def each_block(self, body: Callable[[], None]) -> None:
        """Writes a loop over the blocks of a group."""
        self._refuse()

    def clear_columns(self) -> None:
        """Starts the sums of all queries' features at zero."""
        self._refuse()

    def accumulate_columns(self, scores: Scores, rows: Rows, tile: Tile) -> None:
        """Adds keys weighted by scores to the sums of a tile's queries."""
        self._refuse()

    def store_columns(self, output: int, factor: float) -> None:
        """Stores the sums of all queries, times a factor."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise DiagnosticException(
            f"the target has no kernel for the whole derivative of the attention made at {line_of(self.stage.location)}"
            f": write its parts, {QUERIES!r} and {KEYS!r}"
        )
