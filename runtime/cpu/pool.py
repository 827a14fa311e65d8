"""The thread pool that runs kernels: threads wait in native code, and take tasks by an atomic counter.

Threads spin between the dispatches of a step. If no step runs for a while, they sleep, still in native code: they
never take the GIL.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable

import numpy as np

from tensorgrad.runtime.cpu.stepping import native_runtime
from tensorgrad.runtime.cpu.tasks import (
    ACTIVE,
    ASLEEP,
    CLOSED,
    ENDED,
    PARTS,
    PARTS_A_THREAD,
    POOL_WORDS,
    TICKET,
)
from tensorgrad.runtime.cpu.threads import bar_from, current_core, thread_count


class Pool:
    """The thread pool shared by all programs of a process. Its threads start with the first dispatch that can use them.

    Only one step uses the pool at a time; a concurrent step in another Python thread runs all its tasks itself.
    """

    def __init__(self) -> None:
        self.forget_threads()

    def forget_threads(self) -> None:
        """Forgets all threads, for the child of a fork, which has none."""
        self._taking = threading.Lock()
        self._user: weakref.ref[Turn] | None = None
        self._workers: list[threading.Thread] = []
        self._wake_all: Callable[[int], None] | None = None
        self._core: int | None = None
        self._threads: int | None = None
        self._scratch_bytes = 0
        self._clear()

    def _clear(self) -> None:
        """Allocates new memory, which threads of the old memory do not see."""
        self._memory = np.zeros(POOL_WORDS, np.uint64)
        self._memory[TICKET] = CLOSED
        self._address: int = self._memory.ctypes.data

    @property
    def threads(self) -> int:
        """The number of threads that run kernels, including the caller's."""
        if self._threads is None:
            self._threads = thread_count()
        return self._threads

    def is_taken_by(self, turn: Turn) -> bool:
        """Takes the pool for a step, until `release`, if no other step has it. Returns whether it is taken."""
        with self._taking:
            if self._user is not None and self._user() is not None:
                return False
            self._user = weakref.ref(turn)
        return True

    def wake(self, scratch_bytes: int) -> int:
        """Wakes the threads for a step that has taken the pool.

        Args:
            scratch_bytes: The scratch memory that each thread needs.

        Returns:
            The address of the pool's memory.

        Raises:
            DeviceError: The threads' code can't be compiled.
        """
        if scratch_bytes > self._scratch_bytes:
            self._scratch_bytes = scratch_bytes
            self.end_threads()
        self._start()
        self._memory[ACTIVE] = 1
        if self._memory[ASLEEP]:  # A thread that is about to sleep is not woken, and misses this step.
            self._wake()
        return self._address

    def release(self) -> None:
        """Releases the pool; its threads wait for another step for a while, then sleep."""
        self._memory[ACTIVE] = 0
        self._user = None

    def end_threads(self) -> None:
        """Ends the threads, which must have no task; the next step starts new ones."""
        if self._workers:
            self._memory[ENDED] = 1
            self._wake()
            self._workers = []
            self._clear()

    def _start(self) -> None:
        if self._workers:
            return
        native = native_runtime()
        self._memory[PARTS] = PARTS_A_THREAD * self.threads
        native.function("tg_prepare", ctypes.c_void_p)(self._address)
        self._wake_all = native.function("tg_wake", ctypes.c_void_p)  # the lookup may wait for a compilation
        self._core = None
        work = native.function("tg_work", ctypes.c_void_p, ctypes.c_void_p)
        for _ in range(self.threads - 1):
            scratch = np.zeros(self._scratch_bytes + 64, np.uint8)
            arguments = (work, self._memory, scratch)
            self._workers.append(threading.Thread(target=_run, args=arguments, daemon=True, name="tensorgrad kernels"))
            self._workers[-1].start()

    def _wake(self) -> None:
        """Wakes all threads, on cores other than this one.

        Linux may wake a thread on the waker's core although others are idle, and leave both there for tens of
        milliseconds, so that steps take twice as long.
        """
        core = current_core()
        if core is not None and core != self._core:
            bar_from(core, (worker.native_id for worker in self._workers if worker.native_id is not None))
            self._core = core
        assert self._wake_all is not None
        self._wake_all(self._address)


class Turn:
    """A step's use of a pool, from `begin` to `end`.

    If an exception, which may arrive at any bytecode, prevents the end, the pool is free once the turn is garbage.
    """

    __slots__ = ("__weakref__", "_pool", "_taken")

    def __init__(self, pool: Pool):
        self._pool = pool
        self._taken = False

    def begin(self, scratch_bytes: int) -> int:
        """Takes the pool, and wakes its threads; see `Pool.wake`.

        Returns:
            The address of the pool's memory; 0 if the step has to run on the caller's thread alone.

        Raises:
            DeviceError: `TG_NUM_THREADS` is not a positive integer, or the threads' code can't be compiled.
        """
        if self._pool.threads == 1:
            return 0
        self._taken = self._pool.is_taken_by(self)
        return self._pool.wake(scratch_bytes) if self._taken else 0

    def end(self) -> None:
        """Releases the pool, if it was taken."""
        if self._taken:
            self._pool.release()


def _run(work: Callable[[int, int], None], memory: np.ndarray, scratch: np.ndarray) -> None:
    """The body of a pool thread: works and sleeps until it is replaced."""
    work(memory.ctypes.data, scratch.ctypes.data + -scratch.ctypes.data % 64)


POOL = Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget_threads)
