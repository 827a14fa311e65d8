"""Measures what an edit of a program costs: the time to its first loss, with the caches of the run before.

Each run is a new process. Everything in a program but what was edited should be found: an edit that moves lines finds
the whole program, one of a layer the kernels of all others.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.cold import UNCACHED
from benchmarks.harness import machine
from tensorgrad.driver.storage.program_cache import SWITCH, VARIABLE
from tensorgrad.runtime.cpu.objects import CACHE_VARIABLE

PROGRAM = """
import json, os, sys
import numpy as np
import tensorgrad as tg

class Block(tg.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = [tg.nn.LayerNorm(64), tg.nn.LayerNorm(64)]
        self.attention, self.mlp = tg.nn.MultiHeadAttention(64, 4), tg.nn.MLP(64, [256], 64)

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))

class Network(tg.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.blocks, self.head = tg.nn.Linear(16, 64), [Block() for _ in range(3)], tg.nn.Linear(64, 4)

    def __call__(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

start = sum(os.times()[:4])
training = tg.compile(
    Network(),
    loss=lambda model, x, y: tg.mse(model(x), y),
    optimizer=tg.optim.adam(1e-3),
    inputs={"x": (8, 32, 16), "y": (8, 32, 4)},
    device=sys.argv[1],
)
float(training.step(x=np.ones((8, 32, 16), np.float32), y=np.zeros((8, 32, 4), np.float32)))
print(json.dumps(sum(os.times()[:4]) - start))
"""
"""Prints the CPU time until its first loss, with that of the processes that compiled for it."""

EDITS: Mapping[str, tuple[str, str]] = {
    "nothing": ("", ""),
    "a comment at the top": ("import json", "# A comment.\nimport json"),
    "one layer": ("return self.head(x)", "return self.head(tg.tanh(x))"),
    "the optimizer": ("adam(1e-3)", "adamw(1e-3)"),
}
"""The edits: each replaces a text by another in the program that is in the caches."""


def seconds(program: str, device: str, folder: Path) -> float:
    """Runs a program with the caches in a folder; returns the CPU seconds until its first loss.

    Raises:
        subprocess.CalledProcessError: It fails.
    """
    caches = {SWITCH: "1", VARIABLE: str(folder / "cache"), CACHE_VARIABLE: str(folder / "objects")}
    script = folder / "train.py"
    script.write_text(program, encoding="utf-8")
    command = [sys.executable, str(script), device]
    environment = {**os.environ, **UNCACHED, **caches}
    return float(
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    )


def report(device: str, rounds: int, out: Path) -> None:
    """Prints the median time after each edit beside that with empty caches; writes all times as JSON."""
    times: dict[str, list[float]] = {name: [] for name in ("empty caches", *EDITS)}
    for _ in range(rounds):
        for name, edit in EDITS.items():
            with tempfile.TemporaryDirectory() as folder:
                first = seconds(PROGRAM, device, Path(folder))
                times["empty caches"].append(first)
                times[name].append(seconds(PROGRAM.replace(*edit), device, Path(folder)))
    table = Table(title=f"CPU seconds from the model to its first loss on {device}, after an edit")
    for column in ("edit", "seconds", "of empty caches"):
        table.add_column(column, justify="left" if column == "edit" else "right")
    whole = statistics.median(times["empty caches"])
    for name, values in times.items():
        median = statistics.median(values)
        table.add_row(name, f"{median:.2f}", f"{median / whole:.2f}")
    console = Console(width=max(100, Console().width))
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "seconds": times}, indent=1))
    console.print(f"written to {out}")
