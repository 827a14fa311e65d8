"""Compares the sampling of normally distributed parameters with `torch.nn.init.normal_`, alternating in one process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tensorgrad as tg
from benchmarks.harness import machine

SHAPE = (8192, 4096)
"""The shape of the sampled array, about a quarter of a small language model's parameters."""


def contestants() -> dict[str, Callable[[], Any]]:
    """Returns the functions to compare, by name."""
    import torch

    draw, key = tg.initializers.normal(0.02), tg.random.key(0)
    weight = torch.empty(SHAPE)
    return {
        "tensorgrad": lambda: draw(key, SHAPE, np.dtype(np.float32)),
        "torch.nn.init.normal_": lambda: torch.nn.init.normal_(weight, std=0.02),
    }


def report(rounds: int, out: Path) -> None:
    """Prints the minimum wall-clock time and CPU time of all threads, in seconds; writes them as JSON."""
    draws = contestants()
    least = {name: [float("inf"), float("inf")] for name in draws}
    for _ in range(rounds):
        for name, draw in draws.items():
            clock, used = time.perf_counter(), time.process_time()
            draw()
            elapsed = time.perf_counter() - clock, time.process_time() - used
            least[name] = [min(pair) for pair in zip(least[name], elapsed, strict=True)]
    table = Table(title=f"{np.prod(SHAPE) / 1e6:.0f} million normal numbers: least seconds of {rounds}")
    for column in ("", "clock", "CPU", "ratio of clocks", "ratio of CPU"):
        table.add_column(column, justify="right" if column else "left")
    base = least["torch.nn.init.normal_"]
    for name, elapsed in least.items():
        ratios = (f"{own / other:.2f}" for own, other in zip(elapsed, base, strict=True))
        table.add_row(name, *(f"{duration:.3f}" for duration in elapsed), *ratios)
    console = Console()
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "seconds": least}, indent=1))
    console.print(f"written to {out}")
