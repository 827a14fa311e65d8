"""What the device reports becomes a `DeviceError`: from a call, or later."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import wgpu

from tensorgrad.runtime.errors import DeviceError


class _LateErrors(logging.Handler):
    """Collects what wgpu reports outside of a call: it logs that, and raises nothing."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.pending: list[str] = []
        self.lost: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Takes the reports of wgpu's error handler; what Rust logs besides is no error of ours."""
        if record.funcName != "log_error":
            return
        message = record.getMessage()
        if not message.startswith("The WGPU device was lost"):
            self.pending.append(message)
        elif "destroyed" not in message.splitlines()[0].lower():
            self.lost = message

    def check(self) -> None:
        """Raises what has been collected; a lost device is never found again."""
        if self.lost is not None:
            raise DeviceError(self.lost)
        if self.pending:
            raise DeviceError("the device reported: " + self.take())

    def take(self) -> str:
        """What has been collected, which is nobody's from now on."""
        messages, self.pending = self.pending, []
        return "\n".join(messages)


_late_errors = _LateErrors()
logging.getLogger("wgpu").addHandler(_late_errors)


@contextlib.contextmanager
def reporting(doing: str) -> Iterator[None]:
    """Turns whatever the device reports within the block, or has reported since, into a `DeviceError`."""
    _late_errors.check()
    try:
        yield
    except DeviceError:
        raise
    except (wgpu.GPUError, wgpu.GPUPipelineError, RuntimeError, MemoryError) as error:
        before = _late_errors.take()
        raise DeviceError(f"{doing}: " + "\n".join([*([before] if before else []), str(error)])) from error
    _late_errors.check()
