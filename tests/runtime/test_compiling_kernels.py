"""Pipelines created by several threads: the same results and errors as one after another."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest
from runtime_programs import SCALARS, expected_step, step_inputs, training_program

from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable

WEIGHT_VALUE = np.array([1, 2, 3, 4, 5], np.float32)


def many_kernels(*broken: int) -> Program:
    """The program of `runtime_programs`, with twenty variants of its second kernel; only the last counts steps."""
    program = training_program()
    update, count = program.kernels
    names = [f"count_{i}" for i in range(20)]
    codes = [
        count.code.replace("count_steps", name).replace("+ 1;", f"+ {int(i == 19)};") for i, name in enumerate(names)
    ]
    codes = [
        code.replace("var sum = 0.0;", "var sum = nothing;") if i in broken else code for i, code in enumerate(codes)
    ]
    counts = [dataclasses.replace(count, entry=name, code=code) for name, code in zip(names, codes, strict=True)]
    first, *copies, last = program.plan
    steps: list[Any] = [dataclasses.replace(last, kernel=1 + i) for i in range(20)]
    return dataclasses.replace(program, kernels=(update, *counts), plan=(first, *copies, *steps))


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest, device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of kernels that are compiled at a time."""
    monkeypatch.setattr(device, "compile_threads", request.param)
    return request.param


def test_one_thread_where_a_cpu_plays_the_gpu(device: WebGPUDevice) -> None:
    assert device.compile_threads == 1 or not device.target.software


def test_kernels_that_threads_compile(device: WebGPUDevice, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    api, used = device.wgpu_device, set[int]()
    create, met = api.create_shader_module, threading.Barrier(threads)

    def watched(**options: Any) -> Any:
        if threading.get_ident() not in used:
            used.add(threading.get_ident())
            met.wait(60)  # so that each thread takes part
        return create(**options)

    monkeypatch.setattr(api, "create_shader_module", watched)
    executable = WebGPUExecutable(many_kernels(), device)
    assert len(used) == threads
    assert (threading.get_ident() in used) is (threads == 1)
    executable.write({"weight": WEIGHT_VALUE})
    inputs = step_inputs(1)
    y, weight = expected_step(WEIGHT_VALUE, inputs)
    np.testing.assert_allclose(executable.step(inputs, SCALARS)["y"], y, rtol=1e-6, atol=1e-6)
    values = executable.read()
    np.testing.assert_allclose(values["weight"], weight, rtol=1e-6)
    assert values["count"] == 1


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("broken", [(0,), (7,), (19,), (3, 11), tuple(range(20))])
def test_the_first_broken_kernel_is_named(device: WebGPUDevice, broken: tuple[int, ...]) -> None:
    for _ in range(3):
        with pytest.raises(
            DeviceError, match=rf"^compiling kernel 'count_{broken[0]}' \(count steps\): (?s:.*)nothing"
        ):
            WebGPUExecutable(many_kernels(*broken), device)
        WebGPUExecutable(many_kernels(), device)
