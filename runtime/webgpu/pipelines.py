"""Pipelines: each kernel of a program is compiled once per combination of binding accesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import wgpu

from tensorgrad.runtime.profile import named
from tensorgrad.runtime.program import Dispatch, Kernel, Program, runs
from tensorgrad.runtime.webgpu import encoding
from tensorgrad.runtime.webgpu.encoding import NoHandleError
from tensorgrad.runtime.webgpu.reporting import reporting

Accesses: TypeAlias = tuple[tuple[str, bool], ...]
"""For each binding, its access, and whether it has a dynamic offset."""

BINDING_TYPES = {"read": wgpu.BufferBindingType.read_only_storage, "read_write": wgpu.BufferBindingType.storage}


@dataclass(frozen=True)
class Pipeline:
    """A compiled kernel, and its bind group layout."""

    compiled: wgpu.GPUComputePipeline
    layout: wgpu.GPUBindGroupLayout


Key: TypeAlias = tuple[str, str, Accesses]
"""The key of a pipeline: code, entry point and accesses."""


def pipelines_of(
    program: Program, device: wgpu.GPUDevice, threads: int, checks: int | None
) -> dict[Dispatch, Pipeline]:
    """Returns the pipeline of each dispatch of a program.

    Args:
        program: The program.
        device: The device to compile for.
        threads: The number of compile threads.
        checks: What kernels check at run time; see `shader_module`.

    Raises:
        DeviceError: A kernel doesn't compile; names the first such kernel in plan order.
    """
    dispatches = [step for step, _ in runs(program.plan) if isinstance(step, Dispatch)]
    keys = {step: _key(program.kernels[step.kernel], step) for step in dispatches}
    layouts = _layouts(device, dict.fromkeys(accesses for _, _, accesses in keys.values()))
    shaders: dict[str, list[Key]] = {}
    for key in dict.fromkeys(keys.values()):
        shaders.setdefault(key[0], []).append(key)
    names = {key: named(program, step) for step, key in reversed(keys.items())}  # the first line of each wins
    compiled = _compiled(_Compiler(device, layouts, checks), list(shaders.values()), names, threads)
    return {step: compiled[key] for step, key in keys.items()}


def _key(kernel: Kernel, step: Dispatch) -> Key:
    return kernel.code, kernel.entry, tuple((binding.access, bool(binding.strides)) for binding in step.bindings)


Layouts: TypeAlias = tuple[wgpu.GPUBindGroupLayout, wgpu.GPUPipelineLayout]


def _layouts(device: wgpu.GPUDevice, kinds: Iterable[Accesses]) -> dict[Accesses, Layouts]:
    results: dict[Accesses, Layouts] = {}
    with reporting("laying out bindings"):
        for accesses in kinds:
            entries = [
                {
                    "binding": i,
                    "visibility": wgpu.ShaderStage.COMPUTE,
                    "buffer": {"type": BINDING_TYPES[access], "has_dynamic_offset": moving},
                }
                for i, (access, moving) in enumerate(accesses)
            ]
            group = device.create_bind_group_layout(entries=entries)
            results[accesses] = group, device.create_pipeline_layout(bind_group_layouts=[group])
    return results


def shader_module(device: wgpu.GPUDevice, label: str, code: str, checks: int | None) -> wgpu.GPUShaderModule:
    """Compiles a shader.

    wgpu adds code that keeps each index within its array, and that ends each loop some time: products take 2.2 to
    2.8 times as long with it on an H200. Our compiler's kernels need neither. Indices are in bounds by construction, or
    compared before the access. Loops count up to a number that is known before the first iteration, but for the one of
    `fmod`, which takes at most 32 steps.

    Args:
        device: The device to compile for.
        label: Its name in error messages.
        code: The shader.
        checks: Which of that code to add; `None` is all of it, for what others may have written. So is any where the
            native library can't leave it out.

    Raises:
        wgpu.GPUError: It doesn't compile.
    """
    library = encoding.native_library()
    if library is not None and checks is not None:
        try:
            module = library.trusted_module(device, label, code, checks)
        except NoHandleError:
            module = None
        if module is not None:
            return module
    return device.create_shader_module(label=label, code=code)


@dataclass(frozen=True)
class _Compiler:
    """Compiles shaders; safe on several threads, as wgpu-py collects errors per thread."""

    device: wgpu.GPUDevice
    layouts: dict[Accesses, Layouts]
    checks: int | None

    def __call__(self, keys: Sequence[Key]) -> dict[Key, Pipeline]:
        """Returns the pipelines of one shader.

        Raises:
            wgpu.GPUError: It doesn't compile.
        """
        code, entry, _ = keys[0]
        module = shader_module(self.device, entry, code, self.checks)
        return {key: self._pipeline(module, key) for key in keys}

    def _pipeline(self, module: wgpu.GPUShaderModule, key: Key) -> Pipeline:
        _, entry, accesses = key
        group, layout = self.layouts[accesses]
        compute = {"module": module, "entry_point": entry}
        return Pipeline(self.device.create_compute_pipeline(label=entry, layout=layout, compute=compute), group)


def _compiled(
    compiler: _Compiler, shaders: Sequence[Sequence[Key]], names: Mapping[Key, str], threads: int
) -> dict[Key, Pipeline]:
    results: dict[Key, Pipeline] = {}
    if threads == 1 or len(shaders) < 2:
        for keys in shaders:
            with reporting(f"compiling {names[keys[0]]}"):
                results |= compiler(keys)
        return results
    with ThreadPoolExecutor(min(threads, len(shaders)), "pipelines") as pool:
        waiting = [pool.submit(compiler, keys) for keys in shaders]
        try:
            for keys, future in zip(shaders, waiting, strict=True):
                with reporting(f"compiling {names[keys[0]]}"):
                    results |= future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # leaving the block waits for running compilations
            raise
    return results
