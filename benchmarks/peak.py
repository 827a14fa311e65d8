"""`python -m benchmarks.peak`: products as a share of the peak of multiply-adds, which a loop measures beside them.

The loop adds to independent vectors, and reads nothing. Loop and products run in turns, on as many threads as
`TG_NUM_THREADS` says, so that what else the machine does reaches both; a share is the median of the rounds. With
`--cpu-time` speeds are those of the time that the process has run, on average over the threads: on a shared machine.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

import tensorgrad as tg
from benchmarks.workloads.smollm2 import HEADS, HIDDEN, KV_HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH
from benchmarks.workloads.smollm2 import build as build_smollm2
from tensorgrad.runtime.cpu.code import NativeCode, host_cpu
from tensorgrad.runtime.cpu.threads import thread_count

SIZES = (512, 1024, 2048)
SUMS = 12
"""The independent sums of the loop: two a cycle, each of which takes four to five cycles, need ten."""

ITERATIONS = 4_000_000

LEAST_FLOPS = 1 << 33
"""The operations between two readings of the clock."""

Run: TypeAlias = Callable[[], float]
"""Does some work, and returns how many floating-point operations it took."""

MACS = WIDTH * (WIDTH + 2 * WIDTH * KV_HEADS // HEADS) + WIDTH * WIDTH + 3 * WIDTH * HIDDEN
"""The multiplications of a token in a layer's products with weights."""


def loop(lanes: int) -> str:
    """Returns a function that multiplies and adds vectors, as LLVM IR."""
    kind = f"<{lanes} x float>"
    entry = [f"%x{i} = phi {kind} [zeroinitializer, %start], [%y{i}, %body]" for i in range(SUMS)]
    steps = [f"%y{i} = call {kind} @llvm.fma({kind} %x{i}, {kind} %factor, {kind} %factor)" for i in range(SUMS)]
    sums = [f"%s{i} = fadd {kind} {f'%s{i - 1}' if i else 'zeroinitializer'}, %y{i}" for i in range(SUMS)]
    body = [*entry, "%i = phi i64 [0, %start], [%next, %body]", *steps, "%next = add i64 %i, 1"]
    lines = [
        f"declare {kind} @llvm.fma({kind}, {kind}, {kind})",
        "define void @loop(ptr %out, i64 %count) {",
        f"start:\n  %factor = load {kind}, ptr %out, align 4\n  br label %body",
        "body:",
        *body,
        "%more = icmp ult i64 %next, %count\n  br i1 %more, label %body, label %end",
        "end:",
        *sums,
        f"store {kind} %s{SUMS - 1}, ptr %out, align 4\n  ret void\n}}",
    ]
    return "\n".join(lines)


def measured_peak(threads: int) -> Run:
    """Returns a function that runs the loop on some threads."""
    lanes = host_cpu().vector_bytes // 4
    code, pool = NativeCode(loop(lanes)), ThreadPoolExecutor(threads)
    memory = [np.full(lanes, 1e-3, np.float32) for _ in range(threads)]

    def run() -> float:
        function = code.function("loop", ctypes.c_void_p, ctypes.c_int64)
        list(pool.map(lambda array: function(array.ctypes.data, ITERATIONS), memory))
        return 2 * lanes * SUMS * ITERATIONS * threads

    return run


def product(size: int) -> Run:
    """Returns a function that multiplies two matrices."""
    draw = np.random.default_rng(0)
    a, b = (tg.tensor(draw.standard_normal((size, size)), "f32", device="cpu") for _ in range(2))
    multiply, count = tg.jit(lambda a, b: a @ b, device="cpu"), -(-LEAST_FLOPS // (2 * size**3))

    def run() -> float:
        for _ in range(count):
            multiply(a, b)
        return 2 * size**3 * count

    return run


def smollm2() -> Run:
    """Returns a function that takes a training step, and returns the operations of its products."""
    training, batch = build_smollm2("cpu")
    attention = LAYERS * 2 * LENGTH * LENGTH * WIDTH
    flops = 2 * 3 * (LENGTH * (LAYERS * MACS + WIDTH * VOCABULARY) + attention)

    def run() -> float:
        float(training.step(**batch))
        return flops

    return run


def speed(run: Run, clock: Callable[[], float]) -> float:
    """Returns the operations in a second of a run."""
    start = clock()
    return run() / (clock() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--smollm2", action="store_true", help="a training step of SmolLM2-135M too, which takes 3 GB")
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    threads = thread_count()
    clock = (lambda: time.process_time() / threads) if options.cpu_time else time.perf_counter
    peak = measured_peak(threads)
    contestants = {f"product of {size}": product(size) for size in SIZES}
    if options.smollm2:
        contestants["training step of SmolLM2-135M"] = smollm2()
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    shares: dict[str, list[float]] = {name: [] for name in contestants}
    peaks: list[float] = []
    for turn in range(options.rounds + 1):
        for name, run in contestants.items():
            before, reached, after = (speed(each, clock) for each in (peak, run, peak))
            if turn:  # the first round warms up
                peaks += [before, after]
                speeds[name].append(reached)
                shares[name].append(2 * reached / (before + after))
    table = Table(title=f"{threads} threads, peak {statistics.median(peaks) / 1e9:.0f} GFLOP/s")
    for column in ("", "GFLOP/s", "share of the peak"):
        table.add_column(column)
    for name in contestants:
        median, share = statistics.median(speeds[name]), statistics.median(shares[name])
        table.add_row(name, f"{median / 1e9:.0f}", f"{share:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
