"""The sums of a tile: those of one range of the reduction after another are added, in registers or in scratch memory.

The sums of many ranges are added in blocks of ranges (see `blocked_sums`), each level of which has its own memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.buf import maps_of
from tensorgrad.passes.analyses.factors import result_stride
from tensorgrad.passes.codegen.common.blocked_sums import MOST_BLOCKS, block_widths
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.packed.blocks import ColumnBlock, InBlock, RowBlock, Task
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value


class TileSums:
    """The sums of a tile.

    Attributes:
        are_results: Whether complete sums are the results, and stored as vectors; otherwise the epilogue reads them.
        are_of_block: Whether memory is for the sums of one register block after another.
        are_of_tile: Whether it is for the sums of a whole tile; otherwise of one block of rows after another.
        pitch: The elements from a row of sums in memory to the next.
        widths: The ranges of a block of ranges, of a block of blocks, and so on.
        memories: The memory for the sums of each of these, and of all ranges; none if they stay in registers. The first
            one is for complete sums, too.
    """

    def __init__(self, product: Product, in_blocks: bool, top: Block):
        """Allocates the memory.

        Args:
            product: The product.
            in_blocks: Whether an epilogue runs on one register block after another.
            top: Where to allocate.
        """
        self.product, self.are_results = product, _are_results(product)
        schedule, ranges = product.schedule, product.ranges
        self.are_of_block = in_blocks and not self.are_results
        self.are_of_tile = not self.are_of_block and (ranges > 1 or bool(schedule.by_columns))
        self.pitch = product.widest if self.are_of_block else product.row_length
        size = (schedule.tile_rows if self.are_of_tile else schedule.rows) * self.pitch
        self.widths = block_widths(ranges, 1, MOST_BLOCKS)
        has_memory = ranges > 1 or not self.are_results
        self.memories = [new_array(top, product.element, size) for _ in range(has_memory + len(self.widths))]

    def in_blocks(self, number: Value) -> tuple[InBlock, ...]:
        """Returns the place of the range with the given index."""
        blocks, within = list[InBlock](), 1
        is_last = number.equals(self.product.ranges - 1)
        for width, sums in zip(self.widths, self.memories, strict=False):
            place = number % width
            ends = place.equals(width - 1) | is_last
            blocks.append(InBlock(place < within, ends, sums))
            within = width
        blocks.append(InBlock(number < within, is_last, self.memories[-1]))
        return tuple(blocks)

    def add(
        self, task: Task, rows: RowBlock, block: ColumnBlock, within: Sequence[InBlock], sums: Sequence[Value]
    ) -> None:
        """Adds the sums of a range to those of its block; a complete block's to those of the block around it.

        Args:
            task: The tile's task.
            rows: The rows of the register block.
            block: Its columns.
            within: The range's place in the blocks; none if it is the only range.
            sums: Its sums, row by row.
        """
        if not within:
            self._complete(task, rows, block, sums)
            return
        code, (inmost, *around) = task.code, within
        places, kinds = self._places(rows, block, block.offset), self.product.block_types(block.columns)

        def with_earlier() -> list[Value]:
            earlier = [code.vector(inmost.sums, at, kind) for at, kind in zip(places, kinds, strict=True)]
            return [code.apply(arith.AddfOp, *both) for both in zip(earlier, sums, strict=True)]

        totals = code.choose(inmost.starts, kinds, lambda: sums, with_earlier)
        code.when(
            inmost.ends,
            lambda: self.add(task, rows, block, around, totals),
            lambda: _keep(code, inmost.sums, places, totals),
        )

    def _complete(self, task: Task, rows: RowBlock, block: ColumnBlock, sums: Sequence[Value]) -> None:
        """Stores complete sums: as results, or for the epilogue."""
        if self.are_results:
            self._store(task, rows, block, sums)
        else:
            first = task.code.number(0) if self.are_of_block else block.first
            _keep(task.code, self.memories[0], self._places(rows, block, first), sums)

    def start(self, rows: RowBlock) -> Value:
        """Returns where the sums of a block of rows begin in memory."""
        return rows.number * (self.product.schedule.rows * self.pitch)

    def _places(self, rows: RowBlock, block: ColumnBlock, first: Value) -> list[Value]:
        """Returns the positions of a register block's vectors in the memory for sums, its columns from `first` on."""
        product = self.product
        corner = self.start(rows) + first
        parts = block.columns.parts(product.element)
        return [corner + (i * self.pitch + at) for i in range(product.schedule.rows) for at, _ in parts]

    def _store(self, task: Task, rows: RowBlock, block: ColumnBlock, sums: Sequence[Value]) -> None:
        """Stores sums as results, except in rows that another block computes."""
        code, product = task.code, self.product
        (output,), place = product.stage.outputs, maps_of(product.stage)[len(product.stage.inputs)]
        memory, parts = code.bindings[output].memory, block.columns.parts(product.element)
        first_row, first_column = task.tile.first
        column = first_column + block.first

        def line(i: int) -> None:
            row = first_row + (rows.first + i)
            loops = Loops((task.tile.rest, row, column), product.extents, product.expressions)
            at = code.position(place.results, output, loops)
            for (by, _), value in zip(parts, sums[i * len(parts) :], strict=False):
                code.put_vector(value, memory, at + by)

        for i in range(product.schedule.rows):
            if rows.computed is None:
                line(i)
            else:
                code.when(code.number(i) >= rows.computed, partial(line, i))


def _keep(code: Code, memory: SSAValue, places: Sequence[Value], sums: Sequence[Value]) -> None:
    """Stores sums in scratch memory."""
    for at, value in zip(places, sums, strict=True):
        code.put_vector(value, memory, at)


def _are_results(product: Product) -> bool:
    """Returns whether the sums are the results, and vectors of them are contiguous there."""
    if len(product.kernel.stages) > 1 or product.is_cut or product.in_lines:
        return False
    place, schedule = maps_of(product.stage)[len(product.stage.inputs)], product.schedule
    (output,) = product.stage.outputs
    return result_stride(output, place, product.kernel.extents, schedule.row, schedule.column) == 1
