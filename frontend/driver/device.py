"""Which devices there are, and what a device's name stands for."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from tensorgrad.errors import NoAdapterError, OptionError

if TYPE_CHECKING:
    from tensorgrad.runtime.webgpu import WebGPUDevice

DeviceName: TypeAlias = Literal["auto", "wgpu", "numpy"]
"""What `device=` may be."""

NAMES = get_args(DeviceName)

_ELSEWHERE = {
    **dict.fromkeys(("cuda", "gpu", "mps", "rocm", "metal", "vulkan", "webgpu"), "wgpu"),
    "cpu": "numpy",
}
"""What devices are called by other libraries."""


@dataclass(frozen=True)
class Device:
    """Something to run on.

    Attributes:
        device: What to give to `tg.compile`.
        name: What its maker calls it.
        type: "hardware", "software" where a CPU plays the GPU, or "cpu".
        backend: The interface it is driven through: Vulkan, Metal, D3D12, OpenGL, or NumPy.
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
    reference = Device("numpy", f"NumPy {np.__version__}", "cpu", "NumPy")
    position = sum(device.type == "hardware" for device in found)
    return (*found[:position], reference, *found[position:])


def check_name(name: str) -> None:
    """Checks the name of a device.

    Raises:
        OptionError: There is no such; says which is meant.
    """
    if name not in NAMES:
        meant = _ELSEWHERE.get(str(name).lower().partition(":")[0])
        hint = f"; {meant!r} is what comes nearest" if meant else ""
        raise OptionError(f"device must be one of {', '.join(NAMES)}, not {name!r}{hint}")


def find_device(name: str) -> WebGPUDevice | None:
    """Returns the device that a name stands for; `None` is numpy.

    Args:
        name: "wgpu" for the best adapter, software ones included; "numpy"; or "auto" for a hardware adapter where there
            is one, else numpy, which the log then says once.

    Raises:
        OptionError: Another name.
        NoAdapterError: There is no adapter for "wgpu"; says what to install.
        DeviceError: The adapter gives no device.
    """
    check_name(name)
    if name == "numpy":
        return None
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
def _fall_back(reason: str) -> None:
    """Says once in a process that "auto" is numpy, and why."""
    logging.getLogger("tensorgrad").warning("device='auto' runs by numpy: %s", reason)
