"""Schedules: how a kernel's grid maps to threads. One type an archetype, and the attribute that holds one.

An archetype is a way to write a kernel's loops; its type has what may be chosen for it. `passes/buffers/schedule` has a
module for each: where it fits, its default, its neighbours, its cost. A lowering has one that writes its code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

Extents: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class _Dispatched:
    """What every schedule has.

    Attributes:
        groups: The dispatch's extents in workgroups.
    """

    archetype: ClassVar[str]
    attends: ClassVar[bool] = False
    """Whether this is how a `buf.attention` runs, and nothing else."""

    groups: Extents


@dataclass(frozen=True, kw_only=True)
class _Looped(_Dispatched):
    """A schedule of stages that run one behind the other at each point of the grid.

    Attributes:
        workgroup: The workgroup's extents.
        steps: By how much the innermost of a stage's own loops is unrolled.
    """

    workgroup: Extents
    steps: int = 1

    @property
    def lanes(self) -> int:
        """The threads of a workgroup."""
        return math.prod(self.workgroup)


@dataclass(frozen=True, kw_only=True)
class ThreadSchedule(_Looped):
    """A thread a grid point, or a few neighbours along the grid's last loop.

    Attributes:
        width: How many points a thread computes; it divides the grid's last extent.
    """

    archetype = "thread"

    width: int = 1

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There are too few threads, or blocks of points that the grid's last loop cuts; says which.
        """
        if self.width > 1 and (not grid or grid[-1] % self.width):
            raise VerifyException(f"a thread computes {self.width} neighbours, which don't divide grid {list(grid)}")
        points, covered = math.prod(grid), math.prod(self.groups) * self.lanes * self.width
        if covered < points:
            raise VerifyException(f"the schedule's threads compute {covered} points, the grid has {points}")


@dataclass(frozen=True, kw_only=True)
class GroupSchedule(_Looped):
    """A workgroup a grid point; its lanes share the loops of each stage and reduce through workgroup memory."""

    archetype = "group"

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There are too few workgroups, or lanes that can't be halved; says how many it takes.
        """
        if self.lanes & (self.lanes - 1):
            raise VerifyException(f"lanes reduce by halves, so their number is a power of two, not {self.lanes}")
        points, covered = math.prod(grid), math.prod(self.groups)
        if covered < points:
            raise VerifyException(f"the schedule has {covered} workgroups, one a point takes {points}")


@dataclass(frozen=True, kw_only=True)
class _Blocked:
    """How a workgroup computes a block of rows and columns.

    Attributes:
        rows: How many neighbouring rows a thread computes.
        columns: How many columns a thread computes, `lanes` apart.
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
    """How a contraction's grid is tiled.

    Loops of the grid that only one operand has are one long axis, in their order: the rows are those of one operand,
    the columns those of the other. A convolution is a matrix product that way, its windows read where they lie.

    Attributes:
        row: The loops of the grid that make the rows; none if there are no rows.
        column: The loops of the grid that make the columns.
        chunk: How many iterations of the reduction are staged in workgroup memory at a time; 0 reads memory directly.
        inner: Which loop of the reduction runs innermost; -1 leaves them in their order.
        steps: By how much the innermost loop is unrolled; it divides its extent. An operand of which four iterations
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
        """Returns the workgroups along columns, rows and everything else."""
        rest, rows, columns = self.extents(grid)
        return -(-columns // (self.columns * self.lanes)), -(-rows // (self.rows * self.depth)), rest


@dataclass(frozen=True, kw_only=True)
class ContractionSchedule(Tile, _Dispatched):
    """A tile of results a workgroup, a block of them in the registers of each thread."""

    archetype = "contraction"

    @staticmethod
    def of(tile: Tile, grid: Sequence[int]) -> ContractionSchedule:
        """Returns the schedule that tiles a grid."""
        return ContractionSchedule(
            groups=tile.groups_over(grid), **{f.name: getattr(tile, f.name) for f in fields(Tile)}
        )

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There are too few workgroups; says how many it takes.
        """
        needed = self.groups_over(grid)
        if any(there < wanted for there, wanted in zip(self.groups, needed, strict=True)):
            raise VerifyException(f"the schedule has {list(self.groups)} workgroups, its tile takes {list(needed)}")


@dataclass(frozen=True, kw_only=True)
class AttentionSchedule(_Blocked, _Dispatched):
    """A block of rows a workgroup, which walks over tiles of what they attend to."""

    archetype = "attention"
    attends = True

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every row of every group is computed, given how many there are of both.

        Raises:
            VerifyException: There are too few workgroups; says how many it takes.
        """
        groups, rows = grid
        blocks, across, layers = self.groups
        needed = -(-rows // (self.rows * self.depth))
        if blocks < needed or across * layers < groups:
            raise VerifyException(
                f"the schedule has {blocks} blocks of rows for {across * layers} groups; "
                f"{rows} rows of {groups} groups take {needed} for {groups}"
            )


@dataclass(frozen=True, kw_only=True)
class _Native(_Dispatched):
    """A schedule of native code: `groups` is the number of tasks, in its first extent, each on one thread."""

    @property
    def workgroup(self) -> Extents:
        """The workgroup's extents, of which a task has no other."""
        return (1, 1, 1)


@dataclass(frozen=True, kw_only=True)
class LoopsSchedule(_Native):
    """Native loops over the grid: blocks of points run through the stages together.

    A task takes whole blocks, and any thread may take a task.

    Attributes:
        block: How many points along the grid's last loop run through the stages together; each point is on its own
            where it is 1, and its stages' own loops are the innermost then.
        blocks: How many blocks a task takes.
    """

    archetype = "loops"

    block: int = 1
    blocks: int = 1

    def blocks_over(self, grid: Sequence[int]) -> int:
        """Returns how many blocks a grid has."""
        last = grid[-1] if grid else 1
        return math.prod(grid[:-1]) * -(-last // self.block)

    @staticmethod
    def of(grid: Sequence[int], block: int, blocks: int) -> LoopsSchedule:
        """Returns the schedule that cuts a grid so."""
        found = LoopsSchedule(groups=(1, 1, 1), block=block, blocks=blocks)
        return replace(found, groups=(max(-(-found.blocks_over(grid) // blocks), 1), 1, 1))

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There are too few tasks; says how many it takes.
        """
        needed = -(-self.blocks_over(grid) // self.blocks)
        if self.groups[0] < needed or self.groups[1:] != (1, 1):
            raise VerifyException(f"the schedule has {list(self.groups)} tasks, grid {list(grid)} takes {needed}")


@dataclass(frozen=True, kw_only=True)
class PackedSchedule(_Native):
    """A matrix product in register blocks: a tile of results a task.

    Loops of the grid that only one operand has are one long axis, as in `Tile`. A task packs its columns of one operand
    and, block by block, its rows of the other, a range of the reduction at a time, in the order in which the innermost
    loop reads them; what the operands are computed from is computed then. Operands may be read where they lie instead.

    The last block of rows begins so far up that it is whole, and only what no other block has computed is kept of it.
    Behind the last whole block of columns, a narrower one ends at the last column; the last tile has both.

    Attributes:
        row: The loops of the grid that make the rows.
        column: The loops of the grid that make the columns.
        tile_rows: How many rows a task computes.
        tile_columns: How many columns a task computes; the last one also computes those behind the last whole block.
        rows: How many rows are in registers at a time.
        columns: How many columns are in registers at a time; whole vectors of `lanes`.
        lanes: The elements of a vector.
        depth: How many iterations of the reduction are packed at a time.
        direct_rows: 1 if rows are read where they lie: they are elements of an operand in a regular grid.
        direct_columns: 1 if columns are read where they lie: the same, and neighbours lie one after another.
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

    def extents(self, grid: Sequence[int]) -> Extents:
        """Returns the extents of everything else, of the rows and of the columns."""
        rest = (extent for i, extent in enumerate(grid) if i not in (*self.row, *self.column))
        return math.prod(rest), math.prod(grid[i] for i in self.row), math.prod(grid[i] for i in self.column)

    def tiles_over(self, grid: Sequence[int]) -> tuple[int, int]:
        """Returns how many tiles cover the rows, and how many the columns."""
        _, rows, columns = self.extents(grid)
        whole = columns // self.columns * self.columns
        return -(-rows // self.tile_rows), max(-(-whole // self.tile_columns), 1)

    def tasks_over(self, grid: Sequence[int]) -> int:
        """Returns the tasks that cover a grid."""
        return self.extents(grid)[0] * math.prod(self.tiles_over(grid))

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a grid is computed.

        Raises:
            VerifyException: There are too few tasks, or blocks that tiles or vectors cut; says which.
        """
        if self.tile_rows % self.rows or self.tile_columns % self.columns or self.columns % self.lanes:
            raise VerifyException("registers hold blocks that divide a tile, whose columns are whole vectors")
        rows = self.extents(grid)[1]
        if self.rows > rows:
            raise VerifyException(f"registers hold {self.rows} rows, the grid has {rows}")
        needed = self.tasks_over(grid)
        if self.groups[0] < needed or self.groups[1:] != (1, 1):
            raise VerifyException(f"the schedule has {list(self.groups)} tasks, grid {list(grid)} takes {needed}")


@dataclass(frozen=True, kw_only=True)
class TilesSchedule(_Native):
    """An attention, or a part of its derivative, by blocks of rows that walk over tiles of what they attend to.

    Rows are queries, columns keys; for the cotangents of keys and values it is the other way round. A block's rows lie
    in the lanes of vectors. What it accumulates, and its products with a tile, stay in the caches. Where all cotangents
    are computed at once, a group is one row of the grid, and has all blocks of its keys.

    Attributes:
        head: How many rows have one causality: a block ends where they do.
        rows: How many rows a block has: whole vectors of `lanes`.
        columns: How many columns a tile has.
        lanes: The elements of a vector.
        vectors: How many vectors of rows are in registers at a time.
        sums: How many sums of each of these rows are in registers at a time, at most: with columns, or of features.
        blocks: How many blocks a task takes.
    """

    archetype = "tiles"
    attends = True

    head: int
    rows: int
    columns: int
    lanes: int
    vectors: int
    sums: int
    blocks: int = 1

    def blocks_over(self, grid: Sequence[int]) -> int:
        """Returns how many blocks a grid of groups and rows has."""
        groups, rows = grid
        return groups * (rows // self.head) * -(-self.head // self.rows)

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every row of every group is computed.

        Raises:
            VerifyException: There are too few tasks, or blocks that heads or vectors cut; says which.
        """
        if self.rows % (self.lanes * self.vectors) or grid[1] % self.head:
            raise VerifyException("a block has whole vectors of rows, and heads divide the rows")
        needed = -(-self.blocks_over(grid) // self.blocks)
        if self.groups[0] < needed or self.groups[1:] != (1, 1):
            raise VerifyException(f"the schedule has {list(self.groups)} tasks, grid {list(grid)} takes {needed}")


Schedule: TypeAlias = (
    ThreadSchedule
    | GroupSchedule
    | ContractionSchedule
    | AttentionSchedule
    | LoopsSchedule
    | PackedSchedule
    | TilesSchedule
)

ARCHETYPES: dict[str, Callable[..., Schedule]] = {
    kind.archetype: kind
    for kind in (
        ThreadSchedule,
        GroupSchedule,
        ContractionSchedule,
        AttentionSchedule,
        LoopsSchedule,
        PackedSchedule,
        TilesSchedule,
    )
}
"""What makes a schedule of each archetype from its fields, which `schedule_of` checks by name."""

EXTENTS = ("workgroup", "groups")
LOOPS = ("row", "column")
LEAST = {"broadcast": 0, "chunk": 0, "inner": -1, "direct_rows": 0, "direct_columns": 0}
"""The least value of the numbers that may be less than 1."""


def fields_of(schedule: Schedule) -> dict[str, int | tuple[int, ...]]:
    """Returns the fields of a schedule that differ from their defaults."""
    return {
        name: getattr(schedule, name)
        for name, default in _defaults(type(schedule)).items()
        if getattr(schedule, name) != default
    }


def schedule_of(archetype: object, found: Mapping[str, object]) -> Schedule:
    """Returns the schedule of an archetype that has some fields; those that are missing have their defaults.

    Raises:
        ValueError: There is no such schedule; says what is missing, unknown or malformed.
    """
    kind = ARCHETYPES.get(archetype) if isinstance(archetype, str) else None
    if kind is None:
        raise ValueError(f"a schedule's archetype is one of {', '.join(ARCHETYPES)}, not {archetype}")
    defaults = _defaults(kind)
    unknown = [name for name in found if name not in defaults]
    if unknown:
        raise ValueError(f"a {archetype} schedule has no {unknown[0]}, it has {', '.join(defaults)}")
    for name, default in defaults.items():
        if name not in found and default is MISSING:
            raise ValueError(f"a {archetype} schedule needs {name}")
    return kind(**{name: _checked(name, value) for name, value in found.items()})


def _checked(name: str, value: object) -> int | tuple[int, ...]:
    if name not in (*EXTENTS, *LOOPS):
        least = LEAST.get(name, 1)
        if not _is_integer(value, least):
            raise ValueError(f"a schedule's {name} is an integer from {least}, not {value}")
        return cast(int, value)
    least = 1 if name in EXTENTS else 0
    numbers = tuple(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None
    if numbers is None or not all(_is_integer(one, least) for one in numbers):
        raise ValueError(f"a schedule's {name} is a list of integers from {least}, not {value}")
    if name in EXTENTS and len(numbers) != 3:
        raise ValueError(f"a schedule's {name} is three extents, not {list(numbers)}")
    return cast("tuple[int, ...]", numbers)


def _is_integer(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31


@lru_cache
def _defaults(kind: Any) -> dict[str, object]:
    """Returns the fields of a schedule and their defaults, in the order in which they are written."""
    found = {field.name: field.default for field in fields(kind)}
    first = [name for name in (*EXTENTS, *LOOPS) if name in found]
    return {name: found[name] for name in (*first, *(one for one in found if one not in first))}


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
            archetype, found = parser.parse_identifier(), dict[str, object]()
            while parser.parse_optional_punctuation(","):
                name = parser.parse_identifier()
                if name in found:
                    parser.raise_error(f"a schedule's {name} is given twice")
                parser.parse_punctuation("=")
                number = parser.parse_optional_integer(allow_boolean=False)
                found[name] = (
                    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                    if number is None
                    else number
                )
            try:
                return schedule_of(archetype, found)
            except ValueError as error:
                parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.archetype)
            for name, value in fields_of(self.data).items():
                text = str(value) if isinstance(value, int) else f"[{', '.join(map(str, value))}]"
                printer.print_string(f", {name} = {text}")


def folded(groups: int, limit: int) -> Extents:
    """Returns a grid of `groups` workgroups, or a few more: of two dimensions where one holds at most `limit`."""
    if groups <= limit:
        return (groups, 1, 1)
    rows = -(-groups // limit)
    return (-(-groups // rows), rows, 1)
