"""The device of arrays."""

from __future__ import annotations

from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.tracing.location import user_line

DEVICE = "host"
"""Where arrays are that live on no device: they go along with tensors of any."""

TAKEN = (DEVICE, "cpu", "wgpu", "numpy")
"""What `device=` may be: an array of the host serves as one on any."""


def check_device(device: Any) -> None:
    """Checks a device that an array is to be used on.

    Raises:
        OptionError: There is no such device.
    """
    if device is not None and device not in TAKEN:
        raise OptionError(f"{user_line()}: a device is one of {', '.join(TAKEN)}, not {device!r}")
