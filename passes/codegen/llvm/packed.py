"""Writes kernels of the archetype `packed`: matrix products in register blocks, with packed operands, as in

K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008);
F. Van Zee, R. van de Geijn: BLIS: A Framework for Rapidly Instantiating BLAS Functionality (ACM TOMS 41, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import KernelOp, element_of, maps_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.windows import LEAST_RUN
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import stage_values, store_outputs
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.factors import Factor, Tile, Window, over_runs
from tensorgrad.passes.codegen.llvm.line_blocks import LineBlocks
from tensorgrad.passes.codegen.llvm.loops import parallel
from tensorgrad.passes.codegen.llvm.packed_product import Product
from tensorgrad.passes.codegen.llvm.packing import Columns, pairs_of, sequential
from tensorgrad.passes.codegen.llvm.prefetch import Prefetch
from tensorgrad.passes.codegen.llvm.step_vectors import sums_along
from tensorgrad.passes.scalars import Value

SHORT_LINE = 128
"""Lines of fewer columns use masked vectors in the epilogue, since a loop of several vectors would not run once."""


def write_packed(kernel: KernelOp, schedule: PackedSchedule, code: Code, first: Value, last: Value) -> None:
    """Writes a loop over the tasks in [`first`, `last`).

    Raises:
        DiagnosticException: The kernel is not a sum of products of rows and columns.
    """
    product = Product(kernel, schedule, code.block)
    if product.image is not None and not product.conditions:
        product.image.fill_offsets(code)

    def task(number: Value) -> None:
        next_number = (number + 1).at_most(schedule.groups[0] - 1)
        following = None if product.far_lines is None else _Task.of(product, code, next_number)
        replace(_Task.of(product, code, number), following=following).write()

    sequential(code, last, task, start=first)


@dataclass(frozen=True)
class _Range:
    """A range of the reduction.

    Attributes:
        start: Its first iteration.
        count: The number of iterations.
        blocks: Its place in the block of ranges that are added one after another, in the block of blocks, and so on;
            none if it is the only range.
        following: What is packed after it, if that is prefetched.
    """

    start: Value
    count: Value
    blocks: tuple[_InBlock, ...] = ()
    following: Prefetch | None = None

    @property
    def is_last(self) -> Value | None:
        """Whether it is the last range; `None` if it is the only one."""
        return self.blocks[-1].ends if self.blocks else None


@dataclass(frozen=True)
class _InBlock:
    """The place of a range in a block of ranges, which consists of ranges or smaller blocks.

    Attributes:
        starts: Whether the range is in the first of them.
        ends: Whether the range is the block's last one.
        sums: The memory for the block's sums so far.
    """

    starts: Value
    ends: Value
    sums: SSAValue


@dataclass(frozen=True)
class _RowBlock:
    """The rows of a register block.

    Attributes:
        first: The first row, relative to the tile.
        number: The block's index in the memory for sums.
        computed: How many of its rows an earlier block computes; `None` if always zero.
    """

    first: Value
    number: Value
    computed: Value | None


@dataclass(frozen=True)
class _ColumnBlock:
    """The columns of a register block.

    Attributes:
        columns: Its vectors.
        first: The first column, relative to the tile.
        panel: The offset of its packed panel.
        sums: The offset of its sums over earlier ranges, within a row of the memory for sums. The block after the last
            whole one shares columns with that one, so its sums are separate until they are complete.
    """

    columns: Columns
    first: Value
    panel: Value
    sums: Value


@dataclass(frozen=True)
class _Task:
    """The code of a task, which computes a tile of results.

    For each range of the reduction, the tile's columns are packed; then, row block by row block, its rows, which are
    multiplied with all columns, one register block at a time. After the last range, the epilogue runs over each row
    block. Until then sums are in scratch memory, unless they are the results: those are stored directly. The sums of
    many ranges are added in blocks of ranges (see `blocked_sums`), each level of which has its own memory.

    Attributes:
        product: The product, and its scratch memory.
        code: Where to write.
        tile: The tile.
        row_count: The number of its rows.
        whole_count: The number of its columns in whole register blocks.
        column_count: The number of all its columns.
        is_last: Whether it is the last tile along the columns; `None` if it is the only one.
        computed_before: How many of its rows the tile above computes; `None` if always zero.
        following: The next task, if its columns are prefetched.
    """

    product: Product
    code: Code
    tile: Tile
    row_count: Value
    whole_count: Value
    column_count: Value
    is_last: Value | None
    computed_before: Value | None
    following: _Task | None = None

    @staticmethod
    def of(product: Product, code: Code, number: Value) -> _Task:
        """Returns the task with the given index."""
        schedule, (_, rows, columns) = product.schedule, product.extents
        down, across = schedule.tiles_over(product.kernel.extents)
        column_tile = number % across if across > 1 else code.number(0)
        above = number // across
        row_tile = above % down if down > 1 else code.number(0)
        rest = above // down
        begin = first_row = row_tile * schedule.tile_rows
        # A last tile of fewer rows than a register block starts further up, on rows that the tile above computes.
        if 0 < rows % schedule.tile_rows < schedule.rows:
            first_row = begin.at_most(rows - schedule.rows)
        first_column = column_tile * schedule.tile_columns
        computed_before = begin - first_row if first_row is not begin else None
        row_count = _count(code, first_row, rows, schedule.tile_rows)
        is_last = None if across == 1 else column_tile.equals(across - 1)
        whole = schedule.whole(columns)
        column_count = whole_count = (
            _count(code, first_column, whole, schedule.tile_columns) if whole else code.number(0)
        )
        if product.tail is not None:
            column_count = whole_count + (columns - whole)
            if is_last is not None:
                column_count = code.select(is_last, column_count, whole_count)
        tile = product.tile(rest, first_row, first_column)
        return _Task(product, code, tile, row_count, whole_count, column_count, is_last, computed_before)

    def write(self) -> None:
        """Writes the task."""
        code, product = self.code, self.product
        for axis, first, count in zip(product.axes, self.tile.first, (self.row_count, self.column_count), strict=True):
            axis.fill(code, first, count)
        if product.line_blocks is not None:
            self._over_lines(product.line_blocks)
        elif product.ranges == 1:
            self._range(_Range(code.number(0), code.number(product.steps)))
        else:
            sequential(code, code.number(product.ranges), self._numbered)

    def _numbered(self, number: Value) -> None:
        """Writes the range with the given index."""
        product = self.product
        start = number * product.depth
        blocks, within = list[_InBlock](), 1
        is_last = number.equals(product.ranges - 1)
        for width, sums in zip(product.widths, (product.sums, *product.sums_of_blocks), strict=False):
            place = number % width
            ends = place.equals(width - 1) | is_last
            blocks.append(_InBlock(place < within, ends, cast(SSAValue, sums)))
            within = width
        last = product.sums_of_blocks[-1] if product.widths else product.sums
        blocks.append(_InBlock(number < within, is_last, cast(SSAValue, last)))
        self._range(_Range(start, _count(self.code, start, product.steps, product.depth), tuple(blocks)))

    def _range(self, part: _Range) -> None:
        """Packs a range of the reduction, and accumulates its products."""
        code, product = self.code, self.product
        schedule = product.schedule
        kept = product.step_axis.fill(code, part.start, part.count, self._has_product)
        if product.image is not None:
            product.image.copy(code, self.tile, part.start, part.count)
            if product.conditions:
                product.image.keep_offsets(code, product.step_axis, part.start, kept)
        part = replace(part, count=kept, following=self._following(part))
        if product.tail_lines is not None:
            _when(code, self.is_last, lambda: self._copy_tail(part, cast(SSAValue, product.tail_lines)))
        if product.columns is not None:
            self._pack_columns(part)
        blocks = (self.row_count + (schedule.rows - 1)) // schedule.rows

        def row_block(number: Value) -> None:
            begin = first = number * schedule.rows
            if product.extents[1] % schedule.rows:
                first = begin.at_most(self.row_count - schedule.rows)
            if self.computed_before is not None:
                begin = begin.at_least(self.computed_before)
            computed = begin - first if begin is not first else None
            rows = _RowBlock(first, number if product.ranges > 1 else code.number(0), computed)
            if product.rows is not None:
                product.rows.pack(code, first, part.count, self._factor(product.factors.row, part, is_row=True))
            self._over_columns(rows, part)
            if not product.stores:
                _when(code, part.is_last, lambda: self._finish(rows))

        sequential(code, blocks, row_block)

    def _copy_tail(self, part: _Range, memory: SSAValue) -> None:
        """Copies the columns after the last whole block, each of which is multiplied along the reduction."""
        product, tail = self.product, self.product.tail
        assert product.image is not None and tail is not None
        for i in range(tail.filled):
            product.image.copy_column(self.code, self.tile, self.whole_count + i, part.count, memory, i * product.depth)

    # Factors

    def _has_product(self, steps: list[Value]) -> Value:
        """Returns whether the iteration at some indices of the reduction's loops has a product."""
        return self.product.has_product(self.code, self.tile.loops(self.code, [], []), steps)

    def _factor(self, value: SSAValue, part: _Range, is_row: bool) -> Factor:
        layout = self.product.layouts[value]
        kind = Factor if layout.run == 1 else Window
        return kind(self.tile, value, layout, part.start, is_row)

    def _pack_columns(self, part: _Range) -> None:
        """Packs the tile's columns for a range of the reduction.

        Neighbouring columns of an iteration are contiguous in the operand, so all of them are packed before the next.
        """
        code, product = self.code, self.product
        assert product.columns is not None
        panels, factor = product.columns, self._factor(product.factors.column, part, is_row=False)

        def pack_step(number: Value, block: _ColumnBlock) -> None:
            panels.pack_step(code, block.panel, block.columns, block.first, number, factor)

        def pack(block: _ColumnBlock) -> None:
            panels.pack(code, block.panel, block.columns, block.first, part.count, factor)

        if all(columns is None or panels.packs_steps(columns, factor) for columns in (product.whole, product.tail)):
            steps = panels.elements(part.count)
            sequential(code, steps, lambda number: self._each_block(partial(pack_step, number)))
        else:
            self._each_block(pack)

    def _following(self, part: _Range) -> Prefetch | None:
        """Returns the columns that are packed after a range: in the next one, or the first one of the next task."""
        code, column, zero = self.code, self.product.factors.column, self.code.number(0)
        lines = self.product.far_lines
        if lines is None or self.following is None:
            return None
        first = self.following._factor(column, replace(part, start=zero), is_row=False)
        memory, start = first.place(code, zero, zero)
        if part.is_last is not None:
            _, behind = self._factor(column, part, is_row=False).place(code, zero, part.count)
            start = code.select(part.is_last, start, behind)
        return Prefetch(lines, memory, start)

    def _each_block(self, body: Callable[[_ColumnBlock], None]) -> None:
        """Writes code for each block of the tile's columns."""
        code, product = self.code, self.product
        length, width = 0 if product.columns is None else product.columns.length, product.schedule.columns

        def whole(number: Value) -> None:
            first = number * width
            body(_ColumnBlock(product.whole, first, first * length, first))

        if product.extents[2] >= width:
            sequential(code, self.whole_count // width, whole)
        if product.tail is not None:
            tail = product.tail

            def behind() -> None:
                first = self.column_count - tail.filled
                body(_ColumnBlock(tail, first, self.whole_count * length, self.whole_count))

            _when(code, self.is_last, behind)

    # Products

    def _over_lines(self, blocks: LineBlocks) -> None:
        """Multiplies the only row with the windows of several lines at a time, and runs the epilogue on these."""
        code, product, zero = self.code, self.product, self.code.number(0)
        part = _Range(zero, code.number(product.steps))
        factor, steps = self._factor(product.factors.row, part, is_row=True), map(code.number, range(product.steps))
        if product.rows is None:
            elements = [factor.value(code, factor.at_row(code, zero), factor.at_step(code, step)) for step in steps]
        else:
            product.step_axis.fill(code, part.start, part.count, self._has_product)
            product.rows.pack(code, zero, part.count, factor)
            elements = [product.rows.element(code, 0, step) for step in steps]
        row = product.axes[0].indices(code, self.tile.first[0], zero)

        def finish(at: Value, column: list[Value]) -> None:
            self._finish_element(at, self.tile.loops(code, row, column))

        blocks.write(code, self.tile, self.column_count, elements, finish)

    def _over_columns(self, rows: _RowBlock, part: _Range) -> None:
        """Multiplies a block of rows with all columns of the tile."""

        def block(columns: _ColumnBlock) -> None:
            sums = self._summed(rows, columns, part)
            if not part.blocks:
                self._complete(rows, columns, sums)
            else:
                self._add(rows, columns, part.blocks, sums)

        self._each_block(block)

    def _complete(self, rows: _RowBlock, columns: _ColumnBlock, sums: Sequence[Value]) -> None:
        """Stores the complete sums of a register block: as results, or for the epilogue."""
        if self.product.stores:
            self._store(rows, columns, sums)
        else:
            self._keep(cast(SSAValue, self.product.sums), self._places(rows, columns, columns.first), sums)

    def _add(
        self,
        rows: _RowBlock,
        columns: _ColumnBlock,
        blocks: Sequence[_InBlock],
        sums: Sequence[Value],
    ) -> None:
        """Adds the sums of a range to those of its block; a complete block's to those of the block around it."""
        code = self.code
        block, *around = blocks
        places, kinds = self._places(rows, columns, columns.sums), self._kinds(columns)

        def with_earlier() -> list[Value]:
            earlier = [code.vector(block.sums, at, kind) for at, kind in zip(places, kinds, strict=True)]
            return [code.apply(arith.AddfOp, *both) for both in zip(earlier, sums, strict=True)]

        totals = code.choose(block.starts, kinds, lambda: sums, with_earlier)

        def ended() -> None:
            if around:
                self._add(rows, columns, around, totals)
            else:
                self._complete(rows, columns, totals)

        code.when(block.ends, ended, lambda: self._keep(block.sums, places, totals))

    def _kinds(self, columns: _ColumnBlock) -> list[VectorType[Attribute]]:
        """Returns the types of a register block's vectors."""
        product = self.product
        return [kind for _ in range(product.schedule.rows) for _, kind in columns.columns.parts(product.element)]

    def _places(self, rows: _RowBlock, columns: _ColumnBlock, first: Value) -> list[Value]:
        """Returns the positions of a register block's vectors in the memory for sums, its columns from `first` on."""
        product = self.product
        corner = rows.number * (product.schedule.rows * product.room) + first
        return [
            corner + (i * product.room + at)
            for i in range(product.schedule.rows)
            for at, _ in columns.columns.parts(product.element)
        ]

    def _keep(self, memory: SSAValue, places: Sequence[Value], sums: Sequence[Value]) -> None:
        """Stores sums in scratch memory."""
        for at, value in zip(places, sums, strict=True):
            self.code.put_vector(value, memory, at)

    def _store(self, rows: _RowBlock, columns: _ColumnBlock, sums: Sequence[Value]) -> None:
        """Stores sums as results, except in rows that another block computes."""
        code, product = self.code, self.product
        (output,), place = product.stage.outputs, maps_of(product.stage)[len(product.stage.inputs)]
        memory, parts = code.bindings[output].memory, columns.columns.parts(product.element)
        first_row, first_column = self.tile.first
        column = first_column + columns.first
        for i in range(product.schedule.rows):

            def line(i: int = i) -> None:
                row = first_row + (rows.first + i)
                loops = Loops((self.tile.rest, row, column), product.extents, product.expressions)
                at = code.position(place.results, output, loops)
                for (by, _), value in zip(parts, sums[i * len(parts) :], strict=False):
                    code.put_vector(value, memory, at + by)

            if rows.computed is None:
                line()
            else:
                code.when(code.number(i) >= rows.computed, line)

    def _summed(self, rows: _RowBlock, columns: _ColumnBlock, part: _Range) -> list[Value]:
        """Returns the sums of a register block over a range of the reduction."""
        code, product = self.code, self.product
        parts = columns.columns.parts(product.element)
        if product.step_vectors is not None:
            product.step_vectors.sum(code, part.count)
            return [code.vector(product.step_vectors.sums, columns.first + at, kind) for at, kind in parts]
        if product.line_sums is not None and (product.tail_lines is None or columns.columns is product.tail):
            return self._summed_along(rows, columns, part, product.line_sums)
        zero = code.constant(0.0, product.element).ssa
        zeros = [code.make(vector.BroadcastOp, (zero,), kind) for kind in self._kinds(columns)]
        row_factor = self._factor(product.factors.row, part, is_row=True)
        image = product.image
        column_factor = None if image is not None else self._factor(product.factors.column, part, is_row=False)
        indices = [row_factor.at_row(code, rows.first + i) for i in range(product.schedule.rows)]
        multiply, count = (_dot_pairs, pairs_of(part.count)) if product.schedule.pairs else (vector.FMAOp, part.count)

        def loaded(k: Value) -> list[Value]:
            if image is not None:
                return image.vectors(code, self.tile, columns.first, k, parts)
            if column_factor is not None and product.columns is None:
                return column_factor.vectors(code, columns.first, k, parts)
            assert product.columns is not None
            start = k * columns.columns.width
            at, memory = columns.panel + start, product.columns.packed
            packed = columns.columns.parts(element_of(memory))
            return [code.vector(memory, at + by, kind) for by, kind in packed]

        request = None
        if part.following is not None:
            block = rows.first // product.schedule.rows, columns.first // product.schedule.columns
            request = part.following.in_block(code, *block)

        def step(k: Value, sums: Sequence[Value]) -> list[Value]:
            if request is not None:
                request(k)
            # All rows use each vector and all vectors each row's element, so that few loads feed many products.
            vectors = loaded(k)
            at = [] if product.rows is not None else row_factor.at_step(code, k)
            values: list[Value] = []
            for i, row in enumerate(indices):
                factor = row_factor.value(code, row, at) if product.rows is None else product.rows.element(code, i, k)
                for value in vectors:
                    spread = code.make(vector.BroadcastOp, (factor.ssa,), value.type).ssa
                    multiplied = multiply(spread, value.ssa, sums[len(values)].ssa)
                    multiplied.location = product.stage.location  # the kernel's may be that of its epilogue
                    values.append(code.add(multiplied))
            return values

        return code.loop_to(count, zeros, step)

    def _summed_along(self, rows: _RowBlock, columns: _ColumnBlock, part: _Range, memory: SSAValue) -> list[Value]:
        """Returns the sums of a register block, of some of its columns at a time, with vectors along the reduction."""
        code, product, width = self.code, self.product, columns.columns.width
        schedule, kind = product.schedule, VectorType(product.element, [product.schedule.lanes])
        row_factor = self._factor(product.factors.row, part, is_row=True)
        column_factor = self._factor(product.factors.column, part, is_row=False) if product.image is None else None

        def row(i: int, step: Value) -> Value:
            if product.rows is not None:
                return code.vector(product.rows.memory, step + i * product.rows.pitch, kind)
            return row_factor.vectors(code, rows.first + i, step, [(0, kind)])[0]

        def column(at: Value, step: Value) -> Value:
            if column_factor is None:
                return code.vector(cast(SSAValue, product.tail_lines), at * product.depth + step, kind)
            return column_factor.vectors(code, columns.first + at, step, [(0, kind)])[0]

        at_once = math.gcd(schedule.along_steps or schedule.tail_along, width)
        lines = [partial(row, i) for i in range(schedule.rows)]

        def some(number: Value) -> None:
            first = number * at_once
            reads = [partial(column, first + i) for i in range(at_once)]
            behind = product.steps % schedule.lanes if product.ranges == 1 else 0
            totals = sums_along(code, lines, reads, part.count, behind, kind)
            self._keep(memory, [first + i * width for i in range(schedule.rows)], totals)

        sequential(code, code.number(width // at_once), some)
        places = [
            code.number(i * width + at)
            for i in range(schedule.rows)
            for at, _ in columns.columns.parts(product.element)
        ]
        return [code.vector(memory, at, kind) for at, kind in zip(places, self._kinds(columns), strict=True)]

    # Epilogue

    def _finish(self, rows: _RowBlock) -> None:
        """Runs the epilogue stages on a block of rows, and stores the results."""
        code, product = self.code, self.product
        beyond = product.extents[1] if product.is_even[0] else 0

        def line(i: Value) -> None:
            row = self._indices(0, rows.first + i)
            start = rows.number * (product.schedule.rows * product.room) + i * product.room

            def at(j: Value) -> None:
                loops = self.tile.loops(code, row, self._indices(1, j), max(product.finish_run, beyond))
                self._finish_element(start + j, loops)

            def run(low: Value, high: Value) -> None:
                origin = self._indices(1, low)

                def element(j: Value) -> None:
                    moved = j - low
                    column = [index + moved if k == product.inmost else index for k, index in enumerate(origin)]
                    loops = self.tile.loops(code, row, column, max(product.finish_run, beyond))
                    self._finish_element(start + j, loops)

                parallel(code, high, low, element, is_masked=product.extents[2] < SHORT_LINE)

            if product.in_lines and product.image is not None:
                product.image.over_lines(
                    code,
                    self.tile,
                    self.column_count,
                    lambda j, column: self._finish_element(start + j, self.tile.loops(code, row, column, beyond)),
                )
            elif product.finish_run < LEAST_RUN:
                parallel(code, self.column_count, None, at, is_masked=product.extents[2] < SHORT_LINE)
            else:
                over_runs(code, self.tile.first[1], self.column_count, product.extents[2], product.finish_run, run)

        sequential(code, code.number(product.schedule.rows), line, start=rows.computed)

    def _indices(self, side: int, at: Value) -> list[Value]:
        """Returns the indices of the loops of a row (or column): of the innermost alone if results are evenly apart."""
        product, first = self.product, self.tile.first[side]
        if not product.is_even[side]:
            return product.axes[side].indices(self.code, first, at)
        loops = self.tile.sides[side]
        inmost = product.inmost_of(loops)
        return [first + at if k == inmost else self.code.number(0) for k in range(len(loops))]

    def _finish_element(self, at: Value, loops: Loops) -> None:
        """Runs the epilogue stages for one element, given the position of its sum in scratch memory."""
        code, product = self.code, self.product
        assert product.sums is not None
        known: dict[SSAValue, Value] = {product.stage.outputs[0]: code.element(product.sums, at)}
        for stage in product.kernel.stages:
            is_sum = stage is product.stage
            values = [known[stage.outputs[0]]] if is_sum else stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            store_outputs(product.kernel, stage, code, loops, values)


def _dot_pairs(lhs: SSAValue, rhs: SSAValue, sums: SSAValue) -> cpu.DotPairsOp:
    """Returns the op that adds products of pairs, with operands in the order of `vector.fma`."""
    return cpu.DotPairsOp(sums, lhs, rhs)


def _count(code: Code, start: Value, extent: int, most: int) -> Value:
    """Returns how many of `extent` are left from `start` on, at most `most`."""
    if extent % most == 0:
        return code.number(most)
    if extent < most:
        return code.number(extent)
    return (extent - start).at_most(most)


def _when(
    code: Code, condition: Value | None, body: Callable[[], None], otherwise: Callable[[], None] | None = None
) -> None:
    """Writes `body` under a condition, and `otherwise` under its negation; just `body` without a condition."""
    if condition is None:
        body()
    else:
        code.when(condition, body, otherwise)
