"""Collectives in the middle of a step on a WebGPU device: values go through memory that the host sees."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import wgpu

from tensorgrad.runtime.group.collective import check_size, exchange
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.runtime.plan import Collective, Wait
from tensorgrad.runtime.webgpu.device import MOST_STAGING, STAGING, WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import Recording, Segment

_Staging = tuple[wgpu.GPUBuffer, Recording]
"""Memory that can be mapped, and what copies there what is exchanged."""

UnderWay = dict[int, "Exchanging"]
"""The exchanges of a step that have been started, by request, in the order of the plan."""


class Exchanging:
    """A collective between two submits: what it takes is read back, what it gives is written.

    One that is started has the device copy what it takes, behind what was submitted before. The host exchanges it when
    somebody waits for it, while the device runs what was submitted meanwhile.

    Args:
        device: Where the buffers are.
        step: The collective.
        buffers: By index.
        under_way: What is under way; this one is added when it is started.
    """

    def __init__(
        self, device: WebGPUDevice, step: Collective, buffers: Mapping[int, wgpu.GPUBuffer], under_way: UnderWay
    ):
        self._device = device
        self._step = step
        self._under_way = under_way
        self._reads = [(buffers[buffer], offset, size) for buffer, offset, size in step.reads]
        self._writes = [(buffers[buffer], offset, size) for buffer, offset, size in step.writes]
        self._bytes = sum(size for _, _, size in step.reads)
        self._kept: _Staging | None = None
        self._taken: tuple[_Staging, Any] | None = None

    def submit(self) -> None:
        """Exchanges, or starts to.

        Raises:
            GroupError: Another process did not come, or ended.
            DeviceError: What the device reported.
        """
        check_size(current_group(), self._step.size)
        if self._step.request is not None:
            self._begin()
            self._under_way[self._step.request] = self
            return
        finish_up_to(None, self._under_way)
        self._begin()
        self.finish()

    def _begin(self) -> None:
        """Has the device copy what is exchanged to memory that can be mapped, unless that is too much at a time."""
        if self._bytes > MOST_STAGING:
            return
        # Taken while in use: should the exchange fail, what is mapped is never used again.
        staging, self._kept = self._kept or self._new_staging(), None
        buffer, copying = staging
        copying.submit()
        self._taken = staging, buffer.map_async(wgpu.MapMode.READ, 0, self._bytes)

    def _new_staging(self) -> _Staging:
        staging = self._device.wgpu_device.create_buffer(label="exchange", size=self._bytes, usage=STAGING)
        segments: list[Segment] = []
        start = 0
        for buffer, offset, size in self._reads:
            segments.append((buffer, offset, staging, start, size))
            start += size
        return staging, self._device.recorded(segments)

    def finish(self) -> None:
        """Exchanges what the device has copied; see `submit`."""
        group, begun = current_group(), time.perf_counter()
        taken, self._taken = self._taken, None
        if taken is None:
            self._exchange(self._device.read_ranges(self._reads, f"reading for {self._step.label or self._step.kind}"))
        else:
            staging, mapping = taken
            mapping.sync_wait()
            view: Any = staging[0].read_mapped(0, self._bytes, copy=False)
            ends = np.cumsum([size for _, _, size in self._reads])
            self._exchange(np.split(np.frombuffer(view, np.uint8), ends[:-1]))
            del view
            staging[0].unmap()
            self._kept = staging
        group.traffic.stalled += time.perf_counter() - begun

    def _exchange(self, found: Sequence[np.ndarray[Any, Any]]) -> None:
        """Exchanges bytes, and writes what they become."""
        step, dtype = self._step, self._step.device_dtype
        raws: list[np.ndarray[Any, Any]] = [np.zeros(size, np.uint8) for _, _, size in self._writes]
        sources = [raw.view(dtype)[: part.count] for raw, part in zip(found, step.parts, strict=True)]
        results = [raw.view(dtype)[: part.result_count] for raw, part in zip(raws, step.parts, strict=True)]
        exchange(current_group(), step, sources, results)
        for (buffer, offset, _), raw in zip(self._writes, raws, strict=True):
            self._device.write_range(buffer, offset, raw)


class Waiting:
    """Where a step waits for a collective that was started.

    Args:
        step: The wait.
        under_way: What is under way.
    """

    def __init__(self, step: Wait, under_way: UnderWay):
        self._request = step.request
        self._under_way = under_way

    def submit(self) -> None:
        """Exchanges what is under way up to this one, in the order in which it was started.

        Raises:
            GroupError: Another process did not come, or ended.
            DeviceError: What the device reported.
        """
        finish_up_to(self._request, self._under_way)


def finish_up_to(request: int | None, under_way: UnderWay) -> None:
    """Finishes what is under way, in order, up to a request; all of it for `None`."""
    if request is not None and request not in under_way:
        return
    for number in list(under_way):
        under_way.pop(number).finish()
        if number == request:
            return
