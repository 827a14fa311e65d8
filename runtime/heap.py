"""Returns freed memory that the C library keeps."""

from __future__ import annotations

import ctypes
import sys

LEAST_BYTES = 1 << 26
"""If fewer bytes were freed, returning them is not worth the time."""


def return_freed_memory(freed: int) -> bool:
    """Returns freed memory to the system, if it is large enough and the C library supports it (glibc).

    Once a few arrays were freed, glibc allocates arrays below 32 MB from a heap of which it only returns the end
    (mallopt(3), `M_MMAP_THRESHOLD`): a process would keep the memory of all initial values.

    Args:
        freed: The number of freed bytes.

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
