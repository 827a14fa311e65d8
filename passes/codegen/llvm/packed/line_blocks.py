"""Sums of windows with one row, as in a depthwise convolution: some neighbouring lines of results at a time.

With one row, each vector of an image would be loaded for a single product. But windows of neighbouring lines share most
of their elements. So a register block is one vector from each of some lines: a vector of the image is loaded once, and
multiplied with an element of the row for each line whose windows have it. All products are written one after another,
with the elements of the row in registers, or near.

The image is read in place. What lies around it is zero, and multiplied as such, for an element may be infinite: lanes
left or right of it aren't loaded, nor lines above and below it if a block has all lines. Otherwise blocks that meet
such lines are written apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import TypeAlias

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import element_of, loop_extents, shape_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.windows import WindowAxis, Windows
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.packed.factors import ProductTile
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.codegen.llvm.shuffles import every
from tensorgrad.passes.scalars import Operand, Value

MOST_TAPS = 64
"""The most elements of a window whose products are written one after another."""

MOST_APART = 2
"""The most vectors of a line that are written one after another; of more, those that lie in the image are a loop."""

Finish: TypeAlias = Callable[[Value, list[Value]], None]
"""Writes the epilogue of a result, given the position of its sum and the indices of the columns' loops."""


def has_line_blocks(stage: GenericOp, windows: Windows, conditions: Sequence[SSAValue]) -> bool:
    """Returns whether a reduction is over small windows of one image, whose lines are contiguous in memory.

    Args:
        stage: The contraction.
        windows: The windows.
        conditions: Under which conditions an iteration has a product.
    """
    extents, places = loop_extents(stage), _moving(windows)
    is_one = all(extents[loop] == 1 for loop in windows.outer)
    has_lines = places is not None and places[1] == len(windows.indices) - 1 and windows.axes[0].extent > 1
    return is_one and has_lines and windows.taps <= MOST_TAPS and not conditions


def _moving(windows: Windows) -> tuple[int, int] | None:
    """Returns the two axes of an image along which its windows move, and nothing else; `None` if it has no such two."""
    places: list[int] = []
    for axis in windows.axes:
        loops = set(map(AffineDimExpr, axis.loops))
        places += [place for place, index in enumerate(windows.indices) if loops & index.terms.keys()]
        if not windows.indices[places[-1]].terms.keys() <= loops:
            return None
    return (places[0], places[1]) if len(places) == 2 else None


@dataclass(frozen=True)
class _Moves:
    """How windows move along an axis of the image.

    Attributes:
        axis: Their axis.
        extent: The elements of the image.
        origin: The element where the first window begins; negative if that is in front of the image.
        apart: The distance of neighbouring elements in memory.
    """

    axis: WindowAxis
    extent: int
    origin: int
    apart: int

    @property
    def taps(self) -> list[int]:
        """The distance of each element of a window from its start."""
        return [tap * self.axis.dilation for tap in range(self.axis.taps)]

    def span(self, windows: int) -> int:
        """Returns the distance of the last element of some neighbouring windows from the start of the first."""
        return (windows - 1) * self.axis.stride + self.taps[-1]

    def aligned(self, tap: int) -> tuple[int, int]:
        """Returns where vectors begin whose every `stride`-th lane is an element of the first windows, and its lane."""
        element, stride = self.origin + self.taps[tap], self.axis.stride
        return element - element % stride, element % stride

    def inside(self, windows: int, lanes: int) -> tuple[int, int]:
        """Returns the first window of a vector of them that reads nothing but the image, and that behind such vectors.

        Args:
            windows: The number of windows, whole vectors.
            lanes: The windows of a vector.
        """
        begins, stride = [self.aligned(tap)[0] for tap in range(self.axis.taps)], self.axis.stride
        inside = [
            x
            for x in range(0, windows, lanes)
            if x * stride + min(begins) >= 0 and (x + lanes) * stride + max(begins) <= self.extent
        ]
        return (inside[0], inside[-1] + lanes) if inside else (0, 0)


@dataclass(frozen=True)
class LineBlocks:
    """The register blocks of a tile.

    Attributes:
        stage: The contraction.
        windows: The windows.
        across: How they move from line to line.
        along: How they move within a line.
        lines: The lines of a block.
        pitch: The elements from one line to the next in the memory for sums.
        sums: That memory, for the lines of a block.
        kind: The type of a vector.
    """

    stage: GenericOp
    windows: Windows
    across: _Moves
    along: _Moves
    lines: int
    pitch: int
    sums: SSAValue
    kind: VectorType[Attribute]

    @staticmethod
    def of(stage: GenericOp, windows: Windows, schedule: PackedSchedule, top: Block) -> LineBlocks:
        """Allocates the memory for the windows of a contraction, of which `has_line_blocks` holds."""
        image, places = stage.inputs[windows.operand.index], _moving(windows)
        assert places is not None
        shape = shape_of(image)
        strides = affine.strides(shape)
        across, along = (
            _Moves(axis, shape[place], windows.indices[place].constant, strides[place])
            for axis, place in zip(windows.axes, places, strict=True)
        )
        pitch, element = rounded_up(along.axis.extent, schedule.lanes), element_of(stage.outputs[0])
        sums = new_array(top, element, schedule.lines * pitch)
        return LineBlocks(
            stage, windows, across, along, schedule.lines, pitch, sums, VectorType(element, [schedule.lanes])
        )

    def write(self, code: Code, tile: ProductTile, count: Value, row: Sequence[Value], finish: Finish) -> None:
        """Writes the code for all results of a tile.

        Args:
            code: Where to write.
            tile: The tile, which begins with a line.
            count: The number of its columns.
            row: The row's element in each iteration.
            finish: Writes the epilogue of a result.
        """
        across, width = self.across, self.along.axis.extent
        first, count = tile.first[1] // width, count // width
        image = _Image(code, self, self._start(code, tile))
        factors = [code.make(vector.BroadcastOp, (element.ssa,), self.kind) for element in row]

        def block(number: Value) -> None:
            above = number * self.lines
            line = first + above
            top, inner = line * across.axis.stride + across.origin, across.extent - across.span(self.lines)
            some = partial(self._sum, image, factors, top=top, is_inner=False)
            if inner > 0:  # unsigned: a block that begins above the image is not inside
                code.when(top < inner, partial(self._sum, image, factors, top=top, is_inner=True), some)
            else:
                some()
            self._finish(code, line, (count - above).at_most(self.lines), finish)

        if self.lines == across.axis.extent:
            self._sum(image, factors)
            self._finish(code, code.number(0), count, finish)
        else:
            sequential(code, (count + (self.lines - 1)) // self.lines, block)

    def _start(self, code: Code, tile: ProductTile) -> Value:
        """Returns the position of the image's first element that a tile's windows may have."""
        zero = code.number(0)
        loops = tile.loops(code, [], [zero, zero]).with_own([zero] * len(tile.own), tile.own)
        image, place = self.stage.inputs[self.windows.operand.index], affine.Linear()
        moving = _moving(self.windows) or ()
        for axis, (index, stride) in enumerate(zip(self.windows.indices, affine.strides(shape_of(image)), strict=True)):
            place = place if axis in moving else place.plus(index, stride)
        return code.position_at(place, image, loops)

    def _sum(self, image: _Image, factors: Sequence[Value], top: Value | None = None, is_inner: bool = False) -> None:
        """Writes the sums of a block to memory.

        Args:
            image: The image.
            factors: The row's element in each iteration, in all lanes.
            top: The image's line where the block's first window begins; `None` if the block has all lines.
            is_inner: Whether all lines of its windows lie in the image.
        """
        code, lanes, width = image.code, self.kind.element_count(), self.along.axis.taps
        uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for down, tap in enumerate(self.across.taps):
            for i in range(self.lines):
                uses[i * self.across.axis.stride + tap].append((i, down * width))
        lines = [(image.line(at, top, is_inner), uses[at]) for at in sorted(uses)]
        zeros = code.make(vector.BroadcastOp, (code.constant(0.0, self.kind.element_type).ssa,), self.kind)

        def across(x: Operand) -> None:
            sums = [zeros] * self.lines
            for (line, of_line), tap in product(lines, range(width)):
                elements = zeros if line is None else line.vector(x, tap, zeros)
                for i, first_tap in of_line:
                    sums[i] = self._multiplied(code, factors[first_tap + tap], elements, sums[i])
            for i, total in enumerate(sums):
                code.put_vector(total, self.sums, code.number(i * self.pitch) + x)

        first, last = self.along.inside(self.pitch, lanes) if self.pitch > MOST_APART * lanes else (0, 0)
        if first < last:
            sequential(code, code.number(last), across, start=code.number(first), step=lanes)
        for x in (*range(0, first, lanes), *range(last, self.pitch, lanes)):
            across(x)

    def _multiplied(self, code: Code, factor: Value, elements: Value, total: Value) -> Value:
        op = vector.FMAOp(factor.ssa, elements.ssa, total.ssa)
        op.location = self.stage.location  # the kernel's may be that of its epilogue
        return code.add(op)

    def _finish(self, code: Code, first: Value, count: Value, finish: Finish) -> None:
        """Writes the epilogue of a block, which has `count` lines from `first` on."""
        width = code.number(self.along.axis.extent)

        def line(i: Value) -> None:
            parallel(code, width, None, lambda x: finish(i * self.pitch + x, [first + i, x]), is_masked=True)

        sequential(code, count, line)


@dataclass(frozen=True)
class _Image:
    """The image that a tile's windows are of.

    Attributes:
        code: Where to write.
        blocks: The register blocks.
        start: The position of its first element.
    """

    code: Code
    blocks: LineBlocks
    start: Value

    @cached_property
    def memory(self) -> SSAValue:
        """Its memory."""
        return self.code.bindings[self.blocks.stage.inputs[self.blocks.windows.operand.index]].memory

    def line(self, at: int, top: Value | None, is_inner: bool) -> _Line | None:
        """Returns a line, `None` if it never lies in the image.

        Args:
            at: Its distance from the block's first one.
            top: The block's first one; `None` if that is the first of all.
            is_inner: Whether it lies in the image.
        """
        code, moves = self.code, self.blocks.across
        if top is None:
            number = moves.origin + at
            return _Line(self, self.start + number * moves.apart) if 0 <= number < moves.extent else None
        number = top + at
        if is_inner:
            return _Line(self, self.start + number * moves.apart)
        is_inside = number < moves.extent  # unsigned: not if it is above the image
        return _Line(self, self.start + code.select(is_inside, number, 0) * moves.apart, is_inside)


@dataclass(frozen=True)
class _Line:
    """A line of the image.

    Attributes:
        image: The image.
        start: The position of its first element.
        is_inside: Whether it lies in the image; `None` if it does. Otherwise it is zero.
    """

    image: _Image
    start: Value
    is_inside: Value | None = None

    def vector(self, x: Operand, tap: int, zeros: Value) -> Value:
        """Returns an element of neighbouring windows as a vector.

        Args:
            x: The first window; one that is not a number is within `_Moves.inside`.
            tap: The element's place in a window.
            zeros: What lies left and right of the image.
        """
        blocks, code = self.image.blocks, self.image.code
        stride, lanes = blocks.along.axis.stride, blocks.kind.element_count()
        begin, lane = blocks.along.aligned(tap)
        values = every(stride, [self._part(x * stride + (begin + i * lanes)) or zeros for i in range(stride)], lane)
        return values if self.is_inside is None else code.select(self.is_inside, values, zeros)

    def _part(self, begin: Operand) -> Value | None:
        """Returns a vector of the line, from an element on; `None` if it lies left or right of the image."""
        blocks, code = self.image.blocks, self.image.code
        kind, memory = blocks.kind, self.image.memory
        if not isinstance(begin, int):
            return code.vector(memory, self.start + begin, kind)
        first, last = max(begin, 0), min(begin + kind.element_count(), blocks.along.extent)
        if first >= last:
            return None
        at = self.start + first
        if last - first == kind.element_count():
            return code.vector(memory, at, kind)
        return code.add(cpu.LoadLanesOp(memory, at.ssa, first - begin, last - first, kind))
