"""Writes kernels of the archetype `packed`: a matrix product in packed panels, as in

K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication (ACM TOMS 34, 2008);
F. Van Zee, R. van de Geijn: BLIS: A Framework for Rapidly Instantiating BLAS Functionality (ACM TOMS 41, 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i32
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.cpu import BELOW
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import grid_of_sides, needed_for
from tensorgrad.passes.analyses.factors import factors_of, is_linear, lies_along_steps
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.windows import Place, places_of, plain_place, run_along
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import new_array, parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import Panels, Put, sequential, side_of_blocks
from tensorgrad.passes.kernels.writing.emission import (
    Code,
    Loops,
    stage_values,
    store_outputs,
    strided,
)

LEAST_RUN = 8
"""Shorter runs of neighbours in memory are looked for one by one."""


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
        self.linear = {
            value
            for value in (factors.row, factors.column)
            if is_linear(stage, value, grid, schedule.row, schedule.column)
        }
        self.layouts = {
            value: _Layout.of(stage, value, len(grid), side, value in self.linear)
            for value, side in ((factors.row, schedule.row), (factors.column, schedule.column))
        }
        self.rows = None if schedule.direct else self._panels(top, factors.row, is_row=True)
        self.columns = self._panels(top, factors.column, is_row=False)
        self.results = self._array(top, schedule.tile_rows * schedule.tile_columns)
        array = partial(new_array, top, i32)
        self.row_axis = _Axis([grid[loop] for loop in schedule.row], schedule.tile_rows, array)
        self.column_axis = _Axis([grid[loop] for loop in schedule.column], schedule.tile_columns, array)
        self.step_axis = _Axis(own, depth, array)
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
        kind = _Factor if layout.run == 1 else _Window
        panels.pack(code, self.row_count if is_row else self.column_count, steps, kind(self, value, start, is_row))

    def loops_by_table(self, code: Code, row: Sequence[SSAValue], column: Sequence[SSAValue], beyond: int = 0) -> Loops:
        """Returns the grid's loops, those of rows and columns with these indices, none for the first.

        Args:
            code: Where to write.
            row: The indices of a row's loops.
            column: Those of a column's.
            beyond: By how much indices may be above what their loops have.
        """
        schedule, grid = self.schedule, self.kernel.extents
        bases, extents, expressions = [self.rest], [self.extents[0]], list(self.expressions)
        for side, indices in ((schedule.row, row), (schedule.column, column)):
            for loop, one in zip(side, indices or [code.number(0)] * len(side), strict=True):
                expressions[loop] = AffineDimExpr(len(bases))
                bases.append(one)
                extents.append(grid[loop] + (beyond if grid[loop] > 1 else 0))
        return Loops(tuple(bases), tuple(extents), tuple(expressions))

    def computed(self, code: Code, value: SSAValue, needed: set[SSAValue], loops: Loops) -> SSAValue:
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
        rows = _Factor(self, self.factors.row, start, is_row=True)
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
            row = self.row_axis.indices(inner, self.first_row, i)

            def at(c: Code, j: SSAValue) -> None:
                column = self.column_axis.indices(c, self.first_column, j)
                self._finish_element(c, i, j, self.loops_by_table(c, row, column))

            def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
                origin = self.column_axis.indices(outer, self.first_column, low)

                def element(c: Code, j: SSAValue) -> None:
                    moved = c.index_op(arith.SubiOp, j, low)
                    column = [
                        c.index_op(arith.AddiOp, one, moved) if k == inmost else one for k, one in enumerate(origin)
                    ]
                    self._finish_element(c, i, j, self.loops_by_table(c, row, column, self.finish_run))

                parallel(outer, high, low, element)

            if self.finish_run < LEAST_RUN:
                parallel(inner, self.column_count, None, at)
            else:
                over_runs(inner, self.first_column, self.column_count, self.extents[2], self.finish_run, run)

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
        """Returns for how many neighbouring columns all that `_finish` reads and writes lies one after another."""
        grid, places = self.kernel.extents, list[Place | None]()
        for stage in self.kernel.stages:
            maps, count = maps_of(stage), len(stage.inputs)
            if stage is not self.stage:
                if any(isinstance(op, IndexOp) for op in stage.body.walk()):
                    return 1
                reads = zip(stage.inputs, maps[:count], strict=True)
                places += [plain_place(one, m, grid) for one, m in reads if not is_shape_only(one)]
            writes = zip(stage.outputs, maps[count:], strict=True)
            places += [plain_place(one, m, grid) for one, m in writes if one in self.kernel.output_arguments]
        found = [place for place in places if place is not None]
        if len(found) < len(places):
            return 1
        return run_along(found, self.schedule.column, [grid[loop] for loop in self.schedule.column])


@dataclass(frozen=True)
class _Layout:
    """How a factor lies in memory.

    Attributes:
        places: Where its operands lie, if that is a straight line; see `windows`.
        run: How many neighbours lie one after another there; 1 where each is looked for.
        along_steps: Whether neighbours are iterations of the reduction, not rows or columns.
        moving: The operands that are not the same for all neighbours.
    """

    places: Mapping[BlockArgument, Place]
    run: int
    along_steps: bool
    moving: frozenset[BlockArgument] = frozenset()

    @staticmethod
    def of(stage: GenericOp, value: SSAValue, rank: int, side: Sequence[int], is_linear: bool) -> _Layout:
        """Returns how a factor of a contraction lies in memory.

        Args:
            stage: The contraction.
            value: The factor.
            rank: The number of the grid's loops.
            side: The loops of the factor's rows, or columns.
            is_linear: Whether its place is a multiple of the row, or column, and of the iteration, as it is.
        """
        extents = loop_extents(stage)
        places = (None if is_linear else places_of(stage, value)) or {}
        own = range(rank, len(extents))
        across, along = (run_along(places.values(), loops, [extents[i] for i in loops]) for loops in (side, own))
        if max(across, along) < LEAST_RUN:
            return _Layout({}, 1, lies_along_steps(stage, value, rank))
        axis = own if along > across else side
        moving = frozenset(one for one, place in places.items() if any(place.stride(loop) for loop in axis))
        return _Layout(places, max(across, along), along > across, moving)


class _Factor:
    """What is packed: a factor at a row, or a column, of the tile and an iteration of a range of the reduction."""

    def __init__(self, product: _Product, value: SSAValue, start: SSAValue, is_row: bool):
        self.product, self.factor, self.start, self.is_row = product, value, start, is_row
        self.layout = product.layouts[value]
        self.along_steps = self.layout.along_steps
        self.needed = needed_for([value])
        self.is_linear = value in product.linear

    def over_rows(self, code: Code, step: SSAValue, first: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over rows, or columns, in an iteration."""
        indices = self.at_step(code, step)

        def at(inner: Code, place: SSAValue) -> None:
            row = self.at_row(inner, inner.index_op(arith.AddiOp, first, place))
            put(inner, place, self.value(inner, row, indices))

        parallel(code, count, None, at)

    def over_steps(self, code: Code, row: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over iterations in a row, or a column."""
        indices = self.at_row(code, row)
        parallel(code, count, None, lambda c, step: put(c, step, self.value(c, indices, self.at_step(c, step))))

    def at_row(self, code: Code, row: SSAValue) -> list[SSAValue]:
        """Returns the indices of a row, or a column."""
        product = self.product
        first = product.first_row if self.is_row else product.first_column
        if self.is_linear:
            return [code.index_op(arith.AddiOp, first, row)]
        return (product.row_axis if self.is_row else product.column_axis).indices(code, first, row)

    def at_step(self, code: Code, step: SSAValue) -> list[SSAValue]:
        """Returns the indices of an iteration."""
        if self.is_linear:
            return [code.index_op(arith.AddiOp, self.start, step)]
        return self.product.step_axis.indices(code, self.start, step)

    def value(self, code: Code, row: list[SSAValue], step: list[SSAValue]) -> SSAValue:
        """Returns the factor there."""
        return self.product.computed(code, self.factor, self.needed, self.loops(code, row, step))

    def loops(self, code: Code, row: list[SSAValue], step: list[SSAValue]) -> Loops:
        """Returns the stage's loops there."""
        product = self.product
        if self.is_linear:
            zero = code.number(0)
            both = (row[0], zero) if self.is_row else (zero, row[0])
            return strided(
                Loops((product.rest, *both), product.extents, product.expressions), step[0], list(product.own)
            )
        sides: tuple[list[SSAValue], list[SSAValue]] = (row, []) if self.is_row else ([], row)
        return product.loops_by_table(code, *sides).with_own(step, product.own)


class _Window(_Factor):
    """A factor whose neighbours lie one after another in memory, for a run of them: loads are of vectors.

    Where a condition says that an element is not there, nothing is loaded.
    """

    def over_rows(self, code: Code, step: SSAValue, first: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over rows, or columns, in an iteration."""
        product, indices = self.product, self.at_step(code, step)
        begin = code.index_op(arith.AddiOp, product.first_row if self.is_row else product.first_column, first)

        def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
            origin = self.loops(outer, self.at_row(outer, outer.index_op(arith.AddiOp, first, low)), indices)
            starts = self._starts(outer, origin)

            def at(inner: Code, place: SSAValue) -> None:
                row = self.at_row(inner, inner.index_op(arith.AddiOp, first, place))
                distance = inner.index_op(arith.SubiOp, place, low)
                put(inner, place, self._value(inner, self.loops(inner, row, indices), starts, distance))

            parallel(outer, high, low, at)

        over_runs(code, begin, count, product.extents[1 if self.is_row else 2], self.layout.run, run)

    def over_steps(self, code: Code, row: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over iterations in a row, or a column."""
        indices = self.at_row(code, row)

        def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
            starts = self._starts(outer, self.loops(outer, indices, self.at_step(outer, low)))

            def at(inner: Code, step: SSAValue) -> None:
                loops = self.loops(inner, indices, self.at_step(inner, step))
                put(inner, step, self._value(inner, loops, starts, inner.index_op(arith.SubiOp, step, low)))

            parallel(outer, high, low, at)

        over_runs(code, self.start, count, self.product.steps, self.layout.run, run)

    def _starts(self, code: Code, loops: Loops) -> dict[BlockArgument, SSAValue]:
        """Returns where each operand lies at the start of a run."""
        stage = self.product.stage
        return {
            argument: code.position_at(place.linear, stage.inputs[argument.index], loops)
            for argument, place in self.layout.places.items()
        }

    def _value(
        self, code: Code, loops: Loops, starts: Mapping[BlockArgument, SSAValue], distance: SSAValue
    ) -> SSAValue:
        """Returns the factor at a distance from the start of a run."""
        known: dict[SSAValue, SSAValue] = {}
        guards = [place.guard for place in self.layout.places.values() if place.guard is not None]
        self._compute(code, known, needed_for(guards), loops)
        for argument, place in self.layout.places.items():
            at = starts[argument]
            if argument in self.layout.moving:
                at = code.index_op(arith.AddiOp, at, distance)
            memory = code.bindings[self.product.stage.inputs[argument.index]].memory
            guard = place.guard
            known[argument] = code.element(memory, at) if guard is None else code.element_if(known[guard], memory, at)
        self._compute(code, known, self.needed, loops)
        return known[self.factor]

    def _compute(self, code: Code, known: dict[SSAValue, SSAValue], needed: set[SSAValue], loops: Loops) -> None:
        """Computes what is needed and not known yet."""
        for op in self.product.stage.body.block.ops:
            if any(result in needed and result not in known for result in op.results):
                code.scalar_op(op, known, loops)


def over_runs(
    code: Code,
    begin: SSAValue,
    count: SSAValue,
    extent: int,
    length: int,
    body: Callable[[Code, SSAValue, SSAValue], None],
) -> None:
    """Cuts positions of an axis where runs of neighbours end.

    Args:
        code: Where to write.
        begin: The first position.
        count: How many there are.
        extent: The axis'.
        length: A run's.
        body: Is given the first position of a part and the one behind its last, both from `begin` on.
    """
    if length == extent:
        body(code, code.number(0), count)
        return
    end = code.index_op(arith.AddiOp, begin, count)
    last = code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, end, length - 1), length)

    def run(inner: Code, number: SSAValue) -> None:
        start = inner.index_op(arith.MuliOp, number, length)
        stop = inner.index_op(arith.MinUIOp, inner.index_op(arith.AddiOp, start, length), end)
        low = inner.index_op(arith.SubiOp, inner.index_op(arith.MaxUIOp, start, begin), begin)
        body(inner, low, inner.index_op(arith.SubiOp, stop, begin))

    sequential(code, last, run, start=code.index_op(arith.DivUIOp, begin, length))


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
                    inner.put(inner.add(arith.IndexCastOp(index, i32)), table, at)

        parallel(code, count, None, entry)

    def indices(self, code: Code, start: SSAValue, at: SSAValue) -> list[SSAValue]:
        """Returns the index of each loop at a place."""
        found: list[SSAValue] = []
        for table, extent in zip(self.tables, self.extents, strict=True):
            if table is not None:
                load = memref.LoadOp.create(operands=[table, at], result_types=[i32])
                load.attributes[BELOW] = IntegerAttr(extent, i32)  # divisions by constants become cheap
                found.append(code.add(arith.IndexCastOp(code.add(load), IndexType())))
            else:
                found.append(code.index_op(arith.AddiOp, start, at) if extent > 1 else code.number(0))
        return found
