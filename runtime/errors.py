"""Exceptions of the runtime; every exception of tensorgrad derives from `TensorgradError`."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType
from typing import Any

_LIBRARY = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_in_library: dict[str, bool] = {}


_is_users: dict[str, bool] = {}
"""Whether code is the user's, by file."""


def _is_library(file: str) -> bool:
    """Returns whether a file is of the standard library."""
    found = _in_library.get(file)
    if found is None:
        real = os.path.realpath(file)
        inside = real.startswith(_LIBRARY) and "site-packages" not in real
        found = _in_library[file] = inside or file.startswith("<frozen")
    return found


def user_frame(skipped: int = 0) -> FrameType | None:
    """Returns the innermost frame that is neither ours nor the standard library's.

    Args:
        skipped: How many callers are known to be ours; a look at each takes time.
    """
    frame: FrameType | None = sys._getframe(1 + skipped)
    while frame is not None:
        file = frame.f_code.co_filename
        found = _is_users.get(file)
        if found is None:
            found = _of_user(frame, file)
        if found:
            return frame
        frame = frame.f_back
    return None


def _of_user(frame: FrameType, file: str) -> bool:
    module = frame.f_globals.get("__name__") or ""
    found = module != "tensorgrad" and not module.startswith("tensorgrad.") and not _is_library(file)
    if not file.startswith("<"):  # as code has that was made of text, whose ever it is
        _is_users[file] = found
    return found


MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
"""What reading something malformed may come to, where it is not checked piece by piece."""


class TensorgradError(Exception):
    """The base of every exception of tensorgrad."""


class UserError(TensorgradError):
    """A mistake in what a user gave. It reads `file:line: message`, with the line of theirs that it was made in.

    Args:
        message: What is wrong; or another error, which this one is instead of, with its location.
        location: Where, as `file:line`; the innermost line that is neither ours nor the standard library's if absent.

    Attributes:
        location: Where, or nothing.
        message: What is wrong, without the location.
    """

    def __init__(self, message: object = "", *rest: object, location: str | None = None):
        if isinstance(message, UserError):
            message, location = message.message, location or message.location
        self.location = _user_line() if location is None else location
        # What quotes an error of the same line, or names the line itself, names it once.
        self.message = str(message).replace(f"{self.location}: ", "") if self.location else str(message)
        super().__init__(self.message, *rest)

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.message, self.location)


def _restored(kind: type[UserError], message: str, location: str) -> UserError:
    return kind(message, location=location)


def _user_line() -> str:
    frame = user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class ProgramError(TensorgradError):
    """A program that is malformed, or of another format version."""


class FormulaError(TensorgradError, ValueError):
    """A host formula that is not a whitelisted arithmetic."""


class TargetError(TensorgradError, ValueError):
    """An unknown target profile or field, or a program that a target can't run."""


class DeviceError(TensorgradError, RuntimeError):
    """What a device reports: validation, out of memory, lost."""


class DeviceLostError(DeviceError):
    """A device that is gone with all that it held: its driver was reset, or it was taken away."""


class DeviceLostWarning(UserWarning):
    """A device was lost, and the program went on on another; says from where, and how many steps were repeated."""


class GroupError(TensorgradError, RuntimeError):
    """Processes that were to compute together don't: one did not come, or ended, or they disagree; names the rank."""


class NoAdapterError(DeviceError):
    """There is no adapter to run on; says what to install."""


class InputError(UserError, ValueError):
    """An unknown or missing input, or one of the wrong shape or dtype; names the argument."""


class ExecutionError(TensorgradError):
    """IR that numpy can't run, or that does what is illegal, such as leaving a buffer; the message names the op."""


class CompilerError(TensorgradError, RuntimeError):
    """A pass crashed or left invalid IR: a fault of the compiler, with a file that reproduces it."""


class NumericsError(CompilerError):
    """A pass changed a value, or a derivative is wrong, as running the module showed; names the result and the line."""


class ArgumentError(UserError, TypeError):
    """A call with an argument that there is none of by that name or place, or without one that is needed."""
