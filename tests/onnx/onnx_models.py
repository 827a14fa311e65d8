"""Small handwritten ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    initializers: Mapping[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 22,
    element: int = FLOAT,
    **model: Any,
) -> onnx.ModelProto:
    """Returns a model of nodes; inputs have one element type, outputs any shape."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (initializers or {}).items()],
    )
    imports = model.pop("opset_imports", [helper.make_opsetid("", opset)])
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10, **model)
    proto = shape_inference.infer_shapes(proto)
    for value in proto.graph.output:
        value.type.tensor_type.shape.SetInParent()  # a valid model has a shape, even that of a scalar
    return proto


def weights(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns reproducible small f32 numbers."""
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * 0.5).astype(np.float32)


MLP_WEIGHTS = {
    "net.0.weight": weights(8, 4),
    "net.0.bias": weights(8),
    "net.2.weight": weights(3, 8),
    "net.2.bias": weights(3),
}


def mlp(batch: int | str = "N") -> onnx.ModelProto:
    """Returns what PyTorch exports for two linear layers with a relu between them."""
    return model_of(
        [
            helper.make_node("Gemm", ["x", "net.0.weight", "net.0.bias"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Gemm", ["r", "net.2.weight", "net.2.bias"], ["y"], transB=1),
        ],
        {"x": [batch, 4]},
        ["y"],
        MLP_WEIGHTS,
    )


def mlp_value(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the same model's result, by numpy."""
    h = np.maximum(x @ MLP_WEIGHTS["net.0.weight"].T + MLP_WEIGHTS["net.0.bias"], 0)
    return h @ MLP_WEIGHTS["net.2.weight"].T + MLP_WEIGHTS["net.2.bias"]
