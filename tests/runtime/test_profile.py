"""Profiles: the time of each dispatch, measured in ordinary steps."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from runtime_programs import SCALARS, step_inputs, training_program

from tensorgrad.runtime.errors import DeviceError, InputError
from tensorgrad.runtime.program import Repeat
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable, profile


def test_steps_are_steps(device: WebGPUDevice) -> None:
    profiled, stepped = (WebGPUExecutable(training_program(), device) for _ in range(2))
    for executable in (profiled, stepped):
        executable.write({"weight": [1, 2, 3, 4, 5]})
    measured = profile.profile(profiled, step_inputs(1), SCALARS, steps=2)
    for _ in range(5):
        stepped.step(step_inputs(1), SCALARS)
    assert profiled.read()["count"] == 5
    for name, value in stepped.read().items():
        np.testing.assert_array_equal(profiled.read()[name], value)
    assert [
        (dispatch.kernel, dispatch.label, dispatch.workgroups, dispatch.times) for dispatch in measured.dispatches
    ] == [
        ("update", "update weight", (1, 1, 1), 1),
        ("count_steps", "count steps", (1, 1, 1), 1),
    ]
    assert all(dispatch.seconds >= 0 for dispatch in measured.dispatches)
    assert measured.device_seconds == sum(dispatch.seconds for dispatch in measured.dispatches)


@pytest.mark.parametrize("most", [2048, 1, 3, 7])
def test_loops(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A dispatch in a loop has one row, however many timestamps fit at a time."""
    monkeypatch.setattr(profile, "MOST_DISPATCHES", most)
    program = training_program()
    *steps, count = program.plan
    looped = dataclasses.replace(program, plan=(*steps, Repeat(2, (Repeat(3, (count,)),)), count))
    executable = WebGPUExecutable(looped, device)
    measured = profile.profile(executable, step_inputs(1), SCALARS, steps=1)
    assert [dispatch.times for dispatch in measured.dispatches] == [1, 6, 1]
    assert executable.read()["count"] == 3 * 7


def test_wrong_inputs(device: WebGPUDevice) -> None:
    executable = WebGPUExecutable(training_program(), device)
    with pytest.raises(InputError, match="missing input"):
        profile.profile(executable, {}, SCALARS, steps=1)
    assert executable.read()["count"] == 0


def test_a_device_without_timestamps(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    without: Any = SimpleNamespace(info=device.info, wgpu_device=SimpleNamespace(features=set()))
    with pytest.raises(DeviceError, match="has no timestamps"):
        profile._timestamp_seconds(without)
    assert profile._timestamp_seconds(device) > 0
    monkeypatch.setattr(profile, "native_library", lambda: None)
    with pytest.raises(DeviceError, match="does not tell what a timestamp stands for"):
        profile._timestamp_seconds(device)
