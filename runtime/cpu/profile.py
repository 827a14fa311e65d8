"""What each dispatch of a step takes on the CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tensorgrad.runtime.cpu.executable import CpuExecutable
from tensorgrad.runtime.profile import Profile
from tensorgrad.runtime.program import Dispatch, unrolled


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
    frame = executable.prepare(inputs, scalars)
    seconds: dict[int, float] = {}
    with executable.pool() as pool:
        for step, times in unrolled(executable.program.plan):
            part = executable.table([step])
            start = time.perf_counter()
            executable.run(part, frame, pool, times)
            if isinstance(step, Dispatch):
                seconds[id(step)] = seconds.get(id(step), 0.0) + time.perf_counter() - start
    executable.check_faults()
    return seconds
