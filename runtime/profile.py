"""What a step takes, dispatch by dispatch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Protocol, cast

from tensorgrad.runtime.backend import OutputHandle
from tensorgrad.runtime.program import DISPATCH_COSTS, Dispatch, Program, runs


@dataclass(frozen=True)
class Span:
    """A part of the time of a step.

    Attributes:
        name: A kernel, or what the host does.
        label: The line that a kernel comes from, or "".
        is_kernel: Whether it is on the device.
        number: Which step of the plan it is, those in loops counted once; -1 for what the host does.
        start: When it began, by `time.perf_counter`.
        seconds: How long it took.
    """

    name: str
    label: str
    is_kernel: bool
    number: int
    start: float
    seconds: float


class StepTimer(Protocol):
    """Runs steps of an executable one dispatch after another, and measures each."""

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> tuple[dict[str, OutputHandle], list[Span]]:
        """Runs a step as `Executable.step` does, and waits for its end; gives what it took too."""
        ...


@dataclass(frozen=True)
class Cost:
    """What a dispatch moves and computes.

    Attributes:
        bytes: Those it reads or writes, each once.
        flops: Operations on floats.
    """

    bytes: int
    flops: int


def costs_of(program: Program) -> list[Cost]:
    """Returns what each dispatch and copy of a plan costs, in order; nothing where the program does not say."""
    given, count = program.statistics.get(DISPATCH_COSTS), len(list(runs(program.plan)))
    rows = cast("list[Any]", given) if isinstance(given, list) else []
    if len(rows) != count or not all(map(_is_cost, rows)):
        return [Cost(0, 0)] * count
    return [Cost(moved, computed) for moved, computed in rows]


def busiest(program: Program) -> str:
    """Returns the kernel that has the most to do in a step, with its line, as messages name it; nothing where none is.

    What a program's costs do not tell apart, the plan's order does.
    """
    costs = zip(runs(program.plan), costs_of(program), strict=True)
    work = [
        (math.prod(counts) * max(cost.bytes, cost.flops), step)
        for (step, counts), cost in costs
        if isinstance(step, Dispatch)
    ]
    if not work:
        return ""
    _, most = max(work, key=lambda one: one[0])
    return named(program, most)


def named(program: Program, step: Dispatch) -> str:
    """Returns a dispatch's kernel with the line that it comes from, as messages name it."""
    return f"kernel {program.kernels[step.kernel].entry!r}" + (f" ({step.label})" if step.label else "")


def _is_cost(row: Any) -> bool:
    numbers = cast("list[Any]", row) if isinstance(row, list) else []
    return len(numbers) == 2 and all(type(one) is int and one >= 0 for one in numbers)


@dataclass(frozen=True)
class DispatchTime:
    """What a dispatch of a program takes.

    Attributes:
        kernel: The kernel's name.
        label: The line that it comes from.
        workgroups: How many of them a dispatch has.
        times: How often a step runs it.
        seconds: The time of all its dispatches in a step, on the device.
        bytes: What all of them move.
        flops: The operations on floats of all of them.
    """

    kernel: str
    label: str
    workgroups: tuple[int, int, int]
    times: int
    seconds: float
    bytes: int = 0
    flops: int = 0

    def with_other(self, other: DispatchTime) -> DispatchTime:
        """Returns the sum of this and another dispatch of the same kernel."""
        return replace(
            self,
            times=self.times + other.times,
            seconds=self.seconds + other.seconds,
            bytes=self.bytes + other.bytes,
            flops=self.flops + other.flops,
        )


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
    def of(program: Program, steps: Sequence[Sequence[Span]], whole: Sequence[float]) -> Profile:
        """Returns the medians of what was measured.

        Args:
            program: What ran.
            steps: What each measured step took, in parts.
            whole: What steps took as they usually run.
        """
        totals = [_by_number(spans) for spans in steps]
        costs = costs_of(program)
        found: list[DispatchTime] = []
        for number, (step, counts) in enumerate(runs(program.plan)):
            if isinstance(step, Dispatch):
                kernel, times = program.kernels[step.kernel].entry, math.prod(counts)
                seconds, cost = median(one.get(number, 0.0) for one in totals), costs[number]
                moved, computed = times * cost.bytes, times * cost.flops
                found.append(DispatchTime(kernel, step.label, step.workgroups, times, seconds, moved, computed))
        return Profile(tuple(found), median(whole))

    def kernels(self) -> list[DispatchTime]:
        """Returns the dispatches, those of one kernel from one line together: layers share kernels."""
        rows: dict[tuple[object, ...], DispatchTime] = {}
        for one in self.dispatches:
            key = one.kernel, one.label, one.workgroups
            old = rows.get(key)
            rows[key] = one if old is None else old.with_other(one)
        return list(rows.values())

    @property
    def device_seconds(self) -> float:
        """What all dispatches of a step take on the device, one after another."""
        return sum(one.seconds for one in self.dispatches)


def _by_number(spans: Sequence[Span]) -> dict[int, float]:
    """Returns what each dispatch of the plan took in a step, all of its times together."""
    found: dict[int, float] = {}
    for span in spans:
        if span.is_kernel:
            found[span.number] = found.get(span.number, 0.0) + span.seconds
    return found


def profiled(
    program: Program,
    timer: StepTimer,
    step: Callable[[Mapping[str, Any], Mapping[str, float]], object],
    inputs: Mapping[str, Any],
    scalars: Mapping[str, float],
    steps: int,
) -> Profile:
    """Runs steps, and measures what their dispatches take: medians over the steps.

    These are steps as any others, so parameters and state change.

    Args:
        program: What runs.
        timer: Measures a step dispatch by dispatch.
        step: Runs a step as it usually runs, and waits for its end.
        inputs: Of a step.
        scalars: Of a step.
        steps: How many are measured, twice: dispatch by dispatch, and as a whole. One more runs first.

    Raises:
        InputError: Inputs or scalars don't fit.
        DeviceError: What the device reported.
    """
    step(inputs, scalars)
    parts = [timer.step(inputs, scalars)[1] for _ in range(steps)]
    whole: list[float] = []
    for _ in range(steps):
        start = time.perf_counter()
        step(inputs, scalars)
        whole.append(time.perf_counter() - start)
    return Profile.of(program, parts, whole)
