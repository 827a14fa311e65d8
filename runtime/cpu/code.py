"""From LLVM IR to machine code of this CPU, by llvmlite; object code is kept on disk."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from tensorgrad.runtime.errors import DeviceError

CACHE_VARIABLE = "TENSORGRAD_CACHE_OBJECTS"
"""The folder of object code, or 0 for none; by default the user's cache folder."""

CACHE_BYTES = 256 << 20
"""Object code is kept up to so many bytes; what was not used for longest goes first."""

OPTIMIZATION = 2
"""LLVM's level: 3 compiles longer, and its code was not faster on the workloads."""

_lock = threading.RLock()
"""One thread talks to LLVM at a time."""


def _reset() -> None:
    """Makes a new lock in the child of a fork, where the thread that held the old one is not."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)


@dataclass(frozen=True)
class HostCpu:
    """What LLVM says of this CPU.

    Attributes:
        name: Its kind.
        features: What it has besides.
        triple: Architecture, maker, system.
        llvm: LLVM's version.
    """

    name: str
    features: str
    triple: str
    llvm: str

    @property
    def vector_bytes(self) -> int:
        """The size of a vector register."""
        features = self.features.split(",")
        return 64 if "+avx512f" in features else 32 if "+avx2" in features else 16


def _binding() -> Any:
    try:
        import llvmlite.binding as binding
    except ImportError as error:
        raise DeviceError(f"device 'cpu' needs the package llvmlite: pip install llvmlite ({error})") from error
    return binding


@cache
def host_cpu() -> HostCpu:
    """Returns this CPU.

    Raises:
        DeviceError: llvmlite is missing, or has no code generator for it.
    """
    binding = _binding()
    with _lock:
        try:
            binding.initialize_native_target()
            binding.initialize_native_asmprinter()
            triple = binding.get_process_triple()
            version = ".".join(map(str, binding.llvm_version_info))
            features = binding.get_host_cpu_features().flatten()
            return HostCpu(binding.get_host_cpu_name(), features, triple, version)
        except RuntimeError as error:
            raise DeviceError(f"LLVM generates no code for this CPU: {error}") from error


def _machine() -> Any:
    host = host_cpu()
    target = _binding().Target.from_triple(host.triple)
    return target.create_target_machine(cpu=host.name, features=host.features, opt=OPTIMIZATION, jit=True)


def _optimized(text: str, machine: Any) -> Any:
    """Returns a module, verified and optimized.

    Raises:
        DeviceError: The text is malformed.
    """
    binding, host = _binding(), host_cpu()
    try:
        module = binding.parse_assembly(f'target triple = "{host.triple}"\n{text}')
        module.verify()
    except RuntimeError as error:
        raise DeviceError(f"LLVM refuses the code: {error}") from error
    options = binding.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    options.loop_vectorization = True  # straight code is in vectors where it gains, and unrolling costs time
    options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def assembly(text: str) -> str:
    """Returns the assembly of this CPU for LLVM IR.

    Raises:
        DeviceError: The text is malformed.
    """
    with _lock:
        machine = _machine()
        return machine.emit_assembly(_optimized(text, machine))


class NativeCode:
    """Compiled functions, which live as long as this object.

    Args:
        text: LLVM IR.

    Attributes:
        was_cached: Whether the object code was found on disk.

    Raises:
        DeviceError: The text is malformed, or there is no code generator.
    """

    def __init__(self, text: str):
        self.was_cached = False
        binding = _binding()
        with _lock:
            machine = _machine()
            data = self._object(text, machine)
            empty = binding.parse_assembly(f'target triple = "{host_cpu().triple}"')
            self._engine = binding.create_mcjit_compiler(empty, machine)
            self._engine.add_object_file(binding.ObjectFileRef.from_data(data))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Returns where a function is."""
        with _lock:
            return self._engine.get_function_address(name)

    def function(self, name: str, *arguments: Any) -> Any:
        """Returns a function that gives nothing; a call lets go of the interpreter's lock meanwhile."""
        return ctypes.CFUNCTYPE(None, *arguments)(self.address(name))

    def _object(self, text: str, machine: Any) -> bytes:
        folder = cache_folder()
        host = host_cpu()
        parts = (text, host.name, host.features, host.triple, host.llvm, str(OPTIMIZATION))
        path = None if folder is None else folder / f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.o"
        data = None if path is None else _read(path)
        if data is not None:
            self.was_cached = True
            return data
        data = machine.emit_object(_optimized(text, machine))
        if path is not None:
            _write(path, data)
        return data


def cache_folder() -> Path | None:
    """Returns where object code is kept; `None` where it isn't."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return None if chosen in ("", "0") else Path(chosen)
    return user_cache_path("tensorgrad") / "objects"


def _read(path: Path) -> bytes | None:
    """Returns object code, if it is whole: a checksum stands in front of it. Damaged entries are dropped."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    digest, data = raw[:32], raw[32:]
    if hashlib.sha256(data).digest() != digest:
        path.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):  # a folder that can't be written to
        os.utime(path)
    return data


def _write(path: Path, data: bytes) -> None:
    """Keeps object code; the file appears at once and whole, whoever else writes it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(file.name, path)
        _trim(path.parent)
    except OSError:
        pass  # not kept


def _trim(folder: Path) -> None:
    """Removes what was not used for longest, until the rest is small enough."""
    found = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in folder.glob("*.o")), reverse=True)
    total = 0
    for _, size, entry in found:
        total += size
        if total > CACHE_BYTES:
            entry.unlink(missing_ok=True)
