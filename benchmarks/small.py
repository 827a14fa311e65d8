"""Measures the overhead of steps beyond their arithmetic.

A step of many small parameters on the numpy device alternates with a handwritten one in one process; CPU times are
compared, which other work on the machine affects little. A step of `sine` on the CPU is timed without its kernels.
"""

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
from benchmarks.workloads import workload

PARAMETERS, SHAPE, RATE, MOMENTUM = 178, (4, 8), 1e-6, 0.9
BLOCK = 5
"""The number of steps that are timed together."""


class Many(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [tg.nn.param(SHAPE, tg.initializers.normal(1.0)) for _ in range(PARAMETERS)]


def distance(model: Many, x: tg.Tensor) -> tg.Tensor:
    return sum((tg.sum((part - x) ** 2) for part in model.parts), tg.array(0.0))


def by_hand(parameters: list[np.ndarray], momentum: float) -> Callable[[np.ndarray], float]:
    """Returns the same step, carefully written by hand."""
    p = [np.array(value) for value in parameters]
    velocities = [np.zeros_like(value) for value in p]
    rate, decay, two = np.float32(RATE), np.float32(momentum), np.float32(2)

    def step(x: np.ndarray) -> float:
        total = np.float32(0)
        for value, velocity in zip(p, velocities, strict=True):
            difference = value - x
            total += (difference * difference).sum()
            gradient = two * difference
            if momentum:
                velocity *= decay
                velocity += gradient
                gradient = velocity
            value -= rate * gradient
        return float(total)

    return step


def compared(momentum: float, rounds: int) -> dict[str, Any]:
    """Returns the CPU milliseconds of a step, ours and by hand: the minimum over blocks, as noise only adds time."""
    optimizer = tg.optim.sgd(RATE, momentum=momentum)
    training = tg.compile(Many(), loss=distance, optimizer=optimizer, inputs={"x": SHAPE}, device="numpy")
    x = np.full(SHAPE, 0.5, np.float32)
    hand = by_hand(list(training.parameters().values()), momentum)
    contestants: dict[str, Callable[[], float]] = {
        "tensorgrad numpy": lambda: float(training.step(x=x)),
        "numpy by hand": lambda: hand(x),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    losses = {name: [step()] for name, step in contestants.items()}
    for _ in range(rounds):
        for name, step in contestants.items():
            step()  # warms up the caches, which the other contestant has used
            start = time.process_time()
            losses[name] += [step() for _ in range(BLOCK)]
            seconds[name].append((time.process_time() - start) / BLOCK)
    np.testing.assert_allclose(*losses.values(), rtol=1e-5)
    least = [min(values) * 1e3 for values in seconds.values()]
    return {"milliseconds": dict(zip(seconds, least, strict=True)), "ratio": least[0] / least[1]}


def share_of_python(steps: int = 20_000) -> dict[str, float]:
    """Times steps of `sine` on the CPU without its kernels.

    Returns:
        The minimum microseconds of a step, of a step whose loss is read, and of copying the inputs, which both include.
    """
    training, batch = workload("sine")("cpu")
    float(training.step(**batch))
    inputs = [(np.empty_like(array), array) for array in batch.values()]

    def copy() -> None:
        for ours, theirs in inputs:
            ours[...] = theirs

    def left_out(*_: int) -> None:
        pass

    executable: Any = training._executable
    executable._step = left_out
    contestants: dict[str, Callable[[], object]] = {
        "step": lambda: training.step(**batch),
        "step, its loss read": lambda: float(training.step(**batch)),
        "copies of its inputs": copy,
    }
    least = dict.fromkeys(contestants, float("inf"))
    for name, run in contestants.items():
        for _ in range(steps):
            start = time.perf_counter()
            run()
            least[name] = min(least[name], 1e6 * (time.perf_counter() - start))
    return least


def report(rounds: int, out: Path) -> None:
    """Prints the CPU time of a step by optimizer, its ratio to the handwritten one, and Python's share; writes JSON."""
    runs = {"sgd": compared(0.0, rounds), f"sgd, momentum {MOMENTUM}": compared(MOMENTUM, rounds)}
    table = Table(title=f"a step of {PARAMETERS} parameters of {SHAPE[0]}x{SHAPE[1]}: milliseconds of CPU time")
    for column in ("", "tensorgrad numpy", "numpy by hand", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for name, run in runs.items():
        table.add_row(name, *(f"{value:.3f}" for value in run["milliseconds"].values()), f"{run['ratio']:.2f}")
    console = Console()
    console.print(table)
    share = share_of_python()
    table = Table("of sine on cpu, without its kernels", "µs", title="what Python takes")
    for name, value in share.items():
        table.add_row(name, f"{value:.1f}")
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "runs": runs, "microseconds of Python": share}, indent=1))
    console.print(f"written to {out}")
