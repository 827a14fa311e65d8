"""A padded copy of the part of an image that a task's windows meet, from which a product reads its columns in place.

Packing windows stores each element of an image once for each element of the window that meets it. A padded copy stores
it once: elements of a window lie at constant distances from its start, and neighbouring windows are contiguous. So the
vectors of an iteration of the reduction start at one offset, which a table holds. With a stride, the elements that the
windows skip are kept apart: an axis is copied in as many phases as the stride, in each of which neighbours are windows.

Vectors run across the ends of lines: products of the columns there are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import element_of, loop_extents, shape_of
from tensorgrad.dialects.schedule import PackedSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.windows import Windows
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.factors import Tile, element_if
from tensorgrad.passes.codegen.llvm.loops import new_array, parallel
from tensorgrad.passes.codegen.llvm.packing import sequential
from tensorgrad.passes.scalars import Value

LINE_ELEMENTS = 16
"""The elements of a cache line."""


@dataclass(frozen=True)
class PaddedImage:
    """The memory for a padded copy, and for the offset of each iteration of a range of the reduction.

    Attributes:
        stage: The contraction.
        windows: The windows.
        pitch: The elements of a line.
        lines: The lines that are copied.
        plane: The elements of a phase of a channel.
        memory: The memory.
        line: The memory for a line of which parts are kept apart; `None` if it has one part.
        offsets: The table of offsets.
    """

    stage: GenericOp
    windows: Windows
    pitch: int
    lines: int
    plane: int
    memory: SSAValue
    line: SSAValue | None
    offsets: SSAValue

    @staticmethod
    def of(
        stage: GenericOp, windows: Windows, schedule: PackedSchedule, room: int, depth: int, top: Block
    ) -> PaddedImage:
        """Allocates the memory.

        Args:
            stage: The contraction.
            windows: The windows.
            schedule: The kernel's schedule.
            room: The most columns of a tile.
            depth: The iterations of a range: a multiple of the elements of a window.
            top: The kernel's block.
        """
        lines, array = copied_lines(windows, room), partial(new_array, top, element_of(stage.outputs[0]))
        plane = plane_of(windows, lines)
        planes = depth // windows.taps * math.prod(axis.phases for axis in windows.axes)
        memory = array(planes * plane + schedule.columns)
        line = array(line_extent(windows)) if windows.axes[-1].phases > 1 else None
        return PaddedImage(stage, windows, windows.pitch, lines, plane, memory, line, new_array(top, i32, depth))

    def copy(self, code: Code, tile: Tile, start: Value, count: Value) -> None:
        """Writes the copy for a range of the reduction.

        Args:
            code: Where to write.
            tile: The task's tile.
            start: The first iteration.
            count: The number of iterations.
        """
        taps, axes = self.windows.taps, self.windows.axes
        extents = [loop_extents(self.stage)[loop] for loop in self.windows.outer]
        places = [
            affine.linear(place, [math.prod(extents)]) for place in affine.delinearized(AffineDimExpr(0), extents)
        ]
        lines = [self.lines] if len(axes) > 1 else []

        def channel(number: Value, _: Sequence[Value]) -> list[Value]:
            at = start // taps + number
            outer = [code.expression(place.expression(), [at]) for place in places]

            def line(positions: list[Value], _: Sequence[Value]) -> list[Value]:
                self._copy_line(code, tile, number, outer, positions)
                return []

            code.nest([*(axis.phases for axis in axes[:-1]), *lines], [], line)
            return []

        code.loop_to(count // taps, [], channel)

    def _copy_line(
        self, code: Code, tile: Tile, number: Value, outer: Sequence[Value], positions: Sequence[Value]
    ) -> None:
        """Copies a line of a channel; `positions` are the indices of the lines' phase, and of the line.

        A line of several phases is first copied as it is: so all loads and stores are contiguous, or unmasked.
        """
        *before, along = self.windows.axes
        phase, line = positions[: len(before)], positions[len(before) :]
        above = [self._first_line(tile) + at for at in line]
        own = [*outer, *(at for at, axis in zip(phase, before, strict=True) if axis.taps > 1)]
        own += [code.number(0)] * (along.taps > 1)
        end = sum((at * self.pitch for at in line), code.number(0))
        if along.phases == 1:
            start = self._plane(code, number, [*phase, code.number(0)]) + end

            def put(x: Value) -> None:
                code.put(self._element(code, tile, [*above, x], own), self.memory, start + x)

            parallel(code, code.number(self.pitch), None, put, is_short=True)
            return
        assert self.line is not None
        whole = self.line

        def keep(x: Value) -> None:
            code.put(self._element(code, tile, [*above, code.number(0)], own, x), whole, x)

        parallel(code, code.number(line_extent(self.windows)), None, keep, is_short=True)
        for part in range(along.phases):
            start = self._plane(code, number, [*phase, code.number(part)]) + end
            first = part * along.dilation

            def move(x: Value, start: Value = start, first: int = first) -> None:
                code.put(code.element(whole, x * along.stride + first), self.memory, start + x)

            parallel(code, code.number(rounded_up(self.pitch, LINE_ELEMENTS)), None, move)

    def _element(
        self, code: Code, tile: Tile, column: Sequence[Value], own: Sequence[Value], moved: Value | None = None
    ) -> Value:
        """Returns an element of the image, 0 outside of it: that of a window's start, or `moved` along its line."""
        buffer = self.stage.inputs[self.windows.operand.index]
        memory, shape = code.bindings[buffer].memory, shape_of(buffer)
        loops = tile.loops(code, [], column, self.lines + self.pitch).with_own(own, tile.own)
        step, along = AffineDimExpr(len(loops.expressions)), AffineDimExpr(len(tile.grid) - 1)
        if moved is not None:
            loops = loops.with_own([moved], [line_extent(self.windows)])
        conditions: list[Value] = []
        place = affine.Linear()
        for index, extent, stride in zip(self.windows.indices, shape, affine.strides(shape), strict=True):
            if moved is not None and along in index.terms:
                index = index.plus(affine.Linear({step: 1}))
            place = place.plus(index, stride)
            at = affine.linear(index.expression().replace_dims_and_symbols(loops.expressions, ()), loops.extents)
            low, high = at.bounds(loops.extents)
            if low < 0 or high >= extent:
                conditions.append(code.place(at, loops) < extent)  # unsigned: fails below zero, too
        inside = reduce(lambda x, y: x & y, conditions) if conditions else None
        return element_if(code, inside, memory, code.position_at(place, buffer, loops))

    def fill_offsets(self, code: Code) -> None:
        """Writes the table of offsets, which are the same in all ranges."""
        axes, (extent,) = self.windows.axes, shape_of(self.offsets)

        def offset(positions: list[Value], _: Sequence[Value]) -> list[Value]:
            number, *taps = positions
            at = self._plane(code, number, [tap % axis.cycle for tap, axis in zip(taps, axes, strict=True)])
            for tap, axis, pitch in zip(reversed(taps), reversed(axes), (1, self.pitch), strict=False):
                at = at + tap // axis.cycle * (axis.advance * pitch)
            place = number
            for tap, axis in zip(taps, axes, strict=True):
                place = place * axis.taps + tap
            code.put(at.cast(arith.IndexCastOp, i32), self.offsets, place)
            return []

        code.nest([extent // self.windows.taps, *(axis.taps for axis in axes)], [], offset)

    def over_lines(self, code: Code, tile: Tile, count: Value, body: Callable[[Value, list[Value]], None]) -> None:
        """Writes a loop over the columns of a tile that are in a line.

        Args:
            code: Where to write.
            tile: The task's tile.
            count: The number of its columns.
            body: Takes a column, relative to the tile, and the indices of its loops.
        """
        begin, axes = tile.first[1], self.windows.axes
        end = begin + count

        def line(number: Value) -> None:
            start = number * self.pitch
            first = start.at_least(begin)
            last = (start + axes[-1].extent).at_least(begin).at_most(end)
            above = [number] if len(axes) > 1 else []
            parallel(code, last - begin, first - begin, lambda j: body(j, [*above, begin + j - start]), is_short=True)

        sequential(code, (end + (self.pitch - 1)) // self.pitch, line, start=begin // self.pitch)

    def _first_line(self, tile: Tile) -> Value:
        return tile.first[1] // self.pitch

    def _plane(self, code: Code, number: Value, phase: Sequence[Value]) -> Value:
        """Returns the offset of a phase of a channel."""
        place = number
        for value, axis in zip(phase, self.windows.axes, strict=True):
            place = place * axis.phases + value
        return place * self.plane

    def vectors(
        self, code: Code, tile: Tile, first: Value, step: Value, parts: Sequence[tuple[int, VectorType[Attribute]]]
    ) -> list[Value]:
        """Returns neighbouring columns in an iteration, as vectors; `parts` are the offset and the type of each.

        Args:
            code: Where to write.
            tile: The task's tile.
            first: The first column, relative to the tile.
            step: The iteration.
            parts: The vectors.
        """
        within = tile.first[1] - self._first_line(tile) * self.pitch
        at = code.element(self.offsets, step).as_index() + (within + first)
        return [code.vector(self.memory, at + by, kind) for by, kind in parts]


def copied_lines(windows: Windows, columns: int) -> int:
    """Returns how many lines the windows of some neighbouring columns meet, wherever in a line these start."""
    if len(windows.axes) == 1:
        return 1
    axis = windows.axes[0]
    return min(-(-columns // windows.pitch) + 1, axis.extent) + axis.reach


def plane_of(windows: Windows, lines: int) -> int:
    """Returns the elements between parts: an odd number of cache lines, so that they don't share a set of the L1.

    Behind the last line there is room for a cache line.
    """
    return (-(-lines * windows.pitch // LINE_ELEMENTS) + 1 | 1) * LINE_ELEMENTS


def line_extent(windows: Windows) -> int:
    """Returns the elements of a line of an image that the parts of whole vectors are taken from."""
    along = windows.axes[-1]
    last = rounded_up(windows.pitch, LINE_ELEMENTS) - 1
    return last * along.stride + (along.phases - 1) * along.dilation + 1
