"""Native code that is made of recipes: over the op table, products at edges, and what recipes may not say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES, by_turns
from harness import apply, as_native_code, assert_same, reference, traced
from scheduled import floats
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.recipe import (
    Collapse,
    Interchange,
    Map,
    Processor,
    Recipe,
    RecipeAttr,
    Stage,
    StepReduction,
    Tile,
    UnrollJam,
    Vectorize,
)
from tensorgrad.dialects.schedule import RecipeSchedule
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.codegen.recipes import recipe_of
from tensorgrad.runtime.cpu.device import CpuDevice

SLOW = re.compile("many|of_blocks|long|sort")
"""The cases with thousands of points, or long loops at each of them."""


def with_recipes(recipe_for: Callable[[KernelOp], Recipe | None]) -> Callable[[ModuleOp], None]:
    """Returns a function that schedules kernels by the recipes that another one returns."""

    def change(module: ModuleOp) -> None:
        for kernel in [op for op in module.walk() if isinstance(op, KernelOp) and op.schedule is not None]:
            recipe = recipe_for(kernel)
            if recipe is not None:
                kernel.recipe, kernel.schedule = RecipeAttr(recipe), None
        apply(SchedulePass(target=CpuDevice().target), module)

    return change


def of_schedule(kernel: KernelOp) -> Recipe | None:
    assert kernel.schedule is not None
    return recipe_of(kernel.schedule.data, kernel)


@pytest.mark.parametrize("case", by_turns([case for case in CASES if not SLOW.search(case.id)], 16, 3))
def test_value(case: Case) -> None:
    module = traced(case.function, case.inputs)
    (expected, *_) = reference(module, case.inputs)
    (actual, *_) = as_native_code(module, case.inputs, each=False, change=with_recipes(of_schedule))
    assert_same(actual, expected, max(case.rtol, 1e-5), "recipe")


def layer(x: Any, w: Any) -> Any:
    return tg.exp(-(tg.tanh(x) @ w))


TASKS = (Collapse(), Map((Processor.TASK,)))
IN_ORDER = (Processor.SEQUENTIAL, Processor.SEQUENTIAL)
BLOCKS = (Tile((2, 8), IN_ORDER, peel=1), UnrollJam())
RECIPES: dict[str, Recipe] = {
    "points": TASKS,
    "ragged": (Tile((16, 32)), *TASKS, StepReduction(), Tile((2, 8), IN_ORDER), UnrollJam()),
    "blocks": (Tile((16, 32)), *TASKS, StepReduction(), *BLOCKS),
    "vectors": (Tile((16, 32)), *TASKS, StepReduction(), *BLOCKS, Vectorize()),
    "packed": (Tile((16, 32)), *TASKS, StepReduction(), Stage(), *BLOCKS, Vectorize()),
    "parts": (Tile((16, 32)), *TASKS, Interchange(8), Stage((1,)), *BLOCKS, Vectorize()),
    "rows": (Tile((16, 32)), *TASKS, Interchange(8), Tile((4, 32), IN_ORDER), Stage((0,)), *BLOCKS),
}
"""Ways to write a product: with tiles that are cut at edges, or peeled; with sums that live from part to part."""


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("shape", [(16, 24, 32), (18, 21, 39)], ids=["whole", "edges"])
def test_a_product_by_hand(recipe: Recipe, shape: tuple[int, int, int]) -> None:
    rows, steps, columns = shape
    inputs = [floats(rows, steps), floats(steps, columns)]
    module = traced(layer, inputs)
    expected = reference(module, inputs)
    (actual,) = as_native_code(module, inputs, change=with_recipes(lambda kernel: recipe))
    np.testing.assert_allclose(actual, expected[0], rtol=1e-5)


def test_tasks_run_the_outermost_loop() -> None:
    inputs = [floats(8, 8), floats(8, 8)]
    for recipe in [(Collapse(), Map((Processor.SEQUENTIAL,))), (Map((Processor.SEQUENTIAL, Processor.TASK)),)]:
        with pytest.raises(DiagnosticException, match="gives no loop to tasks that is the outermost one"):
            as_native_code(traced(layer, inputs), inputs, change=with_recipes(lambda kernel, recipe=recipe: recipe))


def test_loops_in_tasks_are_for_one_thread() -> None:
    inputs, recipe = [floats(8, 8), floats(8, 8)], (Tile((4, 4)), *TASKS)
    with pytest.raises(
        DiagnosticException, match="a loop inside tasks has no processor, it needs sequential or unroll"
    ):
        as_native_code(traced(layer, inputs), inputs, change=with_recipes(lambda kernel: recipe))


def test_shaders_have_no_code_of_recipes() -> None:
    """A recipe that would have no effect is refused."""
    inputs = [floats(8, 8), floats(8, 8)]
    module = traced(layer, inputs)

    def refused(module: ModuleOp) -> None:
        (kernel,) = [op for op in module.walk() if isinstance(op, KernelOp)]
        kernel.recipe, kernel.schedule = RecipeAttr(TASKS), None
        with pytest.raises(DiagnosticException, match="has a recipe, of which only native code is made"):
            apply(SchedulePass(), module)
        kernel.recipe = None
        apply(SchedulePass(target=CpuDevice().target), module)

    as_native_code(module, inputs, change=refused)


def test_a_schedule_of_another_recipe() -> None:
    """A recipe that is edited behind `schedule` would leave tasks out, or run too many."""
    inputs = [floats(8, 8), floats(8, 8)]

    def change(module: ModuleOp) -> None:
        with_recipes(lambda kernel: TASKS)(module)
        (kernel,) = [op for op in module.walk() if isinstance(op, KernelOp)]
        kernel.recipe = RecipeAttr((Tile((4, 8)), *TASKS, Map((Processor.SEQUENTIAL, Processor.SEQUENTIAL))))

    with pytest.raises(DiagnosticException, match="makes 2 tasks, its schedule has 64: take that away"):
        as_native_code(traced(layer, inputs), inputs, change=change)


def test_kernels_of_other_recipes_are_other_kernels() -> None:
    """Equal kernels are written once; those that only differ by their recipes aren't equal."""
    inputs, recipes = [floats(16, 24), floats(24, 32)], [RECIPES["points"], RECIPES["vectors"]]
    schedules: list[RecipeSchedule] = []

    def twice(x: Any, w: Any) -> Any:
        return layer(x, w), layer(x * 2, w)

    def change(module: ModuleOp) -> None:
        with_recipes(lambda kernel: recipes.pop() if len(kernel.inputs) == 2 and recipes else None)(module)
        schedules.extend(
            op.schedule.data
            for op in module.walk()
            if isinstance(op, KernelOp) and op.schedule and isinstance(op.schedule.data, RecipeSchedule)
        )

    module = traced(twice, inputs)
    expected = reference(module, inputs)
    for actual, value in zip(as_native_code(module, inputs, change=change), expected, strict=True):
        np.testing.assert_allclose(actual, value, rtol=1e-5)
    assert [schedule.groups for schedule in schedules] == [(1, 1, 1), (512, 1, 1)]
