"""A background thread that runs exchanges in order, while the thread that started them computes."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable


class Task:
    """A function call on another thread.

    Args:
        act: The function.
    """

    def __init__(self, act: Callable[[], None]):
        self._act = act
        self._is_over = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Calls the function; on the other thread."""
        try:
            self._act()
        except BaseException as error:  # re-raised by `result`
            self._failure = error
        finally:
            self._is_over.set()

    def joined(self) -> BaseException | None:
        """Waits for completion, and returns the exception that it raised, if any."""
        self._is_over.wait()
        return self._failure

    def result(self) -> None:
        """Waits for completion, and raises the exception that it raised, if any."""
        failure = self.joined()
        if failure is not None:
            raise failure


class Background:
    """Runs tasks in the order in which they were started, on one thread, which ends with this object."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._tasks,), daemon=True, name="tensorgrad exchanges").start()
        weakref.finalize(self, self._tasks.put, None)

    def begin(self, act: Callable[[], None]) -> Task:
        """Queues a function to run after those started before, and returns its task."""
        task = Task(act)
        self._tasks.put(task)
        return task


def _work(tasks: queue.SimpleQueue[Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
