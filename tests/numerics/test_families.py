"""One program for each family of ops, with a case of every op, on each device, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import pytest
from case import Case
from cases import CASES, fits_devices, spread
from harness import NumpyArray, as_native_code, assert_same, traced
from test_on_device import on_device

from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tracing.tensor import Tensor

pytestmark = pytest.mark.check

FAMILIES: dict[str, list[Case]] = {}
for case in spread(CASES, len(CASES)):
    FAMILIES.setdefault(case.op.__module__.rpartition(".")[2], []).append(case)


def joined(cases: Sequence[Case]) -> Callable[..., list[Tensor]]:
    """Returns the function of the arguments of all cases that returns all of their results."""

    def function(*arguments: Tensor) -> list[Tensor]:
        rest = iter(arguments)
        return [case.function(*islice(rest, len(case.inputs))) for case in cases]

    return function


def check(cases: Sequence[Case], run: Callable[..., Sequence[NumpyArray]]) -> None:
    inputs = [x for case in cases for x in case.inputs]
    results = run(traced(joined(cases), inputs), inputs)
    for case, result in zip(cases, results, strict=True):
        expected = case.value()
        assert result.dtype == expected.dtype
        assert_same(result, expected, case.tolerance, case.id)


@pytest.mark.parametrize("family", FAMILIES)
def test_native_code(family: str) -> None:
    check(FAMILIES[family], as_native_code)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_device(device: WebGPUDevice, family: str) -> None:
    check([case for case in FAMILIES[family] if fits_devices(case)], lambda *given: on_device(device, *given))


def test_every_op_is_in_a_family() -> None:
    assert {case.op for cases in FAMILIES.values() for case in cases} == {case.op for case in CASES}
    assert np.sum([len(cases) for cases in FAMILIES.values()]) == len({case.op for case in CASES})
