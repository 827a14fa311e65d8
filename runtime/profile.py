"""Profiles of a step, per dispatch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Protocol, cast

from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.program import DISPATCH_COSTS, Dispatch, Program, runs


@dataclass(frozen=True)
class Span:
    """A span of time within a step.

    Attributes:
        name: The kernel's name, or that of the host's work.
        label: The source line of the kernel, or "".
        is_kernel: Whether it ran on the device.
        number: The index of the plan's step, counting steps in loops once; -1 for the host's work.
        start: The start time, by `time.perf_counter`.
        seconds: The duration.
    """

    name: str
    label: str
    is_kernel: bool
    number: int
    start: float
    seconds: float


class StepTimer(Protocol):
    """Runs steps of an executable one dispatch at a time, and times each."""

    def step(
        self, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> tuple[dict[str, OutputHandle], list[Span]]:
        """Runs a step as `Executable.step` does, and waits for it; returns the time spans too."""
        ...


@dataclass(frozen=True)
class Cost:
    """The memory traffic and arithmetic of a dispatch.

    Attributes:
        bytes: The bytes that it reads or writes, each counted once.
        flops: Floating-point operations.
    """

    bytes: int
    flops: int


def costs_of(program: Program) -> list[Cost]:
    """Returns the cost of each dispatch and copy of a plan, in order; zeros if the program does not record it."""
    costs, count = program.statistics.get(DISPATCH_COSTS), len(list(runs(program.plan)))
    rows = cast("list[Any]", costs) if isinstance(costs, list) else []
    if len(rows) != count or not all(map(_is_cost, rows)):
        return [Cost(0, 0)] * count
    return [Cost(moved, computed) for moved, computed in rows]


def busiest(program: Program) -> str:
    """Returns the kernel with the most work in a step, with its line, as error messages name it; "" without kernels.

    Ties in cost are broken by plan order.
    """
    costs = zip(runs(program.plan), costs_of(program), strict=True)
    work = [
        (math.prod(counts) * max(cost.bytes, cost.flops), step)
        for (step, counts), cost in costs
        if isinstance(step, Dispatch)
    ]
    if not work:
        return ""
    _, most = max(work, key=lambda pair: pair[0])
    return named(program, most)


def named(program: Program, step: Dispatch) -> str:
    """Returns a dispatch's kernel with its source line, as error messages name it."""
    return f"kernel {program.kernels[step.kernel].entry!r}" + (f" ({step.label})" if step.label else "")


def _is_cost(row: Any) -> bool:
    numbers = cast("list[Any]", row) if isinstance(row, list) else []
    return len(numbers) == 2 and all(type(number) is int and number >= 0 for number in numbers)


@dataclass(frozen=True)
class Peaks:
    """What kernels reach on a device at best, measured: the roofline that others are compared with.

    S. Williams, A. Waterman, D. Patterson: Roofline: An Insightful Visual Performance Model for Multicore Architectures
    (CACM 52, 2009).

    Attributes:
        bytes_per_second: Of a kernel that only moves memory, more than caches hold.
        flops_per_second: Of a product of large matrices in f32.
    """

    bytes_per_second: float
    flops_per_second: float


@dataclass(frozen=True)
class DispatchTime:
    """The time that a dispatch of a program takes.

    Attributes:
        kernel: The kernel's name.
        label: The kernel's source line.
        workgroups: The number of workgroups of a dispatch.
        times: How often a step runs it.
        seconds: The device time of all its runs in a step.
        bytes: The bytes that all runs move.
        flops: The floating-point operations of all runs.
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
    """The time that a step takes.

    Attributes:
        dispatches: The time of each dispatch of the plan, in order.
        step_seconds: The time of an unprofiled step, including the wait for its completion.
    """

    dispatches: tuple[DispatchTime, ...]
    step_seconds: float

    @staticmethod
    def of(program: Program, steps: Sequence[Sequence[Span]], whole: Sequence[float]) -> Profile:
        """Returns the medians of the measurements.

        Args:
            program: The program that ran.
            steps: The spans of each profiled step.
            whole: The times of unprofiled steps.
        """
        totals = [_by_number(spans) for spans in steps]
        costs = costs_of(program)
        dispatches: list[DispatchTime] = []
        for number, (step, counts) in enumerate(runs(program.plan)):
            if isinstance(step, Dispatch):
                kernel, times = program.kernels[step.kernel].entry, math.prod(counts)
                seconds, cost = median(total.get(number, 0.0) for total in totals), costs[number]
                moved, computed = times * cost.bytes, times * cost.flops
                dispatches.append(DispatchTime(kernel, step.label, step.workgroups, times, seconds, moved, computed))
        return Profile(tuple(dispatches), median(whole))

    def kernels(self) -> list[DispatchTime]:
        """Returns the dispatches, merging those of the same kernel and line, as layers share kernels."""
        rows: dict[tuple[object, ...], DispatchTime] = {}
        for dispatch in self.dispatches:
            key = dispatch.kernel, dispatch.label, dispatch.workgroups
            old = rows.get(key)
            rows[key] = dispatch if old is None else old.with_other(dispatch)
        return list(rows.values())

    @property
    def device_seconds(self) -> float:
        """The device time of all dispatches of a step, summed."""
        return sum(dispatch.seconds for dispatch in self.dispatches)


def _by_number(spans: Sequence[Span]) -> dict[int, float]:
    """Returns the time of each dispatch of the plan in a step, summed over its runs."""
    results: dict[int, float] = {}
    for span in spans:
        if span.is_kernel:
            results[span.number] = results.get(span.number, 0.0) + span.seconds
    return results


def profiled(
    program: Program,
    timer: StepTimer,
    step: Callable[[Mapping[str, Any], Mapping[str, float]], object],
    inputs: Mapping[str, Any],
    scalars: Mapping[str, float],
    steps: int,
) -> Profile:
    """Profiles steps: runs them and returns the medians of their dispatches' times.

    They are ordinary steps, so parameters and state change.

    Args:
        program: The program that runs.
        timer: Runs a step with a measurement of each dispatch.
        step: Runs an unprofiled step, and waits for it.
        inputs: The inputs of each step.
        scalars: The scalars of each step.
        steps: How many are measured of each kind, per dispatch and as a whole, after one warm-up.

    Raises:
        InputError: Inputs or scalars don't fit.
        DeviceError: The device reported an error.
    """
    step(inputs, scalars)
    parts = [timer.step(inputs, scalars)[1] for _ in range(steps)]
    whole: list[float] = []
    for _ in range(steps):
        start = time.perf_counter()
        step(inputs, scalars)
        whole.append(time.perf_counter() - start)
    return Profile.of(program, parts, whole)
