"""Schedules: what they are, and how they are written on a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, IntegerType, StringAttr, i64

from tensorgrad.runtime.target import Target


@dataclass(frozen=True)
class Tile:
    """How a contraction's grid is cut up.

    Attributes:
        row: The loop of the grid that a thread takes several neighbours of, or None.
        column: The loop of the grid that runs across the lanes.
        rows: How many neighbours of `row` a thread takes.
        columns: How many elements of `column` a thread takes, `lanes` apart.
        lanes: The workgroup's extent along `column`.
        depth: The workgroup's extent along `row`.
        chunk: How many steps of the reduction are staged in workgroup memory at a time; 0 reads memory directly.
        broadcast: 1 if the workgroup is one subgroup, whose lanes read a row each and pass it on to the others.
    """

    row: int | None
    column: int
    rows: int
    columns: int
    lanes: int
    depth: int
    chunk: int = 0
    broadcast: int = 0

    def groups(self, grid: Sequence[int]) -> tuple[int, int, int]:
        """The workgroups along columns, rows and everything else."""
        columns = -(-grid[self.column] // (self.columns * self.lanes))
        rows = 1 if self.row is None else -(-grid[self.row] // (self.rows * self.depth))
        rest = math.prod(extent for i, extent in enumerate(grid) if i not in (self.row, self.column))
        return columns, rows, rest


@dataclass(frozen=True)
class Schedule:
    """How a kernel runs.

    Attributes:
        archetype: `thread` (a thread a grid point), `group` (a workgroup a grid point), `contraction` or
            `attention`.
        workgroup: The workgroup's extents.
        groups: The dispatch's extents in workgroups.
        tile: For a contraction, how its grid is cut up; for attention, of scores.
    """

    archetype: str
    workgroup: tuple[int, int, int]
    groups: tuple[int, int, int]
    tile: Tile | None = None

    def attribute(self) -> DictionaryAttr:
        """The schedule as an attribute."""
        data = {
            "archetype": StringAttr(self.archetype),
            "workgroup": DenseArrayBase.from_list(i64, list(self.workgroup)),
            "groups": DenseArrayBase.from_list(i64, list(self.groups)),
        }
        if self.tile is not None:
            t = self.tile
            row = -1 if t.row is None else t.row
            numbers = [row, t.column, t.rows, t.columns, t.lanes, t.depth, t.chunk, t.broadcast]
            data |= {name: IntegerAttr(n, i64) for name, n in zip(TILE_FIELDS, numbers, strict=True)}
        return DictionaryAttr(data)

    @staticmethod
    def read(attribute: DictionaryAttr) -> Schedule:
        """The schedule that an attribute holds."""
        data = attribute.data

        def extents(name: str) -> tuple[int, int, int]:
            x, y, z = cast("DenseArrayBase[IntegerType]", data[name]).get_values()
            return (x, y, z)

        tile = None
        if "column" in data:
            row, *others = (cast("IntegerAttr[IntegerType]", data[name]).value.data for name in TILE_FIELDS)
            tile = Tile(None if row < 0 else row, *others)
        archetype = cast(StringAttr, data["archetype"]).data
        return Schedule(archetype, extents("workgroup"), extents("groups"), tile)


def folded(groups: int, target: Target) -> tuple[int, int, int]:
    """So many workgroups (or a few more) in two dimensions, when one does not hold them."""
    limit = target.max_compute_workgroups_per_dimension
    if groups <= limit:
        return (groups, 1, 1)
    rows = -(-groups // limit)
    return (-(-groups // rows), rows, 1)


TILE_FIELDS = ("row", "column", "rows", "columns", "lanes", "depth", "chunk", "broadcast")
