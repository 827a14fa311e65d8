"""What a step of many small parameters costs on the numpy device beside the same by hand: overhead and little else.

The two run in turn in one process, and what is compared is CPU time, so that other work on the machine counts little.
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

PARAMETERS, SHAPE, RATE, MOMENTUM = 178, (4, 8), 1e-6, 0.9
BLOCK = 5
"""Steps that are timed together."""


class Many(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [tg.nn.param(SHAPE, tg.initializers.normal(1.0)) for _ in range(PARAMETERS)]


def distance(model: Many, x: tg.Tensor) -> tg.Tensor:
    return sum((tg.sum((part - x) ** 2) for part in model.parts), tg.array(0.0))


def by_hand(parameters: list[np.ndarray], momentum: float) -> Callable[[np.ndarray], float]:
    """Returns the step as a careful person writes it."""
    p = [np.array(value) for value in parameters]
    velocities = [np.zeros_like(value) for value in p]
    rate, kept, two = np.float32(RATE), np.float32(momentum), np.float32(2)

    def step(x: np.ndarray) -> float:
        total = np.float32(0)
        for value, velocity in zip(p, velocities, strict=True):
            difference = value - x
            total += (difference * difference).sum()
            gradient = two * difference
            if momentum:
                velocity *= kept
                velocity += gradient
                gradient = velocity
            value -= rate * gradient
        return float(total)

    return step


def compared(momentum: float, rounds: int) -> dict[str, Any]:
    """CPU milliseconds of a step, ours and by hand, the least of all blocks: what else runs can only add."""
    optimizer = tg.optim.sgd(RATE, momentum=momentum)
    training = tg.compile(Many(), loss=distance, optimizer=optimizer, inputs={"x": SHAPE}, device="numpy")
    x = np.full(SHAPE, 0.5, np.float32)
    hand = by_hand(list(training.parameters().values()), momentum)
    contestants: dict[str, Callable[[], float]] = {
        "tensorgrad numpy": lambda: float(training.step(x=x)),
        "numpy by hand": lambda: hand(x),
    }
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    losses = {name: [step()] for name, step in contestants.items()}
    for _ in range(rounds):
        for name, step in contestants.items():
            step()  # what the one before left in caches counts for neither
            start = time.process_time()
            losses[name] += [step() for _ in range(BLOCK)]
            taken[name].append((time.process_time() - start) / BLOCK)
    np.testing.assert_allclose(*losses.values(), rtol=1e-5)
    least = [min(values) * 1e3 for values in taken.values()]
    return {"milliseconds": dict(zip(taken, least, strict=True)), "ratio": least[0] / least[1]}


def report(rounds: int, out: Path) -> None:
    """Prints the CPU time of a step by optimizer, and its ratio to that by hand; writes all of it as JSON."""
    found = {"sgd": compared(0.0, rounds), f"sgd, momentum {MOMENTUM}": compared(MOMENTUM, rounds)}
    table = Table(title=f"a step of {PARAMETERS} parameters of {SHAPE[0]}x{SHAPE[1]}: milliseconds of CPU time")
    for column in ("", "tensorgrad numpy", "numpy by hand", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for name, one in found.items():
        table.add_row(name, *(f"{value:.3f}" for value in one["milliseconds"].values()), f"{one['ratio']:.2f}")
    console = Console()
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "runs": found}, indent=1))
    console.print(f"written to {out}")
