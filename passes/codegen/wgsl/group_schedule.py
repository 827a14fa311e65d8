"""The archetype `group`, for few points, or long rows on a GPU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute

from tensorgrad.dialects.buf import KernelOp, element_of, is_reduction, iterators_of
from tensorgrad.dialects.schedule import GroupSchedule
from tensorgrad.passes.analyses.kinds import is_in_order
from tensorgrad.passes.analyses.machine import VECTOR, CpuModel, GpuModel, machine_of
from tensorgrad.passes.codegen.common.archetype import (
    Archetype,
    can_unroll,
    is_coalesced,
    is_vectorizable,
    iteration_cycles,
    longest_contiguous,
    own_iterations,
    unrolled_by,
    unrolled_size,
)
from tensorgrad.runtime.target import Target

FEWEST_ITERATIONS = 8
"""The fewest iterations of a row that lanes share."""

FEWEST_LANES = 32
"""The fewest lanes, on a GPU, that take vectors of a row instead of twice or four times as many that take elements."""


class GroupArchetype(Archetype[GroupSchedule]):
    """Assigns each grid point a workgroup, whose lanes share the row, in vectors where possible."""

    schedule = GroupSchedule

    def default(self, kernel: KernelOp, target: Target) -> GroupSchedule | None:
        machine, own = machine_of(target), own_iterations(kernel)
        if own < FEWEST_ITERATIONS:
            return None
        lanes = _lanes(own, machine, target)
        if isinstance(machine, GpuModel) and own >= VECTOR * FEWEST_LANES:
            fewer = min(lanes, _lanes(own // VECTOR, machine, target))
            lanes = fewer if _unrolling(kernel, machine, fewer) > 1 else lanes
        if not can_group(kernel, lanes, target) or not _is_wanted(kernel, own, machine):
            return None
        return group_schedule(kernel, lanes, _unrolling(kernel, machine, lanes))

    def plainest(self, kernel: KernelOp, target: Target) -> GroupSchedule | None:
        lanes = min(64, target.most_lanes)
        fits = own_iterations(kernel) > 1 and can_group(kernel, lanes, target)
        return group_schedule(kernel, lanes) if fits else None

    def neighbours(self, schedule: GroupSchedule, kernel: KernelOp, target: Target) -> Iterator[GroupSchedule]:
        lanes, limit = schedule.workgroup[0], target.most_lanes
        for other in (lanes // 2, lanes * 2):
            if 1 <= other <= limit and can_group(kernel, other, target):
                yield group_schedule(kernel, other, schedule.steps)
        for factor in (1, VECTOR, 2 * VECTOR):
            if factor != schedule.steps and can_unroll(kernel, factor, lanes):
                yield group_schedule(kernel, lanes, factor)

    def cycles(self, schedule: GroupSchedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int) -> float:
        points, iterations = math.prod(kernel.extents), own_iterations(kernel)
        vectors = -(-iterations // (parts * machine.lanes))
        return -(-points * parts // machine.cores) * vectors * iteration_cycles(kernel, machine)

    def code_size(self, schedule: GroupSchedule, kernel: KernelOp) -> int:
        return unrolled_size(kernel, schedule.steps)

    def workgroup_arrays(self, schedule: GroupSchedule, kernel: KernelOp) -> Counter[tuple[Attribute, int]]:
        reductions = [stage for stage in kernel.stages if is_reduction(stage)]
        return Counter((element_of(output), schedule.lanes) for stage in reductions for output in stage.outputs)


def group_schedule(kernel: KernelOp, lanes: int, steps: int = 1) -> GroupSchedule:
    """Returns the schedule of a workgroup of `lanes` for each point of a kernel's grid."""
    return GroupSchedule(workgroup=(lanes, 1, 1), groups=(math.prod(kernel.extents), 1, 1), steps=steps)


def _lanes(own: int, machine: CpuModel | GpuModel, target: Target) -> int:
    """Returns the number of lanes per grid point; on a CPU at most one vector, which reads the row in order."""
    most = machine.row_lanes if isinstance(machine, GpuModel) else machine.lanes
    limit = min(target.most_lanes, most)
    lanes = 1  # a power of two, for the tree reduction
    while lanes * 2 <= min(limit, own):
        lanes *= 2
    return lanes


def _is_wanted(kernel: KernelOp, own: int, machine: CpuModel | GpuModel) -> bool:
    """Returns whether each grid point should get a workgroup: if there are few points, or rows are long on a GPU."""
    points = math.prod(kernel.extents)
    if isinstance(machine, CpuModel):
        return points < 2 * machine.lanes
    return points < machine.few_points or (own >= machine.long_row and not is_coalesced(kernel))


def _unrolling(kernel: KernelOp, machine: CpuModel | GpuModel, lanes: int) -> int:
    """Returns the unroll factor: a vector if rows are contiguous, and two vectors for long rows on a CPU."""
    longest = longest_contiguous(kernel)
    if not longest:
        return 1
    if isinstance(machine, GpuModel):  # without vectors, lanes should read adjacent elements
        return unrolled_by(kernel, (VECTOR,), lanes) if all(is_vectorizable(s, kernel) for s in kernel.stages) else 1
    twice = longest >= machine.long_row and not is_coalesced(kernel)
    return unrolled_by(kernel, (2 * VECTOR, VECTOR) if twice else (VECTOR,), lanes)


def can_group(kernel: KernelOp, lanes: int, target: Target) -> bool:
    """Returns whether a workgroup of `lanes` lanes can share each grid point."""
    if math.prod(kernel.extents) > target.max_compute_workgroups_per_dimension:
        return False
    if any(_mixes_loops(stage, len(kernel.extents)) or is_in_order(stage) for stage in kernel.stages):
        return False
    folds = sum(len(stage.outputs) for stage in kernel.stages if is_reduction(stage))
    return folds * lanes * 8 <= target.max_compute_workgroup_storage_size


def _mixes_loops(stage: GenericOp, rank: int) -> bool:
    """Returns whether a stage has both parallel and reduction loops of its own."""
    return len(set(iterators_of(stage)[rank:])) > 1
