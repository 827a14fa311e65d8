"""Tiles of packed products: their extents, and how they are cut into tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.factors import Strides
from tensorgrad.passes.codegen.common.sides import Sides


@dataclass(frozen=True)
class Registers:
    """The vector registers of a CPU, and the register blocks that fit.

    Attributes:
        count: The number of registers.
        sums: The most sums of a block.
        vectors: The numbers of vectors of a block's columns: first the usual one, then what else is tried for windows.
    """

    count: int
    sums: int
    vectors: tuple[int, ...]

    def rows(self, vectors: int) -> int:
        """Returns the most rows of a block: beside the sums, registers hold vectors of columns, and a row's element."""
        return max(min(self.sums, self.count - vectors - 1) // vectors, 1)


REGISTERS = {16: Registers(32, 24, (3,)), 32: Registers(16, 12, (2, 3)), 64: Registers(32, 24, (2,))}
"""The registers, by bytes of a vector."""

MOST_DEPTH = 1024
"""The most iterations of the reduction in one pass, during which sums stay in registers."""

MOST_PACKED_DEPTH = 320
"""The same if rows are packed: fewer iterations allow wider tiles, which pack the rows less often."""

PANEL_BYTES = 1 << 19
"""The most bytes of a task's packed columns, so that they stay in L2."""

NEAR_ROWS_BYTES = 1 << 19
"""The largest operand that is read by rows in place, if adjacent rows are contiguous: each iteration touches another
cache line."""

TASK_PRODUCTS = 1 << 18
"""The approximate minimum of products of a task, as long as there are fewer tasks than `ENOUGH_TASKS`."""

ENOUGH_TASKS = 16
LEAST_SIDE = 64
"""The fewest columns of a tile that needs no packed rows: its operands are in L1."""

LEAST_COLUMNS_PACKED = 256
"""The fewest columns of a tile whose rows are packed."""

LEAST_COLUMNS = 4
"""The fewest columns of a product; narrower ones are reductions of rows."""

LEAST_ROWS = 128
"""The fewest rows of a tile whose columns are packed, since each tile repeats that work."""


def extents_of(kernel: KernelOp, sides: Sides) -> tuple[int, int, int]:
    """Returns the extents of everything else, of the rows and of the columns of a product."""
    row, column = sides
    grid = kernel.extents
    rest = (extent for i, extent in enumerate(grid) if i not in (*row, *column))
    return math.prod(rest), math.prod(grid[i] for i in row), math.prod(grid[i] for i in column)


def reads_rows(strides: Strides | None, line: int, columns: int) -> bool:
    """Returns whether rows are read in place: if contiguous along the reduction, in L2, or used by few columns.

    Args:
        strides: The strides of the rows, if they are elements of an operand with constant strides.
        line: The bytes of a row.
        columns: The number of columns.
    """
    if strides is None:
        return False
    is_near = line * strides.step <= NEAR_ROWS_BYTES
    return strides.side > strides.step or is_near or columns <= LEAST_COLUMNS_PACKED // 2


def cut_tiles(
    schedule: PackedSchedule, kernel: KernelOp, products: int, least_rows: int, least_columns: int = 0, unit: int = 0
) -> PackedSchedule:
    """Returns a schedule with its tasks; of smaller tiles, of at least these extents, if they are few and long.

    Args:
        schedule: The schedule.
        kernel: The kernel.
        products: How many products it adds.
        least_rows: The fewest rows of a tile, up to a part of a register block.
        least_columns: The fewest columns of one.
        unit: What its columns should be a multiple of, if not of those of a register block.
    """
    unit = unit or schedule.columns
    _, rows, columns = schedule.extents(kernel.extents)
    whole = max(columns // schedule.columns * schedule.columns, schedule.columns)
    is_in_place = schedule.direct_columns and not schedule.along_steps
    least_rows = schedule.rows * (1 if is_in_place else max(least_rows // schedule.rows, 1))
    least = LEAST_SIDE if schedule.direct_rows else LEAST_COLUMNS_PACKED
    least_columns = rounded_up(max(least, least_columns), unit)
    enough = min(products // TASK_PRODUCTS, ENOUGH_TASKS)
    while (tasks := schedule.tasks_over(kernel.extents)) < enough:
        down, across = schedule.tiles_over(kernel.extents)
        shorter = _equal(rows, -(-down * enough // tasks), least_rows, schedule.rows)
        narrower = _equal(whole, -(-across * enough // tasks), least_columns, unit)
        choices: list[PackedSchedule] = []
        if narrower < schedule.tile_columns:
            choices.append(replace(schedule, tile_columns=narrower))
        if shorter < schedule.tile_rows:
            choices.append(replace(schedule, tile_rows=shorter))
        if not choices:
            break
        schedule = choices[0 if schedule.direct_rows and not schedule.direct_columns else -1]
    return replace(schedule, groups=(schedule.tasks_over(kernel.extents), 1, 1))


def evened(extent: int, most: int, block: int) -> int:
    """Returns the extent of equal tiles that consist of whole blocks and are at most `most` long."""
    blocks, fit = max(-(-extent // block), 1), max(most // block, 1)
    return -(-blocks // -(-blocks // fit)) * block


def _equal(extent: int, tiles: int, least: int, block: int) -> int:
    """Returns the extent of `tiles` tiles that consist of whole blocks, or of fewer that are at least `least` long.

    Tiles that are shorter by up to a quarter are preferred if all of them are as long.
    """
    blocks, most = -(-extent // block), max(extent // least, 1)
    longest = -(-blocks // min(tiles, most))
    shortest = max(longest * 3 // 4, -(-blocks // most))
    return block * next((each for each in range(longest, shortest - 1, -1) if blocks % each == 0), longest)
