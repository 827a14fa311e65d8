"""Loading ONNX models: parameters, constants, inputs, errors; running, differentiating and training them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import INT64, MLP_WEIGHTS, mlp, mlp_value, model_of, weights

import tensorgrad as tg
from tensorgrad.errors import (
    DTypeError,
    InputError,
    OptionError,
    ParameterError,
    ShapeError,
    TensorgradError,
    TraceError,
)

untyped: Any = tg
"""The package as code without types calls it."""

X = weights(5, 4, seed=7)

STEP = np.array([-2])


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=attributes.pop("name", None), **attributes)


def loaded(op: str, inputs: dict[str, list[int]], opset: int, extra: dict[str, Any] | None = None, **attributes: Any):
    """Returns a model of one node, whose other operands are initializers."""
    proto = model_of([node(op, [*inputs, *(extra or {})], ["y"], **attributes)], inputs, ["y"], extra, opset)
    return tg.onnx.load(proto)


# Parameters


def test_float_initializers_are_parameters_under_their_names():
    model = tg.onnx.load(mlp())
    assert {name: value.shape for name, value in model.named_parameters().items()} == {
        name: value.shape for name, value in MLP_WEIGHTS.items()
    }
    assert [declared.name for declared in model.inputs] == ["x"]
    assert model.inputs[0].shape == ("N", 4)
    assert model.outputs == ("y",)
    assert "weight: f32[8, 4]" in repr(model)


def test_a_call_computes_with_the_values_of_the_file():
    np.testing.assert_allclose(tg.onnx.load(mlp())(X), mlp_value(X), rtol=1e-5)
    np.testing.assert_allclose(tg.onnx.load(mlp())(x=X), mlp_value(X), rtol=1e-5)


def test_training_starts_from_the_file_and_reaches_the_target():
    model = tg.onnx.load(mlp())
    target = weights(5, 3, seed=9)
    training = tg.compile(
        model,
        loss=lambda m, x, y: tg.mse(m(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (5, 4), "y": (5, 3)},
        device="numpy",
    )
    for name, value in training.parameters().items():
        np.testing.assert_array_equal(value, MLP_WEIGHTS[name])
    first = float(training.step(x=X, y=target))
    np.testing.assert_allclose(first, np.mean((mlp_value(X) - target) ** 2), rtol=1e-5)
    last = [float(training.step(x=X, y=target)) for _ in range(300)][-1]
    assert last < 0.05 * first
    forward = training.attach(lambda m, x: m(x), inputs={"x": (5, 4)})
    np.testing.assert_allclose(np.mean((np.asarray(forward(x=X)) - target) ** 2), last, rtol=0.2)


def test_gradients_of_an_initialized_model():
    model = tg.onnx.load(mlp()).initialized()
    gradient = tg.grad(lambda m: tg.sum(m(X) ** 2))(model)
    bias = np.asarray(vars(vars(vars(gradient)["net"])["2"])["bias"])
    np.testing.assert_allclose(bias, 2 * mlp_value(X).sum(0), rtol=1e-4)


def test_the_loaded_model_has_no_values_inside_a_trace():
    model = tg.onnx.load(mlp())
    with pytest.raises(ParameterError, match="has no values"):
        tg.trace(lambda x: model(x), (5, 4))


def test_names_become_paths():
    names = ["onnx::MatMul_3", "/block/w", "a.b", "a", "a.b.c", "forward", "x y", "inputs", "a b"]
    values = {name: np.full(2, i, np.float32) for i, name in enumerate(names)}
    proto = model_of([node("Sum", ["v", *names], ["y"])], {"v": [2]}, ["y"], values)
    model = tg.onnx.load(proto)
    paths = list(model.named_parameters())
    assert len(paths) == len(names)
    assert {"onnx__MatMul_3", "block.w", "a.b_", "a_", "a.b.c", "x_y", "inputs_", "a_b"} < set(paths)
    np.testing.assert_array_equal(model(np.zeros(2)), np.full(2, sum(range(len(names)))))


def test_what_is_measured_or_looked_at_is_no_parameter():
    statistics = {name: np.ones(3, np.float32) for name in ("scale", "bias", "mean", "var")}
    proto = model_of(
        [
            node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["n"]),
            node("Resize", ["n", "", "factors"], ["y"]),
        ],
        {"x": [1, 3, 2, 2]},
        ["y"],
        {**statistics, "factors": np.array([1, 1, 2, 2], np.float32)},
    )
    model = tg.onnx.load(proto)
    assert list(model.named_parameters()) == ["scale", "bias"]
    assert model(np.ones((1, 3, 2, 2), np.float32)).shape == (1, 3, 4, 4)
    assert list(tg.onnx.load(proto, frozen=["sc*"]).named_parameters()) == ["bias"]


def test_initializers_that_are_inputs_too_are_parameters():
    proto = mlp()
    proto.graph.input.append(helper.make_tensor_value_info("net.0.bias", TensorProto.FLOAT, [8]))
    assert [declared.name for declared in tg.onnx.load(proto).inputs] == ["x"]


def test_files_and_external_data(tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save(mlp(), path)
    np.testing.assert_allclose(tg.onnx.load(path)(X), mlp_value(X), rtol=1e-5)
    onnx.save(mlp(), path, save_as_external_data=True, size_threshold=0, location="weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size > 0
    np.testing.assert_allclose(tg.onnx.load(str(path))(X), mlp_value(X), rtol=1e-5)


def test_functions_of_the_model_are_inlined():
    double = helper.make_function(
        "custom", "Double", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 22)]
    )
    proto = model_of(
        [helper.make_node("Double", ["x"], ["y"], domain="custom")],
        {"x": [2]},
        ["y"],
        functions=[double],
        opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid("custom", 1)],
    )
    np.testing.assert_array_equal(tg.onnx.load(proto)(np.array([1, 2], np.float32)), [2, 4])


# Inputs


def test_inputs_are_checked():
    model = tg.onnx.load(mlp(5))
    for call, message in (
        (lambda: model(), "missing inputs: x"),
        (lambda: model(X, X), "2 inputs are given"),
        (lambda: model(z=X), "'z' is unknown"),
        (lambda: model(X, x=X), "given twice"),
        (lambda: model(X[:3]), r"shape \(3, 4\), expected \(5, 4\)"),
        (lambda: model(X > 0), "is bool, expected FLOAT"),
        (lambda: model("text"), "expected FLOAT"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_named_extents_agree():
    proto = model_of([node("Add", ["a", "b"], ["y"])], {"a": ["N", 1], "b": ["N", 3]}, ["y"])
    model = tg.onnx.load(proto)
    assert model(np.ones((2, 1)), np.ones((2, 3))).shape == (2, 3)
    with pytest.raises(InputError, match=r"'b' has shape \(3, 3\), expected \(N, 3\)"):
        model(np.ones((2, 1)), np.ones((3, 3)))


def test_inputs_that_decide_what_is_traced():
    shape = helper.make_tensor_value_info("shape", INT64, [2])
    proto = model_of([node("Reshape", ["x", "shape"], ["y"])], {"x": [6]}, ["y"])
    proto.graph.input.append(shape)
    assert tg.onnx.constant_inputs(proto) == ("shape",)
    model = tg.onnx.load(proto, constants={"shape": [2, -1]})
    assert [declared.name for declared in model.inputs] == ["x"]
    assert model(np.arange(6, dtype=np.float32)).shape == (2, 3)
    with pytest.raises(InputError, match="no inputs other"):
        tg.onnx.load(proto, constants={"other": [1]})
    with pytest.raises(InputError, match="expected int64"):
        tg.onnx.load(proto, constants={"shape": [0.5, 2.0]})
    free = tg.onnx.load(proto)
    with pytest.raises(TraceError, match=r"input 1 decides what is traced.*Reshape 'y'"):
        tg.trace(lambda x, shape: free(x, shape), (6,), tg.spec(2, "i32"))


def test_extents_that_are_not_numbers():
    """Placeholders that exporters write for any extent; other names agree."""
    proto = model_of([node("Add", ["a", "b"], ["y"])], {"a": [-1, 3], "b": [0, "?"]}, ["y"])
    model = tg.onnx.load(proto)
    assert [declared.shape for declared in model.inputs] == [(None, 3), (None, None)]
    assert model(np.ones((2, 3)), np.ones((1, 3))).shape == (2, 3)
    with pytest.raises(InputError, match=r"'a' has shape \(2, 2\), expected \(None, 3\)"):
        model(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize("on_disk", [False, True])
def test_values_without_a_shape(on_disk: bool, tmp_path: Path):
    """Inputs and outputs of unknown rank, which the library's checker refuses, also in sequences."""
    proto = model_of([node("Relu", ["x"], ["y"])], {"x": ["n"]}, ["y"])
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    model = tg.onnx.load(_saved(proto, tmp_path) if on_disk else proto)
    assert model.inputs[0].shape is None
    for shape in ((), (2,), (2, 3)):
        x = weights(*shape)
        np.testing.assert_array_equal(model(x), np.maximum(x, 0))
    assert not proto.graph.input[0].type.tensor_type.HasField("shape")
    listed = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    graph = helper.make_graph([node("ConcatFromSequence", ["s"], ["y"], axis=0)], "g", [listed], proto.graph.output)
    joined = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = tg.onnx.load(_saved(joined, tmp_path) if on_disk else joined)([np.ones(2), np.zeros(3)])
    np.testing.assert_array_equal(result, [1, 1, 0, 0, 0])


def _saved(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


def test_several_outputs_are_a_tuple():
    proto = model_of([node("Split", ["x"], ["a", "b"], num_outputs=2)], {"x": [4]}, ["b", "a"])
    b, a = tg.onnx.load(proto)(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(a, [0, 1])
    np.testing.assert_array_equal(b, [2, 3])


# Element types


def test_integers_narrow_when_they_fit():
    proto = model_of([node("Add", ["x", "c"], ["y"])], {"x": [1]}, ["y"], {"c": np.array([5])}, element=INT64)
    result = tg.onnx.load(proto)(np.array([2**31 - 10]))
    assert result.dtype == np.int32
    with pytest.raises(InputError, match="outside of i32"):
        tg.onnx.load(proto)(np.array([2**31]))
    proto = model_of([node("Add", ["x", "c"], ["y"])], {"x": [1]}, ["y"], {"c": np.array([2**40])}, element=INT64)
    with pytest.raises(DTypeError, match="Add"):
        tg.onnx.load(proto)(np.array([1]))


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (TensorProto.UINT8, np.uint8),
        (TensorProto.INT8, np.int8),
        (TensorProto.UINT16, np.uint16),
        (TensorProto.INT16, np.int16),
    ],
)
def test_narrow_integers_wrap_as_theirs_do(element: int, dtype: Any):
    x = np.array([100, 127, 3], dtype)
    proto = model_of(
        [node("Add", ["x", "x"], ["s"]), node("Mul", ["s", "x"], ["y"])], {"x": [3]}, ["y"], element=element
    )
    with np.errstate(over="ignore"):
        expected = (x + x) * x
    actual = tg.onnx.load(proto)(x)
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual, expected)


def test_double_rounds_or_stays():
    proto = model_of([node("Exp", ["x"], ["y"])], {"x": [1]}, ["y"], element=TensorProto.DOUBLE)
    assert tg.onnx.load(proto)(np.array([0.1])).dtype == np.float32
    result = tg.onnx.load(proto, float64=True)(np.array([0.1]))
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, np.exp(0.1), rtol=1e-15)


# Versions of the opset


@pytest.mark.parametrize(
    ("op", "shape", "opset", "extra", "attributes", "result"),
    [
        ("Squeeze", [1, 3], 11, {}, {"axes": [0]}, (3,)),
        ("Squeeze", [1, 3], 13, {"axes": np.array([0])}, {}, (3,)),
        ("Unsqueeze", [3], 11, {}, {"axes": [0, 2]}, (1, 3, 1)),
        ("Unsqueeze", [3], 13, {"axes": np.array([0, -1])}, {}, (1, 3, 1)),
        ("ReduceSum", [2, 3], 11, {}, {"axes": [1], "keepdims": 0}, (2,)),
        ("ReduceSum", [2, 3], 13, {"axes": np.array([1])}, {"keepdims": 0}, (2,)),
        ("ReduceMax", [2, 3], 13, {}, {"axes": [0]}, (1, 3)),
        ("ReduceMax", [2, 3], 18, {"axes": np.array([0])}, {}, (1, 3)),
        ("ReduceMean", [2, 3], 18, {}, {"noop_with_empty_axes": 1}, (2, 3)),
        ("Pad", [2], 2, {}, {"pads": [1, 2]}, (5,)),
        ("Pad", [2], 13, {"pads": np.array([1, 2])}, {}, (5,)),
        ("Slice", [5], 9, {}, {"starts": [1], "ends": [4]}, (3,)),
        ("Slice", [5], 13, {"s": np.array([-1]), "e": np.array([-(2**60)]), "a": np.array([0]), "p": STEP}, {}, (3,)),
        ("Upsample", [1, 1, 2], 7, {}, {"scales": [1.0, 1.0, 2.0]}, (1, 1, 4)),
        ("Resize", [1, 1, 2], 10, {"scales": np.array([1, 1, 2], np.float32)}, {}, (1, 1, 4)),
        ("Softmax", [2, 3, 4], 11, {}, {"axis": 1}, (2, 3, 4)),
        ("TopK", [4], 10, {"k": np.array([2])}, {}, None),
        ("Reshape", [2, 3], 13, {"shape": np.array([0, -1, 1])}, {}, (2, 3, 1)),
    ],
)  # fmt: skip
def test_operands_that_were_attributes_once(
    op: str, shape: list[int], opset: int, extra: dict[str, Any], attributes: Any, result: tuple[int, ...] | None
):
    outputs = ["y"] if result is not None else ["y", "i"]
    proto = model_of([node(op, ["x", *extra], outputs, **attributes)], {"x": shape}, ["y"], extra, opset)
    x = weights(*shape)
    value = np.asarray(tg.onnx.load(proto)(x))
    assert value.shape == (result or (2,))
    if op == "Softmax":
        np.testing.assert_allclose(value.sum((1, 2)), 1, rtol=1e-6)


def test_clip_of_old_and_new():
    x = np.array([-2, 0.5, 2], np.float32)
    np.testing.assert_array_equal(loaded("Clip", {"x": [3]}, 6, min=-1.0, max=1.0)(x), [-1, 0.5, 1])
    low = {"low": np.array(-1, np.float32)}
    np.testing.assert_array_equal(loaded("Clip", {"x": [3]}, 13, low)(x), [-1, 0.5, 2])


# Errors


def test_everything_that_is_missing_is_listed_at_once():
    proto = model_of(
        [
            node("NonMaxSuppression", ["x", "x"], ["a"], name="first"),
            node("QuantizeLinear", ["x", "x"], ["b"], name="second", precision=TensorProto.FLOAT16),
            node("Cast", ["x"], ["c"], name="third", to=TensorProto.FLOAT8E4M3FN),
            node("StringNormalizer", ["x"], ["d"]),
        ],
        {"x": [1, 1, 1]},
        ["a", "b", "c", "d"],
        opset=23,
    )
    with pytest.raises(OptionError) as caught:
        tg.onnx.load(proto)
    text = str(caught.value)
    for part in (
        "test_load.py",
        "NonMaxSuppression 'first': there is no op",
        "QuantizeLinear 'second': attribute 'precision' is '10'",
        "Cast 'third': there are no tensors of FLOAT8E4M3FN",
        "StringNormalizer 'd'",
    ):
        assert part in text


def test_ops_of_other_domains_are_named():
    proto = model_of(
        [helper.make_node("Fancy", ["x"], ["y"], domain="my.domain")],
        {"x": [1]},
        ["y"],
        opset_imports=[helper.make_opsetid("", 22), helper.make_opsetid("my.domain", 1)],
    )
    with pytest.raises(OptionError, match=r"no op Fancy of domain my\.domain"):
        tg.onnx.load(proto)


def test_what_is_no_model(tmp_path: Path):
    path = tmp_path / "noise.onnx"
    path.write_bytes(b"\xff\x00 this is not a model")
    with pytest.raises(OptionError, match="not a valid ONNX model"):
        tg.onnx.load(path)
    with pytest.raises(OptionError, match="not a valid ONNX model"):
        tg.onnx.load(onnx.ModelProto())
    with pytest.raises(OptionError, match="takes a path"):
        untyped.onnx.load(17)
    with pytest.raises(FileNotFoundError):
        tg.onnx.load(tmp_path / "missing.onnx")


def test_errors_inside_a_graph_name_the_node_and_the_users_line():
    proto = model_of(
        [node("MatMul", ["x", "w"], ["y"], name="product")], {"x": ["N", "K"]}, ["y"], {"w": weights(3, 2)}
    )
    with pytest.raises(ShapeError, match=r"test_load\.py:\d+: matmul: .*in ONNX node MatMul 'product'"):
        tg.onnx.load(proto)(np.ones((2, 4), np.float32))


def test_operands_that_no_node_could_have():
    proto = model_of([node("DepthToSpace", ["x"], ["y"], blocksize=2, name="deep")], {"x": [4]}, ["y"])
    with pytest.raises(ShapeError, match=r"test_load\.py:\d+: .*does not fit its operands.*DepthToSpace 'deep'"):
        tg.onnx.load(proto)(np.ones(4, np.float32))


def test_frozen_names_something():
    with pytest.raises(OptionError, match=r"no initializer is called 'body\.\*'"):
        tg.onnx.load(mlp(), frozen=["net.*", "body.*"])
    assert not tg.onnx.load(mlp(), frozen="*").named_parameters()


def test_external_data_that_is_not_loaded(tmp_path: Path):
    path = tmp_path / "model.onnx"
    onnx.save(mlp(), path, save_as_external_data=True, size_threshold=0, location="weights.bin")
    with pytest.raises(OptionError):
        tg.onnx.load(onnx.load(path, load_external_data=False))


def test_element_types_that_are_missing():
    proto = model_of([node("Identity", ["x"], ["y"])], {"x": [1]}, ["y"], element=TensorProto.FLOAT8E4M3FN)
    with pytest.raises(TensorgradError, match="input 'x': there are no tensors of FLOAT8E4M3FN"):
        tg.onnx.load(proto)


# Control flow


def branch(name: str, op: str) -> onnx.GraphProto:
    return helper.make_graph(
        [node(op, ["x", "x"], [f"{name}_y"])],
        name,
        [],
        [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [2])],
    )


def test_a_branch_that_depends_on_values_is_a_choice():
    proto = model_of(
        [
            node("ReduceSum", ["x"], ["total"], keepdims=0),
            node("Greater", ["total", "zero"], ["positive"]),
            node("If", ["positive"], ["y"], then_branch=branch("then", "Add"), else_branch=branch("else", "Mul")),
        ],
        {"x": [2]},
        ["y"],
        {"zero": np.array(0, np.float32)},
    )
    model = tg.onnx.load(proto, frozen=["zero"])
    module = tg.trace(lambda m, x: m(x), model, (2,))
    assert "tg.select" in str(module)
    np.testing.assert_array_equal(model(np.array([1, 2], np.float32)), [2, 4])
    np.testing.assert_array_equal(model(np.array([-1, -2], np.float32)), [1, 4])


def test_recurrence_learns():
    values = {"w": weights(1, 16, 3), "r": weights(1, 16, 4), "b": weights(1, 32)}
    proto = model_of([node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=4)], {"x": [6, 2, 3]}, ["y"], values)
    training = tg.compile(
        tg.onnx.load(proto),
        loss=lambda m, x: tg.mean((m(x)[-1] - 0.5) ** 2),
        optimizer=tg.optim.adam(3e-2),
        inputs={"x": (6, 2, 3)},
        device="numpy",
    )
    x = weights(6, 2, 3, seed=4)
    first = float(training.step(x=x))
    last = [float(training.step(x=x)) for _ in range(60)][-1]
    assert last < 0.1 * first


def test_constants_are_read_by_their_own_dtype():
    """A slice end of 2**63 - 1 is not a tensor: it is clamped, not narrowed."""
    ends = numpy_helper.from_array(np.array([2**63 - 1]), "e")
    proto = model_of([node("Slice", ["x", "s", "e"], ["y"])], {"x": [4]}, ["y"], {"s": np.array([1])}, 13)
    proto.graph.initializer.append(ends)
    np.testing.assert_array_equal(tg.onnx.load(proto)(np.arange(4, dtype=np.float32)), [1, 2, 3])
