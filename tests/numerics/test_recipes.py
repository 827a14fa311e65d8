"""Native code that is made of recipes: over the op table, products at edges, and what recipes may not say."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES, by_turns
from harness import Names, apply, as_native_code, assert_same, on_buffers, reference, traced
from scheduled import floats
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp, is_reduction
from tensorgrad.dialects.native_schedules import RecipeSchedule
from tensorgrad.dialects.recipe import (
    Collapse,
    Interchange,
    Map,
    Processor,
    Recipe,
    RecipeAttr,
    SplitReduction,
    Stage,
    Step,
    StepReduction,
    Tile,
    UnrollJam,
    Vectorize,
)
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.codegen.recipes import recipe_of
from tensorgrad.passes.codegen.tile import TilePass
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


def two_results(x: Any, w: Any) -> Any:
    y = x @ w
    return y * 2, tg.relu(y)


def with_branches(x: Any, w: Any) -> Any:
    return tg.where(x > 0, x, x * 0.1) @ w


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
    "tiles": (Tile((16, 32)), *TASKS, StepReduction(), Tile((2, 8), IN_ORDER, peel=1), Stage(), UnrollJam()),
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


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_product_as_scheduled(dtype: type) -> None:
    """The recipe of a schedule fits a product of each type of floats."""
    inputs = [floats(12, 20).astype(dtype), floats(20, 40).astype(dtype)]
    module, recipes = traced(layer, inputs), list[Recipe | None]()

    def recipe_for(kernel: KernelOp) -> Recipe | None:
        recipes.append(of_schedule(kernel))
        return recipes[-1]

    (expected,) = reference(module, inputs)
    (actual,) = as_native_code(module, inputs, change=with_recipes(recipe_for))
    assert any(recipe is not None and Vectorize() in recipe for recipe in recipes)
    assert_same(actual, expected, 1e-5 if dtype is np.float32 else 16 * float(np.finfo(dtype).eps), "recipe")


@pytest.mark.parametrize(("terms", "sums"), [(3, 4), (3, 2), (6, 4), (5, 8), (7, 1)])
def test_terms_that_accumulators_do_not_divide(terms: int, sums: int) -> None:
    inputs, recipe = [floats(4, 23)], (Map((Processor.TASK,)), SplitReduction(terms=terms, sums=sums))
    module = traced(lambda x: tg.sum(x, axis=1), inputs)
    (expected,) = reference(module, inputs)
    (actual,) = as_native_code(module, inputs, change=with_recipes(lambda kernel: recipe))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def drawn_recipe(draw: Random) -> Recipe:
    """Returns a recipe of a product that is likely to fit."""
    rows, columns = draw.choice([1, 2, 4, 8, 16]), draw.choice([2, 4, 8, 16, 32])
    loops = 2 if rows > 1 else 1
    in_order = (Processor.SEQUENTIAL,) * loops
    steps: list[Step] = [Tile((rows, columns)), Collapse()]
    if draw.random() < 0.7:
        steps.append(Map((Processor.TASK,)))
    else:
        steps += [Tile((draw.choice([2, 3]),), (Processor.TASK,)), Map((Processor.SEQUENTIAL,))]
    steps.append(draw.choice([StepReduction(), Interchange(draw.choice([1, 2, 3, 5, 8, 64]))]))
    if draw.random() < 0.6:
        steps.append(Stage(draw.choice([(), (0,), (1,)]) if loops > 1 else (), padding=draw.choice([0, 3])))
    if draw.random() < 0.5:
        sizes = (draw.choice([1, 2, 3]), draw.choice([2, 4, 5]))
        steps.append(Tile(sizes[-loops:], in_order, peel=draw.choice([0, 1])))
        loops, in_order = (loops, in_order) if sizes[-loops] > 1 else (1, in_order[:1])
    steps += draw.choice([[UnrollJam()], [UnrollJam(), Vectorize()], [Map(in_order)]])
    return tuple(steps)


@pytest.mark.in_turns(16)
@pytest.mark.parametrize("seed", range(320))
def test_a_drawn_recipe(seed: int) -> None:
    """Native code and NumPy do what a recipe says, or both refuse it."""
    draw = Random(seed)
    recipe, function = drawn_recipe(draw), draw.choice([layer, operator.matmul, two_results, with_branches])
    rows, steps, columns = draw.randint(1, 20), draw.randint(2, 24), draw.randint(2, 40)
    inputs = [floats(rows, steps), floats(steps, columns)]
    module = traced(function, inputs)
    expected, names, tiled = reference(module, inputs), Names(module), list[ModuleOp]()

    def recipe_for(kernel: KernelOp) -> Recipe | None:
        return recipe if any(is_reduction(stage) for stage in kernel.stages) else None

    def change(module: ModuleOp) -> None:
        tiled.append(module.clone())
        for kernel in [op for op in tiled[0].walk() if isinstance(op, KernelOp) and recipe_for(op)]:
            kernel.recipe, kernel.schedule = RecipeAttr(recipe), None
        with_recipes(recipe_for)(module)

    try:
        actual = as_native_code(module, inputs, each=False, change=change)
    except DiagnosticException as error:
        assert "doesn't fit the kernel" in str(error)
        with pytest.raises(DiagnosticException, match="doesn't fit the kernel"):
            apply(TilePass(), tiled[0])
        return
    apply(TilePass(), tiled[0])
    for native, numpy, value in zip(actual, on_buffers(tiled[0], inputs, names), expected, strict=True):
        np.testing.assert_allclose(native, value, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(numpy, value, rtol=2e-5, atol=2e-5)


def test_tasks_run_the_outermost_loop() -> None:
    inputs, task = [floats(8, 8), floats(8, 8)], (Processor.TASK,)
    peeled = (Collapse(), Tile((3,), task, peel=1), Map((Processor.SEQUENTIAL,)))
    for recipe in [(Collapse(), Map((Processor.SEQUENTIAL,))), (Map((Processor.SEQUENTIAL, *task)),), peeled]:
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
