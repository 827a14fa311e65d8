"""Every case and its gradient alone on a WebGPU device, compared with numpy.

For every change, test_families does so in programs of several cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tint
from case import Case
from cases import CASES, ON_DEVICE
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import GRADIENT, Names, NumpyArray, apply, assert_same, reference, traced
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from tensorgrad.transforms.grad import value_and_grad


def on_device(device: WebGPUDevice, module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Returns the results of a `tg` module, in order; Tint validates its kernels in standard WGSL too.

    Integers of 64 bits are none of the standard's.
    """
    target, names = device.target, Names(module)
    for one in inference_passes(target):
        apply(one, module)
    program = build_program(module, target)
    if program.target is not None and not program.target.int64:
        tint.check(build_program(module, replace(target, shader_dialect="standard")))
    executable = WebGPUExecutable(program, device)
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    return [outputs[key.removeprefix("output/")].numpy() for key in names.results]


def test_most_cases_run_on_devices() -> None:
    assert len(ON_DEVICE) > 0.8 * len(CASES)


@pytest.mark.nightly
@pytest.mark.parametrize("case", ON_DEVICE, ids=lambda case: case.id)
def test_value(device: WebGPUDevice, case: Case) -> None:
    result = on_device(device, traced(case.function, case.inputs), case.inputs)[0]
    expected = case.value()
    assert result.dtype == expected.dtype
    assert_same(result, expected, case.tolerance, "device")


@pytest.mark.nightly
@pytest.mark.parametrize("case", [case for case in ON_DEVICE if case.derivative], ids=lambda case: case.id)
def test_gradient(device: WebGPUDevice, case: Case) -> None:
    inputs = [np.asarray(x, np.float32) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
    wrt = float_positions(inputs)
    function = value_and_grad(mid_graph(case.function), argnums=tuple(wrt))
    wide = in_f64(inputs)
    expected = reference(traced(function, wide), wide)
    results = on_device(device, traced(function, inputs), inputs)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == np.float32
        assert result.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(result, wanted, rtol=0, atol=GRADIENT * scale)
