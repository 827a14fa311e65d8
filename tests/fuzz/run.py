"""Judges random programs, and prints what became of them.

Ends with status 1 if one is wrong or fails, or if few could be compared.

    python tests/fuzz/run.py torch --count 1000 --on cpu,wgpu,onnx,onnxruntime,stablehlo,xla
    python tests/fuzz/run.py nnsmith --count 1000 --on numpy,cpu
    python tests/fuzz/run.py jax --count 100000 --minutes 30 --on numpy,cpu,wgpu

Each program is judged on one device or file format, in turns. NNSmith's solver can't share a process with Mesa's
driver, which has a z3 of its own, so its programs don't run on `wgpu`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("importers", "helpers")]

GENERATORS = {
    "jax": ("jax_programs", "jax_judging"),
    "nnsmith": ("nnsmith_programs", "judging"),
    "torch": ("torch_programs", "judging"),
}
"""The modules that write and judge the programs of each kind."""

LEAST_RIGHT = 0.5
"""The fraction of programs that have to be right: a run that compares little says little."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", choices=tuple(GENERATORS))
    parser.add_argument("--first", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no program begins later than that")
    parser.add_argument("--on", default="numpy,cpu", help="devices and file formats, comma-separated")
    options = parser.parse_args()
    places = options.on.split(",")
    if options.generator == "nnsmith" and "wgpu" in places:
        parser.error("programs by nnsmith don't run on wgpu")
    generator, judge = map(importlib.import_module, GENERATORS[options.generator])
    kinds, reasons, start = Counter[str](), Counter[str](), time.monotonic()
    for seed in range(options.first, options.first + options.count):
        if time.monotonic() - start > 60 * options.minutes:
            break
        subject, place = generator.program(seed), places[seed % len(places)]
        verdict = judge.judged(subject, seed, place)
        kinds[verdict.kind] += 1
        if verdict.kind in ("discarded", "refused"):
            reasons[f"{verdict.kind}: {verdict.reason}"] += 1
        elif verdict.kind != "right":
            print(f"{seed} on {place}: {verdict.kind}: {verdict.reason}\n{subject.text}", flush=True)
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason[:200]}")
    print(f"{kinds.total()} programs in {(time.monotonic() - start) / 60:.1f} minutes: {dict(kinds)}")
    sys.exit(bool(kinds["wrong"] or kinds["failed"]) or kinds["right"] < LEAST_RIGHT * kinds.total())


if __name__ == "__main__":
    main()
