"""The protocol of the thread pool: its native code run in every order, and faults planted in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from interleavings import FAIL, WORD, Result, Threads, functions_of

from tensorgrad.runtime.cpu.tasks import (
    ACTIVE,
    ARGUMENTS,
    ASLEEP,
    CLOSED,
    DONE,
    ENDED,
    FUNCTION,
    PARTS,
    POSIX,
    SPINS,
    TASKS,
    TICKET,
    WINDOWS,
    System,
    pool_text,
)

FRAME = 100
"""The word in which the frame of the first dispatch begins: a number that its tasks expect, then the runs of each."""

POOL = (TICKET, DONE, FUNCTION, ARGUMENTS, TASKS, ACTIVE, ASLEEP, ENDED)


def _task(dispatch: int) -> str:
    """Returns tasks: they fail if the frame is not their dispatch's as the caller wrote it, or if one runs again."""
    return f"""
define void @task{dispatch}(ptr %frame, ptr %scratch, i64 %first, i64 %last) {{
entry:
  %input = load atomic i64, ptr %frame monotonic, align 8
  %right = icmp eq i64 %input, {dispatch + 1}
  br i1 %right, label %run, label %wrong
run:
  %task = phi i64 [ %first, %entry ], [ %next, %more ]
  %next = add i64 %task, 1
  %place = getelementptr i64, ptr %frame, i64 %next
  %before = atomicrmw add ptr %place, i64 1 monotonic
  %once = icmp eq i64 %before, 0
  br i1 %once, label %more, label %wrong
more:
  %left = icmp ult i64 %next, %last
  br i1 %left, label %run, label %end
wrong:
  call void @{FAIL}()
  br label %end
end:
  ret void
}}
"""


def _dispatch(number: int, tasks: int) -> str:
    """Returns a dispatch: writes what its tasks read, runs them, checks that all have run, and overwrites it."""
    frame = f"%frame{number}"
    lines = [
        f"  store atomic i64 {number + 1}, ptr {frame} monotonic, align 8",
        f"  call void @tg_run(ptr %pool, ptr @task{number}, ptr {frame}, ptr null, i64 {tasks})",
    ]
    for task in range(1, tasks + 1):
        name = f"{number}.{task}"
        lines += [
            f"  %place{name} = getelementptr i64, ptr {frame}, i64 {task}",
            f"  %runs{name} = load atomic i64, ptr %place{name} monotonic, align 8",
            f"  %once{name} = icmp eq i64 %runs{name}, 1",
            f"  br i1 %once{name}, label %next{name}, label %wrong",
            f"next{name}:",
        ]
    return "\n".join([*lines, f"  store atomic i64 0, ptr {frame} monotonic, align 8"])


def _dispatching(counts: Sequence[int]) -> str:
    """Returns a caller that runs dispatches of these numbers of tasks, and threads that take tasks without end."""
    frames = "".join(f", ptr %frame{number}" for number in range(len(counts)))
    body = "\n".join(_dispatch(number, count) for number, count in enumerate(counts))
    return f"""
define void @caller(ptr %pool{frames}) {{
{body}
  ret void
wrong:
  call void @{FAIL}()
  ret void
}}

define void @taker(ptr %pool) {{
entry:
  br label %look
look:
  %more = call i1 @tg_take(ptr %pool, ptr null)
  br label %look
}}
{"".join(map(_task, range(len(counts))))}
"""


def _stepping(counts: Sequence[int], *, waits: bool) -> str:
    """Returns a caller that runs steps of one dispatch as `Pool` does, and ends the threads.

    Args:
        counts: The number of tasks of each dispatch; a step without tasks runs none.
        waits: Whether a step begins only once a thread sleeps.
    """
    frames = "".join(f", ptr %frame{number}" for number in range(len(counts)))
    steps = "\n".join(
        f"""
  br label %asleep{number}
asleep{number}:
  %sleepers{number} = load atomic i64, ptr %asleep monotonic, align 8
  %sleep{number} = icmp ne i64 %sleepers{number}, 0
  br i1 %sleep{number}, label %begin{number}, label %{"asleep" if waits else "begin"}{number}
begin{number}:
  store atomic i64 1, ptr %active monotonic, align 8
  %more{number} = load atomic i64, ptr %asleep monotonic, align 8
  %any{number} = icmp ne i64 %more{number}, 0
  br i1 %any{number}, label %wake{number}, label %run{number}
wake{number}:
  call void @tg_wake(ptr %pool)
  br label %run{number}
run{number}:
{_dispatch(number, count) if count else ""}
  store atomic i64 0, ptr %active monotonic, align 8
"""
        for number, count in enumerate(counts)
    )
    return f"""
define void @caller(ptr %pool{frames}) {{
  %active = getelementptr i64, ptr %pool, i64 {ACTIVE}
  %asleep = getelementptr i64, ptr %pool, i64 {ASLEEP}
  %ended = getelementptr i64, ptr %pool, i64 {ENDED}
{steps}
  store atomic i64 1, ptr %ended monotonic, align 8
  call void @tg_wake(ptr %pool)
  ret void
wrong:
  call void @{FAIL}()
  ret void
}}
{"".join(map(_task, range(len(counts))))}
"""


@dataclass(frozen=True)
class Run:
    """What runs beside each other.

    Attributes:
        counts: The number of tasks of each dispatch.
        others: The number of threads besides the caller.
        sleeping: Whether the others are threads of a pool, with steps, and an end; otherwise they only take tasks.
        helpless: Whether steps begin once a thread sleeps, and leave all tasks to it.
        parts: The parts into which tasks that are left are divided.
    """

    counts: tuple[int, ...]
    others: int = 1
    sleeping: bool = False
    helpless: bool = False
    parts: int = 4

    def explore(self, pool: str) -> Result:
        """Runs the pool's code in all orders; it has to end, and no task may find anything wrong."""
        starts = [FRAME + 10 * number for number in range(len(self.counts))]
        words = dict.fromkeys(POOL, 0) | {TICKET: CLOSED, PARTS: self.parts}
        words |= {start + i: 0 for start, count in zip(starts, self.counts, strict=True) for i in range(1 + count)}
        steps = _stepping(self.counts, waits=self.helpless) if self.sleeping else _dispatching(self.counts)
        if self.helpless:
            pool = edited(pool, "  br label %work\nwork:", "  br label %wait\nwork:")
        caller = ("caller", (0, *(WORD * start for start in starts)))
        others = [("tg_work", (0, 0)) if self.sleeping else ("taker", (0,))] * self.others
        ending = 1 + self.others if self.sleeping else 1
        return Threads(functions_of(pool + steps), [caller, *others], words, ending).explore()


GROWING, SHRINKING, THREE, LATE = Run((1, 2)), Run((2, 1)), Run((1, 2), 2), Run((1, 2, 1))
SEVERAL = Run((3, 1, 4), parts=2)
STEP, IDLE, WOKEN = Run((1,), sleeping=True), Run((0, 0), 2, sleeping=True), Run((1,), sleeping=True, helpless=True)


def edited(text: str, old: str, new: str) -> str:
    """Returns a text with its only occurrence of `old` replaced."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _pool(system: System) -> str:
    """Returns the pool's code with threads that poll once before they yield or sleep: more changes nothing."""
    text = edited(pool_text(system), "%longer = add i64 %idle, 1", "%longer = add i64 0, 1")
    return edited(text, f"icmp ugt i64 %longer, {SPINS}", "icmp ugt i64 %longer, 0")


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("run", [GROWING, SHRINKING, THREE, LATE, SEVERAL, STEP, IDLE, WOKEN], ids=repr)
@pytest.mark.parametrize("system", [POSIX, WINDOWS], ids=["posix", "windows"])
def test_the_protocol_holds_in_any_order(run: Run, system: System) -> None:
    result = run.explore(_pool(system))
    assert not result.failure, "\n".join(result.failure)
    assert not result.stuck, "\n".join(result.stuck)
    assert result.states > 20


@dataclass(frozen=True)
class Fault:
    """An edit of the pool's code.

    Attributes:
        name: What is missing.
        old: The text that is replaced.
        new: What replaces it.
        run: What finds it.
        hangs: Whether threads hang; otherwise a task or the caller finds something wrong.
    """

    name: str
    old: str
    new: str
    run: Run
    hangs: bool = False


def _weaker(name: str, line: str, order: str, run: Run) -> Fault:
    """Returns a fault: an instruction has the order `monotonic`."""
    return Fault(name, f"{line} {order}", f"{line} monotonic", run)


OPENING = "  store atomic i64 %open, ptr %pool release, align 8\n"
CLOSING = "  store atomic i64 %closed, ptr %pool release, align 8\n"
RESET = "  store atomic i64 0, ptr %pdone monotonic, align 8\n"
TAKE_LOCK, FREE_LOCK = "  call i32 @pthread_mutex_lock(ptr %lock)\n", "  call i32 @pthread_mutex_unlock(ptr %lock)\n"
BROADCAST = "  call i32 @pthread_cond_broadcast(ptr %condition)\n"

TASK_FAULTS = (
    _weaker("words of the dispatch before the ticket", "store atomic i64 %open, ptr %pool", "release", GROWING),
    _weaker("words of the dispatch after the ticket", "%ticket = load atomic i64, ptr %pool", "acquire", GROWING),
    _weaker("the close before the number of tasks", "store atomic i64 %tasks, ptr %ptasks", "release", GROWING),
    _weaker("the number of tasks before the swap", "%tasks = load atomic i64, ptr %ptasks", "acquire", GROWING),
    Fault("the close", CLOSING, "", GROWING),
    Fault("the generation", "%following = add i64 %generation, 1", "%following = add i64 %generation, 0", GROWING),
    Fault("the comparison with the tasks", "br i1 %some, label %try, label %none", "br label %try", GROWING),
    Fault("the result of the swap", "br i1 %won, label %run, label %again", "br label %run", GROWING),
    Fault("all tasks that were taken", "%after = add i64 %ticket, %taken", "%after = add i64 %ticket, 1", SEVERAL),
)
"""A task runs twice, or with another dispatch's function or arguments."""

DISPATCH_FAULTS = (
    _weaker("what a task wrote before its count", "atomicrmw add ptr %pdone, i64 %taken", "release", SHRINKING),
    _weaker("what a task wrote after its count", "%done = load atomic i64, ptr %pdone", "acquire", SHRINKING),
    Fault("the count of several", "ptr %pdone, i64 %taken", "ptr %pdone, i64 1", SEVERAL, hangs=True),
    Fault("the wait for the last task", "br i1 %all, label %close, label %spin", "br label %close", SHRINKING),
    Fault("the reset of the count", RESET, "", GROWING),
    Fault("the reset before the opening", OPENING, OPENING + RESET, GROWING, hangs=True),
)
"""A dispatch goes on before its last task has ended, or never."""

SLEEP_FAULTS = (
    Fault("the broadcast", BROADCAST, "", STEP, hangs=True),
    Fault("the lock of who wakes", TAKE_LOCK + BROADCAST + FREE_LOCK, BROADCAST, STEP, hangs=True),
    Fault(
        "a look at the end before sleep", f"{TAKE_LOCK}  br label %check", f"{TAKE_LOCK}  br label %still", STEP, True
    ),
    Fault("a look at the end after sleep", "br label %check\nbegin:", "br label %still\nbegin:", STEP, True),
    Fault("a look at the step", "br i1 %again, label %begin, label %sleep", "br label %sleep", WOKEN, True),
    Fault("the lock's release for a step", f"begin:\n{FREE_LOCK}", "begin:\n", STEP, True),
    Fault("the lock's release at the end", f"end:\n{FREE_LOCK}", "end:\n", STEP, True),
    Fault(
        "the count of sleepers", "atomicrmw add ptr %pasleep, i64 1", "atomicrmw add ptr %pasleep, i64 0", WOKEN, True
    ),
)
"""A thread sleeps through a step that began after it, or for ever."""


@pytest.mark.parametrize(
    "fault", [*TASK_FAULTS, *DISPATCH_FAULTS, *SLEEP_FAULTS], ids=lambda fault: fault.name.replace(" ", "-")
)
def test_a_missing_step_is_found(fault: Fault) -> None:
    """Each order, check and step is necessary: without it some order of steps fails, or ends nowhere."""
    old = _pool(POSIX)
    new = edited(old, RESET, "") if fault.new == OPENING + RESET else old
    result = fault.run.explore(edited(new, fault.old, fault.new))
    assert bool(result.failure) != fault.hangs
    assert bool(result.stuck) == fault.hangs


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i64 %after acq_rel acquire", "i64 %after monotonic monotonic"),
        ("store atomic i64 %closed, ptr %pool release", "store atomic i64 %closed, ptr %pool monotonic"),
    ],
)
def test_two_orders_are_stronger_than_necessary(old: str, new: str) -> None:
    """The comments say so, and a change that makes one of them necessary has to change the comments."""
    for run in (GROWING, SHRINKING, THREE, STEP):
        result = run.explore(edited(_pool(POSIX), old, new))
        assert not result.failure and not result.stuck
