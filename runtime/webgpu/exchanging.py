"""Collectives in the middle of a step on a WebGPU device: values go through the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import wgpu

from tensorgrad.runtime.group.collective import check_size, exchange, host_dtype
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.runtime.plan import Collective
from tensorgrad.runtime.webgpu.device import WebGPUDevice


class Exchanging:
    """A collective between two submits: what it takes is read back, what it gives is written.

    Args:
        device: Where the buffers are.
        step: The collective.
        buffers: By index.
    """

    def __init__(self, device: WebGPUDevice, step: Collective, buffers: Mapping[int, wgpu.GPUBuffer]):
        self._device = device
        self._step = step
        self._reads = [(buffers[buffer], offset, size) for buffer, offset, size in step.reads]
        self._writes = [(buffers[buffer], offset, size) for buffer, offset, size in step.writes]

    def submit(self) -> None:
        """Waits for what was submitted before, and exchanges.

        Raises:
            GroupError: Another process did not come, or ended.
            DeviceError: What the device reported.
        """
        group, step, dtype = current_group(), self._step, host_dtype(self._step)
        check_size(group, step.size)
        found = self._device.read_ranges(self._reads, f"reading for {step.label or step.kind}")
        sources = [raw.view(dtype)[: part.count] for raw, part in zip(found, step.parts, strict=True)]
        raws: list[np.ndarray[Any, Any]] = [np.zeros(size, np.uint8) for _, _, size in self._writes]
        results = [raw.view(dtype)[: part.result_count] for raw, part in zip(raws, step.parts, strict=True)]
        exchange(group, step, sources, results)
        for (buffer, offset, _), raw in zip(self._writes, raws, strict=True):
            self._device.write_range(buffer, offset, raw)
