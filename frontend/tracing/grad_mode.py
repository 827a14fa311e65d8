"""Whether what is applied to tensors that require a gradient is recorded for it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _Mode(threading.local):
    is_recording: bool = True


_mode = _Mode()


def is_grad_enabled() -> bool:
    """Returns whether what is applied to tensors that require a gradient is recorded for it."""
    return _mode.is_recording


class _GradMode:
    """A mode of recording, as a context manager and as a decorator."""

    records: ClassVar[bool]

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_mode.is_recording)
        _mode.is_recording = self.records

    def __exit__(self, *_: object) -> None:
        _mode.is_recording = self._before.pop()

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


class no_grad(_GradMode):
    """Records nothing for gradients inside: `with tg.no_grad():`, or as a decorator `@tg.no_grad()`.

    Example:
        >>> import tensorgrad as tg
        >>> x = tg.tensor(2.0, device="numpy", requires_grad=True)
        >>> with tg.no_grad():
        ...     y = x * 3.0
        >>> y.requires_grad
        False
    """

    records = False


class enable_grad(_GradMode):
    """Records for gradients inside, also where `no_grad` is around it."""

    records = True


@contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Records for gradients inside, or not."""
    before, _mode.is_recording = _mode.is_recording, enabled
    try:
        yield
    finally:
        _mode.is_recording = before
