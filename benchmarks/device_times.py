"""Times kernels by a device's own clock, without submission and waiting; on a CUDA device beside PyTorch's.

Ours have a timestamp before and after each dispatch; PyTorch's are the time of a graph that repeats the computation.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness import machine
from benchmarks.kernels import KERNELS, Arrays, Kernel, compiled, product, transposed_product
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.runtime.webgpu.profile import profile

REPEATS = 20
"""How often a graph repeats a computation of PyTorch."""

LARGE: dict[str, Kernel] = {
    "matmul 2048": product(2048, 2048, 2048),
    "matmul 4096": product(4096, 4096, 4096),
    "matmul 4096 transposed": transposed_product(4096, 4096, 4096),
    "matmul 16384x4096x1024": product(16384, 4096, 1024),
}
"""Kernels that only fill a GPU, by name."""


def device_seconds(kernel: Kernel, arrays: Arrays, rounds: int) -> float:
    """Returns the time of a kernel's dispatches on the adapter: the median of `rounds` steps.

    Raises:
        DeviceError: The adapter has no timestamps.
    """
    executable, inputs = compiled(kernel, "wgpu", arrays, observed=False)
    assert isinstance(executable, WebGPUExecutable)
    return profile(executable, inputs, {}, rounds).device_seconds


def cuda_seconds(kernel: Kernel, arrays: Arrays, rounds: int) -> float | None:
    """Returns the time of a kernel in PyTorch on a CUDA device, in f32; `None` if there is none."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cudnn.allow_tf32 = False
    tensors = {name: torch.tensor(array, device="cuda") for name, array in arrays.items()}
    replay = _graph(lambda: kernel.torch(**tensors))
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[float] = []
    for _ in range(rounds):
        begin.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e-3 * begin.elapsed_time(end) / REPEATS)
    return statistics.median(times)


def _graph(function: Callable[[], Any]) -> Callable[[], None]:
    """Returns what replays a CUDA graph of a function's launches, `REPEATS` times each, after warm-ups."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            function()
    graph.replay()
    return graph.replay


def report_device_times(rounds: int, out: Path) -> None:
    """Prints and writes the device times of all kernels; on hardware also of those that only fill a GPU."""
    table = Table(title="kernels by the device's clock")
    for column in ("", "ours, us", "GFLOP/s", "GB/s", "PyTorch (CUDA), us", "ours over PyTorch"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    rows: list[dict[str, Any]] = []
    is_hardware = WebGPUDevice().info.type == "hardware"
    for name, kernel in {**KERNELS, **(LARGE if is_hardware else {})}.items():
        arrays = kernel.arrays()
        seconds, other = device_seconds(kernel, arrays, rounds), cuda_seconds(kernel, arrays, rounds)
        rates = (f"{kernel.flops / seconds / 1e9:.0f}", f"{kernel.bytes / seconds / 1e9:.0f}")
        peer = ("-", "-") if other is None else (f"{other * 1e6:.1f}", f"{seconds / other:.2f}")
        table.add_row(name, f"{seconds * 1e6:.1f}", *rates, *peer)
        rows.append({"kernel": name, "seconds": seconds, "PyTorch seconds": other})
    Console(width=max(120, Console().width)).print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "kernels": rows}, indent=1))
