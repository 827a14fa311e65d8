"""What a task computes, and its parts: ranges of the reduction, and register blocks of rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import sequential
from tensorgrad.passes.codegen.llvm.packed.factors import Axis, ProductTile
from tensorgrad.passes.codegen.llvm.packed.packing import Columns
from tensorgrad.passes.codegen.llvm.packed.prefetch import Prefetch
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class Range:
    """A range of the reduction.

    Attributes:
        start: Its first iteration.
        extent: The number of iterations.
        count: The number of those that have products.
        blocks: Its place in the block of ranges that are added one after another, in the block of blocks, and so on;
            none if it is the only range.
        prefetch: What is packed after it, if that is prefetched.
    """

    start: Value
    extent: Value
    count: Value
    blocks: tuple[InBlock, ...] = ()
    prefetch: Prefetch | None = None

    @property
    def is_last(self) -> Value | None:
        """Whether it is the last range; `None` if it is the only one."""
        return self.blocks[-1].ends if self.blocks else None


@dataclass(frozen=True)
class InBlock:
    """The place of a range in a block of ranges, which consists of ranges or smaller blocks.

    Attributes:
        starts: Whether the range is in the first of them.
        ends: Whether the range is the block's last one.
        sums: The memory for the block's sums so far.
    """

    starts: Value
    ends: Value
    sums: SSAValue


@dataclass(frozen=True)
class RowBlock:
    """The rows of a register block.

    Attributes:
        first: The first row, relative to the tile.
        number: The block's index in the memory for sums.
        computed: How many of its rows an earlier block computes; `None` if always zero.
    """

    first: Value
    number: Value
    computed: Value | None


@dataclass(frozen=True)
class ColumnBlock:
    """The columns of a register block.

    Attributes:
        columns: Its vectors.
        first: The first column, relative to the tile.
        offset: Where its columns begin in memory for those of a tile. The block after the last whole one shares columns
            with that one, so it has a place of its own.
    """

    columns: Columns
    first: Value
    offset: Value


@dataclass(frozen=True)
class Task:
    """What a task computes: a tile of results.

    Attributes:
        product: The product.
        code: Where to write.
        tile: The tile.
        row_count: The number of its rows.
        whole_count: The number of its columns in whole register blocks.
        column_count: The number of all its columns.
        is_last: Whether it is the last tile along the columns; `None` if it is the only one.
        computed_before: How many of its rows the tile above computes; `None` if always zero.
    """

    product: Product
    code: Code
    tile: ProductTile
    row_count: Value
    whole_count: Value
    column_count: Value
    is_last: Value | None
    computed_before: Value | None

    @staticmethod
    def of(product: Product, code: Code, axes: tuple[Axis, Axis], steps: Axis, number: Value) -> Task:
        """Returns the task with the given index.

        Args:
            product: The product.
            code: Where to write.
            axes: The tables of the rows' and the columns' loops.
            steps: The table of the reduction's loops.
            number: The index.
        """
        schedule, (_, rows, columns) = product.schedule, product.extents
        down, across = schedule.tiles_over(product.kernel.extents)
        column_tile = number % across if across > 1 else code.number(0)
        above = number // across
        row_tile = above % down if down > 1 else code.number(0)
        rest = above // down
        begin = first_row = row_tile * schedule.tile_rows
        # A last tile of fewer rows than a register block starts further up, on rows that the tile above computes.
        if 0 < rows % schedule.tile_rows < schedule.rows:
            first_row = begin.at_most(rows - schedule.rows)
        first_column = column_tile * schedule.tile_columns
        computed_before = begin - first_row if first_row is not begin else None
        row_count = count_from(code, first_row, rows, schedule.tile_rows)
        is_last = None if across == 1 else column_tile.equals(across - 1)
        whole = schedule.whole(columns)
        column_count = whole_count = (
            count_from(code, first_column, whole, schedule.tile_columns) if whole else code.number(0)
        )
        if product.tail is not None:
            if is_last is None:
                column_count = code.number(columns)
            else:
                column_count = code.select(is_last, whole_count + (columns - whole), whole_count)
        sides, first = (schedule.row, schedule.column), (first_row, first_column)
        extents, expressions = product.extents, product.expressions
        tile = ProductTile(
            product.stage, product.grid, sides, product.own, extents, expressions, rest, first, axes, steps
        )
        return Task(product, code, tile, row_count, whole_count, column_count, is_last, computed_before)

    def each_block(self, body: Callable[[ColumnBlock], None]) -> None:
        """Writes code for each block of the tile's columns."""
        code, product, tail = self.code, self.product, self.product.tail
        width = product.schedule.columns

        def whole(number: Value) -> None:
            first = number * width
            body(ColumnBlock(product.whole, first, first))

        if product.extents[2] >= width:
            sequential(code, self.whole_count // width, whole)
        if tail is not None:
            when(
                code,
                self.is_last,
                lambda: body(ColumnBlock(tail, self.column_count - tail.filled, self.whole_count)),
            )


def count_from(code: Code, start: Value, extent: int, most: int) -> Value:
    """Returns how many of `extent` are left from `start` on, at most `most`."""
    if extent % most == 0:
        return code.number(most)
    if extent < most:
        return code.number(extent)
    return (extent - start).at_most(most)


def when(code: Code, condition: Value | None, body: Callable[[], None]) -> None:
    """Writes `body` under a condition; just `body` without one."""
    if condition is None:
        body()
    else:
        code.when(condition, body)
