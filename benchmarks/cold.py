"""What a first step takes in a new process, in time and memory: with empty caches, and in the process after that."""

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
from tensorgrad.driver.program_cache import SWITCH, VARIABLE
from tensorgrad.runtime.cpu.objects import CACHE_VARIABLE

WITHOUT_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Where this is set, each process compiles the source of every module again, which an installed package need not."""

UNCACHED = {"MESA_SHADER_CACHE_DISABLE": "true", "MESA_GLSL_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
"""What keeps drivers from finding the shaders of an earlier run: Mesa's, and NVIDIA's."""

COLUMNS = ("process", "imports", "compilation", "first_step", "without_imports", "cpu", "peak")
"""The figures that are printed."""

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
"""What the processes run: a workload here, and in a peer, which reads its weights one by one."""

TOUCHING = """
import sys, time, numpy
start = time.perf_counter()
numpy.zeros(int(sys.argv[1]), numpy.uint8)[::4096] = 1
print(time.perf_counter() - start)
"""
"""What a process runs that only writes to each page of so many bytes of new memory."""


@dataclass(frozen=True)
class Cold:
    """Seconds until a first loss is there, and memory.

    Attributes:
        name: The workload.
        process: From the start of the process to the first loss.
        imports: Of that, the imports.
        compilation: The model, the compiler, and the device, with all pipelines.
        first_step: The first step, in which some drivers compile.
        cpu: What all threads of the process took until then, and the processes that compiled for it.
        peak: The most memory that the process had in two steps, in MB; not a number where the system doesn't say. The
            second is the first with an optimizer's state beside all activations.
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
        """From the model to the first loss."""
        return self.compilation + self.first_step


def cold(name: str, device: str = "wgpu", cache: Path | None = None) -> Cold:
    """Runs a first step in a new process.

    Args:
        name: The workload.
        device: Where it runs.
        cache: Where compiled programs and native code are kept and found; without it all are compiled.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    kept = {SWITCH: "0", CACHE_VARIABLE: "0"}
    if cache is not None:
        kept = {SWITCH: "1", VARIABLE: str(cache), CACHE_VARIABLE: str(cache / "objects")}
    return _started(OURS, name, device, "", kept)


def _started(code: str, name: str, where: str, folder: str, kept: dict[str, str]) -> Cold:
    """Runs a first step in a new process, with variables of its environment."""
    start = time.time()
    command = [sys.executable, "-c", code, name, where, folder]
    environment = {name: value for name, value in os.environ.items() if name != WITHOUT_BYTECODE}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**environment, **UNCACHED, **kept})
    found = json.loads(done.stdout)
    process = found["now"] - start
    imports, compilation, first_step = found["marks"]
    peak = float("nan") if found["peak"] is None else found["peak"] / 1e6
    return Cold(name, process, imports, compilation, first_step, found["cpu"], peak)


def peer_cold(name: str, peer: str, folder: Path) -> Cold:
    """Runs a peer's first step in a new process, with what `save_state` wrote.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    return _started(PEER, name, peer, str(folder), {})


def touching_seconds(size: int) -> float:
    """Returns what a new process takes to write to new memory once, which no first step of that size can do without.

    On a virtual machine, whose own memory may be new too, that can be most of a first step.

    Args:
        size: The bytes.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    command = [sys.executable, "-c", TOUCHING, str(size)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def save_state(name: str, device: str, folder: Path) -> None:
    """Writes the first weights of a workload, and its batch, for peers to start from."""
    training, batch = workload(name)(cast(DeviceName, device))
    arrays: dict[str, dict[str, Any]] = {"weights": training.parameters(), "batch": batch}
    for part, values in arrays.items():
        np.savez(folder / f"{part}.npz", **values)


def report(device: str, rounds: int, out: Path, names: Sequence[str] = NAMES, peers: Sequence[str] = ()) -> None:
    """Prints medians of some runs of each workload, in turn; writes all of them as JSON.

    Each is started twice with an empty folder of compiled programs and native code, which the second start finds; then
    the peers are started, each alone, with the same weights, and a process that writes to as much memory as the second.
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
            ratios = (one / once for once, one in zip(first, row, strict=True))
            table.add_row(f"  {title.split()[0]} / first", *(f"{value:.2f}" for value in ratios))
        if touching[name]:
            place = COLUMNS.index("first_step")
            row = ["" if i != place else f"{statistics.median(touching[name]):.2f}" for i in range(len(COLUMNS))]
            table.add_row("  as much new memory", *row)
    console = Console(width=max(120, Console().width))
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    found = {part: {name: [asdict(one) for one in runs[part][name]] for name in names} for part in parts}
    out.write_text(json.dumps({"machine": machine(), **found, "touching": touching}, indent=1))
    console.print(f"written to {out}")


def _medians(runs: Sequence[Cold]) -> list[float]:
    """Returns the figures of a row."""
    return [statistics.median(getattr(one, column) for one in runs) for column in COLUMNS]
