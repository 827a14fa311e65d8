"""The memory of an attention's blocks: rows, whose features lie in lanes, and columns of a tile, loaded and stored.

Rows are lanes: a running maximum or sum needs nothing across lanes then, and of columns, single numbers are read where
they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.schedule import TilesSchedule
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import new_array, parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import sequential, transposed
from tensorgrad.passes.kernels.writing.attention import FEATURE, GROUP, KEY, QUERY, Element
from tensorgrad.passes.kernels.writing.emission import Code
from tensorgrad.passes.kernels.writing.scalars import product


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

    def __init__(self, stage: AttentionOp, schedule: TilesSchedule, top: Block):
        self.stage, self.schedule, self.top = stage, schedule, top
        self.a, self.element = stage.attention, stage.computed_in
        self.kind = VectorType(self.element, [schedule.lanes])
        self.given = 3 + self.a.biases + self.a.masks
        self.lines = new_array(top, self.element, schedule.rows * self._up(self._most_features()))

    # The block

    @property
    def head(self) -> int:
        """How many rows have one causality: blocks end where they do."""
        return self.schedule.head

    def locate(self, code: Code, number: SSAValue) -> None:
        """Finds the group, the rows and how many there are of the block of some number."""
        across, heads = -(-self.head // self.schedule.rows), self.stage.grid[1] // self.head
        self.group = code.index_op(arith.DivUIOp, number, heads * across)
        within = code.index_op(arith.RemUIOp, number, heads * across)
        head = code.index_op(arith.MuliOp, code.index_op(arith.DivUIOp, within, across), self.head)
        self.locate_rows(code, head, code.index_op(arith.RemUIOp, within, across))

    def locate_rows(self, code: Code, head: SSAValue, number: SSAValue) -> None:
        """Finds the rows of the block of some number in a head, given that one's first row."""
        self.first = code.index_op(arith.MuliOp, number, self.schedule.rows)
        self.first_row = code.index_op(arith.AddiOp, head, self.first)
        self.row_count = code.number(self.schedule.rows)
        if self.is_cut:
            left = code.index_op(arith.SubiOp, code.number(self.head), self.first)
            self.row_count = code.index_op(arith.MinUIOp, left, self.schedule.rows)

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
        self, code: Code, operand: int, rows: RowFeatures, factor: float = 1.0, lines: ColumnFeatures | None = None
    ) -> None:
        """Loads the features of the block's rows; those that are not there are zeros.

        Args:
            code: Where to write.
            operand: Of which operand they are.
            rows: Where a line for each feature goes.
            factor: What they are multiplied by.
            lines: Where a line for each row goes, if there is to be one.
        """
        memory, width = (self.lines, self._up(rows.features)) if lines is None else (lines.memory, lines.width)
        features = code.number(rows.features)
        zero, at = code.scalar(0.0, self.element), self.element_at(code, operand)
        scale = None if factor == 1 else code.scalar(factor, self.element)

        def load(inner: Code, row: SSAValue) -> None:
            here = at.with_loops(inner, {self.row_loop: inner.index_op(arith.AddiOp, self.first_row, row)})
            line = inner.index_op(arith.MuliOp, row, width)

            def feature(c: Code, f: SSAValue) -> None:
                value = here.with_loops(c, {FEATURE: f}).load(c)
                value = value if scale is None else product(c, value, scale)
                c.put(value, memory, c.index_op(arith.AddiOp, line, f))

            parallel(inner, features, None, feature)

        def clear(inner: Code, row: SSAValue) -> None:
            line = inner.index_op(arith.MuliOp, row, width)
            parallel(inner, features, None, lambda c, f: c.put(zero, memory, c.index_op(arith.AddiOp, line, f)))

        sequential(code, self.row_count, load)
        if self.is_cut:
            sequential(code, code.number(self.schedule.rows), clear, start=self.row_count)
        columns = self._up(rows.features)
        self._transpose(code, memory, width, rows.memory, self.schedule.rows, self.schedule.rows, columns)

    def _transpose(
        self, code: Code, source: SSAValue, width: int, target: SSAValue, other: int, rows: int, columns: int
    ) -> None:
        """Moves rows of `width` elements to columns of an array whose rows have `other` elements, in squares."""
        lanes = self.schedule.lanes

        def square(inner: Code, x: SSAValue, y: SSAValue) -> None:
            corner = inner.index_op(arith.AddiOp, inner.index_op(arith.MuliOp, x, width), y)
            lines = [self.vector(inner, source, inner.index_op(arith.AddiOp, corner, i * width)) for i in range(lanes)]
            begin = inner.index_op(arith.AddiOp, inner.index_op(arith.MuliOp, y, other), x)
            for i, line in enumerate(transposed(inner, lines)):
                place = inner.index_op(arith.AddiOp, begin, i * other)
                inner.block.add_op(vector.StoreOp(line, target, [place]))

        def across(inner: Code, x: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            inner.loop(columns, [], lambda c, y, _: _nothing(square(c, x, y)), step=lanes)
            return []

        code.loop(rows, [], across, step=lanes)

    def fill_column_values(self, code: Code, operand: int, start: SSAValue, count: SSAValue, memory: SSAValue) -> None:
        """Loads a number for each of `count` columns from `start` on."""
        at = self.element_at(code, operand)

        def load(inner: Code, column: SSAValue) -> None:
            place = inner.index_op(arith.AddiOp, start, column)
            inner.put(at.with_loops(inner, {self.column_loop: place}).load(inner), memory, column)

        parallel(code, count, None, load)

    def fill_row_values(self, code: Code, operand: int, memory: SSAValue) -> None:
        """Loads a number for each row of the block; zero for those that are not there."""
        at, zero = self.element_at(code, operand), code.scalar(0.0, self.element)

        def load(inner: Code, row: SSAValue) -> None:
            place = inner.index_op(arith.AddiOp, self.first_row, row)
            inner.put(at.with_loops(inner, {self.row_loop: place}).load(inner), memory, row)

        parallel(code, self.row_count, None, load)
        if self.is_cut:
            every = code.number(self.schedule.rows)
            parallel(code, every, self.row_count, lambda inner, row: inner.put(zero, memory, row))

    def clear(self, code: Code, rows: RowFeatures) -> None:
        """Stores zeros."""
        zero, extent = code.scalar(0.0, self.element), self._lines_of(rows.features) * self.schedule.rows
        parallel(code, code.number(extent), None, lambda inner, at: inner.put(zero, rows.memory, at))

    def each_row(self, code: Code, body: Callable[[Code, SSAValue], None]) -> None:
        """Writes a loop over all rows of the block, those that are not there included."""
        parallel(code, code.number(self.schedule.rows), None, body)

    # Columns

    def columns_of(self, operand: int) -> ColumnFeatures:
        """Returns memory for the features of an operand's columns in a tile."""
        features = self._features(operand)
        width = rounded_up(features, self.feature_sums(features))
        columns = rounded_up(self.schedule.columns, self.column_sums)
        return ColumnFeatures(operand, self.new_array(columns * width), features, width)

    def fill_columns(
        self, code: Code, columns: ColumnFeatures, start: SSAValue, count: SSAValue, factor: float = 1.0
    ) -> None:
        """Loads the features of `count` columns from `start` on."""
        at, features = self.element_at(code, columns.operand), code.number(columns.features)
        scale = None if factor == 1 else code.scalar(factor, self.element)

        def column(inner: Code, c: SSAValue) -> None:
            here = at.with_loops(inner, {self.column_loop: inner.index_op(arith.AddiOp, start, c)})
            line = inner.index_op(arith.MuliOp, c, columns.width)

            def feature(deeper: Code, f: SSAValue) -> None:
                value = here.with_loops(deeper, {FEATURE: f}).load(deeper)
                value = value if scale is None else product(deeper, value, scale)
                deeper.put(value, columns.memory, deeper.index_op(arith.AddiOp, line, f))

            parallel(inner, features, None, feature)

        sequential(code, count, column)

    def each_tile(
        self, code: Code, start: SSAValue, stop: SSAValue, body: Callable[[Code, SSAValue, SSAValue], None]
    ) -> None:
        """Writes a loop over the tiles of a range of columns; the body is given the first column and their number."""

        def tile(inner: Code, at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            left = inner.index_op(arith.SubiOp, stop, at)
            body(inner, at, inner.index_op(arith.MinUIOp, left, self.schedule.columns))
            return []

        code.loop_to(stop, [], tile, start=start, step=self.schedule.columns)

    def vector(self, code: Code, memory: SSAValue, at: SSAValue) -> SSAValue:
        """Returns a vector of neighbours."""
        return code.add(vector.LoadOp(memory, [at], self.kind))

    # Memory outside

    def element_at(self, code: Code, operand: int) -> Element:
        """Returns an operand's element in the block's group."""
        return Element.of(self.stage, operand, code).with_loops(code, {GROUP: self.group})

    def store_rows(self, code: Code, output: int, rows: RowFeatures, factors: SSAValue | float = 1.0) -> None:
        """Stores sums as rows of an output, times a number for each row, or for all."""
        width = self._up(rows.features)
        self._transpose(code, rows.memory, self.schedule.rows, self.lines, width, width, self.schedule.rows)
        at = self.element_at(code, len(self.stage.inputs) + output)

        def store(inner: Code, row: SSAValue) -> None:
            here = at.with_loops(inner, {self.row_loop: inner.index_op(arith.AddiOp, self.first_row, row)})
            line = inner.index_op(arith.MuliOp, row, width)
            factor = None
            if isinstance(factors, SSAValue):
                factor = inner.element(factors, row)
            elif factors != 1:
                factor = inner.scalar(factors, self.element)

            def feature(c: Code, f: SSAValue) -> None:
                value = c.element(self.lines, c.index_op(arith.AddiOp, line, f))
                value = value if factor is None else product(c, value, factor)
                here.with_loops(c, {FEATURE: f}).store(c, value)

            parallel(inner, inner.number(rows.features), None, feature)

        sequential(code, self.row_count, store)

    def store_row_values(self, code: Code, output: int, value: Callable[[Code, SSAValue], SSAValue]) -> None:
        """Stores a number for each row of an output."""
        at = self.element_at(code, len(self.stage.inputs) + output)

        def store(inner: Code, row: SSAValue) -> None:
            place = inner.index_op(arith.AddiOp, self.first_row, row)
            at.with_loops(inner, {self.row_loop: place}).store(inner, value(inner, row))

        parallel(code, self.row_count, None, store)


def _nothing(_: None) -> list[SSAValue]:
    return []
