"""Writes kernels of the archetype `packed`: a matrix product in packed panels, as in

K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008);
F. Van Zee, R. van de Geijn: BLIS: A Framework for Rapidly Instantiating BLAS Functionality (ACM TOMS 41, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import IndexType, VectorType, i64
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import grid_of_sides, needed_for
from tensorgrad.passes.analyses.factors import factors_of, is_linear, lies_along_steps
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import new_array, parallel
from tensorgrad.passes.kernels.writing.emission import (
    Code,
    Loops,
    stage_values,
    store_outputs,
    strided,
)


def write_packed(kernel: KernelOp, schedule: PackedSchedule, code: Code, first: SSAValue, last: SSAValue) -> None:
    """Writes a loop over the tasks from `first` up to `last`.

    Raises:
        DiagnosticException: The kernel does not sum products of rows and columns.
    """
    product = _Product(kernel, schedule, code.block)

    def task(inner: Code, at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        product.write(inner, at)
        return []

    code.loop_to(last, [], task, start=first)


class _Product:
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
        self.rows = None if schedule.direct else self._array(top, schedule.tile_rows * depth)
        self.columns = self._array(top, schedule.tile_columns * depth)
        self.results = self._array(top, schedule.tile_rows * schedule.tile_columns)
        array = partial(new_array, top, i64)
        self.row_axis = _Axis([grid[loop] for loop in schedule.row], schedule.tile_rows, array)
        self.column_axis = _Axis([grid[loop] for loop in schedule.column], schedule.tile_columns, array)
        self.step_axis = _Axis(own, depth, array)
        self.linear = {
            value
            for value in (factors.row, factors.column)
            if is_linear(stage, value, grid, schedule.row, schedule.column)
        }

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
        self.rest = code.index_op(arith.DivUIOp, above, down)
        self.first_row = code.index_op(arith.MuliOp, row_tile, schedule.tile_rows)
        self.first_column = code.index_op(arith.MuliOp, column_tile, schedule.tile_columns)
        self.row_count = self._count(code, self.first_row, rows, schedule.tile_rows)
        self.column_count = self._count(code, self.first_column, columns, schedule.tile_columns)
        self.row_axis.fill(code, self.first_row, self.row_count)
        self.column_axis.fill(code, self.first_column, self.column_count)
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
        self._pack(code, self.factors.column, self.columns, start, count, is_row=False)
        if self.rows is not None:
            self._pack(code, self.factors.row, self.rows, start, count, is_row=True)
        self._multiply(code, start, count, is_first)

    # Packing

    def _pack(
        self, code: Code, value: SSAValue, memory: SSAValue, start: SSAValue, count: SSAValue, is_row: bool
    ) -> None:
        """Computes a factor, a panel of a register block's rows or columns after the other.

        A panel has zeros for rows and columns beyond an edge: nothing is made of them, but what was there before might
        be subnormal, which takes long.
        """
        schedule = self.schedule
        width = schedule.rows if is_row else schedule.columns
        tile_count = self.row_count if is_row else self.column_count
        is_cut = self.extents[1 if is_row else 2] % width != 0
        needed = needed_for([value])
        along_steps = lies_along_steps(self.stage, value, len(self.kernel.extents))
        panels = self._blocks(code, tile_count, width)

        def element(inner: Code, panel: SSAValue, step: SSAValue, place: SSAValue) -> None:
            at = inner.index_op(arith.AddiOp, inner.index_op(arith.MuliOp, panel, width), place)
            found = self._computed(inner, value, needed, self._loops(inner, value, at, start, step, is_row))
            base = inner.index_op(arith.MuliOp, panel, self.depth * width)
            to = inner.index_op(arith.AddiOp, base, inner.index_op(arith.MuliOp, step, width))
            inner.put(found, memory, inner.index_op(arith.AddiOp, to, place))

        def over_panels(inner: Code, panel: SSAValue) -> None:
            wide, steps = inner.number(width), count
            if is_cut:
                left = inner.index_op(arith.SubiOp, tile_count, inner.index_op(arith.MuliOp, panel, width))
                wide = inner.index_op(arith.MinUIOp, wide, left)
            outer, innermost = (wide, steps) if along_steps else (steps, wide)

            def at(c: Code, x: SSAValue, y: SSAValue) -> None:
                element(c, panel, y if along_steps else x, x if along_steps else y)

            _loop(inner, outer, lambda c, x: parallel(c, innermost, None, lambda d, y: at(d, x, y)))
            if is_cut:
                _loop(inner, steps, lambda c, step: self._fill_up(c, memory, panel, step, wide, width))

        _loop(code, panels, over_panels)

    def _fill_up(
        self, code: Code, memory: SSAValue, panel: SSAValue, step: SSAValue, filled: SSAValue, width: int
    ) -> None:
        """Writes zeros behind the `filled` elements of a step in a panel."""
        zero = code.scalar(0.0, self.element)
        base = code.index_op(arith.MuliOp, panel, self.depth * width)
        to = code.index_op(arith.AddiOp, base, code.index_op(arith.MuliOp, step, width))
        body = partial(_put_behind, value=zero, memory=memory, start=to)
        parallel(code, code.number(width), filled, body)

    def _loops(self, code: Code, value: SSAValue, at: SSAValue, start: SSAValue, step: SSAValue, is_row: bool) -> Loops:
        """Returns the loops of a factor at a row, or a column, of the tile, and at a step of a range."""
        first = self.first_row if is_row else self.first_column
        if value in self.linear:
            where, zero = code.index_op(arith.AddiOp, first, at), code.number(0)
            row, column = (where, zero) if is_row else (zero, where)
            loops = Loops((self.rest, row, column), self.extents, self.expressions)
            return strided(loops, code.index_op(arith.AddiOp, start, step), list(self.own))
        row, column = (at, None) if is_row else (None, at)
        steps = self.step_axis.indices(code, start, step)
        return self._by_table(code, row, column).with_own(steps, self.own)

    def _by_table(self, code: Code, row: SSAValue | None, column: SSAValue | None) -> Loops:
        """Returns the grid's loops at a row and a column of the tile, each a base of its own."""
        schedule, grid = self.schedule, self.kernel.extents
        bases, extents, expressions = [self.rest], [self.extents[0]], list(self.expressions)
        for side, axis, first, at in (
            (schedule.row, self.row_axis, self.first_row, row),
            (schedule.column, self.column_axis, self.first_column, column),
        ):
            found = [code.number(0)] * len(side) if at is None else axis.indices(code, first, at)
            for loop, one in zip(side, found, strict=True):
                expressions[loop] = AffineDimExpr(len(bases))
                bases.append(one)
                extents.append(grid[loop])
        return Loops(tuple(bases), tuple(extents), tuple(expressions))

    def _computed(self, code: Code, value: SSAValue, needed: set[SSAValue], loops: Loops) -> SSAValue:
        """Returns a factor at a step of the reduction."""
        known: dict[SSAValue, SSAValue] = {}
        for argument, buffer, m in zip(
            self.stage.body.block.args, self.stage.inputs, maps_of(self.stage), strict=False
        ):
            if argument in needed and not is_shape_only(buffer):
                known[argument] = code.load(buffer, m.results, loops)
        if isinstance(value, BlockArgument):
            return known[value]
        for op in self.stage.body.block.ops:
            if any(result in needed for result in op.results):
                code.scalar_op(op, known, loops)
        return known[value]

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

        _loop(code, column_panels, lambda c, column: _loop(c, row_panels, lambda d, row: block(d, column, row)))

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
        row_base = code.index_op(arith.MuliOp, row, self.depth * schedule.rows)
        top_row = code.index_op(arith.MuliOp, row, schedule.rows)
        factor = self.factors.row
        column_base = code.index_op(arith.MuliOp, column, self.depth * schedule.columns)

        def step(inner: Code, k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            at = inner.index_op(arith.AddiOp, column_base, inner.index_op(arith.MuliOp, k, schedule.columns))
            columns = [
                inner.add(vector.LoadOp(self.columns, [inner.index_op(arith.AddiOp, at, j)], self.kind))
                for j in range(0, schedule.columns, schedule.lanes)
            ]
            begin = inner.index_op(arith.AddiOp, row_base, inner.index_op(arith.MuliOp, k, schedule.rows))
            found: list[SSAValue] = []
            for i in range(schedule.rows):
                if self.rows is None:
                    loops = self._loops(inner, factor, inner.index_op(arith.AddiOp, top_row, i), start, k, is_row=True)
                    one = self._computed(inner, factor, {factor}, loops)
                else:
                    one = inner.element(self.rows, inner.index_op(arith.AddiOp, begin, i))
                spread = inner.add(vector.BroadcastOp(one, self.kind))
                for values in columns:
                    found.append(inner.add(vector.FMAOp(spread, values, sums[len(found)])))
            return found

        return code.loop_to(count, held, step)

    # What follows the sum

    def _finish(self, code: Code) -> None:
        """Runs the stages behind the contraction on the tile, and stores the results."""

        def element(inner: Code, i: SSAValue, j: SSAValue) -> None:
            at = inner.index_op(arith.AddiOp, inner.index_op(arith.MuliOp, i, self.schedule.tile_columns), j)
            loops = self._by_table(inner, i, j)
            known: dict[SSAValue, SSAValue] = {self.stage.outputs[0]: inner.element(self.results, at)}
            for stage in self.kernel.stages:
                is_sum = stage is self.stage
                values = [known[stage.outputs[0]]] if is_sum else stage_values(inner, stage, loops, known)
                known.update(zip(stage.outputs, values, strict=True))
                store_outputs(self.kernel, stage, inner, loops, values)

        _loop(
            code,
            self.row_count,
            lambda c, i: parallel(c, self.column_count, None, lambda d, j: element(d, i, j)),
        )


class _Axis:
    """Loops that are one long axis: the rows of a tile, its columns, or a range of the reduction.

    The index of each loop is read from a table: to divide for every element would take longer than to load it.
    """

    def __init__(self, extents: Sequence[int], room: int, array: Callable[[int], SSAValue]):
        self.extents = extents
        several = sum(extent > 1 for extent in extents) > 1
        self.tables = [array(room) if several and extent > 1 else None for extent in extents]

    def fill(self, code: Code, start: SSAValue, count: SSAValue) -> None:
        """Writes the tables for `count` places from `start` on."""
        if not any(self.tables):
            return
        total = math.prod(self.extents)
        expressions = [
            affine.linear(one, [total]).expression() for one in affine.delinearized(AffineDimExpr(0), self.extents)
        ]

        def entry(inner: Code, at: SSAValue) -> None:
            place = inner.index_op(arith.AddiOp, start, at)
            for table, expression in zip(self.tables, expressions, strict=True):
                if table is not None:
                    index = inner.expression(expression, [place], [total])
                    inner.put(inner.add(arith.IndexCastOp(index, i64)), table, at)

        parallel(code, count, None, entry)

    def indices(self, code: Code, start: SSAValue, at: SSAValue) -> list[SSAValue]:
        """Returns the index of each loop at a place."""
        found: list[SSAValue] = []
        for table, extent in zip(self.tables, self.extents, strict=True):
            if table is not None:
                found.append(code.add(arith.IndexCastOp(code.element(table, at), IndexType())))
            else:
                found.append(code.index_op(arith.AddiOp, start, at) if extent > 1 else code.number(0))
        return found


def _put_behind(code: Code, at: SSAValue, value: SSAValue, memory: SSAValue, start: SSAValue) -> None:
    code.put(value, memory, code.index_op(arith.AddiOp, start, at))


def _loop(code: Code, stop: SSAValue, body: Callable[[Code, SSAValue], None]) -> None:
    """Writes a loop that carries nothing."""

    def iteration(inner: Code, at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        body(inner, at)
        return []

    code.loop_to(stop, [], iteration)
