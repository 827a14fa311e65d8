"""Waiting for a device, but not for ever: what talks to it runs in a thread, which a deadline leaves behind.

Nothing can stop a kernel that does not end, and some drivers let the next submit wait for it. So it is the thread that
waits; whoever waits for the thread gives up in time, and the device is not used any more.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np
import wgpu

from tensorgrad.runtime.backend import BufferDevice
from tensorgrad.runtime.webgpu.reporting import check_usable, give_up

Result = TypeVar("Result")


class Worker:
    """A thread that makes calls one after another; it is started when it is first needed."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, doing: str, call: Callable[[], Result], seconds: float | None) -> Result:
        """Makes a call in the thread; directly, where that is this one or there is no deadline.

        Args:
            doing: What messages say that it does.
            call: What to call.
            seconds: How long to wait for it.

        Raises:
            DeviceError: It took longer: the device can't be used any more.
        """
        if seconds is None or threading.current_thread() is self._thread:
            return call()
        check_usable()
        if self._thread is None:
            # One that a deadline has left behind must not keep the process from its end.
            self._thread = threading.Thread(target=self._work, name="tensorgrad device", daemon=True)
            self._thread.start()
        future: Future[Result] = Future()
        self._calls.put((future, call))
        try:
            return future.result(seconds)
        except TimeoutError as error:
            if future.done():  # the call's own
                raise
            raise give_up(
                f"{doing}: the device has not answered within timeout={seconds:g} seconds. What it runs can't be "
                "stopped: this process can't use it any more; start another, with a longer timeout if the work is sound"
            ) from error

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del future, call


class PatientDevice:
    """A device that is waited for so long at most.

    Args:
        device: The device.
        worker: Its thread.
        seconds: How long.
    """

    is_host = False

    def __init__(self, device: BufferDevice[wgpu.GPUBuffer], worker: Worker, seconds: float):
        self._device, self._worker, self._seconds = device, worker, seconds

    def create_buffer(self, label: str, size: int) -> wgpu.GPUBuffer:
        """See `WebGPUDevice.create_buffer`."""
        return self._worker.run(f"allocating {label}", lambda: self._device.create_buffer(label, size), self._seconds)

    def read_ranges(self, ranges: Sequence[tuple[wgpu.GPUBuffer, int, int]]) -> list[np.ndarray]:
        """See `WebGPUDevice.read_ranges`."""
        return self._worker.run("reading results", lambda: self._device.read_ranges(ranges), self._seconds)

    async def read_ranges_async(self, ranges: Sequence[tuple[wgpu.GPUBuffer, int, int]]) -> list[np.ndarray]:
        """See `WebGPUDevice.read_ranges`; the event loop runs meanwhile."""
        return await asyncio.to_thread(self.read_ranges, ranges)
