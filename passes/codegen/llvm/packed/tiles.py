"""Tiles of packed products: their extents, and how they are cut into tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.analyses.factors import Strides
from tensorgrad.passes.codegen.common.sides import Sides


@dataclass(frozen=True, kw_only=True)
class VectorUnit:
    """What schedules assume of a CPU with vectors of some length. Times are those of multiplying a row with a vector.

    Attributes:
        registers: The number of vector registers.
        sums: The most sums of a register block.
        vectors: The numbers of vectors of a block's columns: first the usual one, then what else is tried for windows.
        overhead: How many rows more than it has a block takes the time of, as its sums hardly hide the latency.
        unaligned: How much longer an iteration takes whose vectors cross the ends of cache lines.
        in_place_bytes: The largest operand whose columns are read in place: it stays in L2, or in L1, where rows that
            are a power of two apart take each other's place.
        window_bytes: The most bytes of a padded image that a block of columns meets in a range of the reduction, which
            all rows pass before the next block, so that they find it in L1; 0 if longer ranges are as fast.
        has_masks: Whether vectors are loaded and stored as fast with a mask as without one. A Zen 3 stores by masks of
            AVX2 at a fraction of the speed.
    """

    registers: int
    sums: int
    vectors: tuple[int, ...]
    overhead: int = 0
    unaligned: float = 1.0
    in_place_bytes: int = 1 << 19
    window_bytes: int = 0
    has_masks: bool = False

    def most_rows(self, vectors: int) -> int:
        """Returns the most rows of a block: beside the sums, registers hold vectors of columns, and a row's element."""
        return max(min(self.sums, self.registers - vectors - 1) // vectors, 1)

    def rows(self, rows: int, most: int) -> int:
        """Returns the rows of a block, at most `most`, for the shortest time of all rows."""
        return evenest(rows, most, self.overhead)


VECTOR_UNITS = {
    16: VectorUnit(registers=32, sums=24, vectors=(3,)),
    32: VectorUnit(
        registers=16, sums=12, vectors=(2, 3), overhead=1, unaligned=1.06, in_place_bytes=1 << 15, window_bytes=1 << 14
    ),
    64: VectorUnit(registers=32, sums=24, vectors=(2,), has_masks=True),
}
"""The vector units, by bytes of a vector: those of AVX2 measured on a Zen 3, of AVX-512 on a Zen 5."""

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


TAIL_SHARE = 4
"""Columns after the last block are summed along the reduction if they are at most a vector's lanes by this."""


def tail_along(behind: int, lanes: int, rows: int, unit: VectorUnit) -> int:
    """Returns how many of a few columns after the last block have sums of some rows along the reduction at a time.

    A vector of them would take as long as one of which all lanes count. 0 if there are none, or too many.
    """
    at_once = 1 << max(unit.sums // rows, 1).bit_length() - 1
    return math.gcd(behind, at_once) if 0 < behind <= lanes // TAIL_SHARE else 0


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
