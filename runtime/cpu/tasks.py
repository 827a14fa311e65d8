"""Native code of the thread pool: publishes a dispatch, and takes its tasks.

A dispatch is published as a function, its arguments and a number of tasks, under a new generation number. Threads take
tasks with a compare-and-swap on the ticket, a word that holds the generation and the next task, so a late thread finds
the word changed and takes nothing. Which thread runs a task does not affect results: tasks write disjoint memory.

A thread takes a part of the tasks that are left, at last single ones, since neighbouring tasks read neighbouring
memory, and a product's task asks for what the next one reads, as in

C. Polychronopoulos, D. Kuck: Guided Self-Scheduling (IEEE Transactions on Computers C-36, 1987).

Threads also sleep here, on a condition variable of the operating system. If they slept in Python, each change between
sleeping and working would take the GIL: a step would wait for a thread that holds it, and be woken on that thread's
core, where the two then share one core while others idle.

The ticket goes through these states, in this order; only the caller of `tg_run` opens and closes it:

- closed: the next task is `CLOSED`, so nothing is handed out. Only now may the caller write the words of a dispatch.
- open: the next task is less than `TASKS`. The thread whose compare-and-swap adds a number runs as many tasks.
- taken: the next task is `TASKS`. The caller waits until `DONE` is `TASKS` too, and closes.

What holds in any order of steps, under the memory model of LLVM (`test_pool_protocol` runs this code in all
of them, and names the invariant that each memory order and each check is for):

1. A task runs once, with its own dispatch's function and arguments, and sees what the caller wrote before; see
   `_take_text`.
2. `tg_run` returns, after all of its tasks have ended, and its caller sees what they wrote; see `_run_text`.
3. A thread that sleeps when a step begins is woken for it, and all threads end once `ENDED` is set; see
   `_sleeping_text`.

Memory orders are the weakest that will do, and where one is stronger it is noted. On x86 all loads are `acquire` and
all stores `release` anyway.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

TICKET, DONE, FUNCTION, ARGUMENTS, TASKS, PARTS = 0, 8, 16, 17, 18, 19
"""Word offsets in the pool's memory; words that different threads write are in different cache lines.

All threads write the ticket, and count finished tasks in `DONE`; the caller of `tg_run` sets that to 0, and writes the
rest, but for the parts that tasks are divided into, which `Pool` writes before threads start.
"""

PARTS_A_THREAD = 2
"""Into how many parts for each thread the tasks that are left are divided."""

ACTIVE, ASLEEP, ENDED = 24, 25, 26
"""Words: whether a step runs, how many threads sleep, and whether threads should end.

`Pool` writes the first and the last. The threads count themselves in the other, which saves a call of `tg_wake` if it
is 0.
"""

LOCK, CONDITION = 32, 48
"""Words: a system lock and a condition variable, each at most 64 bytes on Linux and macOS, and 8 on Windows."""

POOL_WORDS = 64

CLOSED = 0xFFFFFFFF
"""The next-task value of a generation that hands out no more tasks."""

SPINS = 4000
"""How often a thread polls for work before it yields between polls, and without a step, goes to sleep."""

_X86 = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
_ARM = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")
_PAUSE = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}.get(platform.machine(), ("", ""))
"""The spin-wait hint for this architecture: its declaration, and its call."""

_POSIX = f"""
declare i32 @sched_yield()
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define void @tg_prepare(ptr %pool) {{
  %lock = getelementptr i64, ptr %pool, i64 {LOCK}
  %condition = getelementptr i64, ptr %pool, i64 {CONDITION}
  %1 = call i32 @pthread_mutex_init(ptr %lock, ptr null)
  %2 = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}}
"""

_WINDOWS = """
declare i32 @SwitchToThread()
declare void @AcquireSRWLockExclusive(ptr)
declare void @ReleaseSRWLockExclusive(ptr)
declare i32 @SleepConditionVariableSRW(ptr, ptr, i32, i32)
declare void @WakeAllConditionVariable(ptr)

define void @tg_prepare(ptr %pool) {
  ret void
}
"""


@dataclass(frozen=True)
class System:
    """The threading primitives of an operating system.

    Attributes:
        declarations: Its function declarations, and `tg_prepare`, which initializes a lock and condition in zeroed
            memory.
        yields: The call that yields to other threads.
        lock: The call that takes the lock.
        unlock: The call that releases it.
        sleep: The call that waits for the condition, with the lock released meanwhile.
        wake: The call that wakes all waiting threads.
    """

    declarations: str
    yields: str
    lock: str
    unlock: str
    sleep: str
    wake: str


POSIX = System(
    _POSIX,
    "call i32 @sched_yield()",
    "call i32 @pthread_mutex_lock(ptr %lock)",
    "call i32 @pthread_mutex_unlock(ptr %lock)",
    "call i32 @pthread_cond_wait(ptr %condition, ptr %lock)",
    "call i32 @pthread_cond_broadcast(ptr %condition)",
)

WINDOWS = System(
    _WINDOWS,
    "call i32 @SwitchToThread()",
    "call void @AcquireSRWLockExclusive(ptr %lock)",
    "call void @ReleaseSRWLockExclusive(ptr %lock)",
    "call i32 @SleepConditionVariableSRW(ptr %condition, ptr %lock, i32 -1, i32 0)",
    "call void @WakeAllConditionVariable(ptr %condition)",
)


def pool_text(system: System = WINDOWS if os.name == "nt" else POSIX) -> str:
    """Returns the LLVM IR of `tg_run`, which publishes a dispatch, `tg_work`, which threads run, and `tg_wake`."""
    functions = (_wake_text(system), _take_text(), _run_text(), _work_text(system))
    return "\n".join(["", system.declarations, _PAUSE[0], "", *functions])


def _take_text() -> str:
    """Returns `tg_take`, which runs tasks of the open dispatch, and returns whether to look again.

    A thread may be late: between its loads and its compare-and-swap, dispatches may end and begin.

    - It reads no words older than its ticket's dispatch: the caller wrote those before it opened the ticket
      (`release`), and the thread reads the ticket with `acquire`. Swaps of other threads in between hand this on.
    - If it wins, it has read no newer words either. The caller would have written them after it had counted these very
      tasks as done, which comes later.
    - If all tasks of its ticket's dispatch are taken, it could win only by a larger `TASKS` of a later dispatch.
      Whoever reads that (`acquire`) knows that the ticket is closed, which the caller did before it wrote `TASKS`
      (`release`); so the swap fails.
    - A generation comes again after 2^32 dispatches, longer than a thread can be late.

    The caller reads `DONE` with `acquire`, so `release` shows it what the task wrote. The swap could be `monotonic`.
    """
    return f"""define private i1 @tg_take(ptr %pool, ptr %scratch) {{
entry:
  %ticket = load atomic i64, ptr %pool acquire, align 8
  %next = and i64 %ticket, {CLOSED}
  %ptasks = getelementptr i64, ptr %pool, i64 {TASKS}
  %tasks = load atomic i64, ptr %ptasks acquire, align 8
  %pfunction = getelementptr i64, ptr %pool, i64 {FUNCTION}
  %function = load atomic i64, ptr %pfunction monotonic, align 8
  %parguments = getelementptr i64, ptr %pool, i64 {ARGUMENTS}
  %frame = load atomic i64, ptr %parguments monotonic, align 8
  %some = icmp ult i64 %next, %tasks
  br i1 %some, label %try, label %none
try:
  %pparts = getelementptr i64, ptr %pool, i64 {PARTS}
  %parts = load atomic i64, ptr %pparts monotonic, align 8
  %left = sub i64 %tasks, %next
  %others = sub i64 %parts, 1
  %most = add i64 %left, %others
  %taken = udiv i64 %most, %parts
  %after = add i64 %ticket, %taken
  %pair = cmpxchg ptr %pool, i64 %ticket, i64 %after acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %run, label %again
run:
  %f = inttoptr i64 %function to ptr
  %a = inttoptr i64 %frame to ptr
  %end = add i64 %next, %taken
  call void %f(ptr %a, ptr %scratch, i64 %next, i64 %end)
  %pdone = getelementptr i64, ptr %pool, i64 {DONE}
  %count = atomicrmw add ptr %pdone, i64 %taken release
  ret i1 true
again:
  ret i1 true
none:
  ret i1 false
}}
"""


def _run_text() -> str:
    """Returns `tg_run`: opens a dispatch, takes tasks of it, waits for those of the other threads, and closes it.

    It sets `DONE` to 0 while the ticket is closed and all tasks are counted, so no count of the last dispatch is added
    to this one, and none of this one is lost. It returns however late the other threads are, even if they sleep: it
    takes what they don't, and waits only for tasks that were taken.

    `TASKS` is written with `release`: it must not be seen before the end of the last dispatch is; see `_take_text`.
    That makes the order of the closing store unimportant. The other words follow from the ticket's `release`.
    """
    return f"""define void @tg_run(ptr %pool, ptr %function, ptr %frame, ptr %scratch, i64 %tasks) {{
entry:
  %pdone = getelementptr i64, ptr %pool, i64 {DONE}
  store atomic i64 0, ptr %pdone monotonic, align 8
  %f = ptrtoint ptr %function to i64
  %pfunction = getelementptr i64, ptr %pool, i64 {FUNCTION}
  store atomic i64 %f, ptr %pfunction monotonic, align 8
  %a = ptrtoint ptr %frame to i64
  %parguments = getelementptr i64, ptr %pool, i64 {ARGUMENTS}
  store atomic i64 %a, ptr %parguments monotonic, align 8
  %ptasks = getelementptr i64, ptr %pool, i64 {TASKS}
  store atomic i64 %tasks, ptr %ptasks release, align 8
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
"""


def _work_text(system: System) -> str:
    """Returns `tg_work`: takes tasks, yields and sleeps until the pool has ended."""
    return _polling_text(system) + _sleeping_text(system)


def _polling_text(system: System) -> str:
    """Returns the part of `tg_work` without the lock: a thread polls, and yields between polls while a step runs."""
    return f"""define void @tg_work(ptr %pool, ptr %scratch) {{
entry:
  %lock = getelementptr i64, ptr %pool, i64 {LOCK}
  %condition = getelementptr i64, ptr %pool, i64 {CONDITION}
  %pactive = getelementptr i64, ptr %pool, i64 {ACTIVE}
  %pasleep = getelementptr i64, ptr %pool, i64 {ASLEEP}
  %pended = getelementptr i64, ptr %pool, i64 {ENDED}
  br label %look
look:
  %idle = phi i64 [ 0, %entry ], [ 0, %found ], [ %longer, %spin ], [ %longer, %doze ], [ 0, %begin ]
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
  %active = load atomic i64, ptr %pactive monotonic, align 8
  %stepping = icmp ne i64 %active, 0
  br i1 %stepping, label %doze, label %leave
doze:
  {system.yields}
  br label %look
"""


def _sleeping_text(system: System) -> str:
    """Returns the part of `tg_work` with the lock.

    A thread looks at `ENDED` and `ACTIVE` with the lock held, and the lock is free only once it sleeps; `tg_wake` takes
    the lock after these words were set. So it either comes first, and the thread sees them, or it wakes the thread,
    which looks again. The lock orders these words, which is why `monotonic` suffices for them.

    A step calls `tg_wake` only if it sees somebody asleep, so a thread that is about to sleep may miss one. It loses
    time, not tasks, and the next step wakes it. The pool's end always calls `tg_wake`.
    """
    return f"""leave:
  {system.lock}
  br label %check
check:
  %ended = load atomic i64, ptr %pended monotonic, align 8
  %last = icmp ne i64 %ended, 0
  br i1 %last, label %end, label %still
still:
  %begun = load atomic i64, ptr %pactive monotonic, align 8
  %again = icmp ne i64 %begun, 0
  br i1 %again, label %begin, label %sleep
sleep:
  %one = atomicrmw add ptr %pasleep, i64 1 monotonic
  {system.sleep}
  %other = atomicrmw sub ptr %pasleep, i64 1 monotonic
  br label %check
begin:
  {system.unlock}
  br label %look
end:
  {system.unlock}
  ret void
}}
"""


def _wake_text(system: System) -> str:
    """Returns `tg_wake`, which wakes all threads that sleep."""
    return f"""define void @tg_wake(ptr %pool) {{
  %lock = getelementptr i64, ptr %pool, i64 {LOCK}
  %condition = getelementptr i64, ptr %pool, i64 {CONDITION}
  {system.lock}
  {system.wake}
  {system.unlock}
  ret void
}}
"""
