"""Converts errors that devices report, from a call or asynchronously, to `DeviceError`s."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

import wgpu

from tensorgrad.runtime.errors import DeviceError, TensorgradError


class _LateErrors(logging.Handler):
    """Collects errors that wgpu only logs, because they occur outside of a call."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.pending: list[str] = []
        self.loss: str | None = None
        self.unusable: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Collects the messages of wgpu's error handler; other messages from Rust are ignored."""
        if record.funcName != "log_error":
            return
        message = record.getMessage()
        if not message.startswith("The WGPU device was lost"):
            self.pending.append(message)
        elif "destroyed" not in message.splitlines()[0].lower():
            self.loss = message

    def check_usable(self) -> None:
        """Raises an error if this process can't use devices any more, with the reason."""
        if self.unusable is not None:
            raise DeviceError(self.unusable)

    def check(self) -> None:
        """Raises the collected errors, if any."""
        self.check_usable()
        if self.pending:
            raise DeviceError("the device reported: " + self.take())

    def take(self) -> str:
        """Returns and clears the collected errors."""
        messages, self.pending = self.pending, []
        return "\n".join(messages)

    def take_loss(self) -> str | None:
        """Returns and clears the report of a device loss, if there is one; it does not say which device."""
        message, self.loss = self.loss, None
        return None if message is None else " ".join(message.split())


_late_errors = _LateErrors()
logging.getLogger("wgpu").addHandler(_late_errors)
check_usable, take_loss = _late_errors.check_usable, _late_errors.take_loss

_processes: set[int] = set()
"""The ids of the processes that have used a driver: this one, and its ancestors by fork."""


def _note_fork() -> None:
    """Keeps a forked child from using its parent's drivers, whose threads don't survive a fork, so that calls hang."""
    if _processes:
        _late_errors.unusable = (
            f"process {os.getpid()} was forked from one that uses a GPU, and drivers don't survive that: start it by "
            "multiprocessing.get_context('spawn'), or use device='numpy' here"
        )


if hasattr(os, "register_at_fork"):  # not on platforms without fork
    os.register_at_fork(after_in_child=_note_fork)


def give_up(message: str) -> DeviceError:
    """Marks devices as unusable for this process because one doesn't respond; returns the error to raise."""
    _late_errors.unusable = message
    return DeviceError(message)


@contextlib.contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Converts errors that a device reports in the block, or has reported since the last one, to a `DeviceError`."""
    _late_errors.check()
    _processes.add(os.getpid())
    try:
        yield
    except TensorgradError:
        raise
    except (wgpu.GPUError, wgpu.GPUPipelineError, RuntimeError, MemoryError) as error:
        before = _late_errors.take()
        raise DeviceError(f"{doing}: " + "\n".join([*([before] if before else []), str(error)])) from error
    _late_errors.check()
