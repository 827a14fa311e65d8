"""Convolutions, pooling and resizing with derivatives on the device, as for software adapters and GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scheduled import GPU, SOFTWARE, check, floats, on_device

import tensorgrad as tg
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice

on_targets = pytest.mark.parametrize("target", [SOFTWARE, GPU], ids=lambda target: target.name)


def with_gradients(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Returns a function's value, and the gradients of the sum of its squares."""

    def all_of_them(*inputs: Any) -> Any:
        gradients = tg.grad(lambda *x: tg.sum(function(*x) ** 2), argnums=tuple(range(count)))(*inputs)
        return function(*inputs), *gradients

    return all_of_them


SETTINGS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 11, 14), (20, 3, 3, 3), {"padding": 1}),
    ((2, 8, 9, 9), (17, 8, 3, 3), {"stride": 2, "padding": "same"}),
    ((1, 4, 16, 12), (4, 4, 5, 1), {"dilation": 2, "padding": [(3, 1), (0, 2)]}),
    ((3, 16, 7, 7), (40, 16, 1, 1), {}),
    ((2, 6, 20), (9, 6, 4), {"stride": 3}),
    ((2, 16, 13, 20), (24, 16, 3, 3), {"padding": 1}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": 1, "stride": [1, 2, 2]}),
]


@pytest.mark.in_turns(5)
@on_targets
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting[0]} by {setting[1]}".replace(" ", ""))
def test_convolutions_are_contractions(device: WebGPUDevice, target: Target, setting: Any) -> None:
    x, w, settings = setting
    function = with_gradients(lambda x, w: tg.conv(x, w, **settings), 2)
    archetypes, results, expected = on_device(device, function, [floats(*x), floats(*w)], target)
    assert archetypes["contraction"] >= 3, archetypes
    for result, correct in zip(results, expected, strict=True):
        scale = float(np.abs(correct).max())
        np.testing.assert_allclose(result, correct, rtol=2e-5, atol=2e-5 * scale)


@on_targets
def test_an_epilogue_runs_behind_the_convolution(device: WebGPUDevice, target: Target) -> None:
    def function(x: Any, w: Any, b: Any, y: Any) -> Any:
        return tg.relu(tg.conv2d(x, w, b, padding=1)) + y

    inputs = [floats(2, 5, 9, 20), floats(12, 5, 3, 3), floats(12), floats(2, 12, 9, 20)]
    archetypes, (result,), (expected,) = on_device(device, function, inputs, target)
    assert archetypes == {"contraction": 1}
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@on_targets
def test_an_epilogue_runs_in_the_phases(device: WebGPUDevice, target: Target) -> None:
    def function(x: Any, w: Any, b: Any, y: Any) -> Any:
        return tg.relu(tg.conv_transpose(x, w, b, stride=2, padding=1)) * y

    inputs = [floats(2, 5, 6, 10), floats(5, 12, 4, 4), floats(12), floats(2, 12, 12, 20)]
    archetypes, (result,), (expected,) = on_device(device, function, inputs, target)
    assert archetypes == {"contraction": 1}
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.in_turns(2)
@on_targets
@pytest.mark.parametrize("groups", [2, 6])
def test_groups_run_as_threads(device: WebGPUDevice, target: Target, groups: int) -> None:
    function = with_gradients(lambda x, w: tg.conv(x, w, padding=1, stride=2, groups=groups), 2)
    _, results, expected = on_device(device, function, [floats(2, 6, 9, 11), floats(12, 6 // groups, 3, 3)], target)
    for result, correct in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, correct, rtol=2e-5, atol=2e-5 * float(np.abs(correct).max()))


@pytest.mark.in_turns(4, 1)
@on_targets
@pytest.mark.parametrize(("channels", "outputs"), [(5, 9), (24, 2)])
def test_transposed_convolutions(device: WebGPUDevice, target: Target, channels: int, outputs: int) -> None:
    function = with_gradients(lambda x, w: tg.conv_transpose(x, w, stride=2, padding=1, output_padding=1), 2)
    inputs = [floats(2, channels, 6, 7), floats(channels, outputs, 3, 3)]
    check(device, function, inputs, target, "contraction", 5e-5)


@pytest.mark.in_turns(3, 1)
@on_targets
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pooling(device: WebGPUDevice, target: Target, stride: int) -> None:
    def function(x: Any) -> Any:
        return tg.max_pool(x, 3, stride, 1) + tg.avg_pool(x, 3, stride, 1, count_padding=False)

    check(device, with_gradients(function, 1), [floats(2, 3, 9, 12)], target, "thread", 2e-5)


@on_targets
def test_pooling_side_by_side_copies_nothing(device: WebGPUDevice, target: Target) -> None:
    """The gradient reads each element's own window: one kernel for maxima and ties, one for the gradient."""
    archetypes, (result,), (expected,) = on_device(
        device, tg.grad(lambda x: tg.sum(tg.max_pool(x, 2) ** 2)), [floats(2, 3, 8, 12)], target
    )
    assert sum(archetypes.values()) <= 2, archetypes
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.in_turns(4)
@on_targets
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
def test_resizing(device: WebGPUDevice, target: Target, method: str) -> None:
    for size in (10, (15, 4), (7, 13)):
        function = with_gradients(lambda x, size=size: tg.resize(x, size, method) * 2.0, 1)
        _, results, expected = on_device(device, function, [floats(2, 2, 5, 8)], target)
        for result, correct in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, correct, rtol=2e-5, atol=2e-5)


@on_targets
def test_einsum(device: WebGPUDevice, target: Target) -> None:
    inputs = [floats(2, 3, 9, 8), floats(2, 3, 11, 8), floats(2, 3, 11, 5)]
    check(
        device,
        with_gradients(lambda q, k, v: tg.einsum("bhid,bhjd,bhjv->bihv", q, k, v), 3),
        inputs,
        target,
        "contraction",
        5e-5,
    )
