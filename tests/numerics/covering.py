"""Chooses the cases that take every branch of the compiler on the way to a device, and writes `covering.txt`.

    .venv/bin/python -m pip install coverage
    .venv/bin/python tests/numerics/covering.py

Of two thousand cases a hundred take every branch of `passes` that any of them takes, for native code and for WGSL. Run
it when there are new cases or passes, which takes a quarter of an hour; until then what is new runs on devices in
`make nightly` only, but for the first case of each op.
"""

from __future__ import annotations

import heapq
import importlib
import time
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from cases import CASES, COVERING_FILE, fits_devices
from harness import specs
from xdsl.context import Context

from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.cpu import CpuDevice
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tracer import trace

Taken: TypeAlias = Mapping[str, tuple[float, set[Hashable]]]
"""For each case, by id, the seconds of its compilation and the branches that it takes."""

PASSES = Path(__file__).parents[2] / "passes"

LEAST = 0.02
"""Seconds that are added to the time of each case, for all that is not measured."""


def branches(target: Target, measure: Any) -> Taken:
    """Returns the branches that each case takes on the way to a target; `measure` is a `coverage.Coverage`."""
    taken: dict[str, tuple[float, set[Hashable]]] = {}
    for case in CASES:
        if not target.native and not fits_devices(case):
            continue
        module = trace(case.function, *specs(case.inputs))
        measure.erase()
        measure.start()
        start = time.process_time()
        for pass_ in inference_passes(target):
            pass_.apply(Context(), module)
        build_program(module, target)
        seconds = time.process_time() - start
        measure.stop()
        data = measure.get_data()
        arcs: set[Hashable] = {(target.native, file, *arc) for file in data.measured_files() for arc in data.arcs(file)}
        taken[case.id] = (seconds, arcs)
    return taken


def joined(parts: Iterable[Taken]) -> Taken:
    """Returns the seconds and branches of each case for all devices together."""
    whole: dict[str, tuple[float, set[Hashable]]] = {}
    for part in parts:
        for name, (seconds, arcs) in part.items():
            before, others = whole.get(name, (0.0, set()))
            whole[name] = (before + seconds, others | arcs)
    return whole


def cover(taken: Taken) -> list[str]:
    """Returns cases that take all branches together: again and again the one with the most new ones for its time."""
    left: set[Hashable] = set().union(*(arcs for _, arcs in taken.values()))
    queue = [(-len(arcs) / (seconds + LEAST), name) for name, (seconds, arcs) in taken.items()]
    heapq.heapify(queue)
    chosen: list[str] = []
    while left:
        _, name = heapq.heappop(queue)
        seconds, arcs = taken[name]
        worth = len(arcs & left) / (seconds + LEAST)
        if queue and worth < -queue[0][0]:
            heapq.heappush(queue, (-worth, name))
        else:
            chosen.append(name)
            left -= arcs
    return chosen


def main() -> None:
    measure = importlib.import_module("coverage").Coverage(
        data_file=None, branch=True, config_file=False, include=[f"{PASSES}/*"]
    )
    taken = joined(branches(device.target, measure) for device in (CpuDevice(), WebGPUDevice()))
    COVERING_FILE.write_text("\n".join(sorted(cover(taken))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
