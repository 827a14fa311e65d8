"""Attention of bf16 and f16: computed in f32 by one kernel, which reads and writes 16 bits, and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg

LENGTH = 128
MASK = np.random.default_rng(3).random((LENGTH, LENGTH)) > 0.3
FORMS: dict[str, Callable[..., Any]] = {
    "causal": lambda q, k, v: tg.nn.scaled_dot_product_attention(q, k, v, is_causal=True),
    "mask": lambda q, k, v: tg.nn.scaled_dot_product_attention(q, k, v, mask=MASK),
    "shared heads": lambda q, k, v: tg.nn.merge_heads(tg.nn.scaled_dot_product_attention(q, k[:, :2], v[:, :2])),
}


def operands(dtype: Any) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.normal(size=(2, 4, LENGTH, 16)).astype(dtype) for _ in range(3)]


def wide(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [array.astype(np.float32) for array in arrays]


@pytest.mark.in_turns(18, 6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [tg.bf16, np.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_values_and_derivatives_are_those_of_f32(device: tg.DeviceName, dtype: Any, form: str) -> None:
    function, inputs, digits = FORMS[form], operands(dtype), 2.0**-8 if dtype == tg.bf16 else 2.0**-11

    def loss(q: Any, k: Any, v: Any) -> Any:
        return tg.sum(tg.sin(tg.cast(function(q, k, v), "f32")))

    result = np.asarray(tg.jit(function, device=device)(*inputs))
    expected = np.asarray(function(*wide(inputs)))
    assert result.dtype == dtype
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=digits, atol=1e-5)
    gradients = tg.jit(tg.grad(loss, (0, 1, 2)), device=device)(*inputs)
    for own, other in zip(gradients, tg.grad(loss, (0, 1, 2))(*wide(inputs)), strict=True):
        exact = np.asarray(other)
        assert np.asarray(own).dtype == dtype
        np.testing.assert_allclose(np.asarray(own, np.float32), exact, rtol=0, atol=2 * digits * np.abs(exact).max())


def test_native_code_stores_neither_scores_nor_operands_in_f32() -> None:
    """One kernel without a workspace, in half the memory of f32; the derivative too is that of an attention."""
    plans = []
    for dtype in (np.float32, tg.bf16):
        function = tg.jit(FORMS["causal"], device="cpu")
        function(*operands(dtype))
        plans.append((len(function.program.plan), function.program.statistics["peak_bytes"]))
    assert plans[0][0] == plans[1][0] == 1
    assert plans[1][1] == plans[0][1] // 2


def test_queries_of_bf16_beside_values_of_f32_have_scores_of_f32() -> None:
    q, k, _ = operands(tg.bf16)
    v = operands(np.float32)[2]
    result = tg.nn.scaled_dot_product_attention(q, k, v)
    wide_q, wide_k = wide([q, k])
    np.testing.assert_array_equal(result, tg.nn.scaled_dot_product_attention(wide_q, wide_k, v))
