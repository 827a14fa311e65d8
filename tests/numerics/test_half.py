"""The float cases in f16 and bf16: each element's error is little more than that of rounding the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from case import Case
from case_programs import on_device
from cases import CASES, chosen, spread
from halves import BF16, F16, HALVES, IN_BF16, NOT_HALF, Half, halved, has_single
from harness import BUFFER_PASSES, NumpyArray, apply, as_native_code, levels, reference, specs, traced
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg.base import has_floats, numpy_dtype
from tensorgrad.errors import DTypeError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tracer import trace

HALF_DTYPES = pytest.mark.parametrize("half", [F16, BF16], ids=["f16", "bf16"])

ROUNDINGS = 2.0
"""An op rounds its result once; a case of several ops may add a little."""

COMPOSED: dict[str, float] = {
    "sum-of_a_reduction": 4.0,
    "dot_general-einsum_4_ij,kl->kj": 3.0,
    "prod-cumprod_of_blocks_of_blocks": 3.0,
    "take-resize_cubic_30_by_0.9": 3.0,
    "windows-resize_cubic_7_by_0.5": 3.0,
    "windows-resize_linear_5_by_1.3": 3.0,
    "expm1-selu_twice": 3.0,
    "expm1-selu_line": 3.0,
    "sum-cumsum_of_blocks": 3.0,
    "sum-cumsum_of_blocks_of_blocks": 3.0,
    "floor-mid_graph": 1 / BF16.epsilon,
    "trunc-mid_graph": 1 / BF16.epsilon,
}
"""The cases of several ops that round in between, by id, with how many roundings they are off by at most: up to 1 where
what is rounded reaches an integer.
"""


def stays_half(case: Case) -> bool:
    """Returns whether a case has only f16 float results for f16 inputs."""
    try:
        module = trace(case.function, *specs(halved(case, F16)))
    except DTypeError:  # what reads the bits of 32 takes no f16
        return False
    kinds = {numpy_dtype(value.type) for op in module.walk() for value in op.results}
    returned = numpy_dtype(find_function(module, None).function_type.outputs.data[0])
    return np.dtype(np.float64) not in kinds and (returned.kind != "f" or returned == F16.dtype)


def run(device: WebGPUDevice, module: ModuleOp, inputs: Sequence[NumpyArray], half: Half) -> NumpyArray:
    """Returns the first result on the device, or by numpy on planned buffers if the device lacks f16."""
    if half == BF16 or device.target.f16:
        return on_device(device, module, inputs)[0]
    return list(levels(module, inputs))[-1][1][0]


def assert_close(actual: NumpyArray, expected: NumpyArray, roundings: float, half: Half) -> None:
    """Compares 16 bits with f64, in roundings of the element, and of the largest element if sums cancel."""
    assert actual.dtype == half.dtype
    actual = actual.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(half.dtype).astype(np.float64)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(actual[~finite], rounded[~finite])
    scale = min(float(np.abs(rounded[finite]).max(initial=0.0)), 1.0)
    allowed = roundings * (half.epsilon * np.maximum(np.abs(expected[finite]), scale) + half.smallest / 2)
    error = np.abs(actual[finite] - expected[finite])
    assert (error <= allowed).all(), f"off by {(error / allowed).max() * roundings} roundings"


@pytest.mark.parametrize("each", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_case_that_stays_half_is_run(each: int) -> None:
    some = [case for case in spread(CASES, each) if has_single(case)]
    assert {case.id for case in some if not stays_half(case)} == NOT_HALF & {case.id for case in some}


def check_value(case: Case, half: Half, results: Callable[[ModuleOp, Sequence[NumpyArray]], NumpyArray]) -> None:
    inputs = halved(case, half)
    module = traced(case.function, inputs)
    of_reference = reference(module, inputs)[0]
    result = results(module, inputs)
    if not has_floats(of_reference):
        np.testing.assert_array_equal(result, of_reference)
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(case.expected(*[x.astype(np.float64) if x.dtype == half.dtype else x for x in inputs]))
    for actual in (of_reference, result):
        assert_close(actual, expected, COMPOSED.get(case.id, ROUNDINGS), half)


@pytest.mark.parametrize("case", chosen(HALVES, spread(HALVES, 64, 3)[::2]))
def test_value_in_f16(device: WebGPUDevice, case: Case) -> None:
    check_value(case, F16, lambda module, inputs: run(device, module, inputs, F16))


@pytest.mark.parametrize("case", chosen(IN_BF16, spread(IN_BF16, 64, 5)[1::2]))
def test_value_in_bf16(device: WebGPUDevice, case: Case) -> None:
    check_value(case, BF16, lambda module, inputs: run(device, module, inputs, BF16))


@pytest.mark.parametrize("case", chosen(IN_BF16, spread(IN_BF16, 64, 7)[::2]))
def test_value_in_bf16_of_native_code(case: Case) -> None:
    check_value(case, BF16, lambda module, inputs: as_native_code(module, inputs)[0])


def matrices(half: Half, *shape: int) -> NumpyArray:
    return np.random.default_rng(7).normal(size=shape).astype(half.dtype)


@pytest.mark.in_turns(4, 1)
@HALF_DTYPES
@pytest.mark.parametrize(
    ("function", "shapes", "archetype"),
    [
        (lambda x: tg.sum(x, -1), [(40, 3000)], "group"),
        (lambda x: tg.softmax(x), [(40, 3000)], "group"),
        (lambda x, y: tg.matmul(x, y), [(70, 900), (900, 66)], "contraction"),
        (lambda x, y: tg.relu(x @ y + 1), [(70, 900), (900, 66)], "contraction"),
    ],
    ids=["sum", "softmax", "matmul", "epilogue"],
)
def test_long_sums_round_once(device: WebGPUDevice, function: Any, shapes: Any, archetype: str, half: Half) -> None:
    """Sums of 16 bits accumulate in f32, in one kernel, under any schedule."""
    inputs = [matrices(half, *shape) for shape in shapes]
    module = traced(function, inputs)
    for pass_ in (*BUFFER_PASSES, SchedulePass(target=Target(f16=True))):
        apply(pass_, module)
    schedules = [op.schedule for op in module.walk() if isinstance(op, KernelOp)]
    assert [schedule and schedule.data.archetype for schedule in schedules] == [archetype]
    result = run(device, traced(function, inputs), inputs, half)
    wide = [x.astype(np.float64) for x in inputs]
    expected = TensorExecutor(traced(function, wide)).call(wide)[0]
    assert_close(result, expected, ROUNDINGS, half)


def test_what_f16_cannot_hold_is_averaged_all_the_same() -> None:
    x = np.full((300,), 1000.0, F16.dtype)
    np.testing.assert_array_equal(np.asarray(tg.mean(x)), np.array(1000.0, F16.dtype))
    np.testing.assert_array_equal(np.asarray(tg.std(x)), np.array(0.0, F16.dtype))
    np.testing.assert_allclose(np.asarray(tg.norm(x)), 1000 * 300**0.5, rtol=F16.epsilon)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda weights: weights + 1, "'weights' has elements of f16, which webgpu-default does not have"),
        (lambda x: tg.cast(tg.exp(tg.cast(x, NAMES["f16"])), NAMES["f32"]), "returns f16, which webgpu-default"),
    ],
    ids=["input", "inside"],
)
def test_a_target_without_f16_is_refused(function: Any, said: str) -> None:
    inside = "inside" if "returns" in said else "input"
    x = matrices(F16, 3)
    module = traced(function, [x if inside == "input" else x.astype(np.float32)])
    with pytest.raises(DiagnosticException) as caught:
        for pass_ in inference_passes():
            pass_.apply(Context(), module)
    assert said in str(caught.value)
    assert "test_half.py" in str(caught.value)
