"""The levels of a compilation that can be inspected, as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TypeAlias

from xdsl.passes import ModulePass

from tensorgrad.driver.compiling.recipe import Choice, Recipe, kernel_target, passes_on_tensors, passes_to_kernels
from tensorgrad.driver.compiling.running import Phases, run_passes
from tensorgrad.errors import OptionError
from tensorgrad.passes.pipelines import Phase, start_of, until
from tensorgrad.passes.registry import pass_class
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT

PassesToLevel: TypeAlias = Callable[[Recipe, Choice], Sequence[ModulePass]]
"""Returns the passes that lead to a level."""


class IRText(str):
    """IR as text, which notebooks show line by line."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Returns the lines in a frame that scrolls."""
        return f'<pre style="max-height: 40em; overflow: auto">{escape(self)}</pre>'


def text(recipe: Recipe, choice: Choice, level: str) -> IRText:
    """Returns the IR at a level, rebuilt from the traced module.

    Raises:
        OptionError: There is no such level; lists those there are.
    """
    if level not in LEVELS:
        raise OptionError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    module = recipe.traced.clone()
    run_passes(module, LEVELS[level](recipe, choice), Phases())
    return IRText(module)


def _as_stablehlo(recipe: Recipe, choice: Choice) -> Sequence[ModulePass]:
    exported = (pass_class(name)() for name in ("drop-unread-arguments", "tg-to-stablehlo"))
    return [*passes_on_tensors(recipe, choice), *exported]


def _down_to_buffers(recipe: Recipe, choice: Choice) -> Sequence[ModulePass]:
    return until(Phase.DEVICE, passes_to_kernels(recipe, choice))


def _down_to_shaders(recipe: Recipe, choice: Choice) -> Sequence[ModulePass]:
    """Returns all passes down to WGSL, for the device, or for the WebGPU default limits if it runs no shaders."""
    target = kernel_target(recipe)
    return passes_to_kernels(recipe, choice, WEBGPU_DEFAULT if target.native else target)


def _down_to_native_loops(recipe: Recipe, choice: Choice) -> Sequence[ModulePass]:
    passes = _down_to_native_code(recipe, choice)
    return passes[: 1 + start_of(Phase.DEVICE, passes)]


def _down_to_native_code(recipe: Recipe, choice: Choice) -> Sequence[ModulePass]:
    """Returns all passes down to native code, for the device, or for a generic CPU if it runs shaders."""
    target = kernel_target(recipe)
    return passes_to_kernels(recipe, choice, target if target.native else CPU)


LEVELS: dict[str, PassesToLevel] = {
    "traced": lambda recipe, choice: [],
    "tg": passes_on_tensors,
    "stablehlo": _as_stablehlo,
    "buf": _down_to_buffers,
    "wgsl": _down_to_shaders,
    "cpu": _down_to_native_loops,
    "llvm": _down_to_native_code,
}
"""The levels that can be inspected, each with the passes that lead to it."""
