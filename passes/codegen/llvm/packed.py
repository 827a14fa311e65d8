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
from xdsl.dialects.builtin import VectorType, i32
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses.axes import grid_of_sides, needed_for
from tensorgrad.passes.analyses.factors import factors_of, result_stride, step_conditions
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.windows import Place, plain_place, run_along
from tensorgrad.passes.codegen.common.blocked_sums import MOST_BLOCKS, block_widths
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_op, stage_values, store_outputs
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.factors import LEAST_RUN, Axis, Factor, Layout, Tile, Window, over_runs
from tensorgrad.passes.codegen.llvm.loops import new_array, parallel
from tensorgrad.passes.codegen.llvm.packing import LEAST_LANES, Columns, Lines, Panels, sequential
from tensorgrad.passes.scalars import Value


def write_packed(kernel: KernelOp, schedule: PackedSchedule, code: Code, first: Value, last: Value) -> None:
    """Writes a loop over the tasks in [`first`, `last`).

    Raises:
        DiagnosticException: The kernel is not a sum of products of rows and columns.
    """
    product = Product(kernel, schedule, code.block)
    sequential(code, last, lambda task: product.write(code, task), start=first)


@dataclass(frozen=True)
class _Range:
    """A range of the reduction.

    Attributes:
        start: Its first iteration.
        count: The number of iterations.
        blocks: Its place in the block of ranges that are added one after another, in the block of blocks, and so on;
            none if it is the only range.
    """

    start: Value
    count: Value
    blocks: tuple[_InBlock, ...] = ()

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


class Product:
    """The code of a task: a tile of results.

    For each range of the reduction, the tile's columns are packed; then, row block by row block, its rows, which are
    multiplied with all columns, one register block at a time. After the last range, the epilogue runs over each row
    block. Until then sums are in scratch memory, unless they are the results: those are stored directly. The sums of
    many ranges are added in blocks of ranges (see `blocked_sums`), each level of which has its own memory.
    """

    def __init__(self, kernel: KernelOp, schedule: PackedSchedule, top: Block):
        stage = contraction_of(kernel)
        factors = None if stage is None else factors_of(stage, schedule.row, schedule.column)
        if stage is None or factors is None:
            raise DiagnosticException(
                f"the kernel at {line_of(kernel.location)} does not sum products of rows and columns, but is scheduled "
                "as packed"
            )
        self.kernel, self.stage, self.factors, self.schedule = kernel, stage, factors, schedule
        self.element = element_of(stage.outputs[0])
        grid, own = kernel.extents, loop_extents(stage)[len(kernel.extents) :]
        self.own, self.steps = own, math.prod(own)
        self.depth = min(schedule.depth, self.steps)
        self.ranges = -(-self.steps // self.depth)
        self.extents, self.expressions = grid_of_sides(kernel.extents, schedule.row, schedule.column)
        self.conditions = step_conditions(stage, factors, (*schedule.row, *schedule.column))
        skips = bool(self.conditions)
        self.layouts = {
            value: Layout.of(stage, value, grid, schedule.row, schedule.column, skips)
            for value in (factors.row, factors.column)
        }
        columns = self.extents[2]
        self.tail = Columns.behind(columns, schedule.columns, schedule.lanes)
        self.whole = Columns((schedule.lanes,) * (schedule.columns // schedule.lanes), schedule.columns)
        self.is_cut = self.tail is not None and self.tail.filled < self.tail.width
        if schedule.direct_columns and (self.is_cut or not self.layouts[factors.column].in_vectors):
            raise DiagnosticException(
                f"the kernel at {line_of(kernel.location)} is scheduled to read columns in place, but they are not "
                "contiguous in memory, or fewer than the elements of a vector"
            )
        self.room = schedule.tile_columns + (self.tail.width if self.tail is not None else 0)
        self.stores = self._stores_sums()
        self.rows = None if schedule.direct_rows else self._lines(top)
        self.columns = None if schedule.direct_columns else self._panels(top)
        held = schedule.rows if self.ranges == 1 else schedule.tile_rows
        self.sums = None if self.stores and self.ranges == 1 else self._array(top, held * self.room)
        self.widths = block_widths(self.ranges, 1, MOST_BLOCKS)
        self.sums_of_blocks = [self._array(top, held * self.room) for _ in self.widths]
        array = partial(new_array, top, i32)
        self.axes = (
            Axis([grid[loop] for loop in schedule.row], schedule.tile_rows, array),
            Axis([grid[loop] for loop in schedule.column], self.room, array),
        )
        self.step_axis = Axis(own, self.depth, array, self._has_product if skips else None)
        self.finish_run = self._run_of_results()

    def _array(self, top: Block, extent: int) -> SSAValue:
        return new_array(top, self.element, extent)

    def _stores_sums(self) -> bool:
        """Returns whether the sums are the results, and vectors of them are contiguous there."""
        if len(self.kernel.stages) > 1 or self.is_cut:
            return False
        place, schedule = maps_of(self.stage)[len(self.stage.inputs)], self.schedule
        (output,) = self.stage.outputs
        return result_stride(output, place, self.kernel.extents, schedule.row, schedule.column) == 1

    def _panels(self, top: Block) -> Panels:
        """Allocates the memory for packed columns."""
        lanes, layout = self.schedule.lanes, self.layouts[self.factors.column]
        squares = layout.along_steps and lanes >= LEAST_LANES
        depth = -(-self.depth // lanes) * lanes if squares else self.depth
        shortest = self.steps - (self.ranges - 1) * self.depth
        lies_in_lines = layout.in_lines and shortest >= lanes and not self.is_cut
        lines = self._array(top, lanes * depth) if squares and not lies_in_lines else None
        return Panels(self._array(top, self.room * depth), self.element, lanes, depth, squares, lines)

    def _lines(self, top: Block) -> Lines:
        """Allocates the memory for a packed block of rows."""
        pitch = self.depth if self.layouts[self.factors.row].along_steps else 0
        return Lines(self._array(top, self.schedule.rows * self.depth), self.schedule.rows, pitch)

    def write(self, code: Code, task: Value) -> None:
        """Writes one task."""
        schedule = self.schedule
        _, rows, columns = self.extents
        down, across = schedule.tiles_over(self.kernel.extents)
        column_tile = task % across if across > 1 else code.number(0)
        above = task // across
        row_tile = above % down if down > 1 else code.number(0)
        rest = above // down
        begin = row_tile * schedule.tile_rows
        first_row = begin
        if rows % schedule.tile_rows % schedule.rows != 0 and rows % schedule.tile_rows < schedule.rows:
            first_row = begin.at_most(rows - schedule.rows)
        first_column = column_tile * schedule.tile_columns
        self.computed_before = begin - first_row if first_row is not begin else None
        self.row_count = _count(code, first_row, rows, schedule.tile_rows)
        self.is_last = None if across == 1 else column_tile.equals(across - 1)
        whole = columns // schedule.columns * schedule.columns
        self.whole_count = _count(code, first_column, whole, schedule.tile_columns) if whole else code.number(0)
        self.column_count = self.whole_count
        if self.tail is not None:
            all_columns = self.whole_count + (columns - whole)
            self.column_count = self._where_last(code, all_columns, self.whole_count)
        self.tile = Tile(
            self.stage,
            self.kernel.extents,
            (schedule.row, schedule.column),
            self.own,
            self.extents,
            self.expressions,
            rest,
            (first_row, first_column),
            self.axes,
            self.step_axis,
        )
        for axis, first, count in zip(self.axes, self.tile.first, (self.row_count, self.column_count), strict=True):
            axis.fill(code, first, count)
        if self.ranges == 1:
            self._range(code, _Range(code.number(0), code.number(self.steps)))
        else:
            sequential(code, code.number(self.ranges), lambda number: self._numbered(code, number))

    def _where_last(self, code: Code, last: Value, other: Value) -> Value:
        """Returns `last` in the last tile along the columns, and `other` in all others."""
        return last if self.is_last is None else code.select(self.is_last, last, other)

    def _numbered(self, code: Code, number: Value) -> None:
        """Writes the range with the given index."""
        start = number * self.depth
        blocks, within = list[_InBlock](), 1
        is_last = number.equals(self.ranges - 1)
        for width, sums in zip(self.widths, (self.sums, *self.sums_of_blocks), strict=False):
            place = number % width
            ends = place.equals(width - 1) | is_last
            blocks.append(_InBlock(place < within, ends, cast(SSAValue, sums)))
            within = width
        last = self.sums_of_blocks[-1] if self.widths else self.sums
        blocks.append(_InBlock(number < within, is_last, cast(SSAValue, last)))
        self._range(code, _Range(start, _count(code, start, self.steps, self.depth), tuple(blocks)))

    def _range(self, code: Code, part: _Range) -> None:
        """Packs a range of the reduction, and accumulates its products."""
        schedule = self.schedule
        part = replace(part, count=self.step_axis.fill(code, part.start, part.count))
        if self.columns is not None:
            self._pack_columns(code, part)
        blocks = (self.row_count + (schedule.rows - 1)) // schedule.rows

        def row_block(number: Value) -> None:
            begin = first = number * schedule.rows
            if self.extents[1] % schedule.rows:
                first = begin.at_most(self.row_count - schedule.rows)
            if self.computed_before is not None:
                begin = begin.at_least(self.computed_before)
            computed = begin - first if begin is not first else None
            rows = _RowBlock(first, number if self.ranges > 1 else code.number(0), computed)
            if self.rows is not None:
                self.rows.pack(code, first, part.count, self._factor(self.factors.row, part, is_row=True))
            self._over_columns(code, rows, part)
            if not self.stores:
                _when(code, part.is_last, lambda: self._finish(code, rows))

        sequential(code, blocks, row_block)

    # Factors

    def _has_product(self, code: Code, steps: list[Value]) -> Value:
        """Returns whether the iteration at some indices of the reduction's loops has a product."""
        known: dict[SSAValue, SSAValue] = {}
        needed, loops = needed_for(self.conditions), self.tile.loops(code, [], []).with_own(steps, self.own)
        for op in self.stage.body.block.ops:
            if any(result in needed for result in op.results):
                clone_op(code, op, known, loops)
        result = code.value(known[self.conditions[0]])
        for condition in self.conditions[1:]:
            result = result & code.value(known[condition])
        return result

    def _factor(self, value: SSAValue, part: _Range, is_row: bool) -> Factor:
        layout = self.layouts[value]
        kind = Factor if layout.run == 1 else Window
        return kind(self.tile, value, layout, part.start, is_row)

    def _pack_columns(self, code: Code, part: _Range) -> None:
        """Packs the tile's columns for a range of the reduction."""
        assert self.columns is not None
        panels, factor = self.columns, self._factor(self.factors.column, part, is_row=False)

        def pack(block: _ColumnBlock) -> None:
            panels.pack(code, block.panel, block.columns, block.first, part.count, factor)

        self._each_block(code, pack)

    def _each_block(self, code: Code, body: Callable[[_ColumnBlock], None]) -> None:
        """Writes code for each block of the tile's columns."""
        depth, width = 0 if self.columns is None else self.columns.depth, self.schedule.columns

        def whole(number: Value) -> None:
            first = number * width
            body(_ColumnBlock(self.whole, first, first * depth, first))

        if self.extents[2] >= width:
            sequential(code, self.whole_count // width, whole)
        if self.tail is not None:
            tail = self.tail

            def behind() -> None:
                first = self.column_count - tail.filled
                body(_ColumnBlock(tail, first, self.whole_count * depth, self.whole_count))

            _when(code, self.is_last, behind)

    # Products

    def _over_columns(self, code: Code, rows: _RowBlock, part: _Range) -> None:
        """Multiplies a block of rows with all columns of the tile."""

        def block(columns: _ColumnBlock) -> None:
            sums = self._summed(code, rows, columns, part)
            if not part.blocks:
                self._complete(code, rows, columns, sums)
            else:
                self._add(code, rows, columns, part.blocks, sums)

        self._each_block(code, block)

    def _complete(self, code: Code, rows: _RowBlock, columns: _ColumnBlock, sums: Sequence[Value]) -> None:
        """Stores the complete sums of a register block: as results, or for the epilogue."""
        if self.stores:
            self._store(code, rows, columns, sums)
        else:
            self._keep(code, cast(SSAValue, self.sums), self._places(rows, columns, columns.first), sums)

    def _add(
        self,
        code: Code,
        rows: _RowBlock,
        columns: _ColumnBlock,
        blocks: Sequence[_InBlock],
        sums: Sequence[Value],
    ) -> None:
        """Adds the sums of a range to those of its block; a complete block's to those of the block around it."""
        block, *around = blocks
        places, kinds = self._places(rows, columns, columns.sums), self._kinds(columns)

        def with_earlier() -> list[Value]:
            earlier = [code.vector(block.sums, at, kind) for at, kind in zip(places, kinds, strict=True)]
            return [code.apply(arith.AddfOp, *both) for both in zip(earlier, sums, strict=True)]

        totals = code.choose(block.starts, kinds, lambda: sums, with_earlier)

        def ended() -> None:
            if around:
                self._add(code, rows, columns, around, totals)
            else:
                self._complete(code, rows, columns, totals)

        code.when(block.ends, ended, lambda: self._keep(code, block.sums, places, totals))

    def _kinds(self, columns: _ColumnBlock) -> list[VectorType[Attribute]]:
        """Returns the types of a register block's vectors."""
        return [kind for _ in range(self.schedule.rows) for _, kind in columns.columns.parts(self.element)]

    def _places(self, rows: _RowBlock, columns: _ColumnBlock, first: Value) -> list[Value]:
        """Returns the positions of a register block's vectors in the memory for sums, its columns from `first` on."""
        corner = rows.number * (self.schedule.rows * self.room) + first
        return [
            corner + (i * self.room + at)
            for i in range(self.schedule.rows)
            for at, _ in columns.columns.parts(self.element)
        ]

    @staticmethod
    def _keep(code: Code, memory: SSAValue, places: Sequence[Value], sums: Sequence[Value]) -> None:
        """Stores sums in scratch memory."""
        for at, value in zip(places, sums, strict=True):
            code.put_vector(value, memory, at)

    def _store(self, code: Code, rows: _RowBlock, columns: _ColumnBlock, sums: Sequence[Value]) -> None:
        """Stores sums as results, except in rows that another block computes."""
        (output,), place = self.stage.outputs, maps_of(self.stage)[len(self.stage.inputs)]
        memory, parts = code.bindings[output].memory, columns.columns.parts(self.element)
        first_row, first_column = self.tile.first
        column = first_column + columns.first
        for i in range(self.schedule.rows):

            def line(i: int = i) -> None:
                row = first_row + (rows.first + i)
                loops = Loops((self.tile.rest, row, column), self.extents, self.expressions)
                at = code.position(place.results, output, loops)
                for (by, _), value in zip(parts, sums[i * len(parts) :], strict=False):
                    code.put_vector(value, memory, at + by)

            if rows.computed is None:
                line()
            else:
                code.when(code.number(i) >= rows.computed, line)

    def _summed(self, code: Code, rows: _RowBlock, columns: _ColumnBlock, part: _Range) -> list[Value]:
        """Returns the sums of a register block over a range of the reduction."""
        parts = columns.columns.parts(self.element)
        zero = code.constant(0.0, self.element).ssa
        zeros = [code.add(vector.BroadcastOp(zero, kind)) for kind in self._kinds(columns)]
        row_factor = self._factor(self.factors.row, part, is_row=True)
        column_factor = self._factor(self.factors.column, part, is_row=False)
        indices = [row_factor.at_row(code, rows.first + i) for i in range(self.schedule.rows)]

        def loaded(k: Value) -> list[Value]:
            if self.columns is None:
                return column_factor.vectors(code, columns.first, k, parts)
            start = k * columns.columns.width
            at, memory = columns.panel + start, self.columns.memory
            return [code.vector(memory, at + by, kind) for by, kind in parts]

        def step(k: Value, sums: Sequence[Value]) -> list[Value]:
            vectors = loaded(k)
            at = [] if self.rows is not None else row_factor.at_step(code, k)
            found: list[Value] = []
            for i, row in enumerate(indices):
                one = row_factor.value(code, row, at) if self.rows is None else self.rows.element(code, i, k)
                for (_, kind), value in zip(parts, vectors, strict=True):
                    spread = code.add(vector.BroadcastOp(one.ssa, kind)).ssa
                    found.append(code.add(vector.FMAOp(spread, value.ssa, sums[len(found)].ssa)))
            return found

        return code.loop_to(part.count, zeros, step)

    # Epilogue

    def _finish(self, code: Code, rows: _RowBlock) -> None:
        """Runs the epilogue stages on a block of rows, and stores the results."""

        def line(i: Value) -> None:
            row = self.axes[0].indices(code, self.tile.first[0], rows.first + i)
            start = rows.number * (self.schedule.rows * self.room) + i * self.room

            def at(j: Value) -> None:
                column = self.axes[1].indices(code, self.tile.first[1], j)
                self._finish_element(code, start + j, self.tile.loops(code, row, column))

            def run(low: Value, high: Value) -> None:
                origin = self.axes[1].indices(code, self.tile.first[1], low)

                def element(j: Value) -> None:
                    moved = j - low
                    column = [one + moved if k == inmost else one for k, one in enumerate(origin)]
                    loops = self.tile.loops(code, row, column, self.finish_run)
                    self._finish_element(code, start + j, loops)

                parallel(code, high, low, element)

            if self.finish_run < LEAST_RUN:
                parallel(code, self.column_count, None, at, is_short=self.extents[2] < self.whole.width)
            else:
                over_runs(code, self.tile.first[1], self.column_count, self.extents[2], self.finish_run, run)

        inmost = max((k for k, loop in enumerate(self.schedule.column) if self.kernel.extents[loop] > 1), default=0)
        sequential(code, code.number(self.schedule.rows), line, start=rows.computed)

    def _finish_element(self, code: Code, at: Value, loops: Loops) -> None:
        """Runs the epilogue stages for one element, given the position of its sum in scratch memory."""
        assert self.sums is not None
        known: dict[SSAValue, Value] = {self.stage.outputs[0]: code.element(self.sums, at)}
        for stage in self.kernel.stages:
            is_sum = stage is self.stage
            values = [known[stage.outputs[0]]] if is_sum else stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            store_outputs(self.kernel, stage, code, loops, values)

    def _run_of_results(self) -> int:
        """Returns for how many neighbouring columns everything that `_finish` reads and writes has constant strides.

        If columns are one loop, no run is needed to see that. Within a run, an index may exceed its loop if neighbours
        are contiguous.
        """
        column, places = self.schedule.column, list[Place | None]()
        if not self.axes[1].is_looked_up:
            return 1
        extents = [extent + (self.extents[2] if i in column else 0) for i, extent in enumerate(self.kernel.extents)]
        for stage in self.kernel.stages:
            maps, count = maps_of(stage), len(stage.inputs)
            if stage is not self.stage:
                if any(isinstance(op, IndexOp) for op in stage.body.walk()):
                    return 1
                reads = zip(stage.inputs, maps[:count], strict=True)
                places += [plain_place(one, m, extents) for one, m in reads if not is_shape_only(one)]
            writes = zip(stage.outputs, maps[count:], strict=True)
            places += [plain_place(one, m, extents) for one, m in writes if one in self.kernel.output_arguments]
        found = [place for place in places if place is not None]
        if len(found) < len(places):
            return 1
        inmost = next(extent for loop in reversed(column) if (extent := self.kernel.extents[loop]) > 1)
        return max(run_along(found, column, [self.kernel.extents[loop] for loop in column]), inmost)


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
