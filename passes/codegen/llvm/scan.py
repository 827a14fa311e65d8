"""Writes kernels of the archetype `scan`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp, loop_extents
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.native_schedules import ScanSchedule
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.codegen.common.kernel_code import Code
from tensorgrad.passes.codegen.common.scans import Direction, Scan, scans_of
from tensorgrad.passes.codegen.common.stage_bodies import reduced_values, stage_values, store_outputs
from tensorgrad.passes.codegen.common.stage_loops import Loops
from tensorgrad.passes.scalars import Value


def write_scan(kernel: KernelOp, schedule: ScanSchedule, code: Code, first: Value, last: Value) -> None:
    """Writes a loop over the strips of the tasks in [`first`, `last`).

    Args:
        kernel: The kernel.
        schedule: Its schedule.
        code: Where to write.
        first: The first task.
        last: The one after the last task.

    Raises:
        DiagnosticException: The kernel's reductions are no scans along the schedule's loop.
    """
    scans = scans_of(kernel)
    if scans is None or (direction := next(iter(scans.values())).direction).loop != schedule.loop:
        raise DiagnosticException(
            f"the reductions of the kernel made at {line_of(kernel.location)} are no scans along loop {schedule.loop} "
            "of its grid: take its schedule away, and run `schedule` again"
        )
    strips, stop = schedule.strips_over(kernel.extents), last * schedule.strips
    if strips % schedule.strips:
        stop = stop.at_most(strips)
    rows = _Rows(kernel, code, scans, direction)

    def strip(at: Value, _: Sequence[Value]) -> list[Value]:
        rows.write([at * schedule.abreast + number for number in range(schedule.abreast)])
        return []

    code.loop_to(stop, [], strip, start=first * schedule.strips)


class _Rows:
    """Writes the stages along a row of points, with the accumulators of all scans carried from point to point."""

    def __init__(self, kernel: KernelOp, code: Code, scans: dict[GenericOp, Scan], direction: Direction):
        self.kernel, self.code, self.scans, self.direction = kernel, code, scans, direction
        grid, along = kernel.extents, direction.loop
        self.points = grid[along]
        outer = [extent for loop, extent in enumerate(grid) if loop != along]
        self.extents = (math.prod(outer), self.points)
        places = affine.delinearized(AffineDimExpr(0), outer)
        expressions = [affine.linear(place, self.extents).expression() for place in places]
        expressions.insert(along, affine.linear(AffineDimExpr(1), self.extents).expression())
        self.expressions = tuple(expressions)

    def write(self, rows: Sequence[Value]) -> None:
        """Writes all stages at all points of some rows, side by side."""
        code = self.code
        starts = [start for stage in self.scans for start in _starts(code, reductions_of(stage)) * len(rows)]

        def point(at: Value, held: Sequence[Value]) -> list[Value]:
            place = code.number(self.points - 1) - at if self.direction.is_reversed else at
            return self._point([Loops((row, place), self.extents, self.expressions) for row in rows], held)

        code.loop(self.points, starts, point)

    def _point(self, rows: Sequence[Loops], held: Sequence[Value]) -> list[Value]:
        """Writes all stages at a point of each row, and returns the accumulators behind it."""
        known, carried = [dict[SSAValue, Value]() for _ in rows], list[Value]()
        for stage in self.kernel.stages:
            if stage in self.scans:
                reductions = reductions_of(stage)
                count = len(reductions)
                after = self._terms(stage, rows, held[len(carried) : len(carried) + count * len(rows)], known)
                carried += after
                values = [after[at : at + count] for at in range(0, len(after), count)]
            else:
                values = [stage_values(self.code, stage, *row) for row in zip(rows, known, strict=True)]
            for loops, results, mine in zip(rows, values, known, strict=True):
                mine.update(zip(stage.outputs, results, strict=True))
                store_outputs(self.kernel, stage, self.code, loops, results)
        return carried

    def _terms(
        self, stage: GenericOp, rows: Sequence[Loops], held: Sequence[Value], known: Sequence[dict[SSAValue, Value]]
    ) -> list[Value]:
        """Folds the terms that a point of each row adds into its accumulators."""
        code, scan, extent, reductions = self.code, self.scans[stage], loop_extents(stage)[-1], reductions_of(stage)

        def term(number: Value | None, held: Sequence[Value]) -> list[Value]:
            place = _place(scan, rows[0].bases[1], number, extent)
            after: list[Value] = []
            for loops, mine in zip(rows, known, strict=True):
                values = reduced_values(code, stage, loops.with_own([place], [extent]), mine)
                before = held[len(after) : len(after) + len(reductions)]
                after += [_folded(code, *each) for each in zip(reductions, before, values, strict=True)]
            return after

        return term(None, held) if scan.step == 1 else code.loop(scan.step, held, term)


def _starts(code: Code, reductions: Sequence[Reduction]) -> list[Value]:
    """Returns the accumulators in front of the first point."""
    return [code.constant(reduction.start(), reduction.element) for reduction in reductions]


def _folded(code: Code, reduction: Reduction, before: Value, new: Value) -> Value:
    """Returns an accumulator with one more value, in the order of the terms; from a NaN on, extrema are NaN."""
    match reduction.combine:
        case arith.MaximumfOp():
            return code.select((new > before) | new.compare("uno", new), new, before)
        case arith.MinimumfOp():
            return code.select((new < before) | new.compare("uno", new), new, before)
        case combine:
            return code.apply(type(combine), before, new)


def _place(scan: Scan, point: Value, number: Value | None, terms: int) -> Value:
    """Returns the place of one of the terms that a point adds, or the nearest one if that is outside."""
    if scan.direction.is_reversed:
        return (point + scan.offset).at_most(terms - 1)
    place = point if number is None else point * scan.step + number
    behind = scan.step - scan.offset
    return place.at_least(behind) - behind if behind else place
