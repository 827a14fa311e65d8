"""The devices of arrays."""

from __future__ import annotations

from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import current_trace

DEVICE = "host"
"""Where arrays are that live on no device: they go along with tensors of any."""

TAKEN = (DEVICE, "cpu", "wgpu", "numpy")
"""What `device=` may be."""


def on_device(x: Tensor, device: Any) -> Tensor:
    """Returns an array on a device; itself where it is there, or where all runs where the program does: in a trace.

    Raises:
        OptionError: There is no such device, or it is the host for a tensor that lives on a device.
        DTypeError: The device has no elements of the dtype.
        TraceError: A tensor that lives on a device is to be moved inside a trace.
    """
    check_device(device)
    if device is None or not isinstance(x, Array) or x.device == device:
        return x
    return x if x.live is None and current_trace() is not None else x.to(device=device)


def check_device(device: Any) -> None:
    """Checks a device that an array is to be used on.

    Raises:
        OptionError: There is no such device.
    """
    if device is not None and device not in TAKEN:
        raise OptionError(f"{user_line()}: a device is one of {', '.join(TAKEN)}, not {device!r}")
