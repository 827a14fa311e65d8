"""Packs the factors of a product in the order in which the innermost loop reads them.

Columns are packed in panels: those of a register block, for each iteration of the reduction. Rows are read one element
at a time, so each row of a block may be packed separately; if the rows of an iteration are contiguous, they are packed
like columns.

For dot products of pairs, two neighbouring iterations of what is packed become one word of two rounded numbers.

If columns are contiguous along the reduction, the panels are their transpose. Storing single elements would touch a
cache line for each; so square blocks are transposed in registers, as in

J. Eklundh: A Fast Computer Method for Matrix Transposing (IEEE Transactions on Computers C-21, 1972).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import element_of
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.shuffles import transposed
from tensorgrad.passes.scalars import Value

LEAST_LANES = 4
"""The narrowest vector at an edge, and the side of the smallest square worth transposing."""


Put: TypeAlias = Callable[[Value, Value], None]
"""Writes the store of a value at a position."""


class Factor(Protocol):
    """A factor to pack.

    Attributes:
        along_steps: Whether it is contiguous along the reduction.
        in_vectors: Whether neighbouring rows (or columns) can be loaded as vectors.
        in_lines: Whether neighbouring iterations can be loaded as vectors.
        in_runs: Whether neighbours are read in runs, where `over_rows` splits its loop.
    """

    along_steps: bool
    in_vectors: bool
    in_lines: bool
    in_runs: bool

    def over_rows(self, code: Code, step: Value, first: Value, count: Value, put: Put, is_masked: bool = False) -> None:
        """Writes a loop over `count` rows (or columns) of the tile from `first` on, in one iteration of a range."""
        ...

    def over_steps(self, code: Code, row: Value, count: Value, put: Put) -> None:
        """Writes a loop over the iterations of a range, in one row (or column) of the tile."""
        ...

    def in_pairs(self) -> Factor:
        """Returns the factor with a word of two iterations for each pair of them; not if it is in runs."""
        ...

    def vectors(
        self, code: Code, row: Value, step: Value, parts: Sequence[tuple[int, VectorType[Attribute]]]
    ) -> list[Value]:
        """Returns neighbouring rows (or columns) in an iteration, or neighbouring iterations, as vectors.

        `parts` are the offset and the type of each vector.
        """
        ...

    def words(self, code: Code, row: Value, step: Value, lanes: int) -> Value:
        """Returns the words of pairs of neighbouring iterations as a vector."""
        ...


@dataclass(frozen=True)
class Columns:
    """The columns of a register block.

    Attributes:
        lanes: The lanes of each of its vectors.
        filled: The number of columns it has: fewer than lanes where the grid has no more.
    """

    lanes: tuple[int, ...]
    filled: int

    @property
    def width(self) -> int:
        """The total lanes of its vectors."""
        return sum(self.lanes)

    def parts(self, element: Attribute) -> list[tuple[int, VectorType[Attribute]]]:
        """Returns each vector's offset and type."""
        places = itertools.accumulate(self.lanes[:-1], initial=0)
        return [(at, VectorType(element, [lane])) for at, lane in zip(places, self.lanes, strict=True)]

    @staticmethod
    def of(columns: int, lanes: int) -> Columns:
        """Returns a block of at least `columns` columns: vectors of `lanes` lanes, the last one perhaps narrower."""
        vectors, remainder = [lanes] * (columns // lanes), columns % lanes
        if remainder:
            vectors.append(max(1 << (remainder - 1).bit_length(), min(LEAST_LANES, lanes)))
        return Columns(tuple(vectors), columns)

    @staticmethod
    def behind(columns: int, width: int, lanes: int) -> Columns | None:
        """Returns the block after the last whole one, if there are columns for it: it ends at the last column.

        Args:
            columns: The number of columns.
            width: The columns of a whole block.
            lanes: The lanes of a vector.
        """
        rest = columns % width
        if rest == 0:
            return None
        block = Columns.of(rest, lanes)
        return Columns(block.lanes, min(block.width, columns))


@dataclass(frozen=True)
class Panels:
    """Memory for packed columns.

    Attributes:
        memory: The panels.
        element: The dtype.
        lanes: The lanes of a vector.
        depth: The capacity in iterations.
        words: The memory for words, if a panel becomes pairs; `memory` then has room for one panel.
        whole: Whether all pairs are whole, as every range has an even number of iterations.
        squares: Whether columns are transposed: they are contiguous along the reduction.
        lines: Scratch memory for lines of iterations to transpose, if they can't be loaded directly.
    """

    memory: SSAValue
    element: Attribute
    lanes: int
    depth: int
    words: SSAValue | None
    whole: bool
    squares: bool
    lines: SSAValue | None

    @property
    def iterations(self) -> int:
        """The iterations of an element that the innermost loop reads: two if it is a word."""
        return 1 if self.words is None else 2

    @property
    def length(self) -> int:
        """The capacity of a column as the innermost loop reads it."""
        return self.depth // self.iterations

    @property
    def packed(self) -> SSAValue:
        """The memory that the innermost loop reads."""
        return self.memory if self.words is None else self.words

    def elements(self, steps: Value) -> Value:
        """Returns the number of elements of a column that the innermost loop reads for some iterations."""
        return steps if self.words is None else pairs_of(steps)

    def pack(self, code: Code, base: Value, columns: Columns, first: Value, steps: Value, factor: Factor) -> None:
        """Writes the code that packs a panel.

        Columns beyond an edge are zero-filled: they don't affect the results, but stale contents might be subnormal,
        which is slow.

        Args:
            code: Where to write.
            base: The panel's offset.
            columns: Its columns.
            first: The first column, relative to the tile.
            steps: The number of iterations.
            factor: The factor to pack.
        """
        if self.words is None or self._is_direct(columns, factor):
            self._pack(code, base, columns, first, steps, factor)
            return
        words, width, numbers = self.words, columns.width, replace(self, words=None)
        numbers._pack(code, code.number(0), columns, first, steps, factor)
        self._fill_up(code, self.memory, steps * width, replace(columns, filled=0))  # so that the last pair is whole

        def pair(number: Value) -> None:
            low, start = number * (2 * width), base + number * width
            parallel(
                code,
                code.number(width),
                None,
                lambda at: code.put(paired(code, self.memory, low + at, low + (at + width)), words, start + at),
            )

        sequential(code, pairs_of(steps), pair)

    def _is_direct(self, columns: Columns, factor: Factor) -> bool:
        """Returns whether words are packed as such, rather than from packed numbers."""
        return self.whole and (self._side(columns) > 0 or self.packs_steps(columns, factor))

    def packs_steps(self, columns: Columns, factor: Factor) -> bool:
        """Returns whether `pack_step` can pack an iteration, or two for words."""
        if self.words is None:
            return not factor.along_steps
        return self.whole and not (factor.along_steps or factor.in_runs) and columns.filled == columns.width

    def _side(self, columns: Columns) -> int:
        """Returns the side of the squares that are transposed; 0 if none are."""
        side = math.gcd(columns.width, self.lanes)
        return side if self.squares and side >= LEAST_LANES else 0

    def _pack(self, code: Code, base: Value, columns: Columns, first: Value, steps: Value, factor: Factor) -> None:
        """Writes the code that packs numbers as they are, or words of whole pairs."""
        if side := self._side(columns):
            squares = code.number(columns.width // side)
            packed = partial(self._pack_transposed, base=base, columns=columns, first=first, steps=steps, factor=factor)
            sequential(code, squares, lambda square: packed(code, square, side))
        elif factor.along_steps:
            self._pack_lines(code, base, columns, first, steps, factor)
        else:
            sequential(code, self.elements(steps), partial(self.pack_step, code, base, columns, first, factor=factor))

    def pack_step(self, code: Code, base: Value, columns: Columns, first: Value, number: Value, factor: Factor) -> None:
        """Writes the code that packs an iteration, or the pair of two, with zeros after its elements.

        Args:
            code: Where to write.
            base: The panel's offset.
            columns: Its columns.
            first: The first column, relative to the tile.
            number: The number of the iteration, or the pair.
            factor: The factor to pack.
        """
        start, memory = base + number * columns.width, self.packed
        if self.words is None and factor.in_vectors and columns.filled == columns.width:
            parts = columns.parts(self.element)
            for (at, _), value in zip(parts, factor.vectors(code, first, number, parts), strict=True):
                code.put_vector(value, memory, start + at)
            return
        count, is_masked = code.number(columns.filled), columns.filled % self.lanes != 0

        def put(place: Value, value: Value) -> None:
            code.put(value, memory, start + place)

        reader = factor if self.words is None else factor.in_pairs()
        reader.over_rows(code, number, first, count, put, is_masked)
        self._fill_up(code, memory, start, columns)

    def _pack_lines(
        self, code: Code, base: Value, columns: Columns, first: Value, steps: Value, factor: Factor
    ) -> None:
        """Packs all iterations of a column, then those of the next, with zeros after the last column."""

        def line(place: Value) -> None:
            def put(step: Value, value: Value) -> None:
                code.put(value, self.memory, base + step * columns.width + place)

            factor.over_steps(code, first + place, steps, put)

        sequential(code, code.number(columns.filled), line)
        if columns.filled < columns.width:
            fill_up = partial(self._fill_up, code, self.memory, columns=columns)
            sequential(code, steps, lambda step: fill_up(base + step * columns.width))

    def _fill_up(self, code: Code, memory: SSAValue, start: Value, columns: Columns) -> None:
        """Zero-fills a panel of numbers after the elements of an iteration, which begin at `start`."""
        if columns.filled == columns.width:
            return
        zero = code.constant(0.0, self.element)
        width, filled = code.number(columns.width), code.number(columns.filled)
        parallel(code, width, filled, lambda at: code.put(zero, memory, start + at))

    def _pack_transposed(
        self,
        code: Code,
        square: Value,
        side: int,
        base: Value,
        columns: Columns,
        first: Value,
        steps: Value,
        factor: Factor,
    ) -> None:
        """Packs `side` columns of a panel: line by line, then transposed.

        Lines are loaded directly, or written to scratch memory first. The last square of directly loaded lines is
        aligned to their end, so it may overlap the previous one.
        """
        before = square * side
        above, corner = (corner_ + before for corner_ in (first, base))
        if self.lines is not None:
            self._write_lines(code, before, above, side, columns, steps, factor)
        length = self.elements(steps)
        blocks = (length + (side - 1)) // side

        def transpose(block: Value) -> None:
            place = block * side
            if self.lines is None:
                place = place.at_most(length - side)
            rows = [self._line(code, above + x, x, place, side, factor) for x in range(side)]
            start = corner + place * columns.width
            for y, column in enumerate(transposed(rows)):
                code.put_vector(column, self.packed, start + y * columns.width)

        sequential(code, blocks, transpose)

    def _line(self, code: Code, row: Value, number: int, place: Value, side: int, factor: Factor) -> Value:
        """Returns `side` neighbouring elements of a column: of a line of scratch memory, if there is that."""
        step, kind = place * self.iterations, VectorType(self.element, [side])
        if self.lines is None and self.words is not None:
            return factor.words(code, row, step, side)
        if self.lines is None:
            return factor.vectors(code, row, step, [(0, kind)])[0]
        start = step + number * self.depth
        numbers = [code.vector(self.lines, start + at * side, kind) for at in range(self.iterations)]
        return numbers[0] if self.words is None else code.add(cpu.PairNeighboursOp(*(each.ssa for each in numbers)))

    def _write_lines(
        self,
        code: Code,
        before: Value,
        above: Value,
        side: int,
        columns: Columns,
        steps: Value,
        factor: Factor,
    ) -> None:
        """Writes lines of iterations for `side` columns from `above` on, with zeros beyond an edge."""
        assert self.lines is not None
        lines, whole = self.lines, code.number(side)

        def line(x: Value) -> None:
            row, start = above + x, x * self.depth

            factor.over_steps(code, row, steps, lambda step, value: code.put(value, lines, start + step))

        def empty(x: Value) -> None:
            start, zero = x * self.depth, code.constant(0.0, self.element)
            parallel(code, steps, None, lambda at: code.put(zero, lines, start + at))

        filled = whole
        if columns.filled < columns.width:
            end = code.number(columns.filled).at_least(before)
            filled = whole.at_most(end - before)
        sequential(code, filled, line)
        if columns.filled < columns.width:
            sequential(code, whole, empty, start=filled)


@dataclass(frozen=True)
class Lines:
    """Memory for a packed block of rows.

    Attributes:
        memory: The rows one after another, or the rows of one iteration after another.
        rows: The number of rows.
        pitch: The distance between neighbouring rows; 0 if the rows of an iteration are contiguous.
        words: The memory for words, if they become pairs: the same rows, half as far apart.
        whole: Whether all pairs are whole, as every range has an even number of iterations.
        lanes: The words of a vector; 0 if a range has fewer.
    """

    memory: SSAValue
    rows: int
    pitch: int
    words: SSAValue | None
    whole: bool
    lanes: int

    def pack(self, code: Code, first: Value, steps: Value, factor: Factor) -> None:
        """Writes the code that packs the rows.

        Args:
            code: Where to write.
            first: The first row, relative to the tile.
            steps: The number of iterations.
            factor: The factor to pack.
        """
        in_words = self.whole and not factor.in_runs
        reader = factor.in_pairs() if in_words else factor
        rows, count = code.number(self.rows), pairs_of(steps) if in_words else steps

        def put(value: Value, row: Value, step: Value) -> None:
            self._put(code, value, row, step, in_words)

        def copy(step: Value) -> None:
            start, parts = step * self.rows, Columns.of(self.rows, 2 * LEAST_LANES).parts(element_of(self.memory))
            for (at, _), value in zip(parts, factor.vectors(code, first, step, parts), strict=True):
                code.put_vector(value, self.memory, start + at)

        def line(row: Value) -> None:
            reader.over_steps(code, first + row, count, lambda step, value: put(value, row, step))

        def across(step: Value) -> None:
            reader.over_rows(code, step, first, rows, lambda row, value: put(value, row, step), True)

        def vectors(row: Value) -> None:
            """Packs a row; its last vector ends with it, and may overlap the one before."""

            def some(number: Value) -> None:
                place = (number * self.lanes).at_most(count - self.lanes)
                words = factor.words(code, first + row, place * 2, self.lanes)
                code.put_vector(words, self._memory(True), self._place(row, place, True))

            sequential(code, (count + (self.lanes - 1)) // self.lanes, some)

        if self.pitch:
            sequential(code, rows, vectors if in_words and factor.in_lines and self.lanes else line)
        elif factor.in_vectors and self.rows % LEAST_LANES == 0 and not in_words:
            sequential(code, count, copy)
        else:
            sequential(code, count, across)
        if self.words is not None and not in_words:
            self._pair(code, steps)

    def _pair(self, code: Code, steps: Value) -> None:
        """Puts neighbouring iterations into words."""
        rows, pairs, zero = code.number(self.rows), pairs_of(steps), code.constant(0.0, element_of(self.memory))
        parallel(code, rows, None, lambda row: self._put(code, zero, row, steps, False))  # for a whole last pair

        def word(row: Value, number: Value) -> None:
            low = number * 2
            value = paired(code, self.memory, self._place(row, low, False), self._place(row, low + 1, False))
            self._put(code, value, row, number, True)

        if self.pitch:
            sequential(code, rows, lambda row: parallel(code, pairs, None, lambda number: word(row, number)))
        else:
            sequential(code, pairs, lambda number: parallel(code, rows, None, lambda row: word(row, number), True))

    def _put(self, code: Code, value: Value, row: Value, step: Value, in_words: bool) -> None:
        code.put(value, self._memory(in_words), self._place(row, step, in_words))

    def _memory(self, in_words: bool) -> SSAValue:
        return self.words if in_words and self.words is not None else self.memory

    def _place(self, row: Value | int, step: Value, in_words: bool) -> Value:
        """Returns the position of a number, or a word."""
        return step + row * (self.pitch // 2 if in_words else self.pitch) if self.pitch else step * self.rows + row

    def element(self, code: Code, row: int, step: Value) -> Value:
        """Returns the element of a row in an iteration, or the word of two."""
        in_words = self.words is not None
        return code.element(self._memory(in_words), self._place(row, step, in_words))


def pairs_of(steps: Value) -> Value:
    """Returns the number of pairs of iterations, the last of which may be half empty."""
    return (steps + 1) // 2


def paired(code: Code, memory: SSAValue, low: Value, high: Value) -> Value:
    """Returns the word of two numbers in memory."""
    return code.add(cpu.PairOp(code.element(memory, low).ssa, code.element(memory, high).ssa))
