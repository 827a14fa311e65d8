"""The workloads in IREE on the CPU: JAX's step as StableHLO; its state stays on the device."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import iree.compiler
import iree.runtime
import jax
import numpy as np

from benchmarks.harness import Contestant
from benchmarks.peers.jax_peer import first_state, step_function

FLAGS = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]


def contestant(name: str, parameters: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Contestant:
    """Returns a workload in IREE."""
    advanced = step_function(name)
    values, structure = jax.tree.flatten((first_state(parameters), dict(batch)))
    count = len(jax.tree.leaves(first_state(parameters)))

    def flat(*leaves: Any) -> Any:
        loss, state = advanced(*jax.tree.unflatten(structure, leaves))
        return (loss, *jax.tree.leaves(state))

    text = jax.jit(flat).lower(*values).as_text()
    start = time.perf_counter()
    code = iree.compiler.compile_str(text, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=FLAGS)
    seconds = time.perf_counter() - start
    config = iree.runtime.Config("local-task")
    module = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, code), config)
    arrays = [iree.runtime.asdevicearray(config.device, np.asarray(value)) for value in values]
    state, inputs = arrays[:count], arrays[count:]

    def step() -> float:
        nonlocal state
        loss, *state = module.main(*state, *inputs)
        return float(loss.to_host())

    return Contestant("IREE llvm-cpu", step, {"compile_seconds": seconds})
