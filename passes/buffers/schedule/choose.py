"""Which schedule a kernel gets by default."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir.affine import AffineDimExpr

from tensorgrad.dialects.buf import (
    KernelOp,
    element_of,
    is_reduction,
    is_shape_only,
    iterators_of,
    loop_extents,
    maps_of,
    shape_of,
)
from tensorgrad.dialects.schedule import Schedule, folded
from tensorgrad.passes.analyses.affine import used_dims
from tensorgrad.passes.analyses.kinds import contraction_of, is_pointwise
from tensorgrad.passes.buffers.schedule.attention import attention_schedule
from tensorgrad.passes.buffers.schedule.contraction import GPU_LANES, SOFTWARE_LANES, VECTOR, contraction_schedule
from tensorgrad.runtime.target import Target

MANY_POINTS = 1 << 14
"""On a CPU, threads of so many points take several each: indices and shared loads cost as much as the points."""

LARGEST_BODY = 400
"""A thread has so many operations at most to take several points or steps: drivers compile long kernels for long."""

SHORT_ROW = 16
"""Threads take shorter rows step by step: turns would save less than drivers take to compile them."""

LONG_ROW = 256
"""Threads take two vectors in a turn of rows that are so long."""


def choose(kernel: KernelOp, target: Target) -> Schedule:
    """The default schedule of a kernel on a target."""
    if kernel.attention is not None:
        return attention_schedule(kernel.attention, target)
    stage = contraction_of(kernel)
    if stage is not None:
        found = contraction_schedule(kernel, stage, target)
        if found is not None:
            return found
    total = math.prod(kernel.extents)
    own = own_steps(kernel)
    if _wants_group(kernel, total, own, target):
        lanes = _lanes(own, target)
        return Schedule("group", (lanes, 1, 1), (total, 1, 1), steps=_steps(kernel, target, lanes))
    lanes = SOFTWARE_LANES if target.software and total < MANY_POINTS else GPU_LANES
    lanes = min(lanes, target.max_compute_invocations_per_workgroup)
    width = _neighbours(kernel) if target.software and total >= MANY_POINTS else 1
    steps = _steps(kernel, target) if target.software else 1
    return Schedule(
        "thread",
        (lanes, 1, 1),
        folded(-(-total // (lanes * width)), target.max_compute_workgroups_per_dimension),
        width=width,
        steps=steps,
    )


def _steps(kernel: KernelOp, target: Target, lanes: int = 0) -> int:
    """How many steps of its loops a thread takes in a turn: a vector, on a CPU two vectors of long rows."""
    longest = max((loop_extents(stage)[-1] for stage in kernel.stages if _reads_along(stage, kernel)), default=0)
    if (lanes and not longest) or (not lanes and own_steps(kernel) < SHORT_ROW):
        return 1
    if not target.software and not all(_reads_vectors(stage, kernel) for stage in kernel.stages):
        return 1  # lanes that read single elements had better read neighbouring ones
    across = not longest or _reads_across(kernel)
    found = (2 * VECTOR, VECTOR) if target.software and longest >= LONG_ROW and not across else (VECTOR,)
    return next((steps for steps in found if can_take_steps(kernel, steps, lanes)), 1)


def _reads_along(stage: GenericOp, kernel: KernelOp) -> bool:
    """Whether the steps of a stage's innermost own loop are side by side in an operand."""
    innermost = len(loop_extents(stage)) - 1
    if innermost < len(kernel.extents):
        return False
    return any(m.results and m.results[-1] == AffineDimExpr(innermost) for m in maps_of(stage))


def _reads_vectors(stage: GenericOp, kernel: KernelOp) -> bool:
    """Whether what a stage reads and writes along its innermost own loop may be vectors."""
    innermost = len(loop_extents(stage)) - 1
    if innermost < len(kernel.extents):
        return True
    along = [
        operand
        for operand, m in zip(stage.operands, maps_of(stage), strict=True)
        if not is_shape_only(operand) and m.results and innermost in used_dims(m)
    ]
    return all(element_of(one) == f32 and shape_of(one)[-1] % VECTOR == 0 for one in along)


def can_take_steps(kernel: KernelOp, steps: int, lanes: int = 0) -> bool:
    """Whether a thread can take so many steps in a turn: of stages with loops of their own, whose bodies it repeats.

    Args:
        kernel: What it runs.
        steps: How many.
        lanes: How many threads share each point; 0 where a thread has it to itself, and two turns at least.
    """
    rank = len(kernel.extents)
    stages = [stage for stage in kernel.stages if len(loop_extents(stage)) > rank]
    turns = [math.prod(loop_extents(s)[rank:]) // lanes if lanes else loop_extents(s)[-1] // 2 for s in stages]
    if steps > max(turns, default=0) and steps > 1:
        return False
    return steps * sum(len(list(stage.body.walk())) for stage in stages) <= LARGEST_BODY


def _neighbours(kernel: KernelOp) -> int:
    """How many points a thread takes on a CPU."""
    return next((width for width in (VECTOR, 2) if can_take_neighbours(kernel, width)), 1)


def can_take_neighbours(kernel: KernelOp, width: int) -> bool:
    """Whether a thread can take so many points side by side: of pointwise kernels, whose bodies it repeats."""
    if not kernel.extents or kernel.extents[-1] % width or not is_pointwise(kernel):
        return False
    if 1 < width == kernel.extents[-1]:  # Indices would be constants, which WGSL refuses in branches that never run.
        return False
    return width * sum(len(list(stage.body.walk())) for stage in kernel.stages) <= LARGEST_BODY


def own_steps(kernel: KernelOp) -> int:
    """The most steps that a stage has at one grid point."""
    return max((math.prod(loop_extents(s)[len(kernel.extents) :]) for s in kernel.stages), default=1)


def _lanes(own: int, target: Target) -> int:
    """How many lanes share a grid point: on a CPU one vector, which then reads all of a row in order."""
    limit = min(target.max_compute_invocations_per_workgroup, SOFTWARE_LANES if target.software else 256)
    lanes = 1  # a power of two: lanes fold by halves
    while lanes * 2 <= min(limit, max(own, SOFTWARE_LANES)):
        lanes *= 2
    return lanes


def _wants_group(kernel: KernelOp, total: int, own: int, target: Target) -> bool:
    """Whether a workgroup should share each grid point: few points, or long rows on a GPU."""
    if own < SOFTWARE_LANES or not can_group(kernel, _lanes(own, target), target):
        return False
    if target.software:
        return total < 2 * SOFTWARE_LANES
    return total < 1024 or (own >= GPU_LANES and not _reads_across(kernel))


def can_group(kernel: KernelOp, lanes: int, target: Target) -> bool:
    """Whether a workgroup of so many lanes can share each grid point."""
    if math.prod(kernel.extents) > target.max_compute_workgroups_per_dimension:
        return False
    if any(_mixes_loops(stage, len(kernel.extents)) for stage in kernel.stages):
        return False
    folds = sum(len(stage.outputs) for stage in kernel.stages if is_reduction(stage))
    return folds * lanes * 8 <= target.max_compute_workgroup_storage_size


def _mixes_loops(stage: GenericOp, rank: int) -> bool:
    """Whether a stage has both parallel and reduction loops of its own."""
    return len(set(iterators_of(stage)[rank:])) > 1


def _reads_across(kernel: KernelOp) -> bool:
    """Whether neighbouring grid points read neighbouring elements: then a thread a point reads in order already."""
    rank = len(kernel.extents)
    for stage in kernel.stages:
        for operand, m in zip(stage.inputs, maps_of(stage), strict=False):
            if is_shape_only(operand) or not m.results or not used_dims(m) - set(range(rank)):
                continue
            last = m.results[-1]
            if isinstance(last, AffineDimExpr) and last.position == rank - 1:
                return True
    return False
