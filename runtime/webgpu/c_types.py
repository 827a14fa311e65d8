"""Speeds up wgpu-py's lookup of C types, by parsing their names all at once.

wgpu-py passes C types as text. cffi parses each new text along with the names of all types of the header, which takes
ten milliseconds each: half a second before a first step. Here one parse finds all types that a program needs. If either
library's internals have changed, this does nothing, and they parse as usual.
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
"""The types by category; the texts must equal wgpu-py's, including whitespace."""


def know_types(ffi: Any) -> bool:
    """Adds the types above to an `ffi`'s cache of parsed types.

    Returns:
        Whether it succeeded.
    """
    attr = getattr(ffi, "_parsed_types", None)
    if not isinstance(attr, dict):
        return False
    arguments = [
        *(f"{name} *" for name in POINTERS),
        *(name.replace("[", "(*)[") for name in ARRAYS),
        *(name.replace("(", "(*)(", 1) for name in CALLBACKS),
    ]
    try:
        types = ffi.typeof(f"void(*)({', '.join(arguments)})").args
    except (cffi.FFIError, cffi.CDefError):  # a header that lacks one of them
        return False
    data, functions = types[: len(POINTERS) + len(ARRAYS)], types[len(POINTERS) + len(ARRAYS) :]
    # cffi caches a type as a pair: the type, and whether it is a function, whose entry holds the pointer type.
    for name, type_ in zip((*POINTERS, *ARRAYS), data, strict=True):
        attr.setdefault(name, (type_.item, False))
    for name, type_ in zip(CALLBACKS, functions, strict=True):
        attr.setdefault(name, (type_, True))
    return True
