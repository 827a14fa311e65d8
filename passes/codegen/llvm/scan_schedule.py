"""The archetype `scan`: running sums, products and extrema in native code."""

from __future__ import annotations

from collections.abc import Iterator

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ScanSchedule
from tensorgrad.passes.analyses.machine import TASK_WORK
from tensorgrad.passes.codegen.common.archetype import Archetype
from tensorgrad.passes.codegen.common.scans import scans_of
from tensorgrad.runtime.target import Target


class ScanArchetype(Archetype[ScanSchedule]):
    """Runs whole rows of points in each task, and each term of a reduction once in a row."""

    schedule = ScanSchedule

    def default(self, kernel: KernelOp, target: Target) -> ScanSchedule | None:
        scans = scans_of(kernel) if target.native else None
        if scans is None:
            return None
        loop = next(iter(scans.values())).direction.loop
        work = kernel.extents[loop] * sum(scan.step for scan in scans.values())
        return ScanSchedule.of(kernel.extents, loop, max(TASK_WORK // work, 1))

    def neighbours(self, schedule: ScanSchedule, kernel: KernelOp, target: Target) -> Iterator[ScanSchedule]:
        for rows in (schedule.rows // 2, schedule.rows * 2):
            if 1 <= rows <= schedule.rows_over(kernel.extents):
                yield ScanSchedule.of(kernel.extents, schedule.loop, rows)
