"""Searches for the fewest recomputed segments with which a program stays within its memory limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tensorgrad.driver.compiling.lowering import Lowered, Observers, lower, plan, write_kernels
from tensorgrad.driver.compiling.recipe import Choice, Recipe
from tensorgrad.errors import ProgramError
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.location import user_line

if TYPE_CHECKING:
    from tensorgrad.driver.device import CompileKernel

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""The numbers of segments that a memory limit may divide a function into."""


def lower_within_memory(
    recipe: Recipe, choice: Choice, target: Target, observers: Observers, compile_kernel: CompileKernel | None
) -> Lowered:
    """Returns the program, with the fewest recomputed segments that its memory limit allows.

    Args:
        recipe: What to compile.
        choice: Under what decisions; with a limit, segments and order are what is searched for.
        target: The target to compile for.
        observers: What follows it.
        compile_kernel: Called with kernels that are certain to be used, as soon as they are written.

    Raises:
        ProgramError: It exceeds the limit with any number of segments.
    """
    if recipe.memory_limit is None:
        return lower(recipe, choice, target, observers, compile_kernel)
    available = recipe.memory_limit - recipe.reserved_bytes
    default = lower(recipe, replace(choice, frugal=False, segments=1), target, observers)
    without = _peak_bytes(default)
    if without <= available:
        return _with_cost(default, default)
    peaks = [without]
    too_large: list[tuple[int, Choice]] = []  # bytes that the plan alone takes, and under which choice
    for segments in SEGMENTS:
        planned = plan(recipe, replace(choice, frugal=True, segments=segments), target, observers)
        if planned.bytes > available:
            too_large.append((planned.bytes, planned.choice))
            continue
        lowered = write_kernels(planned, observers)  # kernels may need more than the plan
        peaks.append(_peak_bytes(lowered))
        if peaks[-1] <= available:
            return _with_cost(lowered, default)
    for planned_bytes, tried in sorted(too_large, key=lambda attempt: (attempt[0], attempt[1].segments)):
        if planned_bytes >= min(peaks):
            break
        peaks.append(_peak_bytes(lower(recipe, tried, target, observers)))
    raise ProgramError(
        f"{user_line()}: {recipe.name}: memory_limit is {recipe.memory_limit} bytes, but a step needs "
        f"{min(peaks) + recipe.reserved_bytes} with recomputation and {without + recipe.reserved_bytes} without"
    )


def _with_cost(lowered: Lowered, default: Lowered) -> Lowered:
    """Returns a program with what its memory limit costs, beside the program without a limit."""
    cost = {
        "segments": lowered.choice.segments,
        "peak_bytes_without": _peak_bytes(default),
        "bytes_moved_without": default.program.statistics["bytes_moved"],
    }
    return replace(lowered, memory_cost=cost)


def _peak_bytes(lowered: Lowered) -> int:
    return lowered.program.statistics["peak_bytes"]
