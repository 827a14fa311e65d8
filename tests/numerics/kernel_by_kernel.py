"""Runs a module's kernels one by one on a device, compares each with `buf`, and plants bugs in their code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness import NumpyArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tensorgrad.checks.dispatches import PlannedSteps
from tensorgrad.checks.evaluation import Samples
from tensorgrad.checks.kernels import check_kernels
from tensorgrad.driver.device import described, find_device, load_program
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.levels import Level, level_of
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.slots import DTYPES

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

DEVICES = ("cpu", "wgpu")

Edit = Callable[[str], str | None]
"""Puts a bug into a kernel's text, where there is a place for it."""


def device_of(name: str) -> ProgramDevice:
    device = find_device(name)
    assert device is not None
    return device


@dataclass
class Compiled:
    """A program, with the kernels that it was lowered from."""

    device: ProgramDevice
    program: Program
    planned: ModuleOp | None
    lowered: ModuleOp

    @classmethod
    def of(cls, module: ModuleOp, device: str, passes: list[ModulePass] | None = None) -> Compiled:
        """Lowers a module in place."""
        program_device, planned = device_of(device), None
        for pass_ in inference_passes(program_device.target) if passes is None else passes:
            pass_.apply(Context(), module)
            planned = module.clone() if level_of(module) is Level.PLANNED else planned
        return cls(program_device, build_program(module, program_device.target), planned, module)

    def check(self, values: Mapping[str, NumpyArray] | None = None, seed: int = 0) -> None:
        """Compares every kernel, with these values for arguments; others are sampled."""
        if self.planned is None:  # there are no kernels
            return
        steps = PlannedSteps(self.planned, self.lowered, self.program)
        executable = load_program(self.device, self.program)
        samples = Samples(values or {}, seed)
        slots = self.program.slots("parameter", "state", "input")
        drawn = {name: samples.array(s.role, name, s.shape, DTYPES[s.dtype]) for name, s in slots.items()}
        executable.write({name: drawn[name] for name in executable.persistent})
        inputs = {name: drawn[name] for name in executable.program_inputs}
        check_kernels(steps, executable, inputs, samples.settings(executable.scalar_names), described(self.device))

    def damaged(self, entry: str, bug: str) -> Compiled | None:
        """Returns the program with a bug in one kernel; `None` if the bug doesn't apply to its text."""
        number = next(i for i, kernel in enumerate(self.program.kernels) if kernel.entry == entry)
        kernel = self.program.kernels[number]
        code = BUGS[kernel.language][bug](kernel.code)
        if code is None:
            return None
        kernels = list(self.program.kernels)
        kernels[number] = replace(kernel, code=code)
        return replace(self, program=replace(self.program, kernels=tuple(kernels)))


def _last(pattern: str, code: str, new: str | Callable[[re.Match[str]], str]) -> str | None:
    """Replaces the last match."""
    matches = list(re.finditer(pattern, code, re.MULTILINE))
    if not matches:
        return None
    match = matches[-1]
    return code[: match.start()] + (match.expand(new) if isinstance(new, str) else new(match)) + code[match.end() :]


def _native_sign(code: str) -> str | None:
    stored = r"^  store (float|<\d+ x float>) (%\d+), ptr"
    planted = _last(stored, code, r"  %planted = fneg \1 \2\n  store \1 %planted, ptr")
    return planted or _last(r"^  store i32 (%\d+), ptr", code, r"  %planted = sub i32 0, \1\n  store i32 %planted, ptr")


def _native_index(code: str) -> str | None:
    loaded = r"^  (%\d+) = load (float|<\d+ x float>|i32), ptr (%\d+)"
    return _last(
        loaded,
        code,
        r"  %place = ptrtoint ptr \3 to i64\n  %wrong = xor i64 %place, 4\n  %there = inttoptr i64 %wrong to ptr\n"
        r"  \1 = load \2, ptr %there",
    )


BUGS: dict[str, dict[str, Edit]] = {
    "wgsl": {
        "sign": lambda code: _last(r"^(\s*b\d+\[.*\]) = (.*);$", code, r"\1 = -(\2);"),
        "index": lambda code: _last(r"(?<=[ (=+*-])(b\d+)\[(v\d+)\](?! =)", code, r"\1[\2 ^ 1u]"),
        "edge": lambda code: _last(
            r"(?<=[<=] )([2-9]|\d\d+)u(?=\)| &&|;| \+ v\d+;)", code, lambda match: f"{int(match[1]) - 1}u"
        ),
    },
    "llvm": {
        "sign": _native_sign,
        "index": _native_index,
        "edge": lambda code: _last(
            r"(?<=icmp slt i64 )(%\d+), ([2-9]|\d\d+)$", code, lambda match: f"{match[1]}, {int(match[2]) - 1}"
        ),
    },
}
"""By language: a stored value with its sign flipped, a load of the element next to the right one, and a loop or a
condition whose bound is too small by one."""
