"""The memory of initial values is returned to the system."""

from __future__ import annotations

import subprocess
import sys

from tensorgrad.runtime.heap import LEAST_BYTES, return_freed_memory

SCRIPT = """
import platform
import resource
from pathlib import Path

import numpy as np

from tensorgrad.runtime.heap import return_freed_memory


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


for size in (1 << 20, 16 << 20, 31 << 20):  # freeing these raises the size from which arrays have memory of their own
    np.ones(size, np.uint8)
arrays = [np.ones(1 << 20, np.uint8) for _ in range(256)]
last = np.ones(1 << 20, np.uint8)  # the end of the heap stays in use
del arrays
if platform.libc_ver()[0] == "glibc":
    before = resident()
    assert return_freed_memory(256 << 20)
    assert before - resident() > 200 << 20, (before, resident())
else:
    assert not return_freed_memory(256 << 20)
"""


def test_freed_memory_goes_back_where_the_c_library_kept_it() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], check=True)


def test_little_stays() -> None:
    assert not return_freed_memory(LEAST_BYTES - 1)
