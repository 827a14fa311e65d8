"""Schedules, which map a kernel's grid to threads: one type per archetype, and the attribute that holds a schedule.

An archetype is a way to write a kernel's loops; the fields of its type are the choices. Each serves one target, in
whose folder of `passes/codegen` a module has its default schedule, its neighbours and its cost; one beside it emits its
code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast, get_args

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.dispatched import Dispatched, Extents
from tensorgrad.dialects.native_schedules import (
    CountingSortSchedule,
    LoopsSchedule,
    NativeAttentionSchedule,
    PackedSchedule,
    RecipeSchedule,
    ScanSchedule,
)
from tensorgrad.dialects.settings import Flag, LoopOrLast, Loops, Natural, Positive, Setting, settings_of


@dataclass(frozen=True, kw_only=True)
class _Looped(Dispatched):
    """A schedule whose stages run in sequence at each point of the grid.

    Attributes:
        workgroup: The workgroup's extents.
        steps: The unroll factor of the innermost of a stage's own loops.
    """

    workgroup: Extents
    steps: Positive = 1

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

    width: Positive = 1

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

    rows: Positive
    columns: Positive
    lanes: Positive
    depth: Positive
    broadcast: Flag = 0

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.lanes * self.depth

    @property
    def workgroup(self) -> Extents:
        """The workgroup's extents."""
        return (self.lanes, self.depth, 1)

    def check_broadcast(self) -> None:
        """Checks that rows are broadcast only within a subgroup.

        Raises:
            VerifyException: The workgroup has several rows of threads.
        """
        if self.broadcast and self.depth > 1:
            raise VerifyException(
                f"lanes of one subgroup broadcast their rows, in a workgroup of depth 1; got broadcast = "
                f"{self.broadcast}, depth = {self.depth}"
            )


@dataclass(frozen=True, kw_only=True)
class ContractionTile(_Blocked):
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

    row: Loops
    column: Loops
    chunk: Natural = 0
    inner: LoopOrLast = -1
    steps: Positive = 1

    def extents(self, grid: Sequence[int]) -> Extents:
        """Returns the extents of everything else, of the rows and of the columns."""
        rest = (extent for i, extent in enumerate(grid) if i not in (*self.row, *self.column))
        return math.prod(rest), math.prod(grid[i] for i in self.row), math.prod(grid[i] for i in self.column)

    def groups_over(self, grid: Sequence[int]) -> Extents:
        """Returns the numbers of workgroups along the columns, the rows and the other loops."""
        rest, rows, columns = self.extents(grid)
        return -(-columns // (self.columns * self.lanes)), -(-rows // (self.rows * self.depth)), rest


@dataclass(frozen=True, kw_only=True)
class ContractionSchedule(ContractionTile, Dispatched):
    """One tile of results per workgroup, and a block of it in the registers of each thread."""

    archetype = "contraction"

    @staticmethod
    def of(tile: ContractionTile, grid: Sequence[int]) -> ContractionSchedule:
        """Returns the schedule that tiles a grid."""
        return ContractionSchedule(
            groups=tile.groups_over(grid), **{f.name: getattr(tile, f.name) for f in fields(ContractionTile)}
        )

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every tile of a grid has its workgroup.

        Raises:
            VerifyException: There is another number of workgroups; says how many it takes. Or rows that don't exist are
                tiled, or rows are both broadcast and staged.
        """
        self.check_broadcast()
        if not self.row and (self.rows > 1 or self.depth > 1):
            raise VerifyException(f"without rows, rows and depth are 1, got {self.rows} and {self.depth}")
        if self.chunk and self.broadcast:
            raise VerifyException("rows are broadcast, or staged in workgroup memory in chunks, not both")
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
class AttentionSchedule(_Blocked, Dispatched):
    """One block of rows per workgroup, which iterates over tiles of the rows that they attend to."""

    archetype = "attention"
    single = "buf.attention"

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every block of rows of every group has its workgroup, given the grid of groups and rows.

        Raises:
            VerifyException: There is another number of blocks, or too few workgroups; says how many it takes.
        """
        self.check_broadcast()
        groups, rows = grid
        blocks, across, layers = self.groups
        needed = -(-rows // (self.rows * self.depth))
        if blocks != needed or across * layers < groups:
            raise VerifyException(
                f"the schedule has {blocks} blocks of rows for {across * layers} groups; "
                f"{rows} rows of {groups} groups take {needed} for {groups}"
            )


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

SIDES = ("row", "column")
"""The settings that list the grid loops of a side."""

FIRST = ("workgroup", "groups", *SIDES)
"""The settings that are printed first."""


def fields_of(schedule: Schedule) -> dict[str, int | tuple[int, ...]]:
    """Returns the fields of a schedule that differ from their defaults."""
    return {
        name: getattr(schedule, name)
        for name, setting in _settings(type(schedule)).items()
        if getattr(schedule, name) != setting.default
    }


def loops_of(schedule: Schedule) -> list[int]:
    """Returns the grid loops that form the rows and the columns of a schedule; none if it has neither."""
    return [loop for name in SIDES for loop in cast("tuple[int, ...]", getattr(schedule, name, ()))]


def schedule_of(archetype: object, parameters: Mapping[str, object]) -> Schedule:
    """Returns the schedule of an archetype with the given fields; missing ones get their defaults.

    Raises:
        ValueError: The archetype or a field is unknown, or a field is missing or malformed.
    """
    kind = ARCHETYPES.get(archetype) if isinstance(archetype, str) else None
    if kind is None:
        raise ValueError(f"a schedule's archetype must be one of {', '.join(ARCHETYPES)}, got {archetype}")
    settings = _settings(kind)
    unknown = [name for name in parameters if name not in settings]
    if unknown:
        raise ValueError(f"a {archetype} schedule has no field {unknown[0]}; its fields are {', '.join(settings)}")
    for name, setting in settings.items():
        if name not in parameters and setting.is_required:
            raise ValueError(f"a {archetype} schedule needs {name}")
    return kind(**{name: settings[name].checked(value, f"a schedule's {name}") for name, value in parameters.items()})


def _settings(kind: Any) -> dict[str, Setting]:
    """Returns the settings of a schedule type, in the order of the printed form."""
    settings = settings_of(kind)
    first = [name for name in FIRST if name in settings]
    return {name: settings[name] for name in (*first, *(name for name in settings if name not in first))}


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
