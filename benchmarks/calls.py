"""Measures what a call of a compiled function costs by how its parameters are passed and how many there are.

CPU time of the process for a call of linear layers of 8 features, in milliseconds: of a function of `tg.jit` whose
model holds host arrays, tensors on the device, or those under `tg.no_grad`; and of an attached function, which passes
none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tensorgrad as tg
from benchmarks.harness import machine
from tensorgrad import DeviceName

COUNTS, FEATURES = (2, 20, 100), 8
CALLS = 20
"""How many calls are timed together."""


class Layers(tg.nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(FEATURES, FEATURES) for _ in range(count // 2)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def _without_gradients(call: Callable[[], Any]) -> Callable[[], Any]:
    def within() -> Any:
        with tg.no_grad():
            return call()

    return within


def ways(count: int, device: DeviceName) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields each way to pass parameters, with a call."""
    x, model = np.zeros((1, FEATURES), np.float32), Layers(count)
    function: Any = tg.jit(lambda model, x: model(x), device=device)
    host, there = model.initialized(0), model.initialized(0, device=device)
    yield "jit, host arrays", lambda: function(host, x)
    yield "jit, device tensors", lambda: function(there, x)
    yield "jit, device tensors, no_grad", _without_gradients(lambda: function(there, x))
    attached = tg.compile(model, device=device).attach(lambda model, x: model(x))
    yield "attach", lambda: attached(x=x)


def report(device: DeviceName, rounds: int, out: Path) -> None:
    """Prints the times, and writes them to a file."""
    chosen = [(name, count, call) for count in COUNTS for name, call in ways(count, device)]
    times: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds + 1):  # the first is for compiling
        for name, count, call in chosen:
            begun = time.process_time()
            for _ in range(CALLS):
                np.asarray(call())
            if number:
                times.setdefault((name, count), []).append((time.process_time() - begun) / CALLS)
    medians = {key: 1e3 * float(np.median(values)) for key, values in times.items()}
    names = list(dict.fromkeys(name for name, _ in medians))
    table = Table("ms per call", *(f"{count} parameters" for count in COUNTS), title=f"calls on {device}")
    for name in names:
        table.add_row(name, *(f"{medians[name, count]:.3f}" for count in COUNTS))
    Console().print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"way": name, "parameters": count, "milliseconds": value} for (name, count), value in medians.items()]
    out.write_text(json.dumps({"machine": machine(), "calls": rows}, indent=1), encoding="utf-8")
