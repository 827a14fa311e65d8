"""`python -m benchmarks WHAT`: times training steps and kernels in tensorgrad and in peers, in one run.

`mlp`, `gpt`, `sine`, `addition` and `convnet` are training steps. `kernels` times single kernels; `counts` reports the
cost of the steps without running them; `scaling` shows how costs grow with the model; `cold` times first steps in new
processes with drivers' caches disabled; `driver` times pipeline creation and command encoding; `small` compares a step
of many small parameters on numpy with handwritten NumPy; `initialization` compares the sampling of parameters with
PyTorch; `blame` times the search for a planted NaN; `pages` compares steps in a browser and in Python on the same
software adapter; `eager` compares an eager training step with the compiled one and with PyTorch's; `distributed`
compares a step of two processes with that of one; `attention` compares tiled native attention with composed attention;
`calls` times calls of compiled functions by how parameters are passed and how many there are; `edits` times first
losses after an edit of a program, with the caches of the run before; `imported` compares training steps of PyTorch
modules that `tg.from_torch` imported with PyTorch's own; `inference` compares calls of ResNet-18, MobileNetV3, ViT and
U-Net, and of single convolutions, with PyTorch and ONNX Runtime (`pip install -e '.[bench,models,test]'`);
`generation` compares texts that GPT-2 and SmolLM2 generate with transformers'.
`precision` compares steps on the CPU by precision, with PyTorch's autocast. `device_times` times kernels by the
adapter's own clock, beside PyTorch's on a CUDA device.
`all` runs all of these.

`smollm2`, which `all` omits, is a training step of 135 million parameters, by default on the CPU; it takes 6 GB and
several minutes. It first measures the time and memory of first steps of tensorgrad and its peers, in new processes.
`quantized`, which `all` omits too, trains adapters of that model over weights of f32, int8 and NF4.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from benchmarks import (
    attention,
    blame,
    calls,
    cold,
    counts,
    device_times,
    distributed,
    driver,
    eager,
    edits,
    initialization,
    kernels,
    pages,
    quantized,
    scaling,
    small,
)
from benchmarks.harness import Contestant, Timing, measure, report
from benchmarks.peers import peers
from benchmarks.workloads import LARGE, NAMES, gpt, workload
from tensorgrad import DeviceName
from tensorgrad.driver.storage.program_cache import SWITCH

OTHERS = (
    "kernels",
    "counts",
    "scaling",
    "cold",
    "driver",
    "small",
    "initialization",
    "blame",
    "pages",
    "eager",
    "distributed",
    "attention",
    "calls",
    "edits",
    "imported",
    "inference",
    "generation",
    "precision",
    "device_times",
)
"""The benchmarks other than training steps."""

COUNTED = ("dispatches", "submits", "copies", "kernels", "peak_bytes", "bytes_moved", "compile_seconds")


def ours(name: str, device: str, tune: float, chosen: list[str]) -> list[Contestant]:
    """Returns a workload in tensorgrad, on each requested device, and in its peers."""
    trainings = [
        (where, *workload(name)(where, tune=tune if where != "numpy" else False)) for where in _devices(device)
    ]
    weights = trainings[0][1].parameters()
    contestants: list[Contestant] = []
    for where, training, batch in trainings:
        training.load_parameters(weights)
        stats = training.stats()
        counted = {key: stats[key] for key in COUNTED if key in stats}
        contestants.append(Contestant(f"tensorgrad {where}", lambda t=training, b=batch: float(t.step(**b)), counted))
    return [*contestants, *peers(name, weights, trainings[0][2], adapter=device not in ("cpu", "numpy"), chosen=chosen)]


def _devices(device: str) -> list[DeviceName]:
    return ["wgpu", "cpu", "numpy"] if device == "all" else [cast(DeviceName, device)]


def _clock(options: argparse.Namespace) -> Callable[[], float]:
    return time.process_time if options.cpu_time else time.perf_counter


def run_workload(name: str, options: argparse.Namespace) -> list[Timing]:
    """Times and reports a training step; for large workloads, first the time and memory of first steps."""
    if name in LARGE:
        options.device = "cpu" if options.device == "all" else options.device
        options.peers = options.peers or ["torch"]
        rounds, out = min(options.rounds, 3), options.out / f"{name} cold.json"
        cold.report(options.device, rounds, out, [name], options.peers)
    contestants = ours(name, options.device, options.tune, options.peers)
    timings = measure(contestants, options.rounds, options.seconds, _clock(options))
    report(name, timings, timings[0].name, options.out / f"{name}.json")
    return timings


def run_kernels(options: argparse.Namespace) -> None:
    """Times and reports single kernels."""
    device = "wgpu" if options.device == "all" else options.device
    for name, kernel in kernels.KERNELS.items():
        contestants = kernels.contestants(name, device, options.peers or kernels.PEERS)
        timings = measure(contestants, options.rounds, options.seconds / 4, _clock(options))
        for timing in timings:
            timing.counts = {**timing.counts, **kernels.rate(kernel, timing.median)}
        report(name, timings, timings[0].name, options.out / f"kernel {name}.json")


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmarks that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*NAMES, *LARGE, *OTHERS, "quantized", "all"])
    parser.add_argument("--device", default="all", help="wgpu, cpu, numpy, auto, or all (default)")
    parser.add_argument("--rounds", type=int, default=10, help="blocks of steps of each contestant")
    parser.add_argument("--seconds", type=float, default=60.0, help="after so long there are no more rounds")
    parser.add_argument("--cpu-time", action="store_true", help="steps, kernels and calls: CPU time of the process")
    parser.add_argument("--peers", nargs="*", default=[], help="who else runs: torch, jax, iree, ... (default: all)")
    parser.add_argument("--tune", type=float, default=0.0, help="measure schedules first, for at most so many seconds")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"), help="where JSON and pictures go")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds <= 0 or options.tune < 0:
        parser.error("--rounds must be at least 1, --seconds positive and --tune no negative number")
    os.environ[SWITCH] = "0"  # Compile times are measured, so programs must not come from the cache.
    reports = [*NAMES, *OTHERS] if options.what == "all" else [options.what]
    timed: dict[str, list[Timing]] = {}
    for what in reports:
        if what == "counts":
            counts.report(out=options.out / "counts.json")
        elif what == "kernels":
            run_kernels(options)
        elif what == "device_times":
            device_times.report_device_times(options.rounds, options.out / "device_times.json")
        elif what == "initialization":
            initialization.report(options.rounds, options.out / "initialization.json")
        elif what == "blame":
            blame.report("cpu" if options.device == "all" else options.device, gpt.WIDTH, options.out / "blame.json")
        elif what == "edits":
            device = "cpu" if options.device == "all" else options.device
            edits.report(device, min(options.rounds, 3), options.out / "edits.json")
        elif what == "imported":
            from benchmarks import imported

            device = cast(DeviceName, "cpu" if options.device == "all" else options.device)
            imported.report_imported(device, options.rounds, options.seconds / 4, options.out, _clock(options))
        elif what == "inference":
            from benchmarks import inference

            device = cast(DeviceName, "cpu" if options.device == "all" else options.device)
            inference.report_inference(device, options.rounds, options.seconds / 4, options.out, _clock(options))
        elif what == "generation":
            from benchmarks import generation

            device = cast(DeviceName, "cpu" if options.device == "all" else options.device)
            generation.report_generation(device, options.rounds, options.seconds / 4, options.out, _clock(options))
        elif what == "precision":
            from benchmarks import precision

            precision.report_precision(min(options.rounds, 5), options.seconds, options.out)
        elif what == "quantized":
            device = cast(DeviceName, "cpu" if options.device == "all" else options.device)
            quantized.report_quantized(device, min(options.rounds, 3), options.seconds, options.out)
        elif what == "calls":
            device = cast(DeviceName, "cpu" if options.device == "all" else options.device)
            calls.report(device, options.rounds, options.out / "calls.json")
        elif what == "small":
            small.report(10 * options.rounds, options.out / "small.json")
        elif what == "eager":
            device = cast(DeviceName, "cpu" if options.device == "all" else options.device)
            eager.report_eager(device, options.rounds, options.seconds, options.out)
        elif what == "distributed":
            distributed.report_distributed(min(options.rounds, 3), options.out / "distributed.json")
        elif what == "attention":
            attention.report_attention(options.rounds, options.seconds, options.out)
        elif what == "pages":
            pages.report_pages(options.rounds, options.seconds, options.out)
        elif what in ("scaling", "cold", "driver"):
            device, out = "wgpu" if options.device == "all" else options.device, options.out / f"{what}.json"
            if what == "scaling":
                scaling.report(device, out)
            elif what == "cold":
                cold.report(device, min(options.rounds, 3), out)
            else:
                driver.report(out)
        else:
            timed[what] = run_workload(what, options)
    if timed:
        from benchmarks.picture import draw

        draw(timed, options.out / f"{options.what}.png")


if __name__ == "__main__":
    main()
