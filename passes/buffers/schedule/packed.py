"""The archetype `packed`: matrix products of packed panels, in native code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.builtin import f64
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from tensorgrad.dialects.buf import KernelOp, element_of, loop_extents
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses.axes import needed_for
from tensorgrad.passes.analyses.factors import Factors, factors_of, is_linear, lies_along_steps
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.machine import CpuModel
from tensorgrad.passes.buffers.schedule.archetype import Archetype
from tensorgrad.passes.buffers.schedule.contraction import Sides, is_blockable, sides_of
from tensorgrad.passes.kernels.weights import weight_of
from tensorgrad.runtime.target import Target

REGISTER_ROWS: dict[int, int] = {16: 8, 32: 6, 64: 12}
"""The most rows of a register block, by the bytes of a vector: with two vectors of columns they leave a few free."""

COLUMN_VECTORS = 2
MOST_DEPTH = 320
"""The most iterations that are packed at a time: their columns stay in the first cache."""

MOST_TILE_ROWS, MOST_TILE_COLUMNS = 192, 512
"""A task's packed rows, packed columns and results stay in the second cache."""

TASK_PRODUCTS = 1 << 21
"""A task has about so many products at least, while there are fewer tasks than `ENOUGH_TASKS`."""

ENOUGH_TASKS = 8
LEAST_TILE = 1 << 13
"""Smaller tiles are not cut for further tasks: operands would be packed more often. Long sums are split instead."""

LEAST_COLUMNS = 4
"""Narrower products are rows of sums."""


class PackedArchetype(Archetype[PackedSchedule]):
    """Tiles of results; both operands are packed, whatever they are computed from."""

    schedule = PackedSchedule

    def default(self, kernel: KernelOp, target: Target) -> PackedSchedule | None:
        stage = contraction_of(kernel)
        if stage is None or not is_blockable(kernel, stage):
            return None
        sides = sides_of(kernel, stage)
        factors = factors_of(stage, *sides)
        if factors is None:
            return None
        lanes = target.vector_bytes // (8 if element_of(stage.outputs[0]) == f64 else 4)
        return _schedule(kernel, stage, sides, factors, lanes, REGISTER_ROWS[target.vector_bytes])

    def neighbours(self, schedule: PackedSchedule, kernel: KernelOp, target: Target) -> Iterator[PackedSchedule]:
        for rows in (schedule.tile_rows // 2, schedule.tile_rows * 2):
            yield from _with_tile(schedule, kernel, rows, schedule.tile_columns)
        for columns in (schedule.tile_columns // 2, schedule.tile_columns * 2):
            yield from _with_tile(schedule, kernel, schedule.tile_rows, columns)
        for depth in (schedule.depth // 2, schedule.depth * 2):
            if depth >= 16:
                yield replace(schedule, depth=depth)

    def cycles(
        self, schedule: PackedSchedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int
    ) -> float:
        stage = contraction_of(kernel)
        assert stage is not None
        tasks = min(schedule.groups[0] * parts, machine.cores)
        return packed_cost(kernel, stage, machine) * machine.cores / tasks


def packed_cost(kernel: KernelOp, stage: GenericOp, machine: CpuModel) -> float:
    """Returns about how many cycles each core takes for a contraction; infinitely many where it can't be packed."""
    sides = sides_of(kernel, stage)
    factors = factors_of(stage, *sides)
    if factors is None:
        return math.inf
    steps = math.prod(loop_extents(stage)[len(kernel.extents) :])
    rest, rows, columns = _extents(kernel, sides)
    products = rest * rows * columns * steps / machine.lanes
    packing = 0.0
    for value, extent, times in (
        (factors.row, rows, -(-columns // MOST_TILE_COLUMNS)),
        (factors.column, columns, -(-rows // MOST_TILE_ROWS)),
    ):
        owners = {one.owner for one in needed_for([value]) if isinstance(one.owner, Operation)}
        each = machine.load + machine.operation * weight_of(op for owner in owners for op in owner.walk())
        packing += rest * extent * steps * times * each
    return (products + packing) / machine.cores


def _extents(kernel: KernelOp, sides: Sides) -> tuple[int, int, int]:
    row, column = sides
    grid = kernel.extents
    rest = (extent for i, extent in enumerate(grid) if i not in (*row, *column))
    return math.prod(rest), math.prod(grid[i] for i in row), math.prod(grid[i] for i in column)


def _schedule(
    kernel: KernelOp, stage: GenericOp, sides: Sides, factors: Factors, lanes: int, most_rows: int
) -> PackedSchedule | None:
    rest, rows, columns = _extents(kernel, sides)
    if columns < LEAST_COLUMNS or rows < 2:
        return None
    steps = math.prod(loop_extents(stage)[len(kernel.extents) :])
    while lanes >= 2 * columns:
        lanes //= 2
    block_columns = lanes * min(COLUMN_VECTORS, -(-columns // lanes))
    along = lies_along_steps(stage, factors.row, len(kernel.extents))
    plain = along and is_linear(stage, factors.row, kernel.extents, *sides)
    whole = _whole_rows(rows, most_rows) if plain else 0
    block_rows = whole or _block_rows(rows, most_rows)
    tile_rows = min(_up(rows, block_rows), MOST_TILE_ROWS // block_rows * block_rows)
    tile_columns = min(_up(columns, block_columns), MOST_TILE_COLUMNS // block_columns * block_columns)
    depth = steps if steps <= MOST_DEPTH else -(-steps // -(-steps // MOST_DEPTH))

    def tasks() -> int:
        return rest * -(-rows // tile_rows) * -(-columns // tile_columns)

    while (
        tasks() < ENOUGH_TASKS
        and tile_rows * tile_columns * steps > 2 * TASK_PRODUCTS
        and tile_rows * tile_columns > LEAST_TILE
    ):
        if tile_rows >= tile_columns and tile_rows > block_rows:
            tile_rows = _up(-(-tile_rows // 2), block_rows)
        elif tile_columns > block_columns:
            tile_columns = _up(-(-tile_columns // 2), block_columns)
        else:
            break
    return PackedSchedule(
        groups=(tasks(), 1, 1),
        row=sides[0],
        column=sides[1],
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        rows=block_rows,
        columns=block_columns,
        lanes=lanes,
        depth=depth,
        direct=int(whole > 0),
    )


def _block_rows(rows: int, most: int) -> int:
    """Returns how many rows a register block has: few are wasted at the edge, then many."""
    least = max(most * 2 // 3, 1)
    return min(rows, min(range(least, most + 1), key=lambda one: (_up(rows, one), -one)))


def _whole_rows(rows: int, most: int) -> int:
    """Returns the most rows of a register block that divide all rows, or 0 where these are too few."""
    return next((one for one in range(min(rows, most), most // 2 - 1, -1) if rows % one == 0), 0)


def _up(extent: int, block: int) -> int:
    return -(-extent // block) * block


def _with_tile(schedule: PackedSchedule, kernel: KernelOp, rows: int, columns: int) -> Iterator[PackedSchedule]:
    """Yields the schedule with another tile, if whole blocks fill it."""
    if (
        rows >= schedule.rows
        and columns >= schedule.columns
        and rows % schedule.rows == columns % schedule.columns == 0
    ):
        found = replace(schedule, tile_rows=rows, tile_columns=columns)
        yield replace(found, groups=(found.tasks_over(kernel.extents), 1, 1))
