"""Builds a kernel's code: accesses to its buffers, and the numbers of its workgroups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.common.block_builder import BlockBuilder
from tensorgrad.passes.codegen.common.frame import Frame
from tensorgrad.passes.codegen.common.stage_loops import Loops, place_of
from tensorgrad.passes.scalars import Value


@dataclass(frozen=True)
class Binding:
    """The location of a kernel's buffer.

    Attributes:
        memory: The binding.
        start: The first element.
        moved: An additional offset in elements, computed at run time.
        in_place: Whether writes to it overwrite what lanes that share a point read.
    """

    memory: SSAValue
    start: int = 0
    moved: SSAValue | None = None
    in_place: bool = False


class Code(BlockBuilder):
    """Appends ops to a `wgsl.kernel` or a `cpu.kernel`.

    Attributes:
        bindings: The location of each buffer of the kernel.
        frame: The kernel's workgroups, and their memory.
    """

    def __init__(self, block: Block, bindings: Mapping[SSAValue, Binding], frame: Frame):
        super().__init__(block)
        self.bindings = bindings
        self.frame = frame

    def with_bindings(self, bindings: Mapping[SSAValue, Binding]) -> Code:
        """Returns code in the same block, of a kernel with these bindings."""
        code = Code(self.block, bindings, self.frame)
        code.share_numbers(self)
        return code

    # The dispatch

    def group(self, dim: int) -> Value:
        """Returns the index of this workgroup among the kernel's, in one dimension."""
        number, extent = self.frame.number, self.frame.groups[dim]
        if number is None:
            return self.add(wgsl.WorkgroupIdOp(dim))
        before = math.prod(self.frame.groups[:dim])
        if extent == 1:
            return self.number(0)
        last = math.prod(self.frame.groups[dim:]) == extent
        inner = self.value(number) // before
        return inner if last else inner % extent

    def concealed(self, value: int) -> Value:
        """Returns an index constant hidden from the drivers of CPUs, so that they don't unroll loops up to it."""
        if not self.frame.software:
            return self.number(value)
        # No dispatch has 2^31 workgroups in one dimension.
        none = self.add(wgsl.WorkgroupIdOp(0)) >> 31
        return self.number(value) + none

    # Buffers

    def position(self, results: Sequence[AffineExpr], buffer: SSAValue, loops: Loops) -> Value:
        """Returns the linear index of an element, for an index map's results over a stage's loops."""
        return self._moved(place_of(results, buffer, self.bindings[buffer].start, loops), buffer, loops)

    def position_at(self, linear: affine.Linear, buffer: SSAValue, loops: Loops) -> Value:
        """Returns the linear index of an element, given as a linear form over a stage's loops."""
        placed = linear.expression().replace_dims_and_symbols(loops.expressions, ())
        start = affine.Linear(constant=self.bindings[buffer].start)
        return self._moved(affine.linear(placed, loops.extents).plus(start), buffer, loops)

    def _moved(self, linear: affine.Linear, buffer: SSAValue, loops: Loops) -> Value:
        """Emits an index in a buffer, plus the buffer's run-time offset."""
        at, moved = self.place(linear, loops), self.bindings[buffer].moved
        return at if moved is None else self.value(moved) + at

    def load(self, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> Value:
        """Loads an element at an index map."""
        at = self.position(results, buffer, loops)
        return self.element(self.bindings[buffer].memory, at)

    def store(self, value: Value, buffer: SSAValue, results: Sequence[AffineExpr], loops: Loops) -> None:
        """Stores an element at an index map."""
        at = self.position(results, buffer, loops)
        self.put(value, self.bindings[buffer].memory, at)
