"""Tracing a graph: node by node, each through the table."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, helper, shape_inference

from tensorgrad.errors import ShapeError, TensorgradError
from tensorgrad.location import user_line
from tensorgrad.onnx.checking import all_nodes, element_of, graphs_of, label, rule_of
from tensorgrad.onnx.elements import NARROW, NumpyArray, array_of, wrapped
from tensorgrad.onnx.table import Node, Setting, Value
from tensorgrad.tensor import Tensor


@dataclass(frozen=True)
class Step:
    """A node, its attributes as Python values, and the narrow integers among its outputs."""

    proto: onnx.NodeProto
    attributes: Mapping[str, Any]
    narrow: Mapping[str, int]


@dataclass(frozen=True)
class Graph:
    """A graph that is ready to be traced.

    Attributes:
        steps: The nodes that its outputs need, in order.
        inputs: The names of its inputs.
        outputs: The names of its outputs.
        constants: Its initializers, and inputs with fixed values.
    """

    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, NumpyArray]

    @staticmethod
    def of(model: onnx.ModelProto, folder: str, fixed: Mapping[str, NumpyArray]) -> Graph:
        """The graph of a model, with values for some of its inputs."""
        return _graph(model.graph, _narrow_values(model), folder, fixed)


def _narrow_values(model: onnx.ModelProto) -> dict[str, int]:
    """The values of narrow integer types, by name."""
    narrow = {*NARROW}
    declared = [element_of(value.type) for value in model.graph.input]
    tensors = [tensor.data_type for tensor in model.graph.initializer]
    casts = [
        a.i for node in all_nodes(model.graph) for a in node.attribute if a.name in ("to", "dtype", "output_dtype")
    ]
    literals = [
        a.t.data_type for node in all_nodes(model.graph) for a in node.attribute if a.type == AttributeProto.TENSOR
    ]
    quantized = [
        TensorProto.UINT8 for node in all_nodes(model.graph) if "Quantize" in node.op_type or "QLinear" in node.op_type
    ]
    if not narrow.intersection([*declared, *tensors, *casts, *literals, *quantized]):
        return {}
    found: dict[str, int] = {}

    def visit(graph: onnx.GraphProto) -> None:
        for value in (*graph.input, *graph.value_info, *graph.output):
            element = element_of(value.type)
            if element in narrow:
                found[value.name] = element
        for node in graph.node:
            for inner in graphs_of(node):
                visit(inner)

    visit(shape_inference.infer_shapes(model).graph)
    return found


def _graph(graph: onnx.GraphProto, narrow: Mapping[str, int], folder: str, fixed: Mapping[str, NumpyArray]) -> Graph:
    needed = {value.name for value in graph.output}
    steps: list[Step] = []
    for node in reversed(graph.node):
        if needed.intersection(name for name in node.output if name):
            needed.update(_read_names(node))
            steps.append(_step(node, narrow, folder))
    constants = {tensor.name: array_of(tensor, folder) for tensor in graph.initializer}
    names = tuple(value.name for value in graph.input)
    return Graph(tuple(reversed(steps)), names, tuple(value.name for value in graph.output), {**constants, **fixed})


def _read_names(node: onnx.NodeProto) -> set[str]:
    """What a node reads, in the graphs inside it too."""
    inner = [graph for outer in graphs_of(node) for graph in [outer]]
    names = set(node.input)
    for graph in inner:
        names.update(value.name for value in graph.output)
        for part in graph.node:
            names |= _read_names(part)
    return names


def _step(node: onnx.NodeProto, narrow: Mapping[str, int], folder: str) -> Step:
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            value = array_of(value, folder)
        elif attribute.type == AttributeProto.GRAPH:
            value = _graph(value, narrow, folder, {})
        elif isinstance(value, bytes):
            value = value.decode()
        attributes[attribute.name] = value
    return Step(node, attributes, {name: narrow[name] for name in node.output if name in narrow})


class Evaluation:
    """One call of a model."""

    def __init__(self, setting: Setting):
        self._setting = setting

    def outputs(self, graph: Graph, values: Mapping[str, Value]) -> list[Any]:
        """The outputs of a graph as tensors (or lists of them)."""
        results = self._run(graph, {**graph.constants, **values})
        node = Node("output", "", [], {}, [], self._setting, self._nothing, {})
        return [
            [node.as_tensor(part) for part in one] if isinstance(one, list) else node.as_tensor(one) for one in results
        ]

    @staticmethod
    def _nothing(graph: Any, values: Sequence[Value]) -> list[Value]:
        return []

    def _run(self, graph: Graph, values: MutableMapping[str, Value]) -> list[Value]:
        for step in graph.steps:
            proto = step.proto
            known = rule_of(proto)
            assert known is not None
            node = Node(
                proto.op_type,
                proto.name or next((name for name in proto.output if name), ""),
                [values[name] if name else None for name in proto.input],
                step.attributes,
                list(proto.output),
                self._setting,
                lambda inner, given: self._inner(inner, given, values),
                step.narrow,
            )
            try:
                found = known.function(node)
            except TensorgradError as error:
                if "in ONNX node" in str(error):
                    raise
                raise type(error)(f"{error} (in ONNX node {label(proto)})") from None
            except (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError) as error:
                reason = f"{user_line()}: the node does not fit its operands: {error}"
                raise ShapeError(f"{reason} (in ONNX node {label(proto)})") from error
            results = found if isinstance(found, tuple) else (found,)
            for name, value in zip(proto.output, results, strict=False):
                narrow = step.narrow.get(name)
                values[name] = wrapped(value, narrow) if narrow and isinstance(value, Tensor) else value
        return [values[name] for name in graph.outputs]

    def _inner(self, graph: Graph, given: Sequence[Value], outer: MutableMapping[str, Value]) -> list[Value]:
        values: MutableMapping[str, Value] = ChainMap({}, outer)
        values.update(graph.constants)
        values.update(zip(graph.inputs, given, strict=True))
        return self._run(graph, values)
