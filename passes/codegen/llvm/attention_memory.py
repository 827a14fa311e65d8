"""The memory of attention blocks, with loads and stores: rows, as vectors over the rows, and columns of a tile.

Rows are lanes: a running maximum or sum then needs nothing across lanes, and scalars of columns are read in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from tensorgrad.dialects.attention import BACKWARD, AttentionOp
from tensorgrad.dialects.native_schedules import NativeAttentionSchedule
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.codegen.common.attention import FEATURE, GROUP, Element, Numbers, Scores
from tensorgrad.passes.codegen.common.attention_program import AttentionProgram
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.codegen.llvm.shuffles import transposed
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class ColumnTile:
    """A range of columns.

    Attributes:
        start: The first column.
        place: Its position in its head.
        count: The number of columns.
    """

    start: Value
    place: Value
    count: Value


@dataclass(frozen=True)
class ColumnFeatures:
    """Features, column after column.

    Attributes:
        memory: The features.
        features: The number of features in each column.
        width: The distance between columns.
    """

    memory: SSAValue
    features: int
    width: int


@dataclass(frozen=True)
class RowFeatures:
    """The features of a block's rows: for each feature, a line of all rows.

    Attributes:
        memory: The lines.
        features: The number of features; a few lines of padding follow.
        by_row: The same row after row, as whole vectors, if `accumulate_columns` takes them.
    """

    memory: SSAValue
    features: int
    by_row: ColumnFeatures | None = None


class TileMemory(AttentionProgram[ColumnTile, RowFeatures, ColumnFeatures, RowFeatures, Scores, Numbers]):
    """The memory of a block of rows and of a tile of columns."""

    def __init__(self, stage: AttentionOp, schedule: NativeAttentionSchedule, code: Code):
        super().__init__(stage, code)
        self.schedule, self.code, self.top = schedule, code, code.block
        self.kind = VectorType(self.element, [schedule.lanes])
        self.is_group = stage.part.data == BACKWARD
        self.lines = self.new_array(schedule.rows * self._up(max(self.a.features, self.a.values)))
        if self.is_group:
            self.column_width = rounded_up(self.a.features, schedule.lanes * schedule.vectors)
            self.column_totals = self.new_array(self.a.queries * self.column_width)

    # The block

    @property
    def head(self) -> int:
        """The number of rows that share one causal mask: no block extends over the end of a head."""
        return self.a.keys if self.is_group else self.schedule.head

    def locate(self, number: Value) -> None:
        """Computes the group, the first row and the row count of the block with the given index, or just the group."""
        if self.is_group:
            self.group = number
            return
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

    @property
    def columns_at_once(self) -> int:
        """The number of columns whose sums are held in registers."""
        return evenest(self.schedule.columns, self.schedule.sums)

    def feature_sums(self, features: int) -> int:
        """Returns the number of features whose sums are held in registers."""
        return evenest(features, self.schedule.sums)

    def _up(self, features: int) -> int:
        """Returns how many lines a transposition of this many features fills."""
        return rounded_up(features, self.schedule.lanes)

    def element_at(self, operand: int) -> Element:
        """Returns the element of an operand in the block's group."""
        return Element.of(self.stage, operand, self.code).with_loops(self.code, {GROUP: self.group})

    def _constant(self, factor: float) -> Value | None:
        """Returns a factor as a constant; `None` for 1."""
        return None if factor == 1 else self.code.constant(factor, self.element)

    def _each_feature(self, features: int, at: Element, to: SSAValue, line: Value, factor: Value | None) -> None:
        """Writes a loop that copies the features at an element to a line."""

        def feature(f: Value) -> None:
            value = at.with_loops(self.code, {FEATURE: f}).load(self.code)
            self.code.put(value if factor is None else value * factor, to, line + f)

        parallel(self.code, self.code.number(features), None, feature)

    # Rows

    def _memory_of_rows(self, operand: int) -> RowFeatures:
        """Allocates memory for the features of an operand's rows."""
        features = self.features(operand)
        return RowFeatures(self.new_array(self._lines_of(features) * self.schedule.rows), features)

    def _lines_of(self, features: int) -> int:
        return max(self._up(features), rounded_up(features, self.feature_sums(features)))

    def rows(self, operand: int, factor: float = 1.0, as_lines: bool = False) -> RowFeatures:
        """Loads the features of the block's rows; those of missing rows are zeros."""
        rows, schedule = self._memory_of_rows(operand), self.schedule
        memory, width = self.lines, self._up(rows.features)
        if as_lines:
            width = rounded_up(rows.features, schedule.lanes * schedule.vectors)
            memory = self.new_array(schedule.rows * width)
            rows = replace(rows, by_row=ColumnFeatures(memory, rows.features, width))
        features = self.code.number(rows.features)
        zero, at = self.code.constant(0.0, self.element), self.element_at(operand)
        scale = self._constant(factor)

        def load(row: Value) -> None:
            place = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            self._each_feature(rows.features, place, memory, row * width, scale)

        def clear(row: Value) -> None:
            line = row * width
            parallel(self.code, features, None, lambda f: self.code.put(zero, memory, line + f))

        sequential(self.code, self.row_count, load)
        if self.is_cut:
            sequential(self.code, self.code.number(schedule.rows), clear, start=self.row_count)
        self._transpose(memory, width, rows.memory, schedule.rows, schedule.rows, self._up(rows.features))
        return rows

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

    def numbers(self, name: str) -> Numbers:
        return Numbers(self.new_array(self.schedule.rows))

    def row_numbers(self, operand: int) -> Numbers:
        """Loads a number for each row of the block; zero for missing rows."""
        numbers = Numbers(self.new_array(self.schedule.rows))
        at, zero = self.element_at(operand), self.code.constant(0.0, self.element)

        def load(row: Value) -> None:
            place = self.first_row + row
            self.code.put(at.with_loops(self.code, {self.row_loop: place}).load(self.code), numbers.memory, row)

        parallel(self.code, self.row_count, None, load)
        if self.is_cut:
            every = self.code.number(self.schedule.rows)
            parallel(self.code, every, self.row_count, lambda row: self.code.put(zero, numbers.memory, row))
        return numbers

    def sums(self, operand: int) -> RowFeatures:
        sums = self._memory_of_rows(operand)
        self._clear(sums.memory, self._lines_of(sums.features) * self.schedule.rows)
        return sums

    def _clear(self, memory: SSAValue, extent: int) -> None:
        """Stores zeros."""
        zero = self.code.constant(0.0, self.element)
        parallel(self.code, self.code.number(extent), None, lambda at: self.code.put(zero, memory, at))

    def store(self, output: int, sums: RowFeatures, factors: Numbers | float = 1.0) -> None:
        width, features = self._up(sums.features), self.code.number(sums.features)
        memory = factors.memory if isinstance(factors, Numbers) else None
        scale = None if isinstance(factors, Numbers) else self._constant(factors)
        self._transpose(sums.memory, self.schedule.rows, self.lines, width, width, self.schedule.rows)
        at = self.element_at(self.operand_of(output))

        def store(row: Value) -> None:
            place = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            line = row * width
            factor = scale if memory is None else self.code.element(memory, row)

            def feature(f: Value) -> None:
                value = self.code.element(self.lines, line + f)
                value = value if factor is None else value * factor
                place.with_loops(self.code, {FEATURE: f}).store(self.code, value)

            parallel(self.code, features, None, feature)

        sequential(self.code, self.row_count, store)

    def store_numbers(self, output: int, numbers: Numbers) -> None:
        at = self.element_at(self.operand_of(output))

        def store(row: Value) -> None:
            place = at.with_loops(self.code, {self.row_loop: self.first_row + row})
            place.store(self.code, self.code.element(numbers.memory, row))

        parallel(self.code, self.row_count, None, store)

    # Columns

    def columns(self, operand: int, tile: ColumnTile, factor: float = 1.0) -> ColumnFeatures:
        features = self.features(operand)
        width = rounded_up(features, self.feature_sums(features))
        memory = self.new_array(rounded_up(self.schedule.columns, self.columns_at_once) * width)
        at, scale = self.element_at(operand), self._constant(factor)

        def load(column: Value) -> None:
            place = at.with_loops(self.code, {self.column_loop: tile.start + column})
            self._each_feature(features, place, memory, column * width, scale)

        sequential(self.code, tile.count, load)
        return ColumnFeatures(memory, features, width)

    def column_numbers(self, operand: int, tile: ColumnTile) -> Numbers:
        numbers, at = Numbers(self.new_array(self.schedule.columns), of_columns=True), self.element_at(operand)

        def load(column: Value) -> None:
            place = at.with_loops(self.code, {self.column_loop: tile.start + column})
            self.code.put(place.load(self.code), numbers.memory, column)

        parallel(self.code, tile.count, None, load)
        return numbers

    def clear_columns(self) -> None:
        self._clear(self.column_totals, self.a.queries * self.column_width)

    def store_columns(self, output: int, factor: float) -> None:
        at, scale = self.element_at(self.operand_of(output)), self.code.constant(factor, self.element)

        def column(number: Value) -> None:
            place = at.with_loops(self.code, {self.column_loop: number})
            line = number * self.column_width

            def feature(f: Value) -> None:
                value = self.code.element(self.column_totals, line + f)
                place.with_loops(self.code, {FEATURE: f}).store(self.code, value * scale)

            parallel(self.code, self.code.number(self.a.features), None, feature)

        sequential(self.code, self.code.number(self.a.queries), column)
