"""What the optimizer passes share: appending an update rule to a function that returns gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import LocationAttr, ModuleOp, f16, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.passes.functions import find_function, return_of, set_returned, set_signature


@dataclass(frozen=True)
class Update:
    """What one parameter's update is written with.

    Attributes:
        builder: Appends to the function, at the gradient's location.
        parameter: The parameter's value before the step.
        gradient: The loss' derivative by it.
        state: The values of its state before the step, in the order of the rule's prefixes.
        scalars: What the host computed for this step.
    """

    builder: TensorBuilder
    parameter: SSAValue
    gradient: SSAValue
    state: tuple[SSAValue, ...]
    scalars: Mapping[str, SSAValue]

    def scalar(self, name: str) -> SSAValue:
        """A scalar, repeated to the parameter's shape."""
        value = self.builder.cast(self.scalars[name], element_of(self.parameter))
        return self.builder.broadcast(value, shape_of(self.parameter), [])


Write: TypeAlias = Callable[[Update], Sequence[SSAValue]]


@dataclass(frozen=True)
class Rule:
    """An optimizer, to `append_updates`.

    Attributes:
        states: The prefixes of the state that each parameter has, all of its shape and zero at first.
        scalars: The formula of each scalar, in terms of `step` (1 at first) and `learning_rate`.
        write: Gives one parameter's next value, and those of its state.
    """

    states: tuple[str, ...]
    scalars: Mapping[str, str]
    write: Write


@dataclass(frozen=True)
class _Pair:
    """A parameter and its gradient."""

    name: str
    parameter: SSAValue
    gradient: SSAValue

    @property
    def stored(self) -> Attribute:
        return element_of(self.parameter)

    @property
    def computed(self) -> Attribute:
        """The element type of state and arithmetic: half floats are updated in f32."""
        return f32 if self.stored == f16 else self.stored


def append_updates(module: ModuleOp, function_name: str | None, pass_name: str, rule: Rule) -> None:
    """Replaces a function's gradients by updates of the parameters they belong to.

    New arguments come in groups, each in the order of the gradients: all state of one prefix, then that of the next,
    then the scalars. The updates come in the same order, behind the other results: parameters first, then state.

    Args:
        module: Holds the function.
        function_name: Its name, or `None` where it is the only one.
        pass_name: What messages call the pass.
        rule: The optimizer.

    Raises:
        DiagnosticException: There is no gradient, one without its parameter, or an argument of a new one's name.
    """
    function = find_function(module, function_name)
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    pairs = _pairs(function, f"{pass_name}: @{function.sym_name.data}")
    new_slots = [Slot(f"{prefix}/{pair.name}", "state") for prefix in rule.states for pair in pairs]
    new_slots += [Slot(name, "scalar", formula) for name, formula in rule.scalars.items()]
    taken = {(slot.role, slot.name) for slot in slots} & {(slot.role, slot.name) for slot in new_slots}
    if taken:
        raise DiagnosticException(f"{pass_name}: @{function.sym_name.data} has a {' '.join(min(taken))} already")
    wide = f64 if any(pair.stored == f64 for pair in pairs) else f32
    kinds = [tensor(shape_of(pair.parameter), pair.computed) for _ in rule.states for pair in pairs]
    kinds += [tensor((), wide) for _ in rule.scalars]
    added = [block.insert_arg(kind, len(block.args)) for kind in kinds]
    scalars = dict(zip(rule.scalars, added[len(rule.states) * len(pairs) :], strict=True))
    builder = TensorBuilder(block, before=return_of(function))
    written: list[list[SSAValue]] = []
    for i, pair in enumerate(pairs):
        state = tuple(added[group * len(pairs) + i] for group in range(len(rule.states)))
        written.append(_written(builder, function, rule.write, pair, state, scalars))
    names = [[pair.name, *(f"{prefix}/{pair.name}" for prefix in rule.states)] for pair in pairs]
    kept = [entry for entry in entries if entry[0].role != "gradient"]
    for group in range(1 + len(rule.states)):
        kept += [(Slot(names[i][group], "update"), written[i][group]) for i in range(len(pairs))]
    set_returned(function, [value for _, value in kept])
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in kept])


def _pairs(function: FuncOp, where: str) -> list[_Pair]:
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters: dict[str, SSAValue] = {slot.name: value for slot, value in arguments if slot.role == "parameter"}
    results = zip(results_of(function), return_of(function).operands, strict=True)
    gradients = {slot.name: value for slot, value in results if slot.role == "gradient"}
    if not gradients:
        raise DiagnosticException(f"{where} returns no gradient; run grad first")
    for name, gradient in gradients.items():
        if name not in parameters:
            raise DiagnosticException(f"{where} has a gradient but no parameter {name!r}")
        if parameters[name].type != gradient.type:
            raise DiagnosticException(
                f"{where}: parameter {name!r} is {parameters[name].type}, its gradient {gradient.type}"
            )
    return [_Pair(name, parameters[name], gradient) for name, gradient in gradients.items()]


def _written(
    builder: TensorBuilder,
    function: FuncOp,
    write: Write,
    pair: _Pair,
    state: tuple[SSAValue, ...],
    scalars: Mapping[str, SSAValue],
) -> list[SSAValue]:
    owner = pair.gradient.owner
    location: LocationAttr = owner.location if isinstance(owner, Operation) else function.location
    builder.location = location
    parameter, gradient = builder.cast(pair.parameter, pair.computed), builder.cast(pair.gradient, pair.computed)
    first, *rest = write(Update(builder, parameter, gradient, state, scalars))
    return [builder.cast(first, pair.stored), *rest]


def check_option(pass_name: str, option: str, value: float, *, below: float = math.inf) -> None:
    """Requires a number from 0 to just under `below`.

    Raises:
        DiagnosticException: It is not; names the option.
    """
    if not 0 <= value < below:
        limit = "finite" if below == math.inf else f"less than {below:g}"
        raise DiagnosticException(f"{pass_name}: {option} must be at least 0 and {limit}, got {value}")
