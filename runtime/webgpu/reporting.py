"""What the device reports becomes a `DeviceError`: from a call, or later."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

import wgpu

from tensorgrad.runtime.errors import DeviceError, TensorgradError


class _LateErrors(logging.Handler):
    """Collects what wgpu reports outside of a call: it logs that, and raises nothing."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.pending: list[str] = []
        self.loss: str | None = None
        self.unusable: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the reports of wgpu's error handler; what Rust logs besides is no error of ours."""
        if record.funcName != "log_error":
            return
        message = record.getMessage()
        if not message.startswith("The WGPU device was lost"):
            self.pending.append(message)
        elif "destroyed" not in message.splitlines()[0].lower():
            self.loss = message

    def check_usable(self) -> None:
        """Raises why this process can't use devices any more, if it can't."""
        if self.unusable is not None:
            raise DeviceError(self.unusable)

    def check(self) -> None:
        """Raises what has been collected."""
        self.check_usable()
        if self.pending:
            raise DeviceError("the device reported: " + self.take())

    def take(self) -> str:
        """Returns what has been collected, and forgets it."""
        messages, self.pending = self.pending, []
        return "\n".join(messages)

    def take_loss(self) -> str | None:
        """Returns the report that a device was lost, if there is one, and forgets it; it does not say which."""
        message, self.loss = self.loss, None
        return None if message is None else " ".join(message.split())


_late_errors = _LateErrors()
logging.getLogger("wgpu").addHandler(_late_errors)
check_usable, take_loss = _late_errors.check_usable, _late_errors.take_loss

_processes: set[int] = set()
"""Those that have talked to a driver: this one, and those that it was forked from."""


def _note_fork() -> None:
    """Keeps a forked child from its parent's drivers: their threads and locks are not there, so that calls hang."""
    if _processes:
        _late_errors.unusable = (
            f"process {os.getpid()} was forked from one that uses a GPU, and drivers don't survive that: start it by "
            "multiprocessing.get_context('spawn'), or use device='numpy' here"
        )


if hasattr(os, "register_at_fork"):  # not where there are no forks
    os.register_at_fork(after_in_child=_note_fork)


def give_up(message: str) -> DeviceError:
    """Makes of devices that don't answer ones that can't be used any more; the error to raise."""
    _late_errors.unusable = message
    return DeviceError(message)


@contextlib.contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns whatever the device reports within the block, or has reported since, into a `DeviceError`."""
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
