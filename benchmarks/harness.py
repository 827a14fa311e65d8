"""Times steps of several contestants in one run, interleaved, and reports medians as ratios.

Machines are shared and noisy: a figure means something only beside another from the same run.
"""

from __future__ import annotations

import json
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Contestant:
    """One way to run the workload.

    Attributes:
        name: What tables call it.
        step: Runs one training step and waits for it; gives the loss.
        counts: What else there is to say: dispatches, bytes, seconds of compilation.
    """

    name: str
    step: Callable[[], float]
    counts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Timing:
    """What one contestant took: seconds for the first step, the median and the spread of the others."""

    name: str
    first: float
    median: float
    low: float
    high: float
    losses: list[float]
    counts: Mapping[str, Any]


LEAST_BLOCK, MOST_BLOCK, BLOCK_SECONDS = 5, 60, 0.2
"""How many steps a contestant runs in a row: as many as the slowest one does in so many seconds, within these bounds.

The first quarter is not timed: threads that the contestant before left spinning slow it, and so does a core's frequency
after the pause.
"""


def measure(
    contestants: list[Contestant],
    rounds: int,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Runs blocks of steps of every contestant in turn: `rounds` of them, fewer (at least 3) after `seconds`.

    Args:
        contestants: Who runs.
        rounds: How many blocks each has.
        seconds: After so long there are no more.
        clock: What a step is timed by. `time.process_time` counts what the process computes, so other processes disturb
            it less; it is right for contestants that take one thread.
    """
    first: dict[str, float] = {}
    losses: dict[str, list[float]] = {one.name: [] for one in contestants}
    taken: dict[str, list[float]] = {one.name: [] for one in contestants}
    for one in contestants:
        start = time.perf_counter()
        losses[one.name].append(one.step())
        first[one.name] = time.perf_counter() - start
    slowest = 0.0
    for one in contestants:
        start = time.perf_counter()
        losses[one.name].append(one.step())
        slowest = max(slowest, time.perf_counter() - start)
    block = min(max(int(BLOCK_SECONDS / slowest), LEAST_BLOCK), MOST_BLOCK)
    begin = time.perf_counter()
    for done in range(rounds):
        for one in contestants:
            time.sleep(0.2)
            for position in range(block):
                start = clock()
                losses[one.name].append(one.step())
                if position >= max(block // 4, 1):
                    taken[one.name].append(clock() - start)
        if done >= 2 and time.perf_counter() - begin > seconds:
            break
    return [
        Timing(
            one.name,
            first[one.name],
            statistics.median(taken[one.name]),
            min(taken[one.name]),
            max(taken[one.name]),
            losses[one.name],
            one.counts,
        )
        for one in contestants
    ]


def report(workload: str, timings: list[Timing], base: str, out: Path | None) -> None:
    """Prints a table whose ratios are over `base`, and the counts; writes all of it as JSON to `out`."""
    by_name = {timing.name: timing for timing in timings}
    table = Table(title=f"{workload}: a training step")
    for column in ("", "first, s", "median, ms", "from-to, ms", "ratio", "first loss", "last loss", "losses differ by"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for timing in timings:
        table.add_row(
            timing.name,
            f"{timing.first:.2f}",
            f"{timing.median * 1e3:.2f}",
            f"{timing.low * 1e3:.2f}-{timing.high * 1e3:.2f}",
            f"{timing.median / by_name[base].median:.2f}",
            f"{timing.losses[0]:.5f}",
            f"{timing.losses[-1]:.5f}",
            f"{difference(timing.losses, by_name[base].losses):.1e}",
        )
    console = Console(width=max(120, Console().width))
    console.print(table)
    for timing in timings:
        if timing.counts:
            console.print(f"{timing.name}: " + ", ".join(f"{k} {_short(v)}" for k, v in timing.counts.items()))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        data = {"workload": workload, "machine": machine(), "timings": [vars(timing) for timing in timings]}
        out.write_text(json.dumps(data, indent=1, default=str))
        console.print(f"written to {out}")


def difference(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Returns the greatest relative difference of the losses after equally many steps."""
    return max(abs(one - other) / max(abs(other), 1e-30) for one, other in zip(losses, expected, strict=True))


def peak_bytes() -> int | None:
    """Returns how much memory this process has had at most, as Linux counts it; `None` elsewhere."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return None if found is None else 1024 * int(found[1])


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} {_short(v)}" for k, v in value.items()) + "}"
    return f"{value:.3f}" if isinstance(value, float) else f"{value}"


def machine() -> dict[str, Any]:
    """Returns the machine that the figures were measured on."""
    versions: dict[str, str] = {}
    for name in ("tensorgrad-xdsl", "wgpu", "numpy", "torch", "jax", "xdsl"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"platform": platform.platform(), "processor": platform.machine(), "versions": versions}
