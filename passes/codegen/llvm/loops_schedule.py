"""The archetype `loops`: native loops over grid points and rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.buf import (
    KernelOp,
    element_bytes,
    element_of,
    is_shape_only,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.native_schedules import LoopsSchedule
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.kinds import is_in_order
from tensorgrad.passes.analyses.machine import LINE_BYTES, NEAR_POINTS, TASK_WORK, CpuModel
from tensorgrad.passes.analyses.windows import plain_place, run_along
from tensorgrad.passes.codegen.common.archetype import (
    Archetype,
    has_own_loops,
    iteration_cycles,
    own_iterations,
)
from tensorgrad.passes.codegen.common.stage_loops import merged_loops
from tensorgrad.runtime.target import Target

LEAST_BLOCK, MOST_BLOCK = 4, 1 << 14
COUNTED_OPS = 64
"""The ops that count as one iteration in the work of a task."""

LEAST_ROW = 8
"""The shortest row to vectorize: shorter ones fill no vector, whereas adjacent points do, even if not contiguous."""


class LoopsArchetype(Archetype[LoopsSchedule]):
    """Runs blocks of adjacent points, or one point after another; supports every kernel of stages."""

    schedule = LoopsSchedule

    def default(self, kernel: KernelOp, target: Target) -> LoopsSchedule | None:
        if kernel.single is not None or not target.native:
            return None
        if _is_along_rows(kernel):
            return _of_work(kernel, 1)
        joined = _joined(kernel)
        last = math.prod(kernel.extents[-joined:])
        lines = _lines(kernel, joined)
        if 1 < lines < last:
            return _of_work(kernel, lines, joined, turned=1)
        return _of_work(kernel, min(last, _near_points(kernel)), joined)

    def neighbours(self, schedule: LoopsSchedule, kernel: KernelOp, target: Target) -> Iterator[LoopsSchedule]:
        joined = _joined(kernel)
        last = math.prod(kernel.extents[-joined:])
        for block in {1, *(min(last, width) for width in (schedule.block // 2, schedule.block * 2, NEAR_POINTS))}:
            if block >= 1 and block != schedule.block:
                yield _of_work(kernel, block, joined if block > 1 else 1)
        for blocks in (schedule.blocks // 2, schedule.blocks * 2):
            if 1 <= blocks <= schedule.blocks_over(kernel.extents):
                yield LoopsSchedule.of(kernel.extents, schedule.block, blocks, schedule.joined)

    def cycles(self, schedule: LoopsSchedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int) -> float:
        points = math.prod(kernel.extents) * own_iterations(kernel)
        # The parts of a split reduction are additional points, which make more tasks.
        tasks = min(schedule.groups[0] * parts, max(points // TASK_WORK, 1))
        return points / machine.lanes * iteration_cycles(kernel, machine) / min(tasks, machine.cores)


def _joined(kernel: KernelOp) -> int:
    """Returns how many of the grid's last loops all stages walk as one loop, at least 1."""
    grid = kernel.extents
    return min((len(merged_loops(stage, 0, grid)[-1]) for stage in kernel.stages if grid), default=1)


def _of_work(kernel: KernelOp, block: int, joined: int = 1, turned: int = 0) -> LoopsSchedule:
    """Returns the schedule whose tasks are long enough to amortize the overhead of a task."""
    iterations = (math.prod(loop_extents(stage)[len(kernel.extents) :]) * _length(stage) for stage in kernel.stages)
    work = block * max(sum(iterations), 1)
    return LoopsSchedule.of(kernel.extents, block, max(TASK_WORK // work, 1), joined, turned)


def _lines(kernel: KernelOp, joined: int) -> int:
    """Returns the points of a block whose lines of what is transposed stay in the L1 until they are read to their end.

    Transposed is an operand that the loop around blocks reads along its lines, and that a block reads across them.
    Blocks that follow each other along the loop around then read the same lines; longer ones need more lines, which
    for extents that are powers of two share few sets of the cache. It is 0 if nothing is transposed, or lines are
    read only a few times.
    """
    last, around = len(kernel.extents) - 1, len(kernel.extents) - joined - 1
    is_short = around < 0 or kernel.extents[around] < LEAST_ROW
    if is_short or any(has_own_loops(stage, kernel) for stage in kernel.stages):
        return 0
    across = [
        [
            element_bytes(element_of(buffer))
            for buffer, m in zip(stage.inputs, maps_of(stage), strict=False)
            if _moves_by_one(buffer, m, around)
            and abs(_stride(buffer, m, last)) * element_bytes(element_of(buffer)) >= LINE_BYTES
        ]
        for stage in kernel.stages
    ]
    if not all(across):  # the other stages would have shorter loops for nothing
        return 0
    return max(min(LINE_BYTES // max(widths) // len(widths) for widths in across), LEAST_BLOCK)


def _length(stage: GenericOp) -> int:
    """Returns the length of a stage's iteration in the unit of `TASK_WORK`, at least 1."""
    return max(sum(1 for _ in stage.body.walk()) // COUNTED_OPS, 1)


def _near_points(kernel: KernelOp) -> int:
    """Returns the points of a block: fewer if values are kept for another stage, or until the end of a sum."""
    alone = len(kernel.stages) == 1 and not has_own_loops(kernel.stages[0], kernel)
    return MOST_BLOCK if alone else NEAR_POINTS


def _is_along_rows(kernel: KernelOp) -> bool:
    """Returns whether more accesses are contiguous along the stages' innermost own loops than along the grid's.

    Reductions that keep an order don't count, as only neighbouring points of them fill a vector.
    """
    grid = kernel.extents
    if not grid or grid[-1] < LEAST_BLOCK:
        return any(has_own_loops(stage, kernel) for stage in kernel.stages)
    own = along_grid = 0
    for stage in kernel.stages:
        if not has_own_loops(stage, kernel) or is_in_order(stage):
            continue
        extents = loop_extents(stage)
        if _row(stage, len(grid)) < LEAST_ROW:
            continue
        for buffer, m in zip(stage.operands, maps_of(stage), strict=True):
            if is_shape_only(buffer) or not m.results or not used_dims(m) - set(range(len(grid))):
                continue
            points = math.prod(extents[loop] for loop in used_dims(m))
            own += points * _moves_by_one(buffer, m, len(extents) - 1)
            along_grid += points * _moves_by_one(buffer, m, len(grid) - 1)
    return own > along_grid


def _row(stage: GenericOp, rank: int) -> int:
    """Returns the length of a stage's rows: its innermost own loop, or several that are contiguous in an operand."""
    extents = loop_extents(stage)
    places = [
        plain_place(buffer, m, extents)
        for buffer, m in zip(stage.inputs, maps_of(stage), strict=False)
        if not is_shape_only(buffer)
    ]
    own = range(rank, len(extents))
    return max([extents[-1], *(run_along([place], own, extents[rank:]) for place in places if place is not None)])


def _moves_by_one(buffer: SSAValue, m: AffineMap, loop: int) -> bool:
    """Returns whether a loop's first step moves to the next element of a buffer."""
    return _stride(buffer, m, loop) == 1


def _stride(buffer: SSAValue, m: AffineMap, loop: int) -> int:
    """Returns by how many elements of a buffer a loop's first step moves."""
    strides = affine.strides(shape_of(buffer))
    zeros = [0] * m.num_dims
    before, after = m.eval(zeros, ()), m.eval([int(i == loop) for i in range(m.num_dims)], ())
    return sum(stride * (y - x) for stride, x, y in zip(strides, before, after, strict=True))
