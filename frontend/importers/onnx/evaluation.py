"""Traces a graph node by node, using the table of ops."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from tensorgrad.errors import ShapeError, TensorgradError
from tensorgrad.importers.onnx.checking import ELEMENT_ATTRIBUTES, domain_of, graphs_of, label, rule_of
from tensorgrad.importers.onnx.elements import NumpyArray, array_of, constant_of, element_named
from tensorgrad.importers.onnx.table import OnnxNode, Setting, Value
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tracer import suspended


@dataclass(frozen=True)
class Step:
    """A node, and its attributes as Python values."""

    proto: onnx.NodeProto
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Graph:
    """A graph prepared for tracing.

    Attributes:
        steps: The nodes that its outputs need, in order.
        inputs: The names of its inputs.
        outputs: The names of its outputs.
        constants: The arrays of the file, its initializers and those of its nodes `Constant`, and inputs with fixed
            values.
        parameters: The paths of those arrays that a call has other values for.
    """

    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, NumpyArray]
    parameters: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of(model: onnx.ModelProto, folder: str, fixed: Mapping[str, NumpyArray]) -> Graph:
        """Returns the graph of a model, with values for some of its inputs."""
        return _graph(model.graph, folder, fixed)


def _graph(graph: onnx.GraphProto, folder: str, fixed: Mapping[str, NumpyArray]) -> Graph:
    needed = {value.name for value in graph.output}
    steps: list[Step] = []
    held: dict[str, NumpyArray] = {}
    for node in reversed(graph.node):
        if needed.intersection(name for name in node.output if name):
            needed.update(_read_names(node))
            step = _step(node, folder)
            if (domain_of(node), node.op_type) == ("", "Constant"):
                held[node.output[0]] = constant_of(step.attributes)
            else:
                steps.append(step)
    constants = {tensor.name: array_of(tensor, folder) for tensor in graph.initializer}
    constants |= dict(reversed(held.items()))
    names = tuple(value.name for value in graph.input)
    return Graph(tuple(reversed(steps)), names, tuple(value.name for value in graph.output), {**constants, **fixed})


def _read_names(node: onnx.NodeProto) -> set[str]:
    """Returns the inputs of a node, including those of its subgraphs."""
    names = set(node.input)
    for graph in graphs_of(node):
        names.update(value.name for value in graph.output)
        for part in graph.node:
            names |= _read_names(part)
    return names


def _step(node: onnx.NodeProto, folder: str) -> Step:
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            value = array_of(value, folder)
        elif attribute.type == AttributeProto.GRAPH:
            value = _graph(value, folder, {})
        elif attribute.name in ELEMENT_ATTRIBUTES:
            value = element_named(value)
        elif isinstance(value, bytes):
            value = value.decode()
        attributes[attribute.name] = value
    return Step(node, attributes)


def _is_known(value: Any) -> bool:
    """Returns whether a value is computed from the file and the shapes of inputs alone."""
    if isinstance(value, list):
        return all(map(_is_known, value))
    return value is None or isinstance(value, np.ndarray)


def _known(value: Any) -> Any:
    """Returns a result of known values as one, in its own dtype."""
    if isinstance(value, list):
        return [_known(part) for part in value]
    return np.asarray(value) if isinstance(value, Array) else value


class Evaluation:
    """One call of a model."""

    def __init__(self, setting: Setting, parameters: Mapping[str, Value]):
        self._setting, self._parameters = setting, parameters

    def outputs(self, graph: Graph, values: Mapping[str, Value]) -> list[Any]:
        """Returns the outputs of a graph as tensors (or lists of them)."""
        results = self._run(graph, {**self._held(graph), **values})
        node = OnnxNode("output", "", [], {}, [], self._setting, self._nothing)
        return [
            [node.as_tensor(part) for part in result] if isinstance(result, list) else node.as_tensor(result)
            for result in results
        ]

    @staticmethod
    def _nothing(graph: Any, values: Sequence[Value]) -> list[Value]:
        return []

    def _run(self, graph: Graph, values: MutableMapping[str, Value]) -> list[Value]:
        for step in graph.steps:
            proto = step.proto
            known = rule_of(proto)
            assert known is not None
            inputs = [values[name] if name else None for name in proto.input]
            node = OnnxNode(
                proto.op_type,
                proto.name or next((name for name in proto.output if name), ""),
                inputs,
                step.attributes,
                list(proto.output),
                self._setting,
                lambda inner, arguments: self._inner(inner, arguments, values),
                _is_known(inputs) and not any(isinstance(value, Graph) for value in step.attributes.values()),
            )
            try:
                with suspended() if node.wide else nullcontext():
                    function = known.function(node)
            except TensorgradError as error:
                if "in ONNX node" in str(error):
                    raise
                raise type(error)(f"{error} (in ONNX node {label(proto)})") from None
            except (*MALFORMED, StopIteration) as error:
                reason = f"{user_line()}: the node does not fit its operands: {error}"
                raise ShapeError(f"{reason} (in ONNX node {label(proto)})") from error
            results = function if isinstance(function, tuple) else (function,)
            results = [_known(result) for result in results] if node.wide else results
            values.update(zip(proto.output, results, strict=False))
        return [values[name] for name in graph.outputs]

    def _held(self, graph: Graph) -> dict[str, Value]:
        """Returns the values of the arrays of a graph, those of parameters as this call has them."""
        return {**graph.constants, **{name: self._parameters[path] for name, path in graph.parameters.items()}}

    def _inner(self, graph: Graph, arguments: Sequence[Value], outer: MutableMapping[str, Value]) -> list[Value]:
        values: MutableMapping[str, Value] = ChainMap({}, outer)
        values.update(self._held(graph))
        values.update(zip(graph.inputs, arguments, strict=True))
        return self._run(graph, values)
