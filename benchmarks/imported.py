"""Compares training steps of PyTorch modules, imported by `tg.from_torch`, with PyTorch's own on the same CPU."""

from __future__ import annotations

import copy
import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import tensorgrad as tg
from benchmarks.cold import CHILD, Cold, cache_switches, started
from benchmarks.harness import Contestant, machine, measure, report
from benchmarks.torch_modules import MODELS, eager_step, imported_training

MODULE = """import torch
from benchmarks.torch_modules import MODELS, eager_step, imported_training
torch.manual_seed(0)
module, batch = MODELS[name]()"""
"""How the processes of first steps begin: a program that imports a module has it in PyTorch in either case."""

HERE = CHILD.format(
    importing=MODULE,
    building="training = imported_training(module, batch, where)",
    stepping="float(training.step(x=batch.numpy()))",
)
PYTORCH = CHILD.format(importing=MODULE, building="step = eager_step(module, batch)", stepping="step()")
"""The programs of processes that take a first step: of an imported module, and of the module itself."""


def imported(module: nn.Module, batch: torch.Tensor, device: tg.DeviceName) -> Contestant:
    """Returns a training step of a module here."""
    training, array = imported_training(module, batch, device), batch.numpy()
    return Contestant("tensorgrad", lambda: float(training.step(x=array)))


def report_imported(device: tg.DeviceName, rounds: int, seconds: float, out: Path, clock: Callable[[], float]) -> None:
    """Times every module here and in PyTorch, and reports the ratios to PyTorch; then first steps in new processes."""
    for name, build in MODELS.items():
        torch.manual_seed(0)
        module, batch = build()
        contestants = [
            imported(copy.deepcopy(module), batch, device),
            Contestant("pytorch", eager_step(module, batch)),
        ]
        timings = measure(contestants, rounds, seconds, clock)
        report(f"imported {name}", timings, "pytorch", out / f"imported {name}.json")
    report_starts(device, min(rounds, 3), out / "imported starts.json")


def report_starts(device: tg.DeviceName, rounds: int, out: Path) -> None:
    """Prints the median seconds from the start of a process to a first loss, here and in PyTorch; writes all as JSON.

    Here, each module is started twice: with empty caches of programs and native code, and with those that this left.
    """
    runs: dict[str, dict[str, list[Cold]]] = {name: {"pytorch": [], "first": [], "second": []} for name in MODELS}
    for name, starts in runs.items():
        for _ in range(rounds):
            starts["pytorch"].append(started(PYTORCH, name, device, "", {}))
            with tempfile.TemporaryDirectory() as folder:
                for part in ("first", "second"):
                    starts[part].append(started(HERE, name, device, "", cache_switches(Path(folder))))
    table = Table(title=f"seconds from the start of a process to a first loss, on {device}")
    for column in ("", "pytorch", "first start", "ratio", "second start", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for name, starts in runs.items():
        peer, first, second = (statistics.median(run.process for run in part) for part in starts.values())
        cells = (peer, first, first / peer, second, second / peer)
        table.add_row(name, *(f"{cell:.2f}" for cell in cells))
    console = Console(width=max(120, Console().width))
    console.print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    seconds = {name: {part: list(map(asdict, each)) for part, each in starts.items()} for name, starts in runs.items()}
    out.write_text(json.dumps({"machine": machine(), "starts": seconds}, indent=1))
    console.print(f"written to {out}")
