"""The available devices, and the resolution of device names."""

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
"""The values of `device=`."""

NAMES = get_args(DeviceName)

_ELSEWHERE = {
    **dict.fromkeys(("cuda", "gpu", "mps", "rocm", "metal", "vulkan", "webgpu"), "wgpu"),
    "cpu": "cpu",
}
"""Names that other libraries use for devices."""


@dataclass(frozen=True)
class Device:
    """A device to run on.

    Attributes:
        device: The name to pass to `tg.compile`.
        name: The vendor's name for it.
        type: "hardware", "software" if a CPU emulates the GPU, or "cpu".
        backend: The API or library behind it: Vulkan, Metal, D3D12, OpenGL, LLVM, or NumPy.
        driver: The driver, if there is one.
    """

    device: str
    name: str
    type: str
    backend: str
    driver: str = ""


def devices() -> tuple[Device, ...]:
    """Returns all usable devices, best first. `device="wgpu"` is the first adapter.

    Example:
        >>> tg.devices()[-1].name.split()[0]
        'NumPy'
    """
    wgpu_devices: list[Device] = []
    try:
        from tensorgrad.runtime.webgpu import list_adapters
    except ImportError:
        adapters = []
    else:
        adapters = list_adapters()
    wgpu_devices += [Device("wgpu", info.name, info.type, info.backend, info.driver) for info in adapters]
    position = sum(device.type == "hardware" for device in wgpu_devices)
    reference = Device("numpy", f"NumPy {np.__version__}", "cpu", "NumPy")
    return (*wgpu_devices[:position], *_native(), *wgpu_devices[position:], reference)


def _native() -> list[Device]:
    """Returns the CPU, if LLVM generates code for it."""
    try:
        info = CpuDevice().info
    except DeviceError:
        return []
    return [Device("cpu", info.name, info.type, info.backend, info.driver)]


def described(device: ProgramDevice) -> str:
    """Returns a description of a device: the name to pass to `tg.compile`, and the hardware."""
    info = device.info
    if device.target.native:
        return f"cpu ({info.name}, {info.backend})"
    return f"wgpu ({info.name}, {info.backend}, {info.type})"


def target_of(device: ProgramDevice | None) -> Target | None:
    """Returns the target to compile for on a device; `None` for numpy, which runs tensors."""
    return None if device is None else device.target


def load_program(
    device: ProgramDevice,
    program: Program,
    share: Executable | None = None,
    in_turn: bool = False,
    timeout: float | None = None,
    snapshot_every: int | None = None,
    trusted: bool = True,
) -> ProgramExecutable[Any, Any]:
    """Loads a program on a device; see `CpuExecutable`, `WebGPUExecutable` and `RestartingExecutable`.

    Args:
        device: The device, unless `share` has moved to another device in the meantime.
        program: The program.
        share: An executable whose parameters and state this one uses too.
        in_turn: Whether to share the memory of its inputs and temporaries too.
        timeout: For how many seconds to wait for the device at a time.
        snapshot_every: After how many steps to take a snapshot to restart from when the device is lost; `None` takes
            none, unless `share` does.
        trusted: Whether our compiler wrote the kernels, now or for its cache; see `WebGPUExecutable`.

    Raises:
        ProgramError, TargetError: The program is malformed, or doesn't match the device.
        DeviceError: What the device reported.
    """
    if isinstance(device, CpuDevice):
        assert share is None or isinstance(share, CpuExecutable)
        return CpuExecutable(program, device, share, in_turn)
    from tensorgrad.runtime.webgpu import RestartingExecutable, WebGPUExecutable

    if isinstance(share, RestartingExecutable):
        return RestartingExecutable(program, device, share, in_turn, timeout, trusted=trusted)
    if snapshot_every is not None:
        return RestartingExecutable(program, device, None, in_turn, timeout, snapshot_every, trusted)
    assert share is None or isinstance(share, WebGPUExecutable)
    return WebGPUExecutable(program, device, share, in_turn, timeout, trusted)


def compiling_ahead(device: ProgramDevice) -> AbstractContextManager[CompileKernel | None]:
    """Returns a context that yields what compiles kernels ahead of loading, as each is written, or None."""
    return native_compiling_ahead() if isinstance(device, CpuDevice) else nullcontext()


def check_name(name: str) -> None:
    """Checks the name of a device.

    Raises:
        OptionError: There is no such device; suggests the one that is meant.
    """
    if name not in NAMES:
        meant = _ELSEWHERE.get(str(name).lower().partition(":")[0])
        hint = f"; the nearest is {meant!r}" if meant else ""
        raise OptionError(f"device must be one of {', '.join(NAMES)}, not {name!r}{hint}")


def find_device(name: str) -> ProgramDevice | None:
    """Returns the device denoted by a name; `None` is numpy.

    Args:
        name: "wgpu" for the best adapter, software ones included; "cpu" for native code; "numpy" for the reference; or
            "auto" for a hardware adapter if there is one, else the CPU, which is then logged once.

    Raises:
        OptionError: Another name.
        NoAdapterError: There is no adapter for "wgpu"; says what to install.
        DeviceError: The adapter provides no device.
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
    """Returns the CPU as the device of "auto", logging the reason once per process."""
    logging.getLogger("tensorgrad").info("device='auto' runs on the CPU: %s", reason)
    return CpuDevice()
