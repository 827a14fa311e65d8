"""Every op compared with numpy: in the reference, at every level below it, and outside a trace."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from case import Case
from cases import CASES, by_turns, chosen, covering
from harness import assert_same, levels, reference, traced

from tensorgrad.dialects import tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.tg.base import Tensor, TensorOp, numpy_dtype
from tensorgrad.errors import ShapeError
from tensorgrad.tracing.tensor import Array

by_id = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def test_every_op_has_cases() -> None:
    counts = {op: sum(case.op is op for case in CASES) for op in tg.OPS}
    assert not [op.name for op, count in counts.items() if count < 3]


def test_ids_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.check
@by_id
def test_value(case: Case) -> None:
    module = traced(case.function, case.inputs)
    assert any(isinstance(op, case.op) for op in module.walk() if isinstance(op, TensorOp)), "the case lacks its op"
    expected = case.value()
    inferred = cast(Tensor, find_function(module, None).function_type.outputs.data[0])
    assert (inferred.get_shape(), numpy_dtype(inferred)) == (expected.shape, expected.dtype)
    result = reference(module, case.inputs)[0]
    assert result.dtype == expected.dtype
    assert_same(result, expected, case.rtol, "tg")


@pytest.mark.parametrize("case", chosen(CASES, covering()[::2]))
def test_levels(case: Case) -> None:
    expected = case.value()
    for level, results in levels(traced(case.function, case.inputs), case.inputs):
        assert_same(results[0], expected, case.rtol, level)


@pytest.mark.parametrize("case", by_turns(CASES, 6, 1))
def test_value_outside_a_trace(case: Case) -> None:
    if not case.inputs:
        return
    arrays = [Array(np.asarray(x)) for x in case.inputs]
    if case.refused:
        with pytest.raises(ShapeError, match="out of range"):
            case.function(*arrays)
        return
    result = case.function(*arrays)
    expected = case.value()
    assert result.dtype == expected.dtype
    assert_same(np.asarray(result), expected, case.rtol, "eager")
