"""Reruns the passes of a compilation, and records the data that a report shows."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.errors import ProgramError
from tensorgrad.passes.analyses.machine import machine_of, roofline
from tensorgrad.passes.buffers.decisions import Decision, following
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.llvm import emit_llvm
from tensorgrad.passes.codegen.wgsl import emit_wgsl
from tensorgrad.passes.pipelines import Phase, start_of
from tensorgrad.passes.running import PACKAGE, apply_pass, without_target
from tensorgrad.report.decisions import Destinations, choices_of, decisions_of, names_of_results
from tensorgrad.report.difference import NamedText, difference
from tensorgrad.report.facts import Facts, KernelCode, Level, PassRun, PlannedStep
from tensorgrad.report.flow import Flow, flow_of, flow_of_program
from tensorgrad.report.locations import Sources, printed
from tensorgrad.report.stages import busiest_module
from tensorgrad.runtime.profile import Peaks, Profile, costs_of
from tensorgrad.runtime.program import Dispatch, Kernel, Program, runs
from tensorgrad.runtime.target import Target

TITLES = {
    "traced": "what Python recorded",
    "tg": "tensors, with derivatives and updates",
    "buf": "kernels that are fused and scheduled, and the memory plan",
    "cpu": "native loops",
    "wgsl": "kernels for shaders",
    "llvm": "kernels for native code",
}
"""One-line descriptions of the levels."""

MOST_LINES = 40_000
"""The most lines of a level in a report."""

MOST_CHANGED = 3_000
"""The most lines of a pass's diff in a report."""


def collect(
    traced: ModuleOp,
    on_tensors: Sequence[ModulePass],
    below: Sequence[ModulePass],
    target: Target,
    name: str,
    device: str,
    profile: Profile | None = None,
    folder: Path | None = None,
    peaks: Peaks | None = None,
    script: str = "",
) -> Facts:
    """Returns the data of a report about a function.

    Args:
        traced: The traced function; not modified.
        on_tensors: The passes that stay on `tg`.
        below: The passes from there down to kernels.
        target: The target to compile for.
        name: The function's name.
        device: A description of the device.
        profile: What its dispatches take, where that was measured.
        folder: What relative paths of its source are relative to, before the current folder.
        peaks: What kernels reach on the device at best, where that was measured.
        script: The file of the program that compiles it, if it is known.

    Raises:
        ProgramError: A pass rejects the program.
    """
    collector = _Collector(traced, target, folder)
    facts = collector.run(on_tensors, below, name, device, profile)
    return replace(facts, peaks=peaks, script=collector.sources.path(script) if script else "")


class _Collector:
    """A module being lowered, and the data recorded so far."""

    def __init__(self, traced: ModuleOp, target: Target, folder: Path | None):
        self._module = traced.clone()
        self._target = target
        self.sources = Sources(folder)
        self._levels: list[Level] = []
        self._passes: list[PassRun] = []
        self._decisions: list[list[Decision]] = []
        self._flow = Flow()
        self._results: dict[str, str] = {}
        self._named = NamedText()
        self._text: list[str] = []

    def run(
        self,
        on_tensors: Sequence[ModulePass],
        below: Sequence[ModulePass],
        name: str,
        device: str,
        profile: Profile | None,
    ) -> Facts:
        """Runs the passes; returns the recorded data."""
        self._text = self._named.lines(self._module)
        self._level("traced")
        passes = [*on_tensors, *below]
        lowering = start_of(Phase.DEVICE, passes)
        for number in range(len(passes)):
            if number == len(on_tensors):
                self._level("tg")
            if number == lowering:
                self._level("buf")
                self._flow = flow_of(self._module, self.sources)
            self._apply(passes, number)
            if number == lowering and self._target.native:
                self._level("cpu")
        self._level("llvm" if self._target.native else "wgsl")
        program = build_program(self._module, self._target, name)
        kernels = tuple(self._code(kernel) for kernel in program.kernels)
        if len(self._flow.uses) != len(list(runs(program.plan))):
            self._flow = flow_of_program(program)
        destinations = Destinations(chain(*self._decisions), self._flow, self._results)
        return Facts(
            name,
            device,
            versions(),
            dict(program.statistics),
            self.sources.files(),
            tuple(self._levels),
            tuple(
                replace(
                    run,
                    decisions=decisions_of(decisions, destinations, self.sources),
                    choices=choices_of(decisions, destinations, self.sources),
                )
                for run, decisions in zip(self._passes, self._decisions, strict=True)
            ),
            kernels,
            runs_of(program, self._flow, kernels, profile, self._target),
            tuple(self._flow.values),
            _arenas(program),
            None if profile is None else profile.step_seconds,
        )

    def _apply(self, passes: Sequence[ModulePass], number: int) -> None:
        start = time.perf_counter()
        try:
            with following() as decisions:
                apply_pass(passes, number, Context(), self._module, None)
        except DiagnosticException as error:
            raise ProgramError(str(error)) from error
        seconds = time.perf_counter() - start
        self._decisions.append(decisions)
        before, self._text = self._text, self._named.lines(self._module)
        if decisions:
            self._results |= names_of_results(self._module)
        ops = list(self._module.walk())
        kernels = sum(isinstance(op, KernelOp | wgsl.KernelOp | cpu.KernelOp | llvm.FuncOp) for op in ops)
        self._passes.append(
            PassRun(
                without_target(passes[number]), seconds, len(ops), kernels, difference(before, self._text, MOST_CHANGED)
            )
        )

    def _level(self, name: str) -> None:
        text, places = printed(self._module, self.sources)
        lines = text.split("\n")
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"// {len(lines) - MOST_LINES} lines more; TG_DUMP writes all"]
        self._levels.append(Level(name, TITLES[name], "\n".join(lines), places[: len(lines)]))

    def _code(self, kernel: Kernel) -> KernelCode:
        op = next(op for op in self._module.ops if _symbol(op) == kernel.entry)
        made_of = emit_llvm.line_origins(op) if isinstance(op, llvm.FuncOp) else self._shader_origins(op)
        lines = tuple(map(self.sources.places_of, made_of))
        return KernelCode(kernel.entry, kernel.language, kernel.code, self.sources.places(op), lines)

    def _shader_origins(self, op: Operation) -> Sequence[Sequence[Operation]]:
        assert isinstance(op, wgsl.KernelOp)
        return emit_wgsl.line_origins(op, self._target)


def _symbol(op: Operation) -> str | None:
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None


def runs_of(
    program: Program,
    flow: Flow,
    kernels: Sequence[KernelCode],
    profile: Profile | None,
    target: Target | None = None,
) -> tuple[PlannedStep, ...]:
    """Returns the dispatches and copies of a program.

    Args:
        program: The program.
        flow: Their reads and writes, in the same order.
        kernels: The program's kernels, in its order.
        profile: What its dispatches take, where that was measured.
        target: What it was compiled for, if that is known.
    """
    machine = None if target is None else machine_of(target)
    seconds = iter([dispatch.seconds for dispatch in profile.dispatches] if profile else [])
    steps: list[PlannedStep] = []
    for (step, counts), use, cost in zip(runs(program.plan), flow.uses, costs_of(program), strict=True):
        kernel, label, places, groups, duration = -1, "", use.places, (), None
        if isinstance(step, Dispatch):
            kernel, label, groups, duration = step.kernel, step.label, step.workgroups, next(seconds, None)
            places = places or kernels[kernel].places
        steps.append(
            PlannedStep(
                kernel,
                label,
                places,
                groups,
                math.prod(counts),
                use.reads,
                use.writes,
                cost.bytes,
                cost.flops,
                duration,
                use.branch,
                use.stages,
                busiest_module(use.stages),
                use.grid,
                use.schedules,
                (0.0, 0.0) if machine is None else roofline(machine, cost.bytes, cost.flops),
            )
        )
    return tuple(steps)


def facts_of_program(program: Program, profile: Profile | None = None) -> Facts:
    """Returns the data of a report about a program without IR, such as one from a file."""
    kernels = tuple(KernelCode(kernel.entry, kernel.language, kernel.code, ()) for kernel in program.kernels)
    flow = flow_of_program(program)
    return Facts(
        program.name,
        "" if program.target is None else program.target.name,
        versions(),
        dict(program.statistics),
        kernels=kernels,
        runs=runs_of(program, flow, kernels, profile, program.target),
        values=tuple(flow.values),
        arenas=_arenas(program),
        step_seconds=None if profile is None else profile.step_seconds,
    )


def _arenas(program: Program) -> dict[str, int]:
    return {buffer.name: buffer.size for buffer in program.buffers}


def versions() -> dict[str, str]:
    """Returns the versions of the compiler's packages."""
    return {PACKAGE: version(PACKAGE), "xdsl": version("xdsl")}
