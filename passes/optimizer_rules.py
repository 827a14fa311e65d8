"""How an optimizer updates one parameter, or several that lie in a row: what passes write it with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of


@dataclass(frozen=True)
class Update:
    """What one parameter's update is written with.

    Attributes:
        builder: Appends to the function, at the gradient's location.
        parameter: The parameter's value before the step.
        gradient: The loss' derivative by it.
        state: The values of its state before the step, in the order of the rule's prefixes.
        coefficients: Constants of the program, and scalars that the host computed for this step.
        decays: Whether this parameter decays.
    """

    builder: TensorBuilder
    parameter: SSAValue
    gradient: SSAValue
    state: tuple[SSAValue, ...]
    coefficients: Mapping[str, float | SSAValue]
    decays: bool

    def decayed_gradient(self, weight_decay: str) -> SSAValue:
        """The gradient of the loss and of `weight_decay / 2` times the square of the parameter."""
        if not self.decays:
            return self.gradient
        return self.builder.add(self.gradient, self.scaled(self.parameter, weight_decay))

    def running_mean(self, mean: SSAValue, value: SSAValue, kept: str, new: str) -> SSAValue:
        """`kept * mean + new * value`: a running mean, where these add up to 1."""
        return self.builder.add(self.scaled(mean, kept), self.scaled(value, new))

    def scaled(self, value: SSAValue, name: str) -> SSAValue:
        """A value times a coefficient."""
        coefficient = self.coefficients[name]
        if isinstance(coefficient, SSAValue):
            return self.builder.mul(value, self.full(name))
        return self.builder.scale(value, coefficient)

    def full(self, name: str) -> SSAValue:
        """A coefficient, repeated to the parameter's shape."""
        coefficient = self.coefficients[name]
        if not isinstance(coefficient, SSAValue):
            return self.builder.full_like(self.parameter, coefficient)
        value = self.builder.cast(coefficient, element_of(self.parameter))
        return self.builder.broadcast(value, shape_of(self.parameter), [])


@dataclass(frozen=True)
class Step:
    """What an optimizer makes of one parameter.

    Attributes:
        parameter: Where the step starts: its value before, which may have been shrunk.
        step: What is taken off it.
        state: The next values of its state, in the order of the rule's prefixes.
    """

    parameter: SSAValue
    step: SSAValue
    state: Sequence[SSAValue] = ()


Write: TypeAlias = Callable[[Update], Step]


@dataclass(frozen=True)
class Rule:
    """An optimizer, to `append_updates`.

    Attributes:
        states: The prefixes of the state that each parameter has, all of its shape and zero at first.
        coefficients: The formula of each number that it takes, in terms of `step` (1 at first) and of settings.
        write: Gives one parameter's step, and the next values of its state.
        of_decay: Those of the coefficients that parameters that don't decay do without.
    """

    states: tuple[str, ...]
    coefficients: Mapping[str, str]
    write: Write
    of_decay: tuple[str, ...] = ()


def check_option(pass_name: str, option: str, value: float, *, below: float = math.inf) -> None:
    """Requires a number from 0 to just under `below`.

    Raises:
        DiagnosticException: It is not; names the option.
    """
    if not 0 <= value < below:
        limit = "finite" if below == math.inf else f"less than {below:g}"
        raise DiagnosticException(f"{pass_name}: {option} must be at least 0 and {limit}, got {value}")
