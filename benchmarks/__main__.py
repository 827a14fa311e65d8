"""`python -m benchmarks WORKLOAD`: times a workload here and in its peers, in one run; `counts` counts all of them."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks import counts
from benchmarks.harness import measure, report

WORKLOADS = {"mlp": "benchmarks.mlp"}


def main() -> None:
    """Runs one workload."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workload", choices=[*sorted(WORKLOADS), "counts"])
    parser.add_argument("--device", default="all", help="wgpu, numpy, auto, or all (default: wgpu and numpy)")
    parser.add_argument("--rounds", type=int, default=10, help="blocks of steps of each contestant")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"), help="where the JSON goes")
    options = parser.parse_args()
    if options.workload == "counts":
        counts.report(out=options.out / "counts.json")
        return
    module = importlib.import_module(WORKLOADS[options.workload])
    timings = measure(module.contestants(options.device), options.rounds)
    report(options.workload, timings, timings[0].name, options.out / f"{options.workload}.json")


if __name__ == "__main__":
    main()
