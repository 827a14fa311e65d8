"""Optimizers of eager tensors: `step()` updates parameters by the gradients that a backward pass accumulated."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.func import FuncOp

import tensorgrad as tg
from tensorgrad.dialects.signature import Role
from tensorgrad.errors import GradientError, InputError, OptionError, ParameterError
from tensorgrad.optim.averaging import averages_of, checked_averages
from tensorgrad.optim.optimizers import adagrad, adam, adamw, lion, rmsprop, sgd
from tensorgrad.optim.packed_update import PackedUpdate, packed_update, rows_of, state_specs, traced_update
from tensorgrad.optim.parameter_groups import LR, ParameterGroup, are_groups, by_name, grouped
from tensorgrad.optim.settings import HostSettings
from tensorgrad.optim.transforms import Optimizer
from tensorgrad.runtime.inputs import check_inputs
from tensorgrad.surface.calls import public
from tensorgrad.tracing.arrays import slot_of
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.grad_mode import no_grad
from tensorgrad.tracing.tensor import Array

STEP = "training/step"


class Stepper:
    """An optimizer that updates tensors in place on each call of `step()`.

    Tensors that require no gradient, such as frozen parameters, are skipped, and have no state.

    Args:
        parameters: The tensors: a list, a dict by name, or an initialized model. The optimizer's `decay=` and `groups=`
            select by these names; those of a list are "0", "1", ….
        optimizer: The update rule: one of `tg.optim`.

    Attributes:
        param_groups: The parameters with their settings, which can be changed: one group, or for `Adam` and its like
            those that they were given.
        step_count: The number of steps.

    Raises:
        OptionError: There are no parameters, or `optimizer` is not an optimizer.
        GradientError: No parameter requires a gradient, or one is a constant, which can't.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.Stepper([x], tg.optim.adamw(0.1, clip_norm=1.0)).step()
        >>> x.detach()
        Array([ 0.89900005, -1.898     ], dtype=f32, device='numpy')
    """

    def __init__(self, parameters: Any, optimizer: Optimizer):
        if are_groups(parameters):
            raise OptionError(
                "Stepper takes parameters in groups from its optimizer, as in "
                'tg.optim.adam(1e-3, groups={"*.bias": {"weight_decay": 0.0}}); tg.optim.Adam and its like take dicts'
            )
        self._set_up(parameters, optimizer, [None])

    def _set_up(self, parameters: Any, optimizer: Optimizer, patterns: Sequence[str | None]) -> None:
        """Initializes it, with a group of parameters for each pattern; `None` is one of all."""
        if not isinstance(optimizer, Optimizer):
            raise OptionError(f"Stepper takes an optimizer such as tg.optim.adam(1e-3), not {optimizer!r}")
        self._all = named = _named(parameters)
        self._parameters = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
        self._frozen = {name: parameter for name, parameter in named.items() if not parameter.requires_grad}
        self._optimizer = optimizer
        names = tuple(self._parameters)
        traced = self._traced(names)
        self._specs = state_specs(traced)
        self._rows = rows_of(self._specs)
        self._state: list[Array] | None = None  # one tensor for each row, from the first step on
        self._updates: dict[tuple[str, ...], PackedUpdate] = {names: packed_update(traced, self._rows)}
        used = self._updates[names].scalars.names
        if self._frozen and optimizer.groups:  # a group of them has its settings, too
            whole = self._traced(tuple(named))
            used = packed_update(whole, rows_of(state_specs(whole))).scalars.names
        self._settings = HostSettings(optimizer.host_settings(), used)
        self.param_groups = [
            ParameterGroup(optimizer, pattern, _matching(named, pattern), self._settings) for pattern in patterns
        ]
        self.step_count = 0
        self._are_averages = False

    @property
    def lr(self) -> float:
        """The learning rate, or the rate that its schedule scales. If there are groups, that of the first is read, and
        those of all are set.
        """
        return self.param_groups[0][LR]

    @lr.setter
    def lr(self, rate: float) -> None:
        for group in self.param_groups:
            group[LR] = rate

    @property
    def learning_rate(self) -> float:
        """The same as `lr`."""
        return self.lr

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.lr = rate

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
            GradientError: No parameter has one, or one that was skipped now requires one.
            ParameterError: This is inside of `averaged`.
        """
        if self._are_averages:
            raise ParameterError("step: the parameters are averages here; train after `with optimizer.averaged():`")
        thawed = [name for name, parameter in self._frozen.items() if parameter.requires_grad]
        if thawed:
            raise GradientError(
                f"step: parameter {thawed[0]!r} required no gradient when the optimizer was made, and now it does: "
                "make another optimizer, which updates it too"
            )
        gradients = {
            name: gradient for name, parameter in self._parameters.items() if (gradient := parameter.grad) is not None
        }
        if not gradients:
            raise GradientError("step: no parameter has a gradient; call loss.backward() first")
        update = self._update(tuple(gradients))
        scalars = update.scalars_at(self._settings.at(self.step_count + 1), self.step_count + 1)
        if self._state is None:
            self._state = self._from_arrays(self._initial([name for name in self._parameters if name not in gradients]))
        device = next(iter(self._parameters.values())).tensor_device
        assert device is not None
        tensors = {Role.GRADIENT: gradients, Role.PARAMETER: self._parameters}
        changed = [self._parameters[name] for name in update.parameters] + [self._state[row] for row in update.rows]
        read = [tensors[role][name] for role, name in update.read]
        device.change(update.function, changed, [*read, *scalars], update.function)
        device.synchronize()
        self.step_count += 1

    def averages(self) -> dict[str, np.ndarray]:
        """Returns the averages of the parameters that `tg.optim.weight_ema` keeps, by name.

        Raises:
            OptionError: The optimizer keeps none.
        """
        names = checked_averages(self._specs)
        return averages_of(self._values(), names if self.step_count else {}, lambda _: self.state_dict())

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Sets the parameters to their averages inside the context, to evaluate them.

        At its end the parameters are as before, so a step inside is an error.

        Raises:
            OptionError: The optimizer keeps none.
        """
        averages, before, were_averages = self.averages(), self._values(), self._are_averages
        try:
            self._assign(averages)
            self._are_averages = True
            yield
        finally:
            self._assign(before)
            self._are_averages = were_averages

    def _values(self) -> dict[str, np.ndarray]:
        return {name: parameter.numpy() for name, parameter in self._parameters.items()}

    def _assign(self, values: Mapping[str, np.ndarray]) -> None:
        with no_grad():
            for name, value in values.items():
                self._parameters[name].copy_(value)

    def _initial(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns the initial state of parameters that the first step doesn't update; it makes that of the others."""
        values = {name: tg.array(self._parameters[name].numpy()) for name in names}
        stages = self._optimizer.stages({name: parameter.shape for name, parameter in self._all.items()})
        return {
            f"{stage.label}.{key}/{name}": np.asarray(state)
            for stage in stages
            for name in stage.tables
            if name in values
            for key, state in stage.init(values[name]).items()
        }

    def _from_arrays(self, states: Mapping[str, np.ndarray]) -> list[Array]:
        """Returns a tensor for each row of state; missing states are zero."""
        device = cast("tg.DeviceName", next(iter(self._parameters.values())).device)
        rows = [tg.tensor(row.joined(states), row.dtype, device=device) for row in self._rows]
        return cast("list[Array]", rows)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Returns the optimizer's state, its settings and the step count by name, as in `Training.state_dict`."""
        settings = {f"training/{label}": np.array(value) for label, value in self._settings.labeled().items()}
        rows = zip(self._rows, [] if self._state is None else self._state, strict=False)
        state = {name: array for row, tensor in rows for name, array in row.split(tensor.numpy()).items()}
        return {**state, **settings, STEP: np.array(self.step_count)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a result of `state_dict`.

        Raises:
            InputError: A name is unknown or missing, or a shape differs. Nothing is changed then.
            OptionError: A setting is out of range.
        """
        values = dict(state)
        if STEP not in values:
            raise InputError(f"load_state_dict: {STEP!r} is missing")
        steps = int(np.asarray(values.pop(STEP)))
        settings = {name: float(np.asarray(values.pop(name))) for name in list(values) if name.startswith("training/")}
        slots = {name: slot_of(name, spec) for name, spec in self._specs.items()}
        arrays = check_inputs(slots, values, what="state", partial=True)
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
        specs = {name: Spec(parameter.shape, parameter.dtype) for name, parameter in self._all.items()}
        return traced_update({name: specs[name] for name in names}, self._optimizer, specs)


def _named(parameters: Any) -> dict[str, Array]:
    """Returns parameters by name.

    Raises:
        OptionError: There are none, or one is not a tensor.
        GradientError: None requires a gradient, or one is a constant.
    """
    results: dict[str, Array] = by_name(parameters)
    if not results:
        raise OptionError("an optimizer takes parameters: there are none")
    for name, result in results.items():
        if not isinstance(result, Array):
            raise OptionError(
                f"an optimizer takes tensors, parameter {name!r} is {type(result).__name__}; "
                "model.initialized(seed, device=...) has tensors for what a model declares"
            )
        if result.live is None:
            raise GradientError(
                f"an optimizer takes tensors on a device, and parameter {name!r} is a constant on the host: "
                'model.initialized(0, device="cpu") has such tensors, and '
                'tg.tensor(x, device="cpu", requires_grad=True) makes one'
            )
    first: dict[int, str] = {}
    for name, result in results.items():
        if first.setdefault(id(result), name) != name:
            raise OptionError(
                f"an optimizer takes each tensor once: parameters {first[id(result)]!r} and {name!r} are one"
            )
    if not any(result.requires_grad for result in results.values()):
        raise GradientError(
            "an optimizer takes tensors with requires_grad=True, and none of these has it: tg.tensor takes it as an "
            "argument, and model.trainable(...) sets it for parameters that model.freeze(...) has frozen"
        )
    devices = {parameter.device for parameter in results.values()}
    if len(devices) > 1:
        raise OptionError(f"an optimizer takes parameters of one device, not of {', '.join(devices)}")
    return results


def _matching(parameters: Mapping[str, Array], pattern: str | None) -> list[Array]:
    return [
        parameter for name, parameter in parameters.items() if pattern is None or fnmatch.fnmatchcase(name, pattern)
    ]


class _Named(Stepper):
    """An optimizer of eager tensors that is called as in PyTorch.

    Args:
        parameters: As for `Stepper`; or a list of groups with settings of their own, `[{"params": model.body, "lr":
            1e-4}, {"params": model.head}]`, whose parameters' names start with the group's number.
        lr: The learning rate, or one of `tg.optim.schedules`, which scales that of every group.
        **settings: Those of the optimizer in `tg.optim` with the same name.

    Raises:
        OptionError: There are no parameters, or a setting is out of range.
        ArgumentError: A setting is unknown.
        GradientError: No parameter requires a gradient, or one is a constant, which can't.
    """

    _rule: ClassVar[Callable[..., Optimizer]]

    def __init__(self, parameters: Any, lr: Any, **settings: Any):
        if not are_groups(parameters):
            super().__init__(parameters, type(self)._rule(lr, **settings))
            return
        named, optimizer = grouped(parameters, type(self)._rule, lr, settings)
        self._set_up(named, optimizer, [f"{number}.*" for number in range(len(parameters))])


class SGD(_Named):
    """`tg.optim.sgd` for eager tensors: `SGD(model.parameters(), lr=0.1, momentum=0.9)`.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.SGD([x], lr=0.1).step()
        >>> x.detach()
        Array([ 0.8, -1.6], dtype=f32, device='numpy')
    """

    _rule = staticmethod(public(sgd))


class Adam(_Named):
    """`tg.optim.adam` for eager tensors: `Adam(model.parameters(), lr=1e-3)`.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.Adam([x], lr=0.1).step()
        >>> x.detach()
        Array([ 0.90000004, -1.9       ], dtype=f32, device='numpy')
    """

    _rule = staticmethod(public(adam))

    def __init__(self, parameters: Any, lr: Any = 1e-3, **settings: Any):
        super().__init__(parameters, lr, **settings)


class AdamW(_Named):
    """`tg.optim.adamw` for eager tensors: `AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)`.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.AdamW([x], lr=0.1).step()
        >>> x.detach()
        Array([ 0.89900005, -1.898     ], dtype=f32, device='numpy')
    """

    _rule = staticmethod(public(adamw))

    def __init__(self, parameters: Any, lr: Any = 1e-3, **settings: Any):
        super().__init__(parameters, lr, **settings)


class RMSprop(_Named):
    """`tg.optim.rmsprop` for eager tensors: `RMSprop(model.parameters(), lr=1e-2)`.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.RMSprop([x], lr=0.01).step()
        >>> x.detach()
        Array([ 0.9, -1.9], dtype=f32, device='numpy')
    """

    _rule = staticmethod(public(rmsprop))

    def __init__(self, parameters: Any, lr: Any = 1e-2, **settings: Any):
        super().__init__(parameters, lr, **settings)


class Adagrad(_Named):
    """`tg.optim.adagrad` for eager tensors: `Adagrad(model.parameters(), lr=1e-2)`.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.Adagrad([x], lr=0.1).step()
        >>> x.detach()
        Array([ 0.9, -1.9], dtype=f32, device='numpy')
    """

    _rule = staticmethod(public(adagrad))

    def __init__(self, parameters: Any, lr: Any = 1e-2, **settings: Any):
        super().__init__(parameters, lr, **settings)


class Lion(_Named):
    """`tg.optim.lion` for eager tensors: `Lion(model.parameters(), lr=1e-4)`.

    Example:
        >>> x = tg.tensor([1.0, -2.0], device="numpy", requires_grad=True)
        >>> (x * x).sum().backward()
        >>> tg.optim.Lion([x], lr=0.1).step()
        >>> x.detach()
        Array([ 0.9, -1.9], dtype=f32, device='numpy')
    """

    _rule = staticmethod(public(lion))

    def __init__(self, parameters: Any, lr: Any = 1e-4, **settings: Any):
        super().__init__(parameters, lr, **settings)
