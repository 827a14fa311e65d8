"""Ops of old opsets: attributes that became inputs or vanished, defaults and broadcasting that changed.

Expected values are those of the standard's text for each version, written in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from onnx_models import model_of, weights

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.importers.onnx.rules import RULES

Array = np.ndarray[Any, np.dtype[Any]]

X = weights(2, 3, 3, 5)
"""Two of its extents agree, so that an operand on the wrong axis isn't noticed by its shape."""

POSITIVE = np.abs(X) + 0.5


def run(
    op: str, opset: int, inputs: list[Any], attributes: Mapping[str, Any], outputs: int = 1, name: str = "op"
) -> list[Array]:
    """Returns the outputs of a node whose first input is the model's, and whose others are initializers."""
    names = ["x", *(f"i{place}" for place in range(1, len(inputs)))]
    results = [f"y{place}" for place in range(outputs)]
    x = np.asarray(inputs[0])
    others = {key: np.asarray(value) for key, value in zip(names[1:], inputs[1:], strict=True) if value is not None}
    operands = [key if key == "x" or key in others else "" for key in names]
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node(op, operands, results, name=name, **attributes)
    result = tg.onnx.load(model_of([node], {"x": x.shape}, results, others, opset, element))(x)
    return [np.asarray(value) for value in (result if outputs > 1 else [result])]


ALIGNMENTS: list[tuple[str, dict[str, int], tuple[int, ...], tuple[int, ...]]] = [
    ("suffix", {}, (3, 5), (3, 5)),
    ("last", {}, (5,), (5,)),
    ("number", {}, (), ()),
    ("number of axes", {}, (1, 1), (1, 1)),
    ("first", {"axis": 0}, (2,), (2, 1, 1, 1)),
    ("channels", {"axis": 1}, (3,), (3, 1, 1)),
    ("rows", {"axis": 2}, (3,), (3, 1)),
    ("counted from the end", {"axis": -3}, (3, 3), (3, 3, 1)),
    ("planes", {"axis": 1}, (3, 3), (3, 3, 1)),
    ("with an extent of 1", {"axis": 1}, (3, 1, 1), (3, 1, 1)),
]
"""Attributes, the shape of the second operand, and the shape with which NumPy broadcasts it alike."""

ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
COMPARISONS = {"Greater": np.greater, "Less": np.less}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal}


@pytest.mark.parametrize(("attributes", "shape", "aligned"), [entry[1:] for entry in ALIGNMENTS], ids=lambda _: "")
def test_operands_are_aligned(attributes: dict[str, int], shape: tuple[int, ...], aligned: tuple[int, ...]) -> None:
    y = np.abs(weights(*shape, seed=5)) + 0.5
    y = y.astype(np.float32)
    for op, function in {**ARITHMETIC, **COMPARISONS}.items():
        expected = function(POSITIVE, y.reshape(aligned))
        (actual,) = run(op, 6, [POSITIVE, y], {"broadcast": 1, **attributes})
        np.testing.assert_allclose(actual, expected, rtol=1e-5, err_msg=op)
    for op, function in LOGIC.items():
        (actual,) = run(op, 6, [X > 0, y > 1], {"broadcast": 1, **attributes})
        np.testing.assert_array_equal(actual, function(X > 0, (y > 1).reshape(aligned)), err_msg=op)


@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS])
def test_operands_that_are_not_broadcast(op: str) -> None:
    expected = {**ARITHMETIC, **COMPARISONS}[op](POSITIVE, POSITIVE)
    np.testing.assert_allclose(run(op, 6, [POSITIVE, POSITIVE], {})[0], expected, rtol=1e-6)
    with pytest.raises(OptionError, match=f"{op}: before version 7 shapes as .* need the attribute 'broadcast'"):
        run(op, 6, [POSITIVE, np.ones(5, np.float32)], {})
    with pytest.raises(OptionError, match=rf"{op}: the shape \(5,\) is no part of \(2, 3, 3, 5\) at axis 1"):
        run(op, 6, [POSITIVE, np.ones(5, np.float32)], {"broadcast": 1, "axis": 1})


def _softmax(x: Array, axes: tuple[int, ...]) -> Array:
    shares = np.exp(x - x.max(axes, keepdims=True))
    return shares / shares.sum(axes, keepdims=True)


def _standard(x: Array, *vectors: Array) -> Array:
    scale, bias, mean, variance = vectors
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


C = weights(3, seed=1)
VECTORS = [weights(3, seed=seed) for seed in (1, 2, 3)] + [np.abs(weights(3, seed=4)) + 0.5]
PLANES = [weights(3, 3, 5, seed=seed) for seed in (1, 2, 3)] + [np.abs(weights(3, 3, 5, seed=4)) + 0.5]
COLUMNS = [part.reshape(3, 1, 1) for part in VECTORS]
PLANE = X[0, 0]
SQUARE = PLANE[:, :3]
MATRIX, OTHER, TERM = weights(3, 3, seed=1), weights(3, 3, seed=2), weights(3, seed=3)

CASES: list[tuple[str, int, list[Any], dict[str, Any], Any]] = [
    ("PRelu", 6, [X, C], {}, np.where(X < 0, X * C.reshape(3, 1, 1), X)),
    ("PRelu", 1, [X, C[:1]], {"consumed_inputs": [0, 0]}, np.where(X < 0, X * C[0], X)),
    ("PRelu", 7, [X, C.reshape(3, 1)], {}, np.where(X < 0, X * C.reshape(3, 1), X)),
    ("PRelu", 6, [SQUARE[0], C], {}, np.where(SQUARE[0] < 0, SQUARE[0] * C, SQUARE[0])),
    ("Gemm", 6, [MATRIX, OTHER, TERM], {"broadcast": 1}, MATRIX @ OTHER + TERM),
    ("Gemm", 6, [MATRIX, OTHER, SQUARE], {"alpha": 2.0, "beta": 3.0, "transB": 1},
        2 * MATRIX @ OTHER.T + 3 * SQUARE),
    ("Gemm", 7, [MATRIX, OTHER, TERM], {}, MATRIX @ OTHER + TERM),
    ("BatchNormalization", 6, [X, *VECTORS], {"is_test": 1}, _standard(X, *COLUMNS)),
    ("BatchNormalization", 1, [X, *VECTORS], {"is_test": 1, "consumed_inputs": [0] * 5},
        _standard(X, *COLUMNS)),
    ("BatchNormalization", 7, [X, *PLANES], {"spatial": 0}, _standard(X, *PLANES)),
    ("BatchNormalization", 7, [X, *VECTORS], {}, _standard(X, *COLUMNS)),
    ("Clip", 1, [X], {"min": -0.1, "max": 0.2, "consumed_inputs": [0]}, np.clip(X, -0.1, 0.2)),
    ("Clip", 6, [X], {"max": 0.2}, np.minimum(X, 0.2)),
    ("Clip", 11, [X, None, np.float32(0.2)], {}, np.minimum(X, 0.2)),
    ("Cast", 1, [X], {"to": "INT32"}, X.astype(np.int32)),
    ("Cast", 5, [(X > 0)], {"to": "FLOAT"}, (X > 0).astype(np.float32)),
    ("Concat", 1, [X, X], {}, np.concatenate([X, X], 1)),
    ("Concat", 4, [X, X], {"axis": -1}, np.concatenate([X, X], -1)),
    ("Dropout", 6, [X], {"is_test": 1, "ratio": 0.5}, X),
    ("Dropout", 7, [X], {"ratio": 0.5}, X),
    ("Elu", 1, [X], {"alpha": 2.0, "consumed_inputs": [0]}, np.where(X > 0, X, 2 * np.expm1(X))),
    ("Flatten", 1, [X], {}, X.reshape(2, 45)),
    ("Flatten", 9, [X], {"axis": 0}, X.reshape(1, 90)),
    ("Flatten", 11, [X], {"axis": -1}, X.reshape(18, 5)),
    ("GlobalLpPool", 1, [X], {"p": 2.0}, np.sqrt((X**2).sum((2, 3), keepdims=True))),
    ("LpPool", 1, [X], {"p": 2.0, "kernel_shape": [3, 5]}, np.sqrt((X**2).sum((2, 3), keepdims=True))),
    ("HardSigmoid", 1, [X], {"consumed_inputs": [0]}, np.clip(0.2 * X + 0.5, 0, 1)),
    ("LeakyRelu", 1, [X], {"consumed_inputs": [0]}, np.where(X < 0, 0.01 * X, X)),
    ("Pad", 1, [PLANE], {"paddings": [1, 0, 0, 2], "value": 7.0},
        np.pad(PLANE, ((1, 0), (0, 2)), constant_values=7)),
    ("Pad", 2, [PLANE], {"pads": [1, 0, 0, 2], "mode": "reflect"}, np.pad(PLANE, ((1, 0), (0, 2)), "reflect")),
    ("Pad", 11, [PLANE, np.array([1, 0, 0, -2]), np.float32(7)], {},
        np.pad(PLANE, ((1, 0), (0, 0)), constant_values=7)[:, :3]),
    ("Reshape", 1, [X], {"shape": [0, -1], "consumed_inputs": [0]}, X.reshape(2, 45)),
    ("Reshape", 5, [X, np.array([0, -1])], {}, X.reshape(2, 45)),
    ("ReduceSum", 1, [X], {"axes": [1, 2], "keepdims": 0}, X.sum((1, 2))),
    ("ReduceSum", 13, [X, np.array([1, -2])], {}, X.sum((1, 2), keepdims=True)),
    ("ReduceMax", 1, [X], {}, X.max(keepdims=True)),
    ("ReduceMax", 18, [X, np.array([1])], {"keepdims": 0}, X.max(1)),
    ("Slice", 1, [X], {"starts": [1, -2], "ends": [2**63 - 1, -1], "axes": [2, 3]}, X[:, :, 1:, -2:-1]),
    ("Slice", 10, [X, np.array([4]), np.array([-(2**63)]), np.array([-1]), np.array([-2])], {}, X[..., ::-2]),
    ("Softmax", 1, [X], {}, _softmax(X, (1, 2, 3))),
    ("Softmax", 11, [X], {"axis": -2}, _softmax(X, (2, 3))),
    ("Softmax", 13, [X], {}, _softmax(X, (3,))),
    ("Softmax", 13, [X], {"axis": 1}, _softmax(X, (1,))),
    ("LogSoftmax", 12, [X], {"axis": 2}, np.log(_softmax(X, (2, 3)))),
    ("LogSoftmax", 13, [X], {"axis": 2}, np.log(_softmax(X, (2,)))),
    ("Hardmax", 11, [PLANE], {"axis": 0}, (PLANE.max() == PLANE).astype(np.float32)),
    ("Hardmax", 13, [PLANE], {"axis": 0}, (PLANE.max(0) == PLANE).astype(np.float32)),
    ("Squeeze", 1, [X[:1]], {"axes": [0]}, X[0]),
    ("Squeeze", 13, [X[:1], np.array([-4])], {}, X[0]),
    ("Unsqueeze", 1, [X], {"axes": [0, 5]}, X[None, ..., None]),
    ("Unsqueeze", 13, [X, np.array([-1])], {}, X[..., None]),
    ("Tile", 1, [X, np.int64(2), np.int64(1)], {}, np.tile(X, (1, 2, 1, 1))),
    ("Tile", 6, [X, np.array([1, 2, 1, 1])], {}, np.tile(X, (1, 2, 1, 1))),
    ("Upsample", 1, [X], {"height_scale": 2.0, "width_scale": 3.0}, X.repeat(2, 2).repeat(3, 3)),
    ("Upsample", 1, [X], {"height_scale": 1.0, "width_scale": 1.0, "mode": "bilinear"}, X),
    ("Upsample", 7, [X], {"scales": [1.0, 1.0, 2.0, 3.0]}, X.repeat(2, 2).repeat(3, 3)),
    ("Upsample", 9, [X, np.array([1, 1, 2, 3], np.float32)], {}, X.repeat(2, 2).repeat(3, 3)),
    ("Resize", 10, [X, np.array([1, 1, 2, 3], np.float32)], {}, X.repeat(2, 2).repeat(3, 3)),
    ("LRN", 1, [X], {"size": 1, "alpha": 1.0, "beta": 1.0}, X / (1 + X**2)),
    ("InstanceNormalization", 1, [X, *VECTORS[:2]], {"consumed_inputs": [0] * 3},
        _standard(X, *COLUMNS[:2], X.mean((2, 3), keepdims=True), X.var((2, 3), keepdims=True))),
    ("AveragePool", 1, [X], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}, None),
]  # fmt: skip


def _corner_average(x: Array) -> float:
    """The first window of a padded pooling holds one element; version 1 doesn't count the padding."""
    return float(x[0, 0, 0, 0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_versions(case: tuple[str, int, list[Any], dict[str, Any], Any]) -> None:
    op, opset, inputs, attributes, expected = case
    (actual,) = run(op, opset, inputs, attributes)
    if expected is None:
        assert math.isclose(actual[0, 0, 0, 0], _corner_average(X), rel_tol=1e-6)
        return
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-6)


def test_the_numbers_of_selu() -> None:
    for opset, gamma in ((1, 1.0507), (6, 1.05070102214813)):
        np.testing.assert_allclose(run("Selu", opset, [POSITIVE], {})[0] / POSITIVE, gamma, rtol=4e-7)


def test_interpolation_of_version_1() -> None:
    (interpolated,) = run("Upsample", 1, [X], {"height_scale": 1.0, "width_scale": 2.0, "mode": "bilinear"})
    np.testing.assert_allclose(interpolated[..., 1:-1:2], (X[..., 1:] + X[..., :-1]) / 2, rtol=1e-5, atol=1e-6)


def test_parts() -> None:
    """Where the sizes of a split come from, and which equal parts there are without them."""
    x = PLANE
    for opset, inputs, attributes in (
        (1, [x, np.array([1, 2])], {"axis": 0}),
        (2, [x], {"split": [1, 2]}),
        (13, [x, np.array([1, 2])], {}),
        (18, [x, np.array([1, 2])], {}),
    ):
        for actual, expected in zip(run("Split", opset, inputs, attributes, 2), (x[:1], x[1:]), strict=True):
            np.testing.assert_array_equal(actual, expected)
    for actual, expected in zip(run("Split", 2, [X], {"axis": 0}, 2), X, strict=True):
        np.testing.assert_array_equal(actual[0], expected)


def test_largest() -> None:
    x = PLANE
    for opset, inputs, attributes in ((1, [x], {"k": 2}), (10, [x, np.array([2])], {}), (11, [x, np.array([2])], {})):
        values, places = run("TopK", opset, inputs, attributes, 2)
        np.testing.assert_array_equal(values, -np.sort(-x)[:, :2])
        np.testing.assert_array_equal(places, np.argsort(-x)[:, :2])


@pytest.mark.parametrize(("opset", "dtype"), [(6, np.float32), (7, np.float32), (10, np.bool_)])
def test_masks_of_dropout(opset: int, dtype: Any) -> None:
    _, mask = run("Dropout", opset, [X], {"is_test": 1} if opset < 7 else {}, 2)
    assert mask.dtype == dtype
    np.testing.assert_array_equal(mask, np.ones(X.shape, dtype))


def test_the_old_recurrence_has_its_outputs() -> None:
    inputs = [weights(4, 2, 3), weights(1, 5, 3), weights(1, 5, 5)]
    old, new = (
        run("RNN", opset, inputs, {"hidden_size": 5, **more}, 2)
        for opset, more in ((1, {"output_sequence": 1}), (14, {}))
    )
    for actual, expected in zip(old, new, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attributes", "outputs", "message"),
    [
        ("Gemm", 6, [MATRIX, OTHER, TERM], {}, 1, r"a term of shape \(3,\) needs the attribute 'broadcast'"),
        ("BatchNormalization", 6, [X, *VECTORS], {}, 1, "before version 7, only with is_test = 1"),
        ("BatchNormalization", 7, [X, *VECTORS], {}, 5, "before version 14, only with one output"),
        ("Dropout", 6, [X], {}, 1, "before version 7, only with is_test = 1"),
        ("Cast", 1, [X], {"to": "STRING"}, 1, "there are no tensors of STRING"),
    ],
)  # fmt: skip
def test_what_is_refused(
    op: str, opset: int, inputs: list[Any], attributes: dict[str, Any], outputs: int, message: str
) -> None:
    with pytest.raises(OptionError, match=f"{op}.*{message}"):
        run(op, opset, inputs, attributes, outputs)


def test_the_attributes_of_all_versions_are_known() -> None:
    """No version of an op has an attribute that the table doesn't list: it would be refused, or ignored."""
    refused = {"sparse_value", "value_string", "value_strings"}
    for schema in defs.get_all_schemas_with_history():
        entry = RULES.get((schema.domain, schema.name))
        if entry is not None:
            missing = set(schema.attributes) - set(entry.attributes) - {"consumed_inputs"}
            assert missing <= refused, f"{schema.name} {schema.since_version}: {missing}"


def test_all_versions_have_their_defaults() -> None:
    """The defaults that changed are those that the rules know of."""
    defaults: dict[tuple[str, str], set[str]] = {}
    for schema in defs.get_all_schemas_with_history():
        if (schema.domain, schema.name) in RULES:
            for name, attribute in schema.attributes.items():
                if attribute.default_value.type != TensorProto.UNDEFINED:
                    value = helper.get_attribute_value(attribute.default_value)
                    defaults.setdefault((schema.name, name), set()).add(str(value))
    changed = {key for key, values in defaults.items() if len(values) > 1}
    assert changed == {
        ("GRU", "direction"),  # a misspelling
        ("GlobalLpPool", "p"),
        ("GridSample", "mode"),
        ("Hardmax", "axis"),
        ("LogSoftmax", "axis"),
        ("LpPool", "p"),
        ("Selu", "alpha"),
        ("Selu", "gamma"),
        ("Softmax", "axis"),
    }
