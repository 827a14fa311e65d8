"""Builds an ONNX graph: nodes, names, constants, and functions that nodes call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from onnx import (
    FunctionProto,
    GraphProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.locations import calls_in, line_of
from tensorgrad.dialects.tg.base import NumpyArray, numpy_dtype
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.errors import ProgramError

DOMAIN = "tensorgrad"
"""The domain of the functions that a file defines."""

OPSET, BITCAST_OPSET = 21, 26
"""The version of ONNX's ops in a file, and in one that contains `BitCast`."""

IR_VERSIONS = {OPSET: 10, BITCAST_OPSET: 13}
"""The version of the file format by that of the ops."""

BF16, F16, F32, F64 = (np.dtype(kind) for kind in (bfloat16, np.float16, np.float32, np.float64))
I8, I16, I32, I64 = (np.dtype(kind) for kind in (np.int8, np.int16, np.int32, np.int64))
U8, U16, U32, U64 = (np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.uint64))
BOOL = np.dtype(np.bool_)

SMALL = {I8: I32, U8: I32, I16: I32, U16: I32}

LACKING: Mapping[str, Mapping[np.dtype[Any], np.dtype[Any]]] = {
    "Max": {I16: I32, U16: I32},
    "Min": {I16: I32, U16: I32},
    "Pad": {I16: I32, U16: I32},
    "Where": {I16: I32, U16: I32, U64: I64, BOOL: U8, BF16: F32},
    "Expand": {BF16: F32},
    "ReduceSum": {**SMALL, I32: I64, U32: I64, F16: F32},
    "ReduceProd": {F16: F32},
    "ReduceMax": {I16: I32, U16: I32, U32: I64},
    "ReduceMin": {I16: I32, U16: I32, U32: I64},
    "MatMul": {**SMALL, F16: F32},
    "Conv": {F16: F32},
    "ConvTranspose": {F16: F32},
    "AveragePool": {F16: F32},
    "GlobalAveragePool": {F16: F32},
    "ScatterElements": {F16: F32},
    "TopK": {U16: I32, U32: I64},
}
"""The dtypes that an op of ONNX Runtime lacks, each with the one in which it gives the same; sums of f16 are in f32.

Sums of integers wrap, so their low bits are those of any wider type; `ReduceSum` would saturate in their own.
"""


def element(dtype: np.dtype[Any]) -> int:
    """Returns the number of an element type in ONNX."""
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def dtype_of(value: SSAValue) -> np.dtype[Any]:
    """Returns the NumPy dtype of a value."""
    return numpy_dtype(value.type)


def value_info(name: str, value: SSAValue) -> ValueInfoProto:
    """Returns the declaration of an input or output of a graph."""
    return helper.make_tensor_value_info(name, element(dtype_of(value)), shape_of(value))


@dataclass
class File:
    """What all graphs of a file share.

    Attributes:
        initializers: The arrays of the file, by name.
        functions: The functions that nodes call, by name.
        opset: The version of ONNX's ops.
        within_function: Whether constants are nodes, because functions have no initializers.
        taken: The names that are in use, and how many others were derived from each.
        constants: The names of constants by their dtype, shape and bytes.
    """

    initializers: dict[str, NumpyArray] = field(default_factory=dict[str, NumpyArray])
    functions: dict[str, FunctionProto] = field(default_factory=dict[str, FunctionProto])
    opset: int = OPSET
    within_function: bool = False
    taken: dict[str, int] = field(default_factory=dict[str, int])
    constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def imports(self) -> list[OperatorSetIdProto]:
        """Returns the ops of the file; those of its functions have the same version, which the last node decides."""
        for function in self.functions.values():
            del function.opset_import[:]
            function.opset_import.append(helper.make_opsetid("", self.opset))
        own = [helper.make_opsetid(DOMAIN, 1)] if self.functions else []
        return [helper.make_opsetid("", self.opset), *own]

    def unique(self, name: str) -> str:
        """Returns a name that nothing in the file has: `name`, or one with a number behind it."""
        chosen = name
        while chosen in self.taken:
            self.taken[name] += 1
            chosen = f"{name}_{self.taken[name]}"
        self.taken[chosen] = 0
        return chosen


class Graph:
    """A graph that is being built: the file's, or one within a node, which sees the values of those around it.

    A value that repeats another along some axes, or one number, is *deferred*: elementwise ops read it in its own
    shape, by ONNX's broadcasting, and an `Expand` computes all of it once another op needs that.

    Attributes:
        file: What it shares with the other graphs.
        nodes: Its nodes so far.
        label: The beginning of the names of new nodes.
    """

    def __init__(self, file: File, outer: Graph | None = None):
        self.file = file
        self.nodes: list[NodeProto] = []
        self.label = "value"
        self._outer = outer
        self._names: dict[SSAValue, str] = {}
        self._deferred: dict[SSAValue, str] = {}
        self._own = set[str]()

    def inner(self) -> Graph:
        """Returns a graph within a node of this one."""
        return Graph(self.file, self)

    def at(self, op: Operation) -> None:
        """Names the next nodes after an op, and the module that it ran in."""
        calls = calls_in(op.location)
        self.label = "/".join((*calls[-1:], op.name.removeprefix("tg.")))

    # Values

    def bind(self, value: SSAValue, name: str) -> None:
        """Gives a value the name of what the file computes for it."""
        self._names[value] = name

    def defer(self, value: SSAValue, name: str) -> None:
        """Gives a value the name of another whose shape broadcasts to its own."""
        self._deferred[value] = name

    def value(self, value: SSAValue) -> str:
        """Returns the name of a value in its whole shape."""
        name = self._name(value)
        if name is None:
            compact = self._compact(value)
            assert compact is not None, f"{value} has not been computed"
            name = self.typed("Expand", dtype_of(value), compact, self.integers(shape_of(value)), data=(0,))
            self.bind(value, name)
        return name

    def broadcast(self, values: Sequence[SSAValue]) -> list[str]:
        """Returns the names of values of one shape for an op that broadcasts: at least one is in its whole shape."""
        names = [self._name(value) for value in values]
        if all(name is None for name in names):
            names[0] = self.value(values[0])
        return [name or self._compact(value) or "" for name, value in zip(names, values, strict=True)]

    def _name(self, value: SSAValue) -> str | None:
        return self._names.get(value) or (None if self._outer is None else self._outer._name(value))

    def _compact(self, value: SSAValue) -> str | None:
        return self._deferred.get(value) or (None if self._outer is None else self._outer._compact(value))

    # Nodes

    def nodes_of(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        """Appends a node, and returns the names of its outputs."""
        names = [self.file.unique(self.label) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], domain=domain, **attributes))
        self._own.update(names)
        return names

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Appends a node, and returns the name of its only output."""
        return self.nodes_of(op, *inputs, **attributes)[0]

    def typed(
        self, op: str, dtype: np.dtype[Any], *inputs: str, data: Sequence[int] | None = None, **attributes: Any
    ) -> str:
        """Appends a node on values of a dtype, converted to another and back where runtimes lack it; see `LACKING`.

        Args:
            op: The op of ONNX.
            dtype: The dtype of its data and of its result.
            *inputs: The names of its inputs.
            data: The positions of its data among them; None if all are.
            **attributes: Its attributes.
        """
        wide = LACKING.get(op, {}).get(dtype)
        if wide is None:
            return self.node(op, *inputs, **attributes)
        positions = range(len(inputs)) if data is None else data
        converted = [self.cast(name, wide) if at in positions else name for at, name in enumerate(inputs)]
        return self.cast(self.node(op, *converted, **attributes), dtype)

    def cast(self, name: str, dtype: np.dtype[Any]) -> str:
        """Appends a conversion as ONNX defines it: integers wrap."""
        return self.node("Cast", name, to=element(dtype))

    def where(self, dtype: np.dtype[Any], condition: str, on_true: str, on_false: str) -> str:
        """Appends a choice between elements of a dtype."""
        return self.typed("Where", dtype, condition, on_true, on_false, data=(1, 2))

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Appends a reshape; extents of 0 are meant."""
        return self.node("Reshape", name, self.integers(shape), allowzero=1)

    def transpose(self, name: str, permutation: Sequence[int]) -> str:
        """Appends a transposition, unless it is none."""
        order = list(permutation)
        return name if order == sorted(order) else self.node("Transpose", name, perm=order)

    def integers(self, values: Sequence[int]) -> str:
        """Returns the name of a constant list of integers, such as a shape or axes."""
        return self.constant(np.asarray(values, np.int64))

    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Returns the name of a constant number."""
        return self.constant(np.asarray(value, dtype))

    def constant(self, array: NumpyArray) -> str:
        """Returns the name of a constant; equal ones are stored once."""
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = (array.dtype.str, array.shape, array.tobytes())
        name = self.file.constants.get(key)
        if name is None:
            name = self.file.constants[key] = self.file.unique("constant")
            if self.file.within_function:
                self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
            else:
                self.file.initializers[name] = array
        return name

    def call(self, name: str, build: Callable[[Graph, Sequence[str]], Sequence[str]], *inputs: str) -> list[str]:
        """Appends a call of a function of the file, which is built when it is first called.

        Args:
            name: Its name; what `build` makes depends on nothing else.
            build: Called with a graph and the names of the function's inputs; returns the names of its outputs.
            *inputs: The names of the arguments.
        """
        function = self.file.functions.get(name)
        if function is None:
            parameters = [f"x{position}" for position in range(len(inputs))]
            body = Graph(File(within_function=True, taken=dict.fromkeys(parameters, 0)))
            outputs = list(build(body, parameters))
            function = helper.make_function(DOMAIN, name, parameters, outputs, body.nodes, [])
            self.file.functions[name] = function
        return self.nodes_of(name, *inputs, outputs=len(function.output), domain=DOMAIN)

    # The graph as a whole

    def outputs(self, values: Sequence[SSAValue], names: Sequence[str]) -> None:
        """Computes the results of the graph under reserved names."""
        for value, name in zip(values, names, strict=True):
            self.nodes.append(helper.make_node("Identity", [self.value(value)], [name], name=name))

    def outputs_of(self, values: Sequence[SSAValue]) -> list[str]:
        """Returns distinct names of the results of an inner graph, all computed in it, as ONNX requires."""
        results: list[str] = []
        for value in values:
            name = self.value(value)
            results.append(self.node("Identity", name) if name not in self._own or name in results else name)
        return results

    def proto(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], weights: bool = False
    ) -> GraphProto:
        """Returns the finished graph; that of the file has the `weights`, which inner graphs see."""
        arrays: list[TensorProto] = []
        if weights:
            arrays = [numpy_helper.from_array(array, key) for key, array in self.file.initializers.items()]
        return helper.make_graph(self.nodes, name, inputs, outputs, arrays)


def refusal(op: Operation, reason: str) -> ProgramError:
    """Returns the error that an op can't be written, with the user's line."""
    return ProgramError(f"{line_of(op.location)}: onnx.save: {op.name}: {reason}")
