"""Pooling that is written as ONNX's own ops: the ops of the file, and its results in both runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exported import computed
from onnx.reference import ReferenceEvaluator

import tensorgrad as tg

MAX = ["MaxPool", "IsNaN", "Cast", "MaxPool", "Cast", "Where"]
"""A maximum, and that of whether elements are NaN: ONNX doesn't say what the maximum of a NaN is."""

IMAGES, WIDE = (2, 3, 8, 6), {"count_padding": False}
POOLS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], list[str]]] = {
    "max": (lambda x: tg.max_pool(x, 2), IMAGES, MAX),
    "max of overlapping windows": (lambda x: tg.max_pool(x, (3, 2), (2, 1), 1), IMAGES, MAX),
    "max with holes": (lambda x: tg.max_pool(x, 2, 1, 0, 2), IMAGES, MAX),
    "max of lines": (lambda x: tg.max_pool(x, 3, 2), (2, 3, 9), MAX),
    "max of volumes": (lambda x: tg.max_pool(x, 2), (1, 2, 4, 4, 6), MAX),
    "max adapted": (lambda x: tg.adaptive_max_pool(x, (4, 3)), IMAGES, MAX),
    "max without channels": (lambda x: tg.max_pool(x, [2]), (8,), [*MAX, *["Reshape"] * 4]),
    "mean": (lambda x: tg.avg_pool(x, 2), IMAGES, ["AveragePool"]),
    "mean with padding": (lambda x: tg.avg_pool(x, 3, 2, 1), IMAGES, ["AveragePool"]),
    "mean without padding": (lambda x: tg.avg_pool(x, 3, 2, 1, **WIDE), IMAGES, ["AveragePool"]),
    "mean of partial windows": (lambda x: tg.avg_pool(x, 3, 2, 0, True, **WIDE), IMAGES, ["AveragePool"]),
    "mean adapted": (lambda x: tg.adaptive_avg_pool(x, (4, 2)), IMAGES, ["AveragePool"]),
    "mean of planes": (lambda x: tg.global_avg_pool(x, keepdims=True), IMAGES, ["GlobalAveragePool"]),
    "mean of planes alone": (lambda x: tg.global_avg_pool(x), IMAGES, ["GlobalAveragePool", "Reshape"]),
    "mean of rows": (lambda x: tg.mean(x, -1), IMAGES, ["ReduceSum", "Mul"]),
}


def evaluated(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """Returns the result of a model as ONNX's own evaluator computes it."""
    results: Any = ReferenceEvaluator(model).run(None, {"x": x})
    return np.asarray(results[0])


@pytest.mark.parametrize("name", POOLS)
def test_pooling(name: str, tmp_path: Path) -> None:
    function, shape, ops = POOLS[name]
    tg.onnx.save(function, tmp_path / "pool.onnx", inputs={"x": shape})
    model = onnx.load(tmp_path / "pool.onnx")
    written = [node.op_type for node in model.graph.node if node.op_type != "Identity"]
    assert sorted(written) == sorted(ops)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    if "MaxPool" in ops:  # ONNX's evaluator takes NaN for padding in means
        x.flat[5] = np.nan
    expected = np.asarray(function(x))
    for result in (computed(model, {"x": x})[0], evaluated(model, x)):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_nothing_of_windows_is_stored(tmp_path: Path) -> None:
    """Neither the positions in windows, nor what only a derivative reads."""
    tg.onnx.save(lambda x: tg.max_pool(x, 3, 2, 1), tmp_path / "pool.onnx", inputs={"x": IMAGES})
    arrays = onnx.load(tmp_path / "pool.onnx").graph.initializer
    assert [tuple(array.dims) for array in arrays] == [()]


def test_sums_of_windows_are_exact(tmp_path: Path) -> None:
    """They are no means times a count, which would round those of integers."""
    x = np.random.default_rng(0).integers(0, 4, (1, 2, 21, 21)).astype(np.float32)

    def sums(x: Any) -> Any:
        return tg.avg_pool(x, 7, 1, divisor_override=1)

    tg.onnx.save(sums, tmp_path / "sums.onnx", inputs={"x": x.shape})
    np.testing.assert_array_equal(computed(tmp_path / "sums.onnx", {"x": x})[0], np.asarray(sums(x)))


def test_f16_is_averaged_in_f32(tmp_path: Path) -> None:
    x = np.full((1, 1, 64, 64), 3, np.float16)  # their sum is no f16
    tg.onnx.save(lambda x: tg.avg_pool(x, 32), tmp_path / "pool.onnx", inputs={"x": tg.spec(x.shape, "f16")})
    np.testing.assert_array_equal(computed(tmp_path / "pool.onnx", {"x": x})[0], np.full((1, 1, 2, 2), 3, np.float16))


def test_a_derivative_compares_with_the_elements_of_windows(tmp_path: Path) -> None:
    """Also of a window of -inf alone, of which ONNX Runtime's own pooling has another maximum."""

    def slopes(x: Any) -> Any:
        return tg.grad(lambda x: tg.sum(tg.max_pool(x, 2)))(x)

    x = np.array([[[-np.inf, -np.inf, 1, 2]]], np.float32)
    tg.onnx.save(slopes, tmp_path / "slopes.onnx", inputs={"x": x.shape})
    assert "MaxPool" not in {node.op_type for node in onnx.load(tmp_path / "slopes.onnx").graph.node}
    np.testing.assert_array_equal(computed(tmp_path / "slopes.onnx", {"x": x})[0], [[[0.5, 0.5, 0, 1]]])
