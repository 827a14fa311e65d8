"""Computes a body over a block of outputs: values that vary only by row, or only by column, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.schedule import ContractionTile
from tensorgrad.passes.analyses.axes import Axes
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_op
from tensorgrad.passes.codegen.common.stage_loops import Loops

ROW: Axes = frozenset(("row",))


@dataclass(frozen=True)
class BlockPosition:
    """A position in a block: a row and a column, -1 for any.

    Attributes:
        row: The row's index; with `spread`, the index of a vector of rows.
        column: The column's index.
        spread: Whether each lane holds the value of a different row.
    """

    row: int = -1
    column: int = -1
    spread: bool = False


def places_of(tile: ContractionTile, needs: Axes) -> Iterator[BlockPosition]:
    """Yields the positions at which a value that depends on `needs` is computed."""
    if needs == ROW and tile.broadcast:
        yield from (BlockPosition(i, spread=True) for i in range(-(-tile.rows // tile.lanes)))
        return
    rows = range(tile.rows) if "row" in needs else [-1]
    columns = range(tile.columns) if "column" in needs else [-1]
    yield from (BlockPosition(i, j) for i in rows for j in columns)


class BlockValues:
    """The values of a body over a block, as far as they have been computed.

    If the tile broadcasts, values that vary only by row are computed one row per lane, and broadcast where they meet
    the columns.

    Attributes:
        known: The values at each position.
    """

    def __init__(self, code: Code, tile: ContractionTile, axes: Mapping[SSAValue, Axes]):
        self.code = code
        self.tile = tile
        self.axes = axes
        self.known: dict[BlockPosition, dict[SSAValue, SSAValue]] = {}

    def at(self, place: BlockPosition, value: SSAValue) -> SSAValue:
        """Returns a value of the body at a position; a value from outside the body is unchanged."""
        if value not in self.axes:
            return value
        needs = self.axes[value]
        mine = BlockPosition(
            place.row if "row" in needs else -1,
            place.column if "column" in needs else -1,
            place.spread and "row" in needs,
        )
        values = self.known.setdefault(mine, {})
        if value not in values and self.tile.broadcast and not mine.spread:
            lanes = self.tile.lanes
            values[value] = self._broadcast(
                self.known[BlockPosition(place.row // lanes, spread=True)][value], place.row % lanes
            )
        return values[value]

    def compute(self, op: Operation, loops: Callable[[BlockPosition], Loops]) -> None:
        """Computes an op of the body at every position where it differs."""
        used = {operand for inner in op.walk() for operand in inner.operands if operand in self.axes}
        for place in places_of(self.tile, self.axes[op.results[0]]):
            values = {operand: self.at(place, operand) for operand in used}
            clone_op(self.code, op, values, loops(place))
            self.known.setdefault(place, {}).update((result, values[result]) for result in op.results)

    def _broadcast(self, value: SSAValue, lane: int) -> SSAValue:
        code = self.code
        if value.type != i1:
            return code.add(wgsl.SubgroupBroadcastOp(value, lane)).ssa
        number = code.select(code.value(value), code.number(1), 0)
        return code.add(wgsl.SubgroupBroadcastOp(number.ssa, lane)).differs(0).ssa
