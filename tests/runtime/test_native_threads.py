"""The threads that run kernels: sleeping, ending, and their cores."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorgrad.runtime.cpu.pool import Pool, Turn
from tensorgrad.runtime.cpu.stepping import native_runtime
from tensorgrad.runtime.cpu.threads import THREADS_VARIABLE, bar_from, current_core

LINUX = sys.platform == "linux"
SECONDS = 20.0


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Yields a pool of three threads, the caller's included, which end with the test."""
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    pool = Pool()
    yield pool
    pool.end_threads()


def _workers(before: set[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread not in before]


def _wait_until(states: set[str], thread: threading.Thread) -> str:
    """Waits until Linux reports one of these states for a thread, and returns it."""
    end, state = time.monotonic() + SECONDS, ""
    while state not in states and time.monotonic() < end:
        text = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="ascii")
        state = text.rpartition(")")[2].split()[0]
        time.sleep(0.001)
    return state


def _step(pool: Pool, scratch_bytes: int = 0) -> None:
    turn = Turn(pool)
    assert turn.begin(scratch_bytes)
    turn.end()


def test_threads_sleep_when_there_is_no_step(pool: Pool) -> None:
    """Between steps they use no CPU time; a step wakes them, and they sleep again."""
    before = set(threading.enumerate())
    _step(pool)
    workers = _workers(before)
    assert len(workers) == 2
    for _ in range(3 if LINUX else 0):
        assert [_wait_until({"S"}, worker) for worker in workers] == ["S", "S"]
        turn = Turn(pool)
        assert turn.begin(0)
        assert {_wait_until({"R"}, worker) for worker in workers} == {"R"}
        turn.end()


def test_larger_scratch_memory_takes_new_threads(pool: Pool) -> None:
    """The old threads end, whether they sleep or spin."""
    before = set(threading.enumerate())
    _step(pool)
    old = _workers(before)
    _step(pool, scratch_bytes=1 << 12)
    for worker in old:
        worker.join(SECONDS)
    assert not any(worker.is_alive() for worker in old)
    assert len(_workers(before)) == 2
    _step(pool, scratch_bytes=1 << 10)
    assert len(_workers(before)) == 2


def test_a_pool_in_use_gives_nothing(pool: Pool) -> None:
    """A concurrent step runs on its caller's thread."""
    turn, other = Turn(pool), Turn(pool)
    assert turn.begin(0)
    assert other.begin(0) == 0
    other.end()
    assert other.begin(0) == 0
    turn.end()
    _step(pool)


def test_a_pool_whose_user_is_garbage_is_free(pool: Pool) -> None:
    """An exception may come between any two bytecodes, so a step that it ends may not get to release the pool."""
    assert Turn(pool).begin(0)
    _step(pool)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_keep_off_a_core(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may run on every core of this thread except one; with a single core, nothing changes."""
    if not LINUX:
        assert current_core() is None
        return
    cores = {3, 5, 8}
    affinities: dict[int, set[int]] = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores))
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, others: affinities.update({thread: others}))
    bar_from(5, range(threads))
    assert affinities == {thread: {3, 8} for thread in range(threads)}
    affinities.clear()
    cores = {5}
    bar_from(5, range(threads))
    assert not affinities


def test_a_thread_that_has_ended_is_passed_over() -> None:
    if not LINUX:
        return
    core = current_core()
    assert core is not None and core in os.sched_getaffinity(0)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    bar_from(core, [thread.native_id])


def test_a_dispatch_ends_after_its_last_task(pool: Pool) -> None:
    """Each thread takes a task, and those of the pool are late: the caller must wait for both of them."""
    caller, all_taken, done = threading.get_ident(), threading.Barrier(3), list[int]()

    def task(frame: int, scratch: int, start: int, end: int) -> None:
        all_taken.wait(SECONDS)
        time.sleep(0 if threading.get_ident() == caller else 0.01 * (1 + start))
        done.extend(range(start, end))

    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(task)
    run = native_runtime().function("tg_run", *(3 * [ctypes.c_void_p]), ctypes.c_void_p, ctypes.c_int64)
    turn = Turn(pool)
    address = turn.begin(0)
    for _ in range(10):
        run(address, ctypes.cast(kernel, ctypes.c_void_p), None, None, 3)
        assert sorted(done) == [0, 1, 2]
        done.clear()
    turn.end()
