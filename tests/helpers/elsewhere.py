"""Compiles and runs StableHLO with XLA, through jaxlib, and with IREE; only nightly tests have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

Run: TypeAlias = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def by_xla(text: str) -> Run:
    """Returns the function `main` of a text as XLA compiles it for the CPU; its parser and verifier judge the text."""
    jax, mlir = import_module("jax"), import_module("jax._src.interpreters.mlir")
    ir, client = import_module("jax._src.lib.mlir").ir, import_module("jax._src.lib").xla_client
    devices = jax.devices("cpu")[:1]
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        executable = devices[0].client.compile_and_load(
            str(module), client.DeviceList(tuple(devices)), client.CompileOptions()
        )

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)  # otherwise 64-bit inputs are cut
        try:
            results = executable.execute_sharded([jax.device_put(value, devices[0]) for value in inputs])
        finally:
            jax.config.update("jax_enable_x64", before)
        return [np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]

    return run


def by_iree(text: str) -> Run:
    """Returns the function `main` of a text as IREE compiles it for the CPU."""
    compiler, runtime = import_module("iree.compiler"), import_module("iree.runtime")
    options: dict[str, Any] = {"target_backends": ["llvm-cpu"], "input_type": "stablehlo"}
    program = compiler.compile_str(text, extra_args=["--iree-llvmcpu-target-cpu=host"], **options)
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, program))
    main = context.modules.module["main"]

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = main(*inputs)
        return [np.asarray(result) for result in (results if isinstance(results, tuple | list) else (results,))]

    return run
