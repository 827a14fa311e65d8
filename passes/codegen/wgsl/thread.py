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
    at_point(code, total, schedule.lanes, lambda point: _Thread(kernel, code, point, unrolling).write())


def at_point(code: Code, total: int, lanes: int, body: Callable[[Value], None]) -> None:
    """Runs `body` with the thread's index, in threads below `total`."""
    if code.frame.number is not None:
        start = code.value(code.frame.number) * lanes
        point = start + code.add(wgsl.LocalIndexOp())
        if total % lanes:
            code.when(point < total, lambda: body(point))
        else:
            body(point)
        return
    width = code.frame.groups[0] * lanes
    x = code.add(wgsl.GlobalIdOp(0))
    folded = code.add(wgsl.GlobalIdOp(1)) * width
    point = x + folded if width < total else x
    code.append(wgsl.ReturnIfOp((point >= total).ssa))
    body(point)


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
