"""Optimizers of eager tensors: `step()` updates parameters by the gradients that a backward pass has left in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region

import tensorgrad as tg
from tensorgrad.dialects.signature import Slot, arguments_of, results_of, slots_attribute
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import type_of
from tensorgrad.errors import GradientError, InputError, OptionError
from tensorgrad.nn.module import Module
from tensorgrad.optim.optimizers import adagrad, adam, adamw, lion, rmsprop, sgd
from tensorgrad.optim.settings import HostSettings
from tensorgrad.optim.tracing import add_updates
from tensorgrad.optim.transforms import Optimizer
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass
from tensorgrad.runtime.backend import ArraySlot, ScalarInputs, check_inputs
from tensorgrad.runtime.formula import Formula
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import SHORT, Spec
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array

STEP = "training/step"
GRADIENT = "gradient/"


@dataclass(frozen=True)
class _Update:
    """The update of some parameters, traced.

    Attributes:
        function: Takes parameters, gradients, states and scalars, by the names of its slots; gives what is new.
        arguments: Its arguments.
        sources: For each, whether it is a parameter, a gradient, state or a scalar, and which.
        specs: The shapes and dtypes of these: state may have others than its parameter.
        results: Its results.
        scalars: What computes its scalars.
    """

    function: FuncOp
    arguments: Sequence[Slot]
    sources: Sequence[tuple[str, str]]
    specs: Sequence[Spec]
    results: Sequence[Slot]
    scalars: ScalarInputs


class Stepper:
    """An optimizer that updates tensors in place, each time that `step()` is called.

    Args:
        parameters: The tensors: a list, a dict by name, or an initialized model. Names are what `decay=` and `groups=`
            of the optimizer choose by; those of a list are "0", "1", ….
        optimizer: What updates them: one of `tg.optim`.

    Raises:
        OptionError: There are no parameters, or what is given is no optimizer.
        GradientError: One requires no gradient.
    """

    def __init__(self, parameters: Any, optimizer: Optimizer):
        if not isinstance(optimizer, Optimizer):
            raise OptionError(
                f"{user_line()}: Stepper takes an optimizer such as tg.optim.adam(1e-3), not {optimizer!r}"
            )
        self._parameters = _named(parameters)
        self._optimizer = optimizer
        optimizer.check_parameters({name: one.shape for name, one in self._parameters.items()})
        self._state: dict[str, Array] = {}
        self._updates: dict[tuple[str, ...], _Update] = {}
        self.step_count = 0
        update = self._update(tuple(self._parameters))
        used = {name for slot in update.arguments if slot.formula for name in Formula(slot.formula).names}
        self._settings = HostSettings(optimizer.host_settings(), used)

    @property
    def learning_rate(self) -> float:
        """The learning rate, or what its schedule scales; it can be set."""
        return next(iter(self._settings.values.values()))

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.set(learning_rate=rate)

    def set(self, group: str | None = None, **settings: float) -> None:
        """Changes settings, such as `learning_rate` and `weight_decay`; see `Training.set`.

        Raises:
            OptionError: There is no such setting, or it is out of range. Then nothing has changed.
        """
        self._settings.set(self._optimizer.name, group, settings)

    def zero_grad(self) -> None:
        """Lets the gradients go, so that the next backward pass begins anew."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def step(self) -> None:
        """Updates the parameters that have a gradient, in place.

        Raises:
            GradientError: None has.
        """
        gradients = {name: gradient for name, one in self._parameters.items() if (gradient := one.grad) is not None}
        if not gradients:
            raise GradientError(f"{user_line()}: step: no parameter has a gradient; call loss.backward() before")
        update = self._update(tuple(gradients))
        settings = self._settings.at(self.step_count + 1)
        given = {**settings, "step": float(self.step_count + 1)}
        scalars = update.scalars.evaluate({name: given[name] for name in update.scalars.names})
        values = {
            "parameter": self._parameters,
            "gradient": gradients,
            "state": self._state,
            "scalar": {name: Array(value) for name, value in scalars.items()},
        }
        operands = [
            _zeros(spec) if (found := values[role].get(name)) is None else found
            for (role, name), spec in zip(update.sources, update.specs, strict=True)
        ]
        home = next(iter(self._parameters.values())).home
        assert home is not None
        with tg.no_grad():
            found = home.call(update.function, operands, update.function)
            new = {slot.name: value for slot, value in zip(update.results, found, strict=True)}
            home.replace({one: new.pop(name) for name, one in self._parameters.items() if name in new})
        self._state.update(new)
        home.synchronize()
        self.step_count += 1

    def state_dict(self) -> dict[str, np.ndarray]:
        """Returns the optimizer's state, its settings and the step count by name, as `Training.state_dict` has them."""
        settings = {f"training/{label}": np.array(value) for label, value in self._settings.labeled().items()}
        state = {name: value.numpy() for name, value in self._state.items()}
        return {**state, **settings, STEP: np.array(self.step_count)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what `state_dict` gave.

        Raises:
            InputError: A name is unknown or missing, or a shape differs. Then nothing has changed.
            OptionError: A setting is out of range.
        """
        given = dict(state)
        if STEP not in given:
            raise InputError(f"{user_line()}: load_state_dict: {STEP!r} is missing")
        steps = int(np.asarray(given.pop(STEP)))
        settings = {name: float(np.asarray(given.pop(name))) for name in list(given) if name.startswith("training/")}
        update = self._update(tuple(self._parameters))
        pairs = zip(update.arguments, update.specs, strict=True)
        slots = {slot.name: slot_of(slot.name, spec) for slot, spec in pairs if slot.role == "state"}
        arrays = check_inputs(slots, given, what="state", partial=True)
        new = self._settings.load({name.removeprefix("training/"): value for name, value in settings.items()})
        self._settings.values = new
        device = cast("tg.DeviceName", next(iter(self._parameters.values())).device)
        made = {name: tg.tensor(one, one.dtype, device=device) for name, one in arrays.items()}
        self._state = cast("dict[str, Array]", made)
        self.step_count = steps

    def _update(self, names: tuple[str, ...]) -> _Update:
        """Returns the update of some of the parameters, traced once."""
        if names not in self._updates:
            specs = {name: Spec(self._parameters[name].shape, self._parameters[name].dtype) for name in names}
            self._updates[names] = _traced(specs, self._optimizer)
        return self._updates[names]


def _zeros(spec: Spec) -> Array:
    """Returns what state is before the first step."""
    return Array(np.broadcast_to(np.zeros((), spec.dtype), spec.shape))


def _traced(parameters: Mapping[str, Spec], optimizer: Optimizer) -> _Update:
    """Returns the update of parameters by gradients that are given."""
    types = [tensor(one.shape, ELEMENT_TYPES[one.dtype]) for one in parameters.values()]
    block = Block(arg_types=[*types, *types])
    gradients = list(block.args[len(types) :])
    block.add_op(func.ReturnOp(*gradients))
    function = FuncOp("step", FunctionType.from_lists([*types, *types], types), Region(block))
    slots = [Slot(name, "parameter") for name in parameters] + [Slot(GRADIENT + name, "input") for name in parameters]
    function.properties["arg_attrs"] = slots_attribute(slots)
    function.properties["res_attrs"] = slots_attribute([Slot(name, "gradient") for name in parameters])
    module = ModuleOp([function])
    add_updates(module, optimizer, parameters)
    for one in (PackUpdatesPass("step"), AppendUpdatesPass("step")):
        one.apply(Context(), module)
    arguments = arguments_of(function)
    types_of = [type_of(argument) for argument in function.body.block.args]
    specs = [Spec(one.get_shape(), numpy_dtype(one)) for one in types_of]
    scalars = [
        ArraySlot(one.name, (), SHORT[spec.dtype], one.formula)
        for one, spec in zip(arguments, specs, strict=True)
        if one.role == "scalar"
    ]
    function.detach()
    sources = [
        ("gradient", one.name.removeprefix(GRADIENT)) if one.role == "input" else (one.role, one.name)
        for one in arguments
    ]
    return _Update(function, arguments, sources, specs, results_of(function), ScalarInputs(scalars))


def _named(parameters: Any) -> dict[str, Array]:
    """Returns parameters by name.

    Raises:
        OptionError: There are none, or one is no tensor.
        GradientError: One requires no gradient.
    """
    if isinstance(parameters, Module):
        parameters = parameters.named_parameters()
    if isinstance(parameters, Array) or not isinstance(parameters, Mapping | Sequence):
        parameters = list(parameters) if hasattr(parameters, "__next__") else [parameters]
    pairs = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters)
    found: dict[str, Array] = {str(name): one for name, one in pairs}
    if not found:
        raise OptionError(f"{user_line()}: an optimizer takes parameters: there are none")
    for name, one in found.items():
        if not isinstance(one, Array):
            raise OptionError(
                f"{user_line()}: an optimizer takes tensors, parameter {name!r} is {one!r}; "
                "model.initialized(seed, device=...) has tensors for what a model declares"
            )
        if not one.requires_grad:
            raise GradientError(f"{user_line()}: an optimizer takes tensors with requires_grad=True, {name!r} has not")
    homes = {one.device for one in found.values()}
    if len(homes) > 1:
        raise OptionError(f"{user_line()}: an optimizer takes parameters of one device, not of {', '.join(homes)}")
    return found


class SGD(Stepper):
    """`tg.optim.sgd` of eager tensors: `SGD(model.parameters(), lr=0.1, momentum=0.9)`."""

    def __init__(self, parameters: Any, lr: Any, **settings: Any):
        super().__init__(parameters, sgd(lr, **settings))


class Adam(Stepper):
    """`tg.optim.adam` of eager tensors: `Adam(model.parameters(), lr=1e-3)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-3, **settings: Any):
        super().__init__(parameters, adam(lr, **settings))


class AdamW(Stepper):
    """`tg.optim.adamw` of eager tensors: `AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-3, **settings: Any):
        super().__init__(parameters, adamw(lr, **settings))


class RMSprop(Stepper):
    """`tg.optim.rmsprop` of eager tensors: `RMSprop(model.parameters(), lr=1e-2)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-2, **settings: Any):
        super().__init__(parameters, rmsprop(lr, **settings))


class Adagrad(Stepper):
    """`tg.optim.adagrad` of eager tensors: `Adagrad(model.parameters(), lr=1e-2)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-2, **settings: Any):
        super().__init__(parameters, adagrad(lr, **settings))


class Lion(Stepper):
    """`tg.optim.lion` of eager tensors: `Lion(model.parameters(), lr=1e-4)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-4, **settings: Any):
        super().__init__(parameters, lion(lr, **settings))
