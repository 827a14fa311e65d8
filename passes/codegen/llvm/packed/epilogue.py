"""The epilogue of a product: what is computed from its sums, element by element, and where results are stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import is_shape_only, maps_of
from tensorgrad.passes.analyses.windows import LEAST_RUN, OperandPosition, plain_place, run_along
from tensorgrad.passes.codegen.common.stage_bodies import stage_values, store_outputs
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.packed.blocks import ColumnBlock, RowBlock, Task
from tensorgrad.passes.codegen.llvm.packed.factors import over_runs
from tensorgrad.passes.codegen.llvm.packed.padded_image import PaddedImage
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.codegen.llvm.packed.tile_sums import TileSums
from tensorgrad.passes.scalars import Value

SHORT_LINE = 128
"""Lines of fewer columns use masked vectors in the epilogue, since a loop of several vectors would not run once."""


class Epilogue:
    """The stages of a kernel that run on a product's complete sums.

    Attributes:
        inmost: The innermost of the columns' loops that has several iterations.
        run: For how many neighbouring columns all that it reads and writes has constant strides; 1 if columns are one
            loop, for which no run is needed to see that.
        is_even: Whether that has one stride along all rows, and along all columns.
        in_blocks: Whether it runs on one register block after another, and not on all columns of a block of rows: if
            the sums are complete at once, and the columns need no lookup.
    """

    def __init__(self, product: Product):
        self.product = product
        self.inmost = _inmost(product, product.schedule.column)
        places, loops = _places(product), [product.kernel.extents[loop] for loop in product.schedule.column]
        is_one_loop = sum(extent > 1 for extent in loops) <= 1
        self.run = 1 if is_one_loop else self._run(places, loops)
        self.is_even = _has_even_rows(product, places), is_one_loop or self.run == product.extents[2]
        self.in_blocks = self.is_even[1] and product.ranges == 1 and not product.in_lines

    def _run(self, places: list[OperandPosition] | None, loops: Sequence[int]) -> int:
        """Returns for how many neighbouring columns all that is read and written has constant strides.

        Within a run, an index may exceed its loop if neighbours are contiguous.
        """
        if places is None or self.product.in_lines:
            return 1
        return max(run_along(places, self.product.schedule.column, loops), loops[self.inmost])

    def write(self, task: Task, rows: RowBlock, sums: TileSums, image: PaddedImage | None) -> None:
        """Writes the epilogue of a block of rows.

        Args:
            task: The tile's task.
            rows: The rows.
            sums: The tile's complete sums.
            image: The image whose windows the columns are, if results are stored line by line of these.
        """
        code, product = task.code, self.product
        columns, is_masked, memory = product.extents[2], product.extents[2] < SHORT_LINE, sums.memories[0]
        beyond = product.extents[1] if self.is_even[0] else 0

        def line(i: Value) -> None:
            row = self._indices(task, 0, rows.first + i)
            start = sums.start(rows) + i * sums.pitch

            def at(j: Value) -> None:
                loops = task.tile.loops(code, row, self._indices(task, 1, j), max(self.run, beyond))
                self.finish(task, memory, start + j, loops)

            def in_line(j: Value, column: Sequence[Value]) -> None:
                self.finish(task, memory, start + j, task.tile.loops(code, row, column, beyond))

            def run(low: Value, high: Value) -> None:
                origin = self._indices(task, 1, low)

                def element(j: Value) -> None:
                    moved = j - low
                    column = [index + moved if k == self.inmost else index for k, index in enumerate(origin)]
                    loops = task.tile.loops(code, row, column, max(self.run, beyond))
                    self.finish(task, memory, start + j, loops)

                parallel(code, high, low, element, is_masked)

            if image is not None:
                image.over_lines(code, task.tile, task.column_count, in_line)
            elif self.run < LEAST_RUN:
                parallel(code, task.column_count, None, at, is_masked)
            else:
                over_runs(code, task.tile.first[1], task.column_count, columns, self.run, run)

        sequential(code, code.number(product.schedule.rows), line, start=rows.computed)

    def write_block(self, task: Task, rows: RowBlock, block: ColumnBlock, sums: TileSums) -> None:
        """Writes the epilogue of a register block.

        Args:
            task: The tile's task.
            rows: Its rows.
            block: Its columns; those that the block before has too are left out.
            sums: Its complete sums.
        """
        code, product, filled, memory = task.code, self.product, block.columns.filled, sums.memories[0]
        shared = filled - product.extents[2] % product.whole.width if block.columns is product.tail else 0
        beyond = max(self.run, product.extents[1] if self.is_even[0] else 0)

        def line(i: Value) -> None:
            row = self._indices(task, 0, rows.first + i)

            def at(j: Value) -> None:
                loops = task.tile.loops(code, row, self._indices(task, 1, block.first + j), beyond)
                self.finish(task, memory, i * sums.pitch + j, loops)

            parallel(code, code.number(filled), code.number(shared), at, is_masked=True)

        sequential(code, code.number(product.schedule.rows), line, start=rows.computed)

    def _indices(self, task: Task, side: int, at: Value) -> list[Value]:
        """Returns the indices of the loops of a row (or column): of the innermost alone if results are evenly apart."""
        first, loops = task.tile.first[side], task.tile.sides[side]
        if not self.is_even[side]:
            return task.tile.axes[side].indices(task.code, first, at)
        inmost = _inmost(self.product, loops)
        return [first + at if k == inmost else task.code.number(0) for k in range(len(loops))]

    def finish(self, task: Task, sums: SSAValue, at: Value, loops: Loops) -> None:
        """Writes the stages for one element, given the position of its sum in memory."""
        code, product = task.code, self.product
        known: dict[SSAValue, Value] = {product.stage.outputs[0]: code.element(sums, at)}
        for stage in product.kernel.stages:
            is_sum = stage is product.stage
            values = [known[stage.outputs[0]]] if is_sum else stage_values(code, stage, loops, known)
            known.update(zip(stage.outputs, values, strict=True))
            store_outputs(product.kernel, stage, code, loops, values)


def _inmost(product: Product, side: Sequence[int]) -> int:
    """Returns which of the loops of a side is the innermost one with several iterations."""
    return max((k for k, loop in enumerate(side) if product.kernel.extents[loop] > 1), default=0)


def _has_even_rows(product: Product, places: list[OperandPosition] | None) -> bool:
    """Returns whether everything that is read and written has one stride along all rows."""
    row, extents = product.schedule.row, product.kernel.extents
    return places is not None and all(
        place.stride(outer) == place.stride(inner) * extents[inner]
        for place in places
        for outer, inner in pairwise(loop for loop in row if extents[loop] > 1)
    )


def _places(product: Product) -> list[OperandPosition] | None:
    """Returns the positions of all that is read and written, for indices that may exceed their loops.

    Returns:
        `None` if one isn't linear, or indices are computed with.
    """
    kernel, schedule = product.kernel, product.schedule
    places, sides = list[OperandPosition | None](), (*schedule.row, *schedule.column)
    more = max(product.extents[1:])
    extents = [extent + (more if i in sides else 0) for i, extent in enumerate(kernel.extents)]
    for stage in kernel.stages:
        maps, count = maps_of(stage), len(stage.inputs)
        if stage is not product.stage:
            if any(isinstance(op, IndexOp) for op in stage.body.walk()):
                return None
            reads = zip(stage.inputs, maps[:count], strict=True)
            places += [plain_place(buffer, m, extents) for buffer, m in reads if not is_shape_only(buffer)]
        writes = zip(stage.outputs, maps[count:], strict=True)
        places += [plain_place(buffer, m, extents) for buffer, m in writes if buffer in kernel.output_arguments]
    known = [place for place in places if place is not None]
    return known if len(known) == len(places) else None
