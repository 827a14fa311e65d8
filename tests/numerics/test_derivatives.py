"""Every derivative, in the middle of a graph, compared with central differences of the reference in f64.

What only this would catch: a wrong rule, in a case of its own. How derivatives are lowered is nearly the rules of their
ops, so that is checked for a third of the ops; test_families has the others on devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from case import Case
from cases import SMOOTH, by_turns, spread
from differences import central, directional, directions, float_positions, mid_graph, mid_graph_inputs
from harness import Function, NumpyArray, assert_same, levels, reference, scalar_function, traced, with_gradient

from tensorgrad.dialects import tg
from tensorgrad.passes.tensors.grad.rules import NO_DERIVATIVE, RULES

TOLERANCE = 1e-8
"""Of central differences with extrapolation in f64, relative to the largest element."""

LOWERED = {case.id for case in spread(SMOOTH, len(SMOOTH))[2::3]}
"""The cases whose first derivatives are lowered for every change; `make nightly` lowers the others."""

by_id = pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.id)


def test_every_op_has_a_derivative_or_a_reason() -> None:
    assert {*RULES, *NO_DERIVATIVE} == set(tg.OPS)
    assert not {*RULES} & {*NO_DERIVATIVE}
    checked = {case.op for case in SMOOTH}
    assert not [op.name for op in RULES if op not in checked and op.name != "tg.cast"]


def check(
    function: Function, inputs: Sequence[NumpyArray], wrt: Sequence[int], lowered: bool = True
) -> list[NumpyArray]:
    """Compares gradients of a scalar function with central differences and, if `lowered`, its levels with each other.

    Returns:
        The slopes in the directions of each argument.
    """
    module = traced(function, inputs)
    value = scalar_function(module.clone())
    with_gradient(module, wrt)
    results = list(levels(module, inputs)) if lowered else [("tg", reference(module, inputs))]
    outputs = results[0][1]
    assert float(outputs[0]) == pytest.approx(value(*inputs), rel=1e-12, abs=1e-12)
    differences = [central(value, inputs, position) for position in wrt]
    for position, gradient, expected in zip(wrt, outputs[1:], differences, strict=True):
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        slopes = np.array([np.sum(gradient * direction) for direction in directions(gradient.shape)])
        np.testing.assert_allclose(slopes, expected, rtol=0, atol=TOLERANCE * scale, err_msg=f"argument {position}")
        assert gradient.dtype == np.float64
    for level, values in results[1:]:
        for actual, expected in zip(values, outputs, strict=True):
            assert_same(actual, expected, 1e-11, level)
    return differences


def nonzero(gradient: NumpyArray) -> bool:
    """Returns whether a gradient is worth checking."""
    return float(np.abs(gradient).max(initial=0.0)) > 1e-3


def check_first_order(case: Case, lowered: bool) -> None:
    inputs = mid_graph_inputs(case)
    wrt = float_positions(inputs)
    differences = check(mid_graph(case.function), inputs, wrt, lowered)
    result = case.value()
    flat = [position + 2 for position in case.flat] + ([] if result.any() else [0])
    for position, gradient in zip(wrt, differences, strict=True):
        assert nonzero(gradient) == (gradient.size > 0 and result.size > 0 and position not in flat), position


def check_second_order(case: Case, lowered: bool) -> None:
    inputs = mid_graph_inputs(case)
    wrt = float_positions(inputs)
    random = np.random.default_rng(11)
    directions = [np.asarray(random.normal(size=inputs[position].shape)) for position in wrt]
    shifted = [position + len(wrt) for position in wrt]
    differences = check(directional(mid_graph(case.function), wrt), [*directions, *inputs], shifted, lowered)
    assert any(map(nonzero, differences)) == bool(case.value().size)


@pytest.mark.check
@pytest.mark.parametrize("case", by_turns(SMOOTH, 3))
def test_first_order(case: Case) -> None:
    check_first_order(case, case.id in LOWERED)


@pytest.mark.parametrize("case", by_turns(SMOOTH, 24))
def test_second_order(case: Case) -> None:
    check_second_order(case, lowered=False)


@pytest.mark.nightly
@by_id
def test_every_level(case: Case) -> None:
    check_first_order(case, lowered=True)
    check_second_order(case, lowered=True)


def test_nearly_every_op_is_differentiated_in_several_cases() -> None:
    counts = Counter(case.op for case in SMOOTH)
    collective = {"tg.all_gather", "tg.collective_broadcast", "tg.reduce_scatter"}  # test_collectives.py has theirs
    assert {op.name for op in RULES if counts[op] < 3} == {"tg.cast", *collective}
