"""Exceptions of the runtime; every exception of tensorgrad derives from `TensorgradError`."""

from __future__ import annotations

import re
import sys
from types import FrameType

_LOCATED = re.compile(r"\S:\d+: ")
_LINE = re.compile(r"[^\n]*?\S:\d+: ")


class TensorgradError(Exception):
    """The base of every exception of tensorgrad."""


class UserError(TensorgradError):
    """A mistake in what a user gave. Its message begins with their line, unless it names one already.

    A message that quotes another about the same line names it once.
    """

    def __init__(self, *arguments: object):
        if arguments and isinstance(arguments[0], str):
            message = arguments[0] if _LOCATED.search(arguments[0]) else f"{_callers_line()}{arguments[0]}"
            arguments = (_located_once(message), *arguments[1:])
        super().__init__(*arguments)


def _located_once(message: str) -> str:
    line = _LINE.match(message)
    return message if line is None else line[0] + message[line.end() :].replace(line[0], "")


def _callers_line() -> str:
    """The innermost line that is neither ours nor the standard library's, as `file:line: `, or nothing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__")).split(".", 1)[0]
        if module != "tensorgrad" and module not in sys.stdlib_module_names - {"__main__"}:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


class ProgramError(TensorgradError):
    """A program that is malformed, or of another format version."""


class FormulaError(TensorgradError, ValueError):
    """A host formula that is no whitelisted arithmetic."""


class TargetError(TensorgradError, ValueError):
    """An unknown target profile or field, or a program that a target can't run."""


class DeviceError(TensorgradError, RuntimeError):
    """What a device reports: validation, out of memory, lost."""


class NoAdapterError(DeviceError):
    """There is no adapter to run on; says what to install."""


class InputError(UserError, ValueError):
    """An unknown or missing input, or one of the wrong shape or dtype; names the argument."""


class CompilerError(TensorgradError, RuntimeError):
    """A pass crashed or left invalid IR: a fault of the compiler, with a file that reproduces it."""
