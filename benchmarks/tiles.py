"""`python -m benchmarks.tiles`: what it takes to write the kernels of a training step as tiles, beside writing shaders.

Both passes run on the same scheduled kernels, in CPU time of this process; `tile` only on kernels that differ by more
than names, as shaders are written once for those too. Nothing runs, so it needs no device.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from benchmarks.workloads import LARGE, NAMES, workload
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.analyses.identity import kernel_structure
from tensorgrad.passes.codegen.tile import TilePass
from tensorgrad.passes.codegen.wgsl.lower_buf_to_wgsl import LowerBufToWgslPass
from tensorgrad.passes.levels import LevelPass
from tensorgrad.runtime.target import Target
from tensorgrad.surface.collector import without_collector
from tensorgrad.tools.parsing import parse_module


def measured(name: str, target: Target) -> tuple[int, int, float, float]:
    """Returns the number of a workload's kernels, of different ones, and the CPU seconds of both passes."""
    module = parse_module(workload(name)("numpy")[0].module("buf"), name)
    once, structures = module.clone(), set[object]()
    kernels = [op for op in once.walk() if isinstance(op, KernelOp)]
    for kernel in kernels:
        structure = kernel_structure(kernel), kernel.schedule
        if structure in structures:
            kernel.detach()
        structures.add(structure)
    lowering = LowerBufToWgslPass(target)
    return len(kernels), len(structures), _seconds(TilePass(), once), _seconds(lowering, module)


@without_collector()
def _seconds(pass_: LevelPass, module: ModuleOp) -> float:
    start = time.process_time()
    pass_.rewrite(Context(), module)
    return time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each workload that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiles", description=__doc__)
    parser.add_argument("--names", nargs="+", choices=[*NAMES, *LARGE], default=[*NAMES])
    parser.add_argument("--target", default="webgpu-default", help="a profile, a file or JSON")
    options = parser.parse_args(arguments)
    table = Table(title="CPU seconds")
    for column in ("", "kernels", "different ones", "tile", "lower-buf-to-wgsl"):
        table.add_column(column, justify="right" if column else "left")
    for name in options.names:
        kernels, different, tiling, lowering = measured(name, Target.from_spec(options.target))
        table.add_row(name, str(kernels), str(different), f"{tiling:.2f}", f"{lowering:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
