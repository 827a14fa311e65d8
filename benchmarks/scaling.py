"""Measures how costs grow with a transformer's layers, width, batch and length, varying one at a time."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import tensorgrad as tg
from benchmarks.harness import machine
from benchmarks.workloads.transformer import Transformer

VOCABULARY, HEADS = 65, 4


@dataclass(frozen=True)
class Size:
    """The size of a transformer and of its batch."""

    layers: int = 2
    width: int = 64
    batch: int = 8
    length: int = 32


SWEEPS: dict[str, tuple[int, ...]] = {
    "layers": (1, 2, 4, 8, 12, 24),
    "width": (32, 64, 128, 256),
    "batch": (4, 8, 16, 32),
    "length": (16, 32, 64, 128, 256),
}
"""The values of each varied parameter; the others have the defaults of `Size`."""

STEPS = 5


@dataclass(frozen=True)
class Cost:
    """The cost of a size.

    Attributes:
        size: The size.
        compile_seconds: The time from the loss to a loaded program.
        step_milliseconds: The median time of a step.
        peak_bytes: The bytes of all buffers, as planned.
        dispatches: The number of dispatches in a step.
        kernels: The number of distinct kernels.
    """

    size: Size
    compile_seconds: float
    step_milliseconds: float
    peak_bytes: int
    dispatches: int
    kernels: int


def cost(size: Size, device: tg.DeviceName) -> Cost:
    """Compiles and runs a training step."""
    shape = tg.spec((size.batch, size.length), "i32")
    start = time.perf_counter()
    training = tg.compile(
        Transformer(VOCABULARY, size.length, size.width, HEADS, size.layers),
        loss=lambda model, tokens, following: tg.cross_entropy(model(tokens), following),
        optimizer=tg.optim.adamw(3e-4, clip_norm=1.0),
        inputs={"tokens": shape, "following": shape},
        device=device,
    )
    compiled = time.perf_counter() - start
    text = np.random.default_rng(0).integers(0, VOCABULARY, (size.batch, size.length + 1)).astype(np.int32)
    batch = {"tokens": text[:, :-1], "following": text[:, 1:]}
    times: list[float] = []
    for _ in range(STEPS + 1):
        start = time.perf_counter()
        float(training.step(**batch))
        times.append(time.perf_counter() - start)
    stats = training.stats()
    return Cost(
        size,
        compiled,
        1e3 * statistics.median(times[1:]),
        stats.get("peak_bytes", 0),
        stats.get("dispatches", 0),
        stats.get("kernels", 0),
    )


def report(device: tg.DeviceName, out: Path) -> None:
    """Prints a table for each sweep, and writes all of them as JSON."""
    console = Console()
    sweeps: dict[str, list[Cost]] = {}
    for name, values in SWEEPS.items():
        table = Table(title=f"a transformer's training step on {device}, by {name}")
        for column in (name, "compile, s", "step, ms", "peak, MB", "dispatches", "kernels"):
            table.add_column(column, justify="right")
        for value in values:
            measured = cost(replace(Size(), **{name: value}), device)
            sweeps.setdefault(name, []).append(measured)
            table.add_row(
                str(value),
                f"{measured.compile_seconds:.2f}",
                f"{measured.step_milliseconds:.1f}",
                f"{measured.peak_bytes / 1e6:.1f}",
                str(measured.dispatches),
                str(measured.kernels),
            )
        console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "machine": machine(),
        "sweeps": {name: [asdict(size_cost) for size_cost in costs] for name, costs in sweeps.items()},
    }
    out.write_text(json.dumps(data, indent=1))
    console.print(f"written to {out}")
