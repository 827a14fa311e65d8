"""Writes kernels of the archetype `group`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import GroupSchedule
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.reductions import Reduction, reductions_of
from tensorgrad.passes.codegen.common.stage_loops import own_loops
from tensorgrad.passes.codegen.common.unrolled_loops import UnrolledLoop
from tensorgrad.passes.codegen.wgsl.stages import StageWriter, Unrolling
from tensorgrad.passes.scalars import Value


def write_group(kernel: KernelOp, schedule: GroupSchedule, code: Code) -> None:
    """Writes a kernel with one workgroup per point, whose lanes share own loops and reduce through workgroup memory.

    In an iteration of an unrolled loop, each lane takes several contiguous steps, adjacent to its neighbors'.
    """
    _Group(kernel, code, Unrolling.of(schedule)).write()


class _Group(StageWriter):
    """The code of a lane of a workgroup that computes one point."""

    def __init__(self, kernel: KernelOp, code: Code, unrolling: Unrolling):
        super().__init__(kernel, code, code.group(0), unrolling)
        self.lane = code.add(wgsl.LocalIndexOp())
        self.first = self.lane.equals(0)

    def write(self) -> None:
        """Writes all stages."""
        code, points = self.code, self.points
        for stage in self.kernel.stages:
            parallel, reduced = own_loops(self.kernel, stage)
            in_place = any(code.bindings[o].in_place for o in stage.outputs if o in self.kernel.output_arguments)
            if parallel:
                if in_place:
                    self.fence()
                self.over(code, points, parallel, [], 0, lambda sites, _, s=stage: self.compute(code, s, sites))
                continue
            results = self.reduced(code, stage, points, reduced) if reduced else self.values(code, stage, [points])
            values = results[0]
            if reduced:
                values = fold_lanes(code, reductions_of(stage), values, self.lane, self.unrolling.lanes)
            self.known[0].update(zip(stage.outputs, values, strict=True))
            if in_place:
                self.fence()
            code.when(self.first, lambda s=stage, v=values: self.store(code, s, [points], [v]))

    def fence(self) -> None:
        """Emits a barrier, so that every lane reads the old values before any lane writes."""
        self.code.block.add_op(wgsl.BarrierOp(storage=True))

    def bases(self, at: Value, loop: UnrolledLoop) -> list[Value]:
        return [at, self.lane] if loop.lanes > 1 else [at]

    def range(self, code: Code, loop: UnrolledLoop) -> tuple[Value, int]:
        if loop.lanes > 1:
            return super().range(code, loop)
        return self.lane + loop.start, self.unrolling.lanes


def fold_lanes(
    code: Code, reductions: Sequence[Reduction], partial: Sequence[Value], lane: Value, lanes: int
) -> list[Value]:
    """Returns the tree reduction of all lanes' values through workgroup memory."""
    shared: list[SSAValue] = []
    for reduction, value in zip(reductions, partial, strict=True):
        memory = code.frame.array(code.block, MemRefType(reduction.element, [lanes]))
        code.put(value, memory, lane)
        shared.append(memory)
    width = lanes // 2
    while width:
        code.block.add_op(wgsl.BarrierOp())

        def fold(width: int = width) -> None:
            for reduction, memory in zip(reductions, shared, strict=True):
                mine = code.element(memory, lane)
                other = code.element(memory, lane + width)
                code.put(code.apply(type(reduction.combine), mine, other), memory, lane)

        code.when(lane < width, fold)
        width //= 2
    code.block.add_op(wgsl.BarrierOp())
    return [code.element(memory, code.number(0)) for memory in shared]
