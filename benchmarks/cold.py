"""How long a first step takes: in a new process, with all caches empty; and in the process after that."""

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

from rich.console import Console
from rich.table import Table

from benchmarks.harness import machine
from benchmarks.workloads import NAMES
from tensorgrad.driver.program_cache import SWITCH, VARIABLE
from tensorgrad.runtime.cpu.objects import CACHE_VARIABLE

UNCACHED = {"MESA_SHADER_CACHE_DISABLE": "true", "MESA_GLSL_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
"""What keeps drivers from finding the shaders of an earlier run: Mesa's, and NVIDIA's."""

COLUMNS = ("process", "imports", "compilation", "first_step", "without_imports", "cpu")
"""The figures that are printed."""

CHILD = """
import json, os, sys, time
name, device = sys.argv[1:]
marks, used = [time.perf_counter()], [0.0]
def mark():
    marks.append(time.perf_counter())
    used.append(sum(os.times()[:4]))
import tensorgrad
from benchmarks.workloads import workload
build = workload(name)
mark()
training, batch = build(device)
mark()
loss = float(training.step(**batch))
mark()
print(json.dumps({"marks": [b - a for a, b in zip(marks, marks[1:])], "cpu": used[-1], "loss": loss}))
"""


@dataclass(frozen=True)
class Cold:
    """Seconds until a first loss is there.

    Attributes:
        name: The workload.
        process: From the start of the process to its end.
        imports: Of that, the imports.
        compilation: The model, the compiler, and the device, with all pipelines.
        first_step: The first step, in which some drivers compile.
        cpu: What all threads of the process took until then, and the processes that compiled for it.
    """

    name: str
    process: float
    imports: float
    compilation: float
    first_step: float
    cpu: float

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
    start = time.perf_counter()
    command = [sys.executable, "-c", CHILD, name, device]
    kept = {SWITCH: "0", CACHE_VARIABLE: "0"}
    if cache is not None:
        kept = {SWITCH: "1", VARIABLE: str(cache), CACHE_VARIABLE: str(cache / "objects")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **UNCACHED, **kept})
    process = time.perf_counter() - start
    found = json.loads(done.stdout)
    imports, compilation, first_step = found["marks"]
    return Cold(name, process, imports, compilation, first_step, found["cpu"])


def report(device: str, rounds: int, out: Path, names: Sequence[str] = NAMES) -> None:
    """Prints medians of some runs of each workload, in turn; writes all of them as JSON.

    Each is started twice with an empty folder of compiled programs and native code, which the second start finds.
    """
    first: dict[str, list[Cold]] = {name: [] for name in names}
    second: dict[str, list[Cold]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                first[name].append(cold(name, device, Path(folder)))
                second[name].append(cold(name, device, Path(folder)))
    table = Table(title=f"seconds until a first loss on {device}, drivers' caches off")
    for column in ("", *COLUMNS):
        table.add_column(column.replace("_", " "), justify="right" if column else "left")
    for name in names:
        times = [_medians(first[name]), _medians(second[name])]
        ratios = [again / once for once, again in zip(*times, strict=True)]
        for title, row in zip((name, "  second start", "  second / first"), (*times, ratios), strict=True):
            table.add_row(title, *(f"{value:.2f}" for value in row))
    console = Console(width=max(120, Console().width))
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    runs = {
        part: {name: [asdict(one) for one in found] for name, found in by_name.items()}
        for part, by_name in (("runs", first), ("second", second))
    }
    out.write_text(json.dumps({"machine": machine(), **runs}, indent=1))
    console.print(f"written to {out}")


def _medians(runs: Sequence[Cold]) -> list[float]:
    """Returns the figures of a row."""
    return [statistics.median(getattr(one, column) for one in runs) for column in COLUMNS]
