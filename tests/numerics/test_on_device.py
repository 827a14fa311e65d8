"""Every case and its gradient alone on a WebGPU device, compared with numpy.

For every change, test_families does so in programs of several cases.
"""

from __future__ import annotations

import pytest
from case import Case
from case_programs import check_gradients, check_values, on_device
from cases import CASES, ON_DEVICE

from tensorgrad.runtime.webgpu import WebGPUDevice


def test_most_cases_run_on_devices() -> None:
    assert len(ON_DEVICE) > 0.8 * len(CASES)


@pytest.mark.nightly
@pytest.mark.parametrize("case", ON_DEVICE, ids=lambda case: case.id)
def test_value(device: WebGPUDevice, case: Case) -> None:
    check_values([case], lambda *program: on_device(device, *program))


@pytest.mark.nightly
@pytest.mark.parametrize("case", [case for case in ON_DEVICE if case.derivative], ids=lambda case: case.id)
def test_gradient(device: WebGPUDevice, case: Case) -> None:
    check_gradients([case], lambda *program: on_device(device, *program))
