"""The pass `tile`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.recipe import RecipeAttr
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.recipes import recipe_of
from tensorgrad.passes.codegen.transforms.opening import opened
from tensorgrad.passes.codegen.transforms.steps import apply_steps
from tensorgrad.passes.levels import TILES_AND_ABOVE, LevelPass


@dataclass(frozen=True)
class TilePass(LevelPass):
    """Writes scheduled kernels out as tiles: loops, who runs them, local memory, and stages on parts of buffers.

    Expects kernels with a `recipe`, or with a `schedule` that has one; all others are left as they are. Guarantees a
    `buf.tiled` in place of each, which computes the same, with the steps that are not applied yet as its `recipe`.
    Applied again, it goes on with these. A step that doesn't fit is an error that names it.

    Tiles are what a schedule means, to be read, edited and run by NumPy. Native code is made of recipes by
    `lower-buf-to-cpu`, which applies them itself.

    Attributes:
        steps: The number of steps to apply; all by default, and with 0 a kernel is only written as loops over its grid.
    """

    name = "tile"
    levels = TILES_AND_ABOVE

    steps: int | None = None

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        if self.steps is not None and self.steps < 0:
            raise DiagnosticException(f"{self.name}: steps must be at least 0, got {self.steps}")
        for kernel in [*operations(op.body.block)]:
            if isinstance(kernel, KernelOp):
                recipe = _recipe(kernel)
                if recipe is not None:
                    apply_steps(opened(kernel, recipe), self.steps)
            elif isinstance(kernel, TiledOp):
                apply_steps(kernel, self.steps)


def _recipe(kernel: KernelOp) -> RecipeAttr | None:
    """Returns the recipe of a kernel, if it has one, or if its schedule does."""
    if kernel.recipe is not None or kernel.schedule is None:
        return kernel.recipe
    recipe = recipe_of(kernel.schedule.data, kernel)
    return None if recipe is None else RecipeAttr(recipe)
