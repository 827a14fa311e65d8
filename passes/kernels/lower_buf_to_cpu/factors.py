"""Reads a factor of a product: by tables of indices, or, where neighbours lie one after another in memory, by runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tensorgrad.dialects.buf import is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.cpu import BELOW
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import axes_of_values, needed_for
from tensorgrad.passes.analyses.factors import Strides, lies_along_steps, strides_of
from tensorgrad.passes.analyses.windows import Place, places_of, run_along
from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import parallel
from tensorgrad.passes.kernels.lower_buf_to_cpu.packing import Put, sequential
from tensorgrad.passes.kernels.writing.emission import Code, Loops, strided

LEAST_RUN = 8
"""Shorter runs of neighbours in memory are looked for one by one."""


@dataclass(frozen=True)
class Tile:
    """The part of a product that a task computes.

    Attributes:
        stage: The contraction.
        grid: The extents of the kernel's loops.
        sides: Those of them that make rows, and columns.
        own: The extents of the reduction's loops.
        extents: How many there are of the rest, the rows and the columns.
        expressions: Each loop of the grid as one of these.
        rest: Which of the rest it is.
        first: The tile's first row, and column.
        axes: The tile's rows, and columns.
        steps: The iterations of a range of the reduction.
    """

    stage: GenericOp
    grid: Sequence[int]
    sides: tuple[Sequence[int], Sequence[int]]
    own: Sequence[int]
    extents: tuple[int, int, int]
    expressions: tuple[AffineExpr, ...]
    rest: SSAValue
    first: tuple[SSAValue, SSAValue]
    axes: tuple[Axis, Axis]
    steps: Axis

    def loops(self, code: Code, row: Sequence[SSAValue], column: Sequence[SSAValue], beyond: int = 0) -> Loops:
        """Returns the grid's loops, those of rows and columns with these indices, none for the first.

        Args:
            code: Where to write.
            row: The indices of a row's loops.
            column: Those of a column's.
            beyond: By how much indices may be above what their loops have.
        """
        bases, extents, expressions = [self.rest], [self.extents[0]], list(self.expressions)
        for side, indices in zip(self.sides, (row, column), strict=True):
            for loop, one in zip(side, indices or [code.number(0)] * len(side), strict=True):
                expressions[loop] = AffineDimExpr(len(bases))
                bases.append(one)
                extents.append(self.grid[loop] + (beyond if self.grid[loop] > 1 else 0))
        return Loops(tuple(bases), tuple(extents), tuple(expressions))


@dataclass(frozen=True)
class Layout:
    """How a factor lies in memory.

    Attributes:
        places: Where its operands lie, if that is a straight line; see `windows`.
        run: How many neighbours lie one after another there; 1 where each is looked for.
        along_steps: Whether neighbours are iterations of the reduction, not rows or columns.
        strides: Those of an operand in a regular grid.
        moving: The operands that are not the same for all neighbours.
    """

    places: Mapping[BlockArgument, Place]
    run: int
    along_steps: bool
    strides: Strides | None = None
    moving: frozenset[BlockArgument] = frozenset()

    @staticmethod
    def of(stage: GenericOp, value: SSAValue, grid: Sequence[int], row: Sequence[int], column: Sequence[int]) -> Layout:
        """Returns how a factor of a contraction lies in memory.

        Args:
            stage: The contraction.
            value: The factor.
            grid: The extents of the kernel's loops.
            row: The loops of the rows.
            column: The loops of the columns.
        """
        rank, extents = len(grid), loop_extents(stage)
        strides = strides_of(stage, value, grid, row, column)
        if strides is not None:
            return Layout({}, 1, lies_along_steps(stage, value, rank), strides)
        places = places_of(stage, value) or {}
        side = row if axes_of_values(stage, row, column)[value] == frozenset(("row",)) else column
        own = range(rank, len(extents))
        across, along = (run_along(places.values(), loops, [extents[i] for i in loops]) for loops in (side, own))
        if max(across, along) < LEAST_RUN:
            return Layout({}, 1, lies_along_steps(stage, value, rank))
        axis = own if along > across else side
        moving = frozenset(one for one, place in places.items() if any(place.stride(loop) for loop in axis))
        return Layout(places, max(across, along), along > across, moving=moving)

    @property
    def in_vectors(self) -> bool:
        """Whether neighbouring rows, or columns, of an operand lie one after another."""
        return self.strides is not None and self.strides.side == 1

    @property
    def in_lines(self) -> bool:
        """Whether neighbouring iterations of an operand lie one after another."""
        return self.strides is not None and self.strides.step == 1


class Factor:
    """What is packed: a factor at a row, or a column, of the tile and an iteration of a range of the reduction."""

    def __init__(self, tile: Tile, value: SSAValue, layout: Layout, start: SSAValue, is_row: bool):
        self.tile, self.factor, self.layout, self.start, self.is_row = tile, value, layout, start, is_row
        self.first, self.axis = (tile.first[not is_row], tile.axes[not is_row])
        self.along_steps, self.in_vectors, self.in_lines = layout.along_steps, layout.in_vectors, layout.in_lines
        self.needed = needed_for([value])

    def over_rows(
        self, code: Code, step: SSAValue, first: SSAValue, count: SSAValue, put: Put, is_short: bool = False
    ) -> None:
        """Writes a loop over rows, or columns, in an iteration."""
        indices = self.at_step(code, step)

        def at(inner: Code, place: SSAValue) -> None:
            row = self.at_row(inner, inner.index_op(arith.AddiOp, first, place))
            put(inner, place, self.value(inner, row, indices))

        parallel(code, count, None, at, is_short)

    def over_steps(self, code: Code, row: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over iterations in a row, or a column."""
        indices = self.at_row(code, row)
        parallel(code, count, None, lambda c, step: put(c, step, self.value(c, indices, self.at_step(c, step))))

    def at_row(self, code: Code, row: SSAValue) -> list[SSAValue]:
        """Returns the indices of a row, or a column."""
        if self.layout.strides is not None:
            return [code.index_op(arith.AddiOp, self.first, row)]
        return self.axis.indices(code, self.first, row)

    def at_step(self, code: Code, step: SSAValue) -> list[SSAValue]:
        """Returns the indices of an iteration."""
        if self.layout.strides is not None:
            return [code.index_op(arith.AddiOp, self.start, step)]
        return self.tile.steps.indices(code, self.start, step)

    def vectors(
        self, code: Code, row: SSAValue, step: SSAValue, parts: Sequence[tuple[int, VectorType[Attribute]]]
    ) -> list[SSAValue]:
        """Returns neighbouring rows, or columns, in an iteration, or neighbouring iterations: for each part, so many
        elements from its place on."""
        argument = self.factor
        assert isinstance(argument, BlockArgument) and (self.in_vectors or self.in_lines)
        stage = self.tile.stage
        buffer, m = stage.inputs[argument.index], maps_of(stage)[argument.index]
        at = code.position(m.results, buffer, self.loops(code, self.at_row(code, row), self.at_step(code, step)))
        memory = code.bindings[buffer].memory
        return [code.add(vector.LoadOp(memory, [code.index_op(arith.AddiOp, at, by)], kind)) for by, kind in parts]

    def value(self, code: Code, row: list[SSAValue], step: list[SSAValue]) -> SSAValue:
        """Returns the factor there."""
        loops, stage = self.loops(code, row, step), self.tile.stage
        known: dict[SSAValue, SSAValue] = {}
        for argument, buffer, m in zip(stage.body.block.args, stage.inputs, maps_of(stage), strict=False):
            if argument in self.needed and not is_shape_only(buffer):
                known[argument] = code.load(buffer, m.results, loops)
        self.compute(code, known, self.needed, loops)
        return known[self.factor]

    def loops(self, code: Code, row: list[SSAValue], step: list[SSAValue]) -> Loops:
        """Returns the stage's loops there."""
        tile = self.tile
        if self.layout.strides is not None:
            zero = code.number(0)
            both = (row[0], zero) if self.is_row else (zero, row[0])
            return strided(Loops((tile.rest, *both), tile.extents, tile.expressions), step[0], list(tile.own))
        sides: tuple[list[SSAValue], list[SSAValue]] = (row, []) if self.is_row else ([], row)
        return tile.loops(code, *sides).with_own(step, tile.own)

    def compute(self, code: Code, known: dict[SSAValue, SSAValue], needed: set[SSAValue], loops: Loops) -> None:
        """Computes what is needed and not known yet."""
        for op in self.tile.stage.body.block.ops:
            if any(result in needed and result not in known for result in op.results):
                code.scalar_op(op, known, loops)


class Window(Factor):
    """A factor whose neighbours lie one after another in memory, for a run of them: loads are of vectors.

    Where a condition says that an element is not there, nothing is loaded.
    """

    def over_rows(
        self, code: Code, step: SSAValue, first: SSAValue, count: SSAValue, put: Put, is_short: bool = False
    ) -> None:
        """Writes a loop over rows, or columns, in an iteration."""
        indices, begin = self.at_step(code, step), code.index_op(arith.AddiOp, self.first, first)

        def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
            origin = self.loops(outer, self.at_row(outer, outer.index_op(arith.AddiOp, first, low)), indices)
            starts = self._starts(outer, origin)

            def at(inner: Code, place: SSAValue) -> None:
                row = self.at_row(inner, inner.index_op(arith.AddiOp, first, place))
                distance = inner.index_op(arith.SubiOp, place, low)
                put(inner, place, self._value(inner, self.loops(inner, row, indices), starts, distance))

            parallel(outer, high, low, at, is_short=True)

        over_runs(code, begin, count, self.tile.extents[1 if self.is_row else 2], self.layout.run, run)

    def over_steps(self, code: Code, row: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over iterations in a row, or a column."""
        indices = self.at_row(code, row)

        def run(outer: Code, low: SSAValue, high: SSAValue) -> None:
            starts = self._starts(outer, self.loops(outer, indices, self.at_step(outer, low)))

            def at(inner: Code, step: SSAValue) -> None:
                loops = self.loops(inner, indices, self.at_step(inner, step))
                put(inner, step, self._value(inner, loops, starts, inner.index_op(arith.SubiOp, step, low)))

            parallel(outer, high, low, at)

        over_runs(code, self.start, count, math.prod(self.tile.own), self.layout.run, run)

    def _starts(self, code: Code, loops: Loops) -> dict[BlockArgument, SSAValue]:
        """Returns where each operand lies at the start of a run."""
        stage = self.tile.stage
        return {
            argument: code.position_at(place.linear, stage.inputs[argument.index], loops)
            for argument, place in self.layout.places.items()
        }

    def _value(
        self, code: Code, loops: Loops, starts: Mapping[BlockArgument, SSAValue], distance: SSAValue
    ) -> SSAValue:
        """Returns the factor at a distance from the start of a run."""
        known: dict[SSAValue, SSAValue] = {}
        guards = [place.guard for place in self.layout.places.values() if place.guard is not None]
        self.compute(code, known, needed_for(guards), loops)
        for argument, place in self.layout.places.items():
            at = starts[argument]
            if argument in self.layout.moving:
                at = code.index_op(arith.AddiOp, at, distance)
            memory = code.bindings[self.tile.stage.inputs[argument.index]].memory
            guard = place.guard
            known[argument] = code.element(memory, at) if guard is None else code.element_if(known[guard], memory, at)
        self.compute(code, known, self.needed, loops)
        return known[self.factor]


def over_runs(
    code: Code,
    begin: SSAValue,
    count: SSAValue,
    extent: int,
    length: int,
    body: Callable[[Code, SSAValue, SSAValue], None],
) -> None:
    """Cuts positions of an axis where runs of neighbours end.

    Args:
        code: Where to write.
        begin: The first position.
        count: How many there are.
        extent: The axis'.
        length: A run's.
        body: Is given the first position of a part and the one behind its last, both from `begin` on.
    """
    if length == extent:
        body(code, code.number(0), count)
        return
    end = code.index_op(arith.AddiOp, begin, count)
    last = code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, end, length - 1), length)

    def run(inner: Code, number: SSAValue) -> None:
        start = inner.index_op(arith.MuliOp, number, length)
        stop = inner.index_op(arith.MinUIOp, inner.index_op(arith.AddiOp, start, length), end)
        low = inner.index_op(arith.SubiOp, inner.index_op(arith.MaxUIOp, start, begin), begin)
        body(inner, low, inner.index_op(arith.SubiOp, stop, begin))

    sequential(code, last, run, start=code.index_op(arith.DivUIOp, begin, length))


class Axis:
    """Loops that are one long axis: the rows of a tile, its columns, or a range of the reduction.

    The index of each loop is read from a table: to divide for every element would take longer than to load it.
    """

    def __init__(self, extents: Sequence[int], room: int, array: Callable[[int], SSAValue]):
        self.extents = extents
        several = sum(extent > 1 for extent in extents) > 1
        self.tables = [array(room) if several and extent > 1 else None for extent in extents]
        self.is_looked_up = several

    def fill(self, code: Code, start: SSAValue, count: SSAValue) -> None:
        """Writes the tables for `count` places from `start` on."""
        if not self.is_looked_up:
            return
        total = math.prod(self.extents)
        expressions = [
            affine.linear(one, [total]).expression() for one in affine.delinearized(AffineDimExpr(0), self.extents)
        ]

        def entry(inner: Code, at: SSAValue) -> None:
            place = inner.index_op(arith.AddiOp, start, at)
            for table, expression in zip(self.tables, expressions, strict=True):
                if table is not None:
                    index = inner.expression(expression, [place], [total])
                    inner.put(inner.add(arith.IndexCastOp(index, i32)), table, at)

        parallel(code, count, None, entry)

    def indices(self, code: Code, start: SSAValue, at: SSAValue) -> list[SSAValue]:
        """Returns the index of each loop at a place."""
        found: list[SSAValue] = []
        for table, extent in zip(self.tables, self.extents, strict=True):
            if table is not None:
                load = memref.LoadOp.create(operands=[table, at], result_types=[i32])
                load.attributes[BELOW] = IntegerAttr(extent, i32)  # divisions by constants become cheap
                found.append(code.add(arith.IndexCastOp(code.add(load), IndexType())))
            else:
                found.append(code.index_op(arith.AddiOp, start, at) if extent > 1 else code.number(0))
        return found
