"""Into how many parts a long reduction of few results is cut."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tensorgrad.dialects.buf import KernelOp, element_bytes, element_of, loop_extents
from tensorgrad.dialects.schedule import Schedule
from tensorgrad.passes.analyses.kinds import contraction_of
from tensorgrad.passes.buffers.schedule.choose import choose
from tensorgrad.passes.buffers.schedule.contraction import (
    LOAD,
    OUTPUT,
    SOFTWARE_LANES,
    SOFTWARE_THREADS,
    contraction_cycles,
)
from tensorgrad.runtime.target import Target

MOST_PARTS = 64

LEAST_STEPS = 64
"""A part folds so many values at least."""

DISPATCH_CYCLES = 3e5
"""What one more dispatch costs on a CPU, in cycles: threads wake up and wait for each other."""

MANY_WAVES = 4
"""With so many workgroups for each core of a CPU, the last ones leave little of it idle."""

BUSY_GROUPS = 128
"""So many workgroups keep a GPU busy."""

GPU_WORK = 1 << 22
"""On a GPU, smaller reductions end sooner than a further dispatch starts."""

MOST_BYTES = 1 << 22
"""The most bytes of parts."""


def split_of(kernel: KernelOp, target: Target) -> tuple[int, int] | None:
    """The reduction loop to cut, and into how many parts; `None` where cutting doesn't pay.

    Args:
        kernel: Only its first stage has loops of its own, which all reduce.
        target: Software or GPU.
    """
    schedule = choose(kernel, target)
    if schedule.archetype not in ("thread", "group", "contraction"):
        return None
    return _on_software(kernel, schedule, target) if target.software else _on_gpu(kernel, schedule)


def _cuts(kernel: KernelOp) -> Iterator[tuple[int, int]]:
    """Each loop and number of parts that there may be: the outer loops first, for their parts lie apart in memory."""
    results, own = math.prod(kernel.extents), loop_extents(kernel.stages[0])[len(kernel.extents) :]
    width = sum(element_bytes(element_of(output)) for output in kernel.stages[0].outputs)
    steps = math.prod(own)
    for loop, extent in enumerate(own):
        for parts in range(2, MOST_PARTS + 1):
            fits = parts * results * width <= MOST_BYTES and steps // parts >= LEAST_STEPS
            if extent % parts == 0 and extent > parts and fits:
                yield loop, parts


def _on_software(kernel: KernelOp, schedule: Schedule, target: Target) -> tuple[int, int] | None:
    """The cut that takes the least time by what a CPU needs for loads and operations."""
    results = math.prod(kernel.extents)
    least = _cycles(kernel, schedule, target, 1)
    if math.prod(schedule.groups) > MANY_WAVES * SOFTWARE_THREADS or least < 2 * DISPATCH_CYCLES:
        return None
    vectors = -(-results // (SOFTWARE_LANES * SOFTWARE_THREADS))
    best, loops = None, dict[int, int]()
    for loop, parts in _cuts(kernel):
        loops.setdefault(parts, loop)
    for parts, loop in loops.items():
        taken = _cycles(kernel, schedule, target, parts) + DISPATCH_CYCLES + vectors * (parts * LOAD + OUTPUT)
        if taken < least:
            best, least = (loop, parts), taken
    return best


def _cycles(kernel: KernelOp, schedule: Schedule, target: Target, parts: int) -> float:
    stage = contraction_of(kernel)
    if stage is not None and schedule.tile is not None:
        return contraction_cycles(kernel, stage, target, parts)
    results, steps = math.prod(kernel.extents), math.prod(loop_extents(kernel.stages[0])[len(kernel.extents) :])
    lanes = math.prod(schedule.workgroup)
    groups = math.prod(schedule.groups)
    if schedule.archetype == "thread":
        groups = -(-results * parts // lanes)
        turns = steps // parts * -(-lanes // SOFTWARE_LANES)
    else:
        groups = results * parts
        turns = -(-steps // (parts * SOFTWARE_LANES))
    operations = sum(1 for _ in kernel.stages[0].body.walk())
    loads = len(kernel.stages[0].inputs)
    return -(-groups // SOFTWARE_THREADS) * turns * (LOAD * loads + operations)


def _on_gpu(kernel: KernelOp, schedule: Schedule) -> tuple[int, int] | None:
    """As few parts as keep a GPU busy, each long enough."""
    groups = math.prod(schedule.groups)
    steps = math.prod(loop_extents(kernel.stages[0])[len(kernel.extents) :])
    if groups * 4 > BUSY_GROUPS or steps * math.prod(kernel.extents) < GPU_WORK:
        return None
    lanes = math.prod(schedule.workgroup) if schedule.archetype == "group" else 1
    found = [cut for cut in _cuts(kernel) if steps // cut[1] >= LEAST_STEPS * lanes]
    return min(found, key=lambda cut: (abs(cut[1] * groups - BUSY_GROUPS), cut[0]), default=None)
