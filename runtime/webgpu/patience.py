"""Device calls with a timeout: they run on a worker thread, which is abandoned when the timeout expires.

Nothing can stop a kernel that does not terminate, and some drivers block the next submit until it does. So a separate
thread blocks, while the caller gives up in time, and the device is not used any more.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from tensorgrad.runtime.webgpu.reporting import check_usable, give_up

Result = TypeVar("Result")


class Worker:
    """A thread that makes calls in order, started on first use."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, doing: str, call: Callable[[], Result], seconds: float | None) -> Result:
        """Makes a call on the thread; directly, if this is that thread or there is no timeout.

        Args:
            doing: The call's name in error messages.
            call: The call to make.
            seconds: The timeout, or None.

        Raises:
            DeviceError: The call timed out; the device can't be used any more.
            BaseException: What arrived from outside, such as `KeyboardInterrupt`, once the call has ended if it began.
        """
        if seconds is None or threading.current_thread() is self._thread:
            return call()
        check_usable()
        if self._thread is None:
            # A daemon, as an abandoned thread must not keep the process from exiting.
            self._thread = threading.Thread(target=self._work, name="tensorgrad device", daemon=True)
            self._thread.start()
        future: Future[Result] = Future()
        try:
            self._calls.put((future, call))
            return future.result(seconds)
        except TimeoutError as error:
            if future.done():  # a TimeoutError of the call itself
                raise
            raise give_up(
                f"{doing}: the device has not answered within timeout={seconds:g} seconds. What it runs can't be "
                "stopped: this process can't use it any more; start another, with a longer timeout if the work is sound"
            ) from error
        except BaseException:
            if not future.cancel():
                wait([future], seconds)
            raise

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del future, call
