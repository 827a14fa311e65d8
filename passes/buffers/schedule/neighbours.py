"""Which schedules are one step away from another: what tuning tries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.linalg.ops import GenericOp

from tensorgrad.dialects.buf import KernelOp, loop_extents
from tensorgrad.dialects.schedule import Schedule, Tile, folded
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.buffers.schedule.choose import can_group, can_take_neighbours, can_take_steps, own_steps
from tensorgrad.passes.buffers.schedule.contraction import MOST_OUTPUTS, VECTOR, can_stage, can_step
from tensorgrad.runtime.target import Target


def neighbours(schedule: Schedule, kernel: KernelOp, target: Target) -> list[Schedule]:
    """The schedules that differ from one in a single choice, and that the target can run.

    Widths, blocks and staged chunks are halved and doubled; subgroup broadcasts are switched; a thread and a workgroup
    for each grid point take turns where both can be.
    """
    if schedule.tile is not None:
        stage = contraction_of(kernel)
        assert stage is not None
        found = [_with(schedule, tile, kernel) for tile in _tiles(schedule.tile, stage, kernel, target)]
        limit = target.max_compute_workgroups_per_dimension
        return [one for one in found if max(one.groups) <= limit]
    return list(_rows(schedule, kernel, target))


def _with(schedule: Schedule, tile: Tile, kernel: KernelOp) -> Schedule:
    return replace(schedule, workgroup=(tile.lanes, tile.depth, 1), groups=tile.groups(kernel.extents), tile=tile)


def _tiles(tile: Tile, stage: GenericOp, kernel: KernelOp, target: Target) -> Iterator[Tile]:
    changes: list[dict[str, int]] = []
    for name in ("rows", "columns", "lanes", "depth"):
        value: int = getattr(tile, name)
        changes += [{name: other} for other in (value // 2, value * 2)]
    changes += [
        {"rows": tile.rows * 2, "columns": tile.columns // 2},
        {"rows": tile.rows // 2, "columns": tile.columns * 2},
    ]
    changes += [{"broadcast": 1 - tile.broadcast}]
    changes += [{"chunk": other} for other in ((tile.chunk // 2, tile.chunk * 2, 0) if tile.chunk else (8, 16))]
    own = len(loop_extents(stage)) - len(kernel.extents)
    changes += [{"steps": steps} for steps in (1, 2, 4)]
    changes += [{"inner": inner} for inner in range(-1, own - 1)]
    others = [replace(tile, **change) for change in changes]
    others += [replace(tile, row=tile.column, column=tile.row)]
    for other in others:
        if other != tile and _is_possible(other, stage, kernel, target):
            yield other


def _is_possible(tile: Tile, stage: GenericOp, kernel: KernelOp, target: Target) -> bool:
    threads = tile.lanes * tile.depth
    if min(tile.rows, tile.columns, tile.lanes, tile.depth) < 1 or tile.rows * tile.columns > MOST_OUTPUTS:
        return False
    if threads > target.max_compute_invocations_per_workgroup or tile.lanes > target.max_compute_workgroup_size_x:
        return False
    if tile.depth > target.max_compute_workgroup_size_y:
        return False
    if not tile.row and (tile.rows > 1 or tile.depth > 1):
        return False
    if not can_step(tile, tile.steps, kernel, stage):
        return False
    one_subgroup = target.subgroups and target.subgroup_size == tile.lanes and tile.depth == 1
    if tile.broadcast and not (one_subgroup and tile.rows > 1):
        return False
    return not tile.chunk or _can_stage(tile, stage, kernel, target)


def _can_stage(tile: Tile, stage: GenericOp, kernel: KernelOp, target: Target) -> bool:
    reduced = math.prod(loop_extents(stage)[len(kernel.extents) :])
    return reduced >= 2 * tile.chunk and can_stage(tile, stage, target)


def _rows(schedule: Schedule, kernel: KernelOp, target: Target) -> Iterator[Schedule]:
    width = schedule.workgroup[0]
    points = 1
    for extent in kernel.extents:
        points *= extent
    limit = min(target.max_compute_invocations_per_workgroup, target.max_compute_workgroup_size_x)

    def thread(lanes: int, width: int = 1, steps: int = 1) -> Schedule:
        groups = folded(-(-points // (lanes * width)), target.max_compute_workgroups_per_dimension)
        return Schedule("thread", (lanes, 1, 1), groups, width=width, steps=steps)

    def group(width: int, steps: int = 1) -> Schedule:
        return Schedule("group", (width, 1, 1), (points, 1, 1), steps=steps)

    own, steps = own_steps(kernel), schedule.steps
    widths = [other for other in (width // 2, width * 2) if 1 <= other <= limit]
    others = [other for other in (1, VECTOR, 2 * VECTOR) if other != steps]
    if schedule.archetype == "thread":
        yield from (thread(other, schedule.width, steps) for other in widths)
        yield from (thread(width, other) for other in (1, 2, VECTOR) if can_take_neighbours(kernel, other))
        yield from (thread(width, steps=other) for other in others if can_take_steps(kernel, other))
        if own > 1 and can_group(kernel, min(64, limit), target):
            yield group(min(64, limit))
    else:
        yield from (group(other, steps) for other in widths if can_group(kernel, other, target))
        yield from (group(width, other) for other in others if can_take_steps(kernel, other, width))
        yield thread(min(64, limit))
