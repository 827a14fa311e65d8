"""How long a first step takes: in a new process, with the driver's caches off."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness import machine
from benchmarks.workloads import NAMES

UNCACHED = {"MESA_SHADER_CACHE_DISABLE": "true", "MESA_GLSL_CACHE_DISABLE": "true", "__GL_SHADER_DISK_CACHE": "0"}
"""What keeps drivers from finding the shaders of an earlier run: Mesa's, and NVIDIA's."""

CHILD = """
import json, sys, time
name, device = sys.argv[1:]
marks, used = [time.perf_counter()], [0.0]
def mark():
    marks.append(time.perf_counter())
    used.append(time.process_time())
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
        cpu: What all threads of the process took until then.
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


def cold(name: str, device: str = "wgpu") -> Cold:
    """Runs a first step in a new process.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    start = time.perf_counter()
    command = [sys.executable, "-c", CHILD, name, device]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **UNCACHED})
    process = time.perf_counter() - start
    found = json.loads(done.stdout)
    imports, compilation, first_step = found["marks"]
    return Cold(name, process, imports, compilation, first_step, found["cpu"])


def report(device: str, rounds: int, out: Path, names: Sequence[str] = NAMES) -> None:
    """Prints medians of some runs of each workload, in turn; writes all of them as JSON."""
    found: dict[str, list[Cold]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(cold(name, device))
    table = Table(title=f"seconds until a first loss on {device}, drivers' caches off")
    columns = ("process", "imports", "compilation", "first_step", "without_imports", "cpu")
    for column in ("", *columns):
        table.add_column(column.replace("_", " "), justify="right" if column else "left")
    for name, runs in found.items():
        medians = (statistics.median(getattr(one, column) for one in runs) for column in columns)
        table.add_row(name, *(f"{median:.2f}" for median in medians))
    console = Console()
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine(), "runs": {name: [asdict(one) for one in runs] for name, runs in found.items()}}
    out.write_text(json.dumps(data, indent=1))
    console.print(f"written to {out}")
