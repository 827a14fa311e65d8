"""ONNX's own node cases, on the reference and on a device; failing ones are listed, each with a reason."""

from __future__ import annotations

import onnx_exceptions as exceptions
import pytest
from onnx_cases import Run, cases, failure, halves

from tensorgrad.errors import TensorgradError
from tensorgrad.runtime.webgpu import WebGPUDevice

PARTS = 48
"""The number of parts that the cases are tested in, so that workers share them."""

EXPECTED = exceptions.load()


def part(number: int, expanded: bool | None = None) -> list[str]:
    """Returns every `PARTS`-th case; of all, or only of those that are (or are not) defined by other ops."""
    chosen = [name for name in cases() if expanded is None or ("_expanded" in name) == expanded]
    return chosen[number::PARTS]


def check(names: list[str], device: WebGPUDevice | None) -> None:
    """Checks that the cases which fail are those that are listed, with the errors that their reasons say.

    What fails on the reference isn't tried on a device, nor is f16 where the device doesn't have it.
    """
    if device is not None:
        names = [name for name in names if name not in EXPECTED["reference"]]
        names = [name for name in names if device.target.f16 or name not in halves()]
    listed = EXPECTED["reference" if device is None else "device"]
    wrong: list[str] = []
    for name in names:
        error, expected = failure(cases()[name], device), listed.get(name)
        why = None if error is None else exceptions.reason(name, error) or "no reason"
        if why != expected:
            wrong.append(f"{name}: expected {expected or 'to pass'}, found {why or 'to pass'}: {error}")
    assert not wrong, "\n".join(["run python tests/onnx/onnx_exceptions.py after looking at", *wrong])


@pytest.mark.in_turns(48, 4)
@pytest.mark.parametrize("number", range(PARTS))
def test_reference(number: int) -> None:
    check(part(number), None)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(PARTS))
def test_device(device: WebGPUDevice, number: int) -> None:
    check(part(number, expanded=False), device)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(PARTS))
def test_expanded_on_device(device: WebGPUDevice, number: int) -> None:
    check(part(number, expanded=True), device)


def test_counts() -> None:
    """All cases that are not listed pass."""
    names = set(cases())
    failing = set(EXPECTED["reference"])
    assert failing <= names
    assert set(EXPECTED["device"]) <= names - failing
    on_reference = len(names - failing)
    on_device = on_reference - len(EXPECTED["device"])
    assert on_reference >= 1600
    assert on_device >= 1600
    plain = [name for name in names - failing - set(EXPECTED["device"]) if "_expanded" not in name]
    assert len(plain) >= 1150


def test_reasons() -> None:
    used = {why for listed in EXPECTED.values() for why in listed.values()}
    assert used <= set(exceptions.REASONS)


@pytest.mark.nightly
def test_most_cases_compute_from_inputs() -> None:
    """In few cases all inputs are constants."""
    fixed = 0
    for name, case in cases().items():
        if name in EXPECTED["reference"]:
            continue
        try:
            fixed += not Run(case, 0, float64=True).inputs
        except TensorgradError as error:
            pytest.fail(f"{name}: {error}")
    assert fixed < 40
