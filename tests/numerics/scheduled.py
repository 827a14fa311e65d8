"""Runs a function on the device with the schedules of a given target, and returns the archetypes of its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from arithmetic import with_subgroups_of
from draws import generator
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.tracing.dtypes import Spec

GPU = Target.named("webgpu-default")
SOFTWARE = Target.named("lavapipe")
NARROW = replace(GPU, name="narrow", max_compute_workgroups_per_dimension=8)
"""A target on which nearly every dispatch has to be folded."""
SHUFFLING = replace(GPU, name="shuffling", subgroups=True, subgroup_size=8)
"""A target whose subgroups are those of the software adapter, scheduled as a GPU."""

RNG = generator(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def on_device(
    device: WebGPUDevice,
    function: Callable[..., Any],
    inputs: list[np.ndarray],
    target: Target,
    change: Callable[[KernelOp], None] | None = None,
) -> tuple[Counter[str], list[np.ndarray], list[np.ndarray]]:
    """Returns the archetypes of a function's kernels, its results on the device, and the reference's.

    `change` may replace the schedule of each kernel.
    """
    target = with_subgroups_of(device, target)
    module: ModuleOp = tg.trace(function, *[Spec(x.shape, x.dtype) for x in inputs])
    expected = TensorExecutor(module).call(inputs)
    archetypes: Counter[str] = Counter()
    for pass_ in inference_passes(target):
        pass_.apply(Context(), module)
        module.verify()
        if pass_.name == "schedule":
            for kernel in module.walk():
                if isinstance(kernel, KernelOp) and kernel.schedule is not None:
                    archetypes[kernel.schedule.data.archetype] += 1
                    if change is not None:
                        change(kernel)
    program = build_program(module, target)
    program = replace(program, target=None)  # any adapter may run it: the limits are the smaller ones
    executable = WebGPUExecutable(program, device, trusted=True)
    names = list(executable.program_inputs)
    outputs = executable.step(dict(zip(names, inputs, strict=True)), {})
    return archetypes, [handle.numpy() for handle in outputs.values()], expected


def check(
    device: WebGPUDevice,
    function: Callable[..., Any],
    inputs: list[np.ndarray],
    target: Target,
    archetype: str,
    tolerance: float = 1e-5,
) -> None:
    archetypes, results, expected = on_device(device, function, inputs, target)
    assert archetypes[archetype] >= 1, archetypes
    assert len(results) == len(expected)
    for result, correct in zip(results, expected, strict=True):
        assert np.isfinite(correct).all()
        scale = max(1.0, float(np.abs(correct).max()))
        np.testing.assert_allclose(result, correct, rtol=tolerance, atol=tolerance * scale)
