"""Sorting, sorted scatters, cumulative sums and concatenation on the device, as for software adapters and GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from draws import generator
from harness import Names, apply, reference, traced

import tensorgrad as tg
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable

TARGETS = [Target.named("lavapipe"), Target.named("webgpu-default")]

on_both = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)

RANDOM = generator(3)


def run(
    device: WebGPUDevice, target: Target, function: Any, *inputs: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns a function's results on the device, and the reference's."""
    module = traced(function, inputs)
    expected, names = reference(module, inputs), Names(module)
    for pass_ in inference_passes(target):
        apply(pass_, module)
    program = replace(build_program(module, target), target=None)  # any adapter may run it
    outputs = WebGPUExecutable(program, device, trusted=True).step(dict(zip(names.arguments, inputs, strict=True)), {})
    return [handle.numpy() for handle in outputs.values()], expected


def exactly(device: WebGPUDevice, target: Target, function: Any, *inputs: np.ndarray) -> None:
    """Compares with the reference, bit for bit."""
    for result, expected in zip(*run(device, target, function, *inputs), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.nightly
@on_both
def test_sorts(device: WebGPUDevice, target: Target) -> None:
    x = RANDOM.integers(0, 90, (3, 400)).astype(np.float32)  # runs that are ranked, and one merge
    x[0, [3, 70]], x[1, 5], x[2, 6], x[2, 7] = np.nan, np.inf, -np.inf, -0.0
    exactly(device, target, lambda x: (tg.argsort(x), tg.argsort(x, descending=True), *tg.top_k(x, 3)), x)
    exactly(device, target, tg.sort, RANDOM.integers(-(2**31), 2**31, 1000).astype(np.int32))
    exactly(device, target, lambda x: tg.sort(x, 0), RANDOM.integers(0, 2**32, (70, 3)).astype(np.uint32))


def test_merged_runs_keep_the_order_of_equals(device: WebGPUDevice) -> None:
    x = RANDOM.integers(0, 90, (4, 300)).astype(np.float32)
    exactly(device, TARGETS[1], tg.argsort, x)


@pytest.mark.in_turns(2)
@on_both
def test_sorted_scatters_add_as_the_reference_does(device: WebGPUDevice, target: Target) -> None:
    updates, indices = RANDOM.normal(size=(500, 4)).astype(np.float32), RANDOM.integers(0, 300, 500).astype(np.int32)

    def gradient(updates: Any, indices: Any) -> Any:
        return tg.grad(lambda table: tg.sum(tg.embedding(table, indices) * updates))(tg.zeros((300, 4)) * updates[0, 0])

    exactly(device, target, gradient, updates, indices)


@pytest.mark.in_turns(2, 1)
@on_both
def test_joins(device: WebGPUDevice, target: Target) -> None:
    x, y = RANDOM.normal(size=(3, 40)).astype(np.float32), RANDOM.normal(size=(3, 7)).astype(np.float32)
    exactly(device, target, lambda x, y: (tg.concat([x * 2.0, y, tg.flip(x, 1)], 1), tg.concat([x] * 9)), x, y)
    exactly(device, target, lambda x: (tg.roll(x, 5, 1), tg.pad(x, 2, "reflect"), x.at[1:, ::3].set(2.0)), x)


@pytest.mark.in_turns(2)
@on_both
def test_an_embedding_table_learns(device: WebGPUDevice, target: Target) -> None:
    """The gradient is computed by sorting, and the update is in the same kernel."""
    table, indices = RANDOM.normal(size=(900, 8)).astype(np.float32), RANDOM.integers(0, 900, (16, 4)).astype(np.int32)

    def step(table: Any, indices: Any) -> Any:
        return table - 0.5 * tg.grad(lambda t: tg.sum(tg.embedding(t, indices) ** 2))(table)

    (result,), (expected,) = run(device, target, step, table, indices)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
