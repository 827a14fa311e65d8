"""Proves the kernels of all cases of the op table and of the workloads, and prints what is proved.

    PYTHONPATH=. .venv/bin/python tests/numerics/emitted.py [--sample] [--reasons] [NAME ...]

With names, only the kernels of those workloads.

It loads z3, so it must not run in a process that has opened an adapter: Mesa's driver loads another one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from case import Case
from cases import CASES, covering, fits_devices
from harness import specs
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from benchmarks.workloads import NAMES, workload
from tensorgrad.checks.proving.kernels import Proved, prove_module
from tensorgrad.checks.proving.report import reasons, totals
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target
from tensorgrad.tracing.tracer import trace

TARGETS = (WEBGPU_DEFAULT, CPU)


def lowered(module: ModuleOp, passes: Iterable[ModulePass]) -> ModuleOp:
    """Runs passes until a module has the kernels that are proved: of `wgsl` or of `cpu`."""
    for pass_ in passes:
        if pass_.name == "convert-to-llvm":
            break
        pass_.apply(Context(), module)
    return module


def kernels_of(case: Case, target: Target) -> ModuleOp:
    """Returns the kernels of a case."""
    return lowered(trace(case.function, *specs(case.inputs)), inference_passes(target))


def kernels_of_workload(name: str, target: Target) -> ModuleOp:
    """Returns the kernels of the training step of a workload."""
    compilation = workload(name)("numpy")[0]._compilation
    return lowered(compilation.recipe.traced.clone(), passes_to_kernels(compilation.recipe, compilation.choice, target))


def fitting(cases: Sequence[Case], target: Target) -> list[Case]:
    """Returns the cases that a target can run."""
    return [case for case in cases if target.native or fits_devices(case)]


def programs(cases: Sequence[Case], names: Sequence[str]) -> Iterator[tuple[str, ModuleOp]]:
    """Yields the kernels of cases and workloads, for each target."""
    for target in TARGETS:
        for case in fitting(cases, target):
            yield f"{case.id} on {target.name}", kernels_of(case, target)
        for name in names:
            yield f"{name} on {target.name}", kernels_of_workload(name, target)


def main(arguments: Sequence[str]) -> None:
    """Prints the totals; with `--reasons`, why each property that is not proved is open."""
    cases, workloads = (covering(), ()) if "--sample" in arguments else (CASES, NAMES)
    named = [argument for argument in arguments if not argument.startswith("--")]
    proofs: list[Proved] = []
    seconds = 0.0
    for name, module in programs(() if named else cases, named or workloads):
        start = time.process_time()
        some = prove_module(module)
        seconds += time.process_time() - start
        proofs += some
        if "--reasons" in arguments:
            for line in reasons(some):
                print(f"{name}: {line}", flush=True)
    print(totals(proofs))
    print(f"\n{len(proofs)} kernels, {1000 * seconds / len(proofs):.1f} ms of CPU time each")


if __name__ == "__main__":
    main(sys.argv[1:])
