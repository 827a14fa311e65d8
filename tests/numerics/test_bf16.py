"""Factors of products in bf16 and activations in bf16: how they are rounded, on each device, and by which kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from models import MLP, compiled, squared_error

import tensorgrad as tg
from tensorgrad.checks import tolerance
from tensorgrad.runtime.cpu import compiler
from tensorgrad.runtime.cpu.device import CpuDevice

DEVICES = ["numpy", "cpu", "wgpu"]
DOT = "llvm.x86.avx512bf16.dpbf16ps"

SMALLEST_NORMAL = 2.0**-126


def rounded(x: np.ndarray) -> np.ndarray:
    """Returns numbers rounded to bf16, in float64."""
    with np.errstate(invalid="ignore"):  # of a NaN
        return x.astype(bfloat16).astype(np.float64)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def perceptron(device: tg.DeviceName = "cpu", hidden: int = 128, rows: int = 64, **options: Any) -> tg.Training:
    """Returns the training of a perceptron from 64 features to 10."""
    inputs = {"x": (rows, 64), "y": (rows, 10)}
    return compiled(model=MLP(64, hidden, 10), loss=squared_error, inputs=inputs, device=device, **options)


def correlation(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Returns a convolution with a stride of 2 and a margin of 1, in float64."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, ::2, ::2]
    return np.einsum("nchwij,ocij->nohw", windows, w)


def values() -> np.ndarray:
    """Returns numbers around each bf16: those themselves, and both sides of each tie and each tie, infinities, NaNs."""
    words = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32)
    return words.reshape(-1).view(np.float32)


@pytest.mark.parametrize(
    ("device", "may_pair"),
    [("numpy", True), ("cpu", True), ("cpu", False), ("wgpu", True)],
    ids=["numpy", "cpu", "cpu-without-pairs", "wgpu"],
)
def test_factors_are_rounded_to_the_nearest(
    device: tg.DeviceName, may_pair: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number times one, plus zero times zero."""
    if not may_pair:
        monkeypatch.setattr(CpuDevice(), "target", replace(CpuDevice().target, bf16_dot=False))
    x = values()
    factors = np.stack([x, np.zeros_like(x)], axis=1)
    weights = np.array([[1.0] * 64, [0.0] * 64], np.float32)
    result = np.asarray(tg.jit(lambda x, w: x @ w, device=device, precision="bf16-products")(factors, weights))
    expected = rounded(x)
    column, is_subnormal = result[:, 7], np.abs(x) < SMALLEST_NORMAL
    np.testing.assert_array_equal(column[~is_subnormal], expected[~is_subnormal].astype(np.float32))
    flushed = column[is_subnormal] == 0  # as some devices take them
    assert (flushed | (column[is_subnormal] == expected[is_subnormal])).all()


PRODUCTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]] = {
    "plain": (lambda x, w: x @ w, lambda x, w: x @ w, [normal(64, 96), normal(96, 128)]),
    "odd": (lambda x, w: x @ w, lambda x, w: x @ w, [normal(101, 77), normal(77, 83)]),
    "several-ranges": (lambda x, w: x @ w, lambda x, w: x @ w, [normal(64, 1501), normal(1501, 70)]),
    "columns-along-steps": (lambda x, w: x @ w.T, lambda x, w: x @ w.T, [normal(67, 99), normal(130, 99)]),
    "rows-across-steps": (lambda x, w: x.T @ w, lambda x, w: x.T @ w, [normal(99, 67), normal(99, 64)]),
    "even-columns-along-steps": (
        lambda x, w: x @ w.T,
        lambda x, w: x @ w.T,
        [normal(67, 128), normal(130, 128)],
    ),
    "even-ranges": (lambda x, w: x @ w.T, lambda x, w: x @ w.T, [normal(64, 1504), normal(96, 1504)]),
    "even-rows-across-steps": (lambda x, w: x.T @ w, lambda x, w: x.T @ w, [normal(100, 67), normal(100, 96)]),
    "batched": (lambda x, w: x @ w, lambda x, w: x @ w, [normal(3, 50, 33), normal(3, 33, 64)]),
    "prologue": (
        lambda x, w: tg.relu(x + 1) @ w,
        lambda x, w: x @ w,
        [np.maximum(normal(70, 51) + 1, 0), normal(51, 66)],
    ),
    "prologue-of-columns": (
        lambda x, w: x @ tg.relu(w - 1).T,
        lambda x, w: x @ w.T,
        [normal(64, 66), np.maximum(normal(64, 66, seed=1) - 1, 0)],
    ),
    "epilogue": (lambda x, w: tg.tanh(x @ w), lambda x, w: np.tanh(x @ w), [normal(70, 50), normal(50, 66)]),
    "convolution": (
        lambda x, w: tg.conv2d(x, w, stride=2, padding=1),
        correlation,
        [normal(4, 8, 17, 17), normal(64, 8, 3, 3)],
    ),
}
"""By what is special: a product, the same of float64, and its factors."""

ARGUMENTS = {
    "prologue": [normal(70, 51), normal(51, 66)],
    "prologue-of-columns": [normal(64, 66), normal(64, 66, seed=1)],
}
"""What the factors are computed from, where they aren't the arguments."""


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_rounded_factors(name: str, device: tg.DeviceName) -> None:
    function, reference, factors = PRODUCTS[name]
    arguments = ARGUMENTS.get(name, factors)
    result = np.asarray(tg.jit(function, device=device, precision="bf16-products")(*arguments))
    expected = reference(*map(rounded, factors))
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))
    exact = reference(*(factor.astype(np.float64) for factor in factors))
    assert np.abs(result - exact).max() > 1e-4 * np.abs(exact).max()  # they were rounded


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("steps", [128, 99, 1504])
def test_factors_that_were_bf16_all_along_are_paired(steps: int, is_transposed: bool) -> None:
    x, w = (normal(*shape).astype(bfloat16) for shape in ((70, steps), (96, steps) if is_transposed else (steps, 96)))
    jitted = tg.jit(lambda x, w: tg.cast(x, "f32") @ tg.cast(w.T if is_transposed else w, "f32"), device="cpu")
    result = np.asarray(jitted(x, w))
    assert any(DOT in kernel.code for kernel in jitted.program.kernels) is CpuDevice().target.bf16_dot
    expected = x.astype(np.float64) @ (w.T if is_transposed else w).astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))


@pytest.mark.parametrize("device", DEVICES)
def test_factors_that_are_used_few_times_are_not_rounded(device: tg.DeviceName) -> None:
    x, w = normal(47, 96), normal(96, 128)
    result = np.asarray(tg.jit(lambda x, w: x @ w, device=device, precision="bf16-products")(x, w))
    np.testing.assert_allclose(result, x.astype(np.float64) @ w, rtol=0, atol=1e-4)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", PRODUCTS)
def test_pairs_are_multiplied_at_once_where_the_cpu_can(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, _, factors = PRODUCTS[name]
    arguments = ARGUMENTS.get(name, factors)
    jitted = tg.jit(function, device="cpu", precision="bf16-products")
    jitted(*arguments)
    assert any(DOT in kernel.code for kernel in jitted.program.kernels) is CpuDevice().target.bf16_dot
    monkeypatch.setattr(CpuDevice(), "target", replace(CpuDevice().target, bf16_dot=False))
    plain = tg.jit(function, device="cpu", precision="bf16-products")
    plain(*arguments)
    assert not any(DOT in kernel.code for kernel in plain.program.kernels)


def test_code_for_another_cpu_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    host = compiler.host_cpu()
    without = replace(host, features=f"{host.features},-avx512bf16")
    monkeypatch.setattr(compiler, "host_cpu", lambda: without)
    text = f"declare <16 x float> @{DOT}.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)"
    with pytest.raises(RuntimeError, match="it uses AVX512-BF16, which this CPU lacks"):
        compiler.object_of(text)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(
    ("precision", "device"), [("bf16", "numpy"), ("bf16", "cpu"), *(("bf16-products", name) for name in DEVICES)]
)
def test_training_reaches_the_loss_of_f32(precision: Any, device: tg.DeviceName) -> None:
    x, y = normal(64, 64), normal(64, 10, seed=1)

    def losses(**options: Any) -> list[float]:
        training = perceptron(device, **options)
        return [float(training.step(x=x, y=y)) for _ in range(20)]

    expected, actual = losses(), losses(precision=precision)
    assert actual != expected
    np.testing.assert_allclose(actual, expected, rtol=0.02, atol=0.01)


class Images(tg.nn.Module):
    """Convolutions with margins, pooled, that read each other's results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = tg.nn.Conv2d(3, 64, 3, padding=1), tg.nn.Conv2d(64, 64, 3, padding=1, stride=2)
        self.head = tg.nn.Linear(64 * 16, 10)

    def __call__(self, x: Any) -> Any:
        x = tg.relu(self.second(tg.max_pool(tg.relu(self.first(x)), 2)))
        return self.head(x.reshape(-1, 64 * 16))


@pytest.mark.nightly
@pytest.mark.parametrize("precision", ["bf16", "bf16-products"])
def test_convolutions_round_alike_on_all_devices(precision: Any) -> None:
    x, y = normal(16, 3, 16, 16) / 8, normal(16, 10, seed=1)

    def losses(device: tg.DeviceName, **options: Any) -> list[float]:
        options |= {"optimizer": tg.optim.sgd(0.01), "inputs": {"x": x.shape, "y": y.shape}}
        training = compiled(model=Images(), loss=squared_error, device=device, **options)
        return [float(training.step(x=x, y=y)) for _ in range(4)]

    expected = losses("numpy")
    rounded = losses("numpy", precision=precision)
    np.testing.assert_allclose(losses("cpu", precision=precision), rounded, rtol=1e-4)
    np.testing.assert_allclose(rounded, expected, rtol=0.02)
    assert rounded != expected


def test_storing_in_bf16_halves_what_is_stored() -> None:
    stored = [
        perceptron(hidden=256, rows=512, precision=precision).stats()["workspace_bytes"]
        for precision in ("f32", "f16", "bf16")
    ]
    assert stored[2] <= stored[1] < 0.8 * stored[0]


def test_the_compiler_checks_what_it_rounds() -> None:
    perceptron(precision="bf16-products", verify=True)
    perceptron(precision="bf16", verify=True)


def test_numbers_of_bf16_are_compared_as_floats() -> None:
    """NumPy takes them for none, and a tolerance of integers would be nothing or no bound at all."""
    wide = normal(100).astype(np.float64)
    allowed = tolerance.slack(wide.astype(bfloat16), wide, tolerance.SHORT["bfloat16"])
    assert 2.0**-9 < allowed < 1


def test_bad_options_are_refused_by_name() -> None:
    with pytest.raises(tg.errors.OptionError, match='precision="bf16" stores 16 bits at a time'):
        perceptron("wgpu", precision="bf16")
    with pytest.raises(tg.errors.ProgramError, match="has elements of bf16, which webgpu-default does not have"):
        perceptron(precision="bf16").program_for("webgpu-default")
    with pytest.raises(tg.errors.OptionError, match='loss_scale is for precision="f16"; with bf16 nothing underflows'):
        perceptron(precision="bf16", loss_scale=8.0)
