"""How many cores a process may use."""

from __future__ import annotations

import os
from pathlib import Path

from tensorgrad.runtime.errors import DeviceError

THREADS_VARIABLE = "TG_NUM_THREADS"


def thread_count() -> int:
    """Returns how many threads run kernels: `TG_NUM_THREADS`, or the cores that this process may use.

    Raises:
        DeviceError: The variable is not a positive integer.
    """
    chosen = os.environ.get(THREADS_VARIABLE)
    if chosen:
        if not chosen.isdigit() or int(chosen) < 1:
            raise DeviceError(f"{THREADS_VARIABLE} must be a positive integer, got {chosen!r}")
        return int(chosen)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(cores, _container_limit()), 1)


def _container_limit() -> int:
    """Returns how many cores' time a container gives this process, rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return 1 << 20 if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 20
