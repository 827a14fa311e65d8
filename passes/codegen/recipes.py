"""What a schedule does, as a recipe: the same numbers, as transformations of tiles."""

from __future__ import annotations

from functools import singledispatch

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.recipe import (
    Collapse,
    Map,
    Processor,
    Recipe,
    SplitLoops,
    SplitReduction,
    Step,
    Synchronize,
    Tile,
    UnrollJam,
)
from tensorgrad.dialects.schedule import GroupSchedule, LoopsSchedule, ThreadSchedule
from tensorgrad.passes.codegen.common.reductions import ACCUMULATORS
from tensorgrad.passes.codegen.common.stage_loops import own_loops


@singledispatch
def recipe_of(schedule: object, kernel: KernelOp) -> Recipe | None:
    """Returns the recipe of a kernel's schedule; `None` for archetypes whose transformations don't exist yet."""
    return None


@recipe_of.register
def _(schedule: ThreadSchedule, kernel: KernelOp) -> Recipe:
    """One thread per point, or per `width` adjacent ones: each runs the stages with its own loops unrolled."""
    tile = schedule.lanes * schedule.width
    steps: list[Step] = [Collapse()]
    if schedule.groups[1] > 1:
        steps.append(Tile((schedule.groups[0] * tile,), (Processor.WORKGROUP_Y,)))
    steps.append(Tile((tile,), (Processor.WORKGROUP_X,)))
    if schedule.width > 1:
        steps += [Tile((schedule.width,), (Processor.LANE,)), UnrollJam()]
    else:
        steps.append(Map((Processor.LANE,)))
    return (*steps, *_own_steps(kernel, schedule.steps))


@recipe_of.register
def _(schedule: GroupSchedule, kernel: KernelOp) -> Recipe:
    """One workgroup per point, whose lanes share the stages' own loops."""
    own = _own_steps(kernel, schedule.steps, schedule.lanes)
    return (Collapse(), Map((Processor.WORKGROUP_X,)), *own, *([Synchronize()] if own else []))


@recipe_of.register
def _(schedule: LoopsSchedule, kernel: KernelOp) -> Recipe | None:
    """Tasks of native code that run their points one after another."""
    if schedule.block > 1:
        return None
    after = [Map((Processor.SEQUENTIAL,))] if schedule.blocks > 1 else []
    return (Collapse(), Tile((schedule.blocks,), (Processor.TASK,)), *after)


def _own_steps(kernel: KernelOp, terms: int, lanes: int = 1) -> Recipe:
    """Returns the steps that divide the loops that stages have of their own."""
    own = [own_loops(kernel, stage) for stage in kernel.stages]
    steps: list[Step] = []
    if terms == lanes == 1:
        return ()
    if any(parallel and not reduced for parallel, reduced in own):
        steps.append(SplitLoops(lanes, terms))
    if any(reduced for _, reduced in own):
        steps.append(SplitReduction(lanes, terms, min(terms, ACCUMULATORS)))
    return tuple(steps)
