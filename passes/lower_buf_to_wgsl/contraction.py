"""Contractions: each thread computes a block of outputs in registers, and finishes them where they stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tensorgrad.dialects import affine, wgsl
from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.passes.kernels.axes import axes_of_values
from tensorgrad.passes.lower_buf_to_wgsl.block_values import BlockValues, Place
from tensorgrad.passes.lower_buf_to_wgsl.emission import Code, Loops, reductions_of, stage_values
from tensorgrad.passes.lower_buf_to_wgsl.rows import strided, write
from tensorgrad.passes.schedule.schedules import Tile

UNROLLED_EPILOGUE = 160
"""An epilogue is unrolled over the block up to so many ops in all; longer ones loop, or drivers compile for seconds."""


class OutputBlock:
    """The code of one contraction kernel.

    Every index is kept in range by clamping, so that loads need no test; stores test where an edge cuts a block.
    """

    def __init__(self, kernel: KernelOp, stage: GenericOp, code: Code, tile: Tile):
        self.kernel = kernel
        self.stage = stage
        self.code = code
        self.tile = tile
        self.grid = kernel.extents
        self.own = loop_extents(stage)[len(self.grid) :]
        self._locate()

    def _locate(self) -> None:
        """Computes the positions of the block: bases are the batch, the rows, the columns, then the reduced loops."""
        code, tile = self.code, self.tile
        self.extents = tile.extents(self.grid)
        _, row_extent, column_extent = self.extents
        rest = [i for i in range(len(self.grid)) if i not in (*tile.row, *tile.column)]
        expressions: list[AffineExpr] = [AffineConstantExpr(0)] * len(self.grid)
        for base, loops in enumerate((rest, tile.row, tile.column)):
            places = affine.delinearized(AffineDimExpr(base), [self.grid[i] for i in loops])
            for loop, place in zip(loops, places, strict=True):
                expressions[loop] = affine.linear(place, self.extents).expression()
        self.expressions = tuple(expressions)
        self.batch = code.group(2)
        lane = code.add(wgsl.LocalIdOp(0))
        across = code.index_op(arith.MuliOp, code.group(0), tile.columns * tile.lanes)
        self.first_column = code.index_op(arith.AddiOp, across, lane)
        self.first_row = code.number(0)
        if tile.row:
            down = code.index_op(arith.MuliOp, code.group(1), tile.rows * tile.depth)
            if tile.depth > 1:
                mine = code.index_op(arith.MuliOp, code.add(wgsl.LocalIdOp(1)), tile.rows)
                down = code.index_op(arith.AddiOp, down, mine)
            self.first_row = down
        self.cut_rows = row_extent % (tile.rows * tile.depth) != 0
        self.cut_columns = column_extent % (tile.columns * tile.lanes) != 0
        self.rows = [self._row(code, i) for i in range(tile.rows)]
        self.columns = [self._column(code, j) for j in range(tile.columns)]
        self.lane_rows = self._lane_rows(code) if tile.broadcast else []
        self.order = [loop for loop in range(len(self.own)) if loop != tile.inner]
        if tile.inner >= 0:
            self.order.append(tile.inner)

    def _lane_rows(self, code: Code) -> list[SSAValue]:
        """The rows that this lane reads for the others: every `lanes`-th one of the block."""
        lane, width, found = code.add(wgsl.SubgroupLaneOp()), self.tile.lanes, list[SSAValue]()
        for start in range(0, self.tile.rows, width):
            at = code.index_op(arith.AddiOp, self.first_row, code.index_op(arith.AddiOp, lane, start))
            within = not self.cut_rows and self.tile.rows % width == 0
            found.append(at if within else self._clamped(code, at, self.extents[1]))
        return found

    def _row(self, code: Code, i: int) -> SSAValue:
        at = self.first_row if i == 0 else code.index_op(arith.AddiOp, self.first_row, i)
        return self._clamped(code, at, self.extents[1]) if self.cut_rows else at

    def _column(self, code: Code, j: int) -> SSAValue:
        step = j * self.tile.lanes
        at = self.first_column if j == 0 else code.index_op(arith.AddiOp, self.first_column, step)
        return self._clamped(code, at, self.extents[2]) if self.cut_columns else at

    def _clamped(self, code: Code, at: SSAValue, extent: int) -> SSAValue:
        return code.index_op(arith.MinUIOp, at, extent - 1)

    def loops(self, row: SSAValue, column: SSAValue) -> Loops:
        """The grid's loops at one row and column."""
        return Loops((self.batch, row, column), self.extents, self.expressions)

    # The sum

    def accumulate(self) -> list[list[SSAValue]]:
        """The reduced values, for each row of the block and each of its columns."""
        reductions = reductions_of(self.stage)
        assert len(reductions) == 1, "a contraction has one result"
        self.reduction = reductions[0]
        self.axes = axes_of_values(self.stage, self.tile.row, self.tile.column)
        rows, columns = len(self.rows), len(self.columns)
        zero = self.code.scalar(self.reduction.start(), self.reduction.element)
        start = [zero] * (rows * columns)
        if self.tile.chunk:
            flat = self._staged(start)
        else:

            def body(inner: Code, found: list[SSAValue], held: Sequence[SSAValue]) -> list[SSAValue]:
                def at(place: Place) -> Loops:
                    return self._with_own(self._grid(place), found)

                return self._folded(inner, held, lambda n, place: self._load(inner, n, at(place)), at)

            flat = self.code.nest([self.own[loop] for loop in self.order], start, body)
        return [flat[i * columns : (i + 1) * columns] for i in range(rows)]

    def _with_own(self, loops: Loops, found: Sequence[SSAValue]) -> Loops:
        """The grid's loops and those of the reduction, given in the order in which they stand inside each other."""
        first = len(loops.bases)
        own = [AffineDimExpr(first + self.order.index(loop)) for loop in range(len(self.own))]
        extents = (self.own[loop] for loop in self.order)
        return Loops((*loops.bases, *found), (*loops.extents, *extents), (*loops.expressions, *own))

    def _grid(self, place: Place) -> Loops:
        """The grid's loops at a place of the block."""
        rows = self.lane_rows if place.spread else self.rows
        return self.loops(rows[max(place.row, 0)], self.columns[max(place.column, 0)])

    def _load(self, code: Code, number: int, loops: Loops) -> SSAValue:
        """An operand of the contraction, from memory."""
        return code.load(self.stage.inputs[number], maps_of(self.stage)[number].results, loops)

    def _folded(
        self,
        code: Code,
        held: Sequence[SSAValue],
        load: Callable[[int, Place], SSAValue],
        loops: Callable[[Place], Loops],
    ) -> list[SSAValue]:
        """The accumulators after one more step of the reduction."""
        values = self._values(code, load, loops)
        kind, columns = type(self.reduction.combine), len(self.columns)
        return [
            code.combine(kind, held[i * columns + j], values.at(Place(i, j), self.reduction.value))
            for i in range(len(self.rows))
            for j in range(columns)
        ]

    # Staging in workgroup memory

    def _staged(self, start: Sequence[SSAValue]) -> list[SSAValue]:
        """The reduction in chunks: the workgroup reads what its threads share once, then all compute from that."""
        total, chunk = math.prod(self.own), self.tile.chunk
        shared = {
            number: self._shared(number, side)
            for number, operand in enumerate(self.stage.inputs)
            if not is_shape_only(operand)
            for side in [self.axes[self.stage.body.block.args[number]]]
            if len(side) == 1
        }

        def over_chunks(code: Code, at: SSAValue, held: Sequence[SSAValue]) -> Sequence[SSAValue]:
            first = code.index_op(arith.MuliOp, at, chunk)
            for number, memory in shared.items():
                self._fill(code, number, memory, first)
            code.block.add_op(wgsl.BarrierOp())
            left = code.index_op(arith.SubiOp, code.number(total), first)
            count = code.index_op(arith.MinUIOp, left, chunk)
            results = code.loop_to(count, held, lambda inner, k, now: self._staged_step(inner, k, first, shared, now))
            code.block.add_op(wgsl.BarrierOp())
            return results

        return self.code.loop(-(-total // chunk), start, over_chunks)

    def _shared(self, number: int, side: frozenset[str]) -> SSAValue:
        extent = self._extent("row" in side)
        kind = MemRefType(element_of(self.stage.inputs[number]), [extent * self.tile.chunk])
        return self.code.frame.array(self.code, kind)

    def _extent(self, is_row: bool) -> int:
        """How many rows, or columns, a workgroup covers."""
        return self.tile.rows * self.tile.depth if is_row else self.tile.columns * self.tile.lanes

    def _fill(self, code: Code, number: int, memory: SSAValue, first: SSAValue) -> None:
        """The workgroup's threads read one operand's chunk together, neighbours in memory side by side."""
        is_row = "row" in self.axes[self.stage.body.block.args[number]]
        extent, chunk, tile = self._extent(is_row), self.tile.chunk, self.tile
        group = code.index_op(arith.MuliOp, code.group(1 if is_row else 0), extent)
        last = maps_of(self.stage)[number].results[-1]
        steps_first = bool({loop for loop in last.used_dims() if loop >= len(self.grid)})

        def body(inner: Code, at: SSAValue, _: object) -> Sequence[SSAValue]:
            inside, across = (chunk, False) if steps_first else (extent, True)
            fast, slow = inner.index_op(arith.RemUIOp, at, inside), inner.index_op(arith.DivUIOp, at, inside)
            place, step = (fast, slow) if across else (slow, fast)
            where = self._clamped(inner, inner.index_op(arith.AddiOp, group, place), self.extents[1 if is_row else 2])
            k = self._clamped(inner, inner.index_op(arith.AddiOp, first, step), math.prod(self.own))
            loops = self.loops(where, self.columns[0]) if is_row else self.loops(self.rows[0], where)
            value = self._load(inner, number, strided(loops, k, list(self.own)))
            to = inner.index_op(arith.AddiOp, inner.index_op(arith.MuliOp, step, extent), place)
            inner.block.add_op(memref.StoreOp.get(value, memory, [to]))
            return []

        code.loop(extent * chunk, [], body, start=code.add(wgsl.LocalIndexOp()), step=tile.lanes * tile.depth)

    def _staged_step(
        self, code: Code, k: SSAValue, first: SSAValue, shared: dict[int, SSAValue], held: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        position = code.index_op(arith.AddiOp, first, k)
        mine = code.index_op(arith.MuliOp, code.add(wgsl.LocalIdOp(1)), self.tile.rows)
        lane = code.add(wgsl.LocalIdOp(0))

        def loops(place: Place) -> Loops:
            return strided(self._grid(place), position, list(self.own))

        def load(number: int, place: Place) -> SSAValue:
            if number not in shared:
                return self._load(code, number, loops(place))
            is_row = place.row >= 0
            begin = code.index_op(arith.MuliOp, k, self._extent(is_row))
            start, step = (mine, place.row) if is_row else (lane, place.column * self.tile.lanes)
            at = code.index_op(arith.AddiOp, begin, code.index_op(arith.AddiOp, start, step))
            return code.add(memref.LoadOp.get(shared[number], [at]))

        return self._folded(code, held, load, loops)

    def _values(
        self, code: Code, load: Callable[[int, Place], SSAValue], loops: Callable[[Place], Loops]
    ) -> BlockValues:
        """Computes the body over the block."""
        values = BlockValues(code, self.tile, self.axes)
        for number, operand in enumerate(self.stage.inputs):
            if not is_shape_only(operand):
                argument = self.stage.body.block.args[number]
                for place in values.places(self.axes[argument]):
                    values.known.setdefault(place, {})[argument] = load(number, place)
        for op in self.stage.body.block.ops:
            if op is not self.reduction.combine and not isinstance(op, YieldOp):
                values.compute(op, loops)
        return values

    # What follows the sum

    def finish(self, sums: list[list[SSAValue]]) -> None:
        """Runs the stages behind the contraction on each element of the block and stores the results."""
        epilogue = [stage for stage in self.kernel.stages if stage is not self.stage]
        size = sum(len(list(stage.body.walk())) for stage in epilogue) * len(self.rows) * len(self.columns)
        if size <= UNROLLED_EPILOGUE or len(self.rows) * len(self.columns) == 1:
            for i, row in enumerate(self.rows):
                for j, column in enumerate(self.columns):
                    self._element(self.code, row, column, (i, j), sums[i][j])
        else:
            self._finish_in_loop(sums)

    def _finish_in_loop(self, sums: list[list[SSAValue]]) -> None:
        columns = len(self.columns)
        kind = MemRefType(sums[0][0].type, [len(sums) * columns])
        held = self.code.add(memref.AllocaOp.get(sums[0][0].type, shape=[len(sums) * columns]))
        assert held.type == kind
        for number, value in enumerate(value for row in sums for value in row):
            self.code.block.add_op(memref.StoreOp.get(value, held, [self.code.number(number)]))

        def body(inner: Code, at: SSAValue, _: object) -> list[SSAValue]:
            value = inner.add(memref.LoadOp.get(held, [at]))
            i = inner.index_op(arith.DivUIOp, at, columns)
            step = inner.index_op(arith.MuliOp, inner.index_op(arith.RemUIOp, at, columns), self.tile.lanes)
            row = inner.index_op(arith.AddiOp, self.first_row, i)
            column = inner.index_op(arith.AddiOp, self.first_column, step)
            self._element(inner, row, column, None, value)
            return []

        self.code.loop(len(sums) * columns, [], body)

    def _element(
        self, code: Code, row: SSAValue, column: SSAValue, place: tuple[int, int] | None, value: SSAValue
    ) -> None:
        """Runs the epilogue at one element, if it is inside the grid."""
        tests: list[SSAValue] = []
        if self.cut_rows:
            at = row if place is None else self._unclamped(code, self.first_row, place[0])
            tests.append(code.below(at, self.extents[1]))
        if self.cut_columns:
            at = column if place is None else self._unclamped(code, self.first_column, place[1] * self.tile.lanes)
            tests.append(code.below(at, self.extents[2]))
        if not tests:
            self._epilogue(code, self.loops(row, column), value)
            return
        inside = tests[0] if len(tests) == 1 else code.add(arith.AndIOp(tests[0], tests[1]))
        code.when(inside, lambda inner: self._epilogue(inner, self.loops(row, column), value))

    def _unclamped(self, code: Code, first: SSAValue, step: int) -> SSAValue:
        return first if step == 0 else code.index_op(arith.AddiOp, first, step)

    def _epilogue(self, code: Code, loops: Loops, value: SSAValue) -> None:
        known: dict[SSAValue, SSAValue] = {self.stage.outputs[0]: value}
        for stage in self.kernel.stages:
            values = [value] if stage is self.stage else stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            write(self.kernel, stage, code, loops, values)


def contraction(kernel: KernelOp, stage: GenericOp, code: Code, tile: Tile) -> None:
    """Writes the code of a contraction kernel."""
    block = OutputBlock(kernel, stage, code, tile)
    block.finish(block.accumulate())
