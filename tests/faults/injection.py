"""Makes the n-th operation of a kind fail: of files, of NumPy's memory, of a GPU, or of programs that run.

Each kind is caught at the narrowest place that all of its operations go through, so that none can be forgotten:
Python's audit hook sees every file that is opened, renamed or deleted, and NumPy's own allocator every array. A file
system that is full is the kernel's limit of a file's size: it fails in the middle of a write, in any library.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from tensorgrad.runtime.counting import RunCount


@dataclass
class Fault:
    """Counts operations, and tells which of them fails.

    Attributes:
        at: The number of the operation that fails, from 1; 0 for none.
        lasts: Whether those after it fail too.
        count: How many there were.
        has_struck: Whether one has failed.
    """

    at: int
    lasts: bool = False
    count: int = 0
    has_struck: bool = False

    def strikes(self) -> bool:
        """Counts an operation; returns whether it fails."""
        self.count += 1
        fails = self.count == self.at or (self.lasts and 0 < self.at < self.count)
        self.has_struck = self.has_struck or fails
        return fails


Act: TypeAlias = Callable[[Path], object]
"""What happens at an operation of a file: raises an error, or a signal."""
Injector: TypeAlias = Callable[[Fault, Path], Any]
"""A context manager, in whose block a fault strikes operations of a kind; those of files, in a folder."""

# Files

FILE_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.utime", "os.listdir", "os.scandir"}
_watching: list[Callable[[str, Path, bool], None]] = []
"""What is told of each operation of a file: its event, the path, and whether it may write. Hooks can't be removed."""


def _audited(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event not in FILE_EVENTS or not isinstance(arguments[0], str | os.PathLike):
        return
    writes = event != "open" or bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
    _watching[-1](event, Path(arguments[0]), writes)


sys.addaudithook(_audited)


@contextmanager
def watched(folder: Path, tell: Callable[[str, Path, bool], None]) -> Iterator[None]:
    """Calls a function before each operation of files in a folder, of the calling thread."""
    thread = threading.get_ident()

    def told(event: str, path: Path, writes: bool) -> None:
        if thread == threading.get_ident() and path.is_relative_to(folder):
            tell(event, path, writes)

    synchronize = os.fsync

    def fsync(descriptor: int) -> None:
        told("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")), True)
        synchronize(descriptor)

    import safetensors

    read = safetensors.safe_open

    def safe_open(path: Any, *arguments: Any, **options: Any) -> Any:
        told("open", Path(path), False)
        return read(path, *arguments, **options)

    with ExitStack() as stack:
        stack.enter_context(patch.object(os, "fsync", fsync))
        stack.enter_context(patch.object(safetensors, "safe_open", safe_open))
        _watching.append(told)
        stack.callback(_watching.remove, told)
        yield


def raising(number: int) -> Act:
    """Returns what raises an error of the system."""

    def act(path: Path) -> None:
        raise OSError(number, os.strerror(number), os.fspath(path))

    return act


def signalling(number: signal.Signals) -> Act:
    """Returns what sends this process a signal."""
    return lambda _: os.kill(os.getpid(), number)


def files(act: Act, removes: bool = False) -> Injector:
    """Returns an injector at each operation of a file: opening, syncing, renaming; and deleting, if asked."""

    @contextmanager
    def inject(fault: Fault, folder: Path) -> Iterator[None]:
        def tell(event: str, path: Path, writes: bool) -> None:
            if (event != "os.remove" or removes) and fault.strikes():
                act(path)

        with watched(folder, tell):
            yield

    return inject


def full(size: int, ends: bool = False) -> Injector:
    """Returns an injector at each file that is written: no more than so many bytes fit.

    Args:
        size: How many bytes fit.
        ends: Whether the process ends then, in the middle of the write, instead of getting an error.
    """

    @contextmanager
    def inject(fault: Fault, folder: Path) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)

        def tell(event: str, path: Path, writes: bool) -> None:
            if event == "open" and writes:
                fails = fault.strikes()
                resource.setrlimit(resource.RLIMIT_FSIZE, (size if fails else before[0], before[1]))

        action = signal.signal(signal.SIGXFSZ, signal.SIG_DFL if ends else signal.SIG_IGN)
        try:
            with watched(folder, tell):
                yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, action)

    return inject


# NumPy's memory

SET_HANDLER, GET_HANDLER = 304, 305
"""The places of `PyDataMem_SetHandler` and `PyDataMem_GetHandler` in NumPy's table of functions."""
NAME_BYTES = 127

# Not `CFUNCTYPE`, by which NumPy's functions would be called without the interpreter's lock.
_Allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_AllocateZeros = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Reallocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler` of NumPy's C API."""

    _fields_ = (
        ("name", ctypes.c_char * NAME_BYTES),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", _Allocate),
        ("calloc", _AllocateZeros),
        ("realloc", _Reallocate),
        ("free", ctypes.c_void_p),
    )


class Allocator:
    """NumPy's allocator, in which a fault can strike. It frees by NumPy's own function, so arrays outlive a block."""

    def __init__(self) -> None:
        python, numpy = ctypes.pythonapi, importlib.import_module("numpy._core._multiarray_umath")
        python.PyCapsule_GetPointer.restype = ctypes.c_void_p
        python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        python.PyCapsule_New.restype = ctypes.py_object
        python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        address = python.PyCapsule_GetPointer(numpy._ARRAY_API, None)
        table = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER])
        own = ctypes.PYFUNCTYPE(ctypes.py_object)(table[GET_HANDLER])()
        self._own = _Handler.from_address(python.PyCapsule_GetPointer(own, b"mem_handler"))
        self._fault = Fault(0)
        self._handler = _Handler.from_buffer_copy(self._own)
        self._handler.name = b"failing"
        self._handler.malloc = _Allocate(lambda context, size: self._or_none(self._own.malloc, context, size))
        self._handler.calloc = _AllocateZeros(lambda *given: self._or_none(self._own.calloc, *given))
        self._handler.realloc = _Reallocate(lambda *given: self._or_none(self._own.realloc, *given))
        self._capsule = python.PyCapsule_New(ctypes.addressof(self._handler), b"mem_handler", None)

    def _or_none(self, allocate: Callable[..., int | None], *arguments: Any) -> int | None:
        return None if self._fault.strikes() else allocate(*arguments)

    @contextmanager
    def inject(self, fault: Fault, _: Path) -> Iterator[None]:
        """Fails one of the arrays that are allocated in the block, by this thread."""
        self._fault = fault
        before = self._set(self._capsule)
        try:
            yield
        finally:
            self._set(before)
            self._fault = Fault(0)


memory: Injector = Allocator().inject

# Programs that run


def runs(act: Act) -> Injector:
    """Returns an injector at each run of a program, just before it changes the state."""

    @contextmanager
    def inject(fault: Fault, folder: Path) -> Iterator[None]:
        count_with = RunCount.count_with

        def counted(self: RunCount, change: Callable[[], object]) -> None:
            if fault.strikes():
                act(folder)
            count_with(self, change)

        with patch.object(RunCount, "count_with", counted):
            yield

    return inject


# A GPU


def gpu(strike: Callable[[], object], submits: bool = True) -> Injector:
    """Returns an injector at each call of a GPU: allocating, compiling, binding, writing, submitting, reading.

    Args:
        strike: What happens before the call: raises what wgpu reports, or loses the device.
        submits: Whether submits are struck too.
    """

    @contextmanager
    def inject(fault: Fault, _: Path) -> Iterator[None]:
        from wgpu.backends.wgpu_native import _api

        from tensorgrad.runtime.webgpu import encoding

        def struck(call: Callable[..., Any]) -> Callable[..., Any]:
            def instead(*arguments: Any, **options: Any) -> Any:
                if not inside and fault.strikes():
                    inside.append(True)  # what asks whether the device is lost must not be struck itself
                    try:
                        strike()
                    finally:
                        inside.clear()
                return call(*arguments, **options)

            return instead

        inside: list[bool] = []
        places: list[tuple[Any, str]] = [
            *((_api.GPUDevice, f"create_{what}") for what in ("buffer", "bind_group", "shader_module")),
            (_api.GPUDevice, "create_compute_pipeline"),
            (_api.GPUQueue, "write_buffer"),
            (_api.GPUBuffer, "map_async"),
        ]
        library = encoding.native_library()
        if library is not None:
            places += [
                (library, name)
                for name in (
                    "create_encoder",
                    "finish",
                    "map_buffer",
                    "create_trusted_module",
                    *(["queue_submit"] * submits),
                )
            ]
        with ExitStack() as stack:
            for owner, name in places:
                stack.enter_context(patch.object(owner, name, struck(getattr(owner, name))))
            yield

    return inject


def out_of_memory() -> None:
    """Raises what wgpu does if an allocation fails."""
    import wgpu

    raise wgpu.GPUOutOfMemoryError("Not enough memory left")


def invalid() -> None:
    """Raises what wgpu does for a call that it refuses."""
    import wgpu

    raise wgpu.GPUValidationError("Validation Error: injected")


def lose() -> None:
    """Destroys the current device; wgpu-py's `destroy` also ends the thread that awaited reads need."""
    from wgpu.backends.wgpu_native import lib

    from tensorgrad.runtime.webgpu import WebGPUDevice

    native: Any = lib
    device = next(iter(WebGPUDevice._by_adapter.values()))
    native.wgpuDeviceDestroy(device.wgpu_device._internal)
