"""The CPU cores that the process may use, and thread affinity."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from tensorgrad.runtime.errors import DeviceError

THREADS_VARIABLE = "TG_NUM_THREADS"


def thread_count() -> int:
    """Returns the number of threads that run kernels: `TG_NUM_THREADS`, or the number of cores the process may use.

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


def current_core() -> int | None:
    """Returns the core that this thread runs on; `None` if the system has no thread affinity."""
    return _core_of_thread()() if sys.platform == "linux" else None


@cache
def _core_of_thread() -> Callable[[], int]:
    return ctypes.CDLL(None).sched_getcpu


def bar_from(core: int, threads: Iterable[int]) -> None:
    """Lets other threads of this process run on all of its cores except `core`, if there are others."""
    others = os.sched_getaffinity(0) - {core}
    for thread in threads if others else ():
        with suppress(OSError):  # The thread has ended, or the system forbids it.
            os.sched_setaffinity(thread, others)


def _container_limit() -> int:
    """Returns the container's CPU quota for this process in cores, rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return 1 << 20 if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 20
