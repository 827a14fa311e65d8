"""Decides into how many parts to split a long reduction with few results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

from tensorgrad.dialects.buf import Buffer, KernelOp, buffer_bytes, element_bytes, element_of, loop_extents
from tensorgrad.dialects.schedule import GroupSchedule, Schedule
from tensorgrad.passes.analyses.machine import (
    LEAST_PART,
    MOST_PART_BYTES,
    MOST_PARTS,
    CpuModel,
    GpuModel,
    machine_of,
    roofline,
)
from tensorgrad.passes.codegen.choose import choose, cycles
from tensorgrad.runtime.target import Target


def split_of(kernel: KernelOp, target: Target) -> tuple[int, int] | None:
    """Returns the reduction loop to split and the number of parts, or `None` if splitting doesn't pay.

    Args:
        kernel: A kernel whose only stage with own loops is the first; all of them are reductions.
        target: The device, software or GPU.
    """
    schedule = choose(kernel, target)
    machine = machine_of(target)
    if isinstance(machine, CpuModel):
        return _on_cpu(kernel, schedule, machine, target)
    return _on_gpu(kernel, schedule, machine)


def _cuts(kernel: KernelOp) -> Iterator[tuple[int, int]]:
    """Yields each possible loop and number of parts: outer loops first, whose parts are far apart in memory."""
    results, own = math.prod(kernel.extents), loop_extents(kernel.stages[0])[len(kernel.extents) :]
    width = sum(element_bytes(element_of(output)) for output in kernel.stages[0].outputs)
    steps = math.prod(own)
    for loop, extent in enumerate(own):
        for parts in range(2, MOST_PARTS + 1):
            fits = parts * results * width <= MOST_PART_BYTES and steps // parts >= LEAST_PART
            if extent % parts == 0 and extent > parts and fits:
                yield loop, parts


def _on_cpu(kernel: KernelOp, schedule: Schedule, machine: CpuModel, target: Target) -> tuple[int, int] | None:
    """Returns the split with the fewest estimated cycles on a CPU, or `None` if none is faster than no split."""
    results = math.prod(kernel.extents)
    least = cycles(schedule, kernel, target, machine)
    if math.prod(schedule.groups) > machine.waves * machine.cores or least < 2 * machine.added_dispatch:
        return None
    vectors = -(-results // (machine.lanes * machine.cores))
    best, loops = None, dict[int, int]()
    for loop, parts in _cuts(kernel):
        loops.setdefault(parts, loop)
    for parts, loop in loops.items():
        folding = vectors * (parts * machine.load + machine.result)
        duration = cycles(schedule, kernel, target, machine, parts) + machine.added_dispatch + folding
        if duration < least:
            best, least = (loop, parts), duration
    return best


def _on_gpu(kernel: KernelOp, schedule: Schedule, machine: GpuModel) -> tuple[int, int] | None:
    """Returns the split with the lowest estimated cost on a GPU, with long enough parts, or `None` if none is cheaper.

    Below the workgroups that keep a GPU busy, more of them take proportionally less time. Parts are written and read.
    """
    groups, results = math.prod(schedule.groups), math.prod(kernel.extents)
    steps = math.prod(loop_extents(kernel.stages[0])[len(kernel.extents) :])
    if groups >= machine.busy_groups or steps * results < machine.split_work:
        return None
    moved = sum(buffer_bytes(cast(Buffer, value.type)) for value in kernel.operands)
    work = max(roofline(machine, moved, 2 * steps * results))
    width = sum(element_bytes(element_of(output)) for output in kernel.stages[0].outputs)

    def cost(parts: int) -> float:
        running = work * max(1.0, machine.busy_groups / (groups * parts))
        return running if parts == 1 else running + machine.added_dispatch + 2 * parts * results * width

    lanes = schedule.lanes if isinstance(schedule, GroupSchedule) else 1
    cuts = [cut for cut in _cuts(kernel) if steps // cut[1] >= LEAST_PART * lanes]
    best = min(cuts, key=lambda cut: (cost(cut[1]), cut[0]), default=None)
    return best if best is not None and cost(best[1]) < cost(1) else None
