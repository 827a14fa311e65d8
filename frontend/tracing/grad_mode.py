"""Whether ops on tensors that require gradients are recorded for differentiation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Mode(threading.local):
    is_recording: bool = True


_mode = _Mode()


def is_grad_enabled() -> bool:
    """Returns whether ops on tensors that require gradients are recorded for differentiation.

    Example:
        >>> with tg.no_grad():
        ...     tg.is_grad_enabled()
        False
    """
    return _mode.is_recording


@contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Enables or disables recording inside the context."""
    before, _mode.is_recording = _mode.is_recording, enabled
    try:
        yield
    finally:
        _mode.is_recording = before


@contextmanager
def no_grad() -> Iterator[None]:
    """Disables recording for gradients: `with tg.no_grad():`, or as a decorator `@tg.no_grad()`.

    Example:
        >>> x = tg.tensor(2.0, device="numpy", requires_grad=True)
        >>> with tg.no_grad():
        ...     y = x * 3.0
        >>> y.requires_grad
        False
    """
    with recording(False):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """Enables recording for gradients, even inside `no_grad`.

    Example:
        >>> with tg.no_grad(), tg.enable_grad():
        ...     tg.is_grad_enabled()
        True
    """
    with recording(True):
        yield
