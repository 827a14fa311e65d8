"""The exceptions a user can meet. Each names the user's own line or argument, and is raised before anything changed."""

from __future__ import annotations

from tensorgrad.runtime.errors import (
    ArgumentError,
    CompilerError,
    DeviceError,
    InputError,
    NoAdapterError,
    NumericsError,
    ProgramError,
    TensorgradError,
    UserError,
)


class ShapeError(UserError, ValueError):
    """Shapes that don't fit an op."""


class DTypeError(UserError, TypeError):
    """Element types that don't fit an op, or values that don't fit an element type."""


class TraceError(UserError, RuntimeError):
    """A traced value used where only a concrete one can be, or outside its trace; or a compile inside a trace."""


class ParameterError(UserError, ValueError):
    """A model whose parameters can't be found, or changed when they must not."""


class OptionError(UserError, ValueError):
    """A setting out of its range: a learning rate that is NaN, an unknown device, …"""


class DivergenceError(UserError, ArithmeticError):
    """A training whose loss or parameters are NaN or infinite; see `on_nan` of `tg.fit`."""


class UnusedParameterWarning(UserWarning):
    """A loss that doesn't depend on a parameter that it is to train: only its decay, if it has one, changes it."""


class FrozenWarning(UserWarning):
    """A model that was frozen, or not any more, after a program was compiled that goes on as it was."""


class PartialStateWarning(UserWarning):
    """A part of a model's state that was set while the rest stays: parameters without running statistics, say."""


__all__ = [
    "ArgumentError",
    "CompilerError",
    "DTypeError",
    "DeviceError",
    "DivergenceError",
    "FrozenWarning",
    "InputError",
    "NoAdapterError",
    "NumericsError",
    "OptionError",
    "ParameterError",
    "PartialStateWarning",
    "ProgramError",
    "ShapeError",
    "TensorgradError",
    "TraceError",
    "UnusedParameterWarning",
    "UserError",
]
