"""Exceptions of the runtime; every tensorgrad exception derives from `TensorgradError`."""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
import warnings
from functools import lru_cache
from types import FrameType
from typing import Any

from tensorgrad.runtime.printable import printable as printable

_LIBRARY = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_is_users: dict[str, bool] = {}
"""Whether a file is user code, by file name."""


@lru_cache(maxsize=1 << 11)
def is_library(file: str) -> bool:
    """Returns whether a file belongs to the standard library."""
    real = os.path.realpath(file)
    return (real.startswith(_LIBRARY) and "site-packages" not in real) or file.startswith("<frozen")


def user_frame(skipped: int = 0) -> FrameType | None:
    """Returns the innermost frame outside tensorgrad and the standard library.

    Args:
        skipped: How many callers are known to be inside tensorgrad; checking a frame takes time.
    """
    frame: FrameType | None = sys._getframe(1 + skipped)
    while frame is not None:
        file = frame.f_code.co_filename
        is_users = _is_users.get(file)
        if is_users is None:
            is_users = _of_user(frame, file)
        if is_users:
            return frame
        frame = frame.f_back
    return None


def warn_user(message: str, category: type[Warning]) -> None:
    """Gives a warning, as `warnings.warn` does, at the user's line, whatever calls are in between."""
    frame = user_frame(1)
    file, line = ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    scope: dict[str, Any] = {} if frame is None else frame.f_globals
    warnings.warn_explicit(
        message, category, file, line, scope.get("__name__"), scope.setdefault("__warningregistry__", {})
    )


def _of_user(frame: FrameType, file: str) -> bool:
    module = frame.f_globals.get("__name__") or ""
    result = module != "tensorgrad" and not module.startswith("tensorgrad.") and not is_library(file)
    if not file.startswith("<"):  # code compiled from text, such as "<string>", has no owner
        _is_users[file] = result
    return result


MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    struct.error,
)
"""The exceptions that reading unvalidated, malformed data may raise."""


class TensorgradError(Exception):
    """The base class of all tensorgrad exceptions. Its text escapes what a terminal would obey in names from files."""

    def __str__(self) -> str:
        return printable(super().__str__(), lines=True)


class UserError(TensorgradError):
    """An error in what the user passed. It reads `file:line: message`, with the user's line that caused it.

    Args:
        message: What is wrong, or another error, which this one replaces and whose location it takes.
        location: The line as `file:line`; by default the innermost one outside tensorgrad and the standard library.

    Attributes:
        location: The location, or an empty string.
        message: What is wrong, without the location.
        layer: The layer of a model in whose call it was raised, with which the message starts, or an empty string.
    """

    layer: str = ""

    def __init__(self, message: object = "", *rest: object, location: str | None = None):
        if isinstance(message, UserError):
            self.layer = message.layer
            message, location = message.message, location or message.location
        self.location = _user_line() if location is None else location
        # A message that quotes an error of the same line, or names the line itself, must not repeat it.
        self.message = str(message).replace(f"{self.location}: ", "") if self.location else str(message)
        super().__init__(self.message, *rest)

    def __str__(self) -> str:
        return printable(f"{self.location}: {self.message}" if self.location else self.message, lines=True)

    def name_layer(self, layer: str) -> None:
        """Starts the message with a layer, unless it starts with an inner one already."""
        if not self.layer:
            self.layer, self.message = layer, f"{layer}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.message, self.location)


def _restored(kind: type[UserError], message: str, location: str) -> UserError:
    return kind(message, location=location)


def _user_line() -> str:
    frame = user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class ProgramError(TensorgradError):
    """A malformed program, or one of another format version."""


class FormulaError(TensorgradError, ValueError):
    """A host formula with syntax that is not allowed."""


class TargetError(TensorgradError, ValueError):
    """An unknown target profile or field, or a program that exceeds what a target supports."""


class DeviceError(TensorgradError, RuntimeError):
    """A device error: failed validation, out of memory, or device loss."""


class DeviceLostError(DeviceError):
    """A device was lost with everything on it: its driver was reset, or it was removed."""


class DeviceLostWarning(UserWarning):
    """A device was lost and the program continues on another; names the old one and the number of repeated steps."""


class GroupError(TensorgradError, RuntimeError):
    """A process group failed: a process did not join, ended, or disagrees with the others; names the rank."""


class NoAdapterError(DeviceError):
    """No adapter was found; says what to install."""


class InputError(UserError, ValueError):
    """An unknown or missing input, or one of the wrong shape or dtype; names the argument."""


class OptionError(UserError, ValueError):
    """A setting that is out of range or unknown: a learning rate that is NaN, an unknown device, …"""


class ExecutionError(TensorgradError):
    """IR that the numpy interpreter can't run, or illegal behavior such as an out-of-bounds access; names the op."""


class CompilerError(TensorgradError, RuntimeError):
    """A pass crashed or produced invalid IR: a compiler bug; names a file that reproduces it."""


class NumericsError(CompilerError):
    """A pass changed a value, or a derivative is wrong, found by running the module; names the result and the line."""


class ArgumentError(UserError, TypeError):
    """A call with an unknown name or too many positional arguments, or without a required argument."""
