"""Kernels written out as tiles compute the same: at each step of their recipes, and to the bit what a device does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from case import Case
from cases import CASES, by_turns
from harness import Names, apply, assert_same, on_buffers, reference, traced
from scheduled import GPU, SOFTWARE, floats, on_device
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.buf_tiles import TiledOp
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.dialects.recipe import RecipeAttr, Synchronize
from tensorgrad.dialects.schedule import ContractionSchedule, GroupSchedule, ThreadSchedule
from tensorgrad.interpreters import tiles
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.codegen.tile import TilePass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice

NATIVE = Target.named("cpu")
TARGETS = (GPU, SOFTWARE, NATIVE)

SLOW = re.compile(r"many|of_blocks|long|sort|\(3,_8,_9,_9\)_by_\(20|\(1,_3,_20,_33\)_by_\(70")
"""The cases with thousands of points, or long loops at each of them, which run one after another."""

ALWAYS_TILED = (ThreadSchedule, GroupSchedule, ContractionSchedule)
"""The schedules that have a recipe for every kernel."""

PRODUCTS = (ContractionSchedule, PackedSchedule)
"""The schedules of products, whose sums of positive and negative terms are rounded in another order."""


def scheduled(module: ModuleOp, target: Target) -> ModuleOp:
    """Lowers a `tg` module to kernels with schedules."""
    passes = (InlineCallsPass(), SimplifyPass(), LowerTgToBufPass(target=target), FusePass(target=target))
    for pass_ in (*passes, SchedulePass(target=target)):
        apply(pass_, module)
    return module


def schedules(module: ModuleOp) -> list[object]:
    """Returns the schedules of the kernels that are not tiled."""
    return [op.schedule.data for op in module.walk() if isinstance(op, KernelOp) and op.schedule is not None]


def steps_of(module: ModuleOp) -> int:
    """Returns the number of steps of the longest recipe."""
    return max((len(op.recipe.data) for op in module.walk() if isinstance(op, TiledOp) and op.recipe), default=0)


@pytest.mark.parametrize("case", by_turns([case for case in CASES if not SLOW.search(case.id)], 16, 3))
def test_value(case: Case) -> None:
    target = TARGETS[sum(case.id.encode()) % len(TARGETS)]
    module = traced(case.function, case.inputs)
    expected, names = reference(module, case.inputs), Names(module)
    bound = 1e-5 if any(isinstance(schedule, PRODUCTS) for schedule in schedules(scheduled(module, target))) else 1e-6
    apply(TilePass(), module)
    assert not any(isinstance(schedule, ALWAYS_TILED) for schedule in schedules(module))
    assert_same(on_buffers(module, case.inputs, names)[0], expected[0], max(case.rtol, bound), "tile")


def softmax(x: Any) -> Any:
    return tg.softmax(x, axis=1)


def layer_norm(x: Any) -> Any:
    centered = x - tg.mean(x, axis=1, keepdims=True)
    return centered / tg.sqrt(tg.mean(centered**2, axis=1, keepdims=True) + 1e-5)


def reshaped(x: Any) -> Any:
    return tg.sum(tg.reshape(x, (x.shape[1], x.shape[0])), axis=0) * 2, tg.transpose(x) + 1


def sums(x: Any) -> Any:
    return tg.sum(x, axis=1), tg.max(x, axis=0), tg.sum(x), tg.prod(x[:, :5], axis=1)


FUNCTIONS = (softmax, layer_norm, reshaped, sums)


def layer(x: Any, w: Any) -> Any:
    return tg.exp(-(tg.tanh(x) @ w))


def batched(x: Any, w: Any) -> Any:
    return x @ tg.transpose(w, (0, 2, 1))


def pointwise_convolution(x: Any, w: Any) -> Any:
    return tg.conv2d(x, w)


SHAPES: dict[Callable[..., Any], list[tuple[int, ...]]] = {
    layer: [(5, 37), (37, 17)],
    batched: [(2, 8, 20), (2, 16, 20)],
    pointwise_convolution: [(2, 20, 3, 4), (6, 20, 1, 1)],
}
"""The shapes of the operands of products: parts of the reduction, rows and columns that are whole, and that aren't."""


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("shape", [(3, 10), (2, 67)], ids=str)
def test_each_step_keeps_the_values(function: Callable[..., Any], target: Target, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).normal(1, 1, shape).astype(np.float32)  # whose sum is far from 0
    check_each_step(function, [x], target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("function", SHAPES, ids=lambda function: function.__name__)
def test_each_step_of_a_product_keeps_the_values(function: Callable[..., Any], target: Target) -> None:
    steps = check_each_step(function, [floats(*shape) for shape in SHAPES[function]], target)
    assert steps > (4 if target is GPU else 3)  # a GPU's workgroups share what they copy


def check_each_step(function: Callable[..., Any], inputs: list[np.ndarray], target: Target) -> int:
    """Checks the results of a function after each step of its kernels' recipes; returns the number of steps."""
    module = traced(function, inputs)
    expected, names = reference(module, inputs), Names(module)
    scheduled(module, target)
    apply(TilePass(steps=0), module)
    steps = steps_of(module)
    for step in range(steps + 1):
        for actual, value in zip(on_buffers(module, inputs, names), expected, strict=True):
            assert_same(actual, value, 1e-5, f"step {step}")
        apply(TilePass(steps=1), module)
    return steps


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("function", [*FUNCTIONS, *SHAPES], ids=lambda function: function.__name__)
def test_iterations_are_independent(
    function: Callable[..., Any], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the opposite order they leave the same bits, so any processor may run each of them."""
    inputs = [floats(*shape) for shape in SHAPES.get(function, [(3, 40)])]
    module = traced(function, inputs)
    names = Names(module)
    apply(TilePass(), scheduled(module, target))
    expected = on_buffers(module, inputs, names)
    backwards = SimpleNamespace(product=lambda *ranges: reversed([*itertools.product(*ranges)]))
    monkeypatch.setattr(tiles, "itertools", backwards)
    for actual, value in zip(on_buffers(module, inputs, names), expected, strict=True):
        np.testing.assert_array_equal(actual, value)


def test_barriers_are_placed_once() -> None:
    """Where there are all of them, none is missing; without them, the same ones are placed again."""
    module = scheduled(traced(layer_norm, [floats(3, 40)]), GPU)
    apply(TilePass(), module)
    text, barriers = str(module), [op for op in module.walk() if isinstance(op, gpu.BarrierOp)]
    assert len(barriers) > 4

    def synchronized() -> str:
        for op in module.walk():
            if isinstance(op, TiledOp):
                op.properties["recipe"] = RecipeAttr((Synchronize(),))
        apply(TilePass(), module)
        return str(module)

    assert synchronized() == text
    for op in barriers:
        op.detach()
        op.erase()
    assert synchronized() == text


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_tiles_after_a_memory_plan(target: Target) -> None:
    """Buffers share bytes then, and a kernel may write over what it reads."""

    def step(x: Any, y: Any) -> Any:
        z = tg.tanh(x + y)
        return tg.softmax(z * tg.sum(z, axis=1, keepdims=True), axis=1)

    x, y = floats(3, 20), floats(3, 20)
    module = traced(step, [x, y])
    expected, names = reference(module, [x, y]), Names(module)
    apply(PlanMemoryPass(target=target), scheduled(module, target))
    apply(TilePass(), module)
    assert_same(on_buffers(module, [x, y], names)[0], expected[0], 1e-5, "tile")


@pytest.mark.parametrize("target", [GPU, SOFTWARE], ids=lambda target: target.name)
@pytest.mark.parametrize("shape", [(3, 10), (40, 65), (2, 300)], ids=str)
def test_sums_are_a_devices_to_the_bit(device: WebGPUDevice, target: Target, shape: tuple[int, int]) -> None:
    """Lanes, accumulators, what is left over, and the folds at the end: all terms are added in the same order."""

    def function(x: Any) -> Any:
        return tg.sum(x, axis=1), tg.sum(x, axis=0)

    check_bits(device, function, [floats(*shape)], target)


@pytest.mark.parametrize("target", [GPU, SOFTWARE], ids=lambda target: target.name)
def test_sums_of_products_are_a_devices_to_the_bit(device: WebGPUDevice, target: Target) -> None:
    for function in (batched, pointwise_convolution):
        check_bits(device, function, [floats(*shape) for shape in SHAPES[function]], target)


def check_bits(device: WebGPUDevice, function: Callable[..., Any], inputs: list[np.ndarray], target: Target) -> None:
    """Checks that tiles compute the bits of the device."""
    _, expected, _ = on_device(device, function, inputs, target)
    module = traced(function, inputs)
    names = Names(module)
    apply(TilePass(), scheduled(module, target))
    for actual, value in zip(on_buffers(module, inputs, names), expected, strict=True):
        np.testing.assert_array_equal(actual, value)
