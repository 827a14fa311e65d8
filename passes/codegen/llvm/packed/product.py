"""A matrix product in native code, and how its schedule divides it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, element_of, loop_extents
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.passes.analyses.axes import grid_of_sides, needed_for
from tensorgrad.passes.analyses.factors import factors_of, step_conditions, unrounded_both
from tensorgrad.passes.analyses.kinds import summed_stage
from tensorgrad.passes.analyses.windows import Windows, windows_of
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_bodies import clone_needed
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.packed.factors import Factor, FactorLayout, ProductTile, Window
from tensorgrad.passes.codegen.llvm.packed.packing import Columns
from tensorgrad.passes.scalars import Value


class Product:
    """A matrix product.

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
        grid: The extents of the grid's loops, with the gaps between lines of windows.
        extents: The extents of the rest (batch), the rows and the columns.
        expressions: Each grid loop as an expression of indices into these.
        conditions: The conditions under which an iteration has a product.
        layouts: The memory layout of each factor that is read from its operands.
        tail: The columns of the block after the last whole one, if there is one.
        whole: The columns of a whole block.
        row_length: The most columns of a tile, which a row of sums has.
    """

    def __init__(self, kernel: KernelOp, schedule: PackedSchedule):
        self.kernel, self.schedule = kernel, schedule
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
                raise self.fault("multiply pairs, but its factors aren't rounded to bf16, or are read in place")
        self.stage, self.factors = stage, factors
        self.element = element_of(stage.outputs[0])
        self.own = loop_extents(stage)[len(kernel.extents) :]
        self.steps = math.prod(self.own)
        self.depth = min(schedule.depth, self.steps)
        self.ranges = -(-self.steps // self.depth)
        self.grid = schedule.padded(kernel.extents)
        _, self.expressions = grid_of_sides(self.grid, schedule.row, schedule.column)
        self.extents = schedule.extents(kernel.extents)
        self.conditions = step_conditions(stage, factors, (*schedule.row, *schedule.column))
        in_windows = bool(schedule.pitch or schedule.lines)
        self.layouts = {
            value: FactorLayout.of(
                stage, value, kernel.extents, schedule.row, schedule.column, bool(self.conditions), schedule.rows
            )
            for value in (factors.row, *(() if in_windows else (factors.column,)))
        }
        self.whole = Columns((schedule.lanes,) * (schedule.columns // schedule.lanes), schedule.columns)
        self.tail = self._tail()
        self.row_length = schedule.tile_columns + (self.tail.width if self.tail is not None else 0)

    def fault(self, what: str) -> DiagnosticException:
        """Returns the error that the kernel is scheduled to do what it can't."""
        return DiagnosticException(f"the kernel at {line_of(self.kernel.location)} is scheduled to {what}")

    def _tail(self) -> Columns | None:
        """Returns the columns after the last whole block: if they are summed along the reduction, no others."""
        schedule, columns = self.schedule, self.extents[2]
        if schedule.lines:
            return None
        if not schedule.tail_along:
            return Columns.behind(columns, schedule.columns, schedule.lanes)
        filled = columns % schedule.columns
        return Columns((schedule.tail_along,) * (filled // schedule.tail_along), filled)

    @property
    def widest(self) -> int:
        """The most columns of a block's vectors."""
        return max(columns.width for columns in (self.whole, self.tail) if columns is not None)

    @property
    def is_cut(self) -> bool:
        """Whether the tail has fewer columns than its vectors."""
        return self.tail is not None and self.tail.filled < self.tail.width

    @property
    def in_lines(self) -> bool:
        """Whether results are stored line by line of windows."""
        return bool(self.schedule.lines or self.schedule.gap)

    @property
    def shortest(self) -> int:
        """The iterations of the last range."""
        return self.steps - (self.ranges - 1) * self.depth

    @property
    def has_whole_pairs(self) -> bool:
        """Whether pairs are multiplied, and every range of the reduction has an even number of iterations."""
        is_even = self.steps % 2 == 0 and (self.ranges == 1 or self.depth % 2 == 0)
        return bool(self.schedule.pairs) and is_even and not self.conditions

    @property
    def packed_depth(self) -> int:
        """The iterations that packed factors have: with pairs an even number, and zeros after the last one."""
        return self.depth + 2 - self.depth % 2 if self.schedule.pairs else self.depth

    def block_types(self, columns: Columns) -> list[VectorType[Attribute]]:
        """Returns the types of a register block's vectors, row by row."""
        return [kind for _ in range(self.schedule.rows) for _, kind in columns.parts(self.element)]

    def windows(self) -> Windows | None:
        """Returns the windows that the columns are; `None` if they are none."""
        rank, columns = len(self.kernel.extents), self.schedule.column
        return windows_of(self.stage, self.factors.column, rank, columns, self.conditions)

    def row_factor(self, tile: ProductTile, start: Value) -> Factor:
        """Returns the rows of a tile, in the range of the reduction that starts at an iteration."""
        return self._factor(self.factors.row, tile, start, is_row=True)

    def column_factor(self, tile: ProductTile, start: Value) -> Factor:
        """Returns the columns of a tile, in the range of the reduction that starts at an iteration."""
        return self._factor(self.factors.column, tile, start, is_row=False)

    def _factor(self, value: SSAValue, tile: ProductTile, start: Value, is_row: bool) -> Factor:
        layout = self.layouts[value]
        return (Factor if layout.run == 1 else Window)(tile, value, layout, start, is_row)

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
