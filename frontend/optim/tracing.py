"""Traces an optimizer into update functions, one for each way in which parameters are updated."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region

from tensorgrad.dialects.short_floats import SHORT_FLOATS
from tensorgrad.dialects.signature import Role, Slot, slots_attribute
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, tensor
from tensorgrad.errors import OptionError
from tensorgrad.ops.elementwise.arithmetic import where
from tensorgrad.ops.promotion import cast
from tensorgrad.optim.scalars import ATOM, HostScalar, Hyper, Scalars
from tensorgrad.optim.transforms import ChainStage, Optimizer
from tensorgrad.passes.tensors.updates import Update, mark
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.location import user_location
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import as_result, new_argument, sanitized, tracing, value_in


def add_updates(
    module: ModuleOp,
    optimizer: Optimizer,
    parameters: Mapping[str, Spec],
    number: int = 0,
    host: str = "",
    among: Mapping[str, Spec] | None = None,
) -> None:
    """Adds the update functions of parameters to a module.

    Parameters with the same settings share one if their shapes and dtypes are the same, or if the update is
    elementwise.

    Args:
        module: The module to add the functions to.
        optimizer: The optimizer.
        parameters: The parameters' shapes and dtypes, by path.
        number: The number of the optimizer in the module.
        host: The prefix of the names under which the host passes settings.
        among: All parameters that the optimizer's patterns select from; the same by default.

    Raises:
        OptionError: A pattern matches no parameter, or an update function doesn't return a pair of a tensor of the
            parameter's shape and a dict of states.
        TensorgradError: An update function can't be traced.
    """
    names_in_use = {op.sym_name.data for op in module.ops if isinstance(op, FuncOp)}
    shapes = {path: parameter.shape for path, parameter in (among or parameters).items()}
    optimizer.check_parameters({path: shapes[path] for path in parameters}, shapes)
    for place, stage in enumerate(optimizer.stages(shapes, host)):
        for update, paths in _versions(stage, parameters):
            base = update.function.sym_name.data
            names = (base if count == 0 else f"{base}_{count}" for count in range(len(names_in_use) + 1))
            name = next(name for name in names if name not in names_in_use)
            names_in_use.add(name)
            update.function.properties["sym_name"] = StringAttr(name)
            mark(update.function, paths, place, number, stage.batched)
            module.body.block.add_op(update.function)


def _versions(stage: ChainStage, parameters: Mapping[str, Spec]) -> list[tuple[Update, list[str]]]:
    """Returns the update functions of a stage, each with the parameters that it updates."""
    exact: dict[Hashable, tuple[Update, list[str]]] = {}
    versions: dict[Hashable, tuple[Update, list[str]]] = {}
    for path, table in stage.tables.items():
        if path not in parameters:
            continue
        element, shape = _computed(parameters[path]), parameters[path].shape
        key = (shape, element, *table.items())
        if key not in exact:
            update = Update(_traced(stage, shape, element, table))
            # An elementwise function is the same for every shape.
            same = key if update.structure is None else update.structure
            exact[key] = versions.setdefault(same, (update, []))
        exact[key][1].append(path)
    return list(versions.values())


def _computed(parameter: Spec) -> Attribute:
    """Returns the element type of state and arithmetic: half floats are updated in f32."""
    element = ELEMENT_TYPES[parameter.dtype]
    return f32 if element in SHORT_FLOATS.values() else element


def _traced(stage: ChainStage, shape: tuple[int, ...], element: Attribute, table: Mapping[str, str | float]) -> FuncOp:
    """Returns the update function for parameters of a shape."""
    with tracing(stage.label) as trace:
        gradient, parameter = (new_argument(trace, tensor(shape, element)) for _ in range(2))
        scalars = Scalars(trace, element)
        scalars.slots = [Slot("gradient", Role.GRADIENT), Slot("parameter", Role.PARAMETER)]
        step = scalars.named("step")
        values = {
            name: HostScalar(number, ATOM, scalars) if isinstance(number, str) else number
            for name, number in table.items()
        }
        state = _states(stage.label, stage.init(parameter), scalars, step)
        update = stage.update(gradient, dict(state), parameter, step, Hyper(stage.label, values, scalars))
        tensors = _results(stage.label, update, shape, state)
        results = [value_in(trace, cast(output, parameter.dtype)) for output in tensors]
    returned = func.ReturnOp(*results)
    returned.location = user_location()
    trace.block.add_op(returned)
    kinds = FunctionType.from_lists([value.type for value in trace.block.args], [value.type for value in results])
    func_op = FuncOp(sanitized(stage.label), kinds, Region(trace.block), "private")
    func_op.location = user_location()
    func_op.properties["arg_attrs"] = slots_attribute(scalars.slots)
    result = Slot("parameter", Role.UPDATE) if stage.is_last else Slot("gradient", Role.GRADIENT)
    states = [Slot(f"{stage.label}.{key}", Role.UPDATE) for key in state]
    func_op.properties["res_attrs"] = slots_attribute([result, *states])
    return func_op


def _states(label: str, first: Any, scalars: Scalars, step: HostScalar) -> dict[str, Tensor]:
    """Returns the state before the step, by name: arguments that are initially zero.

    Raises:
        OptionError: `init` didn't return a dict of tensors.
    """
    if not isinstance(first, Mapping):
        raise OptionError(f"{label}: init() must return a dict of tensors, got {type(first).__name__}")
    results: dict[str, Tensor] = {}
    for key, value in first.items():
        start = as_result(value, f"{label}: init()")
        scalars.slots.append(Slot(f"{label}.{key}", Role.STATE))
        results[key] = new_argument(scalars.trace, tensor(start.shape, scalars.element))
        if not isinstance(start, Array) or np.asarray(start).any():
            # State starts as zeros, so the first step uses the initial value instead.
            results[key] = where(step == 1, start, results[key])
    return results


def _results(label: str, result: Any, shape: tuple[int, ...], state: Mapping[str, Tensor]) -> list[Tensor]:
    """Returns the next gradient or parameter, and the states in order.

    Raises:
        OptionError: `update` returned something else, or other shapes.
    """
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        raise OptionError(f"{label}: update() must return a tensor and a dict of states, got {result!r}")
    value, states = result
    if states.keys() != state.keys():
        raise OptionError(
            f"{label}: update() must return the states that init() does, {', '.join(state) or 'none'}; got "
            f"{', '.join(states) or 'none'}"
        )
    shapes = [shape, *(array.shape for array in state.values())]
    tensors = [as_result(output, f"{label}: update()") for output in (value, *(states[key] for key in state))]
    for actual, extents in zip(tensors, shapes, strict=True):
        if actual.shape != extents:
            raise OptionError(
                f"{label}: update() must return a tensor of shape {list(extents)}, got {list(actual.shape)}"
            )
    return tensors
