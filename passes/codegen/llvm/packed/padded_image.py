"""A padded copy of the part of an image that a task's windows meet, from which a product reads its columns in place.

Packing windows stores each element of an image once for each element of the window that meets it. A padded copy stores
it once: elements of a window lie at constant distances from its start, and neighbouring windows are contiguous. So the
vectors of an iteration of the reduction start at one offset, which a table holds. With a stride, the elements that the
windows skip are kept apart: an axis is copied in as many phases as the stride, in each of which neighbours are windows.

Which elements of a line lie in the image is known where nothing but the window moves along it. These are copied as
vectors, whose lanes are shuffled if there is a stride, and zeros are stored around them.

If lines don't consist of vectors, these run across their ends. Either the products of the columns there are left out
(`gap` in the schedule), or each element of a window along a line has a copy of all lines: of those of its elements that
windows have, so that neighbouring columns are contiguous.

A line may also have one position of all channels, as in the derivative of a convolution's weights. Such lines are
neighbours in the image, out of which squares of positions and channels are transposed in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import element_of, loop_extents, shape_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.windows import Windows
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.packed.factors import Axis, ProductTile, element_if
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.codegen.llvm.shuffles import every, transposed
from tensorgrad.passes.scalars import Operand, Value

LINE_ELEMENTS = 16
"""The elements of a cache line."""


@dataclass(frozen=True)
class Part:
    """A part of a padded line: the image's elements of one remainder by the stride, with zeros around them.

    Attributes:
        begin: The first element that lies in the image.
        end: The first one behind these.
        stride: The elements of a group of neighbours in the image's line, one of which is in the part.
        group: The group of the first.
        remainder: The place of each in its group.
        groups: The number of whole groups in the image's line.
    """

    begin: int
    end: int
    stride: int
    group: int
    remainder: int
    groups: int

    @staticmethod
    def of(extent: int, pitch: int, stride: int, first: int) -> Part:
        """Returns the part of `pitch` elements that begins with element `first` of an image's line of `extent`."""
        before, remainder = divmod(first, stride)
        count = -(-(extent - remainder) // stride)
        begin = min(max(-before, 0), pitch)
        end = max(min(count - before, pitch), begin)
        return Part(begin, end, stride, before + begin, remainder, extent // stride)


@dataclass(frozen=True)
class PaddedImage:
    """The memory for a padded copy, and for the offset of each iteration of a range of the reduction.

    Attributes:
        stage: The contraction.
        windows: The windows.
        pitch: The elements from one line to the next. If lines of a transposed image consist of whole register blocks,
            each of these has a panel, so that neighbouring iterations read neighbours in memory.
        width: The columns from one line to the next.
        lines: The lines that are copied.
        plane: The elements of a phase of a channel.
        lanes: The lanes of a vector.
        memory: The memory.
        offsets: The table of offsets.
    """

    stage: GenericOp
    windows: Windows
    pitch: int
    width: int
    lines: int
    plane: int
    lanes: int
    memory: SSAValue
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
        width, array = windows.axes[-1].extent + schedule.gap, partial(new_array, top, element_of(stage.outputs[0]))
        lines = copied_lines(windows, room, width, schedule.tile_columns % width == 0)
        in_panels = windows.is_transposed and windows.pitch % schedule.columns == 0
        pitch = schedule.columns if in_panels else windows.pitch
        plane = plane_of(lines * windows.pitch)
        planes = depth // windows.taps * math.prod(axis.phases for axis in windows.axes)
        behind = max(schedule.columns, schedule.lanes * windows.axes[-1].advance)
        memory = array(planes * plane + behind)
        offsets = new_array(top, i32, depth)
        return PaddedImage(stage, windows, pitch, width, lines, plane, schedule.lanes, memory, offsets)

    def copy(self, code: Code, tile: ProductTile, start: Value, count: Value) -> None:
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
            if self.windows.is_transposed:
                self._copy_transposed(code, tile, number, outer)
                return []

            def line(positions: list[Value], _: Sequence[Value]) -> list[Value]:
                self._copy_line(code, tile, number, outer, positions)
                return []

            code.nest([*(axis.phases for axis in axes[:-1]), *lines], [], line)
            return []

        code.loop_to(count // taps, [], channel)

    def _copy_transposed(self, code: Code, tile: ProductTile, number: Value, outer: Sequence[Value]) -> None:
        """Copies all lines at indices into the outer loops out of an image in which they are neighbours, in squares."""
        (across, along), pitch = self.windows.axes, self.pitch
        part = Part.of(shape_of(self._buffer)[-1], self.lines, 1, self.windows.indices[-1].constant)
        origin = [code.number(0)] * 2
        inside, place = self._located(code, tile, origin, [*outer, *origin[: across.taps > 1]], of_line=True)
        memory, apart, lines = self._image(code), self._apart(along.loops[0]), part.end - part.begin

        def panel(position: Value) -> None:
            first = place + (position * apart + part.group)
            start = self._plane(number, origin) + position * self.lines
            begin = start + part.begin * pitch

            def square(x: Operand, line: Operand, kind: VectorType[Attribute]) -> None:
                rows = [code.vector(memory, first + (x + i) * apart + line, kind) for i in range(kind.element_count())]
                for i, row in enumerate(transposed(rows)):
                    code.put_vector(row, self.memory, begin + (line + i) * pitch + x)

            def squares(x: Operand, kind: VectorType[Attribute]) -> None:
                self._in_vectors(code, lines, partial(square, x), kind.element_count())

            def copy() -> None:
                self._clear(code, start, 0, part.begin * pitch)
                self._in_vectors(code, pitch, squares, lines)
                self._clear(code, start, part.end * pitch, self.lines * pitch)

            if inside is None:
                copy()
            else:
                code.when(inside, copy, lambda: self._clear(code, start, 0, self.lines * pitch))

        sequential(code, code.number(along.extent), panel, step=pitch)

    def _copy_line(
        self, code: Code, tile: ProductTile, number: Value, outer: Sequence[Value], positions: Sequence[Value]
    ) -> None:
        """Copies a line of a channel; `positions` are the indices of the lines' phase, and of the line."""
        *before, along = self.windows.axes
        phase, line = positions[: len(before)], positions[len(before) :]
        above = [self._first_line(code, tile) + at for at in line]
        own = [*outer, *(at for at, axis in zip(phase, before, strict=True) if axis.taps > 1)]
        end = sum((at * self.pitch for at in line), code.number(0))
        starts = [self._plane(number, [*phase, code.number(part)]) + end for part in range(along.phases)]
        parts = self._parts()
        if parts is None:
            for part, start in enumerate(starts):
                self._copy_elements(code, tile, above, [*own, *[code.number(part)] * (along.taps > 1)], start)
            return
        tap = [code.number(0)] * (along.taps > 1)
        inside, place = self._located(code, tile, [*above, code.number(0)], [*own, *tap], of_line=True)

        def copy() -> None:
            for part, start in zip(parts, starts, strict=True):
                self._clear(code, start, 0, part.begin)
                self._copy_part(code, part, place, start)
                self._clear(code, start, part.end, self.pitch)

        def clear() -> None:
            for start in starts:
                self._clear(code, start, 0, self.pitch)

        if inside is None:
            copy()
        else:
            code.when(inside, copy, clear)

    def _copy_elements(
        self, code: Code, tile: ProductTile, above: Sequence[Value], own: Sequence[Value], start: Value
    ) -> None:
        """Copies a part of a line element by element, each of which may lie outside of the image."""
        memory = self._image(code)

        def put(x: Value) -> None:
            inside, place = self._located(code, tile, [*above, x], own, of_line=False)
            code.put(element_if(code, inside, memory, place), self.memory, start + x)

        parallel(code, code.number(self.pitch), None, put, is_masked=True)

    def _copy_part(self, code: Code, part: Part, line: Value, start: Value) -> None:
        """Copies those elements of a part that lie in the image, whose line begins at the position `line`."""
        memory, stride, extent = self._image(code), part.stride, part.end - part.begin
        first, to = line + part.group * stride, start + part.begin
        in_groups = min(extent, max(part.groups - part.group, 0))

        def move(at: Operand, kind: VectorType[Attribute]) -> None:
            lanes = kind.element_count()
            group = [code.vector(memory, first + at * stride + i * lanes, kind) for i in range(stride)]
            code.put_vector(every(stride, group, part.remainder), self.memory, to + at)

        self._in_vectors(code, in_groups, move)
        for at in range(in_groups, extent):
            code.put(code.element(memory, first + (at * stride + part.remainder)), self.memory, to + at)

    def _clear(self, code: Code, start: Value, begin: int, end: int) -> None:
        """Stores zeros in the elements [`begin`, `end`) of a part of a line."""
        zero = code.constant(0.0, element_of(self.memory))

        def put(at: Operand, kind: VectorType[Attribute]) -> None:
            code.put_vector(code.make(vector.BroadcastOp, (zero.ssa,), kind), self.memory, start + begin + at)

        self._in_vectors(code, end - begin, put)

    def _in_vectors(
        self, code: Code, extent: int, body: Callable[[Operand, VectorType[Attribute]], None], most: int | None = None
    ) -> None:
        """Writes code for `extent` elements by vectors of one type, the last two of which may overlap.

        Vectors have at most as many lanes as fit into `most` elements.
        """
        if extent == 0:
            return
        lanes = min(self.lanes, 1 << min(extent, most or extent).bit_length() - 1)
        kind = VectorType(element_of(self.memory), [lanes])
        whole = extent // lanes * lanes
        if whole > lanes:
            sequential(code, code.number(whole), lambda at: body(at, kind), step=lanes)
        else:
            body(0, kind)
        if whole < extent:
            body(extent - lanes, kind)

    def _parts(self) -> list[Part] | None:
        """Returns the parts of a line; `None` if what lies in the image is not known, or not contiguous in memory."""
        along, index = self.windows.axes[-1], self.windows.indices[-1]
        if set(index.terms) != {AffineDimExpr(loop) for loop in along.loops}:
            return None
        extent = shape_of(self._buffer)[-1]
        firsts = [index.constant + part * along.dilation for part in range(along.phases)]
        return [Part.of(extent, self.pitch, along.stride, first) for first in firsts]

    def _apart(self, loop: int) -> int:
        """Returns how far apart neighbours along a loop are in the image."""
        strides = affine.strides(shape_of(self._buffer))
        at = AffineDimExpr(loop)
        return sum(index.terms.get(at, 0) * step for index, step in zip(self.windows.indices, strides, strict=True))

    @property
    def _buffer(self) -> SSAValue:
        return self.stage.inputs[self.windows.operand.index]

    def _image(self, code: Code) -> SSAValue:
        return code.bindings[self._buffer].memory

    def _located(
        self, code: Code, tile: ProductTile, column: Sequence[Value], own: Sequence[Value], of_line: bool
    ) -> tuple[Value | None, Value]:
        """Returns whether an element of a window lies in the image, `None` if it always does, and its position.

        With `of_line` it is the line that is looked at: whether it lies in the image, and where it begins.
        """
        shape = shape_of(self._buffer)
        loops = tile.loops(code, [], column, self.lines + self.pitch).with_own(own, tile.own)
        conditions: list[Value] = []
        place = affine.Linear()
        indices = self.windows.indices[:-1] if of_line else self.windows.indices
        for index, extent, stride in zip(indices, shape, affine.strides(shape), strict=False):
            place = place.plus(index, stride)
            at = affine.linear(index.expression().replace_dims_and_symbols(loops.expressions, ()), loops.extents)
            low, high = at.bounds(loops.extents)
            if low < 0 or high >= extent:
                conditions.append(code.place(at, loops) < extent)  # unsigned: fails below zero, too
        inside = reduce(lambda x, y: x & y, conditions) if conditions else None
        return inside, code.position_at(place, self._buffer, loops)

    def fill_offsets(self, code: Code) -> None:
        """Writes the table of offsets, which are the same in all ranges."""
        axes, (extent,) = self.windows.axes, shape_of(self.offsets)

        def offset(positions: list[Value], _: Sequence[Value]) -> list[Value]:
            number, *taps = positions
            place = number
            for tap, axis in zip(taps, axes, strict=True):
                place = place * axis.taps + tap
            self._put_offset(code, place, number, taps)
            return []

        code.nest([extent // self.windows.taps, *(axis.taps for axis in axes)], [], offset)

    def keep_offsets(self, code: Code, steps: Axis, start: Value, count: Value) -> None:
        """Writes the table of offsets of those iterations of a range that are not left out.

        Args:
            code: Where to write.
            steps: The loops' indices at these iterations.
            start: The first iteration of the range.
            count: The number of those that are not left out.
        """
        extents = [loop_extents(self.stage)[loop] for loop in self.windows.outer]

        def entry(at: Value) -> None:
            indices = steps.indices(code, start, at)
            number = code.number(0)
            for index, extent in zip(indices, extents, strict=False):
                number = number * extent + index
            moving = iter(indices[len(extents) :])
            taps = [next(moving) if axis.taps > 1 else code.number(0) for axis in self.windows.axes]
            self._put_offset(code, at, number - start // self.windows.taps, taps)

        parallel(code, count, None, entry)

    def _put_offset(self, code: Code, place: Value, number: Value, taps: Sequence[Value]) -> None:
        """Stores the offset of an element of a window, in the channel with a number within the range."""
        axes = self.windows.axes
        at = self._plane(number, [tap % axis.cycle for tap, axis in zip(taps, axes, strict=True)])
        for tap, axis, pitch in zip(reversed(taps), reversed(axes), (1, self.pitch), strict=False):
            at = at + tap // axis.cycle * (axis.advance * pitch)
        code.put(at.cast(arith.IndexCastOp, i32), self.offsets, place)

    def over_lines(
        self, code: Code, tile: ProductTile, count: Value, body: Callable[[Value, list[Value]], None]
    ) -> None:
        """Writes a loop over the columns of a tile that are in a line.

        Args:
            code: Where to write.
            tile: The task's tile.
            count: The number of its columns.
            body: Takes a column, relative to the tile, and the indices of its loops.
        """
        begin, axes, width = tile.first[1], self.windows.axes, self.width
        end = begin + count

        def line(number: Value) -> None:
            start = number * width
            first = start.at_least(begin)
            last = (start + axes[-1].extent).at_least(begin).at_most(end)
            above = [number] if len(axes) > 1 else []
            parallel(code, last - begin, first - begin, lambda j: body(j, [*above, begin + j - start]), is_masked=True)

        sequential(code, (end + (width - 1)) // width, line, start=begin // width)

    def _first_line(self, code: Code, tile: ProductTile) -> Value:
        """Returns the first line that is copied."""
        return code.number(0) if self.windows.is_transposed else tile.first[1] // self.width

    def _plane(self, number: Value, phase: Sequence[Value]) -> Value:
        """Returns the offset of a phase of a channel."""
        place = number
        for value, axis in zip(phase, self.windows.axes, strict=True):
            place = place * axis.phases + value
        return place * self.plane

    def vectors(
        self,
        code: Code,
        tile: ProductTile,
        first: Value,
        step: Value,
        parts: Sequence[tuple[int, VectorType[Attribute]]],
    ) -> list[Value]:
        """Returns neighbouring columns in an iteration, as vectors; `parts` are the offset and the type of each.

        Args:
            code: Where to write.
            tile: The task's tile.
            first: The first column, relative to the tile.
            step: The iteration.
            parts: The vectors.
        """
        offset = code.element(self.offsets, step).as_index()
        if self.pitch == self.width:
            at = offset + self._place(code, tile, first)
            return [code.vector(self.memory, at + by, kind) for by, kind in parts]
        return [code.vector(self.memory, offset + self._place(code, tile, first + by), kind) for by, kind in parts]

    def copy_column(
        self, code: Code, tile: ProductTile, column: Value, count: Value, memory: SSAValue, start: Value | int
    ) -> None:
        """Writes the copy of a column's elements in `count` iterations to another memory, one after another."""
        within = self._place(code, tile, column)

        def element(step: Value) -> None:
            at = code.element(self.offsets, step).as_index() + within
            code.put(code.element(self.memory, at), memory, step + start)

        sequential(code, count, element)

    def _place(self, code: Code, tile: ProductTile, column: Value) -> Value:
        """Returns the place of a column, relative to the tile, in the planes that are copied."""
        within, width = tile.first[1] - self._first_line(code, tile) * self.width + column, self.width
        if self.pitch == width:
            return within
        line, position = within // width, within % width
        if self.pitch > width:
            return line * self.pitch + position
        return (position // self.pitch * self.lines + line) * self.pitch + position % self.pitch


def has_padded_lines(windows: Windows, schedule: PackedSchedule) -> bool:
    """Returns whether a schedule's vectors of columns are contiguous in the padded lines of windows."""
    line = windows.axes[-1].extent
    is_contiguous = windows.pitch == line + schedule.gap or (schedule.gap == 0 and line % schedule.lanes == 0)
    return schedule.pitch == windows.pitch and is_contiguous


def copied_lines(windows: Windows, columns: int, width: int, is_aligned: bool) -> int:
    """Returns how many lines the windows of some neighbouring columns meet.

    Args:
        windows: The windows.
        columns: The number of columns.
        width: The columns from one line to the next.
        is_aligned: Whether the columns start with those of a line, rather than anywhere.
    """
    if len(windows.axes) == 1:
        return 1
    axis = windows.axes[0]
    if windows.is_transposed:
        return axis.extent + axis.reach
    return min(-(-columns // width) + (not is_aligned), axis.extent) + axis.reach


def plane_of(extent: int) -> int:
    """Returns the elements between parts: an odd number of cache lines, so that they don't share a set of the L1."""
    return (-(-extent // LINE_ELEMENTS) | 1) * LINE_ELEMENTS
