"""Cases of every op and their gradients on each device, many in one program, compared with numpy.

A program of sixteen cases compiles in less than half the time of sixteen programs. Where it differs, its cases are run
alone, so that the error is the case's own. Each case is here on one of the devices; `make nightly` runs every case
alone on each (test_native, test_on_device).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from case import Case
from case_programs import alone_where_it_fails, check_gradients, check_values, check_wide_gradients, on_device, programs
from cases import CASES, SMOOTH, fits_devices, spread
from harness import as_native_code, reference

from tensorgrad.runtime.webgpu import WebGPUDevice

ONE_OF_EACH = programs(spread(CASES, len(CASES)))
VALUES = {"native code": programs(spread(CASES, 2)), "a device": programs(spread(CASES, 2, 1))}
GRADIENTS = {"native code": programs(spread(SMOOTH, 12, 2)), "a device": programs(spread(SMOOTH, 12, 7))}


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_as_native_code(program: str) -> None:
    alone_where_it_fails(check_values, ONE_OF_EACH[program], as_native_code)


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in ONE_OF_EACH[program] if fits_devices(case)]
    alone_where_it_fails(check_values, cases, lambda *arguments: on_device(device, *arguments))


@pytest.mark.parametrize("program", VALUES["native code"])
def test_values_as_native_code(program: str) -> None:
    alone_where_it_fails(check_values, VALUES["native code"][program], as_native_code)


@pytest.mark.parametrize("program", VALUES["a device"])
def test_values_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in VALUES["a device"][program] if fits_devices(case)]
    alone_where_it_fails(check_values, cases, lambda *arguments: on_device(device, *arguments))


@pytest.mark.parametrize("program", GRADIENTS["native code"])
def test_gradients_as_native_code(program: str) -> None:
    check = check_gradients if [*GRADIENTS["native code"]].index(program) % 2 else check_wide_gradients
    alone_where_it_fails(check, GRADIENTS["native code"][program], as_native_code)


@pytest.mark.parametrize("program", GRADIENTS["a device"])
def test_gradients_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in GRADIENTS["a device"][program] if fits_devices(case)]
    alone_where_it_fails(check_gradients, cases, lambda *arguments: on_device(device, *arguments))


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
