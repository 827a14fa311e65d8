"""Memory that was freed, and that the C library keeps."""

from __future__ import annotations

import ctypes
import sys

LEAST_BYTES = 1 << 26
"""Where fewer bytes were freed, returning them is not worth its time."""


def return_freed_memory(freed: int) -> bool:
    """Returns freed memory to the system, where it is much and the C library can (glibc).

    Once a few arrays were freed, glibc takes new ones below 32 MB from a heap of which it gives back the end alone
    (mallopt(3), `M_MMAP_THRESHOLD`): a process would keep the memory of all initial values.

    Args:
        freed: The bytes that were freed.

    Returns:
        Whether it did.
    """
    if freed < LEAST_BYTES or sys.platform != "linux":
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
