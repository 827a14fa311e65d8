"""Lets wgpu-py find its C types without parsing their names one by one.

wgpu-py gives C types as text. cffi parses each text that it has not seen along with the names of all types of the
header, ten milliseconds each: half a second before a first step. Here one parse finds all that a program needs.
Where the two libraries are made otherwise, nothing happens: they parse by themselves.
"""

from __future__ import annotations

from typing import Any

import cffi

POINTERS = (
    "WGPUAdapterInfo *",
    "WGPUBindGroupDescriptor *",
    "WGPUBindGroupEntry *",
    "WGPUBindGroupLayoutDescriptor *",
    "WGPUBindGroupLayoutEntry *",
    "WGPUBufferBindingLayout *",
    "WGPUBufferDescriptor *",
    "WGPUBufferMapCallbackInfo *",
    "WGPUChainedStruct *",
    "WGPUChainedStruct * ",
    "WGPUCommandBufferDescriptor *",
    "WGPUCommandEncoderDescriptor *",
    "WGPUComputePassDescriptor *",
    "WGPUComputePipelineDescriptor *",
    "WGPUComputeState *",
    "WGPUDeviceDescriptor *",
    "WGPUDeviceExtras *",
    "WGPUDeviceLostCallbackInfo *",
    "WGPUInstanceDescriptor *",
    "WGPULimits *",
    "WGPUNativeLimits *",
    "WGPUPipelineLayoutDescriptor *",
    "WGPUQueueDescriptor *",
    "WGPURequestDeviceCallbackInfo *",
    "WGPUShaderModuleDescriptor *",
    "WGPUShaderSourceWGSL *",
    "WGPUStringView *",
    "WGPUUncapturedErrorCallbackInfo *",
    "intptr_t",
    "uint8_t *",
    "uintptr_t",
)
ARRAYS = (
    "WGPUAdapter[]",
    "WGPUBindGroupEntry[]",
    "WGPUBindGroupLayout[]",
    "WGPUBindGroupLayoutEntry[]",
    "WGPUCommandBuffer[]",
    "WGPUFeatureName[]",
    "char []",
    "uint32_t []",
    "uint8_t []",
)
CALLBACKS = (
    "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)",
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
    "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)",
)
"""The types by what they are; texts as wgpu-py has them, with their blanks."""


def know_types(ffi: Any) -> bool:
    """Has an `ffi` find the types above at once.

    Returns:
        Whether it could.
    """
    found = getattr(ffi, "_parsed_types", None)
    if not isinstance(found, dict):
        return False
    arguments = [
        *(f"{name} *" for name in POINTERS),
        *(name.replace("[", "(*)[") for name in ARRAYS),
        *(name.replace("(", "(*)(", 1) for name in CALLBACKS),
    ]
    try:
        types = ffi.typeof(f"void(*)({', '.join(arguments)})").args
    except (cffi.FFIError, cffi.CDefError):  # a header without one of them
        return False
    data, functions = types[: len(POINTERS) + len(ARRAYS)], types[len(POINTERS) + len(ARRAYS) :]
    # To cffi a type is a pair: the type, and whether its name is a function's, for which the pointer to it stands.
    for name, type_ in zip((*POINTERS, *ARRAYS), data, strict=True):
        found.setdefault(name, (type_.item, False))
    for name, type_ in zip(CALLBACKS, functions, strict=True):
        found.setdefault(name, (type_, True))
    return True
