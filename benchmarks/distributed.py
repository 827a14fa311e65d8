"""A step of two processes beside that of one, and a model of what exchanges cost.

`tg launch` runs this file as two processes of one thread each, and as one process of two threads, in turn, with the
same global batch. The model of cost is that of messages: one takes a latency, and a time for each byte. An all-reduce
of B bytes by n processes is a reduce-scatter by all-to-all and an all-gather, each of which sends n - 1 messages of
B / n bytes; a small one is one all-gather of n - 1 messages of B bytes. Both numbers are fitted to a sweep over sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tensorgrad as tg
from benchmarks.workloads import gpt, mlp
from tensorgrad.runtime.cpu.threads import THREADS_VARIABLE
from tensorgrad.runtime.group.group import SMALL_BYTES

BUILDS = {"mlp": mlp.build, "gpt": gpt.build}
SIZES = tuple(1 << power for power in range(8, 25, 2))
"""Bytes of the all-reduces that the model is fitted to."""
WORKERS = (2, 8, 64, 1024)

NETWORKS = {"10 GbE": (30e-6, 1.25e9), "100 Gb/s InfiniBand": (2e-6, 12.5e9)}
"""Latency of a message in seconds and bytes per second, as assumed for the extrapolation."""


@dataclass(frozen=True)
class Link:
    """What a message costs.

    Attributes:
        latency: Seconds, however short it is.
        byte: Seconds for each byte.
    """

    latency: float
    byte: float

    def all_reduce(self, size: int, count: int) -> float:
        """Returns the seconds of an all-reduce of so many bytes by `size` processes."""
        messages, sent = terms(size, count)
        return messages * self.latency + sent * self.byte


def terms(size: int, count: int) -> tuple[float, float]:
    """Returns how many messages a process sends in an all-reduce of `count` bytes, one after another, and the bytes."""
    if count < SMALL_BYTES:
        return size - 1, (size - 1) * count
    return 2 * (size - 1), 2 * (size - 1) / size * count


def fitted(size: int, seconds: dict[int, float]) -> Link:
    """Returns the link that explains measured all-reduces, by least squares of the relative error."""
    rows = np.array([terms(size, count) for count in seconds])
    times = np.array(list(seconds.values()))
    found, *_ = np.linalg.lstsq(rows / times[:, None], np.ones(len(times)), rcond=None)
    return Link(max(float(found[0]), 0.0), max(float(found[1]), 0.0))


def efficiency(link: Link, size: int, compute: float, count: int) -> float:
    """Returns the share of a step in which a process computes, with one exchange that nothing overlaps."""
    return compute / (compute + link.all_reduce(size, count))


def worker(name: str, steps: int, out: Path) -> None:
    """Measures a step in this process of a group; the first one writes what it saw."""
    group = tg.distributed.group()
    training, batch = BUILDS[name]("cpu", group=group)
    for _ in range(5):
        float(training.step(**batch))
    found: dict[str, Any] = {"step": [], "exchange": [], "bytes": 0, "calls": 0}
    for _ in range(steps):
        group.traffic.reset()
        start = time.perf_counter()
        float(training.step(**batch))
        found["step"].append(time.perf_counter() - start)
        found["exchange"].append(group.traffic.seconds)
        found["bytes"], found["calls"] = group.traffic.bytes_sent, group.traffic.calls
    parameters = sum(value.nbytes for value in training.parameters().values())
    sweep = {count: _all_reduce_seconds(group, count) for count in SIZES} if group.size > 1 else {}
    alone = _all_reduce_seconds(group, parameters)
    if group.rank == 0:
        record = {key: median(value) if isinstance(value, list) else value for key, value in found.items()}
        record |= {"parameters": parameters, "sweep": sweep, "alone": alone}
        out.write_text(json.dumps(record), encoding="utf-8")


def _all_reduce_seconds(group: tg.distributed.Group, count: int) -> float:
    array, seconds = np.ones(count // 4, np.float32), []
    for _ in range(7):
        group.barrier()
        start = time.perf_counter()
        group.all_reduce(array)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def launched(name: str, processes: int, threads: int, steps: int) -> dict[str, Any]:
    """Returns what the first of several processes measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        script = [__file__, "--worker", name, "--steps", str(steps), "--found", str(out)]
        command = [sys.executable, "-m", "tensorgrad.tools.tg", "launch", "-n", str(processes)]
        command += ["--cores-per-process", str(threads), *script]
        root = str(Path(__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": root, THREADS_VARIABLE: str(threads)}
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


def report_distributed(rounds: int, out: Path, steps: int = 30) -> dict[str, Any]:
    """Measures both forms of each workload in turn, prints them with the model, and writes JSON."""
    result: dict[str, Any] = {}
    for name in BUILDS:
        runs = [(launched(name, 1, 2, steps), launched(name, 2, 1, steps)) for _ in range(rounds)]
        ones, twos = zip(*runs, strict=True)
        one, two = (median(run["step"] for run in found) for found in (ones, twos))
        exchange = median(run["exchange"] for run in twos)
        sweep = {int(count): median(run["sweep"][count] for run in twos) for count in twos[0]["sweep"]}
        link = fitted(2, sweep)
        gradients = twos[0]["parameters"]
        predicted = link.all_reduce(2, gradients)
        print(f"{name}: one process of 2 threads {one * 1e3:.2f} ms, two of one {two * 1e3:.2f} ms ({one / two:.2f})")
        print(f"  exchanges: {exchange / two:.0%} of the step with the waiting for the other process, ", end="")
        print(f"{twos[0]['bytes']} bytes sent in {twos[0]['calls']} calls")
        print(f"  model: {link.latency * 1e6:.1f} us a message, {1e-9 / max(link.byte, 1e-15):.2f} GB/s; ", end="")
        alone = median(run["alone"] for run in twos)
        print(f"for the gradients {predicted * 1e3:.2f} ms predicted, {alone * 1e3:.2f} ms measured on their own")
        compute = two - exchange
        table = {
            network: {size: round(efficiency(Link(latency, 1 / rate), size, compute, gradients), 3) for size in WORKERS}
            for network, (latency, rate) in NETWORKS.items()
        }
        for network, row in table.items():
            cells = ", ".join(f"{size}: {share:.0%}" for size, share in row.items())
            print(f"  extrapolated to {network}, the same batch a process: {cells}")
        result[name] = {
            "one process": one,
            "two processes": two,
            "exchange": exchange,
            "predicted": predicted,
            "measured on its own": alone,
            "latency": link.latency,
            "seconds per byte": link.byte,
            "sweep": sweep,
            "extrapolated": table,
        }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--found", type=Path, required=True)
    given = parser.parse_args()
    worker(given.worker, given.steps, given.found)
