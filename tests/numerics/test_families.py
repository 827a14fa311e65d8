"""Cases of every op and their gradients on each device, many in one program, compared with numpy.

A program of sixteen cases compiles in less than half the time of sixteen programs. Where it differs, its cases are run
alone, so that the error is the case's own. Each case is here on one of the devices; `make nightly` runs every case
alone on each (test_native, test_on_device).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np
import pytest
from case import Case
from cases import CASES, SMOOTH, fits_devices, spread
from differences import float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import GRADIENT, NumpyArray, as_native_code, assert_same, reference, traced
from test_on_device import on_device
from xdsl.dialects.builtin import ModuleOp

from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.grad import value_and_grad

Run: TypeAlias = Callable[[ModuleOp, Sequence[NumpyArray]], list[NumpyArray]]

CASES_OF_A_PROGRAM = 16


def programs(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Returns the cases by family of ops, in parts of a program each."""
    families: dict[str, list[Case]] = {}
    for case in cases:
        families.setdefault(case.op.__module__.rpartition(".")[2], []).append(case)
    return {
        f"{family}-{start // CASES_OF_A_PROGRAM}": members[start : start + CASES_OF_A_PROGRAM]
        for family, members in families.items()
        for start in range(0, len(members), CASES_OF_A_PROGRAM)
    }


ONE_OF_EACH = programs(spread(CASES, len(CASES)))
VALUES = {"native code": programs(spread(CASES, 2)), "a device": programs(spread(CASES, 2, 1))}
GRADIENTS = {"native code": programs(spread(SMOOTH, 12, 2)), "a device": programs(spread(SMOOTH, 12, 7))}


def joined(functions: Sequence[Callable[..., Sequence[Tensor]]], counts: Sequence[int]) -> Callable[..., list[Tensor]]:
    """Returns the function of the arguments of all functions that returns all of their results."""

    def function(*arguments: Tensor) -> list[Tensor]:
        rest = iter(arguments)
        return [result for one, count in zip(functions, counts, strict=True) for result in one(*islice(rest, count))]

    return function


def alone_where_it_fails(check: Callable[[Sequence[Case], Run], None], cases: Sequence[Case], run: Run) -> None:
    """Checks cases together; if that fails, each alone, for the error of the first that fails alone too."""
    try:
        check(cases, run)
    except Exception:
        for case in cases if len(cases) > 1 else ():
            check([case], run)
        raise


def check_values(cases: Sequence[Case], run: Run) -> None:
    functions = [lambda *xs, case=case: [case.function(*xs)] for case in cases]
    inputs = [x for case in cases for x in case.inputs]
    results = run(traced(joined(functions, [len(case.inputs) for case in cases]), inputs), inputs)
    for case, result in zip(cases, results, strict=True):
        expected = case.value()
        assert result.dtype == expected.dtype, case.id
        assert_same(result, expected, case.tolerance, case.id)


def gradients(case: Case, inputs: Sequence[NumpyArray]) -> Callable[..., list[Tensor]]:
    """Returns the function that returns the case's value in the middle of a graph, and its gradients."""
    both = value_and_grad(mid_graph(case.function), argnums=tuple(float_positions(inputs)))

    def function(*arguments: Tensor) -> list[Tensor]:
        value, slopes = both(*arguments)
        return [value, *slopes]

    return function


def check_gradients(cases: Sequence[Case], run: Run, width: type[np.floating] = np.float32) -> None:
    of_each = [[np.asarray(x, width) if x.dtype.kind == "f" else x for x in mid_graph_inputs(case)] for case in cases]
    inputs = [x for some in of_each for x in some]
    functions = [gradients(case, some) for case, some in zip(cases, of_each, strict=True)]
    results = iter(run(traced(joined(functions, [len(some) for some in of_each]), inputs), inputs))
    bound = GRADIENT if width is np.float32 else 1e-9
    for case, function, some in zip(cases, functions, of_each, strict=True):
        wide = in_f64(some)
        for expected in reference(traced(function, wide), wide):
            result = next(results)
            assert result.dtype == width, case.id
            assert result.shape == expected.shape, case.id
            scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
            np.testing.assert_allclose(result, expected, rtol=0, atol=bound * scale, err_msg=case.id)


def check_wide_gradients(cases: Sequence[Case], run: Run) -> None:
    """In f64 wrong semantics shows that roundings of f32 hide."""
    check_gradients(cases, run, np.float64)


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_as_native_code(program: str) -> None:
    alone_where_it_fails(check_values, ONE_OF_EACH[program], as_native_code)


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in ONE_OF_EACH[program] if fits_devices(case)]
    alone_where_it_fails(check_values, cases, lambda *given: on_device(device, *given))


@pytest.mark.parametrize("program", VALUES["native code"])
def test_values_as_native_code(program: str) -> None:
    alone_where_it_fails(check_values, VALUES["native code"][program], as_native_code)


@pytest.mark.parametrize("program", VALUES["a device"])
def test_values_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in VALUES["a device"][program] if fits_devices(case)]
    alone_where_it_fails(check_values, cases, lambda *given: on_device(device, *given))


@pytest.mark.parametrize("program", GRADIENTS["native code"])
def test_gradients_as_native_code(program: str) -> None:
    check = check_gradients if [*GRADIENTS["native code"]].index(program) % 2 else check_wide_gradients
    alone_where_it_fails(check, GRADIENTS["native code"][program], as_native_code)


@pytest.mark.parametrize("program", GRADIENTS["a device"])
def test_gradients_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in GRADIENTS["a device"][program] if fits_devices(case)]
    alone_where_it_fails(check_gradients, cases, lambda *given: on_device(device, *given))


def ids(parts: Mapping[str, Sequence[Case]]) -> set[str]:
    return {case.id for cases in parts.values() for case in cases}


def test_every_case_is_in_a_program() -> None:
    ops = {case.op for case in CASES}
    assert {case.op for cases in ONE_OF_EACH.values() for case in cases} == ops
    assert set.union(*map(ids, VALUES.values())) == {case.id for case in CASES}
    for programs_of_a_device in GRADIENTS.values():
        assert {case.op for some in programs_of_a_device.values() for case in some} == {case.op for case in SMOOTH}


def test_the_error_is_that_of_the_case() -> None:
    cases = next(iter(programs([case for case in CASES if case.value().dtype.kind == "f"]).values()))
    middle = len(cases) // 2
    cases[middle] = replace(cases[middle], expected=lambda *xs: cases[0].expected(*xs) + 1e6)
    with pytest.raises(AssertionError, match=cases[middle].id):
        alone_where_it_fails(check_values, cases, reference)
