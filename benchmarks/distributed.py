"""Compares a step of two processes with that of one, and models the cost of collectives.

`tg launch` runs this file as one process with two threads, as two with one thread each, and as two without overlap of
collectives and kernels, alternating, with the same global batch. In the model, a message takes a latency plus a time
per byte. An all-reduce of B bytes by n processes is a reduce-scatter by all-to-all and an all-gather, each of which
sends n - 1 messages of B / n bytes; in between, each process reduces n parts of B / n bytes. A small all-reduce is an
all-gather of n - 1 messages of B bytes. The reduction is measured on its own; latency and time per byte are fitted to a
sweep over sizes. The collectives of a step start at their positions in the plan, and run one after another; a kernel
that needs a result waits for its collective.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from xdsl.passes import ModulePass

import tensorgrad as tg
from benchmarks.workloads import gpt, mlp
from tensorgrad.runtime.cpu.threads import THREADS_VARIABLE
from tensorgrad.runtime.group.group import SMALL_BYTES
from tensorgrad.runtime.group.reductions import reduce_in_rank_order
from tensorgrad.runtime.program import Collective, Dispatch, Program, Wait, runs

BUILDS = {"mlp": mlp.build, "gpt": gpt.build}
SIZES = tuple(1 << power for power in range(8, 21))
"""The sizes in bytes of the all-reduces that the model is fitted to, up to that of a bucket."""
WORKERS = (2, 8, 64, 1024)

NETWORKS = {"10 GbE": (30e-6, 1.25e9), "100 Gb/s InfiniBand": (2e-6, 12.5e9)}
"""The latency of a message in seconds and the bandwidth in bytes per second that the extrapolation assumes."""


@dataclass(frozen=True)
class Link:
    """The cost of messages.

    Attributes:
        latency: The seconds per message.
        byte: The seconds per byte sent.
        combined: The seconds per byte that a process reduces.
    """

    latency: float
    byte: float
    combined: float

    def all_reduce(self, size: int, count: int) -> float:
        """Returns the seconds of an all-reduce of `count` bytes by `size` processes."""
        messages, sent, combined = terms(size, count)
        return messages * self.latency + sent * self.byte + combined * self.combined


def terms(size: int, count: int) -> tuple[float, float, float]:
    """Returns the messages that a process sends in an all-reduce of `count` bytes, their bytes, and those reduced."""
    if count < SMALL_BYTES:
        return size - 1, (size - 1) * count, size * count
    return 2 * (size - 1), 2 * (size - 1) / size * count, count


def fitted(size: int, seconds: dict[int, float], combined: float) -> Link:
    """Returns the link that fits measured all-reduces, by least squares of the relative error."""
    rows = np.array([terms(size, count) for count in seconds])
    times = np.array(list(seconds.values()))
    rest = 1 - rows[:, 2] * combined / times
    coefficients, *_ = np.linalg.lstsq(rows[:, :2] / times[:, None], rest, rcond=None)
    return Link(max(float(coefficients[0]), 0.0), max(float(coefficients[1]), 0.0), combined)


@dataclass(frozen=True)
class Exchanged:
    """One collective of a step.

    Attributes:
        bytes: The number of bytes exchanged.
        start: The fraction of the kernels' time that has passed when it starts.
        wait: The fraction that has passed when it is waited for.
    """

    bytes: int
    start: float
    wait: float


def exchanges_of(program: Program, seconds: Sequence[float]) -> list[Exchanged]:
    """Returns the collectives of a plan, given the time of each dispatch."""
    total, passed, measured = sum(seconds), 0.0, iter(seconds)
    exchanges: list[Exchanged] = []
    under_way: dict[int, tuple[int, float]] = {}
    for step, _ in runs(program.plan):
        if isinstance(step, Dispatch):
            passed += next(measured) / total
        elif isinstance(step, Collective):
            count = sum(size for _, _, size in step.reads)
            if step.request is None:
                exchanges.append(Exchanged(count, passed, passed))
            else:
                under_way[step.request] = count, passed
        elif isinstance(step, Wait):
            exchanges.append(Exchanged(*under_way.pop(step.request), passed))
    return sorted(exchanges, key=lambda exchange: exchange.start)


def step_seconds(link: Link, size: int, compute: float, exchanges: Sequence[Exchanged], overlaps: bool = True) -> float:
    """Returns the modeled seconds of a step.

    Args:
        link: The cost of messages.
        size: The number of processes.
        compute: The seconds of the kernels.
        exchanges: The collectives, in the order in which they start.
        overlaps: Whether kernels run during collectives.
    """
    late = over = 0.0
    for exchange in exchanges:
        # `late` is the total time that kernels have waited; collectives run one after another.
        over = max(over, exchange.start * compute + late) + link.all_reduce(size, exchange.bytes)
        wait = (exchange.wait if overlaps else exchange.start) * compute + late
        late += max(over - wait, 0.0)
    return compute + late


def at_once(passes: list[ModulePass]) -> list[ModulePass]:
    return [pass_ for pass_ in passes if pass_.name != "overlap-collectives"]


def worker(name: str, steps: int, overlap: bool, out: Path) -> None:
    """Measures a step in this process of a group; the first process writes the measurements."""
    group = tg.distributed.group()
    training, batch = BUILDS[name]("cpu", group=group, edit_passes=None if overlap else at_once)
    for _ in range(5):
        float(training.step(**batch))
    measured: dict[str, Any] = {"step": [], "exchange": [], "stalled": [], "bytes": 0, "calls": 0}
    for _ in range(steps):
        group.traffic.reset()
        start = time.perf_counter()
        float(training.step(**batch))
        measured["step"].append(time.perf_counter() - start)
        measured["exchange"].append(group.traffic.seconds)
        measured["stalled"].append(group.traffic.stalled)
        measured["bytes"], measured["calls"] = group.traffic.bytes_sent, group.traffic.calls
    with training.profile() as profile:
        for _ in range(5):
            float(training.step(**batch))
    kernels = [dispatch.seconds for dispatch in profile.dispatches]
    exchanges = exchanges_of(training.program, kernels)
    sizes = sorted({*SIZES, *(exchange.bytes for exchange in exchanges)})
    sweep = {count: _all_reduce_seconds(group, count) for count in sizes} if group.size > 1 else {}
    if group.rank == 0:
        record = {key: median(value) if isinstance(value, list) else value for key, value in measured.items()}
        record |= {
            "kernels": sum(kernels),
            "exchanges": [(exchange.bytes, exchange.start, exchange.wait) for exchange in exchanges],
        }
        record |= {"sweep": sweep, "combined": _combined_seconds(group.size)}
        out.write_text(json.dumps(record), encoding="utf-8")


def _all_reduce_seconds(group: tg.distributed.Group, count: int) -> float:
    array, seconds = np.ones(count // 4, np.float32), []
    for _ in range(9):
        group.barrier()
        start = time.perf_counter()
        group.all_reduce(array, out=array)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def _combined_seconds(size: int) -> float:
    """Returns the seconds per byte of a reduction of the parts of all processes."""
    parts, out = np.ones((size, 1 << 17), np.float32), np.empty(1 << 17, np.float32)
    seconds: list[float] = []
    for _ in range(9):
        start = time.perf_counter()
        reduce_in_rank_order(parts, "sum", out)
        seconds.append(time.perf_counter() - start)
    return median(seconds) / parts.nbytes


def launched(name: str, processes: int, threads: int, steps: int, overlap: bool = True) -> dict[str, Any]:
    """Launches processes, and returns the measurements of the first one."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        script = [__file__, "--worker", name, "--steps", str(steps), "--found", str(out)]
        script += [] if overlap else ["--at-once"]
        command = [sys.executable, "-m", "tensorgrad.tools.tg", "launch", "-n", str(processes)]
        command += ["--cores-per-process", str(threads), *script]
        root = str(Path(__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": root, THREADS_VARIABLE: str(threads)}
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
        results: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return results


def report_distributed(rounds: int, out: Path, steps: int = 30) -> dict[str, Any]:
    """Measures all forms of each workload, alternating; prints them with the model, and writes JSON."""
    result: dict[str, Any] = {}
    for name in BUILDS:
        forms = ((1, 2, True), (2, 1, True), (2, 1, False))
        rounds_of_forms = [[launched(name, *form[:2], steps, form[2]) for form in forms] for _ in range(rounds)]
        one, two, plain = zip(*rounds_of_forms, strict=True)
        result[name] = _reported(name, one, two, plain)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2), encoding="utf-8")
    return result


def _reported(
    name: str, ones: Sequence[dict[str, Any]], twos: Sequence[dict[str, Any]], plains: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Prints and returns the measurements of one workload, with the model's predictions."""
    one, two, plain = (median(run["step"] for run in forms) for forms in (ones, twos, plains))
    exchange, stalled, kernels, combined = (
        median(run[key] for run in twos) for key in ("exchange", "stalled", "kernels", "combined")
    )
    sweep = {int(count): median(run["sweep"][count] for run in twos) for count in twos[0]["sweep"]}
    link = fitted(2, {count: seconds for count, seconds in sweep.items() if count in SIZES}, combined)
    exchanges = [Exchanged(*each) for each in twos[0]["exchanges"]]
    predicted = sum(link.all_reduce(2, each.bytes) for each in exchanges)
    alone = sum(sweep[each.bytes] for each in exchanges)
    print(
        f"{name}: one process of 2 threads {one * 1e3:.2f} ms, two of one {two * 1e3:.2f} ms ({one / two:.2f}), ",
        end="",
    )
    print(f"{plain * 1e3:.2f} ms without overlap ({plain / two:.2f})")
    print(f"  {twos[0]['bytes']} bytes sent in {twos[0]['calls']} calls of {exchange * 1e3:.2f} ms; ", end="")
    print(f"the step stands still for {stalled / two:.0%} of its time; kernels take {kernels * 1e3:.2f} ms")
    print(f"  model: {link.latency * 1e6:.1f} us a message, {1e-9 / max(link.byte, 1e-15):.2f} GB/s sent, ", end="")
    print(f"{1e-9 / combined:.2f} GB/s combined; ", end="")
    print(f"for the exchanges {predicted * 1e3:.2f} ms predicted, {alone * 1e3:.2f} ms measured on their own")
    table: dict[str, dict[int, float]] = {}
    for network, (latency, rate) in NETWORKS.items():
        far = Link(latency, 1 / rate, combined)
        table[network] = {size: round(kernels / step_seconds(far, size, kernels, exchanges), 3) for size in WORKERS}
        apart = {size: kernels / step_seconds(far, size, kernels, exchanges, overlaps=False) for size in WORKERS}
        cells = ", ".join(f"{size}: {table[network][size]:.0%} ({apart[size]:.0%})" for size in WORKERS)
        print(f"  extrapolated to {network}, the same batch a process, and without overlap: {cells}")
    return {
        "one process": one,
        "two processes": two,
        "without overlap": plain,
        "exchange": exchange,
        "stalled": stalled,
        "kernels": kernels,
        "predicted": predicted,
        "measured on its own": alone,
        "latency": link.latency,
        "seconds per byte": link.byte,
        "seconds per byte combined": combined,
        "sweep": sweep,
        "extrapolated": table,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--found", type=Path, required=True)
    options = parser.parse_args()
    worker(options.worker, options.steps, not options.at_once, options.found)
