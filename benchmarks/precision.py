"""Compares training steps on the CPU by precision, with each other and with PyTorch's autocast to bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tensorgrad as tg
from benchmarks.harness import Contestant, measure, report
from benchmarks.peers import torch_peer
from benchmarks.workloads import convnet, gpt, smollm2
from tensorgrad.driver.precision import PRECISIONS

WORKLOADS: dict[str, Callable[..., tuple[tg.Training, dict[str, Any]]]] = {
    "gpt": gpt.build,
    "convnet": convnet.build,
    "smollm2": smollm2.build,
}
"""The workloads that spend their time in products."""

COUNTED = ("dispatches", "peak_bytes", "bytes_moved")


def ours(name: str, precision: str) -> tuple[Contestant, dict[str, Any], dict[str, Any]]:
    """Returns a workload here, its initial parameters and its batch."""
    training, batch = WORKLOADS[name]("cpu", precision=precision)
    stats = training.stats()
    contestant = Contestant(
        f"tensorgrad {precision}", lambda: float(training.step(**batch)), {key: stats[key] for key in COUNTED}
    )
    return contestant, training.parameters(), batch


def autocast(peer: Contestant) -> Contestant:
    """Returns a workload in PyTorch that computes products in bfloat16."""

    def step() -> float:
        with torch.autocast("cpu", torch.bfloat16):
            return peer.step()

    return Contestant("torch autocast to bfloat16", step)


def report_precision(rounds: int, seconds: float, out: Path) -> None:
    """Prints a table for each workload."""
    for name in WORKLOADS:
        trained = [ours(name, precision) for precision in PRECISIONS]
        _, weights, batch = trained[0]
        peers = [torch_peer.contestant(name, weights, batch) for _ in range(2)]
        contestants = [contestant for contestant, _, _ in trained]
        timings = measure([*contestants, peers[0], autocast(peers[1])], rounds, seconds)
        report(f"{name} by precision", timings, timings[0].name, out / f"precision {name}.json")
