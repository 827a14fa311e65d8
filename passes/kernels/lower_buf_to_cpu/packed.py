"""Writes kernels of the archetype `packed`: a matrix product in packed panels, as in

K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008);
F. Van Zee, R. van de Geijn: BLIS: A Framework for Rapidly Instantiating BLAS Functionality (ACM TOMS 41, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, i32
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses.axes import grid_of_sides
from tensorgrad.passes.analyses.factors import factors_of
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.windows import Place, plain_place, run_along
from tensorgrad.passes.kernels.lower_buf_to_cpu.factors import LEAST_RUN, Axis, Factor, Layout, Tile, Window, over_runs
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import new_array, parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import Panels, sequential, side_of_blocks
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


class Product:
    """The code of a task: a tile of results.

    For each range of the reduction: the tile's columns are packed, then its rows; then register blocks of both are
    multiplied, and added to the results in scratch memory. What follows the sum runs over these.
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
        self.kind = VectorType(self.element, [schedule.lanes])
        grid, own = kernel.extents, loop_extents(stage)[len(kernel.extents) :]
        self.own, self.steps = own, math.prod(own)
        self.extents, self.expressions = grid_of_sides(kernel.extents, schedule.row, schedule.column)
        depth = min(schedule.depth, self.steps)
        self.depth = depth
        self.layouts = {
            value: Layout.of(stage, value, grid, schedule.row, schedule.column)
            for value in (factors.row, factors.column)
        }
        self.rows = None if schedule.direct else self._panels(top, factors.row, is_row=True)
        self.columns = self._panels(top, factors.column, is_row=False)
        self.results = self._array(top, schedule.tile_rows * schedule.tile_columns)
        array = partial(new_array, top, i32)
        self.axes = (
            Axis([grid[loop] for loop in schedule.row], schedule.tile_rows, array),
            Axis([grid[loop] for loop in schedule.column], schedule.tile_columns, array),
        )
        self.step_axis = Axis(own, depth, array)
        self.finish_run = self._run_of_results()

    def _array(self, top: Block, extent: int) -> SSAValue:
        return new_array(top, self.element, extent)

    def write(self, code: Code, task: SSAValue) -> None:
        """Writes one task."""
        schedule = self.schedule
        _, rows, columns = self.extents
        across, down = -(-columns // schedule.tile_columns), -(-rows // schedule.tile_rows)
        column_tile = code.index_op(arith.RemUIOp, task, across) if across > 1 else code.number(0)
        above = code.index_op(arith.DivUIOp, task, across)
        row_tile = code.index_op(arith.RemUIOp, above, down) if down > 1 else code.number(0)
        rest = code.index_op(arith.DivUIOp, above, down)
        first_row = code.index_op(arith.MuliOp, row_tile, schedule.tile_rows)
        first_column = code.index_op(arith.MuliOp, column_tile, schedule.tile_columns)
        self.row_count = self._count(code, first_row, rows, schedule.tile_rows)
        self.column_count = self._count(code, first_column, columns, schedule.tile_columns)
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
        ranges = -(-self.steps // self.depth)
        if ranges == 1:
            self._range(code, code.number(0), code.number(self.steps), is_first=True)
        else:
            self._cleared(code)
            code.loop(ranges, [], self._ranges)
        self._finish(code)

    def _ranges(self, code: Code, number: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        start = code.index_op(arith.MuliOp, number, self.depth)
        self._range(code, start, self._count(code, start, self.steps, self.depth), is_first=False)
        return []

    def _count(self, code: Code, start: SSAValue, extent: int, most: int) -> SSAValue:
        """Returns how many are left from `start` on, at most `most`."""
        if extent % most == 0:
            return code.number(most)
        return code.index_op(arith.MinUIOp, code.index_op(arith.SubiOp, code.number(extent), start), code.number(most))

    def _cleared(self, code: Code) -> None:
        zero = code.scalar(0.0, self.element)
        extent = code.number(self.schedule.tile_rows * self.schedule.tile_columns)
        parallel(code, extent, None, lambda inner, at: inner.put(zero, self.results, at))

    def _range(self, code: Code, start: SSAValue, count: SSAValue, is_first: bool) -> None:
        """Packs a range of the reduction, and multiplies it."""
        self.step_axis.fill(code, start, count)
        self._pack(code, self.factors.column, self.columns, start, count)
        if self.rows is not None:
            self._pack(code, self.factors.row, self.rows, start, count)
        self._multiply(code, start, count, is_first)

    # Factors

    def _panels(self, top: Block, value: SSAValue, is_row: bool) -> Panels:
        """Returns the memory of a packed factor."""
        schedule = self.schedule
        width = schedule.rows if is_row else schedule.columns
        tile = schedule.tile_rows if is_row else schedule.tile_columns
        side = side_of_blocks(width, schedule.lanes) if self.layouts[value].along_steps else 1
        depth = -(-self.depth // side) * side
        lines = self._array(top, side * depth) if side > 1 else None
        is_cut = self.extents[1 if is_row else 2] % width != 0
        return Panels(self._array(top, tile * depth), self.element, width, depth, is_cut, side, lines)

    def _pack(self, code: Code, value: SSAValue, panels: Panels, start: SSAValue, steps: SSAValue) -> None:
        """Packs a factor for a range of the reduction."""
        is_row = panels is self.rows
        layout = self.layouts[value]
        kind = Factor if layout.run == 1 else Window
        factor = kind(self.tile, value, layout, start, is_row)
        panels.pack(code, self.row_count if is_row else self.column_count, steps, factor)

    # Products

    def _blocks(self, code: Code, count: SSAValue, block: int) -> SSAValue:
        """Returns how many register blocks hold so many rows, or columns."""
        return code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, count, block - 1), block)

    def _multiply(self, code: Code, start: SSAValue, count: SSAValue, is_first: bool) -> None:
        """Multiplies the packed panels: a panel of columns stays in the first cache, while those of rows pass."""
        schedule = self.schedule
        row_panels = self._blocks(code, self.row_count, schedule.rows)
        column_panels = self._blocks(code, self.column_count, schedule.columns)

        def block(inner: Code, column: SSAValue, row: SSAValue) -> None:
            places = self._places(inner, row, column)
            held = [self._started(inner, at, is_first) for at in places]
            sums = self._summed(inner, row, column, start, count, held)
            for at, value in zip(places, sums, strict=True):
                inner.block.add_op(vector.StoreOp(value, self.results, [at]))

        sequential(
            code, column_panels, lambda c, column: sequential(c, row_panels, lambda d, row: block(d, column, row))
        )

    def _places(self, code: Code, row: SSAValue, column: SSAValue) -> list[SSAValue]:
        """Returns where the vectors of a register block are in the tile of results."""
        schedule = self.schedule
        above = code.index_op(arith.MuliOp, row, schedule.rows * schedule.tile_columns)
        corner = code.index_op(arith.AddiOp, above, code.index_op(arith.MuliOp, column, schedule.columns))
        return [
            code.index_op(arith.AddiOp, corner, i * schedule.tile_columns + j)
            for i in range(schedule.rows)
            for j in range(0, schedule.columns, schedule.lanes)
        ]

    def _started(self, code: Code, at: SSAValue, is_first: bool) -> SSAValue:
        """Returns what a vector of sums starts from: the sum over earlier ranges."""
        if is_first:
            return code.add(vector.BroadcastOp(code.scalar(0.0, self.element), self.kind))
        return code.add(vector.LoadOp(self.results, [at], self.kind))

    def _summed(
        self,
        code: Code,
        row: SSAValue,
        column: SSAValue,
        start: SSAValue,
        count: SSAValue,
        held: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """Returns the sums of a register block with a range of the reduction added."""
        schedule = self.schedule
        row_base = None if self.rows is None else code.index_op(arith.MuliOp, row, self.rows.depth * schedule.rows)
        top_row = code.index_op(arith.MuliOp, row, schedule.rows)
        rows = Factor(self.tile, self.factors.row, self.layouts[self.factors.row], start, is_row=True)
        column_base = code.index_op(arith.MuliOp, column, self.columns.depth * schedule.columns)

        def step(inner: Code, k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            at = inner.index_op(arith.AddiOp, column_base, inner.index_op(arith.MuliOp, k, schedule.columns))
            columns = [
                inner.add(vector.LoadOp(self.columns.memory, [inner.index_op(arith.AddiOp, at, j)], self.kind))
                for j in range(0, schedule.columns, schedule.lanes)
            ]
            found: list[SSAValue] = []
            for i in range(schedule.rows):
                if self.rows is None or row_base is None:
                    row = rows.at_row(inner, inner.index_op(arith.AddiOp, top_row, i))
                    one = rows.value(inner, row, rows.at_step(inner, k))
                else:
                    begin = inner.index_op(arith.AddiOp, row_base, inner.index_op(arith.MuliOp, k, schedule.rows))
                    one = inner.element(self.rows.memory, inner.index_op(arith.AddiOp, begin, i))
                spread = inner.add(vector.BroadcastOp(one, self.kind))
                for values in columns:
                    found.append(inner.add(vector.FMAOp(spread, values, sums[len(found)])))
            return found

        return code.loop_to(count, held, step)

    # What follows the sum

    def _finish(self, code: Code) -> None:
        """Runs the stages behind the contraction on the tile, and stores the results."""

        def line(inner: Code, i: SSAValue) -> None:
            row = self.axes[0].indices(inner, self.tile.first[0], i)

            def at(c: Code, j: SSAValue) -> None:
                column = self.axes[1].indices(c, self.tile.first[1], j)
                self._finish_element(c, i, j, self.tile.loops(c, row, column))

            def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
                origin = self.axes[1].indices(outer, self.tile.first[1], low)

                def element(c: Code, j: SSAValue) -> None:
                    moved = c.index_op(arith.SubiOp, j, low)
                    column = [
                        c.index_op(arith.AddiOp, one, moved) if k == inmost else one for k, one in enumerate(origin)
                    ]
                    self._finish_element(c, i, j, self.tile.loops(c, row, column, self.finish_run))

                parallel(outer, high, low, element)

            if self.finish_run < LEAST_RUN:
                parallel(inner, self.column_count, None, at)
            else:
                over_runs(inner, self.tile.first[1], self.column_count, self.extents[2], self.finish_run, run)

        inmost = max((k for k, loop in enumerate(self.schedule.column) if self.kernel.extents[loop] > 1), default=0)
        sequential(code, self.row_count, line)

    def _finish_element(self, code: Code, i: SSAValue, j: SSAValue, loops: Loops) -> None:
        """Runs the stages behind the contraction for one element of the tile."""
        at = code.index_op(arith.AddiOp, code.index_op(arith.MuliOp, i, self.schedule.tile_columns), j)
        known: dict[SSAValue, SSAValue] = {self.stage.outputs[0]: code.element(self.results, at)}
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
