"""Which devices there are, and what a device's name stands for."""

from __future__ import annotations

import functools
import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from tensorgrad.errors import DeviceError, NoAdapterError, OptionError
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.cpu.stepping import compiling_ahead as native_compiling_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorgrad.runtime.backend import Executable
    from tensorgrad.runtime.executable import ProgramExecutable
    from tensorgrad.runtime.program import Kernel, Program
    from tensorgrad.runtime.target import Target
    from tensorgrad.runtime.webgpu import WebGPUDevice

    ProgramDevice: TypeAlias = WebGPUDevice | CpuDevice
    CompileKernel: TypeAlias = Callable[[Kernel, int], None]

DeviceName: TypeAlias = Literal["auto", "wgpu", "cpu", "numpy"]
"""What `device=` may be."""

NAMES = get_args(DeviceName)

_ELSEWHERE = {
    **dict.fromkeys(("cuda", "gpu", "mps", "rocm", "metal", "vulkan", "webgpu"), "wgpu"),
    "cpu": "cpu",
}
"""What devices are called by other libraries."""


@dataclass(frozen=True)
class Device:
    """Something to run on.

    Attributes:
        device: What to give to `tg.compile`.
        name: What its maker calls it.
        type: "hardware", "software" where a CPU plays the GPU, or "cpu".
        backend: What drives it: Vulkan, Metal, D3D12, OpenGL, LLVM, or NumPy.
        driver: The driver, where there is one.
    """

    device: str
    name: str
    type: str
    backend: str
    driver: str = ""


def devices() -> tuple[Device, ...]:
    """Everything that can be used here, the best first. `device="wgpu"` is the first adapter."""
    found: list[Device] = []
    try:
        from tensorgrad.runtime.webgpu import list_adapters
    except ImportError:
        adapters = []
    else:
        adapters = list_adapters()
    found += [Device("wgpu", info.name, info.type, info.backend, info.driver) for info in adapters]
    position = sum(device.type == "hardware" for device in found)
    reference = Device("numpy", f"NumPy {np.__version__}", "cpu", "NumPy")
    return (*found[:position], *_native(), *found[position:], reference)


def _native() -> list[Device]:
    """Returns the CPU, where LLVM generates code for it."""
    try:
        info = CpuDevice().info
    except DeviceError:
        return []
    return [Device("cpu", info.name, info.type, info.backend, info.driver)]


def described(device: ProgramDevice) -> str:
    """Returns what a device is called: the name to give to `tg.compile`, and what it is."""
    info = device.info
    if device.target.native:
        return f"cpu ({info.name}, {info.backend})"
    return f"wgpu ({info.name}, {info.backend}, {info.type})"


def target_of(device: ProgramDevice | None) -> Target | None:
    """Returns what programs are compiled for on a device; nothing for numpy, which runs tensors."""
    return None if device is None else device.target


def load_program(
    device: ProgramDevice,
    program: Program,
    share: Executable | None = None,
    in_turn: bool = False,
    timeout: float | None = None,
    snapshot_every: int | None = None,
) -> ProgramExecutable[Any, Any]:
    """Loads a program on a device; see `CpuExecutable`, `WebGPUExecutable` and `RestartingExecutable`.

    Args:
        device: Where, unless it shares with what has found another device in the meantime.
        program: What to run.
        share: An executable whose parameters and state this one uses too.
        in_turn: Whether to use the memory of its inputs and temporary values too.
        timeout: For how many seconds to wait for the device at a time.
        snapshot_every: After how many steps to take a snapshot, from which to go on when the device is lost; `None` is
            without, unless `share` has some.

    Raises:
        ProgramError, TargetError: The program is malformed, or doesn't fit the device.
        DeviceError: What the device reported.
    """
    if isinstance(device, CpuDevice):
        assert share is None or isinstance(share, CpuExecutable)
        return CpuExecutable(program, device, share, in_turn)
    from tensorgrad.runtime.webgpu import RestartingExecutable, WebGPUExecutable

    if isinstance(share, RestartingExecutable):
        return RestartingExecutable(program, device, share, in_turn, timeout)
    if snapshot_every is not None:
        return RestartingExecutable(program, device, None, in_turn, timeout, snapshot_every)
    assert share is None or isinstance(share, WebGPUExecutable)
    return WebGPUExecutable(program, device, share, in_turn, timeout)


def compiling_ahead(device: ProgramDevice) -> AbstractContextManager[CompileKernel | None]:
    """Gives what takes kernels of a program that is to be loaded, as soon as each is written, where that gains time."""
    return native_compiling_ahead() if isinstance(device, CpuDevice) else nullcontext()


def check_name(name: str) -> None:
    """Checks the name of a device.

    Raises:
        OptionError: There is no such; says which is meant.
    """
    if name not in NAMES:
        meant = _ELSEWHERE.get(str(name).lower().partition(":")[0])
        hint = f"; {meant!r} is what comes nearest" if meant else ""
        raise OptionError(f"device must be one of {', '.join(NAMES)}, not {name!r}{hint}")


def find_device(name: str) -> ProgramDevice | None:
    """Returns the device that a name stands for; `None` is numpy.

    Args:
        name: "wgpu" for the best adapter, software ones included; "cpu" for native code; "numpy" for the reference; or
            "auto" for a hardware adapter where there is one, else the CPU, which the log then says once.

    Raises:
        OptionError: Another name.
        NoAdapterError: There is no adapter for "wgpu"; says what to install.
        DeviceError: The adapter gives no device.
    """
    check_name(name)
    if name == "numpy":
        return None
    if name == "cpu":
        return CpuDevice()
    try:
        from tensorgrad.runtime.webgpu import WebGPUDevice
    except ImportError as error:
        if name == "auto":
            return _fall_back("the package wgpu is not installed: pip install wgpu")
        raise NoAdapterError(f"device 'wgpu' needs the package wgpu: pip install wgpu ({error})") from error
    try:
        return WebGPUDevice(software=False if name == "auto" else None)
    except NoAdapterError:
        if name == "auto":
            return _fall_back("there is no hardware adapter; device='wgpu' takes software ones too")
        raise


@functools.cache
def _fall_back(reason: str) -> CpuDevice:
    """Says once in a process that "auto" is the CPU, and why."""
    logging.getLogger("tensorgrad").info("device='auto' runs on the CPU: %s", reason)
    return CpuDevice()
