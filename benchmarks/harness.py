"""Times steps of several contestants in one run, interleaved, and reports medians and their ratios.

Machines are shared and noisy, so only figures from the same run are comparable.
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
    """One implementation of the workload.

    Attributes:
        name: Its name in tables.
        step: Runs one training step, waits for it, and returns the loss.
        counts: Other figures to report: dispatches, bytes, compile seconds.
    """

    name: str
    step: Callable[[], float]
    counts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Timing:
    """The times of one contestant, in seconds: of the first step, and the median and range of the others."""

    name: str
    first: float
    median: float
    low: float
    high: float
    losses: list[float]
    counts: Mapping[str, Any]


LEAST_BLOCK, MOST_BLOCK, BLOCK_SECONDS = 5, 60, 0.2
"""A block is as many consecutive steps as the slowest contestant runs in `BLOCK_SECONDS`, within these bounds.

Its first quarter is not timed, as it is slowed down by threads that the previous contestant left spinning, and by the
core's frequency after the pause.
"""


def measure(
    contestants: list[Contestant],
    rounds: int,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Runs blocks of steps of all contestants in round-robin order; returns their times.

    Args:
        contestants: The contestants.
        rounds: The number of blocks of each.
        seconds: The time after which no further round starts, once there have been three.
        clock: The clock that times a step. `time.process_time` counts CPU time of the process, which other processes
            disturb less; it is only meaningful for contestants that use one thread.
    """
    first: dict[str, float] = {}
    losses: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    durations: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for contestant in contestants:
        start = time.perf_counter()
        losses[contestant.name].append(contestant.step())
        first[contestant.name] = time.perf_counter() - start
    slowest = 0.0
    for contestant in contestants:
        start = time.perf_counter()
        losses[contestant.name].append(contestant.step())
        slowest = max(slowest, time.perf_counter() - start)
    block = min(max(int(BLOCK_SECONDS / slowest), LEAST_BLOCK), MOST_BLOCK)
    begin = time.perf_counter()
    for done in range(rounds):
        for contestant in contestants:
            time.sleep(0.2)
            for position in range(block):
                start = clock()
                losses[contestant.name].append(contestant.step())
                if position >= max(block // 4, 1):
                    durations[contestant.name].append(clock() - start)
        if done >= 2 and time.perf_counter() - begin > seconds:
            break
    return [
        Timing(
            contestant.name,
            first[contestant.name],
            statistics.median(durations[contestant.name]),
            min(durations[contestant.name]),
            max(durations[contestant.name]),
            losses[contestant.name],
            contestant.counts,
        )
        for contestant in contestants
    ]


def report(workload: str, timings: list[Timing], base: str, out: Path | None, step: str = "a training step") -> None:
    """Prints a table with ratios to the contestant `base`, and the counts; writes everything as JSON to `out`."""
    by_name = {timing.name: timing for timing in timings}
    table = Table(title=f"{workload}: {step}")
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
    """Returns the largest relative difference between losses after the same number of steps."""
    return max(abs(loss - other) / max(abs(other), 1e-30) for loss, other in zip(losses, expected, strict=True))


def peak_bytes() -> int | None:
    """Returns the peak resident memory of this process, as Linux reports it; `None` on other systems."""
    status = Path("/proc/self/status")
    match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return None if match is None else 1024 * int(match[1])


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
