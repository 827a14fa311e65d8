"""Compiles LLVM IR in worker processes, starting as soon as each text is added.

LLVM holds a lock per process, so compiling in parallel takes several processes.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import IO, Self, cast

from tensorgrad.runtime.cpu import compiler

HELPER_SECONDS = 600.0
"""How long to wait for workers while none of them makes progress."""

LEAST_SHARE = 1 << 16
"""The number of characters per additional worker, which LLVM compiles in half the time that a worker takes to start."""

_NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""Keeps Windows from opening a console window for a worker."""


@dataclass(eq=False)
class Job:
    """A compilation of LLVM IR.

    Attributes:
        text: The IR.
        object: Its object file, once it is compiled.
    """

    text: str
    object: bytes | None = None


class Compilers:
    """Compiles texts as they are added, in worker processes that end with the `with` block.

    Args:
        processes: The maximum number of workers.
    """

    def __init__(self, processes: int):
        self._processes = processes
        self._changed = threading.Condition()
        self._waiting: list[Job] = []  # jobs that no worker has started
        self._begun = 0
        self._characters = 0
        self._finishing = False
        self._closed = False
        self._helpers: list[_Helper] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for helper in self._helpers:
            helper.stop()
        for thread in self._threads:
            thread.join()

    def add(self, text: str) -> Job:
        """Returns the job of a text, which starts as soon as a worker is free."""
        job = Job(text)
        with self._changed:
            self._waiting.append(job)
            self._characters += len(text)
            self._changed.notify()
        if len(self._helpers) < min(self._processes, self._characters // LEAST_SHARE):
            self._start()
        return job

    def finish(self) -> None:
        """Compiles the jobs that no worker has started, and waits for the others; failed jobs are compiled here too.

        Raises:
            RuntimeError: LLVM rejects a text.
        """
        self._finishing = True
        while True:
            with self._changed:
                while not self._waiting and self._begun:
                    if not self._changed.wait(HELPER_SECONDS):
                        for helper in self._helpers:  # whose jobs go back to the queue
                            helper.stop()
                if not self._waiting:
                    self._finishing = False
                    return
                job = self._take()
            job.object = compiler.object_of(job.text)

    def _take(self) -> Job:
        """Returns the longest text in the queue, so that all workers finish at about the same time."""
        return self._waiting.pop(max(range(len(self._waiting)), key=lambda i: len(self._waiting[i].text)))

    def _start(self) -> None:
        helper = _Helper()
        thread = threading.Thread(target=self._serve, args=(helper,), name="tensorgrad compiles", daemon=True)
        self._helpers.append(helper)
        self._threads.append(thread)
        thread.start()

    def _serve(self, helper: _Helper) -> None:
        """Feeds texts to a worker until it fails or the `with` block ends.

        While others are being added, it has the next one before it returns one: this thread may have to wait for
        Python's lock, which the thread that adds them holds. At the end, all threads share what is left.
        """
        is_fine = helper.received() is not None
        jobs: deque[Job] = deque()
        while is_fine:
            with self._changed:
                while not (self._waiting or jobs or self._closed):
                    self._changed.wait()
                if self._closed:
                    return
                most = 1 if self._finishing else 2
                new = [self._take() for _ in range(min(most - len(jobs), len(self._waiting)))]
                self._begun += len(new)
            for job in new:
                helper.send(job.text)
            jobs.extend(new)
            jobs[0].object = helper.received()
            is_fine = jobs[0].object is not None
            with self._changed:
                self._begun -= 1 if is_fine else len(jobs)
                if is_fine:
                    jobs.popleft()
                else:
                    self._waiting.extend(jobs)
                self._changed.notify_all()


class _Helper:
    """A worker process; see `compiler` for the protocol."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # In a frozen application, the executable is not Python.
        if not sys.executable or getattr(sys, "frozen", False):
            return
        command = [sys.executable, "-P", compiler.__file__]
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, creationflags=_NO_WINDOW)

    def send(self, text: str) -> None:
        """Sends a text, whose object file is a later message."""
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, as its next message says
            compiler.send(self._process.stdin, text.encode())

    def received(self) -> bytes | None:
        """Returns the worker's next message: empty when it is ready, then the object file of each text, in order.

        `None` if the worker fails, which ends it.
        """
        if self._process is None:
            return None
        compiled = None
        with contextlib.suppress(OSError, ValueError):  # closed by this process
            compiled = compiler.receive(cast(IO[bytes], self._process.stdout))
        if compiled is None or not compiled.startswith(compiler.MARK):
            self.stop()
            return None
        return compiled.removeprefix(compiler.MARK)

    def stop(self) -> None:
        """Ends the process if it is still running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # unsent data can't be flushed any more
                    cast(IO[bytes], pipe).close()
