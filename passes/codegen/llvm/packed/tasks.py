"""Writes kernels of the archetype `packed`: matrix products in register blocks, with packed operands, as in

K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008);
F. Van Zee, R. van de Geijn: BLIS: A Framework for Rapidly Instantiating BLAS Functionality (ACM TOMS 41, 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import sequential
from tensorgrad.passes.codegen.llvm.packed.block_sums import block_sums_of
from tensorgrad.passes.codegen.llvm.packed.blocks import ColumnBlock, InBlock, Range, RowBlock, Task, count_from, when
from tensorgrad.passes.codegen.llvm.packed.columns import ImageColumns, PackedColumns, columns_of
from tensorgrad.passes.codegen.llvm.packed.epilogue import Epilogue
from tensorgrad.passes.codegen.llvm.packed.factors import Axis
from tensorgrad.passes.codegen.llvm.packed.line_blocks import LineBlocks, has_line_blocks
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.codegen.llvm.packed.rows import PackedRows, rows_of
from tensorgrad.passes.codegen.llvm.packed.tile_sums import TileSums
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value


def write_packed(kernel: KernelOp, schedule: PackedSchedule, code: Code, first: Value, last: Value) -> None:
    """Writes a loop over the tasks in [`first`, `last`).

    Raises:
        DiagnosticException: The kernel is not a sum of products of rows and columns.
    """
    product = Product(kernel, schedule)
    tasks = LineTasks(product, code) if schedule.lines else BlockTasks(product, code)
    sequential(code, last, tasks.write, start=first)


class _Tables:
    """The tables of a product's loops.

    Attributes:
        sides: Those of the rows' and the columns' loops, if their factors or results are looked up.
        steps: That of the reduction's loops.
    """

    def __init__(self, product: Product, epilogue: Epilogue, are_results: bool, top: Block):
        self.product, schedule = product, product.schedule
        even_rows, even_columns = epilogue.is_even
        self.array = partial(new_array, top, i32)
        self.sides = (
            self._side(schedule.row, schedule.tile_rows, product.factors.row, are_results or even_rows),
            self._side(
                schedule.column,
                product.row_length,
                product.factors.column,
                are_results or even_columns or product.in_lines,
            ),
        )
        self.steps = Axis(product.own, product.depth, self.array, bool(product.conditions))

    def _side(self, loops: Sequence[int], room: int, factor: SSAValue, is_even: bool) -> Axis:
        """Allocates the tables of the loops of a side; `is_even` says whether its results are evenly apart."""
        layout = self.product.layouts.get(factor)
        is_looked_up = not is_even or (layout is not None and layout.strides is None)
        extents = [self.product.kernel.extents[loop] for loop in loops] if is_looked_up else []
        return Axis(extents, room, self.array)

    def task(self, code: Code, number: Value) -> Task:
        """Returns the task with the given index."""
        return Task.of(self.product, code, self.sides, self.steps, number)

    def fill_sides(self, task: Task) -> None:
        """Writes the indices of a tile's rows and columns to their tables."""
        counts = task.row_count, task.column_count
        for axis, first, count in zip(self.sides, task.tile.first, counts, strict=True):
            axis.fill(task.code, first, count)

    def fill_steps(self, task: Task, start: Value, extent: Value) -> Value:
        """Writes the indices of a range's iterations that have products, and returns the number of these."""

        def is_kept(steps: list[Value]) -> Value:
            return self.product.has_product(task.code, task.tile.loops(task.code, [], []), steps)

        return self.steps.fill(task.code, start, extent, is_kept)


class BlockTasks:
    """Tasks that multiply blocks of rows with blocks of columns.

    For each range of the reduction, the tile's columns are packed; then, row block by row block, its rows, which are
    multiplied with all columns, one register block at a time. Rows in place may be multiplied with one block of columns
    after another instead. After the last range, the epilogue runs over each row block, or, if there is one range, over
    each register block. Until then sums are in scratch memory, unless they are the results: those are stored directly.
    """

    def __init__(self, product: Product, code: Code):
        self.product, self.code, top = product, code, code.block
        self.rows, self.columns = rows_of(product, top), columns_of(product, code)
        self.whole_sums, self.tail_sums = block_sums_of(product, self.rows, self.columns, top)
        self.epilogue = Epilogue(product)
        self.sums = TileSums(product, self.epilogue.in_blocks, top)
        self.tables = _Tables(product, self.epilogue, self.sums.are_results, top)

    def write(self, number: Value) -> None:
        """Writes the task with the given index."""
        product, code = self.product, self.code
        following = None
        if isinstance(self.columns, PackedColumns) and self.columns.far is not None:
            following = self.tables.task(code, (number + 1).at_most(product.schedule.groups[0] - 1))
        task = self.tables.task(code, number)
        self.tables.fill_sides(task)
        if product.ranges == 1:
            self._range(task, following, code.number(0), code.number(product.steps), ())
            return

        def numbered(number: Value) -> None:
            start = number * product.depth
            within = self.sums.in_blocks(number)
            self._range(task, following, start, count_from(code, start, product.steps, product.depth), within)

        sequential(code, code.number(product.ranges), numbered)

    def _range(
        self, task: Task, following: Task | None, start: Value, extent: Value, within: tuple[InBlock, ...]
    ) -> None:
        """Packs a range of the reduction, and accumulates its products.

        Args:
            task: The task.
            following: The next one, if its columns are prefetched.
            start: The first iteration of the range.
            extent: The number of iterations.
            within: The range's place in the blocks of ranges.
        """
        code, product = self.code, self.product
        schedule = product.schedule
        part = Range(start, extent, self.tables.fill_steps(task, start, extent), within)
        part = replace(part, prefetch=self.columns.prepare(task, part, following))
        self.tail_sums.prepare(task, part)
        blocks = (task.row_count + (schedule.rows - 1)) // schedule.rows
        finishes_rows = not (self.sums.are_results or self.sums.are_of_block)

        def row_block(number: Value) -> None:
            rows = self._rows(task, number)
            self.rows.prepare(task, part, rows.first)
            task.each_block(partial(self._block, task, part, rows))
            if finishes_rows:
                when(code, part.is_last, lambda: self._finish(task, rows))

        def column_block(block: ColumnBlock) -> None:
            sequential(code, blocks, lambda number: self._block(task, part, self._rows(task, number), block))

        def finish(number: Value) -> None:
            self._finish(task, self._rows(task, number))

        if not schedule.by_columns:
            sequential(code, blocks, row_block)
            return
        task.each_block(column_block)
        if finishes_rows:
            when(code, part.is_last, lambda: sequential(code, blocks, finish))

    def _rows(self, task: Task, number: Value) -> RowBlock:
        """Returns the block of rows with the given index in a tile."""
        product, schedule = self.product, self.product.schedule
        begin = first = number * schedule.rows
        if product.extents[1] % schedule.rows:
            first = begin.at_most(task.row_count - schedule.rows)
        if task.computed_before is not None:
            begin = begin.at_least(task.computed_before)
        computed = begin - first if begin is not first else None
        return RowBlock(first, number if self.sums.are_of_tile else self.code.number(0), computed)

    def _block(self, task: Task, part: Range, rows: RowBlock, block: ColumnBlock) -> None:
        """Multiplies a block of rows with one of columns, and runs the epilogue on these if it can."""
        sums = self.tail_sums if block.columns is self.product.tail else self.whole_sums
        self.sums.add(task, rows, block, part.blocks, sums.sums(task, part, rows, block))
        if self.sums.are_of_block:
            self.epilogue.write_block(task, rows, block, self.sums)

    def _finish(self, task: Task, rows: RowBlock) -> None:
        """Runs the epilogue on a block of rows."""
        image = self.columns.image if self.product.in_lines and isinstance(self.columns, ImageColumns) else None
        self.epilogue.write(task, rows, self.sums, image)


class LineTasks:
    """Tasks that multiply the only row with the windows of several lines at a time, and run the epilogue on these."""

    def __init__(self, product: Product, code: Code):
        self.product, self.code = product, code
        self.rows, self.epilogue = rows_of(product, code.block), Epilogue(product)
        windows = product.windows() if product.extents[1] == 1 else None
        if windows is None or not has_line_blocks(product.stage, windows, product.conditions):
            raise product.fault(
                "have several lines in registers, but does not multiply one row with small windows of one image"
            )
        self.blocks = LineBlocks.of(product.stage, windows, product.schedule, code.block)
        self.tables = _Tables(product, self.epilogue, False, code.block)

    def write(self, number: Value) -> None:
        """Writes the task with the given index."""
        code, product, zero = self.code, self.product, self.code.number(0)
        task = self.tables.task(code, number)
        self.tables.fill_sides(task)
        steps = code.number(product.steps)
        if isinstance(self.rows, PackedRows):
            self.tables.fill_steps(task, zero, steps)
        part = Range(zero, steps, steps)
        self.rows.prepare(task, part, zero)
        load = self.rows.elements(task, part, zero)
        elements = [element for step in range(product.steps) for element in load(code.number(step))]
        row = task.tile.axes[0].indices(code, task.tile.first[0], zero)

        def finish(at: Value, column: list[Value]) -> None:
            self.epilogue.finish(task, self.blocks.sums, at, task.tile.loops(code, row, column))

        self.blocks.write(code, task.tile, task.column_count, elements, finish)
