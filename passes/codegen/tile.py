"""The pass `tile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.recipe import (
    Collapse,
    Interchange,
    Map,
    RecipeAttr,
    Sides,
    SplitLoops,
    SplitReduction,
    Stage,
    Step,
    StepReduction,
    Synchronize,
    Tile,
    UnrollJam,
    Vectorize,
)
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.recipes import recipe_of
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.grid import collapse, map_loops, sides, tile
from tensorgrad.passes.codegen.transforms.interchange import interchange
from tensorgrad.passes.codegen.transforms.opening import opened
from tensorgrad.passes.codegen.transforms.own_loops import split_loops, split_reduction
from tensorgrad.passes.codegen.transforms.stage import stage
from tensorgrad.passes.codegen.transforms.step_reduction import step_reduction
from tensorgrad.passes.codegen.transforms.synchronize import synchronize
from tensorgrad.passes.codegen.transforms.tidy import tidy
from tensorgrad.passes.codegen.transforms.unroll_jam import unroll_jam
from tensorgrad.passes.codegen.transforms.vectorize import vectorize
from tensorgrad.passes.levels import TILES_AND_ABOVE, LevelPass

TRANSFORMATIONS: dict[type[Step], Callable[[TiledOp, Any], None]] = {
    Collapse: collapse,
    Sides: sides,
    Tile: tile,
    Map: map_loops,
    UnrollJam: unroll_jam,
    SplitLoops: split_loops,
    SplitReduction: split_reduction,
    StepReduction: step_reduction,
    Interchange: interchange,
    Stage: stage,
    Vectorize: vectorize,
    Synchronize: synchronize,
}
"""The transformation of each step."""


@dataclass(frozen=True)
class TilePass(LevelPass):
    """Writes scheduled kernels out as tiles: loops, who runs them, local memory, and stages on parts of buffers.

    Expects kernels with a `recipe`, or with a `schedule` that has one; all others are left as they are. Guarantees a
    `buf.tiled` in place of each, which computes the same, with the steps that are not applied yet as its `recipe`.
    Applied again, it goes on with these. A step that doesn't fit is an error that names it.

    Tiles are what a schedule means, to be read, edited and run by NumPy; code is made from the kernels.

    Attributes:
        steps: The number of steps to apply; all by default, and with 0 a kernel is only written as loops over its grid.
    """

    name = "tile"
    levels = TILES_AND_ABOVE

    steps: int | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [*operations(op.body.block)]:
            if isinstance(kernel, KernelOp):
                recipe = _recipe(kernel)
                if recipe is not None:
                    self._apply(opened(kernel, recipe))
            elif isinstance(kernel, TiledOp):
                self._apply(kernel)

    def _apply(self, kernel: TiledOp) -> None:
        """Applies steps of a kernel's recipe.

        Raises:
            DiagnosticException: One doesn't fit.
        """
        recipe = () if kernel.recipe is None else kernel.recipe.data
        count = len(recipe) if self.steps is None else min(self.steps, len(recipe))
        tidy(kernel)
        for number, step in enumerate(recipe[:count], 1):
            try:
                TRANSFORMATIONS[type(step)](kernel, step)
            except DoesNotFit as error:
                raise DiagnosticException(
                    f"step {number} of the recipe, {step}, doesn't fit the kernel made at {line_of(kernel.location)}: "
                    f"{error}"
                ) from error
            tidy(kernel)
        kernel.properties.pop("recipe", None)
        if recipe[count:]:
            kernel.properties["recipe"] = RecipeAttr(recipe[count:])


def _recipe(kernel: KernelOp) -> RecipeAttr | None:
    """Returns the recipe of a kernel, if it has one, or if its schedule does."""
    if kernel.recipe is not None or kernel.schedule is None:
        return kernel.recipe
    recipe = recipe_of(kernel.schedule.data, kernel)
    return None if recipe is None else RecipeAttr(recipe)
