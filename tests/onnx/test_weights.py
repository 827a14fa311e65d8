"""Which arrays of a file are parameters, buffers and constants: by the ops that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model_of, weights

import tensorgrad as tg
from tensorgrad.errors import OptionError

untyped: Any = tg
"""The package as code without types calls it."""

Nodes = Sequence[tuple[Any, ...]]
"""Nodes as op, inputs, outputs, and attributes."""


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, ["" if name == "_" else name for name in inputs.split()], outputs.split(), **attributes)


def constant(name: str, values: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(values), name))


def parameters(
    nodes: Sequence[onnx.NodeProto],
    arrays: Mapping[str, Any],
    x: Sequence[int] = (2, 4),
    opset: int = 17,
    element: int = TensorProto.FLOAT,
    **options: Any,
) -> list[str]:
    """Returns the parameters of a model from `x` to `y`; checks that it runs."""
    proto = model_of(nodes, {"x": x}, ["y"], arrays, opset, element)
    model = tg.onnx.load(proto, **options)
    model(np.zeros(x, helper.tensor_dtype_to_np_dtype(element)))
    return list(model.named_parameters())


W, B = weights(4, 4), weights(4)
PRODUCT = node("MatMul", "x w", "h")

LEARNED: dict[str, tuple[Nodes, dict[str, Any], list[str]]] = {
    "bias": ([("Add", "h b", "y")], {"b": B}, ["w", "b"]),
    "bias first": ([("Add", "b h", "y")], {"b": B}, ["w", "b"]),
    "bias of equal numbers": ([("Add", "h b", "y")], {"b": np.full(4, 0.1, np.float32)}, ["w", "b"]),
    "offset": ([("Sub", "h b", "y")], {"b": B}, ["w", "b"]),
    "sum": ([("Sum", "h b", "y")], {"b": B}, ["w", "b"]),
    "layer scale": ([("Mul", "h g", "y")], {"g": B}, ["w", "g"]),
    "positions": ([("Add", "h p", "y")], {"p": weights(2, 4)}, ["w", "p"]),
    "slopes": ([("PRelu", "h s", "y")], {"s": np.full(1, 0.2, np.float32)}, ["w", "s"]),
    "norm": ([("LayerNormalization", "h g b", "y")], {"g": np.ones(4, np.float32), "b": B}, ["w", "g", "b"]),
    "one plus a gain": ([("Add", "g one", "o"), ("Mul", "h o", "y")], {"g": B, "one": np.float32(1)}, ["w", "g"]),
    "rearranged": (
        [("Unsqueeze", "b a", "u"), ("Cast", "u", "c", {"to": 1}), ("Identity", "c", "i"), ("Add", "h i", "y")],
        {"b": B, "a": np.array([0])},
        ["w", "b"],
    ),
    "low rank": (
        [("MatMul", "p q", "r"), ("Mul", "r s", "t"), ("Add", "v t", "u"), ("MatMul", "h u", "y")],
        {"p": weights(4, 1), "q": weights(1, 4), "s": np.float32(0.5), "v": W},
        ["w", "p", "q", "v"],
    ),
    "class token": (
        [("Concat", "h c", "k", {"axis": 0}), ("Add", "k p", "y")],
        {"c": weights(1, 4), "p": weights(3, 4)},
        ["w", "c", "p"],
    ),
    "tied": ([("Transpose", "w", "t"), ("MatMul", "h t", "y")], {}, ["w"]),
    "exponent": ([("Pow", "h n", "y")], {"n": np.float32(2)}, ["w"]),
    "exponents": ([("Pow", "h n", "y")], {"n": np.full(4, 2, np.float32)}, ["w"]),
    "epsilon": ([("Abs", "h", "a"), ("Add", "a e", "v"), ("Sqrt", "v", "y")], {"e": np.float32(1e-5)}, ["w"]),
    "epsilon on an axis": ([("Add", "h e", "y")], {"e": np.array([1e-5], np.float32)}, ["w"]),
    "divided by a number": ([("Div", "h d", "y")], {"d": np.float32(8)}, ["w"]),
    "multiplied by a number": ([("Mul", "h d", "y")], {"d": np.array([[8]], np.float32)}, ["w"]),
    "one minus": ([("Sub", "one h", "y")], {"one": np.ones(4, np.float32)}, ["w"]),
    "standardized": (
        [("Sub", "h m", "c"), ("Div", "c s", "y")],
        {"m": B, "s": np.ones(4, np.float32)},
        ["w"],
    ),
    "clip": ([("Clip", "h l u", "y")], {"l": np.float32(0), "u": np.float32(6)}, ["w"]),
    "mask of -inf": ([("Add", "h m", "y")], {"m": np.array([[0, -np.inf, 0, 0]], np.float32)}, ["w"]),
    "mask of the lowest number": (
        [("Add", "h m", "y")],
        {"m": np.triu(np.full((2, 4), np.finfo(np.float32).min, np.float32), 1)},
        ["w"],
    ),
    "mask of zeros and ones": (
        [("Sub", "one m", "i"), ("Mul", "i low", "a"), ("Add", "h a", "y")],
        {"one": np.float32(1), "m": np.array([1, 1, 1, 0], np.float32), "low": np.float32(-1e4)},
        ["w"],
    ),
    "where": (
        [("Greater", "h z", "p"), ("Where", "p h n", "y")],
        {"z": np.float32(0), "n": np.full((2, 4), -np.inf, np.float32)},
        ["w"],
    ),
    "a number where masked, in a product": (
        [("Greater", "h z", "p"), ("Where", "p h z", "m"), ("MatMul", "m v", "y")],
        {"z": np.float32(0), "v": W},
        ["w", "v"],
    ),
    "table of a rotation": ([("Mul", "h c", "y")], {"c": weights(2, 4)}, ["w"]),
    "scales of an image": ([("Unsqueeze", "h a", "i"), ("Unsqueeze", "i a", "j"), ("Resize", "j _ s", "y")],
        {"a": np.array([0]), "s": np.array([1, 1, 2, 1], np.float32)}, ["w"]),
}  # fmt: skip
"""What follows a product `h`, arrays, and the parameters of the whole."""


@pytest.mark.parametrize("name", LEARNED)
def test_what_follows_a_product(name: str) -> None:
    following, arrays, expected = LEARNED[name]
    nodes = [node(op, operands, results, **dict(*rest)) for op, operands, results, *rest in following]
    assert sorted(parameters([PRODUCT, *nodes], {"w": W, **arrays})) == sorted(expected)


def test_the_bias_of_a_single_result_is_one_number() -> None:
    arrays = {"w": weights(4, 1), "b": weights(1), "e": np.array([1e-5], np.float32)}
    nodes = [PRODUCT, node("Add", "h b", "s"), node("Relu", "s", "r"), node("Add", "r e", "y")]
    assert parameters(nodes, arrays) == ["w", "b"]


def test_preprocessing_is_constant() -> None:
    """What is done to an input before anything is computed from it, also to one of bytes."""
    arrays = {"m": weights(1, 3, 1, 1), "s": np.full((1, 3, 1, 1), 0.5, np.float32), "w": weights(2, 3, 1, 1)}
    arrays |= {"g": weights(3, 1, 1)}
    nodes = [
        node("Cast", "x", "f", to=TensorProto.FLOAT),
        node("Sub", "f m", "c"),
        node("Div", "c s", "d"),
        node("Mul", "d g", "n"),
        node("Conv", "n w", "y"),
    ]
    for element in (TensorProto.FLOAT, TensorProto.UINT8):
        assert parameters(nodes, arrays, (1, 3, 2, 2), element=element) == ["w"]


def test_the_angles_of_positions_are_constant() -> None:
    nodes = [
        node("Cast", "x", "f", to=TensorProto.FLOAT),
        node("MatMul", "f frequencies", "a"),
        node("Sin", "a", "s"),
        node("Cos", "a", "c"),
        node("Concat", "s c", "k", axis=-1),
        node("MatMul", "k w", "y"),
    ]
    arrays = {"frequencies": weights(4, 2), "w": W}
    assert parameters(nodes, arrays, element=TensorProto.INT64) == ["w"]
    assert parameters(nodes, arrays) == ["frequencies", "w"]  # a layer with the sine as its activation


def test_tables() -> None:
    rows = {"words": weights(5, 4), "places": weights(3, 4), "cosines": weights(5, 4)}
    nodes = [
        node("Gather", "words x", "e"),
        node("Gather", "places at", "p"),
        node("Add", "e p", "s"),
        node("Gather", "cosines x", "c"),
        node("Mul", "s c", "y"),
    ]
    arrays = {**rows, "at": np.array([0, 2])}
    assert parameters(nodes, arrays, [2], element=TensorProto.INT64) == ["words", "places"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("Gather", "v x", "f"), ("Mul", "e f", "y")], ["u", "v"]),  # the factorization of a matrix
        ([("Mul", "e e", "s"), ("Sqrt", "s", "r"), ("Mul", "e r", "y")], ["u"]),  # a norm
        ([("Cast", "x c", "f"), ("Mul", "e f", "y")], ["u"]),
        ([("Mul", "e two", "s"), ("Neg", "s", "y")], ["u"]),
        ([("Sin", "e", "y")], []),
    ],
)
def test_products_of_rows(nodes: Nodes, expected: list[str]) -> None:
    """Only rows that multiply other features are a fixed table."""
    arrays = {"u": weights(3, 1), "v": weights(3, 1, seed=2), "two": np.float32(2), "c": np.float32(0)}
    before = [node("CastLike" if op == "Cast" else op, operands, results) for op, operands, results in nodes]
    assert parameters([node("Gather", "u x", "e"), *before], arrays, [2], element=TensorProto.INT64) == expected


def test_normalizations_of_groups() -> None:
    """They are written as those of instances whose own scale and bias are 1 and 0, which are no weights."""
    arrays = {"one": np.ones(2, np.float32), "zero": np.zeros(2, np.float32), "g": weights(4, 1), "b": weights(4, 1)}
    arrays |= {"groups": np.array([0, 2, -1]), "channels": np.array([0, 4, -1])}
    nodes = [
        node("Reshape", "x groups", "r"),
        node("InstanceNormalization", "r one zero", "n"),
        node("Reshape", "n channels", "m"),
        node("Mul", "m g", "s"),
        node("Add", "s b", "y"),
    ]
    assert parameters(nodes, arrays, (2, 4, 3)) == ["g", "b"]
    alone = [*nodes[:2], node("Identity", "n", "y")]
    assert parameters(alone, arrays, (2, 4, 3)) == ["one", "zero"]


def test_statistics_are_buffers() -> None:
    vectors = {name: np.full(3, value, np.float32) for name, value in zip("gbmv", (1, 0, 0.5, 2), strict=True)}
    nodes = [constant("v", vectors.pop("v")), node("BatchNormalization", "x g b m v", "y")]
    proto = model_of(nodes, {"x": [2, 3]}, ["y"], vectors, 17)
    model = tg.onnx.load(proto)
    assert list(model.named_parameters()) == ["g", "b"]
    assert list(model.named_buffers()) == ["m", "v"]
    training = tg.compile(
        model,
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(1e-2),
        inputs={"x": (2, 3)},
        device="numpy",
    )
    x = weights(2, 3)
    np.testing.assert_allclose(training.step(x=x), np.mean(((x - 0.5) / np.sqrt(2 + 1e-5)) ** 2), rtol=1e-5)
    state = training.state_dict(parts="model")
    assert set(state) == {"g", "b", "m", "v"}
    np.testing.assert_array_equal(state["v"], np.full(3, 2))
    assert list(tg.onnx.load(proto, trainable=True).named_buffers()) == ["m", "v"]


# Where arrays are


def test_weights_in_nodes() -> None:
    nodes = [
        constant("net/w", W),
        constant("b", B),
        constant("eps", np.float32(1e-5)),
        node("Identity", "net/w", "i"),
        node("Transpose", "i", "t"),
        node("MatMul", "x t", "h"),
        node("Add", "h b", "s"),
        node("Add", "s eps", "y"),
    ]
    assert parameters(nodes, {}) == ["net.w", "b"]
    training = tg.compile(
        tg.onnx.load(model_of(nodes, {"x": (2, 4)}, ["y"], {}, 17)),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(1e-1),
        inputs={"x": (2, 4)},
        device="numpy",
    )
    x = weights(2, 4)
    losses = [float(training.step(x=x)) for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]
    assert not np.array_equal(training.parameters()["net.w"], W)


def branch(name: str, nodes: Sequence[onnx.NodeProto], result: str, initializers: Mapping[str, Any]) -> Any:
    return helper.make_graph(
        nodes,
        name,
        [],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, key) for key, values in initializers.items()],
    )


def choice(then: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """Returns a model that multiplies by one of two matrices of the same name, one of them in a node."""
    branches = {
        "then_branch": branch("then", [node("MatMul", "x w", "t")], "t", {"w": then}),
        "else_branch": branch("else", [constant("w", other), node("MatMul", "x w", "e")], "e", {}),
    }
    nodes = [
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total zero", "positive"),
        node("If", "positive", "h", name="choose", **branches),
        node("Add", "h b", "y"),
    ]
    return model_of(nodes, {"x": [2, 4]}, ["y"], {"zero": np.zeros((), np.float32), "b": B}, 17)


def test_weights_of_branches() -> None:
    then, other = weights(4, 4, seed=1), weights(4, 4, seed=2)
    model = tg.onnx.load(choice(then, other))
    assert set(model.named_parameters()) == {"b", "choose.then_branch.w", "choose.else_branch.w"}
    ones = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(model(ones), ones @ then + B, rtol=1e-5)
    np.testing.assert_allclose(model(-ones), -ones @ other + B, rtol=1e-5)
    gradient = tg.grad(lambda m: tg.sum(m(ones)))(model.initialized())
    gradients = gradient.named_parameters()
    np.testing.assert_allclose(gradients["choose.then_branch.w"], ones.T @ ones, rtol=1e-5)
    np.testing.assert_array_equal(gradients["choose.else_branch.w"], np.zeros((4, 4)))


def test_weights_chosen_by_branches() -> None:
    """A branch that only selects passes on what its result is used for."""
    branches = {
        "then_branch": branch("then", [node("Identity", "p", "t")], "t", {}),
        "else_branch": branch("else", [node("Identity", "q", "e")], "e", {}),
    }
    nodes = [
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total zero", "positive"),
        node("If", "positive", "w", **branches),
        node("MatMul", "x w", "y"),
    ]
    arrays: dict[str, Any] = {"zero": np.float32(0), "p": W, "q": weights(4, 4, seed=2)}
    assert parameters(nodes, arrays) == ["p", "q"]


def test_weights_of_loops() -> None:
    """A scan over stacked weights, and a matrix that its body closes over."""
    state, layer = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "layer"))
    body = helper.make_graph(
        [node("MatMul", "s layer", "p"), node("MatMul", "p closed", "q"), node("Mul", "q half", "n")],
        "body",
        [state, layer],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
    )
    arrays: dict[str, Any] = {"stacked": weights(3, 4, 4), "closed": W, "half": np.float32(0.5)}
    nodes = [node("Scan", "x stacked", "y", body=body, num_scan_inputs=1)]
    assert parameters(nodes, arrays) == ["stacked", "closed"]


def test_weights_in_functions() -> None:
    body = [constant("w", W), constant("two", np.float32(2)), node("MatMul", "a w", "h"), node("Pow", "h two", "b")]
    layer = helper.make_function("custom", "Layer", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    proto = model_of(
        [helper.make_node("Layer", ["x"], ["y"], domain="custom")],
        {"x": [2, 4]},
        ["y"],
        functions=[layer],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)],
    )
    assert [value.shape for value in tg.onnx.load(proto).named_parameters().values()] == [(4, 4)]


# To say otherwise


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a.w", "b"]),
        ({"trainable": True}, ["a.w", "b", "two"]),
        ({"trainable": False}, []),
        ({"trainable": "/a/w"}, ["a.w"]),
        ({"trainable": ["a.*", "two"]}, ["a.w", "two"]),
        ({"trainable": lambda name: name != "b"}, ["a.w", "two"]),
        ({"trainable": lambda name: True if name == "two" else None}, ["a.w", "b", "two"]),
        ({"frozen": "b"}, ["a.w"]),
        ({"trainable": True, "frozen": ["tw*", "/a/*"]}, ["b"]),
    ],
)
def test_choices(options: dict[str, Any], expected: list[str]) -> None:
    nodes = [node("MatMul", "x /a/w", "h"), node("Add", "h b", "s"), node("Pow", "s two", "y")]
    assert parameters(nodes, {"/a/w": W, "b": B, "two": np.float32(2), "n": np.array([1])}, **options) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trainable": "ww"}, r"trainable: no initializer is called 'ww'; the nearest that can be parameters are w"),
        ({"trainable": "axes"}, r"trainable: no initializer is called 'axes'"),
        ({"frozen": ["w", "v*"]}, r"frozen: no initializer is called 'v\*'"),
        ({"trainable": 3}, "trainable must be names or patterns, got 3"),
        ({"frozen": [3]}, r"frozen must be names or patterns, got \[3\]"),
    ],
)
def test_choices_that_name_nothing(options: dict[str, Any], message: str) -> None:
    proto = model_of([PRODUCT, node("Unsqueeze", "h axes", "y")], {"x": [2, 4]}, ["y"], {"w": W, "axes": np.array([0])})
    with pytest.raises(OptionError, match=message):
        untyped.onnx.load(proto, **options)


def test_names_do_not_depend_on_what_is_trained() -> None:
    arrays = {"a": W, "a.b": B}
    nodes = [node("MatMul", "x a", "h"), node("Add", "h a.b", "y")]
    assert parameters(nodes, arrays) == ["a_", "a.b"]
    assert parameters(nodes, arrays, frozen="a.b") == ["a_"]
