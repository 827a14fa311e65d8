"""A thread on which exchanges run, one after another, while the thread that began them computes."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable


class Task:
    """Something that runs on another thread.

    Args:
        act: What runs.
    """

    def __init__(self, act: Callable[[], None]):
        self._act = act
        self._is_over = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Runs it; on the other thread."""
        try:
            self._act()
        except BaseException as error:  # raised again by `result`
            self._failure = error
        finally:
            self._is_over.set()

    def joined(self) -> BaseException | None:
        """Waits until it is over, and returns what it raised."""
        self._is_over.wait()
        return self._failure

    def result(self) -> None:
        """Waits until it is over, and raises what it raised."""
        failure = self.joined()
        if failure is not None:
            raise failure


class Background:
    """Runs tasks in the order in which they were begun, on one thread, which ends with this object."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._tasks,), daemon=True, name="tensorgrad exchanges").start()
        weakref.finalize(self, self._tasks.put, None)

    def begin(self, act: Callable[[], None]) -> Task:
        """Returns a task that runs behind those before it."""
        task = Task(act)
        self._tasks.put(task)
        return task


def _work(tasks: queue.SimpleQueue[Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
