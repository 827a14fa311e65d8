"""A device with a timeout, from which a program reads its results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np
import wgpu

from tensorgrad.runtime.webgpu.device import WebGPUDevice


class PatientDevice:
    """Wraps a device for reading a program's results with a timeout.

    Args:
        device: The device.
        seconds: The timeout; `None` for no limit.
        program: The program's name in error messages.
    """

    is_host = False

    def __init__(self, device: WebGPUDevice, seconds: float | None, program: str):
        self._device, self._seconds = device, seconds
        self._reading, self._program = f"reading results of {program}", program

    def create_buffer(self, label: str, size: int) -> wgpu.GPUBuffer:
        """See `WebGPUDevice.create_buffer`."""
        doing = f"allocating {label} of {self._program}"
        return self._device.worker.run(doing, lambda: self._device.create_buffer(label, size), self._seconds)

    def read_ranges(self, ranges: Sequence[tuple[wgpu.GPUBuffer, int, int]]) -> list[np.ndarray]:
        """See `WebGPUDevice.read_ranges`."""
        call = partial(self._device.read_ranges, ranges, self._reading)
        return self._device.worker.run(self._reading, call, self._seconds)

    async def read_ranges_async(self, ranges: Sequence[tuple[wgpu.GPUBuffer, int, int]]) -> list[np.ndarray]:
        """See `WebGPUDevice.read_ranges_async`."""
        if self._seconds is None:
            return await self._device.read_ranges_async(ranges, self._reading)
        return await asyncio.to_thread(self.read_ranges, ranges)
