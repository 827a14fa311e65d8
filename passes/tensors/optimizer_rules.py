"""How an optimizer updates one parameter, or several that lie in a row: what passes write it with."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.passes.tensors.packing import columns_of, up_to


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
        extents: The parameter's shape; of several in a row, that of each.
        offsets: Where each parameter of the row starts.
    """

    builder: TensorBuilder
    parameter: SSAValue
    gradient: SSAValue
    state: tuple[SSAValue, ...]
    coefficients: Mapping[str, float | SSAValue]
    decays: bool
    extents: tuple[int, ...]
    offsets: tuple[int, ...] = (0,)

    def stacked(self, value: SSAValue) -> SSAValue:
        """A value of the parameter's shape, or of the row of them, with an axis of parameters in front."""
        b, count, size = self.builder, len(self.offsets), math.prod(self.extents)
        if count > 1:
            stride = self.offsets[1]
            zero = b.zeros((), element_of(value))
            value = b.pad(value, zero, [0], [count * stride - shape_of(value)[0]], [0])
            value = b.slice(b.reshape(value, [count, stride]), [0, 0], [count, size], [1, 1])
        return b.reshape(value, [count, *self.extents])

    def unstacked(self, value: SSAValue) -> SSAValue:
        """What `stacked` was given."""
        b, count, size = self.builder, len(self.offsets), math.prod(self.extents)
        if count == 1:
            return b.reshape(value, self.extents)
        stride, zero = self.offsets[1], b.zeros((), element_of(value))
        wide = b.pad(b.reshape(value, [count, size]), zero, [0, 0], [0, stride - size], [0, 0])
        return b.slice(b.reshape(wide, [count * stride]), [0], [self.offsets[-1] + size], [1])

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
        return self.number(name, self.parameter)

    def number(self, name: str, like: SSAValue) -> SSAValue:
        """A coefficient, repeated to a value's shape."""
        coefficient = self.coefficients[name]
        if not isinstance(coefficient, SSAValue):
            return self.builder.full_like(like, coefficient)
        return self.builder.broadcast(self.builder.cast(coefficient, element_of(like)), shape_of(like), [])


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


def _same_shape(prefix: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of state that each element of a parameter has."""
    return shape


def _all_alike(name: str, shape: tuple[int, ...]) -> Hashable:
    """What all parameters have in common where elements are updated one by one."""
    return ()


@dataclass(frozen=True)
class Rule:
    """An optimizer, to `append_updates`.

    Attributes:
        states: The prefixes of the state that each parameter has, zero at first.
        coefficients: The formula of each number that it takes, in terms of `step` (1 at first) and of settings.
        write: Gives one parameter's step, and the next values of its state.
        of_decay: Those of the coefficients that parameters that don't decay do without.
        state_shape: The shape of the state of a prefix, for a parameter's; `None` where it has no such state.
        alike: What parameters have in common that one call of `write` may update as a row, by name and shape.
        in_rows: Whether parameters are to be updated in rows even where no norm of all gradients is needed.
    """

    states: tuple[str, ...]
    coefficients: Mapping[str, str]
    write: Write
    of_decay: tuple[str, ...] = ()
    state_shape: Callable[[str, tuple[int, ...]], tuple[int, ...] | None] = _same_shape
    alike: Callable[[str, tuple[int, ...]], Hashable] = _all_alike
    in_rows: bool = False


def check_option(pass_name: str, option: str, value: float, *, below: float = math.inf) -> None:
    """Requires a number from 0 to just under `below`.

    Raises:
        DiagnosticException: It is not; names the option.
    """
    if not 0 <= value < below:
        limit = "finite" if below == math.inf else f"less than {below:g}"
        raise DiagnosticException(f"{pass_name}: {option} must be at least 0 and {limit}, got {value}")


def row_of_squares(builder: TensorBuilder, row: SSAValue, columns: int, wide: Attribute) -> SSAValue:
    """The sum of the squares of a row, added up some at a time."""
    several = builder.reshape(row, [shape_of(row)[0] // columns, columns])
    sums = builder.sum(builder.mul(several, several), [1])
    return builder.cast(builder.sum(sums, [0]), wide)


def sum_of_squares(builder: TensorBuilder, value: SSAValue, wide: Attribute) -> SSAValue:
    """The sum of the squares of a tensor: in two steps, where it is large."""
    size = math.prod(shape_of(value))
    flat = builder.reshape(value, [size])
    columns = columns_of(size)
    if size <= columns:
        return builder.cast(builder.sum(builder.mul(flat, flat), [0]), wide)
    zero = builder.zeros((), element_of(value))
    row = builder.pad(flat, zero, [0], [up_to(size, columns) - size], [0])
    return row_of_squares(builder, row, columns, wide)
