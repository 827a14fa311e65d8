"""Optimizers of eager tensors: `step()` updates parameters by the gradients that a backward pass accumulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.func import FuncOp

import tensorgrad as tg
from tensorgrad.dialects.signature import Role
from tensorgrad.errors import GradientError, InputError, OptionError
from tensorgrad.nn.module import Module
from tensorgrad.optim.optimizers import adagrad, adam, adamw, lion, rmsprop, sgd
from tensorgrad.optim.packed_update import PackedUpdate, packed_update, rows_of, state_specs, traced_update
from tensorgrad.optim.settings import HostSettings
from tensorgrad.optim.transforms import Optimizer
from tensorgrad.runtime.backend import check_inputs
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.tensor import Array

STEP = "training/step"


class Stepper:
    """An optimizer that updates tensors in place on each call of `step()`.

    Args:
        parameters: The tensors: a list, a dict by name, or an initialized model. The optimizer's `decay=` and `groups=`
            select by these names; those of a list are "0", "1", ….
        optimizer: The update rule: one of `tg.optim`.

    Raises:
        OptionError: There are no parameters, or `optimizer` is not an optimizer.
        GradientError: A parameter requires no gradient.
    """

    def __init__(self, parameters: Any, optimizer: Optimizer):
        if not isinstance(optimizer, Optimizer):
            raise OptionError(f"Stepper takes an optimizer such as tg.optim.adam(1e-3), not {optimizer!r}")
        self._parameters = _named(parameters)
        self._optimizer = optimizer
        optimizer.check_parameters({name: parameter.shape for name, parameter in self._parameters.items()})
        names = tuple(self._parameters)
        traced = self._traced(names)
        self._specs = state_specs(traced)
        self._rows = rows_of(self._specs)
        self._state: list[Array] | None = None  # one tensor for each row, from the first step on
        self._updates: dict[tuple[str, ...], PackedUpdate] = {names: packed_update(traced, self._rows)}
        self._settings = HostSettings(optimizer.host_settings(), self._updates[names].scalars.names)
        self.step_count = 0

    @property
    def learning_rate(self) -> float:
        """The learning rate, or the rate that its schedule scales; it can be set."""
        return next(iter(self._settings.values.values()))

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.set(learning_rate=rate)

    def set(self, group: str | None = None, **settings: float) -> None:
        """Changes settings, such as `learning_rate` and `weight_decay`; see `Training.set`.

        Raises:
            OptionError: There is no such setting, or it is out of range. Nothing is changed then.
        """
        self._settings.set(self._optimizer.name, group, settings)

    def zero_grad(self) -> None:
        """Resets the gradients, so that the next backward pass starts from zero."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def step(self) -> None:
        """Updates the parameters that have a gradient, in place.

        Raises:
            GradientError: No parameter has one.
        """
        gradients = {
            name: gradient for name, parameter in self._parameters.items() if (gradient := parameter.grad) is not None
        }
        if not gradients:
            raise GradientError("step: no parameter has a gradient; call loss.backward() first")
        update = self._update(tuple(gradients))
        scalars = update.scalars_at(self._settings.at(self.step_count + 1), self.step_count + 1)
        if self._state is None:
            self._state = self._from_arrays({})
        device = next(iter(self._parameters.values())).tensor_device
        assert device is not None
        tensors = {Role.GRADIENT: gradients, Role.PARAMETER: self._parameters}
        changed = [self._parameters[name] for name in update.parameters] + [self._state[row] for row in update.rows]
        read = [tensors[role][name] for role, name in update.read]
        device.change(update.function, changed, [*read, *scalars], update.function)
        device.synchronize()
        self.step_count += 1

    def _from_arrays(self, states: Mapping[str, np.ndarray]) -> list[Array]:
        """Returns a tensor for each row of state; missing states are zero."""
        device = cast("tg.DeviceName", next(iter(self._parameters.values())).device)
        rows = [tg.tensor(row.joined(states), row.dtype, device=device) for row in self._rows]
        return cast("list[Array]", rows)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Returns the optimizer's state, its settings and the step count by name, as in `Training.state_dict`."""
        settings = {f"training/{label}": np.array(value) for label, value in self._settings.labeled().items()}
        rows = zip(self._rows, [] if self._state is None else self._state, strict=False)
        state = {name: one for row, tensor in rows for name, one in row.split(tensor.numpy()).items()}
        return {**state, **settings, STEP: np.array(self.step_count)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a result of `state_dict`.

        Raises:
            InputError: A name is unknown or missing, or a shape differs. Nothing is changed then.
            OptionError: A setting is out of range.
        """
        given = dict(state)
        if STEP not in given:
            raise InputError(f"load_state_dict: {STEP!r} is missing")
        steps = int(np.asarray(given.pop(STEP)))
        settings = {name: float(np.asarray(given.pop(name))) for name in list(given) if name.startswith("training/")}
        slots = {name: slot_of(name, spec) for name, spec in self._specs.items()}
        arrays = check_inputs(slots, given, what="state", partial=True)
        new = self._settings.load({name.removeprefix("training/"): value for name, value in settings.items()})
        self._settings.values = new
        self._state = self._from_arrays(arrays)
        self.step_count = steps

    def _update(self, names: tuple[str, ...]) -> PackedUpdate:
        """Returns the update of some of the parameters, traced once."""
        result = self._updates.get(names)
        if result is None:
            result = self._updates[names] = packed_update(self._traced(names), self._rows)
        return result

    def _traced(self, names: tuple[str, ...]) -> FuncOp:
        specs = {name: Spec(self._parameters[name].shape, self._parameters[name].dtype) for name in names}
        return traced_update(specs, self._optimizer)


def _named(parameters: Any) -> dict[str, Array]:
    """Returns parameters by name.

    Raises:
        OptionError: There are none, or one is not a tensor.
        GradientError: One requires no gradient.
    """
    if isinstance(parameters, Module):
        parameters = parameters.named_parameters()
    if isinstance(parameters, Array) or not isinstance(parameters, Mapping | Sequence):
        parameters = list(parameters) if hasattr(parameters, "__next__") else [parameters]
    pairs = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters)
    results: dict[str, Array] = {str(name): one for name, one in pairs}
    if not results:
        raise OptionError("an optimizer takes parameters: there are none")
    for name, result in results.items():
        if not isinstance(result, Array):
            raise OptionError(
                f"an optimizer takes tensors, parameter {name!r} is {result!r}; "
                "model.initialized(seed, device=...) has tensors for what a model declares"
            )
        if not result.requires_grad:
            raise GradientError(f"an optimizer takes tensors with requires_grad=True, {name!r} has not")
    devices = {one.device for one in results.values()}
    if len(devices) > 1:
        raise OptionError(f"an optimizer takes parameters of one device, not of {', '.join(devices)}")
    return results


class SGD(Stepper):
    """`tg.optim.sgd` for eager tensors: `SGD(model.parameters(), lr=0.1, momentum=0.9)`."""

    def __init__(self, parameters: Any, lr: Any, **settings: Any):
        super().__init__(parameters, sgd(lr, **settings))


class Adam(Stepper):
    """`tg.optim.adam` for eager tensors: `Adam(model.parameters(), lr=1e-3)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-3, **settings: Any):
        super().__init__(parameters, adam(lr, **settings))


class AdamW(Stepper):
    """`tg.optim.adamw` for eager tensors: `AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-3, **settings: Any):
        super().__init__(parameters, adamw(lr, **settings))


class RMSprop(Stepper):
    """`tg.optim.rmsprop` for eager tensors: `RMSprop(model.parameters(), lr=1e-2)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-2, **settings: Any):
        super().__init__(parameters, rmsprop(lr, **settings))


class Adagrad(Stepper):
    """`tg.optim.adagrad` for eager tensors: `Adagrad(model.parameters(), lr=1e-2)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-2, **settings: Any):
        super().__init__(parameters, adagrad(lr, **settings))


class Lion(Stepper):
    """`tg.optim.lion` for eager tensors: `Lion(model.parameters(), lr=1e-4)`."""

    def __init__(self, parameters: Any, lr: Any = 1e-4, **settings: Any):
        super().__init__(parameters, lion(lr, **settings))
