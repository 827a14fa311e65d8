"""Which cores a process may use."""

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


def current_core() -> int | None:
    """Returns the core that runs this thread; `None` where threads can't be told which cores to use."""
    return _core_of_thread()() if sys.platform == "linux" else None


@cache
def _core_of_thread() -> Callable[[], int]:
    return ctypes.CDLL(None).sched_getcpu


def bar_from(core: int, threads: Iterable[int]) -> None:
    """Lets other threads of this process run on all cores that this one may use but `core`, if there are others."""
    others = os.sched_getaffinity(0) - {core}
    for thread in threads if others else ():
        with suppress(OSError):  # It has ended, or the system forbids it.
            os.sched_setaffinity(thread, others)


def _container_limit() -> int:
    """Returns how many cores' time a container gives this process, rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return 1 << 20 if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 20
