"""Profiles the dispatches of a step on the CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tensorgrad.runtime.cpu.executable import CpuExecutable
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.profile import Profile, Span, profiled
from tensorgrad.runtime.program import Dispatch, runs, unrolled


def profile(executable: CpuExecutable, inputs: Mapping[str, Any], scalars: Mapping[str, float], steps: int) -> Profile:
    """Profiles steps; see `tensorgrad.runtime.profile.profiled`.

    Raises:
        InputError: Inputs or scalars don't fit.
    """
    return profiled(executable.program, CpuTimer(executable), executable.step, inputs, scalars, steps)


class CpuTimer:
    """Runs steps with a Python call per dispatch, which adds about two microseconds to each."""

    def __init__(self, executable: CpuExecutable):
        self._executable = executable

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> tuple[dict[str, OutputHandle], list[Span]]:
        """Runs a step; see `StepTimer`."""
        executable, program = self._executable, self._executable.program
        start = time.perf_counter()
        frame, index = executable.prepare(inputs, scalars)
        spans = [Span("inputs", "", False, -1, start, time.perf_counter() - start)]
        numbers = {id(step): number for number, (step, _) in enumerate(runs(program.plan))}
        with executable.pool() as pool:
            for step, times in unrolled(program.plan):
                part = executable.table([step])
                start = time.perf_counter()
                executable.run(part, frame, pool, times)
                seconds = time.perf_counter() - start
                if isinstance(step, Dispatch):
                    kernel = program.kernels[step.kernel].entry
                    spans.append(Span(kernel, step.label, True, numbers[id(step)], start, seconds))
        return executable.outputs(index), spans
