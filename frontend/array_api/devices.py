"""The devices of arrays."""

from __future__ import annotations

from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import current_trace

DEVICE = "host"
"""The device of arrays in host memory, which can be combined with tensors on any device."""

TAKEN = (DEVICE, "cpu", "wgpu", "numpy")
"""The values of `device=`."""


def on_device(x: Tensor, device: Any) -> Tensor:
    """Returns an array on a device: itself if it is already there, or inside a trace, which runs on one device.

    Raises:
        OptionError: There is no such device, or it is the host and the tensor lives on a device.
        DTypeError: The device doesn't support the dtype.
        TraceError: A tensor that lives on a device is moved inside a trace.
    """
    check_device(device)
    if device is None or not isinstance(x, Array) or x.device == device:
        return x
    return x if x.live is None and current_trace() is not None else x.to(device=device)


def check_device(device: Any) -> None:
    """Checks the name of a device.

    Raises:
        OptionError: There is no such device.
    """
    if device is not None and device not in TAKEN:
        raise OptionError(f"a device must be one of {', '.join(TAKEN)}, got {device!r}")
