"""The archetype `packed`: matrix products in register blocks, in native code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import memref
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tensorgrad.dialects.buf import KernelOp, element_bytes, element_of, loop_extents, maps_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.axes import needed_for
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.analyses.factors import (
    LEAST_REUSE,
    Factors,
    Strides,
    factors_of,
    is_extended,
    lies_along_steps,
    operand_of,
    step_conditions,
    strides_of,
    unrounded_both,
)
from tensorgrad.passes.analyses.kinds import contraction_of, summed_stage
from tensorgrad.passes.analyses.machine import LINE_BYTES, CpuModel
from tensorgrad.passes.analyses.windows import LEAST_RUN, places_of, plain_place, run_along
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.passes.codegen.common.sides import Sides, is_blockable, sides_of
from tensorgrad.passes.codegen.common.weights import weight_of
from tensorgrad.passes.codegen.llvm.packed.factors import FactorLayout, is_in_blocks
from tensorgrad.passes.codegen.llvm.packed.tiles import (
    ENOUGH_TASKS,
    LEAST_COLUMNS,
    LEAST_COLUMNS_PACKED,
    LEAST_ROWS,
    LEAST_SIDE,
    MOST_DEPTH,
    MOST_PACKED_DEPTH,
    PANEL_BYTES,
    TASK_PRODUCTS,
    VECTOR_UNITS,
    cut_tiles,
    evened,
    extents_of,
    reads_rows,
    tail_along,
)
from tensorgrad.passes.codegen.llvm.packed.windows_schedule import padded_schedules, schedules_across_lines
from tensorgrad.runtime.target import Target

PAGE, MOST_ROWS_APART = 4096, 8
"""Rows a multiple of `PAGE` bytes apart map to the same L1 set, which holds `MOST_ROWS_APART` lines."""

COSTLY_PROLOGUE, LEAST_DEPTH = 16.0, 128
"""The additions that computing an element of a row costs, from which a tile has all columns, so that it is computed
once; and the fewest iterations to which a pass is cut for that."""

NEAR_BYTES = 1 << 19
"""The most bytes of a tile's columns that are read in place, so that they stay in L2."""

SMALL_ROWS_BYTES, NEAREST_BYTES = 1 << 14, 24 << 10
"""The largest rows that each tile can read again, and the most bytes of its packed columns and sums then, so that
these stay in L1."""

FEW_ROWS = 48
"""The most rows for which columns are read in place: packing them would cost more than it saves."""

SEGMENT_BYTES = 192
"""The fewest bytes, for few rows, of the columns that are read in place in an iteration: the next iteration's are
elsewhere in memory."""

MOST_TILE_ROWS, MOST_TILE_COLUMNS = 192, 512
"""The largest tile that the cost model assumes when it estimates how often operands are packed."""

PAIRING = 4.0
"""The cycles in which vectors of factors are rounded and put into words, per vector."""

PACKING, PACKING_WINDOWS, PACKING_LINES, PACKING_RUN, PACKING_ELEMENTS = 7.0, 12.0, 18.0, 9.0, 48.0
"""The rows that are multiplied with a vector in the time in which one of columns is packed: as a whole, out of windows,
out of windows along the reduction, in addition for each part of a register block where contiguous runs end, and element
by element."""

LOADING = 0.25
"""The time of loading a row's element or a vector of columns, in that of multiplying them."""

PADDING, SPLITTING, SPLITTING_LINE, LINES = 4.0, 5.0, 0.8, 3.0
"""The same for a vector that is read from a padded image, for copying it; if lines are split, with as much at least for
each part of a line that a vector has, and each element of a window in a line; and, once for all iterations, for each
row, for leaving out what lies behind lines."""

ALONG_STEPS, ADDING_LANES = 1.2, 4.0
"""The time of multiplying a row with a vector if vectors run along the reduction, and, once for all iterations, of
adding the sums of each of its lanes."""

PACKING_ROWS, COPYING_ROWS, READING_ROWS = 4.0, 0.6, 0.25
"""The vectors that an element of a row is multiplied with in the time in which it is packed, one by one or with those
of neighbouring iterations, or read anew by a tile."""

SCATTERING, SCATTERING_SETS = 5.0, 45.0
"""The vectors that are multiplied in the time in which a result is stored whose neighbours are elsewhere in memory: in
cache lines that fit into L1, or share its sets."""

LEAST_ROWS_TRANSPOSED = 256
"""The fewest rows of a tile whose columns are packed and transposed, since each tile repeats that work."""


class PackedArchetype(Archetype[PackedSchedule]):
    """Computes tiles of results; operands are packed, including their prologues, or read in place."""

    schedule = PackedSchedule

    def default(self, kernel: KernelOp, target: Target) -> PackedSchedule | None:
        stage = summed_stage(kernel)
        if stage is None or not is_blockable(kernel, stage):
            return None
        padded = list(padded_schedules(kernel, stage, target))
        if contraction_of(kernel) is None or any(not choice.row for choice in padded):
            return next(iter(padded), None)
        choices = [*_packed(kernel, stage, target), *padded]
        choices += [*schedules_across_lines(kernel, stage, target), *_along_steps(kernel, stage, target)]
        return min(choices, key=lambda choice: _time(choice, kernel, stage, target), default=None)

    def neighbours(self, schedule: PackedSchedule, kernel: KernelOp, target: Target) -> Iterator[PackedSchedule]:
        for rows in () if schedule.lines else (schedule.tile_rows // 2, schedule.tile_rows * 2):
            yield from _with_tile(schedule, kernel, rows, schedule.tile_columns)
        for columns in (schedule.tile_columns // 2, schedule.tile_columns * 2):
            yield from _with_tile(schedule, kernel, schedule.tile_rows, columns)
        for depth in (schedule.depth // 2, schedule.depth * 2):
            if depth >= 16 and not (schedule.pitch or schedule.lines or schedule.along_steps):
                yield replace(schedule, depth=depth)

    def cycles(
        self, schedule: PackedSchedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int
    ) -> float:
        stage = summed_stage(kernel)
        assert stage is not None
        if not schedule.row:
            return math.prod(loop_extents(stage)) / machine.lanes / min(schedule.groups[0] * parts, machine.cores)
        steps = math.prod(loop_extents(stage)[len(kernel.extents) :])
        enough = max(math.prod(kernel.extents) * steps // TASK_PRODUCTS, 1)
        tasks = min(schedule.groups[0] * parts, enough, machine.cores)
        return packed_cost(kernel, stage, machine, bool(schedule.pairs)) * machine.cores / tasks


def packed_cost(kernel: KernelOp, stage: GenericOp, machine: CpuModel, has_pairs: bool = False) -> float:
    """Returns the estimated cycles per core of a contraction; infinity if it can't be packed.

    A side is packed once for each tile of the other one. That takes a load for each element; what else its prologue
    loads and computes runs in vectors, and so does pairing.

    Args:
        kernel: A kernel.
        stage: Its contraction.
        machine: The model of the CPU.
        has_pairs: Whether pairs are multiplied at once.
    """
    sides = sides_of(kernel, stage)
    factors = factors_of(stage, *sides)
    if factors is not None and has_pairs:
        factors = unrounded_both(factors)
    if factors is None:
        return math.inf
    steps = math.prod(loop_extents(stage)[len(kernel.extents) :])
    rest, rows, columns = extents_of(kernel, sides)
    products = rest * rows * columns * steps / (machine.lanes * (2 if has_pairs else 1))
    packing = 0.0
    for value, extent, times in (
        (factors.row, rows, -(-columns // MOST_TILE_COLUMNS)),
        (factors.column, columns, -(-rows // MOST_TILE_ROWS)),
    ):
        ops = _computing(value)
        loads = sum(isinstance(other, BlockArgument) for other in needed_for([value]))
        gathers = sum(isinstance(op, memref.LoadOp) for op in ops)
        prologue = machine.load * max(loads - 1, 0) + machine.gather * gathers + machine.operation * weight_of(ops)
        prologue += PAIRING if has_pairs else 0.0
        packing += rest * extent * steps * times * (machine.load + prologue / machine.lanes)
    return (products + packing) / machine.cores


def _computing(value: SSAValue) -> list[Operation]:
    """Returns the ops that compute a factor from elements of operands."""
    owners = {needed.owner for needed in needed_for([value])}
    return [op for owner in owners if isinstance(owner, Operation) for op in owner.walk()]


def _reuses_enough(kernel: KernelOp, sides: Sides) -> bool:
    """Returns whether so many products use each factor that packing it as pairs pays."""
    _, rows, columns = extents_of(kernel, sides)
    return min(rows, columns) >= LEAST_REUSE


def _packed(kernel: KernelOp, stage: GenericOp, target: Target) -> Iterator[PackedSchedule]:
    """Yields the schedules that pack columns or read them in place: with all loops of the columns, or the inner ones.

    Columns of several images, say, are not contiguous; those of one are.
    """
    row, column = sides_of(kernel, stage)
    factors = factors_of(stage, row, column)
    if factors is None:
        return
    plain = unrounded_both(factors) if target.bf16_dot and _reuses_enough(kernel, (row, column)) else None
    if plain is not None:
        schedules = [_schedule(kernel, stage, (row, column), plain, target, has_pairs=True)]
    else:
        sides = [(row, column[first:]) for first in range(len(column))]
        schedules = [_schedule(kernel, stage, side, factors, target) for side in sides]
    yield from (schedule for schedule in schedules if schedule is not None)


def _time(schedule: PackedSchedule, kernel: KernelOp, stage: GenericOp, target: Target) -> float:
    """Returns the estimated time of an iteration of the reduction, in that of multiplying a row with a vector."""
    rest, rows, columns = schedule.extents(kernel.extents)
    down, across = schedule.tiles_over(kernel.extents)
    rank = len(kernel.extents)
    steps, factors = math.prod(loop_extents(stage)[rank:]), factors_of(stage, schedule.row, schedule.column)
    assert factors is not None
    packing, lines, reading = 0.0, 0.0, PACKING_ROWS
    if schedule.pitch:
        parts = loop_extents(stage)[-1] * max(schedule.lanes / schedule.pitch, 1.0)
        packing = max(SPLITTING, SPLITTING_LINE * parts) if schedule.split else PADDING
        lines = LINES * rows / steps if schedule.gap else 0.0
    elif schedule.along_steps:
        lines = rows * (ALONG_STEPS - 1 + ADDING_LANES * schedule.lanes / steps)
    elif not schedule.direct_columns:
        packing = _packing(schedule, kernel, stage, factors)
    lines += _scattering(schedule, kernel, stage) * rows / steps
    if schedule.direct_rows:
        reading = READING_ROWS
    elif _run(stage, factors.row, range(rank, len(loop_extents(stage)))) >= LEAST_RUN:
        reading = COPYING_ROWS
    vectors = -(-columns // schedule.lanes)
    if schedule.tail_along:
        behind = columns % schedule.columns
        vectors = columns // schedule.lanes + ALONG_STEPS * behind / schedule.lanes
    loading = 1 + LOADING * (1 / schedule.rows + schedule.lanes / schedule.columns)
    is_aligned = not (schedule.gap or schedule.pitch % schedule.lanes)
    unaligned = 1.0 if is_aligned else VECTOR_UNITS[target.vector_bytes].unaligned
    multiplying = rounded_up(rows, schedule.rows) * loading * unaligned
    return rest * (vectors * (multiplying + down * packing + lines) + across * rows * reading)


def _packing(schedule: PackedSchedule, kernel: KernelOp, stage: GenericOp, factors: Factors) -> float:
    """Returns the estimated time of packing a vector of columns, in that of multiplying a row with it."""
    grid, sides = kernel.extents, (schedule.row, schedule.column)
    strides = strides_of(stage, factors.column, grid, *sides)
    if strides is not None:
        return PACKING if 1 in (strides.side, strides.step) else PACKING_ELEMENTS
    own = range(len(grid), len(loop_extents(stage)))
    run, along = (_run(stage, factors.column, loops) for loops in (schedule.column, own))
    if max(run, along) < LEAST_RUN:
        return PACKING_ELEMENTS
    if along > run:
        return PACKING_LINES
    if run == schedule.extents(grid)[2]:
        return PACKING_WINDOWS
    return PACKING_WINDOWS + PACKING_RUN * (1 + (schedule.columns - 1) / run)


def _run(stage: GenericOp, factor: SSAValue, loops: Sequence[int]) -> int:
    """Returns how many neighbours along some loops are contiguous in the memory of all operands of a factor."""
    extents = loop_extents(stage)
    return run_along((places_of(stage, factor) or {}).values(), loops, [extents[loop] for loop in loops])


def _scattering(schedule: PackedSchedule, kernel: KernelOp, stage: GenericOp) -> float:
    """Returns the estimated time of storing a vector of results that are not contiguous; 0 if they are."""
    loop = schedule.column[-1]
    results = [
        plain_place(buffer, m, loop_extents(writer))
        for writer in kernel.stages
        for buffer, m in zip(writer.outputs, maps_of(writer)[len(writer.inputs) :], strict=True)
        if buffer in kernel.output_arguments
    ]
    apart = max((place.stride(loop) for place in results if place is not None), default=1)
    if apart <= 1:
        return 0.0
    room = PAGE // math.gcd(apart * element_bytes(element_of(stage.outputs[0])), PAGE) * MOST_ROWS_APART
    return schedule.lanes * (SCATTERING if kernel.extents[loop] <= room else SCATTERING_SETS)


@dataclass(frozen=True)
class _Block:
    """A register block of a product, and whether its operands are read in place.

    Attributes:
        rows: The number of rows.
        columns: The number of columns.
        lanes: The elements of a vector.
        direct_rows: Whether rows are read in place.
        direct_columns: Whether columns are.
    """

    rows: int
    columns: int
    lanes: int
    direct_rows: bool
    direct_columns: bool


def _block_of(
    kernel: KernelOp, stage: GenericOp, sides: Sides, factors: Factors, target: Target, has_pairs: bool
) -> _Block:
    """Returns the register block of the columns in usual vectors, or of few rows with more of them."""
    rest, rows, columns = extents_of(kernel, sides)
    size = element_bytes(element_of(stage.outputs[0]))
    unit = VECTOR_UNITS[target.vector_bytes]
    lanes = target.vector_bytes // size
    while lanes >= 2 * columns:
        lanes //= 2
    vectors = min(unit.vectors[0], -(-columns // lanes))
    line = math.prod(loop_extents(stage)[len(kernel.extents) :]) * size
    across, along = (strides_of(stage, value, kernel.extents, *sides) for value in (factors.column, factors.row))
    # A vector that is a part of a cache line takes the line several times, unless all rows use it at once.
    has_few_rows = rows <= (FEW_ROWS if target.vector_bytes == LINE_BYTES else unit.sums // unit.vectors[0])
    # Packing needs long tiles: where these are few, cores would be idle.
    has_long_tiles = rest * (rows // LEAST_ROWS) * (columns // LEAST_SIDE) >= ENOUGH_TASKS // 2
    near = unit.in_place_bytes if has_long_tiles else NEAR_BYTES
    direct_columns = not has_pairs and _reads_columns(across, line, near, has_few_rows)
    direct_columns = direct_columns and (has_few_rows or not is_extended(factors.column))
    if direct_columns and has_few_rows and columns >= lanes:
        vectors = _vectors_of_few_rows(rows, columns // lanes, target)
    most_rows = unit.sums // vectors
    direct_rows = not has_pairs and reads_rows(along, line, columns) and not is_extended(factors.row)
    if direct_rows and along is not None and along.side * size % PAGE == 0:
        most_rows = min(most_rows, MOST_ROWS_APART)
    block_rows = unit.rows(rows, most_rows)
    if along is None and operand_of(factors.row) is not None:
        block_rows = _within_runs(_run(stage, factors.row, sides[0]), most_rows) or block_rows
    return _Block(
        block_rows, lanes * vectors, lanes, direct_rows, direct_columns=direct_columns and columns >= lanes * vectors
    )


def _schedule(
    kernel: KernelOp, stage: GenericOp, sides: Sides, factors: Factors, target: Target, has_pairs: bool = False
) -> PackedSchedule | None:
    """Returns the schedule that packs columns or reads them in place; `None` if there are too few."""
    rest, rows, columns = extents_of(kernel, sides)
    if columns < LEAST_COLUMNS or rows < 2:
        return None
    block = _block_of(kernel, stage, sides, factors, target, has_pairs)
    steps = math.prod(loop_extents(stage)[len(kernel.extents) :])
    size = element_bytes(element_of(stage.outputs[0]))
    packed_size = size // 2 if has_pairs else size
    most_depth = MOST_DEPTH if block.direct_rows else MOST_PACKED_DEPTH * (2 if has_pairs else 1)
    whole_depth = PANEL_BYTES // (columns * packed_size)
    is_whole = weight_of(_computing(factors.row)) >= COSTLY_PROLOGUE and whole_depth >= LEAST_DEPTH
    most_depth = min(most_depth, whole_depth) if is_whole else most_depth
    depth = -(-steps // -(-steps // most_depth))
    depth += depth % 2 if has_pairs else 0
    widest = columns if is_whole else max(PANEL_BYTES // (depth * packed_size), LEAST_SIDE)
    if block.direct_rows and not is_whole and rows * steps * size <= SMALL_ROWS_BYTES:
        widest = min(widest, max(NEAREST_BYTES // ((depth + block.rows) * size), LEAST_COLUMNS_PACKED))
    # Sums over several ranges stay in L2.
    most_tile_rows = max(PANEL_BYTES // (columns * size), LEAST_ROWS) if is_whole and depth < steps else rows
    if block.direct_columns:
        widest = columns if rows <= block.rows else max(NEAR_BYTES // (steps * size), block.columns)
    packed = PackedSchedule(
        groups=(1, 1, 1),
        row=sides[0],
        column=sides[1],
        tile_rows=rounded_up(min(rows, most_tile_rows), block.rows),
        tile_columns=evened(columns // block.columns * block.columns, widest, block.columns),
        rows=block.rows,
        columns=block.columns,
        lanes=block.lanes,
        depth=depth,
        direct_rows=int(block.direct_rows),
        direct_columns=int(block.direct_columns),
        pairs=int(has_pairs),
        tail_along=_tail_of(block, kernel, stage, sides, factors, target)
        if math.gcd(steps, depth) % block.lanes == 0
        else 0,
    )
    is_transposed = lies_along_steps(stage, factors.column, len(kernel.extents))
    least_rows = LEAST_ROWS_TRANSPOSED if is_transposed else LEAST_ROWS
    return cut_tiles(packed, kernel, rest * rows * columns * steps, least_rows, columns if is_whole else 0)


def _tail_of(block: _Block, kernel: KernelOp, stage: GenericOp, sides: Sides, factors: Factors, target: Target) -> int:
    """Returns how many of the columns behind the last whole block are summed along the reduction at a time."""
    along = strides_of(stage, factors.row, kernel.extents, *sides)
    is_in_place = block.direct_columns and block.direct_rows and along is not None and along.step == 1
    if not is_in_place or step_conditions(stage, factors, (*sides[0], *sides[1])):
        return 0
    behind = extents_of(kernel, sides)[2] % block.columns
    return tail_along(behind, block.lanes, block.rows, VECTOR_UNITS[target.vector_bytes])


def _within_runs(run: int, most: int) -> int:
    """Returns the largest block, of at least 2/3 `most` rows, that divides runs of contiguous ones; 0 if none does."""
    return next((rows for rows in range(most, most * 2 // 3 - 1, -1) if is_in_blocks(run, rows)), 0)


def _vectors_of_few_rows(rows: int, most: int, target: Target) -> int:
    """Returns for how many vectors of columns, at most `most`, few rows leave registers."""
    unit = VECTOR_UNITS[target.vector_bytes]
    block_rows = evenest(rows, unit.sums * target.vector_bytes // SEGMENT_BYTES)
    return min(max(unit.sums // block_rows, unit.vectors[0]), most)


def _along_steps(kernel: KernelOp, stage: GenericOp, target: Target) -> Iterator[PackedSchedule]:
    """Yields the schedule with vectors along the reduction: for few rows, and columns that are contiguous along it.

    Vectors along the columns would need their transpose, in which each element is used once for each row.
    """
    grid, sides = kernel.extents, sides_of(kernel, stage)
    factors = factors_of(stage, *sides)
    rest, rows, columns = extents_of(kernel, sides)
    size = element_bytes(element_of(stage.outputs[0]))
    lanes, steps = target.vector_bytes // size, math.prod(loop_extents(stage)[len(grid) :])
    if factors is None or not (2 <= rows <= FEW_ROWS and columns >= lanes and lanes <= steps <= lanes * MOST_DEPTH):
        return
    most_sums = VECTOR_UNITS[target.vector_bytes].sums
    # Beside the sums, registers hold a vector of each row. More columns at once are more streams out of memory.
    at_once = next(count for count in (8, 4, 2) if count <= min(lanes, 4 if rows > 2 * (most_sums // 9) else 8))
    block_rows = evenest(rows, most_sums // (at_once + 1))
    layouts = (FactorLayout.of(stage, value, grid, *sides, rows=block_rows) for value in (factors.row, factors.column))
    row, column = layouts
    if not (column.in_lines and row.along_steps) or step_conditions(stage, factors, (*sides[0], *sides[1])):
        return
    widest = columns if block_rows == rows else max(NEAR_BYTES // (steps * size), lanes)
    schedule = PackedSchedule(
        groups=(1, 1, 1),
        row=sides[0],
        column=sides[1],
        tile_rows=rounded_up(rows, block_rows),
        tile_columns=evened(columns // lanes * lanes, widest, lanes),
        rows=block_rows,
        columns=lanes,
        lanes=lanes,
        depth=steps,
        direct_rows=int(row.in_lines),
        direct_columns=1,
        along_steps=at_once,
    )
    yield cut_tiles(schedule, kernel, rest * rows * columns * steps, rows)


def _reads_columns(strides: Strides | None, line: int, near: int, has_few_rows: bool) -> bool:
    """Returns whether columns are read in place: if they are contiguous, and either near or used by few rows.

    Args:
        strides: The strides of the columns, if they are elements of an operand with constant strides.
        line: The bytes of a column.
        near: The bytes of the largest operand that is near.
        has_few_rows: Whether so few rows use them that packing them would cost more than it saves.
    """
    return strides is not None and strides.side == 1 and (line * strides.step <= near or has_few_rows)


def _with_tile(schedule: PackedSchedule, kernel: KernelOp, rows: int, columns: int) -> Iterator[PackedSchedule]:
    """Yields the schedule with another tile, if the tile consists of whole blocks."""
    block = schedule.block_columns(kernel.extents)
    if rows >= schedule.rows and columns >= block and rows % schedule.rows == columns % block == 0:
        tiled = replace(schedule, tile_rows=rows, tile_columns=columns)
        yield replace(tiled, groups=(tiled.tasks_over(kernel.extents), 1, 1))
