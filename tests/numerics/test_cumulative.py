"""The cost of cumulative ops: kernels, and bytes as a multiple of the input, for any length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from arithmetic import flushes_subnormals
from harness import NumpyArray, apply, reference, traced
from xdsl.dialects.builtin import IntegerAttr

import tensorgrad as tg
from tensorgrad.dialects.buf import DispatchOp
from tensorgrad.passes.analyses.traffic import BYTES_MOVED
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.tracing.tensor import Tensor

Running = Callable[[Tensor], Tensor]

FORWARD = [(48, 1, 2.0), (200, 3, 5.3), (1024, 3, 5.2), (100_000, 5, 5.2)]
"""Extent, kernels at most, and bytes moved at most for each of the input's."""

RECURRENCE = [(48, 9, 30.0), (200, 14, 38.2), (1024, 15, 31.4), (100_000, 30, 31.3)]

VALUES = {
    "cumsum": FORWARD,
    "cumprod": [(48, 1, 2.0), (200, 3, 5.3), (1024, 3, 5.2), (100_000, 6, 11.0)],
    "cummax": [(48, 2, 5.0), (200, 5, 11.8), (1024, 5, 11.3), (100_000, 10, 11.4)],
    "logcumsumexp": [(48, 2, 5.0), (200, 5, 9.7), (1024, 5, 9.3), (100_000, 8, 9.3)],
}
"""Of running maxima two are computed, and the elements that the second names are read."""

BACKWARD = {
    "cumsum": FORWARD,
    "cumprod": [(48, 8, 28.7), (200, 12, 39.1), (1024, 13, 32.3), (100_000, 26, 38.0)],
    "cummax": RECURRENCE,
    "logcumsumexp": RECURRENCE,
}
"""The gradient of a weighted sum; except for sums, these gradients are linear recurrences too."""

KINDS: dict[str, Running] = {
    "cumsum": lambda x: tg.cumsum(x, 1),
    "cumprod": lambda x: tg.cumprod(x, 1),
    "cummax": lambda x: tg.cummax(x, 1)[0],
    "logcumsumexp": lambda x: tg.logcumsumexp(x, 1),
}


def costs(function: Callable[..., Tensor], inputs: list[NumpyArray]) -> tuple[int, float]:
    """Returns the dispatches, and the bytes moved per byte of the first input."""
    module = traced(function, inputs)
    for pass_ in inference_passes():
        apply(pass_, module)
    moved: list[int] = []
    for op in module.walk():
        if isinstance(op, DispatchOp):
            count = op.attributes[BYTES_MOVED]
            assert isinstance(count, IntegerAttr)
            moved.append(count.value.data)
    return len(moved), sum(moved) / inputs[0].nbytes


def rows(extent: int) -> NumpyArray:
    return np.ones((2, extent), np.float32)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", range(len(FORWARD)))
def test_values_move_a_few_times_the_input(kind: str, row: int) -> None:
    extent, kernels, bytes_moved = VALUES[kind][row]
    cost = costs(KINDS[kind], [rows(extent)])
    assert cost[0] <= kernels
    assert cost[1] <= bytes_moved


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", range(len(FORWARD)))
def test_gradients_move_no_more_for_longer_rows(kind: str, row: int) -> None:
    extent, kernels, bytes_moved = BACKWARD[kind][row]

    def gradient(x: Tensor, weights: Tensor) -> Tensor:
        return tg.grad(lambda v: tg.sum(KINDS[kind](v) * weights))(x)

    cost = costs(gradient, [rows(extent), rows(extent)])
    assert cost[0] <= kernels
    assert cost[1] <= bytes_moved


@pytest.mark.parametrize("kind", ["cumsum", "cumprod"])
def test_a_hundred_thousand_elements(kind: str) -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, (1, 100_000)).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    x[0, 70_000] = 0
    wide = x.astype(np.float64)

    def both(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return KINDS[kind](x), tg.grad(lambda v: tg.sum(KINDS[kind](v) * weights))(x)

    value, gradient = reference(traced(both, [x, weights]), [x, weights])
    if kind == "cumsum":
        expected, slopes = np.cumsum(wide, 1), np.cumsum(weights[:, ::-1].astype(np.float64), 1)[:, ::-1]
    else:
        expected, slopes = np.cumprod(wide, 1), np.zeros(x.shape)
        before, behind = np.concatenate([[1.0], expected[0, :-1]]), 0.0
        for place in reversed(range(x.size)):
            behind = weights[0, place] + (wide[0, place + 1] * behind if place + 1 < x.size else 0.0)
            slopes[0, place] = before[place] * behind
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-5 * np.abs(slopes).max())


def test_a_hundred_thousand_logarithms_as_pytorch() -> None:
    """PyTorch's in f64; f32 is off by its own rounding of logarithms that are far above 0."""
    x = (30 * np.random.default_rng(0).normal(size=(1, 100_000))).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    wide = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    logarithms = torch.logcumsumexp(wide, 1)
    torch.sum(logarithms * torch.tensor(weights)).backward()
    assert wide.grad is not None
    np.testing.assert_allclose(tg.logcumsumexp(x, 1), logarithms.detach().numpy(), rtol=1e-6)
    slopes = wide.grad.numpy()
    gradient = tg.grad(lambda v: tg.sum(tg.logcumsumexp(v, 1) * weights))(x)
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-5 * np.abs(slopes).max())


def swinging(extent: int) -> NumpyArray:
    """Returns factors between 1e-37 and 1e37 whose products, from the first on, are all between 1e-30 and 1e30."""
    factors, level = np.empty(extent, np.float32), 0.0
    for place, exponent in enumerate(np.random.default_rng(extent).uniform(-30, 30, extent)):
        factors[place] = 10.0 ** np.clip(exponent - level, -37, 37)
        level += float(np.log10(factors[place]))
    return factors


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("extent", [8, 33, 64, 65, 200, 1100, 5000])
def test_products_are_multiplied_in_order(extent: int, device: tg.DeviceName) -> None:
    """In another order, parts of these products would overflow. Both layouts of a row are tried."""
    x = swinging(extent)[np.newaxis]
    running, whole, column = tg.jit(
        lambda x: (tg.cumprod(x, 1), tg.prod(x, 1), tg.prod(tg.reshape(x, (extent, 1)), 0)), device=device
    )(x)
    products = np.cumprod(x, 1)
    assert np.isfinite(products).all() and products.min() > 0
    assert np.array_equal(running, products)
    assert np.array_equal(whole, products[:, -1]) and np.array_equal(column, products[0, -1:])


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_derivatives_of_products_of_which_parts_overflow(device: tg.DeviceName) -> None:
    # WGSL leaves quotients by more than 2^126 open: where a device flushes their reciprocals, they are 0.
    large = 8e37 if device == "wgpu" and flushes_subnormals() else 3e38
    x = np.array([1e-30, large] * 4 + [0.5] * 4, np.float32)
    wide = x.astype(np.float64)
    products = np.cumprod(wide)
    running, whole = tg.jit(
        lambda x: (tg.grad(lambda x: tg.sum(tg.cumprod(x)))(x), tg.grad(tg.prod)(x)), device=device
    )(x)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(running, (np.cumsum(products[::-1])[::-1] / wide).astype(np.float32), rtol=1e-5)
        np.testing.assert_allclose(tg.array(whole), (products[-1] / wide).astype(np.float32), rtol=1e-5)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_ties_as_pytorch(name: str) -> None:
    x = np.random.default_rng(0).integers(-5, 50, (2, 2500)).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    tensor = torch.tensor(x, requires_grad=True)
    values, places = getattr(torch, name)(tensor, 1)
    torch.sum(values * torch.tensor(weights)).backward()
    assert tensor.grad is not None
    extremes, indices = getattr(tg, name)(x, 1)
    assert np.array_equal(extremes, values.detach()) and np.array_equal(indices, places)
    gradient = tg.grad(lambda v: tg.sum(getattr(tg, name)(v, dim=1)[0] * weights))(x)
    np.testing.assert_allclose(gradient, tensor.grad, rtol=0, atol=1e-4)
