"""Schedules, which map a kernel's grid to threads: one type per archetype, and the attribute that holds a schedule.

An archetype is a way to write a kernel's loops; the fields of its type are the choices. Each serves one target, in
whose folder of `passes/codegen` a module has its default schedule, its neighbours and its cost; one beside it emits its
code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, cast, get_args

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

Extents: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class _Dispatched:
    """The fields of every schedule.

    Attributes:
        groups: The dispatch's extents in workgroups.
    """

    archetype: ClassVar[str]
    single: ClassVar[str | None] = None
    """The op that the schedule is for; `None` if it is for stages."""

    groups: Extents

    def check_reduction(self, own: Sequence[int]) -> None:
        """Checks nothing: what a schedule says of a reduction fits any loops, unless its class says otherwise."""


@dataclass(frozen=True, kw_only=True)
class _Looped(_Dispatched):
    """A schedule whose stages run in sequence at each point of the grid.

    Attributes:
        workgroup: The workgroup's extents.
        steps: The unroll factor of the innermost of a stage's own loops.
    """

    workgroup: Extents
    steps: int = 1

    @property
    def lanes(self) -> int:
        """The threads of a workgroup."""
        return math.prod(self.workgroup)


@dataclass(frozen=True, kw_only=True)
class ThreadSchedule(_Looped):
    """One thread per grid point, or per few adjacent points along the grid's last loop.

    Attributes:
        width: The number of points that a thread computes; it divides the grid's last extent.
    """

    archetype = "thread"

    width: int = 1

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There are too few threads, or the grid's last extent is not a multiple of `width`.
        """
        if self.width > 1 and (not grid or grid[-1] % self.width):
            raise VerifyException(
                f"a thread computes {self.width} neighbours, which must divide the last extent of grid {list(grid)}"
            )
        points, covered = math.prod(grid), math.prod(self.groups) * self.lanes * self.width
        if covered < points:
            raise VerifyException(f"the schedule's threads compute {covered} points, the grid has {points}")


@dataclass(frozen=True, kw_only=True)
class GroupSchedule(_Looped):
    """One workgroup per grid point; its lanes share the loops of each stage and reduce through workgroup memory."""

    archetype = "group"

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid has its workgroup.

        Raises:
            VerifyException: There is another number of workgroups, or they don't lie along x, or the number of lanes
                is not a power of two.
        """
        if self.lanes & (self.lanes - 1):
            raise VerifyException(f"lanes reduce by halves, so their number must be a power of two, got {self.lanes}")
        needed = (math.prod(grid), 1, 1)
        if self.groups != needed:
            raise VerifyException(
                f"the schedule has {list(self.groups)} workgroups, one for each point needs {list(needed)}"
            )


@dataclass(frozen=True, kw_only=True)
class _Blocked:
    """The block of rows and columns that a workgroup computes.

    Attributes:
        rows: The number of adjacent rows per thread.
        columns: The number of columns per thread, `lanes` apart.
        lanes: The workgroup's extent along the columns.
        depth: The workgroup's extent along the rows.
        broadcast: 1 if the workgroup is one subgroup, whose lanes read a row each and broadcast it to the others.
    """

    rows: int
    columns: int
    lanes: int
    depth: int
    broadcast: int = 0

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.lanes * self.depth

    @property
    def workgroup(self) -> Extents:
        """The workgroup's extents."""
        return (self.lanes, self.depth, 1)


@dataclass(frozen=True, kw_only=True)
class Tile(_Blocked):
    """The tiling of a contraction's grid.

    The grid loops that index only one operand are collapsed into one axis, in order: the rows are those of one operand,
    the columns those of the other. So a convolution is a matrix product, whose windows are read in place.

    Attributes:
        row: The grid loops that form the rows; empty if there are no rows.
        column: The grid loops that form the columns.
        chunk: The number of iterations of the reduction that are staged in workgroup memory at a time; 0 reads memory
            directly.
        inner: The reduction loop that runs innermost; -1 keeps the order of the loops.
        steps: The unroll factor of the innermost loop, which divides its extent. An operand of which four iterations
            are contiguous in memory is read in vectors.
    """

    row: tuple[int, ...]
    column: tuple[int, ...]
    chunk: int = 0
    inner: int = -1
    steps: int = 1

    def extents(self, grid: Sequence[int]) -> Extents:
        """Returns the extents of everything else, of the rows and of the columns."""
        rest = (extent for i, extent in enumerate(grid) if i not in (*self.row, *self.column))
        return math.prod(rest), math.prod(grid[i] for i in self.row), math.prod(grid[i] for i in self.column)

    def groups_over(self, grid: Sequence[int]) -> Extents:
        """Returns the numbers of workgroups along the columns, the rows and the other loops."""
        rest, rows, columns = self.extents(grid)
        return -(-columns // (self.columns * self.lanes)), -(-rows // (self.rows * self.depth)), rest


@dataclass(frozen=True, kw_only=True)
class ContractionSchedule(Tile, _Dispatched):
    """One tile of results per workgroup, and a block of it in the registers of each thread."""

    archetype = "contraction"

    @staticmethod
    def of(tile: Tile, grid: Sequence[int]) -> ContractionSchedule:
        """Returns the schedule that tiles a grid."""
        return ContractionSchedule(
            groups=tile.groups_over(grid), **{f.name: getattr(tile, f.name) for f in fields(Tile)}
        )

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every tile of a grid has its workgroup.

        Raises:
            VerifyException: There is another number of workgroups; says how many it takes.
        """
        needed = self.groups_over(grid)
        if self.groups != needed:
            raise VerifyException(f"the schedule has {list(self.groups)} workgroups, its tile needs {list(needed)}")

    def check_reduction(self, own: Sequence[int]) -> None:
        """Checks that every term of a reduction with these loops is added.

        Raises:
            VerifyException: There is no loop `inner`, or `steps` doesn't divide the innermost one.
        """
        if self.inner >= len(own):
            raise VerifyException(f"a reduction of {len(own)} loops has none with number {self.inner}")
        if own[self.inner] % self.steps:
            raise VerifyException(f"{self.steps} steps don't divide the innermost loop of {own[self.inner]}")


@dataclass(frozen=True, kw_only=True)
class AttentionSchedule(_Blocked, _Dispatched):
    """One block of rows per workgroup, which iterates over tiles of the rows that they attend to."""

    archetype = "attention"
    single = "buf.attention"

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every block of rows of every group has its workgroup, given the grid of groups and rows.

        Raises:
            VerifyException: There is another number of blocks, or too few workgroups; says how many it takes.
        """
        groups, rows = grid
        blocks, across, layers = self.groups
        needed = -(-rows // (self.rows * self.depth))
        if blocks != needed or across * layers < groups:
            raise VerifyException(
                f"the schedule has {blocks} blocks of rows for {across * layers} groups; "
                f"{rows} rows of {groups} groups take {needed} for {groups}"
            )


@dataclass(frozen=True, kw_only=True)
class NativeSchedule(_Dispatched):
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

    block: int = 1
    blocks: int = 1
    joined: int = 1
    turned: int = 0

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

    Grid loops that index only one operand are collapsed into one axis, as in `Tile`. For one range of the reduction at
    a time, a task packs its columns of one operand and, block by block, its rows of the other, in the order in which
    the innermost loop reads them. Packing also computes the operands' prologues. Operands may be read in place instead.

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
        tail_along: The same for the columns after the last whole block alone, read from a padded image.
    """

    archetype = "packed"

    row: tuple[int, ...]
    column: tuple[int, ...]
    tile_rows: int
    tile_columns: int
    rows: int
    columns: int
    lanes: int
    depth: int
    direct_rows: int = 0
    direct_columns: int = 0
    pairs: int = 0
    pitch: int = 0
    gap: int = 0
    split: int = 0
    lines: int = 0
    along_steps: int = 0
    tail_along: int = 0

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
                vectors, or columns are read both in place and from a padded image.
        """
        if self.direct_columns and self.pitch:
            raise VerifyException("columns are read in place or from a padded image, not both")
        if self.lines and (self.tile_rows > 1 or self.columns > self.lanes or self.pitch or self.along_steps):
            raise VerifyException("registers hold a vector of each line only for one row, of an image read in place")
        if self.tile_rows % self.rows or self.tile_columns % self.block_columns(grid) or self.columns % self.lanes:
            raise VerifyException("a block in registers must divide the tile, and its columns must be whole vectors")
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

    head: int
    rows: int
    columns: int
    lanes: int
    vectors: int
    sums: int
    blocks: int = 1

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

    rows: int = 1

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

    loop: int = 0
    abreast: int = 1
    strips: int = 1

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


Schedule: TypeAlias = (
    ThreadSchedule
    | GroupSchedule
    | ContractionSchedule
    | AttentionSchedule
    | LoopsSchedule
    | PackedSchedule
    | NativeAttentionSchedule
    | CountingSortSchedule
    | ScanSchedule
    | RecipeSchedule
)

ARCHETYPES: dict[str, Callable[..., Schedule]] = {kind.archetype: kind for kind in get_args(Schedule)}
"""The constructor of each archetype's schedule; `schedule_of` checks the names of the fields."""

EXTENTS = ("workgroup", "groups")
LOOPS = ("row", "column")
LEAST = {"broadcast": 0, "chunk": 0, "inner": -1, "direct_rows": 0, "direct_columns": 0, "pairs": 0}
"""The minimum of the fields that may be less than 1."""


def fields_of(schedule: Schedule) -> dict[str, int | tuple[int, ...]]:
    """Returns the fields of a schedule that differ from their defaults."""
    return {
        name: getattr(schedule, name)
        for name, default in _defaults(type(schedule)).items()
        if getattr(schedule, name) != default
    }


def loops_of(schedule: Schedule) -> list[int]:
    """Returns the grid loops that form the rows and the columns of a schedule; none if it has neither."""
    return [loop for name in LOOPS for loop in cast("tuple[int, ...]", getattr(schedule, name, ()))]


def schedule_of(archetype: object, parameters: Mapping[str, object]) -> Schedule:
    """Returns the schedule of an archetype with the given fields; missing ones get their defaults.

    Raises:
        ValueError: The archetype or a field is unknown, or a field is missing or malformed.
    """
    kind = ARCHETYPES.get(archetype) if isinstance(archetype, str) else None
    if kind is None:
        raise ValueError(f"a schedule's archetype must be one of {', '.join(ARCHETYPES)}, got {archetype}")
    defaults = _defaults(kind)
    unknown = [name for name in parameters if name not in defaults]
    if unknown:
        raise ValueError(f"a {archetype} schedule has no field {unknown[0]}; its fields are {', '.join(defaults)}")
    for name, default in defaults.items():
        if name not in parameters and default is MISSING:
            raise ValueError(f"a {archetype} schedule needs {name}")
    return kind(**{name: _checked(name, value) for name, value in parameters.items()})


def _checked(name: str, value: object) -> int | tuple[int, ...]:
    if name not in (*EXTENTS, *LOOPS):
        least = LEAST.get(name, 1)
        if not _is_integer(value, least):
            raise ValueError(f"a schedule's {name} must be an integer of at least {least}, got {value}")
        return cast(int, value)
    least = 1 if name in EXTENTS else 0
    numbers = tuple(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None
    if numbers is None or not all(_is_integer(number, least) for number in numbers):
        raise ValueError(f"a schedule's {name} must be a list of integers of at least {least}, got {value}")
    if name in EXTENTS and len(numbers) != 3:
        raise ValueError(f"a schedule's {name} must be three extents, got {list(numbers)}")
    return cast("tuple[int, ...]", numbers)


def _is_integer(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31


@lru_cache
def _defaults(kind: Any) -> dict[str, object]:
    """Returns the fields of a schedule type with their defaults, in the order of the printed form."""
    defaults = {field.name: field.default for field in fields(kind)}
    first = [name for name in (*EXTENTS, *LOOPS) if name in defaults]
    return {name: defaults[name] for name in (*first, *(name for name in defaults if name not in first))}


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """A kernel's schedule.

    Example:
        #buf.schedule<thread, workgroup = [64, 1, 1], groups = [16, 1, 1], width = 4>
    """

    name = "buf.schedule"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        with parser.in_angle_brackets():
            archetype, parameters = parser.parse_identifier(), dict[str, object]()
            while parser.parse_optional_punctuation(","):
                name = parser.parse_identifier()
                if name in parameters:
                    parser.raise_error(f"a schedule's {name} is given twice")
                parser.parse_punctuation("=")
                number = parser.parse_optional_integer(allow_boolean=False)
                parameters[name] = (
                    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                    if number is None
                    else number
                )
            try:
                return schedule_of(archetype, parameters)
            except ValueError as error:
                parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.archetype)
            for name, value in fields_of(self.data).items():
                text = str(value) if isinstance(value, int) else f"[{', '.join(map(str, value))}]"
                printer.print_string(f", {name} = {text}")


def folded(groups: int, limit: int) -> Extents:
    """Returns a grid of at least `groups` workgroups, in two dimensions if there are more than `limit`."""
    if groups <= limit:
        return (groups, 1, 1)
    rows = -(-groups // limit)
    return (-(-groups // rows), rows, 1)
