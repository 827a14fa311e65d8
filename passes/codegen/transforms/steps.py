"""The transformation of each step of a recipe, and how a kernel of tiles goes through its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.recipe import (
    Attend,
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
from tensorgrad.passes.codegen.transforms.attend import attend
from tensorgrad.passes.codegen.transforms.failure import DoesNotFit
from tensorgrad.passes.codegen.transforms.grid import collapse, map_loops, sides, tile
from tensorgrad.passes.codegen.transforms.interchange import interchange
from tensorgrad.passes.codegen.transforms.own_loops import split_loops, split_reduction
from tensorgrad.passes.codegen.transforms.stage import stage
from tensorgrad.passes.codegen.transforms.step_reduction import step_reduction
from tensorgrad.passes.codegen.transforms.synchronize import synchronize
from tensorgrad.passes.codegen.transforms.tidy import tidy
from tensorgrad.passes.codegen.transforms.unroll_jam import unroll_jam
from tensorgrad.passes.codegen.transforms.vectorize import vectorize

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
    Attend: attend,
    Vectorize: vectorize,
    Synchronize: synchronize,
}
"""The transformation of each step."""


def apply_steps(kernel: TiledOp, most: int | None = None) -> None:
    """Applies the steps of a kernel's recipe, which keeps those that are left.

    Args:
        kernel: The kernel.
        most: The most steps to apply; all by default.

    Raises:
        DiagnosticException: One doesn't fit.
    """
    recipe = () if kernel.recipe is None else kernel.recipe.data
    count = len(recipe) if most is None else min(most, len(recipe))
    tidy(kernel)
    for number, step in enumerate(recipe[:count], 1):
        try:
            TRANSFORMATIONS[type(step)](kernel, step)
        except DoesNotFit as error:
            where = f"the kernel made at {line_of(kernel.location)}"
            raise DiagnosticException(f"step {number} of the recipe, {step}, doesn't fit {where}: {error}") from error
        tidy(kernel)
    kernel.properties.pop("recipe", None)
    if recipe[count:]:
        kernel.properties["recipe"] = RecipeAttr(recipe[count:])
