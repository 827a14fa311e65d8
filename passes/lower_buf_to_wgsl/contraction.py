"""Contractions: each thread computes a block of outputs in registers, and finishes them where they stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tensorgrad.dialects import affine, wgsl
from tensorgrad.dialects.affine import used_dims
from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
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
        row_extent = 1 if tile.row is None else self.grid[tile.row]
        column_extent = self.grid[tile.column]
        batch_loops = [i for i in range(len(self.grid)) if i not in (tile.row, tile.column)]
        batch_extents = [self.grid[i] for i in batch_loops]
        self.batch_extent = math.prod(batch_extents)
        self.extents = (self.batch_extent, row_extent, column_extent)
        expressions: list[AffineExpr] = [AffineConstantExpr(0)] * len(self.grid)
        for loop, e in zip(batch_loops, affine.delinearized(AffineDimExpr(0), batch_extents), strict=True):
            expressions[loop] = affine.linear(e, self.extents).expression()
        if tile.row is not None:
            expressions[tile.row] = affine.linear(AffineDimExpr(1), self.extents).expression()
        expressions[tile.column] = affine.linear(AffineDimExpr(2), self.extents).expression()
        self.expressions = tuple(expressions)
        self.batch = code.group(2)
        lane = code.add(wgsl.LocalIdOp(0))
        across = code.index_op(arith.MuliOp, code.group(0), tile.columns * tile.lanes)
        self.first_column = code.index_op(arith.AddiOp, across, lane)
        self.first_row = code.number(0)
        if tile.row is not None:
            down = code.index_op(arith.MuliOp, code.group(1), tile.rows * tile.depth)
            if tile.depth > 1:
                mine = code.index_op(arith.MuliOp, code.add(wgsl.LocalIdOp(1)), tile.rows)
                down = code.index_op(arith.AddiOp, down, mine)
            self.first_row = down
        self.cut_rows = row_extent % (tile.rows * tile.depth) != 0
        self.cut_columns = column_extent % (tile.columns * tile.lanes) != 0
        self.rows = [self._row(code, i) for i in range(tile.rows)]
        self.columns = [self._column(code, j) for j in range(tile.columns)]
        self.own_row = self.rows[0]
        if tile.broadcast:
            lane_row = code.index_op(arith.RemUIOp, code.add(wgsl.SubgroupLaneOp()), tile.rows)
            at = code.index_op(arith.AddiOp, self.first_row, lane_row)
            self.own_row = self._clamped(code, at, row_extent) if self.cut_rows else at

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
        self.axes = _axes_of_values(self.stage, self.tile)
        rows, columns = len(self.rows), len(self.columns)
        zero = self.code.scalar(self.reduction.start(), self.reduction.element)
        start = [zero] * (rows * columns)
        if self.tile.chunk:
            flat = self._staged(start)
        else:

            def body(inner: Code, found: list[SSAValue], held: Sequence[SSAValue]) -> list[SSAValue]:
                mine: dict[int, SSAValue] = {}

                def load(number: int, i: int, j: int) -> SSAValue:
                    if not (self.tile.broadcast and i >= 0 and j < 0):
                        return self._load(inner, number, self._grid(i, j).with_own(found, self.own))
                    if number not in mine:
                        here = self.loops(self.own_row, self.columns[0]).with_own(found, self.own)
                        mine[number] = self._load(inner, number, here)
                    return inner.add(wgsl.SubgroupBroadcastOp(mine[number], i))

                return self._folded(inner, held, load, lambda i, j: self._grid(i, j).with_own(found, self.own))

            flat = self.code.nest(list(self.own), start, body)
        return [flat[i * columns : (i + 1) * columns] for i in range(rows)]

    def _grid(self, i: int, j: int) -> Loops:
        """The grid's loops at a row and a column of the block; -1 stands for any."""
        return self.loops(self.rows[max(i, 0)], self.columns[max(j, 0)])

    def _load(self, code: Code, number: int, loops: Loops) -> SSAValue:
        """An operand of the contraction, from memory."""
        return code.load(self.stage.inputs[number], maps_of(self.stage)[number].results, loops)

    def _folded(
        self,
        code: Code,
        held: Sequence[SSAValue],
        load: Callable[[int, int, int], SSAValue],
        loops: Callable[[int, int], Loops],
    ) -> list[SSAValue]:
        """The accumulators after one more step of the reduction."""
        values = self._block_values(code, load, loops)
        kind, columns = type(self.reduction.combine), len(self.columns)
        return [
            code.combine(kind, held[i * columns + j], values(i, j))
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

        def loops(i: int, j: int) -> Loops:
            return strided(self._grid(i, j), position, list(self.own))

        def load(number: int, i: int, j: int) -> SSAValue:
            if number not in shared:
                return self._load(code, number, loops(i, j))
            is_row = i >= 0
            begin = code.index_op(arith.MuliOp, k, self._extent(is_row))
            place = (
                code.index_op(arith.AddiOp, mine, i)
                if is_row
                else code.index_op(arith.AddiOp, lane, j * self.tile.lanes)
            )
            return code.add(memref.LoadOp.get(shared[number], [code.index_op(arith.AddiOp, begin, place)]))

        return self._folded(code, held, load, loops)

    def _block_values(
        self, code: Code, load: Callable[[int, int, int], SSAValue], loops: Callable[[int, int], Loops]
    ) -> Callable[[int, int], SSAValue]:
        """Computes the body over the block; a value that needs only the row, or only the column, is computed once."""
        envs: dict[tuple[int, int], dict[SSAValue, SSAValue]] = {}
        stage, axes, wanted = self.stage, self.axes, self.reduction.value

        def places(needs: frozenset[str]) -> list[tuple[int, int]]:
            rows = range(len(self.rows)) if "row" in needs else [-1]
            columns = range(len(self.columns)) if "column" in needs else [-1]
            return [(i, j) for i in rows for j in columns]

        def visible(i: int, j: int) -> dict[SSAValue, SSAValue]:
            merged: dict[SSAValue, SSAValue] = {}
            for key in {(-1, -1), (i, -1), (-1, j), (i, j)}:
                merged.update(envs.get(key, {}))
            return merged

        for number, operand in enumerate(stage.inputs):
            argument = stage.body.block.args[number]
            if not is_shape_only(operand):
                for i, j in places(axes[argument]):
                    envs.setdefault((i, j), {})[argument] = load(number, i, j)
        for op in stage.body.block.ops:
            if op is self.reduction.combine or isinstance(op, YieldOp):
                continue
            for i, j in places(axes[op.results[0]]):
                values = visible(i, j)
                code.scalar_op(op, values, loops(i, j))
                for result in op.results:
                    envs.setdefault((i, j), {})[result] = values[result]
        return lambda i, j: visible(i, j).get(wanted, wanted)

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


def _axes_of_values(stage: GenericOp, tile: Tile) -> dict[SSAValue, frozenset[str]]:
    """For each value of a body: whether it depends on the row and on the column."""
    axes: dict[SSAValue, frozenset[str]] = {}

    def of_loops(loops: set[int]) -> frozenset[str]:
        names = {"row" for loop in loops if loop == tile.row} | {"column" for loop in loops if loop == tile.column}
        return frozenset(names)

    for argument, m in zip(stage.body.block.args, maps_of(stage), strict=True):
        axes[argument] = of_loops(used_dims(m))
    for op in stage.body.block.ops:
        needs: frozenset[str] = frozenset()
        for inner in op.walk():
            if isinstance(inner, IndexOp):
                needs |= of_loops({inner.dim.value.data})
            for operand in inner.operands:
                needs |= axes.get(operand, frozenset())
        for result in op.results:
            axes[result] = needs
    return axes


def contraction(kernel: KernelOp, stage: GenericOp, code: Code, tile: Tile) -> None:
    """Writes the code of a contraction kernel."""
    block = OutputBlock(kernel, stage, code, tile)
    block.finish(block.accumulate())
