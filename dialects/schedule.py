"""Schedules: what they are, and how they are written on a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class Tile:
    """How a contraction's grid is cut up.

    Loops of the grid that only one operand has are one long axis, in their order: the rows are those of one operand,
    the columns those of the other. A convolution is a matrix product that way, its windows read where they lie.

    Attributes:
        row: The loops of the grid of which a thread takes several neighbours; none if there are no rows.
        column: The loops of the grid that run across the lanes.
        rows: How many neighbours along `row` a thread takes.
        columns: How many elements along `column` a thread takes, `lanes` apart.
        lanes: The workgroup's extent along `column`.
        depth: The workgroup's extent along `row`.
        chunk: How many steps of the reduction are staged in workgroup memory at a time; 0 reads memory directly.
        broadcast: 1 if the workgroup is one subgroup, whose lanes read a row each and pass it on to the others.
        inner: Which loop of the reduction runs innermost; -1 leaves them in their order.
        steps: How many steps of the innermost loop a turn takes; it divides its extent. An operand of which four steps
            are side by side in memory is read in vectors.
    """

    row: tuple[int, ...]
    column: tuple[int, ...]
    rows: int
    columns: int
    lanes: int
    depth: int
    chunk: int = 0
    broadcast: int = 0
    inner: int = -1
    steps: int = 1

    def extents(self, grid: Sequence[int]) -> tuple[int, int, int]:
        """The extents of everything else, of the rows and of the columns."""
        rest = (extent for i, extent in enumerate(grid) if i not in (*self.row, *self.column))
        return math.prod(rest), math.prod(grid[i] for i in self.row), math.prod(grid[i] for i in self.column)

    def groups(self, grid: Sequence[int]) -> tuple[int, int, int]:
        """The workgroups along columns, rows and everything else."""
        rest, rows, columns = self.extents(grid)
        return -(-columns // (self.columns * self.lanes)), -(-rows // (self.rows * self.depth)), rest


@dataclass(frozen=True)
class Schedule:
    """How a kernel runs.

    Attributes:
        archetype: `thread` (a thread a grid point), `group` (a workgroup a grid point), `contraction` or
            `attention`.
        workgroup: The workgroup's extents.
        groups: The dispatch's extents in workgroups.
        tile: For a contraction, how its grid is cut up; for attention, of scores.
        width: How many points side by side a `thread` takes.
        steps: How many steps of a stage's own loops a thread of `thread` or `group` takes in a turn, side by side.
    """

    archetype: str
    workgroup: tuple[int, int, int]
    groups: tuple[int, int, int]
    tile: Tile | None = None
    width: int = 1
    steps: int = 1

    def attribute(self) -> DictionaryAttr:
        """The schedule as an attribute."""
        return _attribute(self)

    def check_covers(self, grid: Sequence[int]) -> None:
        """Checks that every point of a kernel's grid is computed; that of attention counts its blocks by itself.

        Raises:
            VerifyException: There are too few workgroups; says how many it takes.
        """
        points, threads, groups = math.prod(grid), math.prod(self.workgroup), math.prod(self.groups)
        if self.archetype == "contraction" and self.tile is not None:
            needed = self.tile.groups(grid)
            if any(there < wanted for there, wanted in zip(self.groups, needed, strict=True)):
                raise VerifyException(f"the schedule has {list(self.groups)} workgroups, its tile takes {list(needed)}")
        elif self.archetype == "thread" and groups * threads * self.width < points:
            covered = groups * threads * self.width
            raise VerifyException(f"the schedule's threads compute {covered} points, the grid has {points}")
        elif self.archetype == "group" and groups < points:
            raise VerifyException(f"the schedule has {groups} workgroups, one a point takes {points}")

    @staticmethod
    def read(attribute: DictionaryAttr) -> Schedule:
        """Returns the schedule that an attribute holds.

        Raises:
            VerifyException: It holds none; names what is missing or malformed.
        """
        data = attribute.data
        archetype = data.get("archetype")
        if not isinstance(archetype, StringAttr) or archetype.data not in ARCHETYPES:
            raise VerifyException(f"a schedule's archetype is one of {', '.join(ARCHETYPES)}, not {archetype}")

        def numbers(name: str) -> tuple[int, ...]:
            found = data.get(name)
            if not isinstance(found, DenseArrayBase):
                raise VerifyException(f"a schedule of archetype {archetype.data} needs {name}, a list of integers")
            return tuple(cast("DenseArrayBase[IntegerType]", found).get_values())

        def extents(name: str) -> tuple[int, int, int]:
            found = numbers(name)
            if len(found) != 3 or any(extent < 1 for extent in found):
                raise VerifyException(f"a schedule's {name} is three positive extents, not {list(found)}")
            return (found[0], found[1], found[2])

        def number(name: str, usual: int | None = None) -> int:
            found = data.get(name, usual)
            value = found.value.data if isinstance(found, IntegerAttr) else found
            if not isinstance(value, int):
                raise VerifyException(f"a schedule of archetype {archetype.data} needs {name}, an integer")
            return value

        tile = None
        if archetype.data in TILED:
            found = {name: number(name) for name in TILE_NUMBERS}
            found |= {name: number(name) for name in TILE_OPTIONS if name in data}
            tile = Tile(numbers("row"), numbers("column"), **found)
        # A tile has steps of its own.
        width, steps = (1, 1) if tile is not None else (number("width", 1), number("steps", 1))
        return Schedule(archetype.data, extents("workgroup"), extents("groups"), tile, width, steps)


@lru_cache(4096)
def _attribute(schedule: Schedule) -> DictionaryAttr:
    data: dict[str, Attribute] = {
        "archetype": StringAttr(schedule.archetype),
        "workgroup": DenseArrayBase.from_list(i64, list(schedule.workgroup)),
        "groups": DenseArrayBase.from_list(i64, list(schedule.groups)),
    }
    for name, count in (("width", schedule.width), ("steps", schedule.steps)):
        if count > 1:
            data[name] = IntegerAttr(count, i64)
    if schedule.tile is not None:
        values = asdict(schedule.tile)
        data |= {name: DenseArrayBase.from_list(i64, list(values[name])) for name in TILE_LOOPS}
        data |= {name: IntegerAttr(values[name], i64) for name in TILE_NUMBERS}
        data |= {name: IntegerAttr(values[name], i64) for name, usual in TILE_OPTIONS.items() if values[name] != usual}
    return DictionaryAttr(data)


def folded(groups: int, limit: int) -> tuple[int, int, int]:
    """Returns a grid of `groups` workgroups, or a few more: of two dimensions where one holds at most `limit`."""
    if groups <= limit:
        return (groups, 1, 1)
    rows = -(-groups // limit)
    return (-(-groups // rows), rows, 1)


TILED = ("contraction", "attention")
ARCHETYPES = ("thread", "group", *TILED)

TILE_LOOPS = ("row", "column")
TILE_NUMBERS = ("rows", "columns", "lanes", "depth")
TILE_OPTIONS = {field.name: field.default for field in fields(Tile) if field.default is not MISSING}
"""The fields of a tile that are written only where they differ from the default."""
