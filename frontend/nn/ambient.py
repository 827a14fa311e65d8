"""The random key of the innermost module call that was given one, for parts that models don't pass keys to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Current(threading.local):
    key: Any = None


_current = _Current()


def ambient_key() -> Any:
    """Returns the key of the innermost module call in progress on this thread that has one, or `None`."""
    return _current.key


@contextmanager
def drawing_from(key: Any) -> Iterator[None]:
    """Makes a key that of the calls inside the context."""
    before = _current.key
    _current.key = key
    try:
        yield
    finally:
        _current.key = before


def keyed(function: Callable[..., Any], argument: str) -> Callable[..., Any]:
    """Returns a module's `__call__` that makes its random key that of the calls within.

    Args:
        function: The method.
        argument: The name of its argument that is a random key.
    """
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    place = positional.index(argument) if argument in positional else len(positional)

    def call(*args: Any, **kwargs: Any) -> Any:
        key = args[place] if place < len(args) and place < len(positional) else kwargs.get(argument)
        if key is None:
            return function(*args, **kwargs)
        with drawing_from(key):
            return function(*args, **kwargs)

    return call
