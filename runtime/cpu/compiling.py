"""Compiles LLVM IR in processes beside this one, from when each text is there.

LLVM is locked in a process, so that what is to be compiled at a time takes a process each.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO, Self, cast

from tensorgrad.runtime.cpu import compiler

HELPER_SECONDS = 600.0
"""Processes that compile are waited for so long while none of them gets anything done."""

LEAST_SHARE = 1 << 16
"""A further process starts for so many characters, which LLVM compiles in about half the time that starting takes."""

_NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""Windows opens none for a process that compiles."""


@dataclass(eq=False)
class Job:
    """LLVM IR that is to be compiled.

    Attributes:
        text: The IR.
        object: Its object file, once it is there.
    """

    text: str
    object: bytes | None = None


class Compilers:
    """Compiles texts from when they are added, in processes that end with the block of `with`.

    Args:
        processes: How many there may be, besides this one.
    """

    def __init__(self, processes: int):
        self._processes = processes
        self._changed = threading.Condition()
        self._waiting: list[Job] = []  # what nobody has begun with
        self._begun = 0
        self._characters = 0
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
        """Returns the job of a text, which a process begins with as soon as one is free."""
        job = Job(text)
        with self._changed:
            self._waiting.append(job)
            self._characters += len(text)
            self._changed.notify()
        if len(self._helpers) < min(self._processes, self._characters // LEAST_SHARE):
            self._start()
        return job

    def finish(self) -> None:
        """Compiles what nobody has begun with, and waits for the others: what they fail to do, this process does.

        Raises:
            RuntimeError: LLVM refuses a text.
        """
        while True:
            with self._changed:
                while not self._waiting and self._begun:
                    if not self._changed.wait(HELPER_SECONDS):
                        for helper in self._helpers:  # which gives back what it has begun with
                            helper.stop()
                if not self._waiting:
                    return
                job = self._take()
            job.object = compiler.object_of(job.text)

    def _take(self) -> Job:
        """Returns the longest text of those nobody has begun with, so that all end at about the same time."""
        return self._waiting.pop(max(range(len(self._waiting)), key=lambda i: len(self._waiting[i].text)))

    def _start(self) -> None:
        helper = _Helper()
        thread = threading.Thread(target=self._serve, args=(helper,), name="tensorgrad compiles", daemon=True)
        self._helpers.append(helper)
        self._threads.append(thread)
        thread.start()

    def _serve(self, helper: _Helper) -> None:
        """Has a process compile one text after the other, until it fails or there is nothing more to do."""
        is_fine = helper.received() is not None
        while is_fine:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                job = self._take()
                self._begun += 1
            job.object = helper.compiled(job.text)
            is_fine = job.object is not None
            with self._changed:
                self._begun -= 1
                if not is_fine:
                    self._waiting.append(job)
                self._changed.notify_all()


class _Helper:
    """A process that compiles; `compiler` says how it is talked to."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # In a program that is one executable file, that file is no Python.
        if not sys.executable or getattr(sys, "frozen", False):
            return
        command = [sys.executable, "-P", compiler.__file__]
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=quiet, creationflags=_NO_WINDOW)

    def compiled(self, text: str) -> bytes | None:
        """Returns the object file of a text; `None` where the process fails, which ends it."""
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError):
            compiler.send(self._process.stdin, text.encode())
        return self.received()

    def received(self) -> bytes | None:
        """Returns what the process sends next, nothing when it is ready; `None` where it fails, which ends it."""
        if self._process is None:
            return None
        found = None
        with contextlib.suppress(OSError, ValueError):  # closed from this side
            found = compiler.receive(cast(IO[bytes], self._process.stdout))
        if found is None or not found.startswith(compiler.MARK):
            self.stop()
            return None
        return found.removeprefix(compiler.MARK)

    def stop(self) -> None:
        """Ends the process, if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):  # what could not be sent any more
                    cast(IO[bytes], pipe).close()
