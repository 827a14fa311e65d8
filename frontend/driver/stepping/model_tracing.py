"""Traces a function of a model and of named inputs: a loss, or a function attached to a training step."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.dialects.tg.base import numpy_dtype
from tensorgrad.driver.stepping.nested_inputs import Nesting, is_tree
from tensorgrad.errors import DTypeError, InputError, ParameterError, ShapeError, TraceError
from tensorgrad.nn.module import Module, argument_of, bind, declarations
from tensorgrad.nn.parameters import Parameter
from tensorgrad.nn.state import Assigning, State
from tensorgrad.nn.unchanged import check_attributes, check_bound, check_same
from tensorgrad.nn.weights import Weight
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.tensors.grad.registry import NO_DERIVATIVE
from tensorgrad.tracing import trees
from tensorgrad.tracing.capturing import captured, captured_names
from tensorgrad.tracing.dtypes import SHORT, Spec, is_float, spec
from tensorgrad.tracing.index_ranges import IndexRanges
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Traced
from tensorgrad.tracing.tracer import as_result, check_function, function_name, trace_call, unique


def parameters_of(model: Module, trained: bool) -> dict[str, Parameter | Weight]:
    """Returns the parameters of a model by path.

    Raises:
        ParameterError: The model is to be trained, but has no trainable parameter.
    """
    parameters = {str(path): parameter for path, parameter in model.named_parameters().items()}
    if not parameters and trained:
        raise ParameterError(
            f"{type(model).__name__} has no parameters: they are found as attributes, in modules, "
            "lists, tuples and dicts, and are floats: integers stay as they are"
        )
    return parameters


def input_specs(inputs: Mapping[str, Any]) -> dict[str, Spec]:
    """Returns specifications from shapes and specifications.

    Raises:
        InputError: A name is not an identifier, or its value is neither a shape nor a specification.
    """
    specs: dict[str, Spec] = {}
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs must map names to shapes, got {inputs!r}")
    for name, declaration in inputs.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"the name of an input must be an identifier, got {name!r}")
        if hasattr(declaration, "__array__"):
            raise InputError(
                f"input {name!r} must be a shape or a tg.spec, not an array: tg.like(batch) has those of arrays"
            )
        try:
            specs[name] = declaration if isinstance(declaration, Spec) else spec(declaration)
        except (ShapeError, DTypeError, TypeError) as error:
            raise InputError(f"input {name!r} must be a shape or a tg.spec(shape, dtype): {error}") from None
    return specs


def nested_specs(inputs: Mapping[str, Any]) -> tuple[dict[str, Spec], Nesting]:
    """Returns specifications of inputs that may be trees, by their paths, and the trees.

    Raises:
        InputError: As `input_specs`.
    """
    nested = {name: value for name, value in inputs.items() if is_tree(value)} if isinstance(inputs, Mapping) else {}
    plain = Spec((), np.dtype(np.float32)) if nested else None
    flat = input_specs(
        {name: plain if name in nested else value for name, value in inputs.items()} if nested else inputs
    )
    nesting = Nesting({name: nested.get(name, flat_spec) for name, flat_spec in flat.items()})
    for path, leaf in nesting.flat.items():
        if not isinstance(leaf, Spec):
            raise InputError(f"input {path!r} must be a tg.spec, as a part of a tree, got {leaf!r}")
    return dict(nesting.flat), nesting


def takes_key(function: Callable[..., Any]) -> bool:
    """Returns whether a function has a required argument called `key`."""
    try:
        parameter = inspect.signature(function).parameters.get("key")
    except (TypeError, ValueError):
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return parameter is not None and parameter.kind in by_name and parameter.default is inspect.Parameter.empty


def input_names(function: Callable[..., Any]) -> list[str]:
    """Returns the names of a function's parameters after the model, as far as they can be given by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return []
    return [parameter.name for parameter in parameters if parameter.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]


def _check_names(function: Callable[..., Any], specs: Mapping[str, Spec], what: str) -> None:
    """Checks that a function accepts the model and these inputs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    names = list(dict.fromkeys(path.partition(".")[0] for path in specs))
    try:
        signature.bind(None, **dict.fromkeys(names))
    except TypeError as error:
        arguments = ", ".join(["model", *names])
        hint = (
            '; declare a key as "key": tg.spec(2, "u32"), and give tg.random.key(i)'
            if takes_key(function) and "key" not in names
            else ""
        )
        raise InputError(
            f"{what} takes the arguments {signature}, it is called with ({arguments}): {error}{hint}"
        ) from None


Check: TypeAlias = Callable[[Any, str], Any]
"""Checks a function's result, and returns the tree of tensors to return; its second argument names it in messages."""


def trace_model(
    model: Module,
    function: Callable[..., Any],
    specs: Mapping[str, Spec],
    check: Check,
    assigning: Assigning,
    untrained: Collection[str] = (),
) -> TracedModel:
    """Traces a function of a model and named inputs.

    Args:
        model: Declares the parameters; the function receives a copy with tensors in their place.
        function: The function to trace, called as `function(model, **inputs)`.
        specs: The inputs.
        check: Checks the result.
        assigning: How assignments to buffers are treated: as updates of the function, ignored, or as errors.
        untrained: Parameters that may be assigned to as well, since no optimizer updates them.

    Raises:
        InputError: The function takes other arguments.
        ParameterError: It adds or removes parameters.
        TensorgradError: It does something else that is invalid.
    """
    check_function(function, "tg.compile for the loss, and evaluate,")
    what = f"{function_name(function)}()"
    _check_names(function, specs, what)
    parameters, buffers, declared = model.named_parameters(), model.named_buffers(), declarations(model)

    def program(bound: Module, values: list[Traced], tensors: list[Any]) -> Any:
        assert bound._binding is not None and bound._binding.origin is not None
        origin, binding = bound._binding.origin, bound._binding.values
        frozen = {path: binding[id(parameters[path])] for path in parameters if path in untrained}
        states = {path: State(value, path, what, assigning, "parameter") for path, value in frozen.items()}
        states |= {path: State(value, path, what, assigning) for path, value in zip(buffers, values, strict=True)}
        bound = bind(origin, {**binding, **{id(declared[path]): state for path, state in states.items()}})
        result = function(argument_of(bound), **dict(zip(specs, tensors, strict=True)))
        where = f"{user_line()}: {what} must leave the model's parameters as they are"
        where += ", and set its buffers by assign" if states else ""
        check_bound(bound, where)
        check_same(declared, declarations(model), where)
        check_attributes(bound, f"{user_line()}: {what}")
        changed = {path: state for path, state in states.items() if state.is_assigned and assigning == "kept"}
        updated.extend(changed)
        return check(result, what), list(changed.values())

    # The same tree with specifications in place of parameters.
    _, rebuild = trees.flatten(model)
    like = rebuild([Spec(parameter.shape, parameter.dtype) for parameter in parameters.values()])
    buffer_specs = [Spec(buffer.shape, buffer.dtype) for buffer in buffers.values()]
    slots = [Slot(path, Role.PARAMETER) for path in parameters] + [Slot(path, Role.STATE) for path in buffers]
    slots += [Slot(name, Role.INPUT) for name in specs]
    updated: list[str] = []
    ranges: list[IndexRanges] = []
    arguments = [like, buffer_specs, [spec.fixed() for spec in specs.values()]]
    traced, (positions, _) = trace_call(function_name(function), program, arguments, slots, ranges.append)
    outputs = unique([Slot(name or "output", Role.OUTPUT) for name in trees.paths(positions)])
    traced.properties["res_attrs"] = slots_attribute([*outputs, *(Slot(path, Role.UPDATE) for path in updated)])
    order, rebuild = trees.flatten(positions)
    return TracedModel(traced, rebuild([outputs[position].name for position in order]), ranges[0])


def unreached(function: FuncOp, trained: Mapping[str, int], result: int = 0) -> list[str]:
    """Returns the parameters that no derivative of a result of a function reaches.

    Derivatives go through floats, and end at ops that have none: comparisons, roundings, positions of extremes.

    Args:
        function: The traced function.
        trained: The argument index of each parameter, by path.
        result: The index of the result.
    """
    pending = [return_of(function).operands[result]]
    reached: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in reached:
            continue
        reached.add(value)
        if isinstance(value.owner, Operation) and type(value.owner) not in NO_DERIVATIVE:
            operands = [operand for op in value.owner.walk() for operand in op.operands]
            pending += [operand for operand in operands if is_float(numpy_dtype(operand.type))]
    return [path for path, place in trained.items() if function.body.block.args[place] not in reached]


@dataclass(frozen=True)
class TracedModel:
    """A traced function.

    Attributes:
        function: The function in the IR.
        results: The tree of its results, with their names for leaves.
        ranges: The ranges it requires of inputs that are used as indices.
    """

    function: FuncOp
    results: Any
    ranges: IndexRanges


@dataclass(frozen=True)
class Scored:
    """A loss and its metrics, as a tree whose first leaves are the loss, or one loss for each part by name."""

    loss: Any
    metrics: Any


def checked_loss(result: Any, what: str) -> Scored:
    """Requires a float scalar, or a dict of one for each part of the model; or a pair of that and a dict of metrics.

    Raises:
        TraceError, ShapeError, DTypeError: It is not; names the line that computed it.
    """
    metrics: Any = None
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        result, metrics = result
    if isinstance(result, dict) and result:
        return Scored({name: _loss(value, f"{what}[{name!r}]") for name, value in result.items()}, metrics)
    return Scored(_loss(result, what), metrics)


def _loss(result: Any, what: str) -> Any:
    """Returns the loss, after checking that it is a float scalar."""
    if trees.children(result) is not None:
        advice = "; metrics go into a dict: return loss, {'name': ...}" if isinstance(result, tuple) else ""
        advice = "; is a return missing?" if result is None else advice
        raise TraceError(f"{what} must return one float scalar, got {type(result).__name__}{advice}")
    tensor = as_result(result, what)
    where = user_line()
    if isinstance(tensor, Traced) and isinstance(tensor.value.owner, Operation):
        where = line_of(tensor.value.owner.location)
    if tensor.shape != ():
        raise ShapeError(
            f"{what} must return a float scalar, got shape {tensor.shape}; take tg.mean or tg.sum", location=where
        )
    if not is_float(tensor.dtype):
        raise DTypeError(f"{what} must return a float scalar, got {SHORT[tensor.dtype]}", location=where)
    return tensor


def checked_results(result: Any, what: str) -> Any:
    """Requires at least one tensor.

    Raises:
        TraceError: There is none.
    """
    if not trees.flatten(result)[0]:
        raise TraceError(f"{what} returned no tensor{'; is a return missing?' if result is None else ''}")
    return result


def chosen_captures(patterns: Sequence[str]) -> Check:
    """Returns a check that returns the values given to `tg.capture` instead of the function's result.

    Args:
        patterns: Names, or patterns such as `blocks.*`.
    """

    def check(result: Any, what: str) -> dict[str, Any]:
        names = captured_names()
        for pattern in patterns:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                there = ", ".join(names) or "none"
                raise InputError(f"{what} captures nothing called {pattern!r}; there is {there}")
        chosen = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        return {name: captured(name) for name in chosen}

    return check
