"""Measures the time and memory of a first step in a new process: with empty caches, and with those it leaves."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import machine
from benchmarks.workloads import NAMES, workload
from tensorgrad import DeviceName
from tensorgrad.driver.storage.program_cache import SWITCH, VARIABLE
from tensorgrad.runtime.cpu.objects import CACHE_VARIABLE

WITHOUT_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""If this is set, each process compiles every module's source again, which an installed package doesn't need."""

UNCACHED = {"MESA_SHADER_CACHE_DISABLE": "true", "MESA_GLSL_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
"""The variables that disable the shader caches of Mesa's and NVIDIA's drivers."""

COLUMNS = ("process", "imports", "compilation", "first_step", "without_imports", "cpu", "peak")
"""The printed figures."""

CHILD = """
import json, os, sys, time
name, where, folder = sys.argv[1:]
marks, used = [time.perf_counter()], [0.0]
def mark():
    marks.append(time.perf_counter())
    used.append(sum(os.times()[:4]))
{importing}
mark()
{building}
mark()
{stepping}
mark()
now = time.time()
{stepping}
from benchmarks.harness import peak_bytes
found = [b - a for a, b in zip(marks, marks[1:])]
print(json.dumps({{"marks": found, "cpu": used[-1], "now": now, "peak": peak_bytes()}}))
"""

OURS = CHILD.format(
    importing="import tensorgrad\nfrom benchmarks.workloads import workload\nbuild = workload(name)",
    building="training, batch = build(where)",
    stepping="float(training.step(**batch))",
)
PEER = CHILD.format(
    importing="import importlib, numpy\npeer = importlib.import_module(f'benchmarks.peers.{where}_peer')",
    building="given = [numpy.load(f'{folder}/{part}.npz') for part in ('weights', 'batch')]\n"
    "step = peer.contestant(name, *given).step",
    stepping="step()",
)
"""The programs of the processes: for a workload in tensorgrad, and in a peer, which reads weights one at a time."""

TOUCHING = """
import sys, time, numpy
start = time.perf_counter()
numpy.zeros(int(sys.argv[1]), numpy.uint8)[::4096] = 1
print(time.perf_counter() - start)
"""
"""The program of a process that only writes to each page of the given number of bytes of new memory."""


@dataclass(frozen=True)
class Cold:
    """The seconds until the first loss, and the memory of a process.

    Attributes:
        name: The workload.
        process: The time from the start of the process to the first loss.
        imports: The part of it that imports take.
        compilation: The time of tracing, compiling, and opening the device with all pipelines.
        first_step: The time of the first step, in which some drivers compile.
        cpu: The CPU time until then of all threads of the process, and of the processes that compiled for it.
        peak: The peak memory of the process in two steps, in MB; NaN if the system doesn't report it. The second step
            is the first that has the optimizer's state along with all activations.
    """

    name: str
    process: float
    imports: float
    compilation: float
    first_step: float
    cpu: float
    peak: float

    @property
    def without_imports(self) -> float:
        """The time from the construction of the model to the first loss."""
        return self.compilation + self.first_step


def cold(name: str, device: str = "wgpu", cache: Path | None = None) -> Cold:
    """Runs a first step in a new process.

    Args:
        name: The workload.
        device: The device to run on.
        cache: The directory of the caches of compiled programs and native code; `None` disables them.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    return started(OURS, name, device, "", cache_switches(cache))


def cache_switches(cache: Path | None) -> dict[str, str]:
    """Returns environment variables for caches of programs and native code in a directory; `None` disables them."""
    if cache is None:
        return {SWITCH: "0", CACHE_VARIABLE: "0"}
    return {SWITCH: "1", VARIABLE: str(cache), CACHE_VARIABLE: str(cache / "objects")}


def started(code: str, name: str, where: str, folder: str, switches: dict[str, str]) -> Cold:
    """Runs a first step in a new process: a program made of `CHILD`, with additional environment variables.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    start = time.time()
    command = [sys.executable, "-c", code, name, where, folder]
    environment = {name: value for name, value in os.environ.items() if name != WITHOUT_BYTECODE}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**environment, **UNCACHED, **switches}
    )
    record = json.loads(done.stdout)
    process = record["now"] - start
    imports, compilation, first_step = record["marks"]
    peak = float("nan") if record["peak"] is None else record["peak"] / 1e6
    return Cold(name, process, imports, compilation, first_step, record["cpu"], peak)


def peer_cold(name: str, peer: str, folder: Path) -> Cold:
    """Runs a peer's first step in a new process, on the weights and batch that `save_state` wrote.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    return started(PEER, name, peer, str(folder), {})


def touching_seconds(size: int) -> float:
    """Returns the seconds that a new process takes to write to new memory once: a lower bound for its first step.

    On a virtual machine, whose memory the host may allocate on first use too, this can be most of a first step.

    Args:
        size: The number of bytes.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    command = [sys.executable, "-c", TOUCHING, str(size)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def save_state(name: str, device: str, folder: Path) -> None:
    """Writes the initial weights of a workload, and its batch, for peers."""
    training, batch = workload(name)(cast(DeviceName, device))
    arrays: dict[str, dict[str, Any]] = {"weights": training.parameters(), "batch": batch}
    for part, values in arrays.items():
        np.savez(folder / f"{part}.npz", **values)


def report(device: str, rounds: int, out: Path, names: Sequence[str] = NAMES, peers: Sequence[str] = ()) -> None:
    """Prints the medians of several runs of each workload; writes all runs as JSON.

    In each run, a workload is started twice, the first time with empty caches of compiled programs and native code;
    then each peer is started on the same weights, and finally a process that only writes to as much new memory as the
    second start.
    """
    parts = ("runs", "second", *peers)
    runs: dict[str, dict[str, list[Cold]]] = {part: {name: [] for name in names} for part in parts}
    touching: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        with tempfile.TemporaryDirectory() as weights:
            if peers:
                save_state(name, device, Path(weights))
            for _ in range(rounds):
                with tempfile.TemporaryDirectory() as folder:
                    for part in ("runs", "second"):
                        runs[part][name].append(cold(name, device, Path(folder)))
                for peer in peers:
                    runs[peer][name].append(peer_cold(name, peer, Path(weights)))
                peak = runs["second"][name][-1].peak
                if peak == peak:  # known
                    touching[name].append(touching_seconds(int(1e6 * peak)))
    table = Table(title=f"seconds until a first loss on {device}, drivers' caches off; peak memory of the process, MB")
    for column in ("", *COLUMNS):
        table.add_column(column.replace("_", " "), justify="right" if column else "left")
    for name in names:
        first = _medians(runs["runs"][name])
        table.add_row(name, *(f"{value:.2f}" for value in first))
        for part, title in (("second", "second start"), *((peer, peer) for peer in peers)):
            row = _medians(runs[part][name])
            table.add_row(f"  {title}", *(f"{value:.2f}" for value in row))
            ratios = (other / once for once, other in zip(first, row, strict=True))
            table.add_row(f"  {title.split()[0]} / first", *(f"{value:.2f}" for value in ratios))
        if touching[name]:
            place = COLUMNS.index("first_step")
            row = ["" if i != place else f"{statistics.median(touching[name]):.2f}" for i in range(len(COLUMNS))]
            table.add_row("  as much new memory", *row)
    console = Console(width=max(120, Console().width))
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    timings = {part: {name: [asdict(run) for run in runs[part][name]] for name in names} for part in parts}
    out.write_text(json.dumps({"machine": machine(), **timings, "touching": touching}, indent=1))
    console.print(f"written to {out}")


def _medians(runs: Sequence[Cold]) -> list[float]:
    """Returns the median of each column, for a row of the table."""
    return [statistics.median(getattr(run, column) for run in runs) for column in COLUMNS]
