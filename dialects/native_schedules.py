"""The schedules of native code, one type per archetype; see `schedule`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.dispatched import Dispatched, Extents
from tensorgrad.dialects.settings import Flag, Loops, Natural, Positive


@dataclass(frozen=True, kw_only=True)
class NativeSchedule(Dispatched):
    """A schedule of native code. The first extent of `groups` is the number of tasks; each runs on one thread."""

    @property
    def workgroup(self) -> Extents:
        """The workgroup's extents, all 1: a task has one thread."""
        return (1, 1, 1)

    def check_tasks(self, grid: Sequence[int], needed: int) -> None:
        """Checks that a grid has the tasks that it takes, and no others: these would write outside of its buffers.

        Raises:
            VerifyException: There is another number of tasks; says how many it takes.
        """
        if self.groups != (needed, 1, 1):
            raise VerifyException(f"the schedule has {list(self.groups)} tasks, grid {list(grid)} needs {needed}")


@dataclass(frozen=True, kw_only=True)
class LoopsSchedule(NativeSchedule):
    """Native loops over the grid: blocks of points run through the stages together.

    A task runs whole blocks, and any thread may run any task.

    Attributes:
        block: The number of neighbouring points that run through the stages together. If it is 1, points run one by
            one, with the stages' own loops innermost.
        blocks: The number of blocks per task.
        joined: How many of the grid's last loops are one loop, along which blocks run.
        turned: 1 if the blocks at one place of that loop come one after another, for all iterations of the loops around
            it; 0 if all blocks along it do.
    """

    archetype = "loops"

    block: Positive = 1
    blocks: Positive = 1
    joined: Positive = 1
    turned: Flag = 0

    def split(self, grid: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Returns the extents of a grid's loops around blocks, and of those along which blocks run."""
        return grid[: -self.joined], grid[-self.joined :]

    def blocks_over(self, grid: Sequence[int]) -> int:
        """Returns the number of blocks of a grid."""
        around, along = self.split(grid)
        return math.prod(around) * -(-math.prod(along) // self.block)

    def tasks_over(self, grid: Sequence[int]) -> int:
        """Returns the number of tasks that cover a grid, at least 1."""
        return max(-(-self.blocks_over(grid) // self.blocks), 1)

    @staticmethod
    def of(grid: Sequence[int], block: int, blocks: int, joined: int = 1, turned: int = 0) -> LoopsSchedule:
        """Returns the schedule that divides a grid into blocks and tasks."""
        schedule = LoopsSchedule(groups=(1, 1, 1), block=block, blocks=blocks, joined=joined, turned=turned)
        return replace(schedule, groups=(schedule.tasks_over(grid), 1, 1))

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There is another number of tasks; says how many it takes.
        """
        self.check_tasks(grid, self.tasks_over(grid))


@dataclass(frozen=True, kw_only=True)
class PackedSchedule(NativeSchedule):
    """A matrix product in register blocks: one tile of results per task.

    Grid loops that index only one operand are collapsed into one axis, as in `ContractionTile`. For one range of the
    reduction at a time, a task packs its columns of one operand and, block by block, its rows of the other, in the
    order in which the innermost loop reads them. Packing also computes the operands' prologues. Operands may be read in
    place instead.

    The last block of rows overlaps the one before it so that it is whole; only rows that no other block has computed
    are stored. After the last whole block of columns, a narrower one ends at the last column; it belongs to the last
    tile.

    Attributes:
        row: The grid loops that form the rows.
        column: The grid loops that form the columns, the outer ones first.
        tile_rows: The number of rows per task.
        tile_columns: The number of columns per task; the last task also computes those after the last whole block.
        rows: The number of rows in registers at a time.
        columns: The number of columns in registers at a time: whole vectors of `lanes`.
        lanes: The number of elements of a vector.
        depth: The number of iterations of the reduction that are packed at a time.
        direct_rows: 1 if rows are read in place: they are elements of an operand with constant strides.
        direct_columns: 1 if columns are read in place: the same, and adjacent columns are contiguous, or iterations.
        pairs: 1 if pairs of iterations are multiplied at once: the factors are rounded to bf16, and packed as such.
        pitch: The elements of a line, if columns are windows of an image that are read from a padded copy of it;
            otherwise 0.
        gap: The columns between the end of one line of windows and the start of the next that are computed and left
            out, so that vectors may run across the ends of lines.
        split: 1 if all lines are copied once for each element of a window along them, without a gap.
        lines: The lines of columns that have a vector in registers at a time, if there is one row and columns are
            windows of an image, which is read in place; 0 if registers have neighbouring columns.
        along_steps: How many columns have their sums in registers at a time, as vectors along the reduction: if there
            is one row and columns are read from a padded image, or if both operands are contiguous along it and columns
            are read in place; 0 if vectors run along the columns.
        tail_along: The same for the columns after the last whole block alone, of which each is copied first.
        by_columns: 1 if all rows pass one block of columns, which stays in L1, before the next; 0 if all columns pass
            one block of rows.
    """

    archetype = "packed"

    row: Loops
    column: Loops
    tile_rows: Positive
    tile_columns: Positive
    rows: Positive
    columns: Positive
    lanes: Positive
    depth: Positive
    direct_rows: Flag = 0
    direct_columns: Flag = 0
    pairs: Flag = 0
    pitch: Natural = 0
    gap: Natural = 0
    split: Flag = 0
    lines: Natural = 0
    along_steps: Natural = 0
    tail_along: Natural = 0
    by_columns: Flag = 0

    def extents(self, grid: Sequence[int]) -> Extents:
        """Returns the extents of everything else, of the rows and of the columns."""
        rest = (extent for i, extent in enumerate(grid) if i not in (*self.row, *self.column))
        columns = math.prod(grid[i] for i in self.column)
        if self.gap:
            line = grid[self.column[-1]]
            columns = (columns // line - 1) * (line + self.gap) + line
        return math.prod(rest), math.prod(grid[i] for i in self.row), columns

    def padded(self, grid: Sequence[int]) -> list[int]:
        """Returns a grid with the gaps between lines of windows."""
        return [extent + self.gap if i == self.column[-1] else extent for i, extent in enumerate(grid)]

    def tiles_over(self, grid: Sequence[int]) -> tuple[int, int]:
        """Returns the numbers of tiles that cover the rows and the columns."""
        _, rows, columns = self.extents(grid)
        return -(-rows // self.tile_rows), max(-(-self.whole(columns) // self.tile_columns), 1)

    def whole(self, columns: int) -> int:
        """Returns how many of some columns are in whole register blocks; all if these consist of lines."""
        return columns if self.lines else columns // self.columns * self.columns

    def block_columns(self, grid: Sequence[int]) -> int:
        """Returns the columns of which a tile has a multiple: those of a register block, or of its lines."""
        return self.lines * grid[self.column[-1]] or self.columns

    def tasks_over(self, grid: Sequence[int]) -> int:
        """Returns the number of tasks that cover a grid."""
        return self.extents(grid)[0] * math.prod(self.tiles_over(grid))

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There is another number of tasks, or tiles are not whole blocks, or blocks not whole
                vectors, or columns are read both in place and from a padded image, or lines of no image have a gap,
                or rows would be packed again for each block of columns.
        """
        if ((self.gap or self.split) and not self.pitch) or (self.gap and self.split):
            raise VerifyException("a padded image has lines of a pitch, with a gap between them or split")
        if self.direct_columns and self.pitch:
            raise VerifyException("columns are read in place or from a padded image, not both")
        if self.lines and (self.tile_rows > 1 or self.columns > self.lanes or self.pitch or self.along_steps):
            raise VerifyException("registers hold a vector of each line only for one row, of an image read in place")
        if self.tile_rows % self.rows or self.tile_columns % self.block_columns(grid) or self.columns % self.lanes:
            raise VerifyException("a block in registers must divide the tile, and its columns must be whole vectors")
        if self.by_columns and (self.lines or not self.direct_rows):
            raise VerifyException("rows pass one block of columns after another only if they are read in place")
        rows = self.extents(grid)[1]
        if self.rows > rows:
            raise VerifyException(f"registers hold {self.rows} rows, the grid has {rows}")
        self.check_tasks(grid, self.tasks_over(grid))


@dataclass(frozen=True, kw_only=True)
class NativeAttentionSchedule(NativeSchedule):
    """An attention, or part of its derivative, in blocks of rows that iterate over tiles of columns.

    Rows are queries and columns are keys; for the cotangents of keys and values it is the reverse. A block's rows are
    in the lanes of vectors. Its accumulators, and its products with a tile, stay in the caches. If all cotangents are
    computed at once, a group is one row of the grid and contains all blocks of its keys.

    Attributes:
        head: The number of rows with the same causal mask; no block crosses the end of such a run.
        rows: The number of rows of a block: whole vectors of `lanes`.
        columns: The number of columns of a tile.
        lanes: The number of elements of a vector.
        vectors: The number of vectors of rows in registers at a time.
        sums: The most sums of each of these rows in registers at a time, one per column or per feature.
        blocks: The number of blocks per task.
    """

    archetype = "native_attention"
    single = "buf.attention"

    head: Positive
    rows: Positive
    columns: Positive
    lanes: Positive
    vectors: Positive
    sums: Positive
    blocks: Positive = 1

    def blocks_over(self, grid: Sequence[int]) -> int:
        """Returns the number of blocks of a grid of groups and rows."""
        groups, rows = grid
        return groups * (rows // self.head) * -(-self.head // self.rows)

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every row of every group is computed.

        Raises:
            VerifyException: There is another number of tasks, or blocks don't consist of whole vectors or don't fit
                heads.
        """
        if self.rows % (self.lanes * self.vectors) or grid[1] % self.head:
            raise VerifyException("a block must have whole vectors of rows, and heads must divide the rows")
        self.check_tasks(grid, -(-self.blocks_over(grid) // self.blocks))


@dataclass(frozen=True, kw_only=True)
class CountingSortSchedule(NativeSchedule):
    """Counting sorts, one row after another.

    Attributes:
        rows: The number of rows per task.
    """

    archetype = "counting_sort"
    single = "buf.counting_sort"

    rows: Positive = 1

    @staticmethod
    def of(grid: Sequence[int], rows: int) -> CountingSortSchedule:
        """Returns the schedule with this many rows per task."""
        return CountingSortSchedule(groups=(-(-grid[0] // rows), 1, 1), rows=rows)

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every row is sorted.

        Raises:
            VerifyException: There is another number of tasks; says how many it takes.
        """
        self.check_tasks(grid, -(-grid[0] // self.rows))


@dataclass(frozen=True, kw_only=True)
class ScanSchedule(NativeSchedule):
    """Native loops over rows of points, along which reductions go on from point to point.

    Attributes:
        loop: The grid loop along the rows.
        abreast: How many rows, which are a strip, take each point together: while one waits for the sum at a point, the
            others add. It divides the number of rows.
        strips: The number of strips per task.
    """

    archetype = "scan"

    loop: Natural = 0
    abreast: Positive = 1
    strips: Positive = 1

    def strips_over(self, grid: Sequence[int]) -> int:
        """Returns the number of strips of a grid."""
        return math.prod(extent for loop, extent in enumerate(grid) if loop != self.loop) // self.abreast

    @staticmethod
    def of(grid: Sequence[int], loop: int, abreast: int, strips: int) -> ScanSchedule:
        """Returns the schedule with this many strips per task."""
        schedule = ScanSchedule(groups=(1, 1, 1), loop=loop, abreast=abreast, strips=strips)
        return replace(schedule, groups=(max(-(-schedule.strips_over(grid) // strips), 1), 1, 1))

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There is no such loop, strips don't divide the rows, or there is another number of tasks;
                says how many it takes.
        """
        if not 0 <= self.loop < len(grid):
            raise VerifyException(f"a grid of {len(grid)} loops has none with number {self.loop}")
        if self.strips_over(grid) * self.abreast * grid[self.loop] != math.prod(grid):
            raise VerifyException(f"strips of {self.abreast} rows don't divide those of grid {list(grid)}")
        self.check_tasks(grid, ScanSchedule.of(grid, self.loop, self.abreast, self.strips).groups[0])


@dataclass(frozen=True, kw_only=True)
class RecipeSchedule(NativeSchedule):
    """What the kernel's `recipe` says: its loops over tasks are the dispatch's tasks."""

    archetype = "recipe"

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks nothing: the steps of a recipe keep all points."""
