"""Validates WGSL with Tint, the shader compiler of Dawn and Chromium, which needs neither a GPU nor a driver."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydawn import utils, webgpu

from tensorgrad.runtime.program import Program

FEATURES = (webgpu.WGPUFeatureName_ShaderF16, webgpu.WGPUFeatureName_Subgroups)

_accepted: set[str] = set()


@cache
def _device() -> Any:
    """Returns a device of Dawn's Null backend, which compiles and runs nothing; the only one of the process."""
    adapters: list[Any] = []
    info = webgpu.WGPURequestAdapterCallbackInfo()
    info.mode = webgpu.WGPUCallbackMode_WaitAnyOnly
    info.callback = webgpu.WGPURequestAdapterCallback(lambda status, adapter, message, _: adapters.append(adapter))
    options = webgpu.WGPURequestAdapterOptions()
    options.backendType = webgpu.WGPUBackendType_Null
    utils.wait(webgpu.wgpuInstanceRequestAdapterF(utils.instance, options, info))
    return utils.request_device_sync(adapters[0], list(FEATURES))


def check_text(code: str) -> None:
    """Validates a shader, once for each text.

    Raises:
        RuntimeError: What Tint says of a shader that it refuses.
    """
    if code not in _accepted:
        utils.create_shader_module(_device(), code)
        _accepted.add(code)


def check(program: Program) -> int:
    """Validates every kernel of a program in the standard dialect; kernels that differ only in name, only once.

    Returns:
        How many kernels there are.

    Raises:
        AssertionError: Tint refuses one; says why, and shows it.
    """
    for kernel in program.kernels:
        code = kernel.code.replace(f"fn {kernel.entry}(", "fn kernel(")
        try:
            check_text(code)
        except RuntimeError as error:
            raise AssertionError(
                f"Tint refuses kernel {kernel.entry!r} of {program.name!r}: {error}\n{code}"
            ) from error
    return len(program.kernels)
