"""Arithmetic on what is known while tracing, such as shapes, has 64 bits, in which exporters write "to the end"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model_of

import tensorgrad as tg
from tensorgrad.errors import DTypeError

END, START = 2**63 - 1, -(2**63)
X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Graph:
    """Collects nodes on 64-bit constants; values are their names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []

    def integers(self, value: Any, dtype: Any = np.int64) -> str:
        """Adds a node `Constant`."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns its output."""
        self.nodes.append(helper.make_node(kind, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return f"v{len(self.nodes) - 1}"

    def value(self, result: str, opset: int = 17) -> Any:
        """Returns a result for `x`, eagerly, and checks that a program has the same."""
        nodes = [*self.nodes, helper.make_node("Identity", [result], ["y"])]
        model = tg.onnx.load(model_of(nodes, {"x": X.shape}, ["y"], {}, opset), trainable=False)
        eager = np.asarray(model(X))
        np.testing.assert_array_equal(np.asarray(tg.jit(lambda x: model(x), device="numpy")(X)), eager)
        return eager


def unsqueezed(graph: Graph, bound: int) -> str:
    return graph.op("Unsqueeze", graph.integers(bound), graph.integers([0]))


def concatenated(graph: Graph, bound: int) -> str:
    return graph.op("Concat", graph.integers([bound]), axis=0)


def gathered(graph: Graph, bound: int) -> str:
    return graph.op("Gather", graph.integers([7, bound]), graph.integers([1]))


def selected(graph: Graph, bound: int) -> str:
    test = graph.op("Equal", graph.op("Shape", "x"), graph.integers([3, 3]))
    chosen = graph.op("Where", test, graph.integers([bound]), graph.integers([5]))
    return graph.op("Slice", chosen, graph.integers([0]), graph.integers([1]))


def expanded(graph: Graph, bound: int) -> str:
    return graph.op("Expand", graph.integers(bound), graph.integers([1]))


def filled(graph: Graph, bound: int) -> str:
    value = numpy_helper.from_array(np.array([bound], np.int64))
    return graph.op("ConstantOfShape", graph.integers([1]), value=value)


def ranged(graph: Graph, bound: int) -> str:
    step = 1 if bound < 0 else -1
    places = graph.op("Range", graph.integers(bound), graph.integers(bound + 3 * step), graph.integers(step))
    return graph.op("Gather", places, graph.integers([0]))


def added(graph: Graph, bound: int) -> str:
    """A bound as half of it and the rest, cast, reshaped, and bounded by itself."""
    half = graph.integers(bound // 2)
    total = graph.op("Add", graph.op("Mul", half, graph.integers(2)), graph.integers(bound % 2))
    same = graph.op("Min", graph.op("Max", total, graph.integers(START)), graph.integers(END))
    return graph.op("Reshape", graph.op("Cast", same, to=TensorProto.INT64), graph.integers([1]))


WAYS = [unsqueezed, concatenated, gathered, selected, expanded, filled, ranged, added]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (1, END, 1, slice(1, None)),
        (START, 2, 1, slice(0, 2)),
        (END, START, -1, slice(None, None, -1)),
        (END, -END, -2, slice(None, None, -2)),
        (-1, START, -1, slice(None, None, -1)),
        (END, END, 1, slice(4, 4)),
        (3, 1, 1, slice(3, 1)),
    ],
)
def test_bounds_of_slices(way: Any, start: int, end: int, step: int, expected: slice) -> None:
    graph = Graph()
    axis, stride = graph.integers([1]), graph.integers([step])
    result = graph.value(graph.op("Slice", "x", way(graph, start), way(graph, end), axis, stride))
    np.testing.assert_array_equal(result, X[:, expected])


CASES: list[tuple[str, Sequence[Any], dict[str, Any], Any]] = [
    ("Sub", [END, END - 3], {}, 3),
    ("Div", [END, 2**60], {}, 7),
    ("Div", [-END, 2**62], {}, -1),
    ("Mod", [END, 10], {}, 7),
    ("Neg", [-END], {}, END),
    ("Abs", [-END], {}, END),
    ("Sign", [START], {}, -1),
    ("ReduceMax", [[1, END]], {"keepdims": 0}, END),
    ("ReduceProd", [[2**31, 2**31]], {"keepdims": 0}, 2**62),
    ("ReduceSum", [[2**40, 5]], {"keepdims": 0}, 2**40 + 5),
    ("CumSum", [[2**40, 5], 0], {}, [2**40, 2**40 + 5]),
    ("Squeeze", [[END]], {}, END),
    ("Transpose", [[[END]]], {}, [[END]]),
    ("Tile", [[END], [2]], {}, [END, END]),
    ("Clip", [END, 0, END - 1], {}, END - 1),
    ("Sum", [2**40, 2**41], {}, 2**40 + 2**41),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_arithmetic(case: tuple[str, Sequence[Any], dict[str, Any], Any]) -> None:
    """Results are compared in the graph, as they don't fit the tensors that come out."""
    op, inputs, attributes, expected = case
    graph = Graph()
    result = graph.op(op, *[graph.integers(value) for value in inputs], **attributes)
    assert graph.value(graph.op("Equal", result, graph.integers(expected))).all()


def test_sizes_computed_in_floats() -> None:
    """A double holds sizes that f32 rounds."""
    graph = Graph()
    wide = graph.op("Cast", graph.integers(2**24 + 1), to=TensorProto.DOUBLE)
    back = graph.op("Cast", graph.op("Floor", wide), to=TensorProto.INT64)
    assert graph.value(back) == 2**24 + 1


def test_what_comes_out_narrows_or_is_refused() -> None:
    graph = Graph()
    assert graph.value(graph.op("Sub", graph.integers(END), graph.integers(END - 3))).dtype == np.int32
    with pytest.raises(DTypeError, match=r"outside of i32"):
        graph.value(graph.op("Sub", graph.integers(END), graph.integers(1)))


def test_a_loop_without_a_limit() -> None:
    """A `while` is exported as at most 2**63 - 1 steps."""
    graph = Graph()
    names = {"i": TensorProto.INT64, "going": TensorProto.BOOL}
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2, np.int64))),
            helper.make_node("Less", ["i", "two"], ["more"]),
            helper.make_node("Add", ["s", "s"], ["t"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, kind, []) for name, kind in names.items()]
        + [helper.make_tensor_value_info("s", TensorProto.FLOAT, None)],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
        ],
    )
    result = graph.op("Loop", graph.integers(END), graph.integers(True, np.bool_), "x", body=body)
    np.testing.assert_array_equal(graph.value(result), 8 * X)
