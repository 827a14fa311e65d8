"""`python -m benchmarks.recipes`: the recipes of docs/tutorial/write-a-kernel.md, beside the compiler and PyTorch.

Each product runs as native code on one thread (`--threads`), in turns, so that what else the machine does reaches all
of them. A speed is that of the fastest round. With `--steps`, instead: training steps whose products and attention are
made of the recipes of their schedules, beside those that are made of the schedules, and how long it takes to compile
each.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from benchmarks.workloads import NAMES, workload
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.native_schedules import NativeAttentionSchedule, PackedSchedule
from tensorgrad.dialects.recipe import RecipeAttr
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.driver.storage.program_cache import SWITCH
from tensorgrad.passes.analyses.identity import by_structure
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.codegen.choose import choose
from tensorgrad.passes.codegen.recipes import recipe_of
from tensorgrad.runtime.cpu.device import CpuDevice
from tensorgrad.runtime.cpu.objects import CACHE_VARIABLE
from tensorgrad.tools.bench import executable_of_kernels
from tensorgrad.tools.parsing import parse_module

PAGE = Path(__file__).parent.parent / "docs" / "tutorial" / "write-a-kernel.md"

THREADS = "TG_NUM_THREADS"

REPLACED = (PackedSchedule, NativeAttentionSchedule)
"""The schedules in whose place `--steps` uses their recipes."""


def recipes(page: str) -> list[tuple[str, str, int]]:
    """Returns the name of each section with a recipe that is measured, the recipe, and the extents of the product."""
    chosen: list[tuple[str, str, int]] = []
    for section in page.split("\n## ")[1:]:
        commands = re.findall(r"^sed 's/RECIPE/(.*?)/(?:; s/1024/(\d+)/g)?' ", section, re.MULTILINE)
        if commands and section[0].isdigit():
            recipe, size = commands[-1]
            chosen.append((section.partition("\n")[0], recipe, int(size or 1024)))
    return chosen


def product(recipe: str | None, size: int, page: str) -> Callable[[], float]:
    """Returns a function that runs the page's kernel, and returns the seconds that this took."""
    (text,) = re.findall(r"^// product.mlir\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    text = text.replace("1024", str(size))
    text = text.replace(" recipe = #buf.recipe<RECIPE>", "") if recipe is None else text.replace("RECIPE", recipe)
    executable = executable_of_kernels(parse_module(text, str(PAGE)), CpuDevice())
    draw = np.random.default_rng(0)
    inputs = {name: draw.standard_normal((size, size)).astype(np.float32) for name in ("a", "b")}
    executable.step(inputs, {})

    def run() -> float:
        start = time.perf_counter()
        executable.step(inputs, {})["c"].numpy()
        return time.perf_counter() - start

    return run


def in_pytorch(size: int, threads: int) -> Callable[[], float]:
    """Returns a function that runs PyTorch's product, and returns the seconds that this took."""
    import torch

    torch.set_num_threads(threads)
    draw = np.random.default_rng(0)
    a, b = (torch.from_numpy(draw.standard_normal((size, size)).astype(np.float32)) for _ in range(2))

    def run() -> float:
        start = time.perf_counter()
        torch.matmul(a, b)
        return time.perf_counter() - start

    return run


@contextmanager
def made_of_recipes() -> Iterator[None]:
    """Schedules products and attention by the recipes of their schedules."""
    target, rewrite = CpuDevice().target, SchedulePass.rewrite
    schedule = by_structure(lambda kernel: ScheduleAttr(choose(kernel, target)))

    def changed(self: SchedulePass, ctx: Context, op: ModuleOp) -> None:
        rewrite(self, ctx, op)
        for kernel in op.walk():
            if isinstance(kernel, KernelOp) and kernel.schedule and isinstance(kernel.schedule.data, REPLACED):
                recipe = recipe_of(kernel.schedule.data, kernel)
                kernel.recipe = None if recipe is None else RecipeAttr(recipe)
                kernel.schedule = schedule(kernel)

    with patch.object(SchedulePass, "rewrite", changed):
        yield


def steps(names: Sequence[str], rounds: int) -> Table:
    """Returns a table of training steps, whose programs are compiled anew."""
    table = Table(
        title=f"training steps on {CpuDevice().info.name}, products and attention of recipes over those of schedules"
    )
    for column in ("", "loss", "loss by recipes", "ms", "ms by recipes", "ratio", "s to compile", "s by recipes"):
        table.add_column(column, justify="right" if column else "left")
    os.environ |= {SWITCH: "0", CACHE_VARIABLE: "0"}
    for name in names:
        workload(name)("cpu")  # what is imported once
        built: list[tuple[Callable[[], float], float, float]] = []
        for context in (nullcontext, made_of_recipes):
            with context():
                start = time.perf_counter()
                training, batch = workload(name)("cpu")
                loss = float(training.step(**batch))
                built.append((partial(_seconds, training, batch), loss, time.perf_counter() - start))
        times = [[run() for run, _, _ in built] for _ in range(rounds)]
        usual, other = (1e3 * min(column) for column in zip(*times, strict=True))
        losses, compiling = [f"{loss:.6f}" for _, loss, _ in built], [f"{seconds:.2f}" for _, _, seconds in built]
        table.add_row(name, *losses, f"{usual:.2f}", f"{other:.2f}", f"{other / usual:.2f}", *compiling)
    return table


def _seconds(training: Any, batch: dict[str, Any]) -> float:
    start = time.perf_counter()
    float([training.step(**batch) for _ in range(5)][-1])
    return (time.perf_counter() - start) / 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each recipe."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", nargs="*", choices=NAMES, metavar="WORKLOAD", help="training steps, by default all")
    options = parser.parse_args(arguments)
    if options.steps is not None:
        Console().print(steps(options.steps or NAMES, options.rounds))
        return
    os.environ[THREADS] = str(options.threads)
    page = PAGE.read_text(encoding="utf-8")
    contestants = [(name, size, product(recipe, size, page)) for name, recipe, size in recipes(page)]
    contestants += [("the compiler's schedule", size, product(None, size, page)) for size in (1024, 1000)]
    contestants += [("PyTorch", size, in_pytorch(size, options.threads)) for size in (1024, 1000)]
    times = [[run() for _, _, run in contestants] for _ in range(options.rounds)]
    table = Table(title=f"products on {options.threads} threads of {CpuDevice().info.name}")
    for column in ("", "size", "GFLOP/s"):
        table.add_column(column, justify="right" if column else "left")
    for (name, size, _), seconds in zip(contestants, zip(*times, strict=True), strict=True):
        table.add_row(name, str(size), f"{2 * size**3 / min(seconds) / 1e9:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
