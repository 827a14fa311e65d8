"""The device of arrays."""

from __future__ import annotations

from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.tracing.location import user_line

DEVICE = "cpu"
"""Where arrays are: what is computed outside of programs is computed by NumPy, and programs put out arrays there."""


def check_device(device: Any) -> None:
    """Checks a device that an array is to be on.

    Raises:
        OptionError: It is another one than arrays are on.
    """
    if device is not None and device != DEVICE:
        raise OptionError(f"{user_line()}: arrays are on the device {DEVICE!r}, not on {device!r}")
