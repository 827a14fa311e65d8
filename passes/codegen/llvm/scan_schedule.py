"""The archetype `scan`: running sums, products and extrema in native code."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import ScanSchedule
from tensorgrad.passes.analyses.machine import TASK_WORK
from tensorgrad.passes.codegen.common.archetype import Archetype, body_size
from tensorgrad.passes.codegen.common.scans import scans_of
from tensorgrad.runtime.target import Target

APART, NEIGHBOURS = 4, 16
"""The rows that hide the latency of a sum, and those that fill a cache line if they are neighbours in memory."""

MOST_ABREAST_OPS = 512
"""The most ops that the rows of a strip have at a point, unless it is a single row."""


class ScanArchetype(Archetype[ScanSchedule]):
    """Runs whole strips of rows in each task, and takes each term of a reduction once in a row."""

    schedule = ScanSchedule

    def default(self, kernel: KernelOp, target: Target) -> ScanSchedule | None:
        scans = scans_of(kernel) if target.native else None
        if scans is None:
            return None
        loop = next(iter(scans.values())).direction.loop
        work = kernel.extents[loop] * sum(scan.step for scan in scans.values())
        widest = APART if loop == len(kernel.extents) - 1 else NEIGHBOURS
        most = min(widest, MOST_ABREAST_OPS // sum(body_size(stage) for stage in kernel.stages))
        rows = math.prod(kernel.extents) // kernel.extents[loop]
        abreast = next((number for number in range(most, 1, -1) if rows % number == 0), 1)
        return ScanSchedule.of(kernel.extents, loop, abreast, max(TASK_WORK // (work * abreast), 1))

    def neighbours(self, schedule: ScanSchedule, kernel: KernelOp, target: Target) -> Iterator[ScanSchedule]:
        for abreast in (schedule.abreast // 2, schedule.abreast * 2):
            if abreast and (math.prod(kernel.extents) // kernel.extents[schedule.loop]) % abreast == 0:
                yield ScanSchedule.of(kernel.extents, schedule.loop, abreast, schedule.strips)
        for strips in (schedule.strips // 2, schedule.strips * 2):
            if 1 <= strips <= schedule.strips_over(kernel.extents):
                yield ScanSchedule.of(kernel.extents, schedule.loop, schedule.abreast, strips)
