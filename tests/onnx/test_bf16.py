"""bf16 in ONNX files: computed in f32 and rounded, in ONNX's evaluator, in ONNX Runtime and read again here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from case import Case
from cases import by_turns
from exported import in_evaluator, session
from halves import BF16, IN_BF16, halved
from harness import reference, traced
from onnx_models import model_of
from onnxruntime import OrtValue
from save_exceptions import EVALUATOR

import tensorgrad as tg


class Products(tg.nn.Module):
    """Products of bf16, one with a mask and one that is broadcast, which ONNX Runtime takes in f32 alone."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tg.nn.param((4, 6), tg.initializers.normal(1.0), "bf16")

    def __call__(self, x: Any) -> Any:
        y = tg.where(x > 0, x, x[:1]) @ self.w
        return tg.concat([tg.tanh(y), y[::-1]], 0)


@pytest.mark.parametrize("case", by_turns([case for case in IN_BF16 if case.id not in EVALUATOR], 400, 2))
def test_value(case: Case) -> None:
    inputs = halved(case, BF16)
    module = traced(case.function, inputs)
    expected, actual = reference(module, inputs)[0], in_evaluator(module, inputs)[0]
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=2.0**-7)


def test_a_model_is_computed_elsewhere_and_read_again(tmp_path: Path) -> None:
    model, path = Products().initialized(0), tmp_path / "model.onnx"
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(tg.bf16)
    expected = np.asarray(model(tg.array(x)))
    tg.onnx.save(model, path, {"x": tg.spec(x.shape, tg.bf16)})
    given = OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
    result = session(path).run_with_ort_values(None, {"x": given})[0]
    assert result.element_type() == onnx.TensorProto.BFLOAT16
    again = tg.onnx.load(path)
    assert {parameter.dtype for parameter in again.named_parameters().values()} == {expected.dtype}
    actual = np.asarray(again(tg.array(x)))
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual.astype(float), expected.astype(float), rtol=2.0**-7)


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_statistics_are_of_f32(op: str) -> None:
    """As `stash_type` says: the mean of these is 259, which bf16 doesn't have."""
    weight = {"weight": np.ones(4, tg.bf16)}
    node = onnx.helper.make_node(op, ["x", "weight"], ["y"])
    model = model_of([node], {"x": [1, 4]}, ["y"], weight, opset=23, element=onnx.TensorProto.BFLOAT16)
    values = np.array([[256, 258, 260, 262]], np.float32)
    wide = values - values.mean() if op == "LayerNormalization" else values
    expected = wide / np.sqrt(np.mean(wide**2) + 1e-5)
    result = np.asarray(tg.onnx.load(model).initialized()(values.astype(tg.bf16)))
    np.testing.assert_array_equal(result, expected.astype(tg.bf16))
