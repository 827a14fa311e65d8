"""Asks for the columns that are packed next while products are computed, which read no memory beyond the caches.

Requests are spread evenly over the iterations of the products: a core waits for few cache lines at a time, so many
requests at once would take as long as packing takes without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tensorgrad.dialects import cpu
from tensorgrad.passes.analyses.machine import LINE_BYTES
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value

FRACTION = 16
"""The bits behind the point in the number of lines that an iteration asks for."""


@dataclass(frozen=True)
class Lines:
    """The cache lines of a tile's columns in a range of the reduction, and the iterations in which they are asked for.

    Attributes:
        across: The number of runs of contiguous elements.
        stride: The elements from the first of a run to the first of the next.
        run: The elements of a run.
        size: The bytes of an element.
        blocks: The numbers of register blocks along the rows and the columns.
        steps: The iterations of a register block.
    """

    across: int
    stride: int
    run: int
    size: int
    blocks: tuple[int, int]
    steps: int

    def at(self, iteration: Value) -> Value:
        """Returns the element to ask for in an iteration of all register blocks, relative to the first column.

        Where there are more lines than iterations, some aren't asked for.
        """
        elements = LINE_BYTES // self.size
        lines = math.ceil(self.run / elements)
        rate = math.ceil((self.across * lines << FRACTION) / (math.prod(self.blocks) * self.steps))
        number = iteration * rate // (1 << FRACTION)
        return number // lines * self.stride + number % lines * elements if self.across > 1 else number * elements


@dataclass(frozen=True)
class Prefetch:
    """The columns that are asked for.

    Attributes:
        lines: Their cache lines.
        memory: The memory of their operand.
        start: The position of the first column there.
    """

    lines: Lines
    memory: SSAValue
    start: Value

    def in_block(self, code: Code, row: Value, column: Value) -> Callable[[Value], None]:
        """Returns what writes the request of an iteration of a register block, given its number in both directions."""
        before = (row * self.lines.blocks[1] + column) * self.lines.steps

        def write(iteration: Value) -> None:
            code.append(cpu.PrefetchOp(self.memory, (self.start + self.lines.at(before + iteration)).ssa))

        return write
