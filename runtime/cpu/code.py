"""Machine code of this CPU, by llvmlite."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorgrad.runtime.cpu import compiler
from tensorgrad.runtime.cpu.objects import objects_of
from tensorgrad.runtime.errors import DeviceError

_lock = threading.RLock()
"""One thread talks to LLVM at a time."""


# A fork waits until no other thread compiles: in its child, LLVM's locks and llvmlite's would stay taken.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def _close(engine: Any) -> None:
    """Frees native code; a fork waits for that too."""
    with _lock:
        engine.close()


@contextmanager
def _llvm(problem: str = "LLVM refuses the code") -> Iterator[None]:
    """Takes LLVM for this thread.

    Raises:
        DeviceError: llvmlite is missing, or LLVM reports the problem.
    """
    with _lock:
        try:
            yield
        except ImportError as error:
            raise DeviceError(f"device 'cpu' needs the package llvmlite: pip install llvmlite ({error})") from error
        except DeviceError:  # which is a RuntimeError
            raise
        except RuntimeError as error:
            raise DeviceError(f"{problem}: {error}") from error


def host_cpu() -> compiler.HostCpu:
    """Returns this CPU.

    Raises:
        DeviceError: llvmlite is missing, or has no code generator for it.
    """
    with _llvm("LLVM generates no code for this CPU"):
        return compiler.host_cpu()


def assembly(text: str) -> str:
    """Returns the assembly of this CPU for LLVM IR.

    Raises:
        DeviceError: The text is malformed.
    """
    with _llvm():
        machine = compiler.machine()
        return machine.emit_assembly(compiler.optimized(text, machine))


class NativeCode:
    """Compiled functions, which live as long as this object.

    Args:
        *texts: LLVM IR, a module each; one may call the functions of another.

    Attributes:
        cached: How many modules' object code was found on disk.

    Raises:
        DeviceError: A text is malformed, or there is no code generator.
    """

    def __init__(self, *texts: str):
        with _llvm():
            objects, self.cached = objects_of(texts)
            import llvmlite.binding as binding

            empty = binding.parse_assembly(f'target triple = "{compiler.host_cpu().triple}"')
            self._engine = binding.create_mcjit_compiler(empty, compiler.machine())
            for data in objects:
                self._engine.add_object_file(binding.ObjectFileRef.from_data(data))
            self._engine.finalize_object()
            weakref.finalize(self, _close, self._engine).atexit = False

    def address(self, name: str) -> int:
        """Returns where a function is."""
        with _lock:
            return self._engine.get_function_address(name)

    def words(self, name: str, count: int) -> np.ndarray:
        """Returns memory of the code's own, of so many words of 64 bits."""
        with _lock:
            address = self._engine.get_global_value_address(name)
        return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(address))

    def function(self, name: str, *arguments: Any) -> Any:
        """Returns a function that gives nothing; a call lets go of the interpreter's lock meanwhile."""
        return ctypes.CFUNCTYPE(None, *arguments)(self.address(name))
