"""Runs programs on a WebGPU device, using wgpu; the only package that imports it."""

from tensorgrad.runtime.webgpu.adapters import AdapterInfo, list_adapters, request_adapter
from tensorgrad.runtime.webgpu.device import WebGPUDevice
from tensorgrad.runtime.webgpu.executable import WebGPUExecutable
from tensorgrad.runtime.webgpu.restarting import RestartingExecutable

__all__ = [
    "AdapterInfo",
    "RestartingExecutable",
    "WebGPUDevice",
    "WebGPUExecutable",
    "list_adapters",
    "request_adapter",
]
