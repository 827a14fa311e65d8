"""Every case and its gradient alone as native code, compared with numpy; f16 and f64 too.

For every change, test_families does so in programs of several cases.
"""

from __future__ import annotations

import numpy as np
import pytest
from case import Case
from cases import CASES, SMOOTH
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import GRADIENT, as_native_code, assert_same, reference, traced

from tensorgrad.transforms.grad import value_and_grad

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_value(case: Case) -> None:
    result = as_native_code(traced(case.function, case.inputs), case.inputs)[0]
    expected = case.value()
    assert result.dtype == expected.dtype
    assert_same(result, expected, case.tolerance, "native code")


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.id)
def test_gradient(case: Case) -> None:
    """In f32 half of the cases, as in training; in f64 the others, which detects wrong semantics."""
    width, bound = ((np.float64, 1e-9), (np.float32, GRADIENT))[SMOOTH.index(case) // 2 % 2]
    inputs = [np.asarray(x, width) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)]
    both = value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs)))
    wide = in_f64(inputs)
    expected = reference(traced(both, wide), wide)
    results = as_native_code(traced(both, inputs), inputs)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == width
        assert result.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(result, wanted, rtol=0, atol=bound * scale)
