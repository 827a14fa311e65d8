"""`python -m benchmarks counts`: counts the cost of a step of each workload; nothing runs, so it needs no device."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.workloads import NAMES, workload

TARGETS = ("lavapipe", "webgpu-default")
"""The targets to compile for: the software adapter of the tests, and the limits that every WebGPU device supports."""


@dataclass(frozen=True)
class Counts:
    """The cost of a training step.

    Attributes:
        name: The workload.
        target: The target that it is compiled for.
        dispatches: The number of kernel launches in a step.
        copies: The number of copies in a step.
        kernels: The number of distinct kernels.
        peak_bytes: The bytes of all buffers, as planned.
        least_bytes: The lower bound on `peak_bytes` for this order of kernels.
        bytes_moved: The bytes that a step reads and writes.
        compile_seconds: The CPU time from the traced loss to the program, without the driver's compiler.
    """

    name: str
    target: str
    dispatches: int
    copies: int
    kernels: int
    peak_bytes: int
    least_bytes: int
    bytes_moved: int
    compile_seconds: float


def count(name: str, target: str = TARGETS[0]) -> Counts:
    """Compiles a workload for a target, and returns its counts."""
    training, _ = workload(name)("numpy")
    start = time.process_time()
    program = training.program_for(target)
    seconds = time.process_time() - start
    statistics = program.statistics
    dispatches = [step for step in program.plan if hasattr(step, "kernel")]
    least = statistics["peak_bytes"] - statistics["workspace_bytes"] + statistics["least_workspace_bytes"]
    return Counts(
        name,
        target,
        len(dispatches),
        len(program.plan) - len(dispatches),
        len(program.kernels),
        int(statistics["peak_bytes"]),
        int(least),
        int(statistics["bytes_moved"]),
        seconds,
    )


def report(names: Sequence[str] = NAMES, out: Path | None = None) -> None:
    """Prints the counts of workloads as a table, and writes them as JSON."""
    table = Table(title="a training step")
    heads = ("", "target", "dispatches", "copies", "kernels", "peak, MB", "least, MB", "moved, MB", "CPU s")
    for column in heads:
        table.add_column(column, justify="left" if column in ("", "target") else "right")
    counts = [count(name, target) for target in TARGETS for name in names]
    for program in counts:
        counted = (program.dispatches, program.copies, program.kernels)
        sizes = (f"{size / 1e6:.2f}" for size in (program.peak_bytes, program.least_bytes, program.bytes_moved))
        table.add_row(program.name, program.target, *map(str, counted), *sizes, f"{program.compile_seconds:.2f}")
    Console(width=max(120, Console().width)).print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps([asdict(program) for program in counts], indent=1))


if __name__ == "__main__":
    report()
