"""`Training.profile`: the time of steps, kernel by kernel, as a table and as a trace."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorgrad.errors import InputError, OptionError
from tensorgrad.interpreters.backend import NumpyExecutable
from tensorgrad.report.columns import aligned
from tensorgrad.runtime.backend import Executable, OutputHandle
from tensorgrad.runtime.cpu import CpuExecutable
from tensorgrad.runtime.cpu.profile import CpuTimer
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.profile import DispatchTime, Profile, Span, StepTimer

COLUMNS = ("kernel", "from", "calls", "us", "share", "bytes", "GB/s", "GFLOP/s")

TRACKS = ("compiling", "Python", "host", "kernels")
"""The tracks of a trace, in order."""


@dataclass(frozen=True)
class MeasuredStep:
    """A step and its measured time.

    Attributes:
        executable: The executable that ran.
        start: When it began, by `time.perf_counter`.
        seconds: Its duration as seen from Python.
        spans: The durations of its parts.
    """

    executable: Executable
    start: float
    seconds: float
    spans: tuple[Span, ...]


def timer_of(executable: Executable) -> StepTimer:
    """Returns the timer of an executable's steps.

    Raises:
        OptionError: It runs on numpy, which has no kernels.
        DeviceError: The device has no timestamps.
    """
    if isinstance(executable, CpuExecutable):
        return CpuTimer(executable)
    if isinstance(executable, NumpyExecutable):
        raise OptionError("device 'numpy' has no kernels to measure: choose another device of tg.compile")
    from tensorgrad.runtime.webgpu import WebGPUExecutable
    from tensorgrad.runtime.webgpu.profile import WebGPUTimer

    assert isinstance(executable, WebGPUExecutable)
    return WebGPUTimer(executable)


class StepProfile:
    """The profile of the steps run inside `with training.profile() as profile`; `print` shows a table.

    Kernels run one at a time so that each can be measured, so a profiled step takes longer than usual. Times are
    medians over the steps.

    Args:
        title: What is measured, and on which device.
        phases: How long each pass and other phase of the compilation took, in seconds.
    """

    def __init__(self, title: str, phases: Mapping[str, float]):
        self._title = title
        self._phases = dict(phases)
        self._timers: dict[Executable, StepTimer] = {}
        self._steps: list[MeasuredStep] = []

    def __repr__(self) -> str:
        return f"StepProfile({self._title}: {len(self._steps)} steps)"

    def __str__(self) -> str:
        return "\n\n".join([self._title, *(_table(self._of(executable)) for executable in self._executables())])

    @property
    def steps(self) -> int:
        """The number of steps, or of micro-batches, that were measured."""
        return len(self._steps)

    @property
    def dispatches(self) -> tuple[DispatchTime, ...]:
        """The time of each dispatch of a step, in order; with `accumulate`, of each of its programs."""
        return tuple(row for executable in self._executables() for row in self._of(executable).dispatches)

    def of(self, executable: Executable) -> Profile:
        """Returns the profile of one program's steps.

        Raises:
            InputError: None were measured.
        """
        if executable not in self._executables():
            raise InputError("profile: no step of this program has been measured")
        return self._of(executable)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for Perfetto and `chrome://tracing`: compilation, Python, uploads and waits, kernels.

        Args:
            path: The file: JSON, in Chrome's trace event format.

        Raises:
            OSError: The file can't be written.
        """
        Path(path).write_text(json.dumps({"traceEvents": self._events(), "displayTimeUnit": "ms"}), encoding="utf-8")

    def step(
        self, executable: Executable, inputs: Mapping[str, Any], scalars: Mapping[str, float]
    ) -> dict[str, OutputHandle]:
        """Runs a step as `Executable.step` does, and measures it.

        Raises:
            OptionError: It runs on numpy, which has no kernels.
            DeviceError: The device has no timestamps, or reported an error.
            InputError: Inputs or scalars don't match.
        """
        timer = self._timers.get(executable)
        if timer is None:
            timer = self._timers[executable] = timer_of(executable)
        start = time.perf_counter()
        outputs, spans = timer.step(inputs, scalars)
        self._steps.append(MeasuredStep(executable, start, time.perf_counter() - start, tuple(spans)))
        return outputs

    def _executables(self) -> list[Executable]:
        return list(dict.fromkeys(step.executable for step in self._steps))

    def _of(self, executable: Executable) -> Profile:
        steps = [step for step in self._steps if step.executable is executable]
        assert isinstance(executable, ProgramExecutable)
        return Profile.of(executable.program, [step.spans for step in steps], [step.seconds for step in steps])

    def _events(self) -> list[dict[str, Any]]:
        begin = self._steps[0].start if self._steps else 0.0
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": track, "args": {"name": name}}
            for track, name in enumerate(TRACKS)
        ]
        events.append({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": self._title}})
        at = begin - sum(self._phases.values())
        for name, seconds in self._phases.items():
            events.append(_event(name, 0, at, seconds))
            at += seconds
        for number, step in enumerate(self._steps):
            events.append(_event(f"step {number}", 1, step.start, step.seconds))
            for span in step.spans:
                label = {"line": span.label} if span.label else {}
                events.append(_event(span.name, 3 if span.is_kernel else 2, span.start, span.seconds, **label))
        first = min((event["ts"] for event in events if "ts" in event), default=0.0)
        return [{**event, "ts": event["ts"] - first} if "ts" in event else event for event in events]


def _event(name: str, track: int, start: float, seconds: float, **arguments: str) -> dict[str, Any]:
    """Returns a trace event; its times are in microseconds."""
    return {"ph": "X", "name": name, "pid": 0, "tid": track, "ts": 1e6 * start, "dur": 1e6 * seconds, "args": arguments}


def _table(profile: Profile) -> str:
    rows = sorted(profile.kernels(), key=lambda row: -row.seconds)
    cells = [COLUMNS, *(_cells(row.kernel, row.label, row, profile) for row in rows)]
    if rows:
        total = rows[0]
        for row in rows[1:]:
            total = total.with_other(row)
        cells.append(_cells("all", "", total, profile))
    return "\n".join(aligned(cells, numbers=range(2, len(COLUMNS))))


def _cells(kernel: str, label: str, row: DispatchTime, profile: Profile) -> tuple[str, ...]:
    speeds = (f"{count / row.seconds / 1e9:.2f}" if row.seconds else "" for count in (row.bytes, row.flops))
    share = row.seconds / profile.device_seconds if profile.device_seconds else 0.0
    return kernel, label, str(row.times), f"{1e6 * row.seconds:.1f}", f"{share:.1%}", f"{row.bytes:,}", *speeds
