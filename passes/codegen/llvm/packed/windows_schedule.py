"""Schedules of packed products whose columns are windows of an image: read from a padded copy of it, or in place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp, element_bytes, element_of, loop_extents
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.blocks import evenest, rounded_up
from tensorgrad.passes.analyses.factors import Factors, factors_of, step_conditions, strides_of
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.analyses.machine import LINE_BYTES
from tensorgrad.passes.analyses.windows import Windows, windows_of
from tensorgrad.passes.codegen.common.sides import Sides, sides_of
from tensorgrad.passes.codegen.llvm.packed.factors import FactorLayout
from tensorgrad.passes.codegen.llvm.packed.line_blocks import has_line_blocks
from tensorgrad.passes.codegen.llvm.packed.step_vectors import has_step_vectors
from tensorgrad.passes.codegen.llvm.packed.tiles import (
    ENOUGH_TASKS,
    LEAST_COLUMNS,
    LEAST_ROWS,
    MOST_DEPTH,
    MOST_PACKED_DEPTH,
    PANEL_BYTES,
    VECTOR_UNITS,
    VectorUnit,
    cut_tiles,
    evened,
    extents_of,
    reads_rows,
    tail_along,
)
from tensorgrad.runtime.target import Target

LEAST_ROWS_PADDED = 64
"""The fewest rows of a tile whose columns are in a transposed and padded image, since each tile repeats that work."""

LEAST_SUMS = 8
"""The fewest sums in registers that hide the latency of a multiplication, with few rows."""

MOST_LINES = 8
"""The most lines that have a vector in registers, if these can't have one of each."""

LEAST_LINES = 4
"""The fewest lines of a tile of windows, since the windows of the next tile meet the last ones too."""

MOST_VECTORS = 4
"""The most vectors of columns in a register block that are tried for few columns after the last block."""


def padded_schedules(kernel: KernelOp, stage: GenericOp, target: Target) -> Iterator[PackedSchedule]:
    """Yields the schedules that read windows from a padded copy of their image, or several lines of it in place."""
    rank = len(kernel.extents)
    rows = [sides_of(kernel, stage)[0], ()] if contraction_of(kernel) is not None else [()]
    for columns in (tuple(range(rank - count, rank)) for count in (2, 1) if count <= rank):
        for row in rows:
            product = None if set(row) & set(columns) else _product(kernel, stage, (row, columns), target)
            if product is not None:
                yield from product.schedules()
                return


def schedules_across_lines(kernel: KernelOp, stage: GenericOp, target: Target) -> Iterator[PackedSchedule]:
    """Yields the schedules whose columns are windows at neighbouring lines of an image, and all channels in each.

    So are the derivatives of a convolution's weights: neighbours along the reduction lie in the image's lines, and
    channels, of which there are many, become neighbours in the padded copy.
    """
    row, (*channels, line) = sides_of(kernel, stage)
    for channel in channels:
        has_enough = kernel.extents[channel] >= LEAST_COLUMNS
        product = _product(kernel, stage, (row, (line, channel)), target) if has_enough else None
        if product is not None and product.windows.is_transposed and product.windows.taps <= MOST_PACKED_DEPTH:
            yield from product.schedules()


def _product(kernel: KernelOp, stage: GenericOp, sides: Sides, target: Target) -> _Product | None:
    """Returns a product of windows; `None` if it is no product of these sides, or its columns are no windows."""
    factors = factors_of(stage, *sides)
    if factors is None:
        return None
    holding = step_conditions(stage, factors, (*sides[0], *sides[1]))
    windows = windows_of(stage, factors.column, len(kernel.extents), sides[1], holding)
    return None if windows is None else _Product(kernel, stage, sides, target, factors, windows, holding)


@dataclass(frozen=True)
class _Product:
    """A product whose columns are windows.

    Attributes:
        kernel: The kernel.
        stage: Its contraction.
        sides: The loops of the rows and of the columns.
        target: The target.
        factors: The factors of the contraction's terms.
        windows: The columns.
        conditions: The conditions under which an iteration of the reduction has a product.
    """

    kernel: KernelOp
    stage: GenericOp
    sides: Sides
    target: Target
    factors: Factors
    windows: Windows
    conditions: Sequence[SSAValue]

    @property
    def _extents(self) -> tuple[int, int, int]:
        return extents_of(self.kernel, self.sides)

    @property
    def _element_bytes(self) -> int:
        return element_bytes(element_of(self.stage.outputs[0]))

    @property
    def _lanes(self) -> int:
        return self.target.vector_bytes // self._element_bytes

    @property
    def _unit(self) -> VectorUnit:
        return VECTOR_UNITS[self.target.vector_bytes]

    @property
    def _line(self) -> int:
        """The windows in a line."""
        return self.windows.axes[-1].extent

    @property
    def _steps(self) -> int:
        return math.prod(loop_extents(self.stage)[len(self.kernel.extents) :])

    def _columns(self, gap: int) -> int:
        """Returns the number of columns with a gap between lines."""
        return self._extents[2] + (self._extents[2] // self._line - 1) * gap

    def schedules(self) -> Iterator[PackedSchedule]:
        """Yields the schedules.

        Vectors run across the ends of lines unless these consist of vectors: with a gap, or in split lines.
        """
        windows, (_, rows, _), line = self.windows, self._extents, self._line
        gap = windows.pitch - line
        if rows == 1 and (along_steps := self._columns_along()):
            yield self._padded(windows, gap, 1, -(-self._columns(gap) // self._lanes), along_steps=along_steps)
        elif rows == 1 and has_line_blocks(self.stage, windows, self.conditions):
            yield self._in_lines()
        elif gap and len(windows.axes) > 1 and line % self._lanes == 0:
            yield from self._in_blocks(windows, 0)
        else:
            yield from self._in_blocks(windows, gap)
            if gap and len(windows.axes) > 1 and rows > 1:
                yield from self._in_blocks(windows.in_split_lines(), 0)

    def _columns_along(self) -> int:
        """Returns how many columns have their sums in registers at a time, as vectors along the reduction; 0 if none.

        A line of the reduction may take fewer vectors along it, for each column, than along the columns.
        """
        if not has_step_vectors(self.windows, self.conditions):
            return 0
        columns, axis = self._extents[2], self.windows.axes[-1]
        vectors = -(-self._columns(self.windows.pitch - self._line) // self._lanes)
        is_shorter = columns * -(-axis.taps // self._lanes) * axis.advance < axis.taps * vectors
        return evenest(columns, self._unit.sums) if is_shorter else 0

    def _in_blocks(self, windows: Windows, gap: int) -> Iterator[PackedSchedule]:
        """Yields the schedules with register blocks of several rows and vectors of columns."""
        (_, rows, _), columns, unit = self._extents, self._columns(gap), self._unit
        usual, *others = unit.vectors
        # Of a transposed image, blocks that divide a line have panels, which are worth more than fewer loads.
        has_panels = windows.is_transposed and windows.pitch % (usual * self._lanes) == 0
        for most in (usual, *(() if has_panels else others)):
            vectors = min(max(most, min(LEAST_SUMS, unit.sums) // rows), -(-columns // self._lanes))
            tried = range(vectors, MOST_VECTORS + 1) if not gap and rows > 1 else ()
            with_tail = (self._with_tail(windows, more) for more in tried)
            whole = self._padded(windows, gap, self._block_rows(vectors), vectors)
            yield next((schedule for schedule in with_tail if schedule is not None), whole)

    def _with_tail(self, windows: Windows, vectors: int) -> PackedSchedule | None:
        """Returns the schedule that sums few columns after the last block along the reduction; `None` if it can't."""
        behind, block_rows = self._extents[2] % (vectors * self._lanes), self._block_rows(vectors)
        at_once = tail_along(behind, self._lanes, block_rows, self._unit)
        if not (at_once and self._lies_along_steps(block_rows)):
            return None
        schedule = self._padded(windows, 0, block_rows, vectors, self._lanes)
        if schedule.depth % self._lanes or self._steps % self._lanes:
            return None
        return replace(schedule, tail_along=at_once)

    def _block_rows(self, vectors: int) -> int:
        """Returns the rows of a register block with so many vectors of columns."""
        return self._unit.rows(self._extents[1], self._unit.most_rows(vectors))

    def _lies_along_steps(self, block_rows: int) -> bool:
        """Returns whether vectors along the reduction can be loaded of the rows."""
        grid = self.kernel.extents
        layout = FactorLayout.of(self.stage, self.factors.row, grid, *self.sides, bool(self.conditions), block_rows)
        return not self.conditions and (layout.in_lines if self._reads_rows() else layout.along_steps)

    def _reads_rows(self) -> bool:
        strides = strides_of(self.stage, self.factors.row, self.kernel.extents, *self.sides)
        return reads_rows(strides, self._steps * self._element_bytes, self._extents[2])

    def _padded(
        self, windows: Windows, gap: int, block_rows: int, vectors: int, multiple: int = 1, along_steps: int = 0
    ) -> PackedSchedule:
        """Returns the schedule that reads a padded copy.

        Args:
            windows: The columns, whose lines may be split.
            gap: The columns that are left out between lines.
            block_rows: The rows of a register block.
            vectors: The vectors of its columns.
            multiple: What the iterations that sums are in registers for should be a multiple of.
            along_steps: How many columns have their sums in registers as vectors along the reduction; then rows are
                packed, once.
        """
        (rest, rows, columns), size, lanes = self._extents, self._element_bytes, self._lanes
        outer = math.prod(loop_extents(self.stage)[loop] for loop in windows.outer)
        direct_rows = not along_steps and self._reads_rows()
        most_depth = MOST_DEPTH if direct_rows or along_steps else MOST_PACKED_DEPTH
        has_near = direct_rows and not windows.is_transposed and self._unit.window_bytes > 0
        near = self._channels_near(windows, lanes * vectors) if has_near else outer
        most_depth = min(most_depth, near * windows.taps)
        channels = min(-(-outer // -(-self._steps // most_depth)), max(most_depth // windows.taps, 1))
        channels = rounded_up(channels, multiple // math.gcd(windows.taps, multiple))
        planes = channels * math.prod(axis.phases for axis in windows.axes) * windows.pitch
        lines = max(PANEL_BYTES // (planes * size) - windows.axes[0].reach, LEAST_LINES)
        block, width, padded = lanes * vectors, self._line + gap, self._columns(gap)
        widest = padded if windows.is_transposed else lines * width
        fewest = min(LEAST_LINES * width, padded)
        # The lines of a tile of whole ones are known, and only windows below its last one meet lines of the next tile.
        unit = math.lcm(block, width) if math.lcm(block, width) <= rounded_up(fewest, block) else block
        schedule = PackedSchedule(
            groups=(1, 1, 1),
            row=self.sides[0],
            column=self.sides[1],
            tile_rows=rounded_up(rows, block_rows),
            tile_columns=min(evened(padded // block * block, widest, unit), max(padded // block, 1) * block),
            rows=block_rows,
            columns=block,
            lanes=lanes,
            depth=channels * windows.taps,
            direct_rows=int(direct_rows),
            pitch=windows.pitch,
            gap=gap,
            split=int(windows.axes[-1].is_split),
            along_steps=along_steps,
            by_columns=int(near < outer),
        )
        # Each tile of a transposed image copies whole lines.
        least = (LEAST_ROWS_PADDED, padded) if windows.is_transposed else (LEAST_ROWS, fewest)
        return cut_tiles(schedule, self.kernel, rest * rows * columns * self._steps, *least, unit)

    def _channels_near(self, windows: Windows, columns: int) -> int:
        """Returns of how many channels a block of columns finds its windows in L1.

        In each part of a line, neighbouring windows are neighbours, up to as many elements as a window reaches.
        """
        *others, along = windows.axes
        parts = along.phases * math.prod(axis.taps for axis in others)
        met = parts * ((columns + along.reach) * self._element_bytes + LINE_BYTES)
        return max(self._unit.window_bytes // met, 1)

    def _in_lines(self) -> PackedSchedule:
        """Returns the schedule of several lines at a time, with all lines in registers if there are few."""
        (across, along), rest = self.windows.axes, self._extents[0]
        is_whole = across.extent <= self._unit.sums * 2 // 3
        lines = across.extent if is_whole else evenest(across.extent, min(self._unit.sums // 2, MOST_LINES))
        blocks = -(-across.extent // lines)
        tiles = min(-(-ENOUGH_TASKS // rest), blocks)
        schedule = PackedSchedule(
            groups=(1, 1, 1),
            row=self.sides[0],
            column=self.sides[1],
            tile_rows=1,
            tile_columns=-(-blocks // tiles) * lines * along.extent,
            rows=1,
            columns=self._lanes,
            lanes=self._lanes,
            depth=self.windows.taps,
            direct_rows=int(self._reads_rows()),
            lines=lines,
        )
        return replace(schedule, groups=(schedule.tasks_over(self.kernel.extents), 1, 1))
