"""How kernels that share a dispatch agree on one workgroup."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Attribute

from tensorgrad.dialects.buf import KernelOp, element_bytes, element_of, is_reduction, is_shape_only
from tensorgrad.dialects.schedule import Schedule, Tile
from tensorgrad.passes.analyses.walking import operations

SHAREABLE = ("thread", "group", "contraction")
"""The archetypes whose code can take a part of a dispatch's workgroups."""


def agreed(schedules: Sequence[Schedule], points: Sequence[int]) -> list[Schedule] | None:
    """The schedules with a workgroup of equal extents, or `None` if there is none that suits them all.

    Contractions keep theirs, which must be one; the lanes of a `group` follow, and a `thread` may grow wider.

    Args:
        schedules: Those of kernels that would share a dispatch.
        points: How many points the grid of each has.
    """
    if any(one.archetype not in SHAREABLE for one in schedules):
        return None
    fixed = {one.workgroup for one in schedules if one.archetype == "contraction"}
    rows = [one.workgroup for one in schedules if one.archetype == "group"]
    if len(fixed) > 1:
        return None
    workgroup = fixed.pop() if fixed else max(rows or (one.workgroup for one in schedules))
    lanes = math.prod(workgroup)
    if rows and lanes & (lanes - 1):
        return None  # lanes fold by halves
    if any(math.prod(one.workgroup) > lanes for one in schedules if one.archetype == "thread"):
        return None  # kernels of many points lose by narrow workgroups
    found: list[Schedule] = []
    for one, total in zip(schedules, points, strict=True):
        groups = (-(-total // (lanes * one.width)), 1, 1) if one.archetype == "thread" else one.groups
        found.append(replace(one, workgroup=workgroup, groups=groups))
    return found


MOST_HELD = 8192
"""So many bytes of sums a contraction holds in its workgroup's memory at most."""


def threads_of(tile: Tile) -> int:
    """The threads of a contraction's workgroup."""
    return tile.lanes * tile.depth


def holds_sums(tile: Tile) -> bool:
    """Whether a contraction may keep its sums in the workgroup's memory until it finishes them; on a CPU it does."""
    return not tile.chunk and 4 * tile.rows * tile.columns * threads_of(tile) <= MOST_HELD


def workgroup_arrays(kernel: KernelOp, schedule: Schedule) -> Counter[tuple[Attribute, int]]:
    """How many arrays of each element type and extent a kernel keeps in its workgroup's memory, at most."""
    found: Counter[tuple[Attribute, int]] = Counter()
    tile = schedule.tile
    for stage in kernel.stages:
        if schedule.archetype == "group" and is_reduction(stage):
            found.update((element_of(output), math.prod(schedule.workgroup)) for output in stage.outputs)
        if tile is not None and holds_sums(tile) and is_reduction(stage):
            found[element_of(stage.outputs[0]), tile.rows * threads_of(tile)] += tile.columns
        if tile is not None and tile.chunk and is_reduction(stage):
            extent = max(tile.rows * tile.depth, tile.columns * tile.lanes) * tile.chunk
            found.update((element_of(operand), extent) for operand in stage.inputs if not is_shape_only(operand))
    return found


def code_size(kernel: KernelOp, schedule: Schedule) -> int:
    """About how many ops a kernel's code has: a contraction multiplies and adds for each element of its block."""
    cells = 1 if schedule.tile is None else schedule.tile.rows * schedule.tile.columns
    size = 0
    for stage in kernel.stages:
        own = sum(1 for _ in operations(stage.body.block))
        if len(stage.iterator_types) > len(kernel.extents):
            own *= schedule.steps
        size += own + 3 * (cells - 1) if is_reduction(stage) else own
    return size * schedule.width


def workgroup_bytes(kernels: Sequence[KernelOp], schedules: Sequence[Schedule]) -> int:
    """The workgroup memory of kernels that share a dispatch: they use arrays of equal types in turn."""
    most: Counter[tuple[Attribute, int]] = Counter()
    for kernel, schedule in zip(kernels, schedules, strict=True):
        most |= workgroup_arrays(kernel, schedule)
    return sum(count * extent * element_bytes(element) for (element, extent), count in most.items())
