"""The threads that run kernels: they wait in native code, and take tasks by an atomic counter.

Between dispatches of a step threads spin. When no step runs for a while, they return to Python and sleep there.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np

from tensorgrad.runtime.cpu.stepping import native_runtime
from tensorgrad.runtime.cpu.tasks import ACTIVE, CLOSED, POOL_WORDS, TICKET
from tensorgrad.runtime.cpu.threads import thread_count


class Pool:
    """One pool for all programs of a process. Its threads are started when the first dispatch could use them.

    Only one step uses the pool at a time; one that runs beside it, in another Python thread, does all its tasks itself.
    """

    def __init__(self) -> None:
        self.forget_threads()

    def forget_threads(self) -> None:
        """Forgets all threads, as in the child of a fork, where there are none."""
        self._taken = threading.Lock()
        self._count_lock = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._parked = 0
        self._started = 0
        self._threads: int | None = None
        self._scratch_bytes = 0
        self._clear()

    def _clear(self) -> None:
        """Makes new memory, which threads that work on the old one do not see."""
        self._memory = np.zeros(POOL_WORDS, np.uint64)
        self._memory[TICKET] = CLOSED
        self._address: int = self._memory.ctypes.data

    @property
    def threads(self) -> int:
        """The threads that run kernels, the caller's included."""
        if self._threads is None:
            self._threads = thread_count()
        return self._threads

    def acquire(self, scratch_bytes: int) -> int:
        """Takes the pool for a step, and wakes its threads.

        Args:
            scratch_bytes: The scratch memory that each thread needs.

        Returns:
            The address of the pool's memory; 0 where the step has to run on the caller's thread alone.

        Raises:
            DeviceError: `TG_NUM_THREADS` is not a positive integer, or the threads' code can't be compiled.
        """
        if self.threads == 1 or not self._taken.acquire(blocking=False):
            return 0
        try:
            if scratch_bytes > self._scratch_bytes:
                self._restart(scratch_bytes)
            self._start()
        except BaseException:
            self._taken.release()
            raise
        with self._count_lock:
            self._memory[ACTIVE] = 1
            waking, self._parked = self._parked, 0
        if waking:
            self._wake.release(waking)
        return self._address

    def release(self) -> None:
        """Gives the pool back; threads look for another step for a while, then sleep."""
        self._memory[ACTIVE] = 0
        self._taken.release()

    def _restart(self, scratch_bytes: int) -> None:
        """Lets threads take larger scratch memory from now on: new threads take the place of the old ones."""
        self._scratch_bytes = scratch_bytes
        old = self._wake, self._started
        self._wake, self._started, self._parked = threading.Semaphore(0), 0, 0
        self._clear()
        if old[1]:
            old[0].release(old[1])

    def _start(self) -> None:
        while self._started < self.threads - 1:
            self._started += 1
            scratch = np.zeros(self._scratch_bytes + 64, np.uint8)
            work = native_runtime().function("tg_work", ctypes.c_void_p, ctypes.c_void_p)
            arguments = (work, self._memory, scratch, self._wake)
            threading.Thread(target=self._run, args=arguments, daemon=True, name="tensorgrad kernels").start()

    def _run(self, work: Any, memory: np.ndarray, scratch: np.ndarray, wake: threading.Semaphore) -> None:
        """What a thread does: works until there is nothing for a while, then sleeps; ends when it is replaced."""
        start = scratch.ctypes.data + -scratch.ctypes.data % 64
        while self._memory is memory:
            work(memory.ctypes.data, start)
            with self._count_lock:
                if self._memory is not memory:
                    return
                if memory[ACTIVE]:  # A step began after this thread had found none.
                    continue
                self._parked += 1
            wake.acquire()


POOL = Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget_threads)
