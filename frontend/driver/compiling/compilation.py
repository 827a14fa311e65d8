"""Compiles recipes and loads their programs: the phases of a compilation, and its result."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensorgrad.driver.compiling.cached_lowering import lower_for_device
from tensorgrad.driver.compiling.dumping import Dump
from tensorgrad.driver.compiling.lowering import Interface, Observers, lower, lower_tensors, rounding_kernels
from tensorgrad.driver.compiling.peaks import peaks_of
from tensorgrad.driver.compiling.recipe import (
    UNDECIDED,
    Choice,
    Recipe,
    kernel_target,
    passes_below_tensors,
    passes_on_tensors,
)
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.device import compiling_ahead, load_program
from tensorgrad.interpreters.backend import NumpyExecutable
from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.location import user_line

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice
    from tensorgrad.report.facts import Facts
    from tensorgrad.runtime.profile import Profile


@dataclass(frozen=True, eq=False)
class Compilation:
    """A recipe that has been compiled, and its program on the device.

    Attributes:
        recipe: What was compiled.
        choice: What the search for its memory limit and its schedules has decided.
        executable: The program on the device.
        interface: How the host calls it.
        observers: The time of each phase, and the dump.
        memory_cost: The cost of the memory limit: the segments, and the figures of the program without them.
    """

    recipe: Recipe
    choice: Choice
    executable: Executable
    interface: Interface
    observers: Observers
    memory_cost: Mapping[str, int] = field(default_factory=dict[str, int])


def compile_recipe(
    recipe: Recipe,
    phases: Phases,
    choice: Choice = UNDECIDED,
    share: Executable | None = None,
    in_turn: bool = False,
) -> Compilation:
    """Compiles a recipe and loads its program on its device.

    Args:
        recipe: What to compile.
        phases: Receives the time of each phase.
        choice: Where the search starts: what another program of the same step has decided.
        share: An executable on the same device whose parameters this one shares.
        in_turn: Whether to share the memory of its inputs and temporaries too.

    Raises:
        ProgramError: A pass rejects the program, or it exceeds the memory limit.
        TensorgradError: The device can't run it.
        KeyboardInterrupt: From the user; names their line, and has none of the compiler's frames.
    """
    observers = Observers(phases, Dump.from_environment(recipe.name))
    try:
        if recipe.device is None:
            return compile_for_numpy(recipe, choice, observers, share)
        return compile_for_device(recipe, choice, recipe.device, observers, share, in_turn)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{user_line()}: interrupted while {recipe.name} was compiled") from None


def compile_for_numpy(
    recipe: Recipe, choice: Choice, observers: Observers, share: Executable | None = None
) -> Compilation:
    """Compiles a recipe for numpy, which runs tensors; see `compile_recipe`."""
    module = lower_tensors(recipe, choice, None, observers).module
    interface = Interface.of(module)
    kernels = None if recipe.precision is None else rounding_kernels(recipe, choice, module, observers.phases)
    with observers.phases.measure("load"):
        assert share is None or isinstance(share, NumpyExecutable)
        executable = NumpyExecutable(module, share=share, kernels=kernels)
    return Compilation(recipe, choice, executable, interface, observers)


def compile_for_device(
    recipe: Recipe,
    choice: Choice,
    device: ProgramDevice,
    observers: Observers,
    share: Executable | None = None,
    in_turn: bool = False,
) -> Compilation:
    """Compiles a recipe for a device that runs programs; see `compile_recipe`."""
    with compiling_ahead(device) as compile_kernel:
        lowered = lower_for_device(recipe, choice, device, observers, compile_kernel)
        with observers.phases.measure("load"):
            executable = load_program(device, lowered.program, share, in_turn, recipe.timeout, recipe.snapshot_every)
    return Compilation(recipe, lowered.choice, executable, lowered.interface, observers, lowered.memory_cost)


def program_of(compilation: Compilation, target: Target | None = None) -> Program:
    """Returns the program compiled for a target, by default the device; on numpy for the WebGPU default limits.

    Raises:
        ProgramError, TargetError: The program can't be compiled for it.
    """
    recipe = compilation.recipe
    chosen = kernel_target(recipe) if target is None else target
    return lower(recipe, compilation.choice, chosen, compilation.observers).program


def program_for(compilation: Compilation, spec: str) -> Program:
    """Returns the program for another target.

    Args:
        compilation: What was compiled.
        spec: A profile's name, the path of a JSON file, or inline JSON.

    Raises:
        TargetError: There is no such target, or the program doesn't fit it.
        ProgramError: The program can't be compiled for it.
    """
    target = Target.from_spec(spec)
    program = program_of(compilation, target)
    program.check_fits(target)
    return program


def facts_of(compilation: Compilation, device: str, profile: Profile | None) -> Facts:
    """Returns the data of a report on the compilation; reruns all passes.

    Args:
        compilation: What was compiled.
        device: A description of the device.
        profile: The measured times of its dispatches, if there are any.

    Raises:
        ProgramError: No device of the target can run it.
    """
    from tensorgrad.report.collect import collect

    recipe, choice = compilation.recipe, compilation.choice
    target = kernel_target(recipe)
    on_tensors = passes_on_tensors(recipe, choice, target)
    below = passes_below_tensors(recipe, choice, target)
    peaks = None if profile is None or recipe.device is None else peaks_of(recipe.device)
    script = getattr(sys.modules["__main__"], "__file__", None) or ""  # a notebook has none
    return collect(recipe.traced, on_tensors, below, target, recipe.name, device, profile, peaks=peaks, script=script)
