"""Reads of mapped buffers, in the thread that waits for them.

wgpu-py's `map_sync` has a thread of its own wait for the device. That wakes two threads for each read, which may take
as long as a small step. Here the caller itself asks the native library whether its buffer is mapped. It never blocks in
a native call, since Python handles signals between them only: Ctrl-C ends a wait, however long a kernel runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import wgpu

from tensorgrad.runtime.webgpu import encoding
from tensorgrad.runtime.webgpu.encoding import NativeLibrary, NoHandleError

SPIN_SECONDS = 1e-3
"""For how long a read asks again and again; wgpu-py's thread waits for longer ones, of which its delay is little."""

MODE_READ, STATUS_SUCCESS = 1, 1
"""The values of `WGPUMapMode_Read` and `WGPUMapAsyncStatus_Success`."""

Take: TypeAlias = Callable[[np.ndarray], None]
"""Copies what it needs of the mapped bytes, which are gone when it returns."""


_Answer: TypeAlias = Exception
"""Holds the arguments of a callback in `args`, where there are none before it has been called.

The callback is its `__init__`, which is written in C. A function in Python could be ended by a signal's handler or a
trace function before it has stored anything, and native code discards what a callback raises.
"""

_unanswered: dict[int, tuple[_Answer, Any]] = {}
"""Callbacks that must be kept alive, also those of a read that was interrupted, until they have been called.

A device that is lost may never call that of the read in which it was; this one stays.
"""


def read_mapped(device: wgpu.GPUDevice, buffer: wgpu.GPUBuffer, size: int, take: Take) -> None:
    """Waits until what was submitted for a buffer has run, and reads its first bytes.

    If an exception interrupts it, the buffer must not be used again.

    Args:
        device: The device.
        buffer: An unmapped buffer that can be mapped to be read, written by the latest submit.
        size: The number of bytes, a multiple of four.
        take: Copies the bytes.

    Raises:
        wgpu.GPUError: The device reported an error.
        RuntimeError: The buffer can't be mapped, as when the device is lost.
    """
    library = encoding.native_library()
    if library is None or not _read_natively(library, device, buffer, size, take):
        buffer.map_sync(wgpu.MapMode.READ, 0, size)
        read_and_unmap(buffer, size, take)


def read_and_unmap(buffer: wgpu.GPUBuffer, size: int, take: Take) -> None:
    """Reads the first bytes of a buffer that wgpu-py has mapped, and unmaps it."""
    view: Any = buffer.read_mapped(0, size, copy=False)
    take(np.frombuffer(view, np.uint8))
    del view
    buffer.unmap()


def _read_natively(
    library: NativeLibrary, device: wgpu.GPUDevice, buffer: wgpu.GPUBuffer, size: int, take: Take
) -> bool:
    """Reads the first bytes of a buffer, and returns whether it has: what takes long is left to wgpu-py."""
    try:
        owner, handle = library.handle(device), library.handle(buffer)
    except NoHandleError:
        return False
    status = library.checked(_map, library, owner, handle, size)
    if status is not None and status != STATUS_SUCCESS:
        raise RuntimeError(f"a buffer could not be mapped (status {status})")
    if status is not None:
        take(np.frombuffer(library.memory(library.mapped_range(handle, 0, size), size), np.uint8))
    library.checked(library.unmap, handle)  # if it is not mapped yet, this withdraws the request
    return status is not None


def _map(library: NativeLibrary, device: Any, buffer: Any, size: int) -> int | None:
    """Requests that a buffer be mapped; returns the status, or None if there is none in time."""
    for key, (earlier, _) in list(_unanswered.items()):
        if earlier.args:
            _unanswered.pop(key, None)
    answer = _Answer()
    info, callback = library.map_callback(answer.__init__)
    _unanswered[id(answer)] = answer, callback
    library.map_buffer(buffer, MODE_READ, 0, size, info[0])
    deadline = time.perf_counter() + SPIN_SECONDS
    while not answer.args:
        library.poll(device, False, library.null)
        if not answer.args and time.perf_counter() > deadline:
            return None
    return answer.args[0]
