"""Source locations in the user's code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr

from tensorgrad.dialects.locations import line_of, within_calls
from tensorgrad.runtime.errors import user_frame


class Call:
    """A call of a module that is being traced.

    Attributes:
        path: The module's path in the model.
        names: The enclosing calls, outermost first, and this one: paths, with a number from a module's second call on,
            as in `cell#2`.
        locations: The locations of lines that have run in it, so that the ops of a line share one.
    """

    def __init__(self, path: str, number: int, around: Call | None):
        self.path = path
        self.names: tuple[str, ...] = () if around is None else around.names
        self.names += (path if number == 1 else f"{path}#{number}",)
        self.locations: dict[tuple[str, int], LocationAttr] = {}


class _Current(threading.local):
    call: Call | None = None
    place: tuple[str, int] | None = None


_current = _Current()


def current_call() -> Call | None:
    """Returns the innermost module call in progress on this thread."""
    return _current.call


@contextmanager
def calling(path: str, number: int) -> Iterator[None]:
    """Attaches a module call to locations inside the context.

    Args:
        path: The module's path.
        number: The index of this call of it, from 1.
    """
    before = _current.call
    _current.call = Call(path, number, before)
    try:
        yield
    finally:
        _current.call = before


@contextmanager
def at_line(file: str, line: int) -> Iterator[None]:
    """Makes a line of an imported model's author, which isn't running, the user's line inside the context."""
    before = _current.place
    _current.place = file, line
    try:
        yield
    finally:
        _current.place = before


def user_place(skipped: int = 0) -> tuple[str, int]:
    """Returns the file and the line number of the user's code.

    Args:
        skipped: The number of callers known to be internal; inspecting each takes time.
    """
    if _current.place is not None:
        return _current.place
    frame = user_frame(1 + skipped)
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def user_location() -> LocationAttr:
    """Returns the user's line as an IR location, with the enclosing module calls."""
    key = user_place()
    call = _current.call
    if call is None:
        return _line(key)
    result = call.locations.get(key)
    if result is None:
        result = call.locations[key] = within_calls(_line(key), call.names)
    return result


@lru_cache(maxsize=1 << 11)
def _line(key: tuple[str, int]) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(key[0]), IntAttr(key[1]), IntAttr(0))


def user_line() -> str:
    """Returns the user's line, as `file:line`."""
    return line_of(user_location())
