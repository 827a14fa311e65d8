"""Transformations of the loops that stages have of their own: `split_loops` and `split_reduction`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.buf import element_of, is_reduction, loop_extents
from tensorgrad.dialects.buf_tiles import Space, TiledOp, around
from tensorgrad.dialects.recipe import Processor, SplitLoops, SplitReduction
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.analyses.kinds import is_in_order
from tensorgrad.passes.codegen.common.reductions import accumulators
from tensorgrad.passes.codegen.common.unrolled_loops import UnrolledLoop, unrolled
from tensorgrad.passes.codegen.transforms.building import Range, TileBuilder, entangled
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.indices import Index, combined, constant, index_of

WriteStep: TypeAlias = "Callable[[TileBuilder, Index, int], None]"
"""Writes a step: `int` adjacent elements from an index on, of a stage's innermost loop or of all of them as one."""


def split_loops(kernel: TiledOp, step: SplitLoops) -> None:
    """Divides the loops of stages without a reduction into steps of several elements."""
    for stage in _stages(kernel, step.lanes, reducing=False):
        builder = TileBuilder.before(stage)
        lane: Index | None = None
        if step.lanes > 1:
            lanes = builder.forall([step.lanes], [Processor.LANE])
            builder, lane = builder.into(lanes.body.block), index_of(lanes.indices[0])
        division = _Division.of(stage, step.lanes, step.terms)
        division = division.with_outer_loops(builder, in_order=False)
        division.write(lane, lambda b, first, size, d=division: d.compute(b, first, size))
        Rewriter.erase_op(stage)


def split_reduction(kernel: TiledOp, step: SplitReduction) -> None:
    """Divides reductions into accumulators of lanes and of registers, which are folded by halves."""
    for stage in _stages(kernel, step.lanes, reducing=True):
        if step.lanes > 1 and is_in_order(stage):
            raise DoesNotFit("a product of floats keeps its order, so lanes can't share it")
        _Reduction(stage, step).write()
        for output in stage.outputs:
            for use in [*output.uses]:
                fill = use.operation
                if isinstance(fill, FillOp) and (step.lanes > 1 or _sums(stage, step) > 1):
                    Rewriter.erase_op(fill)
        Rewriter.erase_op(stage)


def _stages(kernel: TiledOp, lanes: int, reducing: bool) -> list[GenericOp]:
    """Returns the stages with loops of their own.

    Raises:
        DoesNotFit: There is none, or lanes can't share it.
    """
    stages = [
        op
        for op in kernel.walk()
        if isinstance(op, GenericOp) and len(op.iterator_types) and is_reduction(op) == reducing
    ]
    if not stages:
        raise DoesNotFit(f"no stage has {'a reduction' if reducing else 'loops of its own without a reduction'}")
    for stage in stages if lanes > 1 else ():
        outside = [*around(stage)]
        if Processor.LANE in outside:
            raise DoesNotFit("lanes run the loop around the stage already")
        if not any(processor.is_workgroup for processor in outside):
            raise DoesNotFit("lanes are those of a workgroup: a loop over workgroups must be outside")
        if Processor.SEQUENTIAL in outside:
            raise DoesNotFit("the stage has both loops that are parallel and a reduction, which lanes can't share")
    return stages


def _sums(stage: GenericOp, step: SplitReduction) -> int:
    return 1 if is_in_order(stage) else accumulators(step.terms, step.sums)


@dataclass(frozen=True)
class _Division:
    """How the loops of a stage are divided.

    Attributes:
        stage: The stage.
        builder: Where to write it.
        lanes: The number of lanes that share its loops; 0 if they are not shared.
        terms: The number of elements of a step.
        ranges: The loops that are fixed around the steps.
        loops: The loops that steps go through, as one.
    """

    stage: GenericOp
    builder: TileBuilder | None
    lanes: int
    terms: int
    ranges: dict[int, Range]
    loops: Sequence[int]

    @staticmethod
    def of(stage: GenericOp, lanes: int, terms: int) -> _Division:
        """Returns how the loops of a stage are divided, before any of them is written."""
        return _Division(stage, None, lanes if lanes > 1 else 0, terms, {}, range(len(stage.iterator_types)))

    def with_outer_loops(self, builder: TileBuilder, in_order: bool) -> _Division:
        """Writes the loops around the innermost one, if lanes don't share all of them."""
        if self.lanes:
            return _Division(self.stage, builder, self.lanes, self.terms, {}, self.loops)
        *outer, last = self.loops
        extents, ranges = loop_extents(self.stage), dict[int, Range]()
        if outer and not in_order:
            loops = builder.forall([extents[loop] for loop in outer], [Processor.SEQUENTIAL] * len(outer))
            ranges = {loop: Range(index_of(index)) for loop, index in zip(outer, loops.indices, strict=True)}
            builder = builder.into(loops.body.block)
        for loop in outer if in_order else ():
            op = builder.loop(extents[loop])
            ranges[loop] = Range(index_of(op.body.block.args[0]))
            builder = builder.into(op.body.block)
        return _Division(self.stage, builder, self.lanes, self.terms, ranges, [last])

    def write(self, lane: Index | None, step: WriteStep, in_order: bool = False) -> None:
        """Writes the loops over steps, of whole ones and of what is left over."""
        builder = self.builder
        assert builder is not None
        total = math.prod(loop_extents(self.stage)[loop] for loop in self.loops)
        for loop in unrolled(total, self.terms, self.lanes):
            trips, first = self._trips(loop, lane)
            if trips.constant == 0:
                continue
            if trips.constant == 1:
                step(builder, first(constant(0)), loop.steps)
                continue
            extent = builder.index(trips)
            if in_order:
                op = builder.loop(extent)
                step(builder.into(op.body.block), first(index_of(op.body.block.args[0])), loop.steps)
            else:
                loops = builder.forall([extent], [Processor.SEQUENTIAL])
                step(builder.into(loops.body.block), first(index_of(loops.indices[0])), loop.steps)

    def _trips(self, loop: UnrolledLoop, lane: Index | None) -> tuple[Index, Callable[[Index], Index]]:
        """Returns the number of iterations of a loop over steps, and the first element of each."""
        at, own = AffineDimExpr(0), AffineDimExpr(1)
        if lane is None:
            return constant(loop.extent - loop.start), lambda i: combined((at + loop.start) * loop.steps, [i])
        if loop.lanes > 1:
            return constant(loop.extent), lambda i: combined((at * loop.lanes + own) * loop.steps, [i, lane])
        count, lanes = loop.extent - loop.start, self.lanes
        trips = combined((at * -1 + (count + lanes - 1)) // lanes, [lane])
        return trips, lambda i: combined((at * lanes + own + loop.start) * loop.steps, [i, lane])

    @property
    def keeps_steps(self) -> bool:
        """Whether the elements of a step are a loop of the stage: it has only one, and its index is divisible."""
        if len(self.loops) > 1:
            return False
        return not entangled(self.stage, {self.loops[0], *self.ranges})

    def point(self, at: Index) -> dict[int, Range]:
        """Returns all loops of the stage, fixed at an element of a step."""
        if len(self.loops) == 1:
            return {**self.ranges, self.loops[0]: Range(at)}
        extents = [loop_extents(self.stage)[loop] for loop in self.loops]
        places = [combined(place, [at]) for place in affine.delinearized(AffineDimExpr(0), extents)]
        return {**self.ranges, **{loop: Range(place) for loop, place in zip(self.loops, places, strict=True)}}

    def compute(self, builder: TileBuilder, first: Index, size: int) -> None:
        """Writes a step of a stage without a reduction."""
        if size == 1:
            builder.narrowed(self.stage, self.point(first))
        elif self.keeps_steps:
            builder.narrowed(self.stage, {**self.ranges, self.loops[0]: Range(first, size)})
        else:
            steps = builder.forall([size], [Processor.UNROLL])
            inside = builder.into(steps.body.block)
            inside.narrowed(self.stage, self.point(first.plus(index_of(steps.indices[0]))))


class _Reduction:
    """Writes a reduction in parts."""

    def __init__(self, stage: GenericOp, step: SplitReduction):
        self.stage, self.lanes, self.terms = stage, step.lanes, step.terms
        self.sums = _sums(stage, step)
        self.reductions = reductions_of(stage)

    def write(self) -> None:
        """Writes the reduction, whose results end in the outputs of the stage."""
        builder = TileBuilder.before(self.stage)
        if self.lanes == 1:
            self._partial(builder, None, [*self.stage.outputs])
            return
        shared = [builder.local((self.lanes,), r.element, Space.WORKGROUP) for r in self.reductions]
        lanes = builder.forall([self.lanes], [Processor.LANE])
        lane, inside = index_of(lanes.indices[0]), builder.into(lanes.body.block)
        results = [inside.local((), reduction.element, Space.REGISTER) for reduction in self.reductions]
        self._partial(inside, lane, results)
        for result, memory in zip(results, shared, strict=True):
            inside.copy(result, inside.element(memory, [lane]))
        for half in _halves(self.lanes):
            lanes = builder.forall([half], [Processor.LANE])
            lane, inside = index_of(lanes.indices[0]), builder.into(lanes.body.block)
            for reduction, memory in zip(self.reductions, shared, strict=True):
                other = inside.element(memory, [lane.plus(constant(half))])
                inside.combine(reduction, inside.element(memory, [lane]), other)
        for memory, output in zip(shared, self.stage.outputs, strict=True):
            builder.copy(builder.element(memory, [constant(0)]), output)

    def _partial(self, builder: TileBuilder, lane: Index | None, results: Sequence[SSAValue]) -> None:
        """Writes a lane's part of the reduction, or all of it."""
        parts = [
            result if self.sums == 1 else builder.local((self.sums,), element_of(result), Space.REGISTER)
            for result in results
        ]
        if self.sums > 1 or lane is not None:
            for reduction, part in zip(self.reductions, parts, strict=True):
                builder.fill(part, reduction.start())
        division = _Division.of(self.stage, self.lanes, self.terms).with_outer_loops(builder, in_order=True)
        division.write(lane, lambda b, first, size: self._fold(b, division, parts, first, size), in_order=True)
        for half in _halves(self.sums):
            for reduction, part in zip(self.reductions, parts, strict=True):
                self._fold_half(builder, reduction, part, half)
        if self.sums > 1:
            for part, result in zip(parts, results, strict=True):
                builder.copy(builder.element(part, [constant(0)]), result)

    @staticmethod
    def _fold_half(builder: TileBuilder, reduction: Reduction, part: SSAValue, half: int) -> None:
        """Folds the second half of accumulators into the first one."""
        (low, _), (high, _) = (
            builder.window(part, [constant(start)], [AffineDimExpr(0)], [half]) for start in (0, half)
        )
        builder.combine(reduction, low, high)

    def _fold(
        self, builder: TileBuilder, division: _Division, parts: Sequence[SSAValue], first: Index, size: int
    ) -> None:
        """Folds the elements of a step into the accumulators, in turns."""
        outputs = [*self.stage.outputs]
        if self.sums == 1 and division.keeps_steps and size > 1:
            ranges = {**division.ranges, division.loops[0]: Range(first, size)}
            builder.narrowed(self.stage, ranges, dict(zip(outputs, parts, strict=True)))
            return
        most = min(self.sums, size) if division.keeps_steps else 1
        for start in range(0, size, most):
            at, width = first.plus(constant(start)), min(most, size - start)
            if width > 1:
                windows = [builder.window(part, [constant(0)], [AffineDimExpr(0)], [width])[0] for part in parts]
                ranges = {**division.ranges, division.loops[0]: Range(at, width)}
                builder.narrowed(self.stage, ranges, dict(zip(outputs, windows, strict=True)), spread=True)
                continue
            number = constant(start % self.sums)
            elements = [part if self.sums == 1 else builder.element(part, [number]) for part in parts]
            builder.narrowed(self.stage, division.point(at), dict(zip(outputs, elements, strict=True)))


def _halves(number: int) -> Iterator[int]:
    """Yields half of a power of two, a quarter, and so on, down to 1."""
    while number > 1:
        number //= 2
        yield number
