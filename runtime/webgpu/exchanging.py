"""Collectives within a step on a WebGPU device: data is staged through host-visible memory."""

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
"""A staging buffer, and the recorded copies to it."""

UnderWay = dict[int, "Exchanging"]
"""A step's pending asynchronous exchanges, by request, in plan order."""


class Exchanging:
    """A collective between two submits: its operands are read back, and its results are written.

    An asynchronous one starts with a copy of its operands to staging memory, after the work submitted before. The host
    exchanges the data when a wait asks for it, while the device runs the work submitted in between.

    Args:
        device: The device that holds the buffers.
        step: The collective.
        buffers: The buffers by index.
        under_way: The pending exchanges, to which an asynchronous one adds itself.
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
        """Runs the exchange, or starts it.

        Raises:
            GroupError: Another process did not join, or ended.
            DeviceError: The device reported an error.
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
        """Submits copies of the operands to staging memory, unless they are too large."""
        if self._bytes > MOST_STAGING:
            return
        # Taken while in use: if the exchange fails, the mapped buffer must never be reused.
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
        """Exchanges the data that the device has copied; see `submit`."""
        group, begun = current_group(), time.perf_counter()
        pending, self._taken = self._taken, None
        if pending is None:
            self._exchange(self._device.read_ranges(self._reads, f"reading for {self._step.label or self._step.kind}"))
        else:
            staging, mapping = pending
            mapping.sync_wait()
            view: Any = staging[0].read_mapped(0, self._bytes, copy=False)
            ends = np.cumsum([size for _, _, size in self._reads])
            self._exchange(np.split(np.frombuffer(view, np.uint8), ends[:-1]))
            del view
            staging[0].unmap()
            self._kept = staging
        group.traffic.stalled += time.perf_counter() - begun

    def _exchange(self, messages: Sequence[np.ndarray[Any, Any]]) -> None:
        """Exchanges operands with the group, and writes the results."""
        step, dtype = self._step, self._step.device_dtype
        raws: list[np.ndarray[Any, Any]] = [np.zeros(size, np.uint8) for _, _, size in self._writes]
        sources = [raw.view(dtype)[: part.count] for raw, part in zip(messages, step.parts, strict=True)]
        results = [raw.view(dtype)[: part.result_count] for raw, part in zip(raws, step.parts, strict=True)]
        exchange(current_group(), step, sources, results)
        for (buffer, offset, _), raw in zip(self._writes, raws, strict=True):
            self._device.write_range(buffer, offset, raw)


class Waiting:
    """The wait for an asynchronous collective.

    Args:
        step: The wait.
        under_way: The pending exchanges.
    """

    def __init__(self, step: Wait, under_way: UnderWay):
        self._request = step.request
        self._under_way = under_way

    def submit(self) -> None:
        """Finishes the pending exchanges up to this one, in the order in which they were started.

        Raises:
            GroupError: Another process did not join, or ended.
            DeviceError: The device reported an error.
        """
        finish_up_to(self._request, self._under_way)


def finish_up_to(request: int | None, under_way: UnderWay) -> None:
    """Finishes pending exchanges in order, up to and including a request, or all for `None`."""
    if request is not None and request not in under_way:
        return
    for number in list(under_way):
        under_way.pop(number).finish()
        if number == request:
            return
