"""The archetype `thread`, for pointwise kernels, and many short rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects import memref

from tensorgrad.dialects.buf import KernelOp, is_shape_only, maps_of
from tensorgrad.dialects.schedule import ThreadSchedule, folded
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.kinds import is_pointwise
from tensorgrad.passes.analyses.machine import MOST_OPS, VECTOR, CpuModel, machine_of
from tensorgrad.passes.codegen.common.archetype import (
    Archetype,
    can_unroll,
    is_coalesced,
    iteration_cycles,
    longest_contiguous,
    own_iterations,
    unrolled_by,
    unrolled_size,
)
from tensorgrad.passes.codegen.wgsl.stages import Unrolling, vector_arguments
from tensorgrad.runtime.target import Target


class ThreadArchetype(Archetype[ThreadSchedule]):
    """Assigns each thread a grid point, or a few adjacent ones; supports every kernel except attention."""

    schedule = ThreadSchedule

    def default(self, kernel: KernelOp, target: Target) -> ThreadSchedule | None:
        if kernel.single is not None:
            return None
        machine, points = machine_of(target), math.prod(kernel.extents)
        if not isinstance(machine, CpuModel):
            if points < machine.many_points:
                return thread_schedule(points, machine.lanes, target)
            return thread_schedule(points, machine.point_lanes, target, VECTOR if takes_vectors(kernel) else 1)
        if points < machine.many_points:
            return thread_schedule(points, machine.lanes, target, steps=_unrolling(kernel, machine))
        width = next((width for width in (VECTOR, 2) if can_take_neighbours(kernel, width)), 1)
        return thread_schedule(points, machine.point_lanes, target, width, _unrolling(kernel, machine))

    def plainest(self, kernel: KernelOp, target: Target) -> ThreadSchedule | None:
        return thread_schedule(math.prod(kernel.extents), 64, target)

    def neighbours(self, schedule: ThreadSchedule, kernel: KernelOp, target: Target) -> Iterator[ThreadSchedule]:
        lanes, steps, points = schedule.workgroup[0], schedule.steps, math.prod(kernel.extents)
        for other in (lanes // 2, lanes * 2):
            if 1 <= other <= target.most_lanes:
                yield thread_schedule(points, other, target, schedule.width, steps)
        for width in (1, 2, VECTOR):
            if can_take_neighbours(kernel, width):
                yield thread_schedule(points, lanes, target, width)
        for factor in (1, VECTOR, 2 * VECTOR):
            if factor != steps and can_unroll(kernel, factor):
                yield thread_schedule(points, lanes, target, steps=factor)

    def cycles(
        self, schedule: ThreadSchedule, kernel: KernelOp, target: Target, machine: CpuModel, parts: int
    ) -> float:
        groups = -(-math.prod(kernel.extents) * parts // schedule.lanes)
        vectors = own_iterations(kernel) // parts * -(-schedule.lanes // machine.lanes)
        return -(-groups // machine.cores) * vectors * iteration_cycles(kernel, machine)

    def code_size(self, schedule: ThreadSchedule, kernel: KernelOp) -> int:
        return schedule.width * unrolled_size(kernel, schedule.steps)


def thread_schedule(points: int, lanes: int, target: Target, width: int = 1, steps: int = 1) -> ThreadSchedule:
    """Returns a schedule with workgroups of at most `lanes` threads that each compute `width` points."""
    lanes = min(lanes, target.most_lanes)
    groups = folded(-(-points // (lanes * width)), target.max_compute_workgroups_per_dimension)
    return ThreadSchedule(workgroup=(lanes, 1, 1), groups=groups, width=width, steps=steps)


def widened(schedule: ThreadSchedule, workgroup: tuple[int, int, int], points: int) -> ThreadSchedule:
    """Returns the schedule with another workgroup, for a dispatch that several kernels share."""
    groups = (-(-points // (math.prod(workgroup) * schedule.width)), 1, 1)
    return replace(schedule, workgroup=workgroup, groups=groups)


def _unrolling(kernel: KernelOp, machine: CpuModel) -> int:
    """Returns the unroll factor on a CPU: a vector, two vectors for long rows, and 1 for short ones."""
    if own_iterations(kernel) < machine.short_row:
        return 1
    longest = longest_contiguous(kernel)
    twice = longest >= machine.long_row and not is_coalesced(kernel)
    return unrolled_by(kernel, (2 * VECTOR, VECTOR) if twice else (VECTOR,))


def can_take_neighbours(kernel: KernelOp, width: int) -> bool:
    """Returns whether a thread can compute `width` adjacent points of a pointwise kernel, by repeating its body."""
    if not kernel.extents or kernel.extents[-1] % width or not is_pointwise(kernel):
        return False
    if 1 < width == kernel.extents[-1]:  # indices would be constants, which WGSL checks even in branches that never run
        return False
    return width * sum(len(list(stage.body.walk())) for stage in kernel.stages) <= MOST_OPS


def takes_vectors(kernel: KernelOp) -> bool:
    """Returns whether a thread can take a vector of adjacent points, and every access along them is a whole vector.

    Otherwise neighbouring lanes, each with several points, would access elements that are not adjacent.
    """
    if not can_take_neighbours(kernel, VECTOR) or any(isinstance(op, memref.LoadOp) for op in kernel.walk()):
        return False
    arguments, last = kernel.body.block.args, len(kernel.extents) - 1
    whole = vector_arguments(kernel, Unrolling(width=VECTOR), [0] * len(arguments))
    accesses = [access for stage in kernel.stages for access in zip(stage.operands, maps_of(stage), strict=True)]
    return all(
        buffer in whole or buffer not in arguments or last not in used_dims(m)
        for buffer, m in accesses
        if not is_shape_only(buffer)
    )
