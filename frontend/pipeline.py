"""From a traced function to something that runs: the passes, timed by phase, and what loads their result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from tensorgrad.dialects.signature import arguments_of
from tensorgrad.errors import OptionError, ProgramError
from tensorgrad.passes.functions import find_function
from tensorgrad.passes.pipelines import DEFAULT_TARGET, device_passes
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.numpy_backend import NumpyExecutable

if TYPE_CHECKING:
    from tensorgrad.runtime.program import Program
    from tensorgrad.runtime.target import Target
    from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable

LOWERING_TO_WGSL = "lower-buf-to-wgsl"
"""The pass that leaves the level `buf`."""


@dataclass
class Phases:
    """How long each phase of a compilation took, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Adds the time of the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def run_passes(module: ModuleOp, passes: Sequence[ModulePass], phases: Phases) -> None:
    """Runs passes on a module and verifies what they leave.

    Raises:
        ProgramError: A pass refuses the program; says which and why.
    """
    context = Context()
    name = "verify"
    try:
        for one in passes:
            name = one.name
            with phases.measure(name):
                one.apply(context, module)
        name = "verify"
        with phases.measure(name):
            module.verify()
    except (DiagnosticException, VerifyException) as error:
        raise ProgramError(f"{name}: {error}") from error


@dataclass
class Compilation:
    """A traced function on its way down.

    Attributes:
        name: What messages call the program.
        traced: The module as it was traced; every level is made from a copy of it.
        tensor_passes: The passes that stay on `tg`.
        device: Where it is to run; `None` is numpy.
        phases: How long everything took.
        settings: What the formulas of its scalars are computed from; known once it is loaded.
    """

    name: str
    traced: ModuleOp
    tensor_passes: Callable[[], Sequence[ModulePass]]
    device: WebGPUDevice | None
    phases: Phases
    settings: frozenset[str] = frozenset()

    def load(self, share: Executable | None) -> Executable:
        """Compiles the function and loads it on its device.

        Args:
            share: An executable on the same device whose parameters it is to use.

        Raises:
            ProgramError: A pass refuses the program.
            TensorgradError: The device can't run it.
        """
        module = self.traced.clone()
        run_passes(module, self.tensor_passes(), self.phases)
        slots = arguments_of(find_function(module, None))
        self.settings = frozenset(name for slot in slots if slot.formula for name in Formula(slot.formula).names)
        if self.device is None:
            with self.phases.measure("load"):
                assert share is None or isinstance(share, NumpyExecutable)
                return NumpyExecutable(module, share=share)
        return self._load_on_device(module, self.device, share)

    def _load_on_device(self, module: ModuleOp, device: WebGPUDevice, share: Executable | None) -> WebGPUExecutable:
        from tensorgrad.runtime.webgpu import WebGPUExecutable

        program = self._lowered(module, device.target)
        with self.phases.measure("load"):
            assert share is None or isinstance(share, WebGPUExecutable)
            return WebGPUExecutable(program, device, share)

    def _lowered(self, module: ModuleOp, target: Target) -> Program:
        from tensorgrad.passes.build_program import build_program

        run_passes(module, device_passes(target.to_json()), self.phases)
        with self.phases.measure("build"):
            return build_program(module, target, self.name)

    def program(self) -> Program:
        """The program for the device; one for what every WebGPU device has, where that is numpy."""
        from tensorgrad.runtime.target import Target

        target = Target.named(DEFAULT_TARGET) if self.device is None else self.device.target
        module = self.traced.clone()
        run_passes(module, self.tensor_passes(), Phases())
        return self._lowered(module, target)

    def text(self, level: str) -> str:
        """The IR at a level, made anew from what was traced.

        Raises:
            OptionError: There is no such level; lists those there are.
        """
        if level not in LEVELS:
            raise OptionError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
        module = self.traced.clone()
        run_passes(module, LEVELS[level](self), Phases())
        return str(module)

    def down_to_wgsl(self) -> list[ModulePass]:
        """All passes."""
        target = DEFAULT_TARGET if self.device is None else self.device.target.to_json()
        return [*self.tensor_passes(), *device_passes(target)]

    def down_to_buf(self) -> list[ModulePass]:
        """The passes down to where kernels are scheduled."""
        passes = self.down_to_wgsl()
        return passes[: [one.name for one in passes].index(LOWERING_TO_WGSL)]


LEVELS: dict[str, Callable[[Compilation], Sequence[ModulePass]]] = {
    "traced": lambda compilation: [],
    "tg": lambda compilation: compilation.tensor_passes(),
    "buf": Compilation.down_to_buf,
    "wgsl": Compilation.down_to_wgsl,
}
"""The levels that can be looked at, each with the passes that lead there."""
