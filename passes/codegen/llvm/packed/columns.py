"""How register blocks read the columns of a product: packed, in place, or as windows of a padded image."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias, cast

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects.buf import Buffer, buffer_bytes, element_of
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.factors import operand_of
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.llvm.loop_kinds import sequential
from tensorgrad.passes.codegen.llvm.packed.blocks import ColumnBlock, Range, Task
from tensorgrad.passes.codegen.llvm.packed.packing import LEAST_LANES, Panels
from tensorgrad.passes.codegen.llvm.packed.padded_image import PaddedImage, has_padded_lines
from tensorgrad.passes.codegen.llvm.packed.prefetch import Prefetch, Runs
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value

FAR_BYTES = 1 << 20
"""The fewest bytes of an operand whose columns are prefetched: smaller ones stay in the caches."""

Vectors: TypeAlias = Callable[[Value], list[Value]]
"""Writes the loads of a register block's columns in an iteration of a range, as vectors."""


class ColumnReader(Protocol):
    """The columns of a product."""

    def prepare(self, task: Task, part: Range, following: Task | None) -> Prefetch | None:
        """Writes what a tile's columns need before the products of a range of the reduction.

        Args:
            task: The tile's task.
            part: The range.
            following: The next task; `None` if nothing is prefetched for it.

        Returns:
            What is prefetched while the products are computed, if anything is.
        """
        ...

    def vectors(self, task: Task, part: Range, block: ColumnBlock) -> Vectors:
        """Returns what writes the loads of a register block's columns."""
        ...

    def copy_column(self, task: Task, part: Range, column: Value, memory: SSAValue, start: int) -> None:
        """Writes the copy of a column's elements, one iteration of a range after another, to another memory."""
        ...


def columns_of(product: Product, code: Code) -> PackedColumns | ColumnsInPlace | ImageColumns:
    """Returns how a product's schedule reads its columns."""
    if product.schedule.pitch:
        return ImageColumns(product, code)
    return ColumnsInPlace(product) if product.schedule.direct_columns else PackedColumns(product, code.block)


class ColumnsInPlace:
    """Columns that are elements of an operand with constant strides."""

    def __init__(self, product: Product):
        layout = product.layouts[product.factors.column]
        if not product.schedule.along_steps and (product.is_cut or not layout.in_vectors):
            raise product.fault(
                "read columns in place, but they are not contiguous in memory, or fewer than the elements of a vector"
            )
        self.product = product

    def prepare(self, task: Task, part: Range, following: Task | None) -> None:
        """Writes nothing."""

    def vectors(self, task: Task, part: Range, block: ColumnBlock) -> Vectors:
        factor = self.product.column_factor(task.tile, part.start)
        parts = block.columns.parts(self.product.element)
        return lambda step: factor.vectors(task.code, block.first, step, parts)

    def copy_column(self, task: Task, part: Range, column: Value, memory: SSAValue, start: int) -> None:
        _copy_column(self.product, task, part, column, memory, start)


class PackedColumns:
    """Columns that are packed in panels before each range of the reduction.

    Those of the next range, or the next task's first one, are prefetched meanwhile if they are far.

    Attributes:
        panels: The memory for a tile's columns.
        far: The runs of columns that are prefetched; `None` if none are.
    """

    def __init__(self, product: Product, top: Block):
        self.product = product
        self.panels, self.far = _panels(product, top), _far_runs(product)

    def prepare(self, task: Task, part: Range, following: Task | None) -> Prefetch | None:
        """Packs the columns.

        Neighbouring columns of an iteration are contiguous in the operand, so all of them are packed before the next.
        """
        prefetch = None if following is None else self._prefetch(task, part, following)
        code, product, panels = task.code, self.product, self.panels
        factor = product.column_factor(task.tile, part.start)

        def pack_step(number: Value, block: ColumnBlock) -> None:
            panels.pack_step(code, self._panel(block), block.columns, block.first, number, factor)

        def pack(block: ColumnBlock) -> None:
            panels.pack(code, self._panel(block), block.columns, block.first, part.count, factor)

        if all(columns is None or panels.packs_steps(columns, factor) for columns in (product.whole, product.tail)):
            steps = panels.elements(part.count)
            sequential(code, steps, lambda number: task.each_block(partial(pack_step, number)))
        else:
            task.each_block(pack)
        return prefetch

    def _prefetch(self, task: Task, part: Range, following: Task) -> Prefetch | None:
        """Returns the columns that are packed after a range: in the next one, or the first one of the next task."""
        if self.far is None:
            return None
        code, zero = task.code, task.code.number(0)
        memory, start = self.product.column_factor(following.tile, zero).place(code, zero, zero)
        if part.is_last is not None:
            _, behind = self.product.column_factor(task.tile, part.start).place(code, zero, part.count)
            start = code.select(part.is_last, start, behind)
        return Prefetch(self.far, memory, start)

    def vectors(self, task: Task, part: Range, block: ColumnBlock) -> Vectors:
        code, memory, panel = task.code, self.panels.packed, self._panel(block)
        parts = block.columns.parts(element_of(memory))

        def at(step: Value) -> list[Value]:
            start = panel + step * block.columns.width
            return [code.vector(memory, start + by, kind) for by, kind in parts]

        return at

    def copy_column(self, task: Task, part: Range, column: Value, memory: SSAValue, start: int) -> None:
        _copy_column(self.product, task, part, column, memory, start)

    def _panel(self, block: ColumnBlock) -> Value:
        """Returns where a block's panel begins."""
        return block.offset * self.panels.length


def _copy_column(product: Product, task: Task, part: Range, column: Value, memory: SSAValue, start: int) -> None:
    """Writes the copy of a column out of the product's operands."""
    code, factor = task.code, product.column_factor(task.tile, part.start)
    factor.over_steps(code, column, part.count, lambda step, value: code.put(value, memory, step + start))


def _panels(product: Product, top: Block) -> Panels:
    """Allocates the memory for packed columns."""
    schedule, layout = product.schedule, product.layouts[product.factors.column]
    lanes, depth, whole = schedule.lanes, product.packed_depth, product.has_whole_pairs
    squares = layout.along_steps and lanes >= LEAST_LANES
    side = 2 * lanes if whole else lanes
    depth = rounded_up(depth, side) if squares else depth
    words = new_array(top, i32, product.row_length * depth // 2) if schedule.pairs else None
    lies_in_lines = layout.in_lines and product.shortest >= side and not product.is_cut
    lines = new_array(top, product.element, lanes * depth) if squares and not lies_in_lines else None
    memory = new_array(top, product.element, (product.row_length if words is None else product.widest) * depth)
    return Panels(memory, product.element, lanes, depth, words, whole, squares, lines)


def _far_runs(product: Product) -> Runs | None:
    """Returns what of the columns is prefetched; `None` if they are near, or not the elements of an operand."""
    operand, schedule = operand_of(product.factors.column), product.schedule
    strides = product.layouts[product.factors.column].strides
    if strides is None or min(strides.side, strides.step) != 1 or operand is None:
        return None
    buffer, columns = product.stage.inputs[operand.index], schedule.tile_columns
    if buffer_bytes(cast("Buffer", buffer.type)) < FAR_BYTES:
        return None
    depth = product.depth
    runs = (columns, strides.side, depth) if strides.step == 1 else (depth, strides.step, columns)
    if runs[1] == runs[2]:
        runs = (1, 0, runs[0] * runs[2])
    blocks = (-(-schedule.tile_rows // schedule.rows), -(-columns // schedule.columns))
    return Runs(*runs, blocks, -(-depth // (1 + schedule.pairs)))


class ImageColumns:
    """Columns that are windows of an image, of which a padded copy is made before each range of the reduction.

    Attributes:
        image: The memory for the copy.
    """

    def __init__(self, product: Product, code: Code):
        schedule, windows = product.schedule, product.windows()
        windows = windows.in_split_lines() if windows is not None and schedule.split else windows
        if windows is None or not has_padded_lines(windows, schedule) or product.depth % windows.taps:
            raise product.fault(
                f"pad an image, but its columns are no windows in lines of {schedule.pitch} elements, {schedule.gap} "
                "of which are left out, or its depth is no multiple of a window"
            )
        self.product = product
        self.image = PaddedImage.of(product.stage, windows, schedule, product.row_length, product.depth, code.block)
        if not product.conditions:
            self.image.fill_offsets(code)

    def prepare(self, task: Task, part: Range, following: Task | None) -> None:
        """Copies what the tile's windows meet of the range's channels."""
        self.image.copy(task.code, task.tile, part.start, part.extent)
        if self.product.conditions:
            self.image.keep_offsets(task.code, task.tile.steps, part.start, part.count)

    def vectors(self, task: Task, part: Range, block: ColumnBlock) -> Vectors:
        parts = block.columns.parts(self.product.element)
        return lambda step: self.image.vectors(task.code, task.tile, block.first, step, parts)

    def copy_column(self, task: Task, part: Range, column: Value, memory: SSAValue, start: int) -> None:
        self.image.copy_column(task.code, task.tile, column, part.count, memory, start)
