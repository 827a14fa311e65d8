"""What `TG_DEBUG` asks of kernels, on every device."""

from __future__ import annotations

import os

from tensorgrad.runtime.errors import DeviceError

DEBUG_VARIABLE, BOUNDS = "TG_DEBUG", "bounds"


def debug_flags() -> frozenset[str]:
    """Returns the flags in `TG_DEBUG`, a comma-separated list.

    Raises:
        DeviceError: A flag is unknown.
    """
    result = frozenset(filter(None, os.environ.get(DEBUG_VARIABLE, "").replace(" ", "").split(",")))
    unknown = sorted(result - {BOUNDS})
    if unknown:
        raise DeviceError(f"{DEBUG_VARIABLE}: unknown {', '.join(unknown)}; there is: {BOUNDS}")
    return result
