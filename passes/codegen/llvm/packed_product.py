"""A matrix product in native code: how it is divided, and the scratch memory of its tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import cast

from xdsl.dialects.builtin import VectorType, i32
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import (
    Buffer,
    KernelOp,
    buffer_bytes,
    element_bytes,
    element_of,
    is_shape_only,
    loop_extents,
    maps_of,
)
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.axes import grid_of_sides, needed_for
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.factors import (
    factors_of,
    operand_of,
    result_stride,
    step_conditions,
    unrounded_both,
)
from tensorgrad.passes.analyses.kinds import summed_stage
from tensorgrad.passes.analyses.windows import OperandPosition, Windows, plain_place, run_along, windows_of
from tensorgrad.passes.codegen.common.blocked_sums import MOST_BLOCKS, block_widths
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_needed
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm import prefetch
from tensorgrad.passes.codegen.llvm.factors import Axis, FactorLayout, Tile
from tensorgrad.passes.codegen.llvm.line_blocks import LineBlocks, has_line_blocks
from tensorgrad.passes.codegen.llvm.loops import new_array
from tensorgrad.passes.codegen.llvm.packing import LEAST_LANES, Columns, Lines, Panels
from tensorgrad.passes.codegen.llvm.padded_image import PaddedImage, has_padded_lines
from tensorgrad.passes.codegen.llvm.step_vectors import StepVectors, has_step_vectors
from tensorgrad.passes.scalars import Value

FAR_BYTES = 1 << 20
"""The fewest bytes of an operand whose columns are prefetched: smaller ones stay in the caches."""


class Product:
    """A matrix product: what is known of it before any task, and the scratch memory that its tasks use in turn.

    Attributes:
        kernel: The kernel.
        stage: Its contraction.
        factors: The factors of the contraction's terms.
        schedule: The kernel's schedule.
        element: The type of the sums.
        own: The extents of the reduction's loops.
        steps: The iterations of the reduction.
        depth: The most iterations of a range of the reduction.
        ranges: The number of ranges.
        extents: The extents of the rest (batch), the rows and the columns.
        expressions: Each grid loop as an expression of indices into these.
        conditions: The conditions under which an iteration has a product.
        layouts: The memory layout of each factor.
        tail: The columns of the block after the last whole one, if there is one.
        whole: The columns of a whole block.
        is_cut: Whether the tail has fewer columns than its vectors.
        room: The elements of a row of sums.
        stores: Whether the sums are the results, and are stored as vectors.
        rows: The memory for packed rows; `None` if they are read in place.
        columns: The same for columns.
        far_lines: What of the columns is prefetched; `None` if nothing is.
        image: The padded copy of the image that columns are windows of, if they are read from one.
        has_windows: Whether columns are read as windows of an image, from a padded copy or in place.
        in_lines: Whether results are stored line by line of windows.
        tail_lines: The memory for the columns after the last whole block, if these are summed along the reduction.
        line_blocks: What sums the windows of several lines at a time, if the schedule has them.
        step_vectors: What sums windows with vectors along the reduction, if the schedule has them.
        line_sums: The memory for sums of a register block with vectors along the reduction, of plain columns.
        sums: The memory for sums; `None` if they stay in registers.
        widths: The ranges of a block of ranges, of a block of blocks, and so on.
        sums_of_blocks: The memory for the sums of each of these.
        axes: The tables of the rows' and the columns' loops.
        step_axis: The table of the reduction's loops.
        inmost: The innermost of the columns' loops that has several iterations.
        finish_run: For how many neighbouring columns the epilogue's accesses have constant strides.
        is_even: Whether they have one stride along all rows, and along all columns.
    """

    def __init__(self, kernel: KernelOp, schedule: PackedSchedule, top: Block):
        stage = summed_stage(kernel)
        factors = None if stage is None else factors_of(stage, schedule.row, schedule.column)
        if stage is None or factors is None:
            raise DiagnosticException(
                f"the kernel at {line_of(kernel.location)} does not sum products of rows and columns, but is scheduled "
                "as packed"
            )
        if schedule.pairs:
            factors = unrounded_both(factors)
            if factors is None or schedule.direct_rows or schedule.direct_columns:
                raise DiagnosticException(
                    f"the kernel at {line_of(kernel.location)} is scheduled to multiply pairs, but its factors aren't "
                    "rounded to bf16, or are read in place"
                )
        self.kernel, self.stage, self.factors, self.schedule = kernel, stage, factors, schedule
        self.has_windows = bool(schedule.pitch or schedule.lines)
        self.element = element_of(stage.outputs[0])
        grid, own = schedule.padded(kernel.extents), loop_extents(stage)[len(kernel.extents) :]
        self.own, self.steps = own, math.prod(own)
        self.depth = min(schedule.depth, self.steps)
        self.ranges = -(-self.steps // self.depth)
        _, self.expressions = grid_of_sides(grid, schedule.row, schedule.column)
        self.extents = schedule.extents(kernel.extents)
        self.conditions = step_conditions(stage, factors, (*schedule.row, *schedule.column))
        skips = bool(self.conditions)
        self.layouts = {
            value: FactorLayout.of(stage, value, kernel.extents, schedule.row, schedule.column, skips, schedule.rows)
            for value in (factors.row, *(() if self.has_windows else (factors.column,)))
        }
        self.tail = self._tail()
        self.whole = Columns((schedule.lanes,) * (schedule.columns // schedule.lanes), schedule.columns)
        self.is_cut = self.tail is not None and self.tail.filled < self.tail.width
        self.in_lines = bool(schedule.lines or schedule.gap)
        if schedule.along_steps and not schedule.pitch:
            self._check_lies_along_steps()
        elif schedule.direct_columns and (self.is_cut or not self.layouts[factors.column].in_vectors):
            raise DiagnosticException(
                f"the kernel at {line_of(kernel.location)} is scheduled to read columns in place, but they are not "
                "contiguous in memory, or fewer than the elements of a vector"
            )
        self.room = schedule.tile_columns + (self.tail.width if self.tail is not None else 0)
        self.stores = self._stores_sums()
        self.rows = None if schedule.direct_rows else self._lines(top)
        self.columns = None if schedule.direct_columns or self.has_windows else self._panels(top)
        self.line_blocks = self._line_blocks(top) if schedule.lines else None
        self.image = self._padded_image(top) if schedule.pitch else None
        self.far_lines = self._far_lines()
        held = schedule.rows if self.ranges == 1 else schedule.tile_rows
        self.step_vectors = self._step_vectors(top) if schedule.along_steps and schedule.pitch else None
        has_line_sums = (schedule.along_steps and not schedule.pitch) or schedule.tail_along
        self.line_sums = self._array(top, schedule.rows * schedule.columns) if has_line_sums else None
        self.tail_lines = self._tail_lines(top) if schedule.tail_along else None
        if self.line_blocks is not None:
            self.sums = self.line_blocks.sums
        else:
            self.sums = None if self.stores and self.ranges == 1 else self._array(top, held * self.room)
        self.widths = block_widths(self.ranges, 1, MOST_BLOCKS)
        self.sums_of_blocks = [self._array(top, held * self.room) for _ in self.widths]
        self.inmost = self.inmost_of(schedule.column)
        places = self._finished_places()
        self.finish_run = self._run_of_results(places)
        self.is_even = self._has_even_rows(places), self.finish_run == self.extents[2]
        self.axes = (
            self._axis(top, schedule.row, schedule.tile_rows, factors.row, self.is_even[0]),
            self._axis(top, schedule.column, self.room, factors.column, self.in_lines or self.is_even[1]),
        )
        self.step_axis = Axis(own, self.depth, partial(new_array, top, i32), skips)

    def inmost_of(self, side: Sequence[int]) -> int:
        """Returns which of the loops of a side is the innermost one with several iterations."""
        return max((k for k, loop in enumerate(side) if self.kernel.extents[loop] > 1), default=0)

    def _axis(self, top: Block, side: Sequence[int], room: int, factor: SSAValue, is_even: bool) -> Axis:
        """Allocates the tables of the loops of a side whose factor or results are looked up, being not evenly apart."""
        layout = self.layouts.get(factor)
        is_looked_up = not (is_even or self.stores) or (layout is not None and layout.strides is None)
        extents = [self.kernel.extents[loop] for loop in side] if is_looked_up else []
        return Axis(extents, room, partial(new_array, top, i32))

    def _array(self, top: Block, extent: int) -> SSAValue:
        return new_array(top, self.element, extent)

    def _stores_sums(self) -> bool:
        """Returns whether the sums are the results, and vectors of them are contiguous there."""
        if len(self.kernel.stages) > 1 or self.is_cut or self.in_lines:
            return False
        place, schedule = maps_of(self.stage)[len(self.stage.inputs)], self.schedule
        (output,) = self.stage.outputs
        return result_stride(output, place, self.kernel.extents, schedule.row, schedule.column) == 1

    def _panels(self, top: Block) -> Panels:
        """Allocates the memory for packed columns."""
        lanes, layout = self.schedule.lanes, self.layouts[self.factors.column]
        squares = layout.along_steps and lanes >= LEAST_LANES
        depth = self._room_for_steps()
        whole = self._has_whole_pairs()
        side = 2 * lanes if whole else lanes
        depth = rounded_up(depth, side) if squares else depth
        words = new_array(top, i32, self.room * depth // 2) if self.schedule.pairs else None
        lies_in_lines = layout.in_lines and self._shortest >= side and not self.is_cut
        lines = self._array(top, lanes * depth) if squares and not lies_in_lines else None
        width = self.room if words is None else max(self.whole.width, 0 if self.tail is None else self.tail.width)
        return Panels(self._array(top, width * depth), self.element, lanes, depth, words, whole, squares, lines)

    def _far_lines(self) -> prefetch.Lines | None:
        """Returns what of the columns is prefetched; `None` if they are near, or not the elements of an operand."""
        column, schedule = operand_of(self.factors.column), self.schedule
        strides = None if self.columns is None else self.layouts[self.factors.column].strides
        if strides is None or min(strides.side, strides.step) != 1 or column is None:
            return None
        buffer, columns = self.stage.inputs[column.index], schedule.tile_columns
        if buffer_bytes(cast("Buffer", buffer.type)) < FAR_BYTES:
            return None
        runs = (columns, strides.side, self.depth) if strides.step == 1 else (self.depth, strides.step, columns)
        if runs[1] == runs[2]:
            runs = (1, 0, runs[0] * runs[2])
        blocks = (-(-schedule.tile_rows // schedule.rows), -(-columns // schedule.columns))
        return prefetch.Lines(*runs, element_bytes(element_of(buffer)), blocks, -(-self.depth // (1 + schedule.pairs)))

    def _padded_image(self, top: Block) -> PaddedImage:
        """Allocates the memory for a padded image."""
        schedule, windows = self.schedule, self._windows()
        windows = windows.in_split_lines() if windows is not None and schedule.split else windows
        if windows is None or not has_padded_lines(windows, schedule) or self.depth % windows.taps:
            raise DiagnosticException(
                f"the kernel at {line_of(self.kernel.location)} is scheduled to pad an image, but its columns are no "
                f"windows in lines of {schedule.pitch} elements, {schedule.gap} of which are left out, or its depth is "
                "no multiple of a window"
            )
        return PaddedImage.of(self.stage, windows, schedule, self.room, self.depth, top)

    def _tail(self) -> Columns | None:
        """Returns the columns after the last whole block: if they are summed along the reduction, no others."""
        schedule, columns = self.schedule, self.extents[2]
        if schedule.lines:
            return None
        if not schedule.tail_along:
            return Columns.behind(columns, schedule.columns, schedule.lanes)
        filled = columns % schedule.columns
        return Columns((schedule.tail_along,) * (filled // schedule.tail_along), filled)

    def _tail_lines(self, top: Block) -> SSAValue:
        """Allocates the memory for the columns after the last whole block, each of which becomes a line."""
        schedule, row = self.schedule, self.layouts[self.factors.row]
        in_lines = row.in_lines if schedule.direct_rows else row.along_steps
        tail, is_whole = self.tail, math.gcd(self.depth, self._shortest) % schedule.lanes == 0
        has_tail = tail is not None and 0 < tail.filled == tail.width
        if tail is None or not has_tail or self.image is None or self.conditions or not (in_lines and is_whole):
            raise DiagnosticException(
                f"the kernel at {line_of(self.kernel.location)} is scheduled to sum its last columns along the "
                "reduction, but has none, or not in whole vectors"
            )
        return self._array(top, tail.filled * self.depth)

    def _windows(self) -> Windows | None:
        """Returns the windows that the columns are; `None` if they are none."""
        rank, columns = len(self.kernel.extents), self.schedule.column
        return windows_of(self.stage, self.factors.column, rank, columns, self.conditions)

    def _line_blocks(self, top: Block) -> LineBlocks:
        """Allocates the memory for the sums of several lines."""
        windows = self._windows() if self.extents[1] == 1 else None
        if windows is None or not has_line_blocks(self.stage, windows, self.conditions):
            raise DiagnosticException(
                f"the kernel at {line_of(self.kernel.location)} is scheduled to have several lines in registers, but "
                "does not multiply one row with small windows of one image"
            )
        return LineBlocks.of(self.stage, windows, self.schedule, top)

    def _step_vectors(self, top: Block) -> StepVectors:
        """Allocates the memory for sums with vectors along the reduction."""
        schedule, image = self.schedule, self.image
        is_whole = self.extents[1] == 1 and self.extents[2] <= schedule.columns
        if image is None or self.rows is None or not (is_whole and has_step_vectors(image.windows, self.conditions)):
            raise DiagnosticException(
                f"the kernel at {line_of(self.kernel.location)} is scheduled to have vectors along its reduction, but "
                "not to pack one row and to multiply it with one block of windows whose elements are evenly apart"
            )
        kind = VectorType(self.element, [schedule.lanes])
        return StepVectors(image, self.rows.memory, self._array(top, self.room), schedule.along_steps, kind)

    def _check_lies_along_steps(self) -> None:
        """Checks that vectors along the reduction can be loaded of each row and column, and that there is one range."""
        schedule, (row, column) = self.schedule, (self.layouts[x] for x in (self.factors.row, self.factors.column))
        fits = schedule.lanes % schedule.along_steps == 0 and self.ranges == 1 and self.steps >= schedule.lanes
        in_lines = column.in_lines and (row.in_lines if schedule.direct_rows else row.along_steps)
        if not (fits and in_lines and schedule.direct_columns) or self.conditions or self.is_cut:
            raise DiagnosticException(
                f"the kernel at {line_of(self.kernel.location)} is scheduled to have vectors along its reduction, but "
                "not all at once, or not to read columns in place that are contiguous along it"
            )

    def _lines(self, top: Block) -> Lines:
        """Allocates the memory for a packed block of rows."""
        depth, rows = self._room_for_steps(), self.schedule.rows
        pitch = depth if self.layouts[self.factors.row].along_steps else 0
        words = new_array(top, i32, rows * depth // 2) if self.schedule.pairs else None
        behind = self.schedule.lanes if self.schedule.along_steps and self.schedule.pitch else 0
        lanes = self.schedule.lanes if self._shortest >= 2 * self.schedule.lanes else 0
        return Lines(self._array(top, rows * depth + behind), rows, pitch, words, self._has_whole_pairs(), lanes)

    @property
    def _shortest(self) -> int:
        """The iterations of the last range."""
        return self.steps - (self.ranges - 1) * self.depth

    def _has_whole_pairs(self) -> bool:
        """Returns whether pairs are multiplied, and every range of the reduction has an even number of iterations."""
        is_even = self.steps % 2 == 0 and (self.ranges == 1 or self.depth % 2 == 0)
        return bool(self.schedule.pairs) and is_even and not self.conditions

    def _room_for_steps(self) -> int:
        """Returns for how many iterations there is memory: with pairs for an even number, and zeros after the last."""
        return self.depth + 2 - self.depth % 2 if self.schedule.pairs else self.depth

    def tile(self, rest: Value, first_row: Value, first_column: Value) -> Tile:
        """Returns the tile at an index into the rest, a row and a column."""
        return Tile(
            self.stage,
            self.schedule.padded(self.kernel.extents),
            (self.schedule.row, self.schedule.column),
            self.own,
            self.extents,
            self.expressions,
            rest,
            (first_row, first_column),
            self.axes,
            self.step_axis,
        )

    def has_product(self, code: Code, loops: Loops, steps: Sequence[Value]) -> Value:
        """Returns whether the iteration at some indices of the reduction's loops has a product.

        Args:
            code: Where to write.
            loops: The grid's loops, at any row and column.
            steps: The indices.
        """
        known: dict[SSAValue, SSAValue] = {}
        needed, inside = needed_for(self.conditions), loops.with_own(steps, self.own)
        clone_needed(code, self.stage.body.block, known, needed, inside)
        result = code.value(known[self.conditions[0]])
        for condition in self.conditions[1:]:
            result = result & code.value(known[condition])
        return result

    def _run_of_results(self, places: list[OperandPosition] | None) -> int:
        """Returns for how many neighbouring columns everything that `_finish` reads and writes has constant strides.

        If columns are one loop, no run is needed to see that. Within a run, an index may exceed its loop if neighbours
        are contiguous.
        """
        column = self.schedule.column
        loops = [self.kernel.extents[loop] for loop in column]
        if places is None or self.in_lines or sum(extent > 1 for extent in loops) <= 1:
            return 1
        return max(run_along(places, column, loops), loops[self.inmost])

    def _has_even_rows(self, places: list[OperandPosition] | None) -> bool:
        """Returns whether everything that `_finish` reads and writes has one stride along all rows."""
        row, extents = self.schedule.row, self.kernel.extents
        return places is not None and all(
            place.stride(outer) == place.stride(inner) * extents[inner]
            for place in places
            for outer, inner in pairwise(loop for loop in row if extents[loop] > 1)
        )

    def _finished_places(self) -> list[OperandPosition] | None:
        """Returns the positions of all that `_finish` reads and writes, for indices that may exceed their loops.

        Returns:
            `None` if one isn't linear, or indices are computed with.
        """
        places, sides = list[OperandPosition | None](), (*self.schedule.row, *self.schedule.column)
        more = max(self.extents[1:])
        extents = [extent + (more if i in sides else 0) for i, extent in enumerate(self.kernel.extents)]
        for stage in self.kernel.stages:
            maps, count = maps_of(stage), len(stage.inputs)
            if stage is not self.stage:
                if any(isinstance(op, IndexOp) for op in stage.body.walk()):
                    return None
                reads = zip(stage.inputs, maps[:count], strict=True)
                places += [plain_place(buffer, m, extents) for buffer, m in reads if not is_shape_only(buffer)]
            writes = zip(stage.outputs, maps[count:], strict=True)
            places += [
                plain_place(buffer, m, extents) for buffer, m in writes if buffer in self.kernel.output_arguments
            ]
        known = [place for place in places if place is not None]
        return known if len(known) == len(places) else None
