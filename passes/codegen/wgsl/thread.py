"""Writes kernels of the archetype `thread`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.linalg.ops import GenericOp

from tensorgrad.dialects import wgsl
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ThreadSchedule
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.stage_loops import Loops, own_loops
from tensorgrad.passes.codegen.wgsl.stages import StageWriter, Unrolling
from tensorgrad.passes.scalars import Value


def write_thread(kernel: KernelOp, schedule: ThreadSchedule, code: Code) -> None:
    """Writes a kernel whose threads each compute a few adjacent points, running the stages one after another."""
    unrolling = Unrolling.of(schedule)
    total = math.prod(unrolling.grid(kernel.extents))
    at_point(code, total, schedule, lambda point: _Thread(kernel, code, point, unrolling).write())


def at_point(code: Code, total: int, schedule: ThreadSchedule, body: Callable[[Value], None]) -> None:
    """Runs `body` with the thread's index, in threads below `total`."""
    if code.frame.number is not None:
        start = code.value(code.frame.number) * schedule.lanes
        point = start + code.add(wgsl.LocalIndexOp())
        if total % schedule.lanes:
            code.when(point < total, lambda: body(point))
        else:
            body(point)
        return
    point = _thread_number(code, schedule)
    code.append(wgsl.ReturnIfOp((point >= total).ssa))
    body(point)


def _thread_number(code: Code, schedule: ThreadSchedule) -> Value:
    """Returns the index of the thread among those of the dispatch, workgroup by workgroup."""
    is_row = schedule.workgroup[1:] == (1, 1)
    number = code.add(wgsl.GlobalIdOp(0)) if is_row else code.add(wgsl.WorkgroupIdOp(0)) * schedule.lanes
    group_id = wgsl.GlobalIdOp if is_row else wgsl.WorkgroupIdOp
    for dim in (1, 2):
        if schedule.groups[dim] > 1:
            number = number + code.add(group_id(dim)) * (math.prod(schedule.groups[:dim]) * schedule.lanes)
    return number if is_row else number + code.add(wgsl.LocalIndexOp())


class _Thread(StageWriter):
    """The code of a thread that doesn't share its points."""

    def write(self) -> None:
        """Writes all stages."""
        code = self.code
        for stage in self.kernel.stages:
            parallel, reduced = own_loops(self.kernel, stage)
            if not parallel:
                for known, values in zip(self.known, self._finish(code, stage, self.points, reduced), strict=True):
                    known.update(zip(stage.outputs, values, strict=True))
            elif reduced:
                self._nest_of_reductions(stage, parallel, reduced)
            else:
                self.over(code, self.points, parallel, [], 0, lambda sites, _, s=stage: self.compute(code, s, sites))

    def _nest_of_reductions(self, stage: GenericOp, parallel: list[int], reduced: list[int]) -> None:
        def body(positions: list[Value], _: object) -> list[Value]:
            self._finish(self.code, stage, [point.with_own(positions, parallel) for point in self.points], reduced)
            return []

        self.code.nest(parallel, [], body)

    def _finish(self, code: Code, stage: GenericOp, points: list[Loops], reduced: list[int]) -> list[Sequence[Value]]:
        """Stores and returns the results of a stage at each point."""
        results = self.reduced(code, stage, points, reduced) if reduced else self.values(code, stage, [points])
        self.store(code, stage, [points], results)
        return results
