"""Judges random programs, and prints what became of them.

Ends with status 1 if one is wrong or fails, or if few could be compared.

    python tests/fuzz/run.py torch --count 1000 --on cpu,wgpu,onnx,onnxruntime,stablehlo,xla
    python tests/fuzz/run.py nnsmith --count 1000 --on numpy,cpu
    python tests/fuzz/run.py jax --count 100000 --minutes 30 --jobs 4 --on numpy,cpu,wgpu
    python tests/fuzz/run.py trainings --count 1000 --on numpy,cpu,wgpu

Each program is judged on one device or file format, in turns, and in another process: one that ends it, or doesn't
end, has failed, and the rest are judged in a new one. NNSmith's solver can't share a process with Mesa's driver, which
has a z3 of its own, so its programs don't run on `wgpu`.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

GENERATORS = {
    "jax": ("jax_programs", "jax_judging"),
    "nnsmith": ("nnsmith_programs", "judging"),
    "torch": ("torch_programs", "judging"),
    "trainings": ("training_programs", "training_judging"),
}
"""The modules that write and judge the programs of each kind."""

LEAST_RIGHT = 0.5
"""The fraction of programs that have to be right: a run that compares little says little."""

LIMIT = 300.0
"""The seconds after which a program has failed: one of the slowest takes 20."""

EVERY = 500
"""How many programs are judged between two totals."""


class Outcome(NamedTuple):
    """What became of a program.

    Attributes:
        kind: That of its verdict.
        reason: That of its verdict.
        text: The program in words.
    """

    kind: str
    reason: str
    text: str


class Judge:
    """A process that judges programs, one after the other.

    Attributes:
        generator: The kind of the programs.
        limit: The seconds that one may take.
        process: The process.
    """

    def __init__(self, generator: str, limit: float = LIMIT):
        self.generator, self.limit = generator, limit
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self.process = context.Process(target=_judge_all, args=(other, self.generator), daemon=True)
        self.process.start()
        other.close()

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self._connection.close()

    def judged(self, seed: int, place: str) -> Outcome:
        """Returns what becomes of the program of a seed on a device or file format."""
        text = ""
        try:
            self._connection.send((seed, place))
            text = self._connection.recv()
            if self._connection.poll(self.limit):
                kind, reason = self._connection.recv()
                return Outcome(kind, reason, text)
            reason = f"it didn't end in {self.limit:.0f} seconds"
        except (EOFError, OSError):
            self.process.join()
            reason = f"it ended the process, with status {self.process.exitcode}"
        self.close()
        self._start()
        return Outcome("failed", reason, text)


def _judge_all(connection: Connection, generator: str) -> None:
    """Judges the programs of the seeds that are received."""
    sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("fuzz", "importers", "helpers")]
    programs, judge = map(importlib.import_module, GENERATORS[generator])
    while True:
        seed, place = connection.recv()
        subject = programs.program(seed)
        connection.send(subject.text)
        verdict = judge.judged(subject, seed, place)
        connection.send((verdict.kind, verdict.reason))


def outcomes(
    generator: str, seeds: range, places: list[str], jobs: int, minutes: float
) -> Iterator[tuple[int, Outcome]]:
    """Yields the seed and the outcome of each program, in their order; each job is a process that judges."""
    start, idle = time.monotonic(), SimpleQueue[Judge]()
    judges = [Judge(generator) for _ in range(jobs)]
    for judge in judges:
        idle.put(judge)

    def judged(seed: int) -> Outcome | None:
        if time.monotonic() - start > 60 * minutes:
            return None
        judge = idle.get()
        try:
            return judge.judged(seed, places[seed % len(places)])
        finally:
            idle.put(judge)

    with ThreadPoolExecutor(jobs) as pool:
        for seed, outcome in zip(seeds, pool.map(judged, seeds), strict=True):
            if outcome is None:
                break
            yield seed, outcome
    for judge in judges:
        judge.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", choices=tuple(GENERATORS))
    parser.add_argument("--first", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no program begins later than that")
    parser.add_argument("--jobs", type=int, default=1, help="how many are judged at a time")
    parser.add_argument("--on", default="numpy,cpu", help="devices and file formats, comma-separated")
    options = parser.parse_args()
    places = options.on.split(",")
    if options.generator == "nnsmith" and "wgpu" in places:
        parser.error("programs by nnsmith don't run on wgpu")
    kinds, reasons, start = Counter[str](), Counter[str](), time.monotonic()

    def total() -> str:
        return f"{kinds.total()} programs in {(time.monotonic() - start) / 60:.1f} minutes: {dict(kinds)}"

    seeds = range(options.first, options.first + options.count)
    for seed, outcome in outcomes(options.generator, seeds, places, options.jobs, options.minutes):
        kinds[outcome.kind] += 1
        if outcome.kind in ("discarded", "refused"):
            reasons[f"{outcome.kind}: {outcome.reason}"] += 1
        elif outcome.kind != "right":
            place = places[seed % len(places)]
            print(f"{seed} on {place}: {outcome.kind}: {outcome.reason}\n{outcome.text}", flush=True)
        if kinds.total() % EVERY == 0:
            print(total(), flush=True)
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason[:200]}")
    print(total())
    sys.exit(bool(kinds["wrong"] or kinds["failed"]) or kinds["right"] < LEAST_RIGHT * kinds.total())


if __name__ == "__main__":
    main()
