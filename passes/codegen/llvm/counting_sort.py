"""Writes kernels of the archetype `counting_sort`: rows whose positions are placed by counting.

The counts lie where the starts will: `starts[k + 2]` counts bucket k. Their running sum leaves the start of bucket k at
`starts[k + 1]`, which grows with each position that is placed, up to the start of the next bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.counting_sort import CountingSortOp
from tensorgrad.dialects.native_schedules import CountingSortSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.codegen.llvm.loop_kinds import parallel, sequential
from tensorgrad.passes.codegen.llvm.scratch import new_array
from tensorgrad.passes.scalars import Value


def write_counting_sort(
    kernel: KernelOp, schedule: CountingSortSchedule, code: Code, first: Value, last: Value
) -> None:
    """Writes a loop over the rows of the tasks in [`first`, `last`)."""
    stage = kernel.counting_sort
    assert stage is not None  # guaranteed by the kernel's verifier
    scratch = new_array(code.block, i32, stage.buckets + 2) if stage.starts is None else None
    stop = (last * schedule.rows).at_most(stage.extents[0])
    sequential(code, stop, lambda row: _Row(stage, code, row, scratch).write(), start=first * schedule.rows)


@dataclass(frozen=True)
class _Row:
    """One row of a counting sort.

    Attributes:
        stage: The sort.
        code: Where to write.
        row: The number of the row.
        scratch: Memory for the starts, if they are no result.
    """

    stage: CountingSortOp
    code: Code
    row: Value
    scratch: SSAValue | None

    def write(self) -> None:
        """Writes the steps of the sort."""
        code, buckets = self.code, self.stage.buckets
        positions, zero = code.number(self.stage.extents[1]), code.constant(0, i32)
        parallel(code, code.number(buckets + 2), None, lambda at: self._put_start(zero, at))
        sequential(code, positions, self._count)
        code.loop(buckets + 2, [zero], self._sum, start=code.number(2))
        sequential(code, positions, self._place)

    def _count(self, position: Value) -> None:
        bucket = self._bucket(position)

        def count() -> None:
            self._increase(bucket + 2)

        self.code.when(bucket < self.stage.buckets, count)

    def _sum(self, at: Value, held: Sequence[Value]) -> list[Value]:
        total = held[0] + self._start(at)
        self._put_start(total, at)
        return [total]

    def _place(self, position: Value) -> None:
        most = self.stage.extents[1] - 1  # so that places are seen to lie within the row
        place = self._increase(self._bucket(position) + 1).as_index().at_most(most)
        loops = self._loops(place, self.stage.extents[1])
        self.code.store(position.cast(arith.IndexCastOp, i32), self.stage.order, affine.dims(2), loops)

    def _increase(self, at: Value) -> Value:
        """Adds 1 to a start, and returns its old value."""
        old = self._start(at)
        self._put_start(old + 1, at)
        return old

    def _bucket(self, position: Value) -> Value:
        loops = self._loops(position, self.stage.extents[1])
        number = self.code.load(self.stage.numbers, self.stage.map.data.results, loops)
        number = number if number.type == i64 else number.cast(arith.ExtUIOp, i64)
        return number.as_index().at_most(self.stage.buckets)

    # The starts

    def _start(self, at: Value) -> Value:
        if self.scratch is not None:
            return self.code.element(self.scratch, at)
        assert self.stage.starts is not None
        return self.code.load(self.stage.starts, affine.dims(2), self._loops(at, self.stage.buckets + 2))

    def _put_start(self, value: Value, at: Value) -> None:
        if self.scratch is not None:
            self.code.put(value, self.scratch, at)
        else:
            assert self.stage.starts is not None
            self.code.store(value, self.stage.starts, affine.dims(2), self._loops(at, self.stage.buckets + 2))

    def _loops(self, at: Value, width: int) -> Loops:
        """Returns the loops over the rows of a matrix and their `width` elements."""
        return Loops((self.row, at), (self.stage.extents[0], width), tuple(affine.dims(2)))
