"""Compares each kernel of a program on a device with what `buf` computes for the same kernel.

A step runs dispatch by dispatch. Every dispatch starts from what numpy computed for the kernels before it, so that only
the faulty kernel is blamed. Its bindings are compared afterwards: results within the bounds of `tolerance`, everything
else bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.checks import tolerance
from tensorgrad.checks.dispatches import KernelRun, PlannedSteps
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.errors import ExecutionError, NumericsError
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.profile import named
from tensorgrad.runtime.program import Collective, Copy, Dispatch, Wait, runs, unrolled
from tensorgrad.runtime.stepwise import Range

DOUBTS = 8
"""If an element is off, how many times its kernel reruns in f64 on perturbed operands, to see how far it moves."""


def check_kernels(
    steps: PlannedSteps,
    executable: ProgramExecutable[Any, Any],
    inputs: Mapping[str, NumpyArray],
    scalars: Mapping[str, float],
    device: str,
) -> None:
    """Runs a step on a device, and compares each kernel's results with numpy's.

    Args:
        steps: What the program's dispatches must compute.
        executable: The program, with the values of parameters and state, which are modified.
        inputs: The step's inputs.
        scalars: The step's scalars.
        device: The device's name in error messages.

    Raises:
        NumericsError: A kernel's result differs; names it, the user's line, and the worst element.
        ExecutionError: Numpy can't run a kernel.
        DeviceError: What the device reported.
    """
    _Checks(steps, executable, device).run(inputs, scalars)


class _Checks:
    """See `check_kernels`."""

    def __init__(self, steps: PlannedSteps, executable: ProgramExecutable[Any, Any], device: str):
        self._steps, self._executable, self._device = steps, executable, device
        self._program = executable.program

    def run(self, inputs: Mapping[str, NumpyArray], scalars: Mapping[str, float]) -> None:
        steps, stepwise = self._steps, self._executable.stepwise(inputs, scalars)
        whole: list[Range] = [(index, 0, buffer.size) for index, buffer in enumerate(self._program.buffers)]
        steps.memory = dict(enumerate(stepwise.read(whole)))
        steps.poison()
        stepwise.write((index, 0, steps.memory[index]) for index, _, _ in whole)
        for step, times in unrolled(self._program.plan):
            if isinstance(step, Collective | Wait):  # these have their own tests
                stepwise.run(step, times)
                ranges = self._exchanged(step)
                for (buffer, start, size), data in zip(ranges, stepwise.read(ranges), strict=True):
                    steps.memory[buffer][start : start + size] = data
                continue
            ran = steps.run(step, times)
            stepwise.run(step, times)
            ranges = _writable(step)
            actual = stepwise.read(ranges)
            expected = [steps.memory[buffer][start : start + size] for buffer, start, size in ranges]
            if any(not np.array_equal(array, other) for array, other in zip(actual, expected, strict=True)):
                self._compare(step, times, ran, ranges, actual)
                places = ((buffer, start) for buffer, start, _ in ranges)
                stepwise.write((*place, data) for place, data in zip(places, expected, strict=True))

    def _exchanged(self, step: Collective | Wait) -> Sequence[Range]:
        """Returns the ranges written by a collective that has finished by this step."""
        if isinstance(step, Collective):
            return step.writes if step.request is None else []
        begun = (step_ for step_, _ in runs(self._program.plan) if isinstance(step_, Collective))
        return next(collective.writes for collective in begun if collective.request == step.request)

    def _compare(
        self,
        step: Dispatch | Copy,
        times: tuple[int, ...],
        ran: Sequence[KernelRun],
        ranges: Sequence[Range],
        actual: Sequence[NumpyArray],
    ) -> None:
        """Compares the contents of ranges with what a step leaves there in numpy.

        Raises:
            NumericsError: They differ.
        """
        memory = {buffer: self._steps.memory[buffer].copy() for buffer, _, _ in ranges}
        for (buffer, start, size), data in zip(ranges, actual, strict=True):
            memory[buffer][start : start + size] = data
        others = {buffer: data != self._steps.memory[buffer] for buffer, data in memory.items()}
        for run in ran:
            for number, place in enumerate(run.written):
                fault = _fault(run, number, place.array(memory))
                if fault is not None:
                    what = place.name or f"its result {number}, which is {list(place.shape)}"
                    raise NumericsError(
                        f"{self._named(step, run)} gives something else on {self._device} than in numpy"
                        f"{_iteration(times)}: {fault.of(what)}"
                    )
                others[place.buffer][place.start : -(-(place.start + place.size) // 4) * 4] = False
        for buffer, mask in others.items():
            if mask.any():
                outside = " outside of its results" if ran else ""
                raise NumericsError(
                    f"{self._named(step, None)} leaves something else on {self._device} than in numpy"
                    f"{_iteration(times)}: {int(mask.sum())} bytes{outside} of buffer "
                    f"{self._program.buffers[buffer].name!r}, the first at {int(mask.argmax())}"
                )

    def _named(self, step: Dispatch | Copy, run: KernelRun | None) -> str:
        if isinstance(step, Copy):
            return f"the copy to buffer {self._program.buffers[step.destination].name!r}"
        if run is None:
            return named(self._program, step)
        return f"kernel {self._program.kernels[step.kernel].entry!r} ({line_of(run.op.location)})"


def _writable(step: Dispatch | Copy) -> list[Range]:
    """Returns the ranges that a step may write to."""
    if isinstance(step, Copy):
        return [(step.destination, step.destination_offset, step.size)]
    return [
        (binding.buffer, binding.offset, binding.size) for binding in step.bindings if binding.access == "read_write"
    ]


@dataclass(frozen=True)
class _Fault:
    """Elements of a kernel's result that exceed the tolerance.

    Attributes:
        count: The number of such elements.
        size: The number of elements of the result.
        worst: The index of the element that exceeds its tolerance most.
        actual: Its value.
        value: The expected value.
        allowed: Its tolerance.
    """

    count: int
    size: int
    worst: tuple[int, ...]
    actual: object
    value: object
    allowed: float

    def of(self, what: str) -> str:
        """Returns a description."""
        return (
            f"{self.count} of {self.size} elements of {what}, the worst at {list(self.worst)}, is {self.actual} and "
            f"should be {self.value}; {self.allowed:.3g} is allowed"
        )


def _fault(run: KernelRun, number: int, actual: NumpyArray) -> _Fault | None:
    """Returns the elements of a result that are out of tolerance, if any; non-finite numpy values are not compared."""
    value, actual = run.read(number, run.after[number]), run.read(number, actual)
    bounds: NumpyArray | float = 0.0
    distance = _distance(actual, value)
    off = np.ones(value.shape, np.bool_)
    for bounds in _bounds(run, number, value):
        off = np.isfinite(value) & ~(distance <= bounds) & ~np.isnan(bounds)
        if not off.any():
            return None
    with np.errstate(over="ignore"):
        share = np.where(off, distance / np.maximum(bounds, np.finfo(np.float64).tiny), -1.0)
    share = np.where(np.isnan(share), np.inf, share)
    worst = tuple(map(int, np.unravel_index(int(share.argmax()), value.shape)))
    allowed = float(np.broadcast_to(bounds, value.shape)[worst])
    return _Fault(int(off.sum()), value.size, worst, actual[worst], value[worst], allowed)


def _bounds(run: KernelRun, number: int, value: NumpyArray) -> Iterator[NumpyArray | float]:
    """Yields increasingly wide tolerances for the elements of a result, computed lazily.

    First the minimum tolerance, then the difference between f32 and f64, finally how far rounding moves each element:
    near a discontinuity, such as a comparison, that is much.
    """
    least = tolerance.SHORT.get(value.dtype.name, tolerance.LEAST)
    yield tolerance.slack(value, value, least)
    wide = _again(run, number, None)
    if wide is None:
        return
    is_float = tolerance.is_float(value)
    if is_float:
        yield tolerance.slack(value, wide, least)
    bounds = np.full(value.shape, tolerance.slack(value, wide, least) if is_float else 0.0)
    for seed in (None, *range(1, DOUBTS + 1)):
        moved = _again(run, number, seed)
        if moved is not None:
            distance = tolerance.FACTOR * _distance(moved, value)
            bounds = np.fmax(bounds, distance if is_float else np.where(distance > 0, np.inf, 0.0))
    yield bounds


def _again(run: KernelRun, number: int, seed: int | None) -> NumpyArray | None:
    """Returns a result in f64 for perturbed operands; `None` if the kernel can't run on them."""
    try:
        return run.read(number, run.again(seed)[number])
    except ExecutionError:  # an index computed from them is out of range
        return None


def _distance(first: NumpyArray, second: NumpyArray) -> NumpyArray:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(first.astype(np.float64) - second.astype(np.float64))


def _iteration(times: tuple[int, ...]) -> str:
    return f", in iteration {list(times)} of its loops" if times else ""
