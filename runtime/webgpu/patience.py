"""Waiting for a device, but not for ever: what talks to it runs in a thread, which a deadline leaves behind.

Nothing can stop a kernel that does not end, and some drivers let the next submit wait for it. So it is the thread that
waits; whoever waits for the thread gives up in time, and the device is not used any more.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

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
