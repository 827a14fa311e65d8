"""`tensorgrad.array_api` with the CPU as the default device, so that the standard's test suite, which passes no device,
runs on eager tensors; docs/reference/array-api.md has the commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tensorgrad import array_api

CREATING = ("arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros")
"""What makes arrays of something other than arrays, and so on the host unless it is told a device."""


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def made(*arguments: Any, device: Any = None, **options: Any) -> Any:
        return function(*arguments, device="cpu" if device is None else device, **options)

    return made


globals().update({name: getattr(array_api, name) for name in array_api.__all__})
globals().update({name: _on_cpu(getattr(array_api, name)) for name in CREATING})
