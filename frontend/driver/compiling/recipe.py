"""What is compiled, what a search decides about it, and the passes that follow from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tensorgrad.driver.device import target_of
from tensorgrad.errors import OptionError
from tensorgrad.passes.levels import LevelPass
from tensorgrad.passes.pipelines import device_passes
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice

EditPasses: TypeAlias = Callable[[list[ModulePass]], Sequence[ModulePass]]
"""A user's function that modifies a list of passes."""

TensorPasses: TypeAlias = Callable[[int, Target | None], Sequence[ModulePass]]
"""Returns passes on `tg` for a number of segments and a target."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """A traced function and how it is compiled, loaded and run.

    Attributes:
        name: The program's name in messages.
        traced: The module as it was traced; every level is built from a copy of it.
        on_tensors: Returns the passes that stay on `tg`, given the number of segments for `remat` and the target of
            kernels, which is `None` if numpy runs tensors.
        device: The device to run on; `None` is numpy.
        memory_limit: The most bytes that all buffers on the device may take together, or None.
        reserved_bytes: The part of the limit that is reserved for a step's other program.
        tuning_seconds: The time limit for measuring schedules; with 0, the default schedules are used.
        precision: The pass that rounds values between kernels, or factors of products, or None.
        timeout: For how many seconds to wait for the device at a time, or None.
        snapshot_every: The number of steps between snapshots to restart from when the device is lost, or None.
        edit_passes: Modifies the list of passes on `tg`, and the list of those below it, before they run.
        verify: Whether to run the module after each pass, and compare its results.
    """

    name: str
    traced: ModuleOp
    on_tensors: TensorPasses
    device: ProgramDevice | None
    memory_limit: int | None = None
    reserved_bytes: int = 0
    tuning_seconds: float = 0.0
    precision: LevelPass | None = None
    timeout: float | None = None
    snapshot_every: int | None = None
    edit_passes: EditPasses | None = None
    verify: bool = False


@dataclass(frozen=True)
class Choice:
    """What a search has decided about a recipe; the default is where it starts.

    Attributes:
        segments: The number of segments that `remat` divides the function into to stay within the memory limit.
        frugal: Whether kernels are ordered for low memory use rather than for few dispatches.
        tuned: The file of measured schedules, or None.
    """

    segments: int = 1
    frugal: bool = False
    tuned: str | None = None


UNDECIDED = Choice()
"""Where a search starts."""


def kernel_target(recipe: Recipe) -> Target:
    """Returns the target of kernels: the device; on numpy the WebGPU default limits, with f16 if requested."""
    if recipe.device is not None:
        return recipe.device.target
    if recipe.precision is None:
        return WEBGPU_DEFAULT
    return replace(WEBGPU_DEFAULT, name=f"{WEBGPU_DEFAULT.name} with shader-f16", f16=True)


def passes_on_tensors(recipe: Recipe, choice: Choice, target: Target | None = None) -> list[ModulePass]:
    """Returns the passes that stay on `tg`, for a target, by default the device."""
    passes = recipe.on_tensors(choice.segments, target_of(recipe.device) if target is None else target)
    return _edited(recipe, passes)


def passes_below_tensors(recipe: Recipe, choice: Choice, target: Target) -> list[ModulePass]:
    """Returns the passes from `tg` down to the kernels of a target."""
    return _edited(recipe, device_passes(target, choice.tuned, choice.frugal, recipe.precision))


def passes_to_kernels(recipe: Recipe, choice: Choice, target: Target | None = None) -> list[ModulePass]:
    """Returns all passes down to kernels, for a target, by default the device."""
    chosen = kernel_target(recipe) if target is None else target
    return [*passes_on_tensors(recipe, choice, chosen), *passes_below_tensors(recipe, choice, chosen)]


def _edited(recipe: Recipe, passes: Sequence[ModulePass]) -> list[ModulePass]:
    """Returns the passes after `edit_passes`.

    Raises:
        OptionError: It returns something other than passes.
    """
    if recipe.edit_passes is None:
        return list(passes)
    if not callable(recipe.edit_passes):
        raise OptionError(f"edit_passes must be a function of a list of passes, got {recipe.edit_passes!r}")
    edited: object = recipe.edit_passes(list(passes))
    if not isinstance(edited, Sequence) or not all(isinstance(element, ModulePass) for element in edited):
        raise OptionError(f"edit_passes must return a list of xDSL's ModulePass, got {edited!r}")
    return list(cast("Sequence[ModulePass]", edited))
