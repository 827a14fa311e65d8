"""Whole programs as ONNX models: their inputs, their values, what the host computes, and their results."""

from __future__ import annotations

import json

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper
from xdsl.dialects.func import FuncOp
from xdsl.traits import IsTerminator

from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import Role, arguments_of, results_of
from tensorgrad.dialects.tg.base import NumpyArray
from tensorgrad.driver.handles.portable import Portable, without_bf16
from tensorgrad.errors import InputError
from tensorgrad.exporters.onnx.formulas import evaluated
from tensorgrad.exporters.onnx.graph import (
    F64,
    I64,
    IR_VERSIONS,
    U32,
    File,
    Graph,
    dtype_of,
    element,
    refusal,
    value_info,
)
from tensorgrad.exporters.onnx.rules import RULES
from tensorgrad.exporters.onnx.table import emit_block
from tensorgrad.ops.random import fold_in
from tensorgrad.passes.functions import return_of
from tensorgrad.runtime.saved import STEP
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tracer import trace

NEW = "new/"
"""The prefix of a step's outputs that are the next step's inputs."""

HOST = "training/"
"""The prefix of inputs that the host of a training computes: the step count, the seed's key and the settings."""

NAMED = (Role.PARAMETER, Role.STATE, Role.INPUT)
"""The roles of arguments that keep their names."""

UPDATES = "tensorgrad.updates"
"""The entry of a model's metadata that maps the outputs which replace inputs to these inputs, as JSON."""

PARAMETERS = "tensorgrad.parameters"
"""The entry of a model's metadata that lists the names of parameters, as JSON, for `tg.onnx.load`."""


class _Program:
    """A model that is being written.

    Attributes:
        graph: Its graph.
        inputs: The declarations of the graph's inputs.
        results: The names of the function's results.
        updates: The inputs that outputs replace, by output.
        step: The number of a training's step, from 1 on, in i64.
    """

    def __init__(self, function: FuncOp):
        self.graph = Graph(File())
        self.inputs: list[ValueInfoProto] = []
        self.updates: dict[str, str] = {}
        self.step: str | None = None
        # Inputs and weights have their names in any case, and results before nodes do.
        names = self.graph.file
        for slot in arguments_of(function):
            if slot.role in NAMED:
                if slot.name in names.taken:
                    raise InputError(f"{user_line()}: onnx.save: input {slot.name!r} has the name of a parameter")
                names.unique(slot.name)
        results = results_of(function)
        self.updates = {names.unique(NEW + slot.name): slot.name for slot in results if slot.role == Role.UPDATE}
        updates = iter(self.updates)
        self.results = [next(updates) if slot.role == Role.UPDATE else names.unique(slot.name) for slot in results]

    def given(self, name: str, start: NumpyArray) -> str:
        """Declares an input that is `start` unless it is given."""
        self.inputs.append(helper.make_tensor_value_info(name, element(start.dtype), start.shape))
        self.graph.file.initializers[name] = start
        return name

    def hosted(self, name: str, start: NumpyArray) -> str:
        """Declares an input that the host of a training would compute."""
        return self.given(self.graph.file.unique(HOST + name), start)


def model_of(program: Portable, version: str) -> ModelProto:
    """Returns a program as a model; what is bf16 is computed in f32, as most runtimes would not in bf16.

    Args:
        program: The program.
        version: The version of this package.

    Raises:
        InputError: An input has the name of a parameter.
        ProgramError: ONNX can't say an op; names the user's line.
    """
    program = without_bf16(program)
    function = find_function(program.module, None)
    _check_rules(function)
    writing = _Program(function)
    graph, file = writing.graph, writing.graph.file
    _take_arguments(writing, program, function)
    if program.host.kind == STEP:
        _compute_host_values(writing, program, function)
    emit_block(graph, function.body.block)
    values = return_of(function).operands
    graph.outputs(values, writing.results)
    outputs = [value_info(name, value) for name, value in zip(writing.results, values, strict=True)]
    if writing.step is not None:
        outputs.append(_next_step(writing, writing.step))
    model = helper.make_model(
        graph.proto(program.name, writing.inputs, outputs, weights=True),
        opset_imports=file.imports(),
        ir_version=IR_VERSIONS[file.opset],
        functions=list(file.functions.values()),
        producer_name="tensorgrad",
        producer_version=version,
    )
    parameters = [slot.name for slot in arguments_of(function) if slot.role == Role.PARAMETER]
    updates = {UPDATES: json.dumps(writing.updates)} if writing.updates else {}
    helper.set_model_props(model, {PARAMETERS: json.dumps(parameters), **updates})
    return model


def _check_rules(function: FuncOp) -> None:
    """Requires a rule for each op of a function, those in loops and branches included.

    Raises:
        ProgramError: There is none; names the user's line.
    """
    for op in function.body.block.walk():
        if type(op) not in RULES and not op.has_trait(IsTerminator):
            raise refusal(op, "there is no rule that says it in ONNX")


def _take_arguments(writing: _Program, program: Portable, function: FuncOp) -> None:
    """Declares weights, of which those that the program updates are inputs too, and inputs."""
    graph = writing.graph
    arguments = list(zip(arguments_of(function), function.body.block.args, strict=True))
    updated = set(writing.updates.values())
    for slot, argument in arguments:
        if slot.role in (Role.PARAMETER, Role.STATE):
            graph.bind(argument, slot.name)
            if slot.name in updated:
                writing.given(slot.name, program.values[slot.name])
            else:
                graph.file.initializers[slot.name] = program.values[slot.name]
    for slot, argument in arguments:
        if slot.role == Role.INPUT and slot.name not in program.host.made:
            graph.bind(argument, slot.name)
            writing.inputs.append(value_info(slot.name, argument))


def _compute_host_values(writing: _Program, program: Portable, function: FuncOp) -> None:
    """Declares the step count, the seed's key and the settings, and computes from them what the host would."""
    graph, host = writing.graph, program.host
    graph.label = "training"
    done = writing.hosted("step", np.array(host.step_count, np.int64))
    step = writing.step = graph.node("Add", done, graph.number(1, I64))
    values = {name: writing.hosted(name, np.array(value, np.float64)) for name, value in host.settings.items()}
    values |= {"step": graph.cast(step, F64), "micro_step": graph.number(1, F64)}
    for slot, argument in zip(arguments_of(function), function.body.block.args, strict=True):
        if slot.formula is not None:
            graph.bind(argument, graph.cast(evaluated(graph, slot.formula, values), dtype_of(argument)))
        elif slot.role == Role.INPUT and slot.name in host.made:
            key = writing.hosted("key", np.array(host.key, np.uint32))
            graph.bind(argument, _folded(graph, key, graph.cast(step, U32)))


def _folded(graph: Graph, key: str, call: str) -> str:
    """Appends the key of a call, derived from the seed's as `tg.random.fold_in` does."""
    traced = find_function(trace(fold_in, Spec((2,), np.dtype(np.uint32)), Spec((), np.dtype(np.uint32))), None)
    for argument, name in zip(traced.body.block.args, (key, call), strict=True):
        graph.bind(argument, name)
    emit_block(graph, traced.body.block)
    return graph.value(return_of(traced).operands[0])


def _next_step(writing: _Program, step: str) -> ValueInfoProto:
    """Returns the declaration of the output that counts steps."""
    name = writing.graph.file.unique(f"{NEW}{HOST}step")
    writing.updates[name] = f"{HOST}step"
    writing.graph.nodes.append(helper.make_node("Identity", [step], [name], name=name))
    return helper.make_tensor_value_info(name, element(I64), ())
