"""The threads that run kernels: they wait in native code, and take tasks by an atomic counter.

A dispatch is published as a function, its argument and a number of tasks, under a new generation number. Threads take
one task after the other by compare-and-swap on a word of the generation and the next task, so that one that comes late
finds the word changed and takes nothing. Which thread runs a task changes no result: tasks write apart.

Between dispatches of a step threads spin. When no step runs for a while, they return to Python and sleep there.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from typing import Any

import numpy as np

from tensorgrad.runtime.cpu.code import NativeCode
from tensorgrad.runtime.cpu.threads import thread_count

TICKET, DONE, FUNCTION, FRAME, TASKS, ACTIVE = 0, 8, 16, 17, 18, 24
"""Words of the pool's memory; what different threads write lies in different cache lines."""
POOL_WORDS = 32

CLOSED = 0xFFFFFFFF
"""The next task of a generation that gives out none."""

SPINS = 4000
"""How often a thread looks for work before it lets others run between two looks, and without a step, goes to sleep."""

_X86 = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_ARM = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")
_PAUSE = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}.get(platform.machine(), ("", ""))
"""What tells a core that it spins: its declaration, and its call."""

_YIELD = "SwitchToThread" if os.name == "nt" else "sched_yield"


def pool_text() -> str:
    """Returns LLVM IR of what publishes a dispatch, `tg_run`, and of what threads run, `tg_work`."""
    return f"""
declare i32 @{_YIELD}()
{_PAUSE[0]}

define private i1 @tg_take(ptr %pool, ptr %scratch) {{
entry:
  %ticket = load atomic i64, ptr %pool acquire, align 8
  %next = and i64 %ticket, {CLOSED}
  %ptasks = getelementptr i64, ptr %pool, i64 {TASKS}
  %tasks = load atomic i64, ptr %ptasks monotonic, align 8
  %pfunction = getelementptr i64, ptr %pool, i64 {FUNCTION}
  %function = load atomic i64, ptr %pfunction monotonic, align 8
  %pframe = getelementptr i64, ptr %pool, i64 {FRAME}
  %frame = load atomic i64, ptr %pframe monotonic, align 8
  %some = icmp ult i64 %next, %tasks
  br i1 %some, label %try, label %none
try:
  %after = add i64 %ticket, 1
  %pair = cmpxchg ptr %pool, i64 %ticket, i64 %after acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %run, label %again
run:
  %f = inttoptr i64 %function to ptr
  %a = inttoptr i64 %frame to ptr
  %end = add i64 %next, 1
  call void %f(ptr %a, ptr %scratch, i64 %next, i64 %end)
  %pdone = getelementptr i64, ptr %pool, i64 {DONE}
  %count = atomicrmw add ptr %pdone, i64 1 release
  ret i1 true
again:
  ret i1 true
none:
  ret i1 false
}}

define void @tg_run(ptr %pool, ptr %function, ptr %frame, ptr %scratch, i64 %tasks) {{
entry:
  %pdone = getelementptr i64, ptr %pool, i64 {DONE}
  store atomic i64 0, ptr %pdone monotonic, align 8
  %f = ptrtoint ptr %function to i64
  %pfunction = getelementptr i64, ptr %pool, i64 {FUNCTION}
  store atomic i64 %f, ptr %pfunction monotonic, align 8
  %a = ptrtoint ptr %frame to i64
  %pframe = getelementptr i64, ptr %pool, i64 {FRAME}
  store atomic i64 %a, ptr %pframe monotonic, align 8
  %ptasks = getelementptr i64, ptr %pool, i64 {TASKS}
  store atomic i64 %tasks, ptr %ptasks monotonic, align 8
  %old = load atomic i64, ptr %pool monotonic, align 8
  %generation = lshr i64 %old, 32
  %following = add i64 %generation, 1
  %open = shl i64 %following, 32
  store atomic i64 %open, ptr %pool release, align 8
  br label %work
work:
  %more = call i1 @tg_take(ptr %pool, ptr %scratch)
  br i1 %more, label %work, label %wait
wait:
  %done = load atomic i64, ptr %pdone acquire, align 8
  %all = icmp eq i64 %done, %tasks
  br i1 %all, label %close, label %spin
spin:
  {_PAUSE[1]}
  br label %wait
close:
  %closed = or i64 %open, {CLOSED}
  store atomic i64 %closed, ptr %pool release, align 8
  ret void
}}

define void @tg_work(ptr %pool, ptr %scratch) {{
entry:
  br label %look
look:
  %idle = phi i64 [ 0, %entry ], [ 0, %found ], [ %longer, %spin ], [ %longer, %doze ]
  %more = call i1 @tg_take(ptr %pool, ptr %scratch)
  br i1 %more, label %found, label %wait
found:
  br label %look
wait:
  %longer = add i64 %idle, 1
  %long = icmp ugt i64 %longer, {SPINS}
  br i1 %long, label %rest, label %spin
spin:
  {_PAUSE[1]}
  br label %look
rest:
  %pactive = getelementptr i64, ptr %pool, i64 {ACTIVE}
  %active = load atomic i64, ptr %pactive monotonic, align 8
  %stepping = icmp ne i64 %active, 0
  br i1 %stepping, label %doze, label %leave
doze:
  %ignored = call i32 @{_YIELD}()
  br label %look
leave:
  ret void
}}
"""


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
        self._code: NativeCode | None = None
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
        if self._code is None:
            self._code = NativeCode(pool_text())
            # Never freed: threads may still be in it when the interpreter ends.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._code))
        while self._started < self.threads - 1:
            self._started += 1
            scratch = np.zeros(self._scratch_bytes + 64, np.uint8)
            work = self._code.function("tg_work", ctypes.c_void_p, ctypes.c_void_p)
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
