"""Cases of every op and their gradients on each device, many in one program, compared with numpy.

What only this would catch: a kernel that is wrong on a device though the same kernel on buffers is right, in code that
depends on the shape, dtype or attributes of an op. So there are cases that together take every branch of the passes
(covering.py), and one of each op; `make nightly` runs every case alone on each device (test_native, test_on_device).
Gradients are made of the same ops, and their rules are checked by test_derivatives: here are those of a third of the
ops on each device.

A program of sixteen cases compiles in less than half the time of sixteen programs. Where it differs, its cases are run
alone, so that the error is the case's own. Programs of `make check` are verified after every pass, as in the nightly
tests, the others after each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from arithmetic import flushes_subnormals
from case_programs import alone_where_it_fails, check_gradients, check_values, check_wide_gradients, on_device, programs
from cases import CASES, SMOOTH, Case, covering, fits_devices, spread
from covering import Taken, cover
from harness import as_native_code, reference

from tensorgrad.runtime.webgpu import WebGPUDevice

OF_SUBNORMALS = ("floor_divide-f32_table", "remainder-f32_table")
"""The cases with subnormal operands, which WGSL lets devices take for zeros."""

ONE_OF_EACH = programs(spread(CASES, len(CASES)))
COVERING = programs(covering())
SMOOTH_ONE_OF_EACH = spread(SMOOTH, len(SMOOTH))
GRADIENTS = {"native code": programs(SMOOTH_ONE_OF_EACH[::3]), "a device": programs(SMOOTH_ONE_OF_EACH[1::3])}


def run_by(device: WebGPUDevice, cases: Sequence[Case]) -> list[Case]:
    """Returns the cases whose values a device has to reproduce."""
    is_exact = device.info.type == "software" or not flushes_subnormals()
    return [case for case in cases if fits_devices(case) and (is_exact or case.id not in OF_SUBNORMALS)]


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_as_native_code(program: str) -> None:
    alone_where_it_fails(check_values, ONE_OF_EACH[program], as_native_code)


@pytest.mark.check
@pytest.mark.parametrize("program", ONE_OF_EACH)
def test_each_op_on_a_device(device: WebGPUDevice, program: str) -> None:
    alone_where_it_fails(check_values, run_by(device, ONE_OF_EACH[program]), partial(on_device, device))


@pytest.mark.parametrize("program", COVERING)
def test_values_as_native_code(program: str) -> None:
    alone_where_it_fails(check_values, COVERING[program], partial(as_native_code, each=False))


@pytest.mark.parametrize("program", COVERING)
def test_values_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = run_by(device, COVERING[program])
    alone_where_it_fails(check_values, cases, partial(on_device, device, each=False))


@pytest.mark.parametrize("program", GRADIENTS["native code"])
def test_gradients_as_native_code(program: str) -> None:
    check = check_gradients if [*GRADIENTS["native code"]].index(program) % 2 else check_wide_gradients
    alone_where_it_fails(check, GRADIENTS["native code"][program], partial(as_native_code, each=False))


@pytest.mark.parametrize("program", GRADIENTS["a device"])
def test_gradients_on_a_device(device: WebGPUDevice, program: str) -> None:
    cases = [case for case in GRADIENTS["a device"][program] if fits_devices(case)]
    alone_where_it_fails(check_gradients, cases, lambda *arguments: on_device(device, *arguments, each=False))


def test_every_op_is_in_a_program() -> None:
    assert {case.op for cases in ONE_OF_EACH.values() for case in cases} == {case.op for case in CASES}


def test_a_cover_takes_every_branch_in_little_time() -> None:
    taken: Taken = {"a": (1.0, {1, 2}), "b": (1.0, {2, 3}), "slow": (9.0, {1, 2, 3}), "rare": (5.0, {2, 4})}
    assert cover(taken) == ["a", "b", "rare"]


def test_the_error_is_that_of_the_case() -> None:
    cases = next(iter(programs([case for case in CASES if case.value().dtype.kind == "f"]).values()))
    middle = len(cases) // 2
    cases[middle] = replace(cases[middle], expected=lambda *xs: cases[0].expected(*xs) + 1e6)
    with pytest.raises(AssertionError, match=cases[middle].id):
        alone_where_it_fails(check_values, cases, reference)
