"""Packs the factors of a product, in the order in which the innermost loop reads them.

Columns are packed in panels: those of a register block, for each iteration of the reduction. Rows are read one element
at a time, so that each row of a block may be packed on its own; where the rows of an iteration lie one after another,
they are packed like columns.

Where columns lie in memory along the reduction, the panels are their transpose. Storing element by element would touch
a cache line for each of them; so square blocks are transposed in registers, by

J. Eklundh: A Fast Computer Method for Matrix Transposing (IEEE Transactions on Computers C-21, 1972).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias, cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import Attribute, SSAValue

from tensorgrad.passes.kernels.lower_buf_to_cpu.loops import parallel
from tensorgrad.passes.kernels.writing.emission import Code

LEAST_LANES = 4
"""The narrowest vector at the edge, and the smallest square that is worth transposing."""


Put: TypeAlias = Callable[[Code, SSAValue, SSAValue], None]
"""Writes what stores a value for a place, or an iteration."""


class Factor(Protocol):
    """What is packed.

    Attributes:
        along_steps: Whether it lies along the reduction.
        in_vectors: Whether neighbouring rows, or columns, can be loaded as vectors.
    """

    along_steps: bool
    in_vectors: bool

    def over_rows(
        self, code: Code, step: SSAValue, first: SSAValue, count: SSAValue, put: Put, is_short: bool = False
    ) -> None:
        """Writes a loop over `count` rows, or columns, of the tile from `first` on, in an iteration of a range."""
        ...

    def over_steps(self, code: Code, row: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over the iterations of a range, in a row, or a column, of the tile."""
        ...

    def vectors(
        self, code: Code, row: SSAValue, step: SSAValue, parts: Sequence[tuple[int, VectorType[Attribute]]]
    ) -> list[SSAValue]:
        """Returns neighbouring rows, or columns, in an iteration: for each part, so many from its place on."""
        ...


@dataclass(frozen=True)
class Columns:
    """A block of columns in registers.

    Attributes:
        lanes: The elements of each of its vectors.
        filled: How many columns it has: fewer than elements where the grid has no more.
    """

    lanes: tuple[int, ...]
    filled: int

    @property
    def width(self) -> int:
        """The elements of its vectors."""
        return sum(self.lanes)

    def parts(self, element: Attribute) -> list[tuple[int, VectorType[Attribute]]]:
        """Returns where each vector begins, and its type."""
        places = itertools.accumulate(self.lanes[:-1], initial=0)
        return [(at, VectorType(element, [one])) for at, one in zip(places, self.lanes, strict=True)]

    @staticmethod
    def behind(columns: int, width: int, lanes: int) -> Columns | None:
        """Returns the block behind the last whole one, if there are columns for it: it ends at the last column.

        Args:
            columns: How many there are.
            width: Those of a whole block.
            lanes: The elements of a vector.
        """
        rest = columns % width
        if rest == 0:
            return None
        vectors, left = [lanes] * (rest // lanes), rest % lanes
        if left:
            vectors.append(max(1 << (left - 1).bit_length(), min(LEAST_LANES, lanes)))
        return Columns(tuple(vectors), min(sum(vectors), columns))


@dataclass(frozen=True)
class Panels:
    """Where columns are packed.

    Attributes:
        memory: The panels.
        element: The dtype.
        lanes: The elements of a vector.
        depth: How many iterations there is room for.
        lines: Scratch memory for lines of iterations, where columns lie along the reduction.
    """

    memory: SSAValue
    element: Attribute
    lanes: int
    depth: int
    lines: SSAValue | None

    def pack(
        self, code: Code, base: SSAValue, columns: Columns, first: SSAValue, steps: SSAValue, factor: Factor
    ) -> None:
        """Writes the code that packs a panel.

        There are zeros for columns beyond an edge: nothing is made of them, but what was there before might be
        subnormal, which takes long.

        Args:
            code: Where to write.
            base: Where the panel begins.
            columns: Its columns.
            first: The first one, from the tile's on.
            steps: How many iterations there are.
            factor: What to pack.
        """
        side = math.gcd(columns.width, self.lanes)
        if self.lines is not None and side >= LEAST_LANES:
            squares = code.number(columns.width // side)
            packed = partial(self._pack_transposed, base=base, columns=columns, first=first, steps=steps, factor=factor)
            sequential(code, squares, lambda inner, square: packed(inner, square, side))
        elif factor.in_vectors and columns.filled == columns.width:
            sequential(code, steps, lambda c, step: self._copy(c, base, columns, first, step, factor))
        else:
            self._pack_elements(code, base, columns, first, steps, factor)

    def _copy(
        self, code: Code, base: SSAValue, columns: Columns, first: SSAValue, step: SSAValue, factor: Factor
    ) -> None:
        """Copies an iteration."""
        parts, start = columns.parts(self.element), self._place(code, base, columns, step)
        for (at, _), value in zip(parts, factor.vectors(code, first, step, parts), strict=True):
            code.block.add_op(vector.StoreOp(value, self.memory, [code.index_op(arith.AddiOp, start, at)]))

    def _place(self, code: Code, base: SSAValue, columns: Columns, step: SSAValue) -> SSAValue:
        """Returns where in memory a panel's iteration begins."""
        return code.index_op(arith.AddiOp, base, code.index_op(arith.MuliOp, step, columns.width))

    def _pack_elements(
        self, code: Code, base: SSAValue, columns: Columns, first: SSAValue, steps: SSAValue, factor: Factor
    ) -> None:
        filled = code.number(columns.filled)

        def put(inner: Code, place: SSAValue, step: SSAValue, value: SSAValue) -> None:
            start = self._place(inner, base, columns, step)
            inner.put(value, self.memory, inner.index_op(arith.AddiOp, start, place))

        def line(c: Code, place: SSAValue) -> None:
            row = c.index_op(arith.AddiOp, first, place)
            factor.over_steps(c, row, steps, lambda d, step, value: put(d, place, step, value))

        def across(c: Code, step: SSAValue) -> None:
            is_short = columns.filled % self.lanes != 0
            factor.over_rows(c, step, first, filled, lambda d, place, value: put(d, place, step, value), is_short)

        if factor.along_steps:
            sequential(code, filled, line)
        else:
            sequential(code, steps, across)
        if columns.filled < columns.width:
            sequential(code, steps, lambda c, step: self._fill_up(c, base, columns, step))

    def _fill_up(self, code: Code, base: SSAValue, columns: Columns, step: SSAValue) -> None:
        """Writes zeros behind the elements of an iteration in a panel."""
        start, zero = self._place(code, base, columns, step), code.scalar(0.0, self.element)
        body = partial(_put_behind, value=zero, memory=self.memory, start=start)
        parallel(code, code.number(columns.width), code.number(columns.filled), body)

    def _pack_transposed(
        self,
        code: Code,
        square: SSAValue,
        side: int,
        base: SSAValue,
        columns: Columns,
        first: SSAValue,
        steps: SSAValue,
        factor: Factor,
    ) -> None:
        """Packs `side` columns of a panel: as they lie, line by line, then transposed."""
        assert self.lines is not None
        lines, whole = self.lines, code.number(side)
        before = code.index_op(arith.MuliOp, square, side)
        above = code.index_op(arith.AddiOp, first, before)

        def line(inner: Code, x: SSAValue) -> None:
            row, start = inner.index_op(arith.AddiOp, above, x), inner.index_op(arith.MuliOp, x, self.depth)

            def put(c: Code, step: SSAValue, value: SSAValue) -> None:
                c.put(value, lines, c.index_op(arith.AddiOp, start, step))

            factor.over_steps(inner, row, steps, put)

        def empty(inner: Code, x: SSAValue) -> None:
            start, zero = inner.index_op(arith.MuliOp, x, self.depth), inner.scalar(0.0, self.element)
            parallel(inner, steps, None, partial(_put_behind, value=zero, memory=lines, start=start))

        filled = whole
        if columns.filled < columns.width:
            left = code.index_op(arith.MaxUIOp, code.number(columns.filled), before)
            filled = code.index_op(arith.MinUIOp, whole, code.index_op(arith.SubiOp, left, before))
        sequential(code, filled, line)
        if columns.filled < columns.width:
            sequential(code, whole, empty, start=filled)
        blocks = code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, steps, side - 1), side)
        corner = code.index_op(arith.AddiOp, base, before)
        sequential(
            code,
            blocks,
            lambda c, block: self._transpose(c, c.index_op(arith.MuliOp, block, side), side, corner, columns),
        )

    def _transpose(self, code: Code, step: SSAValue, side: int, corner: SSAValue, columns: Columns) -> None:
        """Moves a square of the lines to a panel. Behind the last iteration, it moves what nothing reads."""
        assert self.lines is not None
        kind = VectorType(self.element, [side])
        rows = [
            code.add(vector.LoadOp(self.lines, [code.index_op(arith.AddiOp, step, x * self.depth)], kind))
            for x in range(side)
        ]
        start = self._place(code, corner, columns, step)
        for y, column in enumerate(transposed(code, rows)):
            place = code.index_op(arith.AddiOp, start, y * columns.width)
            code.block.add_op(vector.StoreOp(column, self.memory, [place]))


@dataclass(frozen=True)
class Lines:
    """Where a block of rows is packed.

    Attributes:
        memory: The rows, one after another, or those of each iteration.
        rows: How many there are.
        pitch: How far apart neighbouring rows begin; 0 where those of an iteration lie one after another.
    """

    memory: SSAValue
    rows: int
    pitch: int

    def pack(self, code: Code, first: SSAValue, steps: SSAValue, factor: Factor) -> None:
        """Writes the code that packs.

        Args:
            code: Where to write.
            first: The first row, from the tile's on.
            steps: How many iterations there are.
            factor: What to pack.
        """
        rows = code.number(self.rows)

        def line(c: Code, place: SSAValue) -> None:
            row = c.index_op(arith.AddiOp, first, place)
            factor.over_steps(c, row, steps, lambda d, step, value: self._put(d, value, place, step))

        def across(c: Code, step: SSAValue) -> None:
            factor.over_rows(c, step, first, rows, lambda d, place, value: self._put(d, value, place, step), True)

        if self.pitch:
            sequential(code, rows, line)
        else:
            sequential(code, steps, across)

    def _put(self, code: Code, value: SSAValue, row: SSAValue, step: SSAValue) -> None:
        code.put(value, self.memory, self._place(code, row, step))

    def _place(self, code: Code, row: SSAValue, step: SSAValue) -> SSAValue:
        if self.pitch:
            return code.index_op(arith.AddiOp, code.index_op(arith.MuliOp, row, self.pitch), step)
        return code.index_op(arith.AddiOp, code.index_op(arith.MuliOp, step, self.rows), row)

    def element(self, code: Code, row: int, step: SSAValue) -> SSAValue:
        """Returns the element of a row in an iteration."""
        if self.pitch:
            return code.element(self.memory, code.index_op(arith.AddiOp, step, row * self.pitch))
        start = code.index_op(arith.MuliOp, step, self.rows)
        return code.element(self.memory, code.index_op(arith.AddiOp, start, row))


def transposed(code: Code, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """Returns the columns of a square of vectors, whose side is a power of two."""
    found, side = list(rows), len(rows)
    distance = 1
    while distance < side:
        upper = [lane if not lane & distance else side + lane - distance for lane in range(side)]
        lower = [lane + distance if not lane & distance else side + lane for lane in range(side)]
        for i in range(side):
            if not i & distance:
                pair = found[i], found[i + distance]
                found[i], found[i + distance] = (_shuffled(code, *pair, mask) for mask in (upper, lower))
        distance *= 2
    return found


def _shuffled(code: Code, left: SSAValue, right: SSAValue, mask: Sequence[int]) -> SSAValue:
    kind = cast("VectorType[Attribute]", left.type)
    return code.add(vector.ShuffleOp(left, right, DenseArrayBase.from_list(i64, mask), result_type=kind))


def _put_behind(code: Code, at: SSAValue, value: SSAValue, memory: SSAValue, start: SSAValue) -> None:
    code.put(value, memory, code.index_op(arith.AddiOp, start, at))


def sequential(
    code: Code, stop: SSAValue, body: Callable[[Code, SSAValue], None], start: SSAValue | None = None
) -> None:
    """Writes a loop that carries nothing."""

    def iteration(inner: Code, at: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        body(inner, at)
        return []

    code.loop_to(stop, [], iteration, start=start)
