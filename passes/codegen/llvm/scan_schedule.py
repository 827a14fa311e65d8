"""The archetype `scan`: running sums, products and extrema in native code."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ScanSchedule
from tensorgrad.passes.analyses.machine import TASK_WORK
from tensorgrad.passes.codegen.common.archetype import Archetype, body_size
from tensorgrad.passes.codegen.common.scans import scans_of
from tensorgrad.runtime.target import Target

ABREAST, MOST_ABREAST_OPS = 4, 256
"""The most rows of a strip, and the most ops that they have at a point, apart from scans of a single row."""


class ScanArchetype(Archetype[ScanSchedule]):
    """Runs whole strips of rows in each task, and takes each term of a reduction once in a row."""

    schedule = ScanSchedule

    def default(self, kernel: KernelOp, target: Target) -> ScanSchedule | None:
        scans = scans_of(kernel) if target.native else None
        if scans is None:
            return None
        loop = next(iter(scans.values())).direction.loop
        work = kernel.extents[loop] * sum(scan.step for scan in scans.values())
        most = min(ABREAST, MOST_ABREAST_OPS // sum(body_size(stage) for stage in kernel.stages))
        rows = math.prod(kernel.extents) // kernel.extents[loop]
        abreast = next((number for number in (most, most // 2) if number > 1 and rows % number == 0), 1)
        return ScanSchedule.of(kernel.extents, loop, abreast, max(TASK_WORK // (work * abreast), 1))

    def neighbours(self, schedule: ScanSchedule, kernel: KernelOp, target: Target) -> Iterator[ScanSchedule]:
        for abreast in (schedule.abreast // 2, schedule.abreast * 2):
            if abreast and (math.prod(kernel.extents) // kernel.extents[schedule.loop]) % abreast == 0:
                yield ScanSchedule.of(kernel.extents, schedule.loop, abreast, schedule.strips)
        for strips in (schedule.strips // 2, schedule.strips * 2):
            if 1 <= strips <= schedule.strips_over(kernel.extents):
                yield ScanSchedule.of(kernel.extents, schedule.loop, schedule.abreast, strips)
