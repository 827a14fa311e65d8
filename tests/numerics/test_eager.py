"""Every op eagerly, forward and backward, on each device, compared with the traced function on the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from case import Case
from cases import CASES, ON_DEVICE, by_turns
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import GRADIENT, NumpyArray, assert_same, reference, traced

from tensorgrad.driver.handles.eager_devices import eager_device_named, new_eager_device
from tensorgrad.eager.devices import EagerDevice, RecordingDevice
from tensorgrad.runtime.cpu import CpuDevice
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.transforms.grad import value_and_grad

SMOOTH = [case for case in CASES if case.derivative and not case.refused]
SMOOTH_ON_DEVICE = [case for case in ON_DEVICE if case.derivative and not case.refused]
VALUES = [case for case in CASES if case.inputs and not case.refused]
GROUP = 16
"""The number of cases that are recorded before a value is read, so that one program computes them all."""


def groups(cases: Sequence[Case]) -> list[Sequence[Case]]:
    """Returns the cases in groups."""
    return [cases[start : start + GROUP] for start in range(0, len(cases), GROUP)]


def first_of_each(count: int, cases: Sequence[Case]) -> list[Case]:
    """Returns a number of cases of each op, evenly spread."""
    by_op: dict[type, list[Case]] = {}
    for case in cases:
        by_op.setdefault(case.op, []).append(case)
    return [case for some in by_op.values() for case in some[:: max(1, len(some) // count)][:count]]


def backward(eager_device: EagerDevice, case: Case, inputs: Sequence[NumpyArray]) -> tuple[Tensor, list[Array]]:
    """Returns the value of a case in the middle of a graph, and the leaves once they have their gradients."""
    leaves = [eager_device.made(np.array(x)) for x in inputs]
    wrt = [leaves[i].requires_grad_() for i in float_positions(inputs)]
    value = mid_graph(case.function)(*leaves)
    assert isinstance(value, Array)
    value.backward()
    return value, wrt


def gradient_of(leaf: Array) -> NumpyArray:
    """Returns the gradient of a leaf; zero if nothing depends on it."""
    return np.zeros(leaf.shape) if leaf.grad is None else np.asarray(leaf.grad)


def expected_of(case: Case, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Returns the value and the gradients on the reference in f64."""
    wide = in_f64(inputs)
    return reference(traced(value_and_grad(mid_graph(case.function), tuple(float_positions(wide))), wide), wide)


@pytest.mark.parametrize("case", by_turns(VALUES, 20))
def test_values_by_numpy(case: Case) -> None:
    eager_device = eager_device_named("numpy")
    actual = case.function(*(eager_device.made(np.array(x)) for x in case.inputs))
    assert isinstance(actual, Array)
    expected = case.value()
    assert actual.dtype == expected.dtype
    assert_same(np.asarray(actual), expected, case.rtol and max(case.rtol, 5e-6), "eager")


@pytest.mark.parametrize("case", by_turns(SMOOTH, 40, 1))
def test_gradients_by_numpy(case: Case) -> None:
    inputs = in_f64(mid_graph_inputs(case))
    value, wrt = backward(eager_device_named("numpy"), case, inputs)
    first, *gradients = expected_of(case, inputs)
    np.testing.assert_allclose(np.asarray(value), first, rtol=1e-12)
    for leaf, expected in zip(wrt, gradients, strict=True):
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(gradient_of(leaf), expected, rtol=0, atol=1e-12 * scale)


def check_group(eager_device: RecordingDevice, cases: Sequence[Case]) -> None:
    """Compares the values and gradients of cases that one program computes."""
    before = eager_device.flushes
    inputs = [[x.astype(np.float32) if x.dtype == np.float64 else x for x in mid_graph_inputs(case)] for case in cases]
    computed = [backward(eager_device, case, arrays) for case, arrays in zip(cases, inputs, strict=True)]
    for case, arrays, (value, wrt) in zip(cases, inputs, computed, strict=True):
        first, *gradients = expected_of(case, arrays)
        results = [np.asarray(value), *map(gradient_of, wrt)]
        for result, expected in zip(results, [first, *gradients], strict=True):
            scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
            np.testing.assert_allclose(result, expected, rtol=0, atol=GRADIENT * scale, err_msg=case.id)
    # One program, but where an index is checked, which looks at it.
    assert eager_device.flushes - before <= 1 + len(cases)


@pytest.mark.nightly
@pytest.mark.parametrize("cases", groups(first_of_each(4, SMOOTH)), ids=lambda cases: cases[0].id)
def test_native_gradients(cases: Sequence[Case]) -> None:
    check_group(new_eager_device("cpu", CpuDevice(), 1), cases)


@pytest.mark.nightly
@pytest.mark.parametrize("cases", groups(first_of_each(2, SMOOTH_ON_DEVICE)), ids=lambda cases: cases[0].id)
def test_device_gradients(device: WebGPUDevice, cases: Sequence[Case]) -> None:
    check_group(new_eager_device("wgpu", device, 1), cases)
