"""The pass `append-adafactor`."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.binary import MaximumOp
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.tensors.optimizer import OptimizerPass, Rule, Step, Update


@dataclass(frozen=True)
class AppendAdafactorPass(OptimizerPass):
    """Replaces a function's gradients by updates of its parameters: Adafactor (Shazeer and Stern, 2018), as in PyTorch.

    Expects a function whose results of role `gradient` bear the names of arguments of role `parameter`, such as `grad`
    leaves behind. Guarantees: the other results stay, in front; behind them comes a result of role `update` for each
    parameter and for its state. Of a parameter with several axes, that is the mean of the squares of the gradients over
    its last axis, `adafactor.row/<parameter>`, and over the one before, `adafactor.column/<parameter>`; of others
    `adafactor.v/<parameter>`. Decay shrinks the parameter and stays out of the gradient. Updates need norms of each
    parameter, so that each has ops of its own. `OptimizerPass` has further options.

    Attributes:
        beta2_decay: The exponent of the step that says how much of the means is new: at most 0.
        eps1: The least divisor of a gradient; absent for the distance from 1 to the next float.
        eps2: The least norm of a parameter, per element, that the step is taken in proportion to.
        d: The largest norm of an update, per element.
    """

    name = "append-adafactor"

    beta2_decay: float = -0.8
    eps1: float | None = None
    eps2: float = 1e-3
    d: float = 1.0

    def rule(self) -> Rule:
        self.check("eps2", "d")
        if self.eps1 is not None:
            self.check("eps1")
        for group in self.each_group():
            decay = group.values.get("beta2_decay", self.beta2_decay)
            if not -math.inf < decay <= 0:
                raise DiagnosticException(f"{self.name}: beta2_decay must be at most 0 and finite, got {decay}")
            if group.values.get("d", self.d) < 1:
                raise DiagnosticException(f"{self.name}: d must be at least 1, got {group.values.get('d', self.d)}")
        numbers = {
            "adafactor.new": "step ** beta2_decay",
            "adafactor.rate": "min(learning_rate, 1 / sqrt(step))",
            "adafactor.kept": "1 - learning_rate * weight_decay",
            "adafactor.eps2": "eps2",
            "adafactor.d": "d",
        }
        if self.eps1 is not None:
            numbers["adafactor.eps1"] = "eps1"
        states = ("adafactor.row", "adafactor.column", "adafactor.v")
        return Rule(states, numbers, self._write, ("adafactor.kept",), _state_shape, _alone)

    def _write(self, update: Update) -> Step:
        b, gradient, shape = update.builder, update.gradient, update.extents
        least = self._least(update)
        squares = b.mul(gradient, gradient)
        if len(shape) > 1:
            row = _mean(b, squares, len(shape) - 1)
            column = _mean(b, squares, len(shape) - 2)
            state = [self._moved(update, one, new) for one, new in zip(update.state, (row, column), strict=True)]
            outer = b.mul(_repeated(b, state[0], shape), _repeated(b, state[1], shape))
            whole = _at_least(b, _mean(b, state[0], len(shape) - 2), least)
            variance = b.div(outer, _repeated(b, whole, shape))
        else:
            state = [self._moved(update, update.state[0], squares)]
            variance = state[0]
        square = b.mul(least, least) if isinstance(least, SSAValue) else least * least
        step = b.div(gradient, b.unary(SqrtOp, _at_least(b, variance, square)))
        size = _scalar(b, update, "adafactor.rate")
        size = b.mul(size, b.binary(MaximumOp, _per_element(b, update.parameter), _scalar(b, update, "adafactor.eps2")))
        over = _at_least(b, b.div(_per_element(b, step), _scalar(b, update, "adafactor.d")), 1.0)
        step = b.mul(step, b.broadcast(b.div(size, over), shape, []))
        parameter = update.scaled(update.parameter, "adafactor.kept") if update.decays else update.parameter
        return Step(parameter, step, state)

    def _least(self, update: Update) -> float | SSAValue:
        """The least divisor."""
        if self.eps1 is not None:
            return _scalar(update.builder, update, "adafactor.eps1")
        return 2.0**-52 if element_of(update.gradient) == f64 else 2.0**-23

    def _moved(self, update: Update, mean: SSAValue, value: SSAValue) -> SSAValue:
        """A running mean, with a new value."""
        b = update.builder
        new = b.broadcast(_scalar(b, update, "adafactor.new"), shape_of(mean), [])
        return b.add(mean, b.mul(b.sub(value, mean), new))


def _state_shape(prefix: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Means over an axis keep it, of one element."""
    if len(shape) < 2 or prefix == "adafactor.v":
        return shape if len(shape) < 2 and prefix == "adafactor.v" else None
    return (*shape[:-1], 1) if prefix == "adafactor.row" else (*shape[:-2], 1, shape[-1])


def _alone(name: str, shape: tuple[int, ...]) -> Hashable:
    """Each parameter has norms of its own."""
    return name


def _scalar(b: TensorBuilder, update: Update, name: str) -> SSAValue:
    """A coefficient as a scalar of the gradient's element type."""
    coefficient, element = update.coefficients[name], element_of(update.gradient)
    return (
        b.cast(coefficient, element) if isinstance(coefficient, SSAValue) else b.full(tensor((), element), coefficient)
    )


def _mean(b: TensorBuilder, x: SSAValue, axis: int) -> SSAValue:
    """The mean over an axis, which stays, of one element."""
    shape = shape_of(x)
    mean = b.scale(b.sum(x, [axis]), 1 / shape[axis])
    return b.reshape(mean, [1 if i == axis else extent for i, extent in enumerate(shape)])


def _repeated(b: TensorBuilder, x: SSAValue, extents: tuple[int, ...]) -> SSAValue:
    """A value repeated along the axes where it has one element."""
    kept = [i for i, extent in enumerate(shape_of(x)) if extent != 1]
    flat = b.reshape(x, [extents[i] for i in kept])
    return b.broadcast(flat, extents, kept)


def _at_least(b: TensorBuilder, x: SSAValue, least: float | SSAValue) -> SSAValue:
    """The larger of an element and a number; NaN stays NaN."""
    bound = b.broadcast(least, shape_of(x), []) if isinstance(least, SSAValue) else b.full_like(x, least)
    return b.binary(MaximumOp, x, bound)


def _per_element(b: TensorBuilder, x: SSAValue) -> SSAValue:
    """The root of the mean of the squares of all elements."""
    shape = shape_of(x)
    # First over the last axis, row by row side by side.
    squares = b.sum(b.mul(x, x), [len(shape) - 1]) if shape else b.mul(x, x)
    total = b.sum(squares, range(len(shape) - 1)) if len(shape) > 1 else squares
    return b.unary(SqrtOp, b.scale(total, 1 / math.prod(shape)))
