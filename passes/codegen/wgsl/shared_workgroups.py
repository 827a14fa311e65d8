"""Unifies the workgroups of kernels that share a dispatch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tensorgrad.dialects.dispatched import Extents
from tensorgrad.dialects.schedule import ContractionSchedule, GroupSchedule, Schedule, ThreadSchedule
from tensorgrad.passes.analyses.machine import GPU
from tensorgrad.passes.codegen.wgsl.thread_schedule import widened


def agreed(schedules: Sequence[Schedule], points: Sequence[int]) -> list[Schedule] | None:
    """Returns the schedules with a workgroup of equal extents, or `None` if no workgroup suits all of them.

    Contractions keep their workgroup, which must be the same for all of them. `group` schedules adopt it, and `thread`
    schedules may grow, or shrink to the lanes of few points.

    Args:
        schedules: The schedules of kernels that would share a dispatch.
        points: The number of grid points of each kernel.
    """
    if any(schedule.single for schedule in schedules):
        return None
    fixed = {schedule.workgroup for schedule in schedules if isinstance(schedule, ContractionSchedule)}
    rows = [schedule.workgroup for schedule in schedules if isinstance(schedule, GroupSchedule)]
    if len(fixed) > 1:
        return None
    workgroup = fixed.pop() if fixed else max(rows or (schedule.workgroup for schedule in schedules))
    lanes = math.prod(workgroup)
    if rows and lanes & (lanes - 1):
        return None  # the tree reduction needs a power of two
    in_workgroups = [
        _in_workgroup(schedule, workgroup, count) for schedule, count in zip(schedules, points, strict=True)
    ]
    return (
        None if None in in_workgroups else [in_workgroup for in_workgroup in in_workgroups if in_workgroup is not None]
    )


def _in_workgroup(schedule: Schedule, workgroup: Extents, points: int) -> Schedule | None:
    """Returns a schedule with another workgroup, or `None` if a `thread` schedule would get too few lanes."""
    match schedule:
        case ThreadSchedule():
            fits = min(schedule.lanes, GPU.lanes) <= math.prod(workgroup)
            return widened(schedule, workgroup, points) if fits else None
        case GroupSchedule():
            return replace(schedule, workgroup=workgroup)
        case _:
            return schedule
