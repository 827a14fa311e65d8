"""`Training.profile`: the time of steps, kernel by kernel, as a table and as a trace."""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorgrad.errors import InputError, OptionError
from tensorgrad.interpreters.backend import NumpyExecutable
from tensorgrad.report import CompilationReport
from tensorgrad.report.collect import facts_of_program
from tensorgrad.report.facts import Facts
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.columns import aligned
from tensorgrad.runtime.cpu import CpuExecutable
from tensorgrad.runtime.cpu.profile import CpuTimer
from tensorgrad.runtime.executable import ProgramExecutable
from tensorgrad.runtime.files import write_text
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.runtime.profile import Cost, DispatchTime, Profile, Span, StepTimer, costs_of
from tensorgrad.runtime.program import Dispatch, Leaf, Program, ProgramRole, runs

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

    def _repr_html_(self) -> str:
        """Returns the table, for notebooks."""
        return f"<pre>{html.escape(str(self))}</pre>"

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

    def save_trace(self, path: str | os.PathLike[str], report: CompilationReport | None = None) -> None:
        """Writes a trace for Perfetto and `chrome://tracing`: compilation, Python, uploads and waits, kernels, memory.

        A kernel's slice has its line, its bytes and operations and its speed as arguments. A counter shows the bytes in
        use, by the live ranges of buffers.

        Args:
            path: The file: JSON, in Chrome's trace event format.
            report: The report of the program, for the module that each kernel is from; reports rerun all passes.

        Raises:
            OSError: The file can't be written.
        """
        facts = None if report is None else report.facts
        text = json.dumps({"traceEvents": self._events(facts), "displayTimeUnit": "ms"})
        write_text(path, text)

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

    def _events(self, facts: Facts | None) -> list[dict[str, Any]]:
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
        programs = {executable: _TracedProgram.of(executable, facts) for executable in self._executables()}
        for number, step in enumerate(self._steps):
            events.append(_event(f"step {number}", 1, step.start, step.seconds))
            program = programs[step.executable]
            for span in step.spans:
                if span.is_kernel:
                    events.append(_event(span.name, 3, span.start, span.seconds, **program.arguments(span)))
                    events.append(program.memory(span.start, program.live[span.number]))
                else:
                    events.append(_event(span.name, 2, span.start, span.seconds))
            events.append(program.memory(step.start + step.seconds, 0))
        first = min((event["ts"] for event in events if "ts" in event), default=0.0)
        return [{**event, "ts": event["ts"] - first} if "ts" in event else event for event in events]


@dataclass(frozen=True)
class _TracedProgram:
    """What a trace says of a program's dispatches.

    Attributes:
        plan: The dispatches and copies of a step, in order.
        costs: Their costs.
        modules: The modules that they are from, if these are known.
        live: The bytes of the workspace in use at each.
        kept: The bytes of all other buffers.
    """

    plan: Sequence[Leaf]
    costs: Sequence[Cost]
    modules: Sequence[str]
    live: Sequence[int]
    kept: int

    @staticmethod
    def of(executable: Executable, facts: Facts | None) -> _TracedProgram:
        """Returns what a trace says of an executable's program.

        Args:
            executable: The executable.
            facts: Those of a report, perhaps on another program.
        """
        assert isinstance(executable, ProgramExecutable)
        program: Program = executable.program
        plan = [step for step, _ in runs(program.plan)]
        own = facts_of_program(program)
        known = own if facts is None or not _is_of(facts, own) else facts
        kept = sum(buffer.size for buffer in program.buffers if buffer.role != ProgramRole.WORKSPACE)
        return _TracedProgram(plan, costs_of(program), [run.module for run in known.runs], known.live_bytes(), kept)

    def arguments(self, span: Span) -> dict[str, Any]:
        """Returns the arguments of a kernel's slice."""
        step, cost = self.plan[span.number], self.costs[span.number]
        named = {"line": span.label, "module": self.modules[span.number]}
        arguments: dict[str, Any] = {name: text for name, text in named.items() if text}
        if isinstance(step, Dispatch):
            arguments["workgroups"] = " x ".join(map(str, step.workgroups))
        arguments |= {"bytes": cost.bytes, "flops": cost.flops}
        if span.seconds:
            arguments["GB/s"] = float(f"{cost.bytes / span.seconds / 1e9:.4g}")
            arguments["GFLOP/s"] = float(f"{cost.flops / span.seconds / 1e9:.4g}")
        return arguments

    def memory(self, at: float, workspace: int) -> dict[str, Any]:
        """Returns the event of the counter of memory at a time."""
        counts = {"workspace": workspace, "all else": self.kept}
        return {"ph": "C", "name": "bytes in use", "pid": 0, "ts": 1e6 * at, "args": counts}


def _is_of(facts: Facts, own: Facts) -> bool:
    """Returns whether a report is on the program that another one is on."""
    described, other = (
        ([(run.kernel, run.label, run.workgroups) for run in side.runs], [kernel.code for kernel in side.kernels])
        for side in (facts, own)
    )
    return described == other


def _event(name: str, track: int, start: float, seconds: float, **arguments: Any) -> dict[str, Any]:
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
