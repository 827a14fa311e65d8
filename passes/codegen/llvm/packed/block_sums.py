"""How the products of a register block are summed over a range of the reduction.

Vectors run along the columns, so that each row's element is multiplied with all of them; or along the reduction.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Protocol

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, SSAValue

from tensorgrad.dialects import cpu
from tensorgrad.passes.codegen.llvm.loop_kinds import sequential
from tensorgrad.passes.codegen.llvm.packed.blocks import ColumnBlock, Range, RowBlock, Task, when
from tensorgrad.passes.codegen.llvm.packed.columns import ColumnReader, ImageColumns
from tensorgrad.passes.codegen.llvm.packed.packing import pairs_of
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.codegen.llvm.packed.rows import PackedRows, Rows
from tensorgrad.passes.codegen.llvm.packed.step_vectors import Read, StepVectors, has_step_vectors, sums_along
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value


class BlockSums(Protocol):
    """The sums of register blocks."""

    def prepare(self, task: Task, part: Range) -> None:
        """Writes what a tile's sums need before the products of a range, once the columns are prepared."""
        ...

    def sums(self, task: Task, part: Range, rows: RowBlock, block: ColumnBlock) -> list[Value]:
        """Returns the sums of a register block over a range, row by row, as vectors of columns."""
        ...


def block_sums_of(product: Product, rows: Rows, columns: ColumnReader, top: Block) -> tuple[BlockSums, BlockSums]:
    """Returns how a product's schedule sums whole blocks of columns, and the one after the last of these."""
    schedule = product.schedule
    if schedule.along_steps and schedule.pitch:
        whole = WindowSums(product, rows, columns, top)
        return whole, whole
    if schedule.along_steps:
        whole = SumsAlong(product, rows, LinesInPlace(product), schedule.along_steps, top)
        return whole, whole
    whole = OuterProducts(product, rows, columns)
    if not schedule.tail_along:
        return whole, whole
    return whole, SumsAlong(product, rows, TailLines(product, columns, top), schedule.tail_along, top)


class OuterProducts:
    """Sums in registers: in each iteration, all rows' elements are multiplied with all vectors of columns."""

    def __init__(self, product: Product, rows: Rows, columns: ColumnReader):
        self.product, self.rows, self.columns = product, rows, columns

    def prepare(self, task: Task, part: Range) -> None:
        """Writes nothing."""

    def sums(self, task: Task, part: Range, rows: RowBlock, block: ColumnBlock) -> list[Value]:
        code, product, schedule = task.code, self.product, self.product.schedule
        zero = code.constant(0.0, product.element).ssa
        zeros = [code.make(vector.BroadcastOp, (zero,), kind) for kind in product.block_types(block.columns)]
        elements, vectors = self.rows.elements(task, part, rows.first), self.columns.vectors(task, part, block)
        multiply, count = (_dot_pairs, pairs_of(part.count)) if schedule.pairs else (vector.FMAOp, part.count)
        self.rows.request(task, part, rows.first, block)
        request = None
        if part.prefetch is not None:
            number = rows.first // schedule.rows, block.first // schedule.columns
            request = part.prefetch.in_block(code, *number)

        def step(k: Value, sums: list[Value]) -> list[Value]:
            if request is not None:
                request(k)
            # All rows use each vector and all vectors each row's element, so that few loads feed many products.
            loaded, values = vectors(k), list[Value]()
            for factor in elements(k):
                for value in loaded:
                    spread = code.make(vector.BroadcastOp, (factor.ssa,), value.type).ssa
                    multiplied = multiply(spread, value.ssa, sums[len(values)].ssa)
                    multiplied.location = product.stage.location  # the kernel's may be that of its epilogue
                    values.append(code.add(multiplied))
            return values

        return code.loop_to(count, zeros, step)


class LineReader(Protocol):
    """Columns that are contiguous along the reduction."""

    def prepare(self, task: Task, part: Range) -> None:
        """Writes what a tile's lines need before the products of a range, once the columns are prepared."""
        ...

    def line(self, task: Task, part: Range, block: ColumnBlock, at: Value, kind: VectorType[Attribute]) -> Read:
        """Returns what writes the load of neighbouring iterations of a block's column as a vector."""
        ...


class LinesInPlace:
    """Columns that are contiguous along the reduction in an operand."""

    def __init__(self, product: Product):
        schedule = product.schedule
        row, column = (product.layouts[factor] for factor in (product.factors.row, product.factors.column))
        fits = schedule.lanes % schedule.along_steps == 0 and product.ranges == 1 and product.steps >= schedule.lanes
        in_lines = column.in_lines and (row.in_lines if schedule.direct_rows else row.along_steps)
        if not (fits and in_lines and schedule.direct_columns) or product.conditions or product.is_cut:
            raise product.fault(
                "have vectors along its reduction, but not all at once, or not to read columns in place that are "
                "contiguous along it"
            )
        self.product = product

    def prepare(self, task: Task, part: Range) -> None:
        """Writes nothing."""

    def line(self, task: Task, part: Range, block: ColumnBlock, at: Value, kind: VectorType[Attribute]) -> Read:
        factor = self.product.column_factor(task.tile, part.start)
        return lambda step: factor.vectors(task.code, block.first + at, step, [(0, kind)])[0]


class TailLines:
    """The columns after the last whole block, each copied to where its iterations are neighbours.

    Attributes:
        memory: The memory for the copy of each.
    """

    def __init__(self, product: Product, columns: ColumnReader, top: Block):
        schedule, row, tail = product.schedule, product.layouts[product.factors.row], product.tail
        in_lines = row.in_lines if schedule.direct_rows else row.along_steps
        is_whole = math.gcd(product.depth, product.shortest) % schedule.lanes == 0
        has_tail = tail is not None and 0 < tail.filled == tail.width
        is_along = has_tail and in_lines and is_whole and not product.conditions
        if tail is None or not is_along or schedule.pairs:
            raise product.fault("sum its last columns along the reduction, but has none, or not in whole vectors")
        self.columns, self.count, self.depth = columns, tail.filled, product.depth
        self.memory = new_array(top, product.element, tail.filled * product.depth)

    def prepare(self, task: Task, part: Range) -> None:
        """Copies the columns, if the tile has them."""
        when(task.code, task.is_last, partial(self._copy, task, part))

    def _copy(self, task: Task, part: Range) -> None:
        for i in range(self.count):
            self.columns.copy_column(task, part, task.whole_count + i, self.memory, i * self.depth)

    def line(self, task: Task, part: Range, block: ColumnBlock, at: Value, kind: VectorType[Attribute]) -> Read:
        return lambda step: task.code.vector(self.memory, at * self.depth + step, kind)


class SumsAlong:
    """Sums of some of a block's columns at a time, with vectors along the reduction.

    Attributes:
        memory: The memory for the sums of a block.
    """

    def __init__(self, product: Product, rows: Rows, columns: LineReader, at_once: int, top: Block):
        self.product, self.rows, self.columns, self.at_once = product, rows, columns, at_once
        self.memory = new_array(top, product.element, product.schedule.rows * product.schedule.columns)

    def prepare(self, task: Task, part: Range) -> None:
        self.columns.prepare(task, part)

    def sums(self, task: Task, part: Range, rows: RowBlock, block: ColumnBlock) -> list[Value]:
        code, product, width = task.code, self.product, block.columns.width
        schedule, kind = product.schedule, VectorType(product.element, [product.schedule.lanes])
        at_once = math.gcd(self.at_once, width)
        lines = self.rows.lines(task, part, rows.first, kind)
        behind = product.steps % schedule.lanes if product.ranges == 1 else 0

        def some(number: Value) -> None:
            first = number * at_once
            columns = [self.columns.line(task, part, block, first + i, kind) for i in range(at_once)]
            totals = sums_along(code, lines, columns, part.count, behind, kind)
            for i, total in enumerate(totals):
                code.put_vector(total, self.memory, first + i * width)

        sequential(code, code.number(width // at_once), some)
        return [
            code.vector(self.memory, code.number(i * width + at), part_kind)
            for i in range(schedule.rows)
            for at, part_kind in block.columns.parts(product.element)
        ]


class WindowSums:
    """Sums of one row's products with the windows of an image, with vectors along the reduction.

    Attributes:
        vectors: The vectors of both.
    """

    def __init__(self, product: Product, rows: Rows, columns: ColumnReader, top: Block):
        schedule, (_, row_count, column_count) = product.schedule, product.extents
        if not (
            isinstance(columns, ImageColumns)
            and isinstance(rows, PackedRows)
            and row_count == 1
            and column_count <= schedule.columns
            and has_step_vectors(columns.image.windows, product.conditions)
        ):
            raise product.fault(
                "have vectors along its reduction, but not to pack one row and to multiply it with one block of "
                "windows whose elements are evenly apart"
            )
        sums, kind = new_array(top, product.element, product.row_length), VectorType(product.element, [schedule.lanes])
        self.product = product
        self.vectors = StepVectors(columns.image, rows.memory.memory, sums, schedule.along_steps, kind)

    def prepare(self, task: Task, part: Range) -> None:
        """Writes nothing."""

    def sums(self, task: Task, part: Range, rows: RowBlock, block: ColumnBlock) -> list[Value]:
        code, vectors = task.code, self.vectors
        vectors.sum(code, part.count)
        parts = block.columns.parts(self.product.element)
        return [code.vector(vectors.sums, block.first + at, kind) for at, kind in parts]


def _dot_pairs(lhs: SSAValue, rhs: SSAValue, sums: SSAValue) -> cpu.DotPairsOp:
    """Returns the op that adds products of pairs, with operands in the order of `vector.fma`."""
    return cpu.DotPairsOp(sums, lhs, rhs)
