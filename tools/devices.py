"""`tg devices`: the available devices, their capabilities, and what is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from tensorgrad.driver.device import devices
from tensorgrad.errors import DeviceError
from tensorgrad.runtime.cpu import CpuDevice
from tensorgrad.runtime.target import Target
from tensorgrad.tools.printing import plain, print_json
from tensorgrad.tools.tables import Listing


@dataclass(frozen=True)
class Devices:
    """Lists devices, best first.

    Attributes:
        json: Whether to print JSON.
    """

    json: bool = False

    def run(self, console: Console) -> None:
        """Prints the list."""
        targets, missing = _targets()
        described = [{**asdict(device), "target": _fields(targets.get(device.device))} for device in devices()]
        if self.json:
            print_json(console, {"devices": described, "missing": missing})
            return
        table = Listing(("device", "name", "type", "by", "driver", "can"))
        for device in devices():
            target = targets.get(device.device)
            can = _abilities(target)
            table.add(device.device, device.name, device.type, device.backend, device.driver, can)
        table.print(console)
        for line in missing.values():
            console.print(plain(line), soft_wrap=True)


def _targets() -> tuple[dict[str, Target], dict[str, str]]:
    """Returns the capabilities of the first device of each kind, and why others are missing."""
    targets: dict[str, Target] = {}
    missing: dict[str, str] = {}
    try:
        targets["cpu"] = CpuDevice().target
    except DeviceError as error:
        missing["cpu"] = str(error)
    try:
        from tensorgrad.runtime.webgpu import WebGPUDevice

        targets["wgpu"] = WebGPUDevice().target
    except ImportError as error:
        missing["wgpu"] = f"device 'wgpu' needs the package wgpu: pip install wgpu ({error})"
    except DeviceError as error:
        missing["wgpu"] = str(error)
    return targets, missing


def _fields(target: Target | None) -> dict[str, Any] | None:
    return None if target is None else asdict(target)


def _abilities(target: Target | None) -> str:
    if target is None:
        return "f16, f64"
    if target.native:
        return f"f16, f64, vectors of {8 * target.vector_bytes} bits"
    size = f" of {target.subgroup_size}" if target.subgroup_size else ""
    return ", ".join([*(["f16"] if target.f16 else []), *([f"subgroups{size}"] if target.subgroups else [])])
