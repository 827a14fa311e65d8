"""Derivatives at NaN, bounds and infinities equal PyTorch's, at every level and on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from case_programs import on_device
from harness import NumpyArray, levels, traced, with_gradient
from torch.nn import functional

import tensorgrad as tg
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.transforms.grad import value_and_grad

NAN, INF = float("nan"), float("inf")
X = [1.0, 2.0, NAN, NAN, 3.0, 3.0, -INF, INF, 0.0]
Y = [2.0, 1.0, 1.0, NAN, NAN, 3.0, -INF, NAN, 0.0]
MIDDLE = [-1.0, 0.0, 0.5, 1.0, 2.0, NAN, 0.5, 0.7, -INF, INF]
LOW = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NAN, 0.8, 0.0, 0.0]
HIGH = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.3, 1.0, 1.0]
ROW = [1.0, NAN, 3.0, 3.0]
IMAGE = [[[[1.0, NAN, 3.0, 2.0], [4.0, 5.0, -INF, 1.0], [0.0, 1.0, -INF, -1.0], [2.0, 2.5, INF, -INF]]]]

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "maximum": (tg.maximum, torch.maximum, (X, Y)),
    "minimum": (tg.minimum, torch.minimum, (X, Y)),
    "max": (tg.max, torch.max, (ROW,)),
    "min": (tg.min, torch.min, (ROW,)),
    "max of several": (tg.max, torch.max, ([NAN, 1.0, NAN],)),
    "max of rows": (lambda x: tg.max(x, 1), lambda x: x.max(1).values, ([[1.0, NAN, 2.0], [1.0, 3.0, 2.0]],)),
    "clip": (lambda x: tg.clip(x, 0.0, 1.0), lambda x: x.clamp(0.0, 1.0), (MIDDLE,)),
    "clip below": (lambda x: tg.clip(x, min=0.0), lambda x: x.clamp(min=0.0), (MIDDLE,)),
    "clip above": (lambda x: tg.clip(x, max=1.0), lambda x: x.clamp(max=1.0), (MIDDLE,)),
    "clip crossed": (lambda x: tg.clip(x, 1.0, 0.0), lambda x: x.clamp(1.0, 0.0), (MIDDLE,)),
    "clip between": (tg.clip, torch.clamp, (MIDDLE, LOW, HIGH)),
    "clip from": (lambda x, low: tg.clip(x, min=low), lambda x, low: x.clamp(min=low), (MIDDLE, LOW)),
    "clip to": (lambda x, high: tg.clip(x, max=high), lambda x, high: x.clamp(max=high), (MIDDLE, HIGH)),
    "max_pool": (lambda x: tg.max_pool(x, 2), lambda x: functional.max_pool2d(x, 2), (IMAGE,)),
    "max_pool padded": (
        lambda x: tg.max_pool(x, 2, padding=1),
        lambda x: functional.max_pool2d(x, 2, padding=1),
        ([[[[-INF, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, -INF]]]],),
    ),
}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(device: WebGPUDevice, name: str) -> None:
    ours, theirs, lists = CASES[name]
    inputs = [np.array(x, np.float32) for x in lists]
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    value = theirs(*tensors)
    value.backward(torch.ones_like(value))
    torch_gradients = [x.grad.numpy() for x in tensors if x.grad is not None]
    np.testing.assert_array_equal(np.asarray(ours(*inputs)), value.detach().numpy())
    for level, gradients in every_way(device, ours, inputs):
        for gradient, expected in zip(gradients, torch_gradients, strict=True):
            np.testing.assert_array_equal(gradient, expected, level)


def every_way(device: WebGPUDevice, function: Callable[..., Any], inputs: list[NumpyArray]) -> Any:
    """Returns the gradients of the sum of a function's results, at every level and on the device."""

    def total(*xs: Any) -> Any:
        return tg.sum(function(*xs))

    wrt = tuple(range(len(inputs)))
    for level, results in levels(with_gradient(traced(total, inputs), wrt), inputs):
        yield level, results[1:]
    yield "device", on_device(device, traced(value_and_grad(total, wrt), inputs), inputs)[1:]


def test_padding_of_max_pool_has_no_share() -> None:
    """PyTorch gives the whole cotangent to the first maximum; here ties share it, without the padding."""
    x = np.full((1, 1, 3), -INF, np.float32)

    slopes = np.asarray(tg.grad(lambda x: tg.sum(tg.max_pool(x, 2, 1, padding=1)))(x))
    np.testing.assert_allclose(slopes, [[[1.5, 1.0, 1.5]]], rtol=1e-6)
    assert np.asarray(tg.max_pool(x, 2, 1, padding=1)).tolist() == [[[-INF] * 4]]


def test_second_derivatives_of_clip_are_those_of_what_holds() -> None:
    slope = tg.grad(lambda x: tg.sum(tg.clip(x, 0.0, 1.0) ** 2))
    second = np.asarray(tg.grad(lambda x: tg.sum(slope(x)))(np.array([-1.0, 0.0, 0.5, 1.0, 2.0], np.float32)))
    assert second.tolist() == [0, 2, 2, 2, 0]
