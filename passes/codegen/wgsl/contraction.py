"""Contractions: each thread computes a block of outputs in registers, and runs the epilogue on it there."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp, element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.schedule import ContractionSchedule, ContractionTile
from tensorgrad.dialects.stages import reductions_of
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.axes import axes_of_values, grid_of_sides, needed_for, one_sided_values
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.machine import VECTOR, holds_sums
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_needed, stage_values, store_outputs
from tensorgrad.passes.codegen.common.stage_loops import Loops, place_of, strided
from tensorgrad.passes.codegen.wgsl.block_values import BlockPosition, BlockValues, places_of
from tensorgrad.passes.codegen.wgsl.staging import staged_extent, staged_memory, staged_pitch
from tensorgrad.passes.codegen.wgsl.vectors import are_vector
from tensorgrad.passes.scalars import Value

UNROLLED_EPILOGUE = 160
"""The most ops of an epilogue unrolled over the block; longer ones loop, or drivers compile for seconds."""


class OutputBlock:
    """The code of one contraction kernel.

    Indices are clamped, so that loads need no bounds test; stores are guarded where an edge cuts a block.
    """

    def __init__(self, kernel: KernelOp, stage: GenericOp, code: Code, tile: ContractionTile):
        self.kernel = kernel
        self.stage = stage
        self.code = code
        self.tile = tile
        self.grid = kernel.extents
        self.own = loop_extents(stage)[len(self.grid) :]
        (self.reduction,) = reductions_of(stage)
        self.axes = axes_of_values(stage, tile.row, tile.column)
        self._locate()

    def _locate(self) -> None:
        """Computes the position of the block; bases are the batch, the rows, the columns, then the reduced loops."""
        code, tile = self.code, self.tile
        self.extents, self.expressions = grid_of_sides(self.grid, tile.row, tile.column)
        _, row_extent, column_extent = self.extents
        self.batch = code.group(2)
        lane = code.add(wgsl.LocalIdOp(0))
        self.first_column = code.group(0) * (tile.columns * tile.lanes) + lane
        self.first_row = code.number(0)
        if tile.row:
            down = code.group(1) * (tile.rows * tile.depth)
            if tile.depth > 1:
                down = down + code.add(wgsl.LocalIdOp(1)) * tile.rows
            self.first_row = down
        self.cut_rows = row_extent % (tile.rows * tile.depth) != 0
        self.cut_columns = column_extent % (tile.columns * tile.lanes) != 0
        self.rows = [self._row(i) for i in range(tile.rows)]
        self.columns = [self._column(j) for j in range(tile.columns)]
        self.lane_rows = self._lane_rows(code) if tile.broadcast else []

    def _lane_rows(self, code: Code) -> list[Value]:
        """Returns the rows that this lane loads for all lanes: every `lanes`-th one of the block."""
        lane, width, results = code.add(wgsl.SubgroupLaneOp()), self.tile.lanes, list[Value]()
        for start in range(0, self.tile.rows, width):
            at = self.first_row + (lane + start)
            within = not self.cut_rows and self.tile.rows % width == 0
            results.append(at if within else _clamped(at, self.extents[1]))
        return results

    def _row(self, i: int) -> Value:
        at = self.first_row + i
        return _clamped(at, self.extents[1]) if self.cut_rows else at

    def _column(self, j: int) -> Value:
        at = self.first_column + j * self.tile.lanes
        return _clamped(at, self.extents[2]) if self.cut_columns else at

    def loops(self, row: Value, column: Value) -> Loops:
        """Returns the grid's loops at one row and column."""
        return Loops((self.batch, row, column), self.extents, self.expressions)

    # Accumulation

    def accumulate(self) -> list[list[Value]]:
        """Returns the reduced values, for each row of the block and each of its columns."""
        rows, columns = len(self.rows), len(self.columns)
        zero = self.code.constant(self.reduction.start(), self.reduction.element)
        start, code = [zero] * (rows * columns), self.code
        if self.tile.chunk:
            flat = self._staged(start)
        else:
            kept = self._kept()

            def body(positions: list[Value], held: Sequence[Value]) -> Sequence[Value]:
                loaded = self._loaded(code, positions)
                for step in range(self.tile.steps):

                    def load(value: SSAValue, place: BlockPosition, step: int = step) -> Value:
                        return kept[value, place] if (value, place) in kept else loaded[value, place][step]

                    def loops(place: BlockPosition, step: int = step) -> Loops:
                        return _with_own(self._grid(place), self.own, self.tile, positions, step)

                    held = self._folded(code, held, load, loops)
                return held

            order = _order(self.own, self.tile)
            turns = [self.own[loop] for loop in order]
            turns[-1] //= self.tile.steps
            flat = code.nest(turns, start, body)
        return [flat[i * columns : (i + 1) * columns] for i in range(rows)]

    def _arguments(self) -> Iterator[tuple[int, SSAValue]]:
        """Yields the body's arguments for operands, with their indices."""
        for number, operand in enumerate(self.stage.inputs):
            if not is_shape_only(operand):
                yield number, self.stage.body.block.args[number]

    def _kept(self, known: Sequence[SSAValue] = ()) -> dict[tuple[SSAValue, BlockPosition], Value]:
        """Returns the operands that are invariant in the reduction, such as statistics of rows, or scales of columns.

        They are loaded once, before the loops; except for those that only `known` values are computed from.
        """
        needed = needed_for([self.reduction.value], known)
        kept: dict[tuple[SSAValue, BlockPosition], Value] = {}
        for number, argument in self._arguments():
            if argument in needed and self._is_kept(number):
                for place in places_of(self.tile, self.axes[argument]):
                    kept[argument, place] = self._load(self.code, number, self._grid(place))
        return kept

    def _is_kept(self, number: int) -> bool:
        return not any(loop >= len(self.grid) for loop in used_dims(maps_of(self.stage)[number]))

    def _loaded(self, code: Code, positions: Sequence[Value]) -> dict[tuple[SSAValue, BlockPosition], list[Value]]:
        """Returns what the unrolled steps read of each operand at each position; all loads precede all uses."""
        loaded: dict[tuple[SSAValue, BlockPosition], list[Value]] = {}
        for number, argument in self._arguments():
            if not self._is_kept(number):
                for place in places_of(self.tile, self.axes[argument]):
                    loops = [
                        _with_own(self._grid(place), self.own, self.tile, positions, step)
                        for step in range(self.tile.steps)
                    ]
                    loaded[argument, place] = self._load_steps(code, number, loops)
        return loaded

    def _load_steps(self, code: Code, number: int, loops: Sequence[Loops]) -> list[Value]:
        buffer, results = self.stage.inputs[number], maps_of(self.stage)[number].results
        binding = code.bindings[buffer]
        places = [place_of(results, buffer, binding.start, loop_) for loop_ in loops]
        first = places[0]
        if element_of(binding.memory) == wgsl.VECTOR:
            at = code.place(first.over(VECTOR), loops[0])
            vectors = code.element(binding.memory, at)
            return [code.add(vector.ExtractOp(vectors.ssa, [step], f32)) for step in range(len(loops))]
        at = code.position(results, buffer, loops[0])
        values: list[Value] = []
        for loop, place in zip(loops, places, strict=True):
            if place.terms == first.terms and place.constant >= first.constant:
                position = at + (place.constant - first.constant)
            else:
                position = code.position(results, buffer, loop)
            values.append(code.element(binding.memory, position))
        return values

    def _grid(self, place: BlockPosition) -> Loops:
        """Returns the grid's loops at a position in the block."""
        rows = self.lane_rows if place.spread else self.rows
        return self.loops(rows[max(place.row, 0)], self.columns[max(place.column, 0)])

    def _load(self, code: Code, number: int, loops: Loops) -> Value:
        """Loads an operand of the contraction."""
        return code.load(self.stage.inputs[number], maps_of(self.stage)[number].results, loops)

    def _folded(
        self,
        code: Code,
        held: Sequence[Value],
        load: Callable[[SSAValue, BlockPosition], Value],
        loops: Callable[[BlockPosition], Loops],
        known: Sequence[SSAValue] = (),
    ) -> list[Value]:
        """Returns the accumulators after one more step of the reduction.

        Args:
            code: Where to write.
            held: The accumulators.
            load: Returns an operand, or a given value, at a position.
            loops: Returns all loops at a position.
            known: Values of the body that need not be computed.
        """
        values = self._values(code, load, loops, known)
        kind, columns = type(self.reduction.combine), len(self.columns)
        return [
            code.apply(kind, held[i * columns + j], code.value(values.at(BlockPosition(i, j), self.reduction.value)))
            for i in range(len(self.rows))
            for j in range(columns)
        ]

    # Staging in workgroup memory

    def _staged(self, start: Sequence[Value]) -> list[Value]:
        """Computes the reduction in chunks: the workgroup stages its shared operands, then all threads read them."""
        total, chunk, code = math.prod(self.own), self.tile.chunk, self.code
        values = one_sided_values(self.stage, self.tile.row, self.tile.column)
        shared = {value: self._shared(value) for value in values}
        kept = self._kept(values)

        def over_chunks(at: Value, held: Sequence[Value]) -> Sequence[Value]:
            first = at * chunk
            for value, memory in shared.items():
                self._fill(code, value, memory, first)
            code.append(wgsl.BarrierOp())  # a thread reads what others have staged
            # A constant trip count lets drivers unroll the loop.
            count = code.number(chunk) if total % chunk == 0 else (total - first).at_most(chunk)
            results = code.loop_to(count, held, lambda k, now: self._staged_step(code, k, first, shared, kept, now))
            code.append(wgsl.BarrierOp())  # the next chunk overwrites what others may still read
            return results

        return code.loop(-(-total // chunk), start, over_chunks)

    def _shared(self, value: SSAValue) -> SSAValue:
        kind = staged_memory(self.tile, value.type, "row" in self.axes[value])
        return self.code.frame.array(self.code.block, kind)

    def _fill(self, code: Code, value: SSAValue, memory: SSAValue, first: Value) -> None:
        """Fills a chunk of a value cooperatively, with coalesced loads by the workgroup's threads."""
        is_row = "row" in self.axes[value]
        extent, chunk, threads = staged_extent(self.tile, is_row), self.tile.chunk, self.tile.threads
        group = code.group(1 if is_row else 0) * extent
        needed = needed_for([value])
        steps_first = self._lies_along_steps(needed)
        width = VECTOR if element_of(memory) == wgsl.VECTOR else 1

        def fill(at: Value) -> None:
            # Neighbouring threads differ in the fast index, and read neighbouring elements.
            inside, across = (chunk, False) if steps_first else (extent // width, True)
            fast, slow = at % inside, at // inside
            place, step = (fast, slow) if across else (slow, fast)
            k = first + step if math.prod(self.own) % chunk == 0 else _clamped(first + step, math.prod(self.own))
            computed = [
                self._computed(code, value, needed, strided(self._staged_loops(is_row, index), k, list(self.own)))
                for index in (group + (place * width + element) for element in range(width))
            ]
            filled = computed[0] if width == 1 else code.add(wgsl.JoinOp([element.ssa for element in computed]))
            code.put(filled, memory, step * (staged_pitch(self.tile, is_row) // width) + place)

        self._share(code, extent // width * chunk, threads, fill)

    def _share(self, code: Code, count: int, threads: int, body: Callable[[Value], None]) -> None:
        """Divides iterations among a workgroup's threads; a constant trip count lets drivers unroll the loop."""
        mine = code.add(wgsl.LocalIndexOp())

        def turn(at: Value, _: object) -> Sequence[Value]:
            body(at * threads + mine if count % threads == 0 else at)
            return []

        if count == threads:
            body(mine)
        elif count % threads == 0:
            code.loop(count // threads, [], turn)
        else:
            code.loop(count, [], turn, start=mine, step=threads)

    def _staged_loops(self, is_row: bool, at: Value) -> Loops:
        """Returns the grid's loops at a row or column that this thread stages."""
        if is_row:
            return self.loops(_clamped(at, self.extents[1]) if self.cut_rows else at, self.columns[0])
        return self.loops(self.rows[0], _clamped(at, self.extents[2]) if self.cut_columns else at)

    def _lies_along_steps(self, needed: Collection[SSAValue]) -> bool:
        """Returns whether a value's operands are contiguous along the reduction, not along the rows or columns."""
        for number, argument in self._arguments():
            if argument in needed and self.axes[argument] and not self._is_kept(number):
                last = maps_of(self.stage)[number].results[-1]
                return any(loop >= len(self.grid) for loop in last.used_dims())
        return False

    def _computed(self, code: Code, value: SSAValue, needed: Collection[SSAValue], loops: Loops) -> Value:
        """Computes a value of the body from operands in memory."""
        known = {
            argument: self._load(code, number, loops).ssa
            for number, argument in self._arguments()
            if argument in needed
        }
        clone_needed(code, self.stage.body.block, known, needed, loops)
        return code.value(known[value])

    def _staged_step(
        self,
        code: Code,
        k: Value,
        first: Value,
        shared: Mapping[SSAValue, SSAValue],
        kept: Mapping[tuple[SSAValue, BlockPosition], Value],
        held: Sequence[Value],
    ) -> Sequence[Value]:
        position = first + k
        lane, line = (code.add(wgsl.LocalIdOp(dim)) for dim in range(2))
        vectors: dict[tuple[SSAValue, int], Value] = {}
        numbers = {argument: number for number, argument in self._arguments()}

        def loops(place: BlockPosition) -> Loops:
            return strided(self._grid(place), position, list(self.own))

        def load(value: SSAValue, place: BlockPosition) -> Value:
            if (value, place) in kept:
                return kept[value, place]
            if value not in shared:
                return self._load(code, numbers[value], loops(place))
            memory, is_row = shared[value], place.row >= 0
            pitch = staged_pitch(self.tile, is_row)
            if not is_row:
                return code.element(memory, k * pitch + (lane + place.column * self.tile.lanes))
            if element_of(memory) != wgsl.VECTOR:
                return code.element(memory, k * pitch + (line * self.tile.rows + place.row))
            number, element = divmod(place.row, VECTOR)
            if (value, number) not in vectors:
                at = k * (pitch // VECTOR) + (line * (self.tile.rows // VECTOR) + number)
                vectors[value, number] = code.element(memory, at)
            return code.add(vector.ExtractOp(vectors[value, number].ssa, [element], f32))

        return self._folded(code, held, load, loops, list(shared))

    def _values(
        self,
        code: Code,
        load: Callable[[SSAValue, BlockPosition], Value],
        loops: Callable[[BlockPosition], Loops],
        known: Sequence[SSAValue],
    ) -> BlockValues:
        """Computes the body over the block; values that vary by one side only, once per row or column."""
        values = BlockValues(code, self.tile, self.axes)
        needed = needed_for([self.reduction.value], known)
        for value in dict.fromkeys([*known, *(argument for _, argument in self._arguments())]):
            if value in needed:
                for place in places_of(self.tile, self.axes[value]):
                    values.known.setdefault(place, {})[value] = load(value, place).ssa
        for op in self.stage.body.block.ops:
            if any(result in needed and result not in known for result in op.results):
                values.compute(op, loops)
        return values

    # Epilogue

    def finish(self, sums: list[list[Value]]) -> None:
        """Runs the epilogue stages on each element of the block and stores the results."""
        epilogue = [stage for stage in self.kernel.stages if stage is not self.stage]
        size = sum(1 for stage in epilogue for _ in operations(stage.body.block)) * len(self.rows) * len(self.columns)
        if size <= UNROLLED_EPILOGUE or len(self.rows) * len(self.columns) == 1:
            for i, row in enumerate(self.rows):
                for j, column in enumerate(self.columns):
                    self._element(self.code, row, column, (i, j), sums[i][j])
        else:
            self._finish_in_loop(sums)

    def _finish_in_loop(self, sums: list[list[Value]]) -> None:
        """Writes the epilogue as a loop over the rows, with the columns unrolled; the sums of a column are an array."""
        code, kind, rows = self.code, sums[0][0].type, len(sums)
        threads, mine = 1, code.number(0)
        if code.frame.software and holds_sums(self.tile):
            # On a CPU, workgroup memory is ordinary memory, and its driver compiles accesses to it far faster.
            threads, mine = self.tile.threads, code.add(wgsl.LocalIndexOp())
            held = [code.frame.array(code.block, MemRefType(kind, [rows * threads])) for _ in self.columns]
        else:
            held = [code.add(memref.AllocaOp.get(kind, shape=[rows])).ssa for _ in self.columns]
        for i, row in enumerate(sums):
            at = mine + i * threads if threads > 1 else code.number(i)
            for memory, value in zip(held, row, strict=True):
                code.put(value, memory, at)

        def body(at: Value, _: object) -> list[Value]:
            row = self.first_row + at
            place = at * threads + mine if threads > 1 else at
            for j, memory in enumerate(held):
                column = self.first_column + j * self.tile.lanes
                self._element(code, row, column, None, code.element(memory, place))
            return []

        code.loop_to(code.concealed(rows), [], body)

    def _element(self, code: Code, row: Value, column: Value, place: tuple[int, int] | None, value: Value) -> None:
        """Runs the epilogue at one element, if it is in bounds."""
        tests: list[Value] = []
        if self.cut_rows:
            at = row if place is None else self.first_row + place[0]
            tests.append(at < self.extents[1])
        if self.cut_columns:
            at = column if place is None else self.first_column + place[1] * self.tile.lanes
            tests.append(at < self.extents[2])
        if not tests:
            self._epilogue(code, self.loops(row, column), value)
            return
        inside = tests[0] if len(tests) == 1 else tests[0] & tests[1]
        code.when(inside, lambda: self._epilogue(code, self.loops(row, column), value))

    def _epilogue(self, code: Code, loops: Loops, value: Value) -> None:
        known: dict[SSAValue, Value] = {self.stage.outputs[0]: value}
        for stage in self.kernel.stages:
            values = [value] if stage is self.stage else stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            store_outputs(self.kernel, stage, code, loops, values)


def _clamped(at: Value, extent: int) -> Value:
    return at.at_most(extent - 1)


def _order(own: Sequence[int], tile: ContractionTile) -> list[int]:
    """Returns the loops of the reduction in nesting order."""
    order = [loop for loop in range(len(own)) if loop != tile.inner]
    return order if tile.inner < 0 else [*order, tile.inner]


def _with_own(loops: Loops, own: Sequence[int], tile: ContractionTile, positions: Sequence[Value], step: int) -> Loops:
    """Returns the grid's loops and the reduction's, given in nesting order, in one unrolled step."""
    first, order = len(loops.extents), _order(own, tile)
    extents = [own[loop] for loop in order]
    extents[-1] //= tile.steps
    expressions: list[AffineExpr] = [AffineDimExpr(first + order.index(loop)) for loop in range(len(own))]
    if tile.steps > 1:
        expressions[order[-1]] = expressions[order[-1]] * tile.steps + step
    return Loops((*loops.bases, *positions), (*loops.extents, *extents), (*loops.expressions, *expressions))


def vector_operands(kernel: KernelOp, tile: ContractionSchedule, starts: Sequence[int]) -> set[SSAValue]:
    """Returns the operands of a contraction that each unrolled iteration loads as one vector.

    Args:
        kernel: The kernel of the contraction.
        tile: Its schedule.
        starts: The start of each kernel argument in its binding, in elements.
    """
    stage = contraction_of(kernel)
    if tile.steps != VECTOR or tile.chunk or stage is None:
        return set()
    extents, expressions = grid_of_sides(kernel.extents, tile.row, tile.column)
    own = loop_extents(stage)[len(kernel.extents) :]
    start_of: dict[SSAValue, int] = dict(zip(kernel.body.block.args, starts, strict=True))
    loops = [_with_own(Loops((), extents, expressions), own, tile, (), step) for step in range(tile.steps)]
    values: set[SSAValue] = set()
    for buffer, m in zip(stage.inputs, maps_of(stage), strict=False):
        if buffer in start_of and element_of(buffer) == f32 and buffer.has_one_use():
            places = [place_of(m.results, buffer, start_of[buffer], loop) for loop in loops]
            if are_vector(places):
                values.add(buffer)
    return values


def write_contraction(kernel: KernelOp, schedule: ContractionSchedule, code: Code) -> None:
    """Writes the code of a contraction.

    Raises:
        DiagnosticException: The kernel is not a contraction.
    """
    stage = contraction_of(kernel)
    if stage is None:
        raise DiagnosticException(
            f"the kernel at {line_of(kernel.location)} is scheduled as a contraction, but is not one"
        )
    block = OutputBlock(kernel, stage, code, schedule)
    block.finish(block.accumulate())
