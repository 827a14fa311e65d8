"""Tracebacks that end in the user's code: the frames of tensorgrad are cut out of those of errors that users see.

A function that users call is a boundary: an exception that leaves it has lost the frames below it that are not the
user's, while those of functions that the user passed in, such as a loss, are kept. An exception whose own traceback
matters, because it is a fault of tensorgrad's, keeps it. The environment variable `TG_TRACEBACK=full` keeps all.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

from tensorgrad.runtime.errors import CompilerError, ExecutionError, TensorgradError, is_library

Function = TypeVar("Function", bound=Callable[..., Any])

VARIABLE = "TG_TRACEBACK"
OURS = "tensorgrad"
DEPENDENCIES = {"_cffi_backend", "cffi", "llvmlite", "mpi4py", "numpy", "safetensors", "wgpu", "xdsl"}
"""Packages whose frames are hidden where tensorgrad called them."""


PATH_ERRORS = FileNotFoundError | FileExistsError | IsADirectoryError | NotADirectoryError | PermissionError
"""What the system says of a path that the user gave."""


def boundary(function: Function) -> Function:
    """Makes a function one whose exceptions have no frames of tensorgrad's.

    Where another frame for each call costs too much, catch `BaseException`, `trim` it, and raise it again by a bare
    `raise`, which adds no frame; entering a `try` costs nothing.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    wrapped: Any = call
    return wrapped


def trim(error: BaseException) -> None:
    """Cuts the frames of tensorgrad out of the traceback of an exception that is being handled, and of its causes.

    An exception from within tensorgrad that is not meant for users, or that reports a fault of tensorgrad's, is left as
    it is.
    """
    if os.environ.get(VARIABLE) == "full":
        return
    frames = list(_shown(error.__traceback__))
    if not _is_for_users(error, frames):
        return
    error.__traceback__ = _linked(frames)
    known = {id(error)}
    pending = [error.__cause__, None if error.__suppress_context__ else error.__context__]
    while pending:
        origin = pending.pop()
        if origin is not None and id(origin) not in known:
            known.add(id(origin))
            origin.__traceback__ = _linked(list(_shown(origin.__traceback__)))
            pending += [origin.__cause__, None if origin.__suppress_context__ else origin.__context__]


def _is_for_users(error: BaseException, frames: list[TracebackType]) -> bool:
    """Returns whether an exception is one that users cause or raise, given its frames that are not hidden."""
    if isinstance(error, TensorgradError | KeyboardInterrupt | PATH_ERRORS):
        return not isinstance(error, CompilerError | ExecutionError)
    return bool(frames) and frames[-1].tb_next is None  # it was raised in the user's code


def _shown(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yields the entries of a traceback that are neither tensorgrad's nor of libraries that it called."""
    inside = False
    while traceback is not None:
        package = _package(traceback.tb_frame)
        inside = package == OURS or (
            inside and (package in DEPENDENCIES or is_library(traceback.tb_frame.f_code.co_filename))
        )
        if not inside:
            yield traceback
        traceback = traceback.tb_next


def _package(frame: FrameType) -> str:
    """Returns the name of the top-level package that a frame runs in."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _linked(frames: list[TracebackType]) -> TracebackType | None:
    """Returns a traceback of these entries."""
    result: TracebackType | None = None
    for entry in reversed(frames):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result
