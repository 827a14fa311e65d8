"""The memory of an attention's blocks: rows, whose features lie in lanes, and columns of a tile, loaded and stored.

Rows are lanes: a running maximum or sum needs nothing across lanes code, and of columns, single numbers are read where
they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.schedule import TilesSchedule
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import new_array, parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import sequential, transposed
from tensorgrad.passes.kernels.writing.attention import FEATURE, GROUP, KEY, QUERY, Element
from tensorgrad.passes.kernels.writing.emission import Code
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class RowFeatures:
    """The features of a block's rows, a line of all rows for each feature.

    Attributes:
        memory: The lines.
        features: How many there are; a few more lines stand behind them.
    """

    memory: SSAValue
    features: int


@dataclass(frozen=True)
class ColumnFeatures:
    """The features of a tile's columns, one column after the other.

    Attributes:
        operand: Of which operand they are.
        memory: The features.
        features: How many each column has.
        width: How far columns lie apart.
    """

    operand: int
    memory: SSAValue
    features: int
    width: int


class TileMemory:
    """A block of rows, and tiles of columns."""

    row_loop, column_loop = QUERY, KEY

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, code: Code):
        self.stage, self.schedule, self.code, self.top = stage, schedule, code, code.block
        self.a, self.element = stage.attention, stage.computed_in
        self.kind = VectorType(self.element, [schedule.lanes])
        self.given = 3 + self.a.biases + self.a.masks
        self.lines = new_array(self.top, self.element, schedule.rows * self._up(self._most_features()))

    # The block

    @property
    def head(self) -> int:
        """How many rows have one causality: blocks end where they do."""
        return self.schedule.head

    def locate(self, number: Value) -> None:
        """Finds the group, the rows and how many there are of the block of some number."""
        across, heads = -(-self.head // self.schedule.rows), self.stage.grid[1] // self.head
        self.group = number // (heads * across)
        within = number % (heads * across)
        head = (within // across) * self.head
        self.locate_rows(head, within % across)

    def locate_rows(self, head: Value, number: Value) -> None:
        """Finds the rows of the block of some number in a head, given that one's first row."""
        self.first = number * self.schedule.rows
        self.first_row = head + self.first
        self.row_count = self.code.number(self.schedule.rows)
        if self.is_cut:
            self.row_count = (self.head - self.first).at_most(self.schedule.rows)

    @property
    def is_cut(self) -> bool:
        """Whether a block may have fewer rows than others."""
        return self.head % self.schedule.rows != 0

    def new_array(self, extent: int) -> SSAValue:
        """Returns scratch memory."""
        return new_array(self.top, self.element, extent)

    def row_values(self, count: int = 1) -> list[SSAValue]:
        """Returns memory of a number for each row."""
        return [self.new_array(self.schedule.rows) for _ in range(count)]

    def lines_of(self, operand: int) -> ColumnFeatures:
        """Returns memory for the features of an operand's rows as whole vectors, a line for each row."""
        features = self._features(operand)
        width = rounded_up(features, self.schedule.lanes * self.schedule.vectors)
        return ColumnFeatures(operand, self.new_array(self.schedule.rows * width), features, width)

    def scores(self) -> SSAValue:
        """Returns memory of a number for each column of a tile and each row: a line of rows for each column."""
        return self.new_array(rounded_up(self.schedule.columns, self.column_sums) * self.schedule.rows)

    @property
    def column_sums(self) -> int:
        """With how many columns sums are in registers."""
        return evenest(self.schedule.columns, self.schedule.sums)

    def feature_sums(self, features: int) -> int:
        """Returns of how many features sums are in registers."""
        return evenest(features, self.schedule.sums)

    def _up(self, features: int) -> int:
        """Returns how many lines a transposition of so many features fills."""
        return rounded_up(features, self.schedule.lanes)

    def _most_features(self) -> int:
        return max(self.a.features, self.a.values)

    # Rows

    def rows_of(self, operand: int) -> RowFeatures:
        """Returns memory for the features of an operand's rows."""
        features = self._features(operand)
        return RowFeatures(self.new_array(self._lines_of(features) * self.schedule.rows), features)

    def _lines_of(self, features: int) -> int:
        return max(self._up(features), rounded_up(features, self.feature_sums(features)))

    def _features(self, operand: int) -> int:
        return self.a.shapes(self.stage.part.data)[operand][-1]

    def fill_rows(
        self, operand: int, rows: RowFeatures, factor: float = 1.0, lines: ColumnFeatures | None = None
    ) -> None:
        """Loads the features of the block's rows; those that are not there are zeros.

        Args:
            operand: Of which operand they are.
            rows: Where a line for each feature goes.
            factor: What they are multiplied by.
            lines: Where a line for each row goes, if there is to be one.
        """
        memory, width = (self.lines, self._up(rows.features)) if lines is None else (lines.memory, lines.width)
        features = self.code.number(rows.features)
        zero, at = self.code.constant(0.0, self.element), self.element_at(operand)
        scale = None if factor == 1 else self.code.constant(factor, self.element)

        def load(row: Value) -> None:
            here = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            line = row * width

            def feature(f: Value) -> None:
                value = here.with_loops(self.code, {FEATURE: f}).load(self.code)
                value = value if scale is None else value * scale
                self.code.put(value, memory, line + f)

            parallel(self.code, features, None, feature)

        def clear(row: Value) -> None:
            line = row * width
            parallel(self.code, features, None, lambda f: self.code.put(zero, memory, line + f))

        sequential(self.code, self.row_count, load)
        if self.is_cut:
            sequential(self.code, self.code.number(self.schedule.rows), clear, start=self.row_count)
        columns = self._up(rows.features)
        self._transpose(memory, width, rows.memory, self.schedule.rows, self.schedule.rows, columns)

    def _transpose(self, source: SSAValue, width: int, target: SSAValue, other: int, rows: int, columns: int) -> None:
        """Moves rows of `width` elements to columns of an array whose rows have `other` elements, in squares."""
        lanes = self.schedule.lanes

        def square(x: Value, y: Value) -> None:
            corner = x * width + y
            lines = [self.code.vector(source, corner + i * width, self.kind) for i in range(lanes)]
            begin = y * other + x
            for i, line in enumerate(transposed(lines)):
                self.code.put_vector(line, target, begin + i * other)

        def across(x: Value) -> None:
            sequential(self.code, self.code.number(columns), lambda y: square(x, y), step=lanes)

        sequential(self.code, self.code.number(rows), across, step=lanes)

    def fill_column_values(self, operand: int, start: Value, count: Value, memory: SSAValue) -> None:
        """Loads a number for each of `count` columns from `start` on."""
        at = self.element_at(operand)

        def load(column: Value) -> None:
            place = start + column
            self.code.put(at.with_loops(self.code, {self.column_loop: place}).load(self.code), memory, column)

        parallel(self.code, count, None, load)

    def fill_row_values(self, operand: int, memory: SSAValue) -> None:
        """Loads a number for each row of the block; zero for those that are not there."""
        at, zero = self.element_at(operand), self.code.constant(0.0, self.element)

        def load(row: Value) -> None:
            place = self.first_row + row
            self.code.put(at.with_loops(self.code, {self.row_loop: place}).load(self.code), memory, row)

        parallel(self.code, self.row_count, None, load)
        if self.is_cut:
            every = self.code.number(self.schedule.rows)
            parallel(self.code, every, self.row_count, lambda row: self.code.put(zero, memory, row))

    def clear(self, rows: RowFeatures) -> None:
        """Stores zeros."""
        zero, extent = self.code.constant(0.0, self.element), self._lines_of(rows.features) * self.schedule.rows
        parallel(self.code, self.code.number(extent), None, lambda at: self.code.put(zero, rows.memory, at))

    def each_row(self, body: Callable[[Value], None]) -> None:
        """Writes a loop over all rows of the block, those that are not there included."""
        parallel(self.code, self.code.number(self.schedule.rows), None, body)

    # Columns

    def columns_of(self, operand: int) -> ColumnFeatures:
        """Returns memory for the features of an operand's columns in a tile."""
        features = self._features(operand)
        width = rounded_up(features, self.feature_sums(features))
        columns = rounded_up(self.schedule.columns, self.column_sums)
        return ColumnFeatures(operand, self.new_array(columns * width), features, width)

    def fill_columns(self, columns: ColumnFeatures, start: Value, count: Value, factor: float = 1.0) -> None:
        """Loads the features of `count` columns from `start` on."""
        at, features = self.element_at(columns.operand), self.code.number(columns.features)
        scale = None if factor == 1 else self.code.constant(factor, self.element)

        def each(column: Value) -> None:
            here = at.with_loops(self.code, {self.column_loop: start + column})
            line = column * columns.width

            def feature(f: Value) -> None:
                value = here.with_loops(self.code, {FEATURE: f}).load(self.code)
                value = value if scale is None else value * scale
                self.code.put(value, columns.memory, line + f)

            parallel(self.code, features, None, feature)

        sequential(self.code, count, each)

    def each_tile(self, start: Value, stop: Value, body: Callable[[Value, Value], None]) -> None:
        """Writes a loop over the tiles of a range of columns; the body is given the first column and their number."""

        columns = self.schedule.columns
        sequential(self.code, stop, lambda at: body(at, (stop - at).at_most(columns)), start=start, step=columns)

    # Memory outside

    def element_at(self, operand: int) -> Element:
        """Returns an operand's element in the block's group."""
        return Element.of(self.stage, operand, self.code).with_loops(self.code, {GROUP: self.group})

    def store_rows(self, output: int, rows: RowFeatures, factors: SSAValue | float = 1.0) -> None:
        """Stores sums as rows of an output, times a number for each row, or for all."""
        width = self._up(rows.features)
        self._transpose(rows.memory, self.schedule.rows, self.lines, width, width, self.schedule.rows)
        at = self.element_at(len(self.stage.inputs) + output)

        def store(row: Value) -> None:
            here = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            line = row * width
            factor = None
            if isinstance(factors, SSAValue):
                factor = self.code.element(factors, row)
            elif factors != 1:
                factor = self.code.constant(factors, self.element)

            def feature(f: Value) -> None:
                value = self.code.element(self.lines, line + f)
                value = value if factor is None else value * factor
                here.with_loops(self.code, {FEATURE: f}).store(self.code, value)

            parallel(self.code, self.code.number(rows.features), None, feature)

        sequential(self.code, self.row_count, store)

    def store_row_values(self, output: int, value: Callable[[Value], Value]) -> None:
        """Stores a number for each row of an output."""
        at = self.element_at(len(self.stage.inputs) + output)

        def store(row: Value) -> None:
            place = self.first_row + row
            at.with_loops(self.code, {self.row_loop: place}).store(self.code, value(row))

        parallel(self.code, self.row_count, None, store)
