"""Lowers a recipe under a choice: to tensors with derivatives and updates, to planned kernels, to a program."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.passes import ModulePass

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of
from tensorgrad.driver.compiling.dumping import Dump
from tensorgrad.driver.compiling.pass_checks import PassChecks
from tensorgrad.driver.compiling.recipe import Choice, Recipe, kernel_target, passes_below_tensors, passes_on_tensors
from tensorgrad.driver.compiling.running import Phases, run_passes
from tensorgrad.passes.analyses.storage import PEAK_BYTES
from tensorgrad.passes.pipelines import Phase, start_of, until
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.program import Kernel, Program
from tensorgrad.runtime.target import Target
from tensorgrad.surface.collector import without_collector

if TYPE_CHECKING:
    from tensorgrad.driver.device import CompileKernel


@dataclass(frozen=True)
class Observers:
    """What follows a compilation, and changes nothing about it.

    Attributes:
        phases: The time of each phase.
        dump: The files that `TG_DUMP` requests, or None.
    """

    phases: Phases = field(default_factory=Phases)
    dump: Dump | None = None

    def see(self, level: str, module: ModuleOp) -> None:
        """Writes a level to the directory of `TG_DUMP`, if it is set."""
        if self.dump is not None:
            self.dump.module(level, module)


@dataclass(frozen=True)
class Interface:
    """What the host needs to know about a function to call it.

    Attributes:
        parameters: The names of the parameters, in memory order.
        settings: The host values that formulas of its scalars read.
    """

    parameters: tuple[str, ...]
    settings: frozenset[str]

    @classmethod
    def of(cls, module: ModuleOp) -> Interface:
        """Returns the interface of a module's function after its passes on `tg`."""
        slots = arguments_of(find_function(module, None))
        names = (name for slot in slots if slot.formula for name in Formula(slot.formula).names)
        return cls(tuple(slot.name for slot in slots if slot.role == Role.PARAMETER), frozenset(names))


@dataclass(frozen=True)
class Lowered:
    """A program, and how it came about.

    Attributes:
        program: The program.
        choice: What it was lowered under.
        interface: How the host calls it.
        memory_cost: The cost of a memory limit: the segments, and the figures of the program without them.
    """

    program: Program
    choice: Choice
    interface: Interface
    memory_cost: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class OnTensors:
    """A module after its passes on `tg`.

    Attributes:
        module: The module.
        checks: The checks that go on below.
    """

    module: ModuleOp
    checks: PassChecks


@dataclass(frozen=True)
class Planned:
    """A module whose kernels are scheduled and have a memory plan, but are not written yet.

    Attributes:
        recipe, choice, target: What it was lowered from, and for.
        module: The module; writing the kernels changes it.
        passes: All passes below `tg`, of which those for kernels of a device have yet to run.
        interface: How the host calls it.
        checks: The checks that go on below.
    """

    recipe: Recipe
    choice: Choice
    target: Target
    module: ModuleOp
    passes: Sequence[ModulePass]
    interface: Interface
    checks: PassChecks

    @property
    def bytes(self) -> int:
        """The bytes that the plan alone takes, kernels' own excluded; 0 if edited passes plan none."""
        known = find_function(self.module, self.recipe.name).attributes.get(PEAK_BYTES)
        return known.value.data if isinstance(known, IntegerAttr) else 0


@without_collector()
def lower(
    recipe: Recipe,
    choice: Choice,
    target: Target,
    observers: Observers,
    compile_kernel: CompileKernel | None = None,
) -> Lowered:
    """Returns the program of a recipe.

    Args:
        recipe: What to compile.
        choice: Under what decisions.
        target: The target to compile for.
        observers: What follows it.
        compile_kernel: Called with each kernel as soon as it is written, if given.

    Raises:
        ProgramError: A pass rejects the program.
    """
    return write_kernels(plan(recipe, choice, target, observers), observers, compile_kernel)


def lower_tensors(recipe: Recipe, choice: Choice, target: Target | None, observers: Observers) -> OnTensors:
    """Runs the passes that stay on `tg`; the target is `None` if numpy runs their result."""
    module = recipe.traced.clone()
    observers.see("traced", module)
    checks = PassChecks.of(recipe, module, observers.phases)
    passes = passes_on_tensors(recipe, choice, target)
    run_passes(module, passes, observers.phases, source=recipe.traced.clone, after=checks.after)
    observers.see("tg", module)
    return OnTensors(module, checks)


def rounding_kernels(recipe: Recipe, choice: Choice, module: ModuleOp, phases: Phases) -> ModuleOp:
    """Returns the kernels that a device would run, so that numpy rounds values where they are stored."""
    kernels = module.clone()
    passes = passes_below_tensors(recipe, choice, kernel_target(recipe))
    run_passes(kernels, until(Phase.SCHEDULED, passes), phases)
    return kernels


@without_collector()
def plan(recipe: Recipe, choice: Choice, target: Target, observers: Observers) -> Planned:
    """Runs all passes above the kernels of a device, the memory plan included; see `lower`."""
    tensors = lower_tensors(recipe, choice, target, observers)
    module, checks, interface = tensors.module, tensors.checks, Interface.of(tensors.module)
    planned = Planned(recipe, choice, target, module, passes_below_tensors(recipe, choice, target), interface, checks)
    _run_below(planned, until(Phase.DEVICE, planned.passes), 0, observers.phases)
    return planned


@without_collector()
def write_kernels(planned: Planned, observers: Observers, compile_kernel: CompileKernel | None = None) -> Lowered:
    """Writes the kernels of a plan; returns the program. See `lower`."""
    module, passes, target, phases = planned.module, planned.passes, planned.target, observers.phases
    kernels: Mapping[str, Kernel] = {}
    if compile_kernel is not None and not _is_watched(planned.recipe, observers):
        from tensorgrad.driver.compiling.native_kernels import write_by_kernel

        kernels = write_by_kernel(module, passes, phases, compile_kernel, partial(_tensors_again, planned))
    else:
        observers.see("buf", module)
        _run_below(planned, passes, start_of(Phase.DEVICE, passes), phases)
        planned.checks.kernels(module, passes, partial(_tensors_again, planned), phases)
        observers.see("llvm" if target.native else "wgsl", module)
    with phases.measure("build"):
        from tensorgrad.passes.codegen.build_program import build_program

        program = build_program(module, target, planned.recipe.name, kernels)
    if observers.dump is not None:
        observers.dump.program(program, module)
    return Lowered(program, planned.choice, planned.interface)


def _run_below(planned: Planned, passes: Sequence[ModulePass], first: int, phases: Phases) -> None:
    """Runs passes below `tg`, from one on; their result is verified as a program, and by the device's own compiler."""
    run_passes(
        planned.module,
        passes,
        phases,
        verify=False,
        source=partial(_tensors_again, planned),
        after=planned.checks.after,
        first=first,
    )


def _tensors_again(planned: Planned) -> ModuleOp:
    """Returns the module after the passes on `tg`, for the reproducer of a crash below."""
    module = planned.recipe.traced.clone()
    passes = passes_on_tensors(planned.recipe, planned.choice, planned.target)
    run_passes(module, passes, Phases(), verify=False)
    return module


def _is_watched(recipe: Recipe, observers: Observers) -> bool:
    """Returns whether the module is observed between passes (dumps, hooks, verification)."""
    is_logged = logging.getLogger("tensorgrad.passes").isEnabledFor(logging.DEBUG)
    return is_logged or observers.dump is not None or recipe.edit_passes is not None or recipe.verify
