"""Packs a factor of a product in panels: a register block's rows, or columns, for each iteration of the reduction.

Where a factor lies in memory along the reduction, the panels are its transpose. Storing element by element would touch
a cache line for each of them; so square blocks are transposed in registers, by

J. Eklundh: A Fast Computer Method for Matrix Transposing (IEEE Transactions on Computers C-21, 1972).
"""

from __future__ import annotations

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

LEAST_SIDE = 4
"""Smaller blocks are not worth transposing."""


Put: TypeAlias = Callable[[Code, SSAValue, SSAValue], None]
"""Writes what stores a value for a place, or an iteration."""


class Factor(Protocol):
    """What is packed.

    Attributes:
        along_steps: Whether it lies along the reduction.
    """

    along_steps: bool

    def over_rows(self, code: Code, step: SSAValue, first: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over `count` rows, or columns, of the tile from `first` on, in an iteration of a range."""
        ...

    def over_steps(self, code: Code, row: SSAValue, count: SSAValue, put: Put) -> None:
        """Writes a loop over the iterations of a range, in a row, or a column, of the tile."""
        ...


def side_of_blocks(width: int, lanes: int) -> int:
    """Returns the side of the blocks that panels are transposed by, or 1 where they are not."""
    side = math.gcd(width, 1 << (lanes.bit_length() - 1))
    return side if side >= LEAST_SIDE else 1


@dataclass(frozen=True)
class Panels:
    """Where a factor is packed.

    Attributes:
        memory: The panels, one after another.
        element: The dtype.
        width: How many rows, or columns, a panel has.
        depth: How many iterations a panel has room for: a multiple of `side`.
        is_cut: Whether the last panel may have fewer rows, or columns.
        side: Blocks of so many rows and iterations are transposed; 1 where a factor does not lie along the iterations.
        lines: Scratch memory for so many lines of iterations, where blocks are transposed.
    """

    memory: SSAValue
    element: Attribute
    width: int
    depth: int
    is_cut: bool
    side: int = 1
    lines: SSAValue | None = None

    def pack(self, code: Code, count: SSAValue, steps: SSAValue, factor: Factor) -> None:
        """Writes the code that packs.

        A panel has zeros for rows and columns beyond an edge: nothing is made of them, but what was there before might
        be subnormal, which takes long.

        Args:
            code: Where to write.
            count: How many rows, or columns, there are.
            steps: How many iterations there are.
            factor: What to pack.
        """
        panels = code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, count, self.width - 1), self.width)

        def over_panels(inner: Code, panel: SSAValue) -> None:
            wide = inner.number(self.width)
            if self.is_cut:
                left = inner.index_op(arith.SubiOp, count, inner.index_op(arith.MuliOp, panel, self.width))
                wide = inner.index_op(arith.MinUIOp, wide, left)
            if self.lines is not None:
                blocks = inner.number(self.width // self.side)
                sequential(inner, blocks, lambda c, block: self._pack_transposed(c, panel, block, wide, steps, factor))
            else:
                self._pack_elements(inner, panel, wide, steps, factor)

        sequential(code, panels, over_panels)

    def _place(self, code: Code, panel: SSAValue, step: SSAValue) -> SSAValue:
        """Returns where in memory a panel's iteration begins."""
        base = code.index_op(arith.MuliOp, panel, self.depth * self.width)
        return code.index_op(arith.AddiOp, base, code.index_op(arith.MuliOp, step, self.width))

    def _pack_elements(self, code: Code, panel: SSAValue, wide: SSAValue, steps: SSAValue, factor: Factor) -> None:
        first = code.index_op(arith.MuliOp, panel, self.width)

        def put(inner: Code, place: SSAValue, step: SSAValue, value: SSAValue) -> None:
            inner.put(value, self.memory, inner.index_op(arith.AddiOp, self._place(inner, panel, step), place))

        def line(c: Code, place: SSAValue) -> None:
            row = c.index_op(arith.AddiOp, first, place)
            factor.over_steps(c, row, steps, lambda d, step, value: put(d, place, step, value))

        def across(c: Code, step: SSAValue) -> None:
            factor.over_rows(c, step, first, wide, lambda d, place, value: put(d, place, step, value))

        if factor.along_steps:
            sequential(code, wide, line)
        else:
            sequential(code, steps, across)
        if self.is_cut:
            sequential(code, steps, lambda c, step: self._fill_up(c, panel, step, wide))

    def _fill_up(self, code: Code, panel: SSAValue, step: SSAValue, filled: SSAValue) -> None:
        """Writes zeros behind the `filled` elements of an iteration in a panel."""
        start, zero = self._place(code, panel, step), code.scalar(0.0, self.element)
        body = partial(_put_behind, value=zero, memory=self.memory, start=start)
        parallel(code, code.number(self.width), filled, body)

    def _pack_transposed(
        self, code: Code, panel: SSAValue, block: SSAValue, wide: SSAValue, steps: SSAValue, factor: Factor
    ) -> None:
        """Packs a block of `side` rows of a panel: as they lie, line by line, then transposed."""
        assert self.lines is not None
        lines, side = self.lines, code.number(self.side)
        first = code.index_op(arith.MuliOp, block, self.side)

        def line(inner: Code, x: SSAValue) -> None:
            above = inner.index_op(arith.AddiOp, inner.index_op(arith.MuliOp, panel, self.width), first)
            row, start = inner.index_op(arith.AddiOp, above, x), inner.index_op(arith.MuliOp, x, self.depth)

            def put(c: Code, step: SSAValue, value: SSAValue) -> None:
                c.put(value, lines, c.index_op(arith.AddiOp, start, step))

            factor.over_steps(inner, row, steps, put)

        def empty(inner: Code, x: SSAValue) -> None:
            start, zero = inner.index_op(arith.MuliOp, x, self.depth), inner.scalar(0.0, self.element)
            parallel(inner, steps, None, partial(_put_behind, value=zero, memory=lines, start=start))

        filled = side
        if self.is_cut:
            behind = code.index_op(arith.SubiOp, code.index_op(arith.MaxUIOp, wide, first), first)
            filled = code.index_op(arith.MinUIOp, side, behind)
        sequential(code, filled, line)
        if self.is_cut:
            sequential(code, side, empty, start=filled)
        squares = code.index_op(arith.DivUIOp, code.index_op(arith.AddiOp, steps, self.side - 1), self.side)
        sequential(code, squares, lambda inner, square: self._transpose(inner, panel, first, square))

    def _transpose(self, code: Code, panel: SSAValue, first: SSAValue, square: SSAValue) -> None:
        """Moves a square of the lines to a panel. Behind the last iteration, it moves what nothing reads."""
        assert self.lines is not None
        kind = VectorType(self.element, [self.side])
        step = code.index_op(arith.MuliOp, square, self.side)
        rows = [
            code.add(vector.LoadOp(self.lines, [code.index_op(arith.AddiOp, step, x * self.depth)], kind))
            for x in range(self.side)
        ]
        corner = code.index_op(arith.AddiOp, self._place(code, panel, step), first)
        for y, column in enumerate(transposed(code, rows)):
            place = code.index_op(arith.AddiOp, corner, y * self.width)
            code.block.add_op(vector.StoreOp(column, self.memory, [place]))


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
