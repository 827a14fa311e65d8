"""Adapters: what there is on this machine to run on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import wgpu

from tensorgrad.runtime.errors import NoAdapterError
from tensorgrad.runtime.group.launched import local_rank
from tensorgrad.runtime.webgpu.reporting import reporting

ADAPTER_TYPES = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
"""What wgpu calls kinds of adapter, the best first."""
BACKENDS = ("Vulkan", "Metal", "D3D12", "OpenGL")


@dataclass(frozen=True)
class AdapterInfo:
    """What there is to run on. `type` is "hardware", or "software" where a CPU plays the GPU."""

    name: str
    backend: str
    type: str
    driver: str


def _rank(adapter: wgpu.GPUAdapter) -> tuple[int, int]:
    def place(names: Sequence[str], name: str, default: str) -> int:
        return names.index(name if name in names else default)

    info = adapter.info
    return (
        place(ADAPTER_TYPES, str(info["adapter_type"]), "Unknown"),
        place(BACKENDS, str(info["backend_type"]), BACKENDS[-1]),
    )


def is_software(adapter: wgpu.GPUAdapter) -> bool:
    """Returns whether an adapter is a CPU that plays the GPU."""
    return adapter.info["adapter_type"] == "CPU"


def _adapters() -> list[wgpu.GPUAdapter]:
    """Returns every adapter, the best first."""
    # Without this variable, which has no use here, EGL writes complaints to stderr.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    with reporting("looking for adapters"):
        return sorted(wgpu.gpu.enumerate_adapters_sync(), key=_rank)


def list_adapters() -> list[AdapterInfo]:
    """Returns every adapter of this machine, the best first; none is no error."""
    return [
        AdapterInfo(
            str(adapter.info["device"]),
            str(adapter.info["backend_type"]),
            "software" if is_software(adapter) else "hardware",
            str(adapter.info["description"]),
        )
        for adapter in _adapters()
    ]


def request_adapter(software: bool | None = None) -> wgpu.GPUAdapter:
    """Returns the best adapter; of several that are as good, each process that a launcher of MPI started has another.

    Args:
        software: True for a CPU that plays the GPU, False for hardware, None for hardware where there is some.

    Raises:
        NoAdapterError: There is none; says what to install.
    """
    found = [one for one in _adapters() if software is None or is_software(one) == software]
    if found:
        equal = [one for one in found if _rank(one) == _rank(found[0])]
        return equal[local_rank() % len(equal)]
    kind = {None: "", True: "software ", False: "hardware "}[software]
    advice = (
        "install your GPU's Vulkan driver"
        if software is False
        else "install a Vulkan driver; one that needs no GPU, on Debian: apt-get install mesa-vulkan-drivers"
    )
    raise NoAdapterError(f"there is no {kind}WebGPU adapter: {advice}")
