"""Every case of the op table as ONNX, in ONNX Runtime and in ONNX's evaluator; and every rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from case import Case
from case_programs import Run, alone_where_it_fails, check_gradients, check_values, check_wide_gradients, programs
from cases import CASES, SMOOTH
from exported import in_evaluator, in_runtime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
from save_exceptions import EVALUATOR, EVALUATOR_GRADIENTS, RUNTIME

from tensorgrad.dialects import tg
from tensorgrad.dialects.tg.call import CallOp, ReturnOp
from tensorgrad.exporters.onnx.rules import RULES

BY_ID = {case.id: case for case in CASES}
PLACES: Mapping[str, tuple[Run, Mapping[str, str]]] = {
    "runtime": (in_runtime, RUNTIME),
    "evaluator": (in_evaluator, EVALUATOR),
}


def joint(cases: Sequence[Case], turns: Mapping[str, int]) -> list[object]:
    """Returns programs of cases by where they run, of which all but every so many-th are nightly."""
    return [
        pytest.param(place, members, id=f"{place}-{name}", marks=[pytest.mark.nightly] if number % each else [])
        for place, each in turns.items()
        for number, (name, members) in enumerate(programs(cases).items())
    ]


def test_every_op_has_a_rule() -> None:
    regions = [op for op in tg.REGION_OPS if op not in (CallOp, ReturnOp)]
    assert set(RULES) == {*tg.OPS, *regions}


@pytest.mark.parametrize(("place", "cases"), joint(CASES, {"runtime": 2, "evaluator": 16}))
def test_value(place: str, cases: Sequence[Case]) -> None:
    run, exceptions = PLACES[place]
    alone_where_it_fails(check_values, [case for case in cases if case.id not in exceptions], run)


@pytest.mark.parametrize(("place", "cases"), joint(SMOOTH, {"runtime": 24, "evaluator": 24}))
def test_gradient(place: str, cases: Sequence[Case]) -> None:
    """In f32 by ONNX Runtime, which lacks functions in f64, and in f64 by the evaluator."""
    run, exceptions = PLACES[place]
    if place == "evaluator":
        exceptions = exceptions.keys() | EVALUATOR_GRADIENTS.keys()
    check = check_gradients if place == "runtime" else check_wide_gradients
    alone_where_it_fails(check, [case for case in cases if case.id not in exceptions], run)


@pytest.mark.parametrize("place", PLACES)
def test_exceptions_are_exceptions(place: str) -> None:
    run, exceptions = PLACES[place]
    for name in exceptions:
        with pytest.raises((AssertionError, ValueError, NotImplemented)):
            check_values([BY_ID[name]], run)


def test_exceptions_of_gradients_are_exceptions() -> None:
    for name in EVALUATOR_GRADIENTS:
        with pytest.raises(ValueError, match="reshape"):
            check_wide_gradients([BY_ID[name]], in_evaluator)


def test_no_case_is_an_exception_everywhere() -> None:
    assert not RUNTIME.keys() & EVALUATOR.keys()
