"""The CPU as a device: its memory, name and target."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tensorgrad.runtime.cpu.code import host_cpu
from tensorgrad.runtime.cpu.pool import POOL, Pool
from tensorgrad.runtime.debugging import BOUNDS, debug_flags
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.target import CPU, Target

ALIGNMENT = 64
"""Buffers are aligned to cache lines."""


@dataclass(frozen=True)
class CpuInfo:
    """A CPU's identification.

    Attributes:
        name: LLVM's name of the CPU, and the architecture.
        type: "cpu".
        backend: "LLVM".
        driver: LLVM's version.
    """

    name: str
    type: str
    backend: str
    driver: str


class CpuDevice:
    """This machine's CPU, a singleton.

    Attributes:
        info: Its identification.
        target: Its limits and features.
        pool: The threads that run kernels.

    Raises:
        DeviceError: LLVM can't generate code for it.
    """

    info: CpuInfo
    target: Target
    pool: Pool
    is_host = True

    def __new__(cls) -> CpuDevice:
        """Returns the singleton."""
        return _device()

    def create_buffer(self, label: str, size: int) -> np.ndarray:
        """Returns a zeroed buffer, aligned to a cache line.

        Raises:
            DeviceError: Out of memory.
        """
        try:
            raw = np.zeros(size + ALIGNMENT, np.uint8)
        except MemoryError as error:
            raise DeviceError(f"allocating {size} bytes for {label}: {error}") from error
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + size]

    def read_ranges(self, ranges: Sequence[tuple[np.ndarray, int, int]]) -> list[np.ndarray]:
        """Returns copies of (buffer, offset, size) ranges."""
        return [buffer[offset : offset + size].copy() for buffer, offset, size in ranges]

    async def read_ranges_async(self, ranges: Sequence[tuple[np.ndarray, int, int]]) -> list[np.ndarray]:
        """Like `read_ranges`; completes immediately."""
        return self.read_ranges(ranges)

    def wait(self) -> None:
        """Returns immediately, as steps are synchronous."""


@cache
def _device() -> CpuDevice:
    host = host_cpu()
    device = object.__new__(CpuDevice)
    device.info = CpuInfo(f"{host.name} ({platform.machine()})", "cpu", "LLVM", host.llvm)
    device.target = replace(
        CPU, vector_bytes=host.vector_bytes, bf16_dot=host.bf16_dot, check_bounds=BOUNDS in debug_flags()
    )
    device.pool = POOL
    return device
