"""The tables of docs/reference/drivers.md: NaN, infinity and rounding on devices, and the cost of preserving them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_programs import on_device
from harness import NumpyArray, as_native_code, reference, traced

import tensorgrad as tg
from benchmarks.workloads import workload
from tensorgrad.passes.codegen.wgsl import keep_ieee
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tensor import Tensor

DOCS = Path(__file__).resolve().parents[2] / "docs/reference/drivers.md"
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 0.3, 3e38, -3e38, 1e20, 1e-20)


def rows(heading: str) -> list[tuple[str, NumpyArray, str, str]]:
    """Returns the rows of the table with this heading in its last column: expression, x, y, and both results."""
    table = DOCS.read_text().split(f"| {heading} |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [(c[0].strip("`"), np.array([float(v) for v in c[1].split(",")], np.float32), c[2], c[3]) for c in cells]


def function_of(expression: str) -> Any:
    def function(x: Tensor, y: Tensor) -> Any:
        return eval(expression, {"tg": tg, "x": x, "y": y})

    return function


def assert_bits(actual: NumpyArray, text: str) -> None:
    """Checks that a result is the given number, including the sign of zero; any NaN equals NaN."""
    expected = np.full(actual.shape, np.float32(text))
    np.testing.assert_array_equal(actual, expected)
    assert np.isnan(expected).all() or (np.signbit(actual) == np.signbit(expected)).all()


KEPT, LEFT = rows("devices"), rows("lavapipe")


@pytest.mark.parametrize(("expression", "at", "ieee", "device_bits"), KEPT, ids=lambda part: str(part))
def test_what_is_kept(expression: str, at: NumpyArray, ieee: str, device_bits: str, device: WebGPUDevice) -> None:
    assert ieee == device_bits
    inputs = [at[:1], at[1:]]
    assert_bits(reference(traced(function_of(expression), inputs), inputs)[0], ieee)
    assert_bits(on_device(device, traced(function_of(expression), inputs), inputs)[0], device_bits)


@pytest.mark.parametrize(("expression", "at", "ieee", "device_bits"), LEFT, ids=lambda part: str(part))
def test_what_is_left(expression: str, at: NumpyArray, ieee: str, device_bits: str, device: WebGPUDevice) -> None:
    assert ieee != device_bits
    inputs = [at[:1], at[1:]]
    assert_bits(reference(traced(function_of(expression), inputs), inputs)[0], ieee)
    actual = on_device(device, traced(function_of(expression), inputs), inputs)[0]
    if "llvmpipe" in device.info.name:
        assert_bits(actual, device_bits)
    else:  # another driver may keep the value
        assert any(np.array_equal(actual, [np.float32(text)], equal_nan=True) for text in (ieee, device_bits))


@pytest.mark.parametrize("expression", dict.fromkeys(expression for expression, *_ in KEPT))
def test_every_pair_of_special_numbers(expression: str, device: WebGPUDevice) -> None:
    if "mean" in expression:
        expression = "x * 0"  # of one number
    x, y = (np.ascontiguousarray(v, np.float32) for v in np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1))
    expected = reference(traced(function_of(expression), [x, y]), [x, y])[0]
    actual = on_device(device, traced(function_of(expression), [x, y]), [x, y])[0]
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(expected))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-37)


def test_halves_keep_it_too(device: WebGPUDevice) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 6e4], np.float16)
    for expression in ("x * 0", "x - x", "0 / x", "x / 0.0"):
        module = traced(lambda x, e=expression: tg.cast(function_of(e)(x, x), "f32"), [x])
        np.testing.assert_array_equal(on_device(device, module.clone(), [x])[0], reference(module, [x])[0], expression)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["convnet", "mlp", "gpt"])
def test_ordinary_steps_are_as_they_were(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ops: list[Any] = []
    monkeypatch.setattr(keep_ieee, "keep", lambda op, rewrite: ops.append(op))
    training, _ = workload(name)("numpy")
    training.program_for("lavapipe")
    assert ops == []


def test_a_nan_loss_is_seen(device: WebGPUDevice) -> None:
    """A constant mask removes no NaN from a loss or its gradient."""

    def loss(x: Tensor) -> Tensor:
        return tg.sum(tg.exp(x) * np.array([0.0, 1.0, 0.0], np.float32)) * 0.0

    x = np.array([1.0, np.nan, 1.0], np.float32)
    value, gradient = on_device(device, traced(tg.value_and_grad(loss), [x]), [x])
    assert np.isnan(value)
    assert np.isnan(gradient[1])


def test_a_value_is_the_same_wherever_native_code_computes_it() -> None:
    """A mean of equal elements is each of them, although one loop adds them and another one reads them again.

    They are what `1 + x * y` leaves near 0, where a product that isn't rounded before it is added is another.
    """

    def apart(x: Tensor, y: Tensor) -> Tensor:
        product = x * y
        near = 1.0 + product
        return tg.where(product < -2.0, product, near - 0.5 * tg.sum(near, axis=1, keepdims=True))

    x = np.random.default_rng(0).uniform(1, 2, (59, 1)).astype(np.float32) * np.ones((1, 2), np.float32)
    y = (-1 / x).astype(np.float32)
    assert np.any(1 + x * y)
    np.testing.assert_array_equal(as_native_code(traced(apart, [x, y]), [x, y])[0], 0)
