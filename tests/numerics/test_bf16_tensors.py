"""Tensors of bf16 on every device: conversions, products, derivatives, loops, and what their storage takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from ml_dtypes import bfloat16

import tensorgrad as tg
from tensorgrad.tracing.dtypes import NAMES, promote

DEVICES = ["numpy", "cpu", "wgpu"]
BF16 = np.dtype(bfloat16)

Function = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(BF16)


def each() -> np.ndarray:
    """Returns every bf16, infinities and NaN included."""
    return np.arange(1 << 16, dtype=np.uint16).view(BF16)


def around_each() -> np.ndarray:
    """Returns the f32 of every bf16, those next to them, and those at and next to the ties between them."""
    words = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32)
    return words.reshape(-1).view(np.float32)


def same(actual: Any, expected: np.ndarray) -> None:
    """Compares values in f32, of which NumPy knows NaN."""
    array = np.asarray(actual)
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array.astype(np.float32), expected.astype(np.float32))


def on(device: Any, function: Function, *inputs: np.ndarray) -> Any:
    return tg.jit(function, device=device)(*inputs)


@pytest.mark.parametrize("device", DEVICES)
def test_f32_is_rounded_to_nearest_and_ties_to_even(device: str) -> None:
    x = around_each()
    result = np.asarray(on(device, lambda x: tg.cast(x, "bf16"), x))
    with np.errstate(invalid="ignore"):
        expected = x.astype(BF16)
    is_subnormal = np.abs(x) < 2.0**-126
    same(result[~is_subnormal], expected[~is_subnormal])
    flushed = result[is_subnormal] == 0  # as some devices take them
    assert (flushed | (result[is_subnormal] == expected[is_subnormal])).all()


@pytest.mark.parametrize("device", DEVICES)
def test_values_pass_unchanged(device: str) -> None:
    x = each()
    moved, wide, bits = on(device, lambda x: (tg.flip(x, 0), tg.cast(x, "f32"), tg.bitcast(x, "u16")), x)
    same(moved, x[::-1])
    same(wide, x.astype(np.float32))
    is_nan = np.isnan(x.astype(np.float32))
    np.testing.assert_array_equal(np.asarray(bits)[~is_nan], x.view(np.uint16)[~is_nan])
    same(on(device, lambda bits: tg.bitcast(bits, "bf16"), x.view(np.int16)), x)


@pytest.mark.parametrize("device", DEVICES)
def test_integers_are_rounded_and_floats_truncated(device: str) -> None:
    whole = np.array([0, 1, -1, 255, 257, -(2**31), 2**31 - 1, 70000], np.int32)
    same(on(device, lambda x: tg.cast(x, "bf16"), whole), whole.astype(np.float32).astype(BF16))
    x = np.array([1.5, -2.75, 3e38, -np.inf, np.nan, 200.0], np.float32).astype(BF16)
    result = on(device, lambda x: (tg.cast(x, "i32"), tg.cast(x, "u8"), tg.cast(x, "bool")), x)
    for actual, expected in zip(
        result,
        ([1, -2, 2**31 - 1, -(2**31), 0, 200], [1, 0, 255, 0, 0, 200], [True] * 6),
        strict=True,
    ):
        assert np.asarray(actual).tolist() == expected


def network(x: Any, w: Any, b: Any) -> Any:
    return tg.sum(tg.tanh(x @ w + b) ** 2)


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_derivatives_are_those_of_the_reference(device: str) -> None:
    inputs = [normal(19, 33), normal(33, 18, seed=1), normal(18, seed=2)]
    gradients = tg.grad(network, (0, 1, 2))
    exact = tg.grad(network, (0, 1, 2))(*(x.astype(np.float32) for x in inputs))
    for actual, expected, wide in zip(on(device, gradients, *inputs), gradients(*inputs), exact, strict=True):
        ours, reference = np.asarray(actual), np.asarray(expected)
        assert ours.dtype == reference.dtype == BF16
        scale = float(np.abs(np.asarray(wide)).max())
        np.testing.assert_allclose(ours.astype(float), reference.astype(float), rtol=2.0**-7, atol=2.0**-9 * scale)
        np.testing.assert_allclose(ours.astype(float), np.asarray(wide), rtol=0, atol=0.05 * scale)


def repeated(x: Any, w: Any) -> Any:
    """Takes what moves elements, a loop, a branch and a sort."""
    state, rows = tg.scan(lambda carry, row: (carry * 0.5 + row, carry), x[0], x)
    chosen = tg.cond(tg.sum(state) > 0, lambda s: s * 2, lambda s: -s, state)
    joined = tg.concat([tg.pad(rows, ((0, 1), (0, 0))), tg.take(w, [2, 0], 0)], 0)
    return chosen, tg.sort(joined, -1), tg.where(joined > 0, joined, 1), tg.mean(joined), tg.cumsum(w, 0)


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_loops_branches_and_sorts(device: str) -> None:
    inputs = normal(5, 6), normal(4, 6, seed=1)
    for actual, expected in zip(on(device, repeated, *inputs), repeated(*map(tg.array, inputs)), strict=True):
        same(actual, np.asarray(expected))


@pytest.mark.parametrize("device", DEVICES)
def test_eager_tensors(device: Any) -> None:
    x = tg.array([1.5, 2.25, 3.14159], dtype=tg.bf16).to(device)
    y = (x * x + 1).detach().requires_grad_()
    tg.sum(y * y).backward()
    assert x.dtype == y.dtype == BF16
    same(y, np.array([3.25, 6.0625, 10.875], BF16))
    same(y.grad, np.array([6.5, 12.125, 21.75], BF16))


@pytest.mark.parametrize("other", ["bf16", "f16", "f32", "f64", "i32", "u8", "bool"])
def test_promotion_is_pytorchs(other: str) -> None:
    kind = {"bf16": torch.bfloat16}.get(other) or getattr(torch, NAMES[other].name)
    expected = str(torch.promote_types(torch.bfloat16, kind)).removeprefix("torch.")
    assert promote(BF16, NAMES[other]).name == promote(NAMES[other], BF16).name == expected


def test_native_code_stores_16_bits_and_shaders_32() -> None:
    x, w = normal(512, 32), normal(32, 512)
    sizes = {}
    for device in ("cpu", "wgpu"):
        for dtype in (BF16, np.dtype(np.float32)):
            jitted = tg.jit(lambda x, w: x @ w, device=device)
            jitted(x.astype(dtype), w.astype(dtype))
            sizes[device, dtype.itemsize] = sum(buffer.size for buffer in jitted.program.buffers)
    assert sizes["cpu", 2] == sizes["cpu", 4] // 2
    assert sizes["wgpu", 2] == sizes["wgpu", 4]


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("transposed", [False, True], ids=["forward", "backward"])
def test_products_beside_f32_read_a_weight_of_bf16_where_it_is_stored(rows: int, transposed: bool) -> None:
    """No buffer has it in f32, and no kernel is added. Derivatives multiply by the transposed weight."""
    x, weight, programs = normal(rows, 256).astype(np.float32), normal(256, 256, seed=1), []
    for w in (weight.astype(np.float32), weight):
        function = tg.jit(lambda x, w: x @ (tg.transpose(w) if transposed else w), device="cpu")
        result, exact = np.asarray(function(x, w)), w.astype(np.float32)
        np.testing.assert_allclose(result, x @ (exact.T if transposed else exact), atol=1e-4)
        assert result.dtype == np.float32
        programs.append(function.program)
    wide, narrow = (program.statistics["peak_bytes"] for program in programs)
    assert wide - narrow == weight.nbytes
    assert len(programs[0].plan) == len(programs[1].plan)


def test_arrays_of_bf16_in_a_module_are_parameters_of_f32() -> None:
    class Scaled(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = np.ones(2, bfloat16)

    assert Scaled().named_parameters()["weight"].dtype == np.float32
