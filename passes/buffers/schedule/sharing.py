"""How kernels that share a dispatch agree on one workgroup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tensorgrad.dialects.schedule import (
    ContractionSchedule,
    Extents,
    GroupSchedule,
    Schedule,
    ThreadSchedule,
)
from tensorgrad.passes.buffers.schedule.thread import widened


def agreed(schedules: Sequence[Schedule], points: Sequence[int]) -> list[Schedule] | None:
    """Returns the schedules with a workgroup of equal extents, or `None` if there is none that suits them all.

    Contractions keep theirs, which must be one; the lanes of a `group` follow, and a `thread` may grow wider.

    Args:
        schedules: Those of kernels that would share a dispatch.
        points: How many points the grid of each has.
    """
    if any(one.attends for one in schedules):
        return None
    fixed = {one.workgroup for one in schedules if isinstance(one, ContractionSchedule)}
    rows = [one.workgroup for one in schedules if isinstance(one, GroupSchedule)]
    if len(fixed) > 1:
        return None
    workgroup = fixed.pop() if fixed else max(rows or (one.workgroup for one in schedules))
    lanes = math.prod(workgroup)
    if rows and lanes & (lanes - 1):
        return None  # lanes reduce by halves
    found = [_in_workgroup(one, workgroup, count) for one, count in zip(schedules, points, strict=True)]
    return None if None in found else [one for one in found if one is not None]


def _in_workgroup(schedule: Schedule, workgroup: Extents, points: int) -> Schedule | None:
    """Returns a schedule in another workgroup; `None` where it has fewer lanes, by which many points lose."""
    match schedule:
        case ThreadSchedule():
            return widened(schedule, workgroup, points) if schedule.lanes <= math.prod(workgroup) else None
        case GroupSchedule():
            return replace(schedule, workgroup=workgroup)
        case _:
            return schedule
