"""What a step takes, dispatch by dispatch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tensorgrad.runtime.program import Dispatch, Program, runs


@dataclass(frozen=True)
class DispatchTime:
    """What a dispatch of a program takes.

    Attributes:
        kernel: The kernel's name.
        label: The line that it comes from.
        workgroups: How many of them a dispatch has.
        times: How often a step runs it.
        seconds: The time of all its dispatches in a step, on the device.
    """

    kernel: str
    label: str
    workgroups: tuple[int, int, int]
    times: int
    seconds: float


@dataclass(frozen=True)
class Profile:
    """What a step takes.

    Attributes:
        dispatches: What each dispatch of the plan takes, in order.
        step_seconds: What a step takes as it usually runs, with the wait for its end.
    """

    dispatches: tuple[DispatchTime, ...]
    step_seconds: float

    @staticmethod
    def of(program: Program, measured: Mapping[int, Sequence[float]], whole: Sequence[float]) -> Profile:
        """Returns the medians of what was measured.

        Args:
            program: What ran.
            measured: By the `id` of each dispatch in its plan: the time of all its runs in a step, for each step.
            whole: What steps took as they usually run.
        """
        found: list[DispatchTime] = []
        for step, counts in runs(program.plan):
            if isinstance(step, Dispatch):
                kernel, seconds = program.kernels[step.kernel].entry, median(measured[id(step)])
                found.append(DispatchTime(kernel, step.label, step.workgroups, math.prod(counts), seconds))
        return Profile(tuple(found), median(whole))

    @property
    def device_seconds(self) -> float:
        """What all dispatches of a step take on the device, one after another."""
        return sum(one.seconds for one in self.dispatches)
