"""The memory of attention blocks, with loads and stores: rows, as vectors over the rows, and columns of a tile.

Rows are lanes: a running maximum or sum then needs nothing across lanes, and scalars of columns are read in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.schedule import NativeAttentionSchedule
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.codegen.common.attention import FEATURE, GROUP, KEY, QUERY, Element
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loops import new_array, parallel
from tensorgrad.passes.codegen.llvm.packing import sequential, transposed
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class RowFeatures:
    """The features of a block's rows: for each feature, a line of all rows.

    Attributes:
        memory: The lines.
        features: The number of features; a few lines of padding follow.
    """

    memory: SSAValue
    features: int


@dataclass(frozen=True)
class ColumnFeatures:
    """The features of a tile's columns, column after column.

    Attributes:
        operand: The operand's index.
        memory: The features.
        features: The number of features in each column.
        width: The distance between columns.
    """

    operand: int
    memory: SSAValue
    features: int
    width: int


class TileMemory:
    """A block of rows, and tiles of columns."""

    row_loop, column_loop = QUERY, KEY

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        self.stage, self.schedule, self.code, self.top = stage, schedule, code, code.block
        self.a, self.element = stage.attention, stage.computed_in
        self.kind = VectorType(self.element, [schedule.lanes])
        self.after_inputs = 3 + self.a.biases + self.a.masks
        self.lines = new_array(self.top, self.element, schedule.rows * self._up(self._most_features()))

    # The block

    @property
    def head(self) -> int:
        """The number of rows that share one causal mask: no block extends over the end of a head."""
        return self.schedule.head

    def locate(self, number: Value) -> None:
        """Computes the group, the first row and the row count of the block with the given index."""
        across, heads = -(-self.head // self.schedule.rows), self.stage.grid[1] // self.head
        self.group = number // (heads * across)
        within = number % (heads * across)
        head = (within // across) * self.head
        self.locate_rows(head, within % across)

    def locate_rows(self, head: Value, number: Value) -> None:
        """Computes the rows of a block, given its index in a head and the head's first row."""
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
        """Allocates scratch memory."""
        return new_array(self.top, self.element, extent)

    def row_values(self, count: int = 1) -> list[SSAValue]:
        """Allocates arrays with a value for each row."""
        return [self.new_array(self.schedule.rows) for _ in range(count)]

    def key_features(self) -> ColumnFeatures:
        """Allocates memory for the features of keys as whole vectors, a line for each row."""
        features = self._features(1)
        width = rounded_up(features, self.schedule.lanes * self.schedule.vectors)
        return ColumnFeatures(1, self.new_array(self.schedule.rows * width), features, width)

    def scores(self) -> SSAValue:
        """Allocates memory for the scores of a tile: for each column, a line of rows."""
        return self.new_array(rounded_up(self.schedule.columns, self.column_sums) * self.schedule.rows)

    @property
    def column_sums(self) -> int:
        """The number of columns whose sums are held in registers."""
        return evenest(self.schedule.columns, self.schedule.sums)

    def feature_sums(self, features: int) -> int:
        """Returns the number of features whose sums are held in registers."""
        return evenest(features, self.schedule.sums)

    def _up(self, features: int) -> int:
        """Returns how many lines a transposition of this many features fills."""
        return rounded_up(features, self.schedule.lanes)

    def _most_features(self) -> int:
        return max(self.a.features, self.a.values)

    # Rows

    def rows_of(self, operand: int) -> RowFeatures:
        """Allocates memory for the features of an operand's rows."""
        features = self._features(operand)
        return RowFeatures(self.new_array(self._lines_of(features) * self.schedule.rows), features)

    def _lines_of(self, features: int) -> int:
        return max(self._up(features), rounded_up(features, self.feature_sums(features)))

    def _features(self, operand: int) -> int:
        return self.a.shapes(self.stage.part.data)[operand][-1]

    def fill_rows(
        self, operand: int, rows: RowFeatures, factor: float = 1.0, lines: ColumnFeatures | None = None
    ) -> None:
        """Loads the features of the block's rows; missing rows are zero-filled.

        Args:
            operand: The operand's index.
            rows: Receives a line for each feature.
            factor: A factor to multiply by.
            lines: Receives a line for each row, if given.
        """
        memory, width = (self.lines, self._up(rows.features)) if lines is None else (lines.memory, lines.width)
        features = self.code.number(rows.features)
        zero, at = self.code.constant(0.0, self.element), self.element_at(operand)
        scale = None if factor == 1 else self.code.constant(factor, self.element)

        def load(row: Value) -> None:
            place = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            line = row * width

            def feature(f: Value) -> None:
                value = place.with_loops(self.code, {FEATURE: f}).load(self.code)
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
        """Transposes rows of `width` elements into an array whose rows have `other` elements, in squares."""
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
        """Loads a value for each of `count` columns from `start` on."""
        at = self.element_at(operand)

        def load(column: Value) -> None:
            place = start + column
            self.code.put(at.with_loops(self.code, {self.column_loop: place}).load(self.code), memory, column)

        parallel(self.code, count, None, load)

    def fill_row_values(self, operand: int, memory: SSAValue) -> None:
        """Loads a value for each row of the block; zero for missing rows."""
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
        """Writes a loop over all rows of the block, including missing ones."""
        parallel(self.code, self.code.number(self.schedule.rows), None, body)

    # Columns

    def columns_of(self, operand: int) -> ColumnFeatures:
        """Allocates memory for the features of an operand's columns in a tile."""
        features = self._features(operand)
        width = rounded_up(features, self.feature_sums(features))
        columns = rounded_up(self.schedule.columns, self.column_sums)
        return ColumnFeatures(operand, self.new_array(columns * width), features, width)

    def fill_columns(self, columns: ColumnFeatures, start: Value, count: Value, factor: float = 1.0) -> None:
        """Loads the features of `count` columns from `start` on."""
        at, features = self.element_at(columns.operand), self.code.number(columns.features)
        scale = None if factor == 1 else self.code.constant(factor, self.element)

        def each(column: Value) -> None:
            place = at.with_loops(self.code, {self.column_loop: start + column})
            line = column * columns.width

            def feature(f: Value) -> None:
                value = place.with_loops(self.code, {FEATURE: f}).load(self.code)
                value = value if scale is None else value * scale
                self.code.put(value, columns.memory, line + f)

            parallel(self.code, features, None, feature)

        sequential(self.code, count, each)

    def each_tile(self, start: Value, stop: Value, body: Callable[[Value, Value], None]) -> None:
        """Writes a loop over the tiles of a range of columns; `body` takes the first column and the column count."""

        columns = self.schedule.columns
        sequential(self.code, stop, lambda at: body(at, (stop - at).at_most(columns)), start=start, step=columns)

    # Global memory

    def element_at(self, operand: int) -> Element:
        """Returns the element of an operand in the block's group."""
        return Element.of(self.stage, operand, self.code).with_loops(self.code, {GROUP: self.group})

    def store_rows(self, output: int, rows: RowFeatures, factors: SSAValue | float = 1.0) -> None:
        """Stores sums as rows of an output, times a factor per row, or one for all."""
        width = self._up(rows.features)
        self._transpose(rows.memory, self.schedule.rows, self.lines, width, width, self.schedule.rows)
        at = self.element_at(len(self.stage.inputs) + output)

        def store(row: Value) -> None:
            place = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            line = row * width
            factor = None
            if isinstance(factors, SSAValue):
                factor = self.code.element(factors, row)
            elif factors != 1:
                factor = self.code.constant(factors, self.element)

            def feature(f: Value) -> None:
                value = self.code.element(self.lines, line + f)
                value = value if factor is None else value * factor
                place.with_loops(self.code, {FEATURE: f}).store(self.code, value)

            parallel(self.code, self.code.number(rows.features), None, feature)

        sequential(self.code, self.row_count, store)

    def store_logarithms(self, value: Callable[[Value], Value]) -> None:
        """Stores a value for each row of the second output."""
        at = self.element_at(len(self.stage.inputs) + 1)

        def store(row: Value) -> None:
            place = self.first_row + row
            at.with_loops(self.code, {self.row_loop: place}).store(self.code, value(row))

        parallel(self.code, self.row_count, None, store)
