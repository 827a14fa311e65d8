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
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.scalars import Value

FRACTION = 32
"""The bits behind the point in the number of runs that an iteration asks for."""


@dataclass(frozen=True)
class Runs:
    """The runs of contiguous elements of a tile's columns in a range of the reduction, and when they are asked for.

    Attributes:
        count: The number of runs.
        stride: The elements from the first of a run to the first of the next.
        length: The elements of a run.
        blocks: The numbers of register blocks along the rows and the columns.
        steps: The iterations of a register block.
    """

    count: int
    stride: int
    length: int
    blocks: tuple[int, int]
    steps: int

    def at(self, iteration: Value) -> Value:
        """Returns the element to ask for in an iteration of all register blocks, relative to the first column.

        Iterations are so many that most cache lines are met, and the code has no division: it is in the inmost loop.
        """
        whole = 1 << FRACTION
        runs = iteration * math.ceil((self.count << FRACTION) / (math.prod(self.blocks) * self.steps))
        return runs // whole * self.stride + runs % whole * self.length // whole


@dataclass(frozen=True)
class Prefetch:
    """The columns that are asked for.

    Attributes:
        runs: The runs of them that are contiguous.
        memory: The memory of their operand.
        start: The position of the first column there.
    """

    runs: Runs
    memory: SSAValue
    start: Value

    def in_block(self, code: Code, row: Value, column: Value) -> Callable[[Value], None]:
        """Returns what writes the request of an iteration of a register block, given its number in both directions."""
        before = (row * self.runs.blocks[1] + column) * self.runs.steps

        def write(iteration: Value) -> None:
            code.append(cpu.PrefetchOp(self.memory, (self.start + self.runs.at(before + iteration)).ssa))

        return write
