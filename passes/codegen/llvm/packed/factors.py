"""Reads a factor of a product through index tables, or in runs where neighbours are contiguous in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import IntegerAttr, VectorType, bf16, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import element_of, is_shape_only, loop_extents, maps_of
from tensorgrad.dialects.cpu import BELOW
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.axes import axes_of_values, needed_for
from tensorgrad.passes.analyses.factors import Strides, lies_along_steps, operand_of, strides_of
from tensorgrad.passes.analyses.windows import LEAST_RUN, OperandPosition, places_of, run_along
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_needed
from tensorgrad.passes.codegen.common.stage_loops import Loops, strided
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.packed.packing import LEAST_LANES, Put
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class ProductTile:
    """The part of a product that a task computes.

    Attributes:
        stage: The contraction.
        grid: The extents of the kernel's loops.
        sides: The grid loops that make up the rows, and the columns.
        own: The extents of the reduction's loops.
        extents: The extents of the rest (batch), the rows and the columns.
        expressions: Each grid loop as an expression of indices into these.
        rest: The index into the rest.
        first: The tile's first row, and column.
        axes: The tile's rows, and columns.
        steps: The iterations in a range of the reduction.
    """

    stage: GenericOp
    grid: Sequence[int]
    sides: tuple[Sequence[int], Sequence[int]]
    own: Sequence[int]
    extents: tuple[int, int, int]
    expressions: tuple[AffineExpr, ...]
    rest: Value
    first: tuple[Value, Value]
    axes: tuple[Axis, Axis]
    steps: Axis

    def loops(self, code: Code, row: Sequence[Value], column: Sequence[Value], beyond: int = 0) -> Loops:
        """Returns the grid's loops at a row and a column; none for the first.

        Args:
            code: Where to write.
            row: The indices of the row loops.
            column: The indices of the column loops.
            beyond: By how much indices may exceed their loops' extents.
        """
        bases, extents, expressions = [self.rest], [self.extents[0]], list(self.expressions)
        for side, indices in zip(self.sides, (row, column), strict=True):
            for loop, index in zip(side, indices or [code.number(0)] * len(side), strict=True):
                expressions[loop] = AffineDimExpr(len(bases))
                bases.append(index)
                extents.append(self.grid[loop] + (beyond if self.grid[loop] > 1 else 0))
        return Loops(tuple(bases), tuple(extents), tuple(expressions))


@dataclass(frozen=True)
class FactorLayout:
    """The memory layout of a factor.

    Attributes:
        places: The linear offsets of its operands, where these are affine; see `windows`.
        run: The number of contiguous neighbours; 1 if each is looked up.
        along_steps: Whether neighbours are iterations of the reduction, rather than rows or columns.
        strides: The strides of an operand in a regular grid.
        moving: The operands that vary among neighbours.
        in_blocks: Whether the rows of each register block are contiguous in an operand.
        is_apart: Whether neighbours are looked up that are apart in an operand, as with a stride.
    """

    places: Mapping[BlockArgument, OperandPosition]
    run: int
    along_steps: bool
    strides: Strides | None = None
    moving: frozenset[BlockArgument] = frozenset()
    in_blocks: bool = False
    is_apart: bool = False

    @staticmethod
    def of(
        stage: GenericOp,
        value: SSAValue,
        grid: Sequence[int],
        row: Sequence[int],
        column: Sequence[int],
        skips: bool = False,
        rows: int = 0,
    ) -> FactorLayout:
        """Returns the memory layout of a contraction's factor.

        Args:
            stage: The contraction.
            value: The factor.
            grid: The extents of the kernel's loops.
            row: The loops of the rows.
            column: The loops of the columns.
            skips: Whether iterations of the reduction are left out, so that neighbours are not contiguous.
            rows: The rows of a register block, if known.
        """
        rank, extents = len(grid), loop_extents(stage)
        strides = None if skips else strides_of(stage, value, grid, row, column)
        if strides is not None:
            return FactorLayout({}, 1, lies_along_steps(stage, value, rank), strides)
        places = places_of(stage, value) or {}
        side = row if axes_of_values(stage, row, column)[value] == frozenset(("row",)) else column
        own = range(rank, len(extents))
        across, along = (run_along(places.values(), loops, [extents[i] for i in loops]) for loops in (side, own))
        along = 1 if skips else along
        in_blocks = side is row and operand_of(value) is not None and across > along and is_in_blocks(across, rows)
        if side is row and not in_blocks and any(place.period(loop) for place in places.values() for loop in row):
            across = 1  # a block has few rows, which take longer as parts of runs than one by one
        if max(across, along) < LEAST_RUN:
            is_apart = any(place.stride(side[-1]) > 1 for place in places.values() if side)
            return FactorLayout({}, 1, lies_along_steps(stage, value, rank), is_apart=is_apart)
        axis = own if along > across else side
        moving = frozenset(value for value, place in places.items() if any(place.stride(loop) for loop in axis))
        return FactorLayout(places, max(across, along), along > across, moving=moving, in_blocks=in_blocks)

    @property
    def in_vectors(self) -> bool:
        """Whether neighbouring rows, or columns, of an operand are contiguous."""
        return self.in_blocks or (self.strides is not None and self.strides.side == 1)

    @property
    def in_lines(self) -> bool:
        """Whether an operand's elements in neighbouring iterations are contiguous."""
        return self.strides is not None and self.strides.step == 1


def is_in_blocks(run: int, rows: int) -> bool:
    """Returns whether register blocks of some rows divide runs of contiguous ones, and are whole vectors."""
    return rows > 0 and run % rows == 0 and rows % LEAST_LANES == 0


class Factor:
    """A factor to pack, at a row (or column) of the tile and an iteration of a range of the reduction."""

    def __init__(self, tile: ProductTile, value: SSAValue, layout: FactorLayout, start: Value, is_row: bool):
        self.tile, self.factor, self.layout, self.start, self.is_row = tile, value, layout, start, is_row
        self.first, self.axis = (tile.first[not is_row], tile.axes[not is_row])
        self.along_steps, self.in_vectors, self.in_lines = layout.along_steps, layout.in_vectors, layout.in_lines
        self.in_runs = layout.run > 1
        self.needed = needed_for([value])

    def over_rows(self, code: Code, step: Value, first: Value, count: Value, put: Put, is_masked: bool = False) -> None:
        """Writes a loop over rows (or columns) in one iteration."""
        indices = self.at_step(code, step)

        def at(place: Value) -> None:
            put(place, self.value(code, self.at_row(code, first + place), indices))

        # LLVM would gather neighbours that are apart by masks, for which it may have to do without AVX-512.
        parallel(code, count, None, at, is_masked and not self.layout.is_apart)

    def over_steps(self, code: Code, row: Value, count: Value, put: Put) -> None:
        """Writes a loop over iterations in one row (or column)."""
        indices = self.at_row(code, row)
        parallel(code, count, None, lambda step: put(step, self.value(code, indices, self.at_step(code, step))))

    def in_pairs(self) -> Pairs:
        """Returns the factor with a word of two iterations for each pair of them."""
        return Pairs(self.tile, self.factor, self.layout, self.start, self.is_row)

    def at_row(self, code: Code, row: Value) -> list[Value]:
        """Returns the loop indices of a row (or column)."""
        if self.layout.strides is not None:
            return [self.first + row]
        return self.axis.indices(code, self.first, row)

    def at_step(self, code: Code, step: Value) -> list[Value]:
        """Returns the loop indices of an iteration."""
        if self.layout.strides is not None:
            return [self.start + step]
        return self.tile.steps.indices(code, self.start, step)

    def vectors(
        self, code: Code, row: Value, step: Value, parts: Sequence[tuple[int, VectorType[Attribute]]]
    ) -> list[Value]:
        """Returns neighbouring rows (or columns) in an iteration, or neighbouring iterations, as vectors.

        `parts` are the offset and the type of each vector.
        """
        memory, at = self.place(code, row, step)
        stored, wide = element_of(memory), self.factor.type
        if stored == wide:
            return [code.vector(memory, at + by, kind) for by, kind in parts]
        shorts = [code.vector(memory, at + by, VectorType(stored, kind.get_shape())) for by, kind in parts]
        return [short.cast(arith.ExtFOp, kind) for short, (_, kind) in zip(shorts, parts, strict=True)]

    def words(self, code: Code, row: Value, step: Value, lanes: int) -> Value:
        """Returns the words of pairs of neighbouring iterations as a vector."""
        memory, at = self.place(code, row, step)
        if element_of(memory) == bf16:
            stored = code.vector(memory, at, VectorType(bf16, [2 * lanes]))
            return stored.cast(vector.BitcastOp, VectorType(i32, [lanes]))
        parts = [(by, VectorType(self.factor.type, [lanes])) for by in (0, lanes)]
        return code.add(cpu.PairNeighboursOp(*(each.ssa for each in self.vectors(code, row, step, parts))))

    def place(self, code: Code, row: Value, step: Value) -> tuple[SSAValue, Value]:
        """Returns the memory of a factor that is an element of an operand, and the position in it."""
        operand = operand_of(self.factor)
        assert operand is not None and (self.in_vectors or self.in_lines)
        stage = self.tile.stage
        buffer, m = stage.inputs[operand.index], maps_of(stage)[operand.index]
        loops = self.loops(code, self.at_row(code, row), self.at_step(code, step))
        return code.bindings[buffer].memory, code.position(m.results, buffer, loops)

    def value(self, code: Code, row: list[Value], step: list[Value]) -> Value:
        """Returns the factor at a row and an iteration."""
        loops, stage = self.loops(code, row, step), self.tile.stage
        known: dict[SSAValue, SSAValue] = {}
        for argument, buffer, m in zip(stage.body.block.args, stage.inputs, maps_of(stage), strict=False):
            if argument in self.needed and not is_shape_only(buffer):
                known[argument] = code.load(buffer, m.results, loops).ssa
        self.compute(code, known, self.needed, loops)
        return code.value(known[self.factor])

    def loops(self, code: Code, row: list[Value], step: list[Value]) -> Loops:
        """Returns the stage's loops at a row and an iteration."""
        tile = self.tile
        if self.layout.strides is not None:
            zero = code.number(0)
            both = (row[0], zero) if self.is_row else (zero, row[0])
            return strided(Loops((tile.rest, *both), tile.extents, tile.expressions), step[0], list(tile.own))
        sides: tuple[list[Value], list[Value]] = (row, []) if self.is_row else ([], row)
        return tile.loops(code, *sides).with_own(step, tile.own)

    def compute(self, code: Code, known: dict[SSAValue, SSAValue], needed: set[SSAValue], loops: Loops) -> None:
        """Computes the needed values that are not known yet."""
        clone_needed(code, self.tile.stage.body.block, known, needed, loops)


class Pairs(Factor):
    """A factor whose iterations are pairs, each of which is a word of two numbers of bf16."""

    def at_step(self, code: Code, step: Value) -> list[Value]:
        """Returns the loop indices of both iterations of a pair."""
        return [*super().at_step(code, step * 2), *super().at_step(code, step * 2 + 1)]

    def value(self, code: Code, row: list[Value], step: list[Value]) -> Value:
        """Returns the word of a pair."""
        half = len(step) // 2
        both = [super(Pairs, self).value(code, row, indices) for indices in (step[:half], step[half:])]
        return code.add(cpu.PairOp(*(value.ssa for value in both)))


class Window(Factor):
    """A factor whose neighbours are contiguous in memory, in runs that are read by vector loads.

    Nothing is loaded where a condition masks an element.
    """

    def over_rows(self, code: Code, step: Value, first: Value, count: Value, put: Put, is_masked: bool = False) -> None:
        """Writes a loop over rows (or columns) in one iteration."""
        indices, begin = self.at_step(code, step), self.first + first

        def run(low: Value, high: Value) -> None:
            origin = self.loops(code, self.at_row(code, first + low), indices)
            starts = self._starts(code, origin)

            def at(place: Value) -> None:
                row = self.at_row(code, first + place)
                put(place, self._value(code, self.loops(code, row, indices), starts, place - low))

            parallel(code, high, low, at, is_masked=True)

        over_runs(code, begin, count, self.tile.extents[1 if self.is_row else 2], self.layout.run, run)

    def over_steps(self, code: Code, row: Value, count: Value, put: Put) -> None:
        """Writes a loop over iterations in one row (or column)."""
        indices = self.at_row(code, row)

        def run(low: Value, high: Value) -> None:
            starts = self._starts(code, self.loops(code, indices, self.at_step(code, low)))

            def at(step: Value) -> None:
                loops = self.loops(code, indices, self.at_step(code, step))
                put(step, self._value(code, loops, starts, step - low))

            parallel(code, high, low, at)

        over_runs(code, self.start, count, math.prod(self.tile.own), self.layout.run, run)

    def _starts(self, code: Code, loops: Loops) -> dict[BlockArgument, Value]:
        """Returns each operand's position at the start of a run."""
        stage = self.tile.stage
        return {
            argument: code.position_at(place.linear, stage.inputs[argument.index], loops)
            for argument, place in self.layout.places.items()
        }

    def _value(self, code: Code, loops: Loops, starts: Mapping[BlockArgument, Value], distance: Value) -> Value:
        """Returns the factor at a distance from the start of a run."""
        known: dict[SSAValue, SSAValue] = {}
        guards = [place.guard for place in self.layout.places.values() if place.guard is not None]
        self.compute(code, known, needed_for(guards), loops)
        for argument, place in self.layout.places.items():
            at = starts[argument]
            if argument in self.layout.moving:
                at = at + distance
            memory = code.bindings[self.tile.stage.inputs[argument.index]].memory
            guard = place.guard
            element = (
                code.element(memory, at) if guard is None else element_if(code, code.value(known[guard]), memory, at)
            )
            known[argument] = element.ssa
        self.compute(code, known, self.needed, loops)
        return code.value(known[self.factor])


def element_if(code: Code, condition: Value | None, memory: SSAValue, at: Value) -> Value:
    """Loads an element of an array if a condition holds, else returns zero; the index may then be out of bounds."""
    if condition is None:
        return code.element(memory, at)
    element = element_of(memory)
    (value,) = code.choose(
        condition, [element], lambda: [code.element(memory, at)], lambda: [code.constant(0.0, element)]
    )
    return value


def over_runs(
    code: Code,
    begin: Value,
    count: Value,
    extent: int,
    length: int,
    body: Callable[[Value, Value], None],
) -> None:
    """Splits a range of an axis where runs of neighbours end.

    Args:
        code: Where to write.
        begin: The first position.
        count: The number of positions.
        extent: The extent of the axis.
        length: The length of a run.
        body: Takes the first position of a part and one past its last, both relative to `begin`.
    """
    if length == extent:
        body(code.number(0), count)
        return
    end = begin + count
    last = (end + (length - 1)) // length

    def run(number: Value) -> None:
        start = number * length
        stop = (start + length).at_most(end)
        low = start.at_least(begin) - begin
        body(low, stop - begin)

    sequential(code, last, run, start=begin // length)


class Axis:
    """Loops flattened to one axis: the rows of a tile, its columns, or a range of the reduction.

    The index of each loop is read from a table, since a division per element would take longer than a load.
    """

    def __init__(
        self,
        extents: Sequence[int],
        room: int,
        array: Callable[[int], SSAValue],
        skips: bool = False,
    ):
        """Allocates the tables.

        Args:
            extents: The extents of the loops.
            room: The most positions that are tabulated.
            array: Allocates a table.
            skips: Whether positions may be left out.
        """
        self.extents, self.skips = extents, skips
        several = sum(extent > 1 for extent in extents) > 1 or skips
        self.tables = [array(room) if several and extent > 1 else None for extent in extents]
        self.is_looked_up = several

    def fill(
        self, code: Code, start: Value, count: Value, is_kept: Callable[[list[Value]], Value] | None = None
    ) -> Value:
        """Fills the tables for `count` positions from `start` on; returns how many of them are not left out.

        `is_kept` writes the condition on the loops' indices under which a position is not left out.
        """
        if not self.is_looked_up:
            return count
        total = math.prod(self.extents)
        expressions = [
            affine.linear(digit, [total]).expression() for digit in affine.delinearized(AffineDimExpr(0), self.extents)
        ]

        def entry(at: Value, place: Value) -> list[Value]:
            numbers: list[Value] = []
            for table, expression in zip(self.tables, expressions, strict=True):
                numbers.append(code.number(0) if table is None else code.expression(expression, [place], [total]))
                if table is not None:
                    code.put(numbers[-1].cast(arith.IndexCastOp, i32), table, at)
            return numbers

        def plain(at: Value) -> None:
            entry(at, start + at)

        if is_kept is None or not self.skips:
            parallel(code, count, None, plain)
            return count

        def selected(at: Value, held: Sequence[Value]) -> list[Value]:
            # An entry that is left out is overwritten by the next one.
            numbers = entry(held[0], start + at)
            return [code.select(is_kept(numbers), held[0] + 1, held[0])]

        return code.loop_to(count, [code.number(0)], selected)[0]

    def indices(self, code: Code, start: Value, at: Value) -> list[Value]:
        """Returns the index of each loop at a position."""
        values: list[Value] = []
        for table, extent in zip(self.tables, self.extents, strict=True):
            if table is not None:
                entry = code.element(table, at)
                cast(Operation, entry.ssa.owner).attributes[BELOW] = IntegerAttr(
                    extent, i32
                )  # divisions by constants become cheap
                values.append(entry.as_index())
            else:
                values.append(start + at if extent > 1 else code.number(0))
        return values
