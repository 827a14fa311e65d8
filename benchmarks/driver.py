"""Times pipeline creation in the driver and command encoding in Python, as the runtime does it and otherwise."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wgpu
from rich.console import Console
from rich.table import Table

from benchmarks.harness import machine
from benchmarks.workloads import workload
from tensorgrad.runtime.program import Dispatch, Program
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.runtime.webgpu.encoding import NO_CHECKS, Command, MethodRecording, NativeRecording, native_library
from tensorgrad.runtime.webgpu.pipelines import pipelines_of

ROUNDS = 100


def pipelines(program: Program, device: WebGPUDevice, threads: int, uncached: str) -> float:
    """Returns the seconds that creating a pipeline for every kernel takes.

    Args:
        program: The program with the kernels.
        device: The device.
        threads: The number of threads that create pipelines.
        uncached: A comment to add to the shaders, so that no cache contains them.
    """
    api = device.wgpu_device

    def make(code: str, entry: str) -> Any:
        module = api.create_shader_module(code=f"// {uncached}\n{code}")
        return api.create_compute_pipeline(
            layout=wgpu.AutoLayoutMode.auto, compute={"module": module, "entry_point": entry}
        )

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, *zip(*((kernel.code, kernel.entry) for kernel in program.kernels), strict=True)))
    return time.perf_counter() - start


def commands(program: Program, device: WebGPUDevice) -> list[Command]:
    """Returns the dispatches of a step as commands on newly allocated buffers."""
    api = device.wgpu_device
    buffers = [device.create_buffer(buffer.name, buffer.size) for buffer in program.buffers]
    ready = pipelines_of(program, api, threads=1, checks=NO_CHECKS)
    results: list[Command] = []
    for step in (step for step in program.plan if isinstance(step, Dispatch)):
        entries = [
            {
                "binding": i,
                "resource": {"buffer": buffers[binding.buffer], "offset": binding.offset, "size": binding.size},
            }
            for i, binding in enumerate(step.bindings)
        ]
        group = api.create_bind_group(layout=ready[step].layout, entries=entries)
        results.append(Command(ready[step].compiled, group, step.workgroups))
    return results


def by_methods(device: WebGPUDevice, block: list[Command]) -> Callable[[], float]:
    """Returns a function that encodes a step with wgpu-py's methods, and returns the thread's CPU time in seconds."""
    recording = MethodRecording(device.wgpu_device, [block])

    def run() -> float:
        encoder = device.wgpu_device.create_command_encoder()
        start = time.thread_time()
        recording.encode(encoder)
        seconds = time.thread_time() - start
        encoder.finish()
        return seconds

    return run


def by_library(device: WebGPUDevice, block: list[Command]) -> Callable[[], float]:
    """Returns a function like that of `by_methods` that calls the functions of the native library."""
    library = native_library()
    if library is None:
        raise SystemExit("this wgpu-py is not made as tensorgrad expects, so there are its methods only")
    recording = NativeRecording(library, device.wgpu_device, [block])
    handle = library.handle(device.wgpu_device)

    def run() -> float:
        encoder = library.create_encoder(handle, library.null)
        start = time.thread_time()
        library.checked(recording.encode, encoder)
        seconds = time.thread_time() - start
        library.release_commands(library.checked(library.finish, encoder, library.null))
        library.release_encoder(encoder)
        return seconds

    return run


def encoding(device: WebGPUDevice, block: list[Command]) -> dict[str, float]:
    """Returns the median times of encoding in both ways, alternating; nothing is submitted."""
    ways = {"methods": by_methods(device, block), "the library": by_library(device, block)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            times[name].append(1e6 * way())
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    return {
        **{f"encoding by {name}, us a step": median for name, median in medians.items()},
        **{f"encoding by {name}, us a dispatch": median / len(block) for name, median in medians.items()},
    }


def costs(name: str, device: WebGPUDevice) -> dict[str, float]:
    """Returns the times of a workload's pipelines, of its first steps, and of encoding in both ways."""
    training, batch = workload(name)("wgpu")
    program = training.program
    results: dict[str, float] = {}
    for threads in (1, 2, 4):
        times = [pipelines(program, device, threads, f"{threads} {number} {time.time()}") for number in range(3)]
        results[f"pipelines in {threads} threads, s"] = statistics.median(times)
    for step in ("first", "second"):
        start = time.perf_counter()
        float(training.step(**batch))
        results[f"{step} step, s"] = time.perf_counter() - start
    ready = commands(program, device)
    return {**results, "dispatches": len(ready), **encoding(device, ready)}


def report(out: Path, names: tuple[str, ...] = ("gpt", "mlp")) -> None:
    """Prints the times of workloads, and writes them as JSON."""
    device = WebGPUDevice()
    results = {name: costs(name, device) for name in names}
    table = Table(title=f"on {device.info.name}")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for key in results[names[0]]:
        values = [results[name][key] for name in names]
        table.add_row(key, *(f"{value:.3g}" for value in values))
    console = Console()
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "found": results}, indent=1))
    console.print(f"written to {out}")
