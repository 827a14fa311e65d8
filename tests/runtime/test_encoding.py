"""Command encoding by the native library's functions and by wgpu-py's methods gives the same steps."""

from __future__ import annotations

import gc
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import wgpu
from runtime_programs import SCALARS, expected_step, step_inputs, training_program
from wgpu.backends import wgpu_native

from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable, encoding
from tensorgrad.runtime.webgpu.encoding import Command, MethodRecording, NativeRecording, native_library, recorded
from tensorgrad.runtime.webgpu.reporting import reporting

WAYS = {"native": NativeRecording, "methods": MethodRecording}

WEIGHT_VALUE = np.array([1, 2, 3, 4, 5], np.float32)


def started(device: WebGPUDevice) -> WebGPUExecutable:
    executable = WebGPUExecutable(training_program(), device)
    executable.write({"weight": WEIGHT_VALUE})
    return executable


def test_a_step_is_encoded_as_asked_for(device: WebGPUDevice, encoder: str) -> None:
    """So the native encoding works with every wgpu version that the package can be installed with."""
    executable = started(device)
    weight = WEIGHT_VALUE
    for seed in range(3):
        inputs = step_inputs(seed)
        y, weight = expected_step(weight, inputs)
        np.testing.assert_allclose(executable.step(inputs, SCALARS)["y"], y, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(executable.read(["weight"])["weight"], weight, rtol=1e-6)
    recordings = [recording for parts, last in executable._recordings.values() for recording in (*parts, last)]
    assert set(map(type, recordings)) == {WAYS[encoder]}


def test_both_ways_do_the_same(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    native = started(device)
    actual = [{name: output.numpy() for name, output in native.step(step_inputs(2), SCALARS).items()}, native.read()]
    monkeypatch.setattr(encoding, "native_library", lambda: None)
    methods = started(device)
    expected = [
        {name: output.numpy() for name, output in methods.step(step_inputs(2), SCALARS).items()},
        methods.read(),
    ]
    for values, others in zip(actual, expected, strict=True):
        assert values.keys() == others.keys()
        for name, value in values.items():
            np.testing.assert_array_equal(value, others[name])


def test_one_submit_and_nothing_created(device: WebGPUDevice, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = started(device)
    executable.step(step_inputs(), SCALARS)
    calls: list[str] = []

    def watch(owner: object, *names: str) -> None:
        for name in names:
            original = getattr(owner, name)

            def record(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
                calls.append(_name)
                return _original(*args, **kwargs)

            monkeypatch.setattr(owner, name, record)

    watch(device.wgpu_device, "create_buffer", "create_bind_group", "create_command_encoder")
    watch(device.wgpu_device.queue, "submit", "write_buffer")
    library = native_library()
    assert library is not None
    functions = [name for name, entry in vars(library).items() if callable(entry) and name not in ("_errors", "null")]
    watch(library, *functions)
    executable.step(step_inputs(), SCALARS)
    assert calls[0] == "write_buffer"
    if encoder == "methods":
        assert calls[1:] == ["create_command_encoder", "submit"]
        return
    passes = {"begin_pass": 2, "set_pipeline": 2, "set_bind_group": 2, "dispatch": 2, "end_pass": 2, "release_pass": 2}
    once = dict.fromkeys(("create_encoder", "finish", "release_encoder", "queue_submit", "release_commands"), 1)
    assert Counter(calls[1:]) == {**passes, **once, "copy": 2}


def kept_by_the_library() -> dict[str, int]:
    diagnostics: Any = wgpu.diagnostics
    report = diagnostics.wgpu_native_counts.get_dict()
    return {name: entry["count"] for name, entry in report.items()}


@pytest.mark.nightly
@pytest.mark.usefixtures("encoder")
def test_steps_leave_nothing_behind(device: WebGPUDevice) -> None:
    executable = started(device)
    for repeats in (2, 20):
        gc.collect()
        before = kept_by_the_library()
        for _ in range(repeats):
            executable.step(step_inputs(), SCALARS)["y"].numpy()
    gc.collect()
    assert kept_by_the_library() == before


def double(device: WebGPUDevice) -> tuple[Command, wgpu.GPUBuffer]:
    """Returns a dispatch that doubles the four numbers of a buffer."""
    api = device.wgpu_device
    code = """
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(4) fn double(@builtin(local_invocation_index) i: u32) { x[i] = 2.0 * x[i]; }
    """
    module = api.create_shader_module(code=code)
    compute = {"module": module, "entry_point": "double"}
    pipeline = api.create_compute_pipeline(layout=wgpu.AutoLayoutMode.auto, compute=compute)
    buffer = device.create_buffer("x", 16)
    device.write_range(buffer, 0, np.arange(4, dtype=np.float32))
    entry = {"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 16}}
    group = api.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[entry])
    return Command(pipeline, group, (1, 1, 1)), buffer


@pytest.mark.nightly
@pytest.mark.usefixtures("encoder")
def test_a_recording_keeps_what_it_uses(device: WebGPUDevice) -> None:
    command, buffer = double(device)
    target = device.create_buffer("kept", 16)
    recording = device.recorded([[command, command], (buffer, 4, target, 8, 8), [command]])
    del command
    gc.collect()
    recording.submit()
    recording.submit()
    contents = [part.view(np.float32) for part in device.read_ranges([(buffer, 0, 16), (target, 0, 16)])]
    np.testing.assert_array_equal(contents, [[0, 64, 128, 192], [0, 0, 32, 64]])


@pytest.mark.usefixtures("encoder")
def test_what_the_device_reports_is_raised_once(device: WebGPUDevice) -> None:
    command, buffer = double(device)
    other = device.create_buffer("other", 16)
    refused = Command(command.pipeline, command.group, (1 << 20, 1, 1))
    for segments, message in (
        ([[refused], [refused]], "1048576"),
        ([(buffer, 0, other, 8, 16)], "overrun"),
    ):
        recording = device.recorded(segments)
        for _ in range(2):
            with pytest.raises(DeviceError, match=f"trying: (?s:.*)({message})"), reporting("trying"):
                recording.submit()
            with reporting("a call that has nothing to do with it"):
                pass
    device.recorded([[command]]).submit()
    np.testing.assert_array_equal(device.read_ranges([(buffer, 0, 16)])[0].view(np.float32), [0, 2, 4, 6])


LIBRARY: Any = wgpu_native.lib


def changed_library(**functions: Any) -> Any:
    """wgpu-py's native backend with different functions."""
    lib = SimpleNamespace(**{name: getattr(LIBRARY, name) for name in encoding.SIGNATURES})
    vars(lib).update(functions)
    return SimpleNamespace(lib=lib, ffi=wgpu_native.ffi, _api=wgpu_native._api)


@pytest.mark.parametrize(
    "backend",
    [
        SimpleNamespace(),
        SimpleNamespace(lib=LIBRARY, ffi=wgpu_native.ffi),
        changed_library(wgpuQueueSubmit=LIBRARY.wgpuQueueRelease),
        changed_library(wgpuCommandEncoderFinish=None),
    ],
    ids=["nothing", "no errors", "another signature", "no function"],
)
def test_another_wgpu_is_used_by_its_methods(
    device: WebGPUDevice, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "wgpu_native", backend)
    monkeypatch.setattr(encoding, "native_library", native_library.__wrapped__)
    assert encoding.native_library() is None
    command, buffer = double(device)
    recording = recorded(device.wgpu_device, [[command]])
    assert isinstance(recording, MethodRecording)
    recording.submit()
    np.testing.assert_array_equal(device.read_ranges([(buffer, 0, 16)])[0].view(np.float32), [0, 2, 4, 6])


def test_objects_without_handles_are_used_by_their_methods(device: WebGPUDevice) -> None:
    command, _ = double(device)
    without: Any = SimpleNamespace()
    other = Command(without, command.group, (1, 1, 1))
    assert isinstance(recorded(device.wgpu_device, [[other]]), MethodRecording)
    assert isinstance(recorded(device.wgpu_device, [[command]]), NativeRecording)
