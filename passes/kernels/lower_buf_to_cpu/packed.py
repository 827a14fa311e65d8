"""Writes kernels of the archetype `packed`: a matrix product in register blocks, of packed operands as in

K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008);
F. Van Zee, R. van de Geijn: BLIS: A Framework for Rapidly Instantiating BLAS Functionality (ACM TOMS 41, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import i32
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses.axes import grid_of_sides
from tensorgrad.passes.analyses.factors import factors_of, result_stride
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.windows import Place, plain_place, run_along
from tensorgrad.passes.kernels.lower_buf_to_cpu.factors import LEAST_RUN, Axis, Factor, Layout, Tile, Window, over_runs
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import new_array, parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import LEAST_LANES, Columns, Lines, Panels, sequential
from tensorgrad.passes.kernels.writing.emission import (
    Code,
    Loops,
    stage_values,
    store_outputs,
)


def write_packed(kernel: KernelOp, schedule: PackedSchedule, code: Code, first: SSAValue, last: SSAValue) -> None:
    """Writes a loop over the tasks from `first` up to `last`.

    Raises:
        DiagnosticException: The kernel does not sum products of rows and columns.
    """
    product = Product(kernel, schedule, code.block)

    def task(inner: Code, at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        product.write(inner, at)
        return []

    code.loop_to(last, [], task, start=first)


@dataclass(frozen=True)
class _Range:
    """A range of the reduction.

    Attributes:
        start: Its first iteration.
        count: How many it has.
        is_first: Whether it is the first one; none where there is no other.
        is_last: Whether it is the last one; none where there is no other.
    """

    start: SSAValue
    count: SSAValue
    is_first: SSAValue | None = None
    is_last: SSAValue | None = None


@dataclass(frozen=True)
class _RowBlock:
    """A block of rows in registers.

    Attributes:
        first: The first one, from the tile's on.
        number: Which block it is in the memory for sums.
        computed: How many of them another block computes; none where that is none of them in any block.
    """

    first: SSAValue
    number: SSAValue
    computed: SSAValue | None


@dataclass(frozen=True)
class _ColumnBlock:
    """A block of columns in registers.

    Attributes:
        columns: Its vectors.
        first: The first one, from the tile's on.
        panel: Where it is packed.
        sums: Where its sums over earlier ranges are in a row of the memory for sums. What is behind the last whole
            block shares columns with that one, so that its sums are apart until they are complete.
    """

    columns: Columns
    first: SSAValue
    panel: SSAValue
    sums: SSAValue


class Product:
    """The code of a task: a tile of results.

    For each range of the reduction, the tile's columns are packed; then, row block by row block, its rows, which are
    multiplied with all columns, a block in registers at a time. What follows the sum runs over each row block behind
    the last range. Sums are in scratch memory until then, unless they are the results: these are stored at once.
    """

    def __init__(self, kernel: KernelOp, schedule: PackedSchedule, top: Block):
        stage = contraction_of(kernel)
        factors = None if stage is None else factors_of(stage, schedule.row, schedule.column)
        if stage is None or factors is None:
            raise DiagnosticException(
                f"the kernel at {kernel.location} does not sum products of rows and columns, but is scheduled as packed"
            )
        self.kernel, self.stage, self.factors, self.schedule = kernel, stage, factors, schedule
        self.element = element_of(stage.outputs[0])
        grid, own = kernel.extents, loop_extents(stage)[len(kernel.extents) :]
        self.own, self.steps = own, math.prod(own)
        self.depth = min(schedule.depth, self.steps)
        self.ranges = -(-self.steps // self.depth)
        self.extents, self.expressions = grid_of_sides(kernel.extents, schedule.row, schedule.column)
        self.layouts = {
            value: Layout.of(stage, value, grid, schedule.row, schedule.column)
            for value in (factors.row, factors.column)
        }
        columns = self.extents[2]
        self.tail = Columns.behind(columns, schedule.columns, schedule.lanes)
        self.whole = Columns((schedule.lanes,) * (schedule.columns // schedule.lanes), schedule.columns)
        self.is_cut = self.tail is not None and self.tail.filled < self.tail.width
        if schedule.direct_columns and (self.is_cut or not self.layouts[factors.column].in_vectors):
            raise DiagnosticException(
                f"the kernel at {kernel.location} is scheduled to read columns in place, but they are no neighbours in "
                "memory, or fewer than vectors have elements"
            )
        self.room = schedule.tile_columns + (self.tail.width if self.tail is not None else 0)
        self.stores = self._stores_sums()
        self.rows = None if schedule.direct_rows else self._lines(top)
        self.columns = None if schedule.direct_columns else self._panels(top)
        held = schedule.rows if self.ranges == 1 else schedule.tile_rows
        self.sums = None if self.stores and self.ranges == 1 else self._array(top, held * self.room)
        array = partial(new_array, top, i32)
        self.axes = (
            Axis([grid[loop] for loop in schedule.row], schedule.tile_rows, array),
            Axis([grid[loop] for loop in schedule.column], self.room, array),
        )
        self.step_axis = Axis(own, self.depth, array)
        self.finish_run = self._run_of_results()

    def _array(self, top: Block, extent: int) -> SSAValue:
        return new_array(top, self.element, extent)

    def _stores_sums(self) -> bool:
        """Returns whether the sums are the results, and vectors of them lie in the results."""
        if len(self.kernel.stages) > 1 or self.is_cut:
            return False
        place, schedule = maps_of(self.stage)[len(self.stage.inputs)], self.schedule
        (output,) = self.stage.outputs
        return result_stride(output, place, self.kernel.extents, schedule.row, schedule.column) == 1

    def _panels(self, top: Block) -> Panels:
        """Returns the memory of packed columns."""
        lanes, layout = self.schedule.lanes, self.layouts[self.factors.column]
        squares = layout.along_steps and lanes >= LEAST_LANES
        depth = -(-self.depth // lanes) * lanes if squares else self.depth
        shortest = self.steps - (self.ranges - 1) * self.depth
        lies_in_lines = layout.in_lines and shortest >= lanes and not self.is_cut
        lines = self._array(top, lanes * depth) if squares and not lies_in_lines else None
        return Panels(self._array(top, self.room * depth), self.element, lanes, depth, squares, lines)

    def _lines(self, top: Block) -> Lines:
        """Returns the memory of a packed block of rows."""
        pitch = self.depth if self.layouts[self.factors.row].along_steps else 0
        return Lines(self._array(top, self.schedule.rows * self.depth), self.schedule.rows, pitch)

    def write(self, code: Code, task: SSAValue) -> None:
        """Writes one task."""
        schedule = self.schedule
        _, rows, columns = self.extents
        down, across = schedule.tiles_over(self.kernel.extents)
        column_tile = code.index_op(arith.RemUIOp, task, across) if across > 1 else code.number(0)
        above = code.index_op(arith.DivUIOp, task, across)
        row_tile = code.index_op(arith.RemUIOp, above, down) if down > 1 else code.number(0)
        rest = code.index_op(arith.DivUIOp, above, down)
        begin = code.index_op(arith.MuliOp, row_tile, schedule.tile_rows)
        first_row = begin
        if rows % schedule.tile_rows % schedule.rows != 0 and rows % schedule.tile_rows < schedule.rows:
            first_row = code.index_op(arith.MinUIOp, begin, code.number(rows - schedule.rows))
        first_column = code.index_op(arith.MuliOp, column_tile, schedule.tile_columns)
        self.computed_before = code.index_op(arith.SubiOp, begin, first_row) if first_row is not begin else None
        self.row_count = _count(code, first_row, rows, schedule.tile_rows)
        self.is_last = None if across == 1 else code.add(arith.CmpiOp(column_tile, code.number(across - 1), "eq"))
        whole = columns // schedule.columns * schedule.columns
        self.whole_count = _count(code, first_column, whole, schedule.tile_columns) if whole else code.number(0)
        self.column_count = self.whole_count
        if self.tail is not None:
            all_columns = code.index_op(arith.AddiOp, self.whole_count, columns - whole)
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
            code.loop(self.ranges, [], self._ranges)

    def _where_last(self, code: Code, last: SSAValue, other: SSAValue) -> SSAValue:
        """Returns a value for the last tile along the columns, and one for all others."""
        return last if self.is_last is None else code.add(arith.SelectOp(self.is_last, last, other))

    def _ranges(self, code: Code, number: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        start = code.index_op(arith.MuliOp, number, self.depth)
        is_first, is_last = (code.add(arith.CmpiOp(number, code.number(one), "eq")) for one in (0, self.ranges - 1))
        self._range(code, _Range(start, _count(code, start, self.steps, self.depth), is_first, is_last))
        return []

    def _range(self, code: Code, part: _Range) -> None:
        """Packs a range of the reduction, and multiplies it."""
        schedule = self.schedule
        self.step_axis.fill(code, part.start, part.count)
        if self.columns is not None:
            self._pack_columns(code, part)
        blocks = code.index_op(
            arith.DivUIOp, code.index_op(arith.AddiOp, self.row_count, schedule.rows - 1), schedule.rows
        )

        def row_block(inner: Code, number: SSAValue) -> None:
            begin = first = inner.index_op(arith.MuliOp, number, schedule.rows)
            if self.extents[1] % schedule.rows:
                last = inner.index_op(arith.SubiOp, self.row_count, schedule.rows)
                first = inner.index_op(arith.MinUIOp, begin, last)
            if self.computed_before is not None:
                begin = inner.index_op(arith.MaxUIOp, begin, self.computed_before)
            computed = inner.index_op(arith.SubiOp, begin, first) if begin is not first else None
            rows = _RowBlock(first, number if self.ranges > 1 else inner.number(0), computed)
            if self.rows is not None:
                self.rows.pack(inner, first, part.count, self._factor(self.factors.row, part, is_row=True))
            self._over_columns(inner, rows, part)
            if not self.stores:
                _when(inner, part.is_last, lambda c: self._finish(c, rows))

        sequential(code, blocks, row_block)

    # Factors

    def _factor(self, value: SSAValue, part: _Range, is_row: bool) -> Factor:
        layout = self.layouts[value]
        kind = Factor if layout.run == 1 else Window
        return kind(self.tile, value, layout, part.start, is_row)

    def _whole_panels(self, code: Code) -> SSAValue:
        """Returns how many whole blocks of columns the tile has."""
        return code.index_op(arith.DivUIOp, self.whole_count, self.schedule.columns)

    def _pack_columns(self, code: Code, part: _Range) -> None:
        """Packs the tile's columns for a range of the reduction."""
        assert self.columns is not None
        panels, factor = self.columns, self._factor(self.factors.column, part, is_row=False)

        def pack(inner: Code, block: _ColumnBlock) -> None:
            panels.pack(inner, block.panel, block.columns, block.first, part.count, factor)

        self._each_block(code, pack)

    def _each_block(self, code: Code, body: Callable[[Code, _ColumnBlock], None]) -> None:
        """Writes code for each block of the tile's columns."""
        depth, width = 0 if self.columns is None else self.columns.depth, self.schedule.columns

        def whole(inner: Code, number: SSAValue) -> None:
            first = inner.index_op(arith.MuliOp, number, width)
            body(inner, _ColumnBlock(self.whole, first, inner.index_op(arith.MuliOp, first, depth), first))

        if self.extents[2] >= width:
            sequential(code, self._whole_panels(code), whole)
        if self.tail is not None:
            tail = self.tail

            def behind(inner: Code) -> None:
                first = inner.index_op(arith.SubiOp, self.column_count, tail.filled)
                panel = inner.index_op(arith.MuliOp, self.whole_count, depth)
                body(inner, _ColumnBlock(tail, first, panel, self.whole_count))

            _when(code, self.is_last, behind)

    # Products

    def _over_columns(self, code: Code, rows: _RowBlock, part: _Range) -> None:
        """Multiplies a block of rows with all columns of the tile."""

        def block(inner: Code, columns: _ColumnBlock) -> None:
            sums = self._summed(inner, rows, columns, part, self._started(inner, rows, columns, part))
            if self.stores:
                _choose(
                    inner,
                    part.is_last,
                    lambda c: self._store(c, rows, columns, sums),
                    lambda c: self._keep(c, rows, columns, columns.sums, sums),
                )
            else:
                at = columns.first
                if part.is_last is not None:
                    at = inner.add(arith.SelectOp(part.is_last, columns.first, columns.sums))
                self._keep(inner, rows, columns, at, sums)

        self._each_block(code, block)

    def _started(self, code: Code, rows: _RowBlock, columns: _ColumnBlock, part: _Range) -> list[SSAValue]:
        """Returns what the sums of a register block start from: those over earlier ranges."""
        kinds = [kind for _ in range(self.schedule.rows) for _, kind in columns.columns.parts(self.element)]

        def zeros(inner: Code) -> list[SSAValue]:
            return [inner.add(vector.BroadcastOp(inner.scalar(0.0, self.element), kind)) for kind in kinds]

        if part.is_first is None or self.sums is None:
            return zeros(code)
        memory, branches = self.sums, [Block(), Block()]
        first, later = (code.inside(block) for block in branches)
        branches[0].add_op(scf.YieldOp(*zeros(first)))
        places = self._places(later, rows, columns, columns.sums)
        held = [later.add(vector.LoadOp(memory, [at], kind)) for at, kind in zip(places, kinds, strict=True)]
        branches[1].add_op(scf.YieldOp(*held))
        op = scf.IfOp(part.is_first, kinds, Region(branches[0]), Region(branches[1]))
        code.block.add_op(op)
        return list(op.results)

    def _places(self, code: Code, rows: _RowBlock, columns: _ColumnBlock, first: SSAValue) -> list[SSAValue]:
        """Returns where vectors of a register block are in the memory for sums, its columns from `first` on."""
        above = code.index_op(arith.MuliOp, rows.number, self.schedule.rows * self.room)
        corner = code.index_op(arith.AddiOp, above, first)
        return [
            code.index_op(arith.AddiOp, corner, i * self.room + at)
            for i in range(self.schedule.rows)
            for at, _ in columns.columns.parts(self.element)
        ]

    def _keep(
        self, code: Code, rows: _RowBlock, columns: _ColumnBlock, first: SSAValue, sums: Sequence[SSAValue]
    ) -> None:
        """Stores sums in the memory for them."""
        assert self.sums is not None
        for at, value in zip(self._places(code, rows, columns, first), sums, strict=True):
            code.block.add_op(vector.StoreOp(value, self.sums, [at]))

    def _store(self, code: Code, rows: _RowBlock, columns: _ColumnBlock, sums: Sequence[SSAValue]) -> None:
        """Stores sums as results, but those of rows that another block has."""
        (output,), place = self.stage.outputs, maps_of(self.stage)[len(self.stage.inputs)]
        memory, parts = code.bindings[output].memory, columns.columns.parts(self.element)
        first_row, first_column = self.tile.first
        column = code.index_op(arith.AddiOp, first_column, columns.first)
        for i in range(self.schedule.rows):

            def line(inner: Code, i: int = i) -> None:
                row = inner.index_op(arith.AddiOp, first_row, inner.index_op(arith.AddiOp, rows.first, i))
                loops = Loops((self.tile.rest, row, column), self.extents, self.expressions)
                at = inner.position(place.results, output, loops)
                for (by, _), value in zip(parts, sums[i * len(parts) :], strict=False):
                    inner.block.add_op(vector.StoreOp(value, memory, [inner.index_op(arith.AddiOp, at, by)]))

            if rows.computed is None:
                line(code)
            else:
                code.when(code.add(arith.CmpiOp(code.number(i), rows.computed, "uge")), line)

    def _summed(
        self, code: Code, rows: _RowBlock, columns: _ColumnBlock, part: _Range, held: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Returns the sums of a register block with a range of the reduction added."""
        parts = columns.columns.parts(self.element)
        row_factor = self._factor(self.factors.row, part, is_row=True)
        column_factor = self._factor(self.factors.column, part, is_row=False)
        indices = [
            row_factor.at_row(code, code.index_op(arith.AddiOp, rows.first, i)) for i in range(self.schedule.rows)
        ]

        def loaded(inner: Code, k: SSAValue) -> list[SSAValue]:
            if self.columns is None:
                return column_factor.vectors(inner, columns.first, k, parts)
            start = inner.index_op(arith.MuliOp, k, columns.columns.width)
            at, memory = inner.index_op(arith.AddiOp, columns.panel, start), self.columns.memory
            return [
                inner.add(vector.LoadOp(memory, [inner.index_op(arith.AddiOp, at, by)], kind)) for by, kind in parts
            ]

        def step(inner: Code, k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            vectors = loaded(inner, k)
            at = [] if self.rows is not None else row_factor.at_step(inner, k)
            found: list[SSAValue] = []
            for i, row in enumerate(indices):
                one = row_factor.value(inner, row, at) if self.rows is None else self.rows.element(inner, i, k)
                for (_, kind), value in zip(parts, vectors, strict=True):
                    spread = inner.add(vector.BroadcastOp(one, kind))
                    found.append(inner.add(vector.FMAOp(spread, value, sums[len(found)])))
            return found

        return code.loop_to(part.count, held, step)

    # What follows the sum

    def _finish(self, code: Code, rows: _RowBlock) -> None:
        """Runs the stages behind the contraction on a block of rows, and stores the results."""

        def line(inner: Code, i: SSAValue) -> None:
            row = self.axes[0].indices(inner, self.tile.first[0], inner.index_op(arith.AddiOp, rows.first, i))
            above = inner.index_op(arith.MuliOp, rows.number, self.schedule.rows * self.room)
            start = inner.index_op(arith.AddiOp, above, inner.index_op(arith.MuliOp, i, self.room))

            def at(c: Code, j: SSAValue) -> None:
                column = self.axes[1].indices(c, self.tile.first[1], j)
                self._finish_element(c, c.index_op(arith.AddiOp, start, j), self.tile.loops(c, row, column))

            def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
                origin = self.axes[1].indices(outer, self.tile.first[1], low)

                def element(c: Code, j: SSAValue) -> None:
                    moved = c.index_op(arith.SubiOp, j, low)
                    column = [
                        c.index_op(arith.AddiOp, one, moved) if k == inmost else one for k, one in enumerate(origin)
                    ]
                    loops = self.tile.loops(c, row, column, self.finish_run)
                    self._finish_element(c, c.index_op(arith.AddiOp, start, j), loops)

                parallel(outer, high, low, element)

            if self.finish_run < LEAST_RUN:
                parallel(inner, self.column_count, None, at, is_short=self.extents[2] < self.whole.width)
            else:
                over_runs(inner, self.tile.first[1], self.column_count, self.extents[2], self.finish_run, run)

        inmost = max((k for k, loop in enumerate(self.schedule.column) if self.kernel.extents[loop] > 1), default=0)
        sequential(code, code.number(self.schedule.rows), line, start=rows.computed)

    def _finish_element(self, code: Code, at: SSAValue, loops: Loops) -> None:
        """Runs the stages behind the contraction for one element, whose sum is at a place of the memory for sums."""
        assert self.sums is not None
        known: dict[SSAValue, SSAValue] = {self.stage.outputs[0]: code.element(self.sums, at)}
        for stage in self.kernel.stages:
            is_sum = stage is self.stage
            values = [known[stage.outputs[0]]] if is_sum else stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            store_outputs(self.kernel, stage, code, loops, values)

    def _run_of_results(self) -> int:
        """Returns for how many neighbouring columns all that `_finish` reads and writes lies one after another.

        Where columns are one loop, that needs no run to be seen. Within a run, an index goes on beyond its loop.
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
        return run_along(found, column, [self.kernel.extents[loop] for loop in column])


def _count(code: Code, start: SSAValue, extent: int, most: int) -> SSAValue:
    """Returns how many are left from `start` on, at most `most`."""
    if extent % most == 0:
        return code.number(most)
    if extent < most:
        return code.number(extent)
    return code.index_op(arith.MinUIOp, code.index_op(arith.SubiOp, code.number(extent), start), code.number(most))


def _when(code: Code, condition: SSAValue | None, body: Callable[[Code], None]) -> None:
    """Writes code that runs where a condition holds, if there is one."""
    if condition is None:
        body(code)
    else:
        code.when(condition, body)


def _choose(
    code: Code, condition: SSAValue | None, body: Callable[[Code], None], otherwise: Callable[[Code], None]
) -> None:
    """Writes code that runs where a condition holds, and what runs elsewhere; without one, the first alone."""
    if condition is None:
        body(code)
        return
    branches = [Block(), Block()]
    for block, write in zip(branches, (body, otherwise), strict=True):
        write(code.inside(block))
        block.add_op(scf.YieldOp())
    code.block.add_op(scf.IfOp(condition, [], Region(branches[0]), Region(branches[1])))
