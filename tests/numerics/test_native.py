"""Every case and its gradient as native code, against numpy: f16 and f64 too, which only the CPU computes in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from case import Case
from cases import CASES, SMOOTH
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import GRADIENT, TOLERANCE, Names, NumpyArray, apply, assert_same, reference, traced
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.passes.kernels.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.transforms.grad import value_and_grad


def native(module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """The results of a module of `tg` as native code, in order."""
    device, names = CpuDevice(), Names(module)
    for one in inference_passes(device.target):
        apply(one, module)
    executable = CpuExecutable(build_program(module, device.target), device)
    outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
    return [outputs[key.removeprefix("output/")].numpy() for key in names.results]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_value(case: Case) -> None:
    result = native(traced(case.function, case.inputs), case.inputs)[0]
    expected = case.value()
    assert result.dtype == expected.dtype
    assert_same(result, expected, case.rtol and max(case.rtol, TOLERANCE.get(case.op, 0.0)), "native code")


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.id)
def test_gradient(case: Case) -> None:
    """In f32 every other case, as it is trained; in f64 the others, in which a difference is one of meaning."""
    width, bound = ((np.float64, 1e-9), (np.float32, GRADIENT))[SMOOTH.index(case) % 2]
    inputs = [np.asarray(x, width) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
    both = value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs)))
    wide = in_f64(inputs)
    expected = reference(traced(both, wide), wide)
    results = native(traced(both, inputs), inputs)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == width
        assert result.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(result, wanted, rtol=0, atol=bound * scale)
