"""The exceptions that users may see. Each names the user's line or argument, and is raised before anything changes."""

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
    OptionError,
    ProgramError,
    TargetError,
    TensorgradError,
    UserError,
)
from tensorgrad.runtime.errors import printable as printable


class ShapeError(UserError, ValueError):
    """Shapes that don't fit an op."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor doesn't have."""


class IndexingError(ShapeError, IndexError):
    """A key of `x[key]` that doesn't fit the tensor's shape."""


class DTypeError(UserError, TypeError):
    """Element types that don't fit an op, or values that don't fit an element type."""


class TraceError(UserError, RuntimeError):
    """A traced value used where a concrete one is required, or outside of its trace; or compiling inside a trace."""


class ParameterError(UserError, ValueError):
    """A model whose parameters can't be found, or have changed when they must not."""


class GradientError(UserError, RuntimeError):
    """A backward pass or in-place change that would give a wrong gradient, or none."""


class DivergenceError(UserError, ArithmeticError):
    """A training whose loss or parameters are NaN or infinite; see `on_nan` of `tg.fit`."""


class UnknownNameError(TensorgradError, AttributeError):
    """An attribute that a module or a tensorgrad object doesn't have.

    Most of these errors are caught unread, by `hasattr` for example, so the hint is only computed with the message.

    Args:
        title: A description of the object that lacks the attribute.
        name: The attribute's name.
        hint: Returns a suggestion of what was meant, which ends the message.
    """

    def __init__(self, title: str, name: str, hint: Callable[[], str]):
        super().__init__(name=name)
        self._title = title
        self._hint = hint

    def __str__(self) -> str:
        return f"{self._title} has no attribute {self.name!r}{self._hint()}"


class UnusedParameterWarning(UserWarning):
    """A loss doesn't depend on a parameter that it is to train, which only weight decay, if any, changes."""


class BroadcastWarning(UserWarning):
    """An op of a loss or a jitted function on all pairs of elements of `(n, 1)` and `(n,)`, most likely a mistake."""


class PaddingWarning(UserWarning):
    """A loss depends on positions that are padded, as `tg.dim` declares them, most likely by mistake."""


class RepeatedDrawWarning(UserWarning):
    """A compiled function drew from a global generator while it was traced; it repeats those numbers in every call."""


class FrozenWarning(UserWarning):
    """A model was frozen or unfrozen after compilation, which does not affect the compiled program."""


class PartialStateWarning(UserWarning):
    """Only a part of a model's state was set, such as parameters without running statistics; the rest is unchanged."""


class EmptyAxisWarning(UserWarning, RuntimeWarning):
    """A mean, variance or standard deviation of too few elements, which is NaN or infinite."""


__all__ = [
    "ArgumentError",
    "AxisError",
    "BroadcastWarning",
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
    "PaddingWarning",
    "ParameterError",
    "PartialStateWarning",
    "ProgramError",
    "RepeatedDrawWarning",
    "ShapeError",
    "TargetError",
    "TensorgradError",
    "TraceError",
    "UnknownNameError",
    "UnusedParameterWarning",
    "UserError",
]
