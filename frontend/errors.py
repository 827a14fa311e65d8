"""The exceptions a user can meet. Each names the user's own line or argument, and is raised before anything changed."""

from __future__ import annotations

from collections.abc import Callable

from tensorgrad.runtime.errors import (
    ArgumentError,
    CompilerError,
    DeviceError,
    DeviceLostError,
    DeviceLostWarning,
    ExecutionError,
    FormulaError,
    GroupError,
    InputError,
    NoAdapterError,
    NumericsError,
    ProgramError,
    TargetError,
    TensorgradError,
    UserError,
)


class ShapeError(UserError, ValueError):
    """Shapes that don't fit an op."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor has not."""


class IndexingError(ShapeError, IndexError):
    """A key of `x[key]` that doesn't fit the tensor's shape."""


class DTypeError(UserError, TypeError):
    """Element types that don't fit an op, or values that don't fit an element type."""


class TraceError(UserError, RuntimeError):
    """A traced value used where only a concrete one can be, or outside its trace; or a compile inside a trace."""


class ParameterError(UserError, ValueError):
    """A model whose parameters can't be found, or changed when they must not."""


class OptionError(UserError, ValueError):
    """A setting out of its range: a learning rate that is NaN, an unknown device, …"""


class GradientError(UserError, RuntimeError):
    """A backward pass, or a change in place, that would give a wrong gradient or none."""


class DivergenceError(UserError, ArithmeticError):
    """A training whose loss or parameters are NaN or infinite; see `on_nan` of `tg.fit`."""


class UnknownNameError(TensorgradError, AttributeError):
    """A name that a module or an object of ours has not.

    Whether there is such an attribute is asked far more often than the answer is read, so what the name may be meant
    for is looked up when the message is.

    Args:
        title: What lacks it, in words.
        name: The name.
        hint: Returns what it may be meant for, as the end of the message.
    """

    def __init__(self, title: str, name: str, hint: Callable[[], str]):
        super().__init__(name=name)
        self._title = title
        self._hint = hint

    def __str__(self) -> str:
        return f"{self._title} has no attribute {self.name!r}{self._hint()}"


class UnusedParameterWarning(UserWarning):
    """A loss that doesn't depend on a parameter that it is to train: only its decay, if it has one, changes it."""


class FrozenWarning(UserWarning):
    """A model that was frozen, or not any more, after a program was compiled that goes on as it was."""


class PartialStateWarning(UserWarning):
    """A part of a model's state that was set while the rest stays: parameters without running statistics, say."""


class EmptyAxisWarning(UserWarning, RuntimeWarning):
    """A mean, variance or deviation of too few elements, which is NaN or infinite."""


__all__ = [
    "ArgumentError",
    "AxisError",
    "CompilerError",
    "DTypeError",
    "DeviceError",
    "DeviceLostError",
    "DeviceLostWarning",
    "DivergenceError",
    "EmptyAxisWarning",
    "ExecutionError",
    "FormulaError",
    "FrozenWarning",
    "GradientError",
    "GroupError",
    "IndexingError",
    "InputError",
    "NoAdapterError",
    "NumericsError",
    "OptionError",
    "ParameterError",
    "PartialStateWarning",
    "ProgramError",
    "ShapeError",
    "TargetError",
    "TensorgradError",
    "TraceError",
    "UnknownNameError",
    "UnusedParameterWarning",
    "UserError",
]
