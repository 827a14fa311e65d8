"""What a driver takes to make pipelines, and Python to encode a step: in other ways than the runtime's."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wgpu
from rich.console import Console
from rich.table import Table
from wgpu.backends import wgpu_native

from benchmarks.harness import machine
from benchmarks.workloads import workload
from tensorgrad.runtime.program import Dispatch, Program
from tensorgrad.runtime.webgpu import WebGPUDevice

ROUNDS = 20


@dataclass(frozen=True)
class Ready:
    """A dispatch with what it needs."""

    pipeline: wgpu.GPUComputePipeline
    group: wgpu.GPUBindGroup
    workgroups: tuple[int, int, int]


def pipelines(program: Program, device: WebGPUDevice, threads: int, uncached: str) -> float:
    """Seconds to make a pipeline of every kernel, in so many threads.

    Args:
        program: Its kernels.
        device: Where.
        threads: How many threads ask for pipelines at a time.
        uncached: A comment, so that no cache has the shaders.
    """
    api = device.wgpu_device

    def make(code: str, entry: str) -> Any:
        module = api.create_shader_module(code=f"// {uncached}\n{code}")
        return api.create_compute_pipeline(
            layout=wgpu.AutoLayoutMode.auto, compute={"module": module, "entry_point": entry}
        )

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, *zip(*((one.code, one.entry) for one in program.kernels), strict=True)))
    return time.perf_counter() - start


def commands(program: Program, device: WebGPUDevice) -> list[Ready]:
    """The dispatches of a step, on buffers of their own."""
    api = device.wgpu_device
    buffers = [device.create_buffer(buffer.name, buffer.size) for buffer in program.buffers]
    made: dict[int, Any] = {}
    found: list[Ready] = []
    for step in (step for step in program.plan if isinstance(step, Dispatch)):
        kernel = program.kernels[step.kernel]
        if step.kernel not in made:
            module = api.create_shader_module(code=kernel.code)
            compute = {"module": module, "entry_point": kernel.entry}
            made[step.kernel] = api.create_compute_pipeline(layout=wgpu.AutoLayoutMode.auto, compute=compute)
        entries = [
            {"binding": i, "resource": {"buffer": buffers[one.buffer], "offset": one.offset, "size": one.size}}
            for i, one in enumerate(step.bindings)
            if f"b{i}[" in kernel.code  # a layout by the driver has no others
        ]
        layout = made[step.kernel].get_bind_group_layout(0)
        group = api.create_bind_group(layout=layout, entries=entries)
        found.append(Ready(made[step.kernel], group, step.workgroups))
    return found


def by_methods(compute: Any, found: Sequence[Ready]) -> None:
    """Encodes a step by wgpu-py's methods, as the runtime does."""
    for one in found:
        compute.set_pipeline(one.pipeline)
        compute.set_bind_group(0, one.group)
        compute.dispatch_workgroups(*one.workgroups)


def by_library(compute: Any, found: Sequence[Ready]) -> None:
    """Encodes a step by the native library's functions."""
    lib: Any = wgpu_native.lib
    encoder, null = compute._internal, wgpu_native.ffi.NULL
    for one in found:
        lib.wgpuComputePassEncoderSetPipeline(encoder, one.pipeline._internal)
        lib.wgpuComputePassEncoderSetBindGroup(encoder, 0, one.group._internal, 0, null)
        lib.wgpuComputePassEncoderDispatchWorkgroups(encoder, *one.workgroups)


def encoding(device: WebGPUDevice, found: Sequence[Ready], encode: Callable[[Any, Sequence[Ready]], None]) -> float:
    """Microseconds a dispatch, the median of some rounds; nothing is submitted."""
    times: list[float] = []
    for _ in range(ROUNDS):
        encoder = device.wgpu_device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        start = time.perf_counter()
        encode(compute, found)
        times.append(time.perf_counter() - start)
        compute.end()
        encoder.finish()
    return 1e6 * statistics.median(times) / len(found)


def report(out: Path, name: str = "gpt") -> None:
    """Prints what a workload's pipelines and steps cost, one way and another; writes it as JSON."""
    device = WebGPUDevice()
    training, batch = workload(name)("wgpu")
    program = training.program
    found: dict[str, float] = {}
    for threads in (1, 2, 4):
        times = [pipelines(program, device, threads, f"{threads} {number} {time.time()}") for number in range(3)]
        found[f"pipelines in {threads} threads, s"] = statistics.median(times)
    for step in ("first", "second"):
        start = time.perf_counter()
        float(training.step(**batch))
        found[f"{step} step, s"] = time.perf_counter() - start
    ready = commands(program, device)
    for _ in range(2):  # the second time counts
        found["encoding by methods, us a dispatch"] = encoding(device, ready, by_methods)
        found["encoding by the library, us a dispatch"] = encoding(device, ready, by_library)
    found["dispatches"] = len(ready)
    table = Table(title=f"{name} on {device.info.name}")
    table.add_column("")
    table.add_column("", justify="right")
    for key, value in found.items():
        table.add_row(key, f"{value:.3f}" if value < 100 else f"{value:.0f}")
    console = Console()
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "found": found}, indent=1))
    console.print(f"written to {out}")
