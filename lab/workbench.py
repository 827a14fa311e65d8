"""IR on a workbench: passes run one by one, and each is judged by the values that the module computes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.checks.numerics import NumericsVerifier
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import scheduled_passes
from tensorgrad.passes.running import without_target
from tensorgrad.report.difference import NamedText, difference
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.cpu.profile import profile
from tensorgrad.runtime.errors import TensorgradError
from tensorgrad.runtime.program import ProgramRole
from tensorgrad.tools.bench import drawn
from tensorgrad.tools.parsing import parse_module

MOST_LINES = 400
"""The longest diff, in lines."""
REPETITIONS = 30
"""How often a program is timed."""


@dataclass(frozen=True)
class Step:
    """What a pass did to a module.

    Attributes:
        name: The pass, without its target.
        text: The module after it.
        changed: What it changed, as a unified diff.
        seconds: How long it took.
        fault: What is wrong with the module afterwards, or why the pass failed; "" if it computes what it did before.
    """

    name: str
    text: str
    changed: str
    seconds: float
    fault: str


def run(text: str, passes: Sequence[ModulePass]) -> list[Step]:
    """Runs passes on a module, as `tg-opt --verify-numerics-each` does.

    Inputs are sampled, the same ones each time. Modules of tensors and buffers are interpreted by NumPy; those of code
    run on the device.

    Args:
        text: A module of one function, at any level from `tg` to `buf`.
        passes: The passes, in order.

    Returns:
        A step for each pass; the last one is that of the first fault.

    Raises:
        ProgramError: The text is not a valid module.
    """
    module, named = parse_module(text, "the module"), NamedText()
    verifier = NumericsVerifier(module)
    steps: list[Step] = []
    lines = named.lines(module)
    for pass_ in passes:
        fault, start = "", time.perf_counter()
        try:
            pass_.apply(Context(), module)
            seconds = time.perf_counter() - start
            module.verify()
            verifier.check(pass_, module)
        except (TensorgradError, DiagnosticException, VerifyException) as error:
            seconds, fault = time.perf_counter() - start, str(error)
        before, lines = lines, named.lines(module)
        changed = difference(before, lines, MOST_LINES)
        steps.append(Step(without_target(pass_), "\n".join(lines), changed, seconds, fault))
        if fault:
            break
    return steps


def seconds_of(text: str) -> float:
    """Returns how long the kernels of a module take on the CPU, in seconds: the median of several runs.

    Args:
        text: A module of scheduled kernels: `buf`, before its memory is planned.

    Raises:
        TensorgradError: The text is not a valid module, or the CPU can't run it.
    """
    device, module = CpuDevice(), parse_module(text, "the module")
    for pass_ in scheduled_passes(device.target):
        pass_.apply(Context(), module)
    executable = CpuExecutable(build_program(module, device.target), device)
    inputs = drawn(executable.program.slots(ProgramRole.INPUT), scale=1.0)
    executable.write(drawn(executable.program.slots(ProgramRole.PARAMETER), scale=0.02))
    return profile(executable, inputs, {}, REPETITIONS).step_seconds
