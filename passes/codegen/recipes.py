"""What a schedule does, as a recipe: the same numbers, as transformations of tiles."""

from __future__ import annotations

import math
from functools import singledispatch

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import LoopsSchedule, NativeAttentionSchedule, PackedSchedule
from tensorgrad.dialects.recipe import (
    Attend,
    Collapse,
    Interchange,
    Map,
    Processor,
    Recipe,
    Sides,
    SplitLoops,
    SplitReduction,
    Stage,
    Step,
    StepReduction,
    Synchronize,
    Tile,
    UnrollJam,
    Vectorize,
)
from tensorgrad.dialects.schedule import ContractionSchedule, GroupSchedule, ThreadSchedule
from tensorgrad.passes.analyses.factors import factors_of, is_extended
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.codegen.common.reductions import accumulators
from tensorgrad.passes.codegen.common.stage_loops import own_loops
from tensorgrad.passes.codegen.wgsl.staging import PADDING


@singledispatch
def recipe_of(schedule: object, kernel: KernelOp) -> Recipe | None:
    """Returns the recipe of a kernel's schedule; `None` for archetypes whose transformations don't exist yet."""
    return None


@recipe_of.register
def _(schedule: ThreadSchedule, kernel: KernelOp) -> Recipe:
    """One thread per point, or per `width` adjacent ones: each runs the stages with its own loops unrolled."""
    tile = schedule.lanes * schedule.width
    steps: list[Step] = [Collapse()]
    for dim, processor in ((2, Processor.WORKGROUP_Z), (1, Processor.WORKGROUP_Y)):
        if schedule.groups[dim] > 1:
            steps.append(Tile((math.prod(schedule.groups[:dim]) * tile,), (processor,)))
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
def _(schedule: ContractionSchedule, kernel: KernelOp) -> Recipe:
    """A tile of results for each workgroup, and a block of it in the registers of each lane.

    That the lanes of a subgroup load rows for each other isn't shown: each loads its own.
    """
    extents = (schedule.rows * schedule.depth, schedule.columns * schedule.lanes)
    sides = [side for side in range(2) if extents[side] > 1]
    steps: list[Step] = [
        Sides(schedule.row, schedule.column),
        Tile((1, *extents), (Processor.WORKGROUP_Z, Processor.WORKGROUP_Y, Processor.WORKGROUP_X)),
    ]
    if schedule.chunk:
        steps += [Interchange(schedule.chunk), Stage(lanes=schedule.threads, padding=PADDING)]
    else:
        steps.append(StepReduction(schedule.inner, schedule.steps))
    if sides:
        block, apart = (schedule.rows, schedule.columns), (1, schedule.lanes if schedule.columns > 1 else 1)
        size, distance = tuple(block[side] for side in sides), tuple(apart[side] for side in sides)
        steps.append(Tile(size, (Processor.LANE,) * len(sides), distance if max(distance) > 1 else ()))
    if schedule.rows * schedule.columns > 1:
        steps.append(UnrollJam())
    return (*steps, *([Synchronize()] if schedule.chunk else []))


@recipe_of.register
def _(schedule: LoopsSchedule, kernel: KernelOp) -> Recipe | None:
    """Tasks of native code that run their points one after another."""
    if schedule.block > 1:
        return None
    after = [Map((Processor.SEQUENTIAL,))] if schedule.blocks > 1 else []
    return (Collapse(), Tile((schedule.blocks,), (Processor.TASK,)), *after)


@recipe_of.register
def _(schedule: PackedSchedule, kernel: KernelOp) -> Recipe | None:
    """A tile of results for each task, in register blocks; operands that aren't read in place are packed.

    So are columns that are extended in place, since `vectorize` reads whole floats.
    Blocks at an edge are smaller here, where code makes them whole: they overlap others, or are narrower. Columns are
    packed step by step, not block by block.
    """
    stage = contraction_of(kernel)
    (_, rows, columns), (down, across) = schedule.extents(kernel.extents), schedule.tiles_over(kernel.extents)
    tile = (rows if down == 1 else schedule.tile_rows, columns if across == 1 else schedule.tile_columns)
    if schedule.pitch or schedule.along_steps or schedule.pairs or stage is None or tile[1] == 1:
        return None
    sides = [side for side in range(2) if tile[side] > 1]
    steps: list[Step] = [Sides(schedule.row, schedule.column), Tile((1, *tile)), Collapse(), Map((Processor.TASK,))]
    is_cut = math.prod(own_loops(kernel, stage)[1]) > schedule.depth
    steps.append(Interchange(schedule.depth) if is_cut else StepReduction())
    factors = factors_of(stage, schedule.row, schedule.column)
    if not schedule.direct_columns or (factors is not None and is_extended(factors.column)):
        steps.append(Stage((sides.index(1),)))
    in_order = (Processor.SEQUENTIAL,) * len(sides)
    if not schedule.direct_rows and 0 in sides:
        steps += [Tile((schedule.rows, tile[1])[-len(sides) :], in_order), Stage((0,))]
    steps.append(Tile((schedule.rows, schedule.columns)[-len(sides) :], in_order, peel=1))
    return (*steps, UnrollJam(), *([Vectorize()] if len(schedule.column) == 1 else []))


@recipe_of.register
def _(schedule: NativeAttentionSchedule, kernel: KernelOp) -> Recipe:
    """Blocks of rows that go through tiles of columns, with the rows in the lanes of vectors."""
    after = (Vectorize(),) if schedule.rows > 1 else ()
    return (Attend(schedule.rows, schedule.columns, schedule.blocks), *after)


def _own_steps(kernel: KernelOp, terms: int, lanes: int = 1) -> Recipe:
    """Returns the steps that divide the loops that stages have of their own."""
    own = [own_loops(kernel, stage) for stage in kernel.stages]
    steps: list[Step] = []
    if terms == lanes == 1:
        return ()
    if any(parallel and not reduced for parallel, reduced in own):
        steps.append(SplitLoops(lanes, terms))
    if any(reduced for _, reduced in own):
        steps.append(SplitReduction(lanes, terms, accumulators(terms)))
    return tuple(steps)
