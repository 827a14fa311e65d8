"""The archetype `counting_sort`: counting sorts in native code."""

from __future__ import annotations

from collections.abc import Iterator

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import CountingSortSchedule
from tensorgrad.passes.analyses.machine import TASK_WORK
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.runtime.target import Target


class CountingSortArchetype(Archetype[CountingSortSchedule]):
    """Sorts whole rows in each task."""

    schedule = CountingSortSchedule

    def default(self, kernel: KernelOp, target: Target) -> CountingSortSchedule | None:
        sort = kernel.counting_sort
        if sort is None or not target.native:
            return None
        rows, positions = sort.extents
        return CountingSortSchedule.of(sort.grid, min(max(TASK_WORK // (positions + sort.buckets), 1), rows))

    def neighbours(
        self, schedule: CountingSortSchedule, kernel: KernelOp, target: Target
    ) -> Iterator[CountingSortSchedule]:
        for rows in (schedule.rows // 2, schedule.rows * 2):
            if 1 <= rows <= kernel.extents[0]:
                yield CountingSortSchedule.of(kernel.extents, rows)
