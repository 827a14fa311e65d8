"""Inspection of the namespace: its devices, dtypes and capabilities."""

from __future__ import annotations

from typing import Any

from tensorgrad.array_api.devices import DEVICE, TAKEN, check_device
from tensorgrad.array_api.dtypes import DEFAULTS, DTYPES, isdtype
from tensorgrad.errors import OptionError
from tensorgrad.tracing.dtypes import DType

VERSIONS = ("2022.12", "2023.12", "2024.12", "2025.12")
"""The versions of the standard that the namespace follows."""


class NamespaceInfo:
    """The result of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Returns the namespace's capabilities: boolean indexing and data-dependent shapes, outside of traces."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Returns the device of new arrays."""
        return DEVICE

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Returns the default dtypes, by kind."""
        check_device(device)
        return dict(DEFAULTS)

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Returns the dtypes of a kind, or all of them, by their names in the standard.

        Raises:
            OptionError: There is no such device or kind.
        """
        check_device(device)
        return {name: dtype for name, dtype in DTYPES.items() if kind is None or isdtype(dtype, kind)}

    def devices(self) -> list[str]:
        """Returns the devices that always exist; whether "wgpu" has an adapter is known only to its driver."""
        return [device for device in TAKEN if device != "wgpu"]


def __array_namespace_info__() -> NamespaceInfo:
    """Returns the description of the namespace."""
    return NamespaceInfo()


def check_version(api_version: str | None) -> None:
    """Checks a requested version of the standard.

    Raises:
        OptionError: The namespace does not implement it.
    """
    if api_version is not None and api_version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise OptionError(f"version {api_version!r} of the Array API standard is not one of {known}")
