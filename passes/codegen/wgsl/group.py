"""Writes kernels of the archetype `group`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType, f32, i32
from xdsl.ir import SSAValue

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import GroupSchedule
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_loops import own_loops
from tensorgrad.passes.codegen.common.unrolled_loops import UnrolledLoop
from tensorgrad.passes.codegen.wgsl.stages import StageWriter, Unrolling
from tensorgrad.passes.scalars import Value

MOST_AT_ONCE = 8
"""The most values that a lane combines between two barriers: 256 lanes need three barriers, not nine."""


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

    def runs_once(self, loop: UnrolledLoop) -> bool:
        return loop.extent - loop.start == (1 if loop.lanes > 1 else self.unrolling.lanes)


def fold_lanes(
    code: Code, reductions: Sequence[Reduction], partial: Sequence[Value], lane: Value, lanes: int
) -> list[Value]:
    """Returns the tree reduction of all lanes' values through workgroup memory, in every lane.

    The tree halves the values: lane `i` of one half combines its value with that of lane `i` of the other. Its shape
    doesn't depend on the device, and so neither do the bits of sums. Several levels are combined between two barriers;
    the last ones by each subgroup, whose lanes exchange values, or by each lane alone.
    """
    shared: list[SSAValue] = []
    for reduction, value in zip(reductions, partial, strict=True):
        memory = code.frame.array(code.block, MemRefType(reduction.element, [lanes]))
        code.put(value, memory, lane)
        shared.append(memory)
    subgroup = _subgroup(code, reductions, lanes)
    width = lanes
    while width > MOST_AT_ONCE * subgroup:
        code.block.add_op(wgsl.BarrierOp())
        width //= MOST_AT_ONCE

        def fold(width: int = width) -> None:
            for reduction, memory in zip(reductions, shared, strict=True):
                code.put(_fold_column(code, reduction, memory, lane, width, MOST_AT_ONCE), memory, lane)

        code.when(lane < width, fold)
    code.block.add_op(wgsl.BarrierOp())
    column = code.number(0) if subgroup == 1 else code.add(wgsl.SubgroupLaneOp()) % subgroup
    values = [
        _fold_column(code, reduction, memory, column, subgroup, width // subgroup)
        for reduction, memory in zip(reductions, shared, strict=True)
    ]
    while subgroup > 1:
        subgroup //= 2
        others = [code.add(wgsl.SubgroupShuffleXorOp(value.ssa, subgroup)) for value in values]
        values = [
            code.apply(type(reduction.combine), mine, other)
            for reduction, mine, other in zip(reductions, values, others, strict=True)
        ]
    return values


def _subgroup(code: Code, reductions: Sequence[Reduction], lanes: int) -> int:
    """Returns the number of lanes that exchange values without barriers, a power of two; 1 if none can."""
    size = code.frame.subgroup
    can_exchange = all(reduction.element in (f32, i32) for reduction in reductions)
    return size if can_exchange and lanes % size == 0 and not size & (size - 1) else 1


def _fold_column(code: Code, reduction: Reduction, memory: SSAValue, column: Value, stride: int, count: int) -> Value:
    """Returns the tree reduction of every `stride`-th element from `column` on; `count` is a power of two."""
    values = [code.element(memory, column + number * stride if number else column) for number in range(count)]
    while len(values) > 1:
        half = len(values) // 2
        pairs = zip(values[:half], values[half:], strict=True)
        values = [code.apply(type(reduction.combine), mine, other) for mine, other in pairs]
    return values[0]
