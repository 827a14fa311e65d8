"""The WebGPU adapters of this machine."""

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
"""wgpu's names for adapter types, best first."""
BACKENDS = ("Vulkan", "Metal", "D3D12", "OpenGL")


@dataclass(frozen=True)
class AdapterInfo:
    """An available adapter. `type` is "hardware", or "software" for a GPU emulated on the CPU."""

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
    """Returns whether an adapter emulates a GPU on the CPU."""
    return adapter.info["adapter_type"] == "CPU"


def _adapters() -> list[wgpu.GPUAdapter]:
    """Returns every adapter, best first."""
    # Without this variable, which is not needed here, EGL prints warnings to stderr.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    with reporting("looking for adapters"):
        return sorted(wgpu.gpu.enumerate_adapters_sync(), key=_rank)


def list_adapters() -> list[AdapterInfo]:
    """Returns every adapter of this machine, best first; the list may be empty."""
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
    """Returns the best adapter; processes of an MPI launcher on one host are spread over equally good ones.

    Args:
        software: True for a GPU emulated on the CPU, False for hardware, None for hardware if there is any.

    Raises:
        NoAdapterError: There is no such adapter; says what to install.
    """
    adapters = [adapter for adapter in _adapters() if software is None or is_software(adapter) == software]
    if adapters:
        equal = [adapter for adapter in adapters if _rank(adapter) == _rank(adapters[0])]
        return equal[local_rank() % len(equal)]
    kind = {None: "", True: "software ", False: "hardware "}[software]
    advice = (
        "install your GPU's Vulkan driver"
        if software is False
        else "install a Vulkan driver; one that needs no GPU, on Debian: apt-get install mesa-vulkan-drivers"
    )
    raise NoAdapterError(f"there is no {kind}WebGPU adapter: {advice}")
