"""What each dispatch of a step takes on the CPU."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorgrad.runtime.cpu.executable import CpuExecutable, Frame
from tensorgrad.runtime.cpu.stepping import dispatch_name
from tensorgrad.runtime.profile import Profile
from tensorgrad.runtime.program import Copy, Dispatch, runs, unrolled


def profile(executable: CpuExecutable, inputs: Mapping[str, Any], scalars: Mapping[str, float], steps: int) -> Profile:
    """Runs steps, and measures what their dispatches take: medians over the steps.

    These are steps as any others, so parameters and state change. Each dispatch is called from Python, which adds about
    two microseconds, and has the threads that it usually has.

    Args:
        executable: What to run.
        inputs: As for its `step`.
        scalars: As for its `step`.
        steps: How many are measured, twice: dispatch by dispatch, and as a whole. One more runs first.

    Raises:
        InputError: Inputs or scalars don't fit.
    """
    executable.step(inputs, scalars)
    measured: dict[int, list[float]] = {}
    for _ in range(steps):
        for key, taken in _by_dispatch(executable, inputs, scalars).items():
            measured.setdefault(key, []).append(taken)
    whole: list[float] = []
    for _ in range(steps):
        start = time.perf_counter()
        executable.step(inputs, scalars)
        whole.append(time.perf_counter() - start)
    return Profile.of(executable.program, measured, whole)


def _by_dispatch(
    executable: CpuExecutable, inputs: Mapping[str, Any], scalars: Mapping[str, float]
) -> dict[int, float]:
    """Runs a step; gives the seconds of each dispatch by its `id`."""
    program = executable.program
    order = [step for step, _ in runs(program.plan) if isinstance(step, Dispatch)]
    numbers = {id(step): number for number, step in enumerate(order)}
    frame, buffers = executable.prepare(inputs, scalars)
    seconds: dict[int, float] = {}
    with executable.pool() as pool:
        for step, times in unrolled(program.plan):
            frame.words[len(program.buffers) : len(program.buffers) + len(times)] = times
            if isinstance(step, Copy):
                source = buffers[step.source][step.source_offset : step.source_offset + step.size]
                end = step.destination_offset + step.size
                buffers[step.destination][step.destination_offset : end] = source.copy()
                continue
            call = _call(executable, numbers[id(step)], step, frame, pool)
            start = time.perf_counter()
            if _runs(step, buffers):
                call()
            seconds[id(step)] = seconds.get(id(step), 0.0) + time.perf_counter() - start
    return seconds


def _runs(step: Dispatch, buffers: Mapping[int, np.ndarray]) -> bool:
    """Returns whether a dispatch has tasks, which a kernel before it may have decided."""
    if step.indirect is None:
        return True
    buffer, offset = step.indirect
    return bool(buffers[buffer][offset : offset + 4].view(np.uint32)[0])


def _call(executable: CpuExecutable, number: int, step: Dispatch, frame: Frame, pool: int) -> Callable[[], None]:
    """Returns what runs a dispatch as a step does: by all threads, where it has several tasks."""
    address, scratch = executable.address(dispatch_name(number)), executable.scratch
    if pool and step.workgroups[0] > 1:
        together = executable.function("tg_run", *[ctypes.c_void_p] * 4, ctypes.c_int64)
        return lambda: together(pool, address, frame.address, scratch, step.workgroups[0])
    alone = executable.function(dispatch_name(number), *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
    return lambda: alone(frame.address, scratch, 0, step.workgroups[0])
