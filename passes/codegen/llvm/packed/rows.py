"""How register blocks read the rows of a product: packed, or in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, TypeAlias, cast

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, Block

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import Buffer, buffer_bytes, element_bytes, element_of
from tensorgrad.passes.analyses.factors import operand_of
from tensorgrad.passes.analyses.machine import LINE_BYTES
from tensorgrad.passes.codegen.llvm.loop_kinds import sequential
from tensorgrad.passes.codegen.llvm.packed.blocks import ColumnBlock, Range, Task
from tensorgrad.passes.codegen.llvm.packed.packing import Lines
from tensorgrad.passes.codegen.llvm.packed.product import Product
from tensorgrad.passes.codegen.llvm.packed.step_vectors import Read
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value

FAR_BYTES, MOST_ASKED_BYTES = 1 << 16, 1 << 12
"""The smallest operand whose rows are prefetched, since smaller ones stay in the caches; and the most of it at a time:
of longer rows, the CPU itself fetches what comes next."""

Elements: TypeAlias = Callable[[Value], Iterator[Value]]
"""Writes the loads of a block's rows in an iteration of a range, one by one as they are needed."""


class Rows(Protocol):
    """The rows of a product."""

    def prepare(self, task: Task, part: Range, first: Value) -> None:
        """Writes what the block of rows from `first` on, relative to the tile, needs before a range's products."""
        ...

    def elements(self, task: Task, part: Range, first: Value) -> Elements:
        """Returns what writes the loads of a block's rows from `first` on."""
        ...

    def lines(self, task: Task, part: Range, first: Value, kind: VectorType[Attribute]) -> list[Read]:
        """Returns, for each row of a block, what writes the load of neighbouring iterations as a vector."""
        ...

    def request(self, task: Task, part: Range, first: Value, block: ColumnBlock) -> None:
        """Writes requests for the rows of the block after the one from `first` on, before the products of `block`."""
        ...


def rows_of(product: Product, top: Block) -> PackedRows | RowsInPlace:
    """Returns how a product's schedule reads its rows."""
    return RowsInPlace(product) if product.schedule.direct_rows else PackedRows(product, top)


class RowsInPlace:
    """Rows that are elements of an operand with constant strides.

    Attributes:
        share: The elements of the next block's rows that are prefetched before each block of columns; 0 if they are
            near, long or not contiguous, or if all rows pass each block of columns.
    """

    def __init__(self, product: Product):
        self.product, self.share = product, _share(product)

    def prepare(self, task: Task, part: Range, first: Value) -> None:
        """Writes nothing."""

    def elements(self, task: Task, part: Range, first: Value) -> Elements:
        code, factor = task.code, self.product.row_factor(task.tile, part.start)
        indices = [factor.at_row(code, first + i) for i in range(self.product.schedule.rows)]

        def at(step: Value) -> Iterator[Value]:
            here = factor.at_step(code, step)
            return (factor.value(code, row, here) for row in indices)

        return at

    def lines(self, task: Task, part: Range, first: Value, kind: VectorType[Attribute]) -> list[Read]:
        factor = self.product.row_factor(task.tile, part.start)

        def line(i: int, step: Value) -> Value:
            return factor.vectors(task.code, first + i, step, [(0, kind)])[0]

        return [partial(line, i) for i in range(self.product.schedule.rows)]

    def request(self, task: Task, part: Range, first: Value, block: ColumnBlock) -> None:
        if not self.share:
            return
        code, factor = task.code, self.product.row_factor(task.tile, part.start)
        memory, start = factor.place(code, first + self.product.schedule.rows, code.number(0))
        number = block.first // self.product.schedule.columns
        start, line = start + number * self.share, LINE_BYTES // element_bytes(element_of(memory))

        def ask(at: Value) -> None:
            code.append(cpu.PrefetchOp(memory, (start + at * line).ssa))

        sequential(code, code.number(-(-self.share // line)), ask)


def _share(product: Product) -> int:
    """Returns the elements of the next block's rows that are prefetched before each block of columns."""
    schedule, factor = product.schedule, product.factors.row
    operand, strides = operand_of(factor), product.layouts[factor].strides
    if operand is None or strides is None or (strides.step, strides.side) != (1, product.depth):
        return 0
    buffer = cast("Buffer", product.stage.inputs[operand.index].type)
    share = -(-schedule.rows * product.depth // -(-schedule.tile_columns // schedule.columns))
    is_short = share * element_bytes(buffer.get_element_type()) <= MOST_ASKED_BYTES
    return share if buffer_bytes(buffer) >= FAR_BYTES and is_short and not schedule.by_columns else 0


class PackedRows:
    """Rows that are packed before each range of the reduction.

    Attributes:
        memory: The memory for a block of them.
    """

    def __init__(self, product: Product, top: Block):
        schedule, self.product = product.schedule, product
        depth, rows = product.packed_depth, schedule.rows
        pitch = depth if product.layouts[product.factors.row].along_steps else 0
        words = new_array(top, i32, rows * depth // 2) if schedule.pairs else None
        behind = schedule.lanes if schedule.along_steps and schedule.pitch else 0
        lanes = schedule.lanes if product.shortest >= 2 * schedule.lanes else 0
        numbers = new_array(top, product.element, rows * depth + behind)
        self.memory = Lines(numbers, rows, pitch, words, product.has_whole_pairs, lanes)

    def prepare(self, task: Task, part: Range, first: Value) -> None:
        """Packs the rows."""
        self.memory.pack(task.code, first, part.count, self.product.row_factor(task.tile, part.start))

    def elements(self, task: Task, part: Range, first: Value) -> Elements:
        return lambda step: (self.memory.element(task.code, i, step) for i in range(self.memory.rows))

    def lines(self, task: Task, part: Range, first: Value, kind: VectorType[Attribute]) -> list[Read]:
        def line(i: int, step: Value) -> Value:
            return task.code.vector(self.memory.memory, step + i * self.memory.pitch, kind)

        return [partial(line, i) for i in range(self.memory.rows)]

    def request(self, task: Task, part: Range, first: Value, block: ColumnBlock) -> None:
        """Writes nothing."""
