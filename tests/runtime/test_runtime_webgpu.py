"""Programs on a WebGPU device: values, lifetime of results, sharing, and device errors."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from runtime_programs import OUTPUTS, SCALARS, SIZE, WEIGHT, expected_step, step_inputs, training_program, whole

from tensorgrad.runtime.backend import Executable
from tensorgrad.runtime.errors import DeviceError, InputError, NoAdapterError, ProgramError, TargetError
from tensorgrad.runtime.program import Buffer, Dispatch, Kernel, Program, TensorSlot
from tensorgrad.runtime.sharing import temporary_in
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable, adapters, list_adapters, request_adapter
from tensorgrad.runtime.webgpu import device as device_module
from tensorgrad.runtime.webgpu.device import LOST

WEIGHT_VALUE = np.array([1, 2, 3, 4, 5], np.float32)


def started(device: WebGPUDevice, program: Program | None = None) -> WebGPUExecutable:
    executable = WebGPUExecutable(program or training_program(), device)
    executable.write({"weight": WEIGHT_VALUE, "frozen": [True, False, True], "half": [0.5, -1, 3]})
    return executable


def assert_step(outputs: Mapping[str, Any], y: np.ndarray, inputs: Mapping[str, np.ndarray]) -> None:
    np.testing.assert_allclose(outputs["y"], y, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(outputs["is_negative"], y < 0)
    np.testing.assert_array_equal(outputs["seen"], inputs["index"])
    assert float(outputs["total"]) == pytest.approx(float(np.sum(y)), abs=1e-5)


def test_steps(device: WebGPUDevice) -> None:
    executable: Executable = started(device)
    weight = WEIGHT_VALUE
    for seed in range(5):
        inputs = step_inputs(seed)
        y, weight = expected_step(weight, inputs)
        assert_step(executable.step(inputs, SCALARS), y, inputs)
    values = executable.read()
    np.testing.assert_allclose(values["weight"], weight, rtol=1e-6)
    assert values["count"] == 5
    assert values["count"].dtype == np.int32
    np.testing.assert_array_equal(values["frozen"], [True, False, True])
    assert values["half"].dtype == np.float16
    np.testing.assert_array_equal(values["half"], [0.5, -1, 3])
    assert values["empty"].shape == (0, 2)
    assert list(executable.read(["count", "weight"])) == ["count", "weight"]
    assert executable.read([]) == {}


def test_every_handle_keeps_its_value(device: WebGPUDevice) -> None:
    executable = started(device)
    weight, handles = WEIGHT_VALUE, []
    for seed in range(200):
        inputs = step_inputs(seed)
        y, weight = expected_step(weight, inputs)
        handles.append((executable.step(inputs, SCALARS), y, inputs))
    bytes_of_ring = 64 * 1024
    assert executable.statistics()["device_bytes"] >= bytes_of_ring
    for outputs, y, inputs in handles:
        np.testing.assert_allclose(outputs["y"], y, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(outputs["seen"], inputs["index"])


def test_some_handles_are_kept_and_some_read(device: WebGPUDevice) -> None:
    executable = started(device)
    handles = []
    for seed in range(150):
        total = executable.step(step_inputs(seed), SCALARS)["seen"]
        if seed % 3 == 0:
            handles.append((seed, total))
        elif seed % 3 == 1:
            assert total.numpy()[0] == seed
    assert [int(handle.numpy()[0]) for _, handle in handles] == [seed for seed, _ in handles]


def test_dropped_handles_free_their_slot(device: WebGPUDevice) -> None:
    executable = started(device)
    executable.step(step_inputs(), SCALARS)
    before = executable.statistics()["device_bytes"]
    for _ in range(10):
        executable.step(step_inputs(), SCALARS)
    assert executable.statistics()["device_bytes"] == before


def test_a_handle_outlives_its_executable(device: WebGPUDevice) -> None:
    inputs = step_inputs(3)
    handle = started(device).step(inputs, SCALARS)["y"]
    np.testing.assert_allclose(handle, expected_step(WEIGHT_VALUE, inputs)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "scalars", "message"),
    [
        ({"x": np.zeros(4)}, {}, "input 'x' has shape"),
        ({"mask": np.zeros(SIZE)}, {}, "input 'mask' is float64"),
        ({"index": [-1, 0]}, {}, "input 'index' has values from -1"),
        ({"more": 1}, {}, "unknown input 'more'"),
        ({}, {"seed": 0.5}, "scalar 'seed' is float64"),
        ({}, {"rate": 0.5}, "unknown scalar 'rate'"),
    ],
)
def test_wrong_inputs_change_nothing(
    device: WebGPUDevice, inputs: dict[str, Any], scalars: dict[str, Any], message: str
) -> None:
    executable = started(device)
    good = step_inputs(1)
    with pytest.raises(InputError, match=message):
        executable.step({**good, "x": np.ones(SIZE), **inputs}, {**SCALARS, **scalars})
    assert executable.read(["count"])["count"] == 0
    assert_step(executable.step(good, SCALARS), expected_step(WEIGHT_VALUE, good)[0], good)


def test_wrong_writes_change_nothing(device: WebGPUDevice) -> None:
    executable = started(device)
    for values, message in (
        ({"weight": np.zeros(SIZE), "count": 1.5}, "parameter or state 'count' is float64"),
        ({"weight": np.zeros(SIZE), "x": 1}, "unknown parameter or state 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            executable.write(values)
    np.testing.assert_array_equal(executable.read()["weight"], WEIGHT_VALUE)
    with pytest.raises(InputError, match="no parameter or state 'x'"):
        executable.read(["weight", "x"])


def test_buffers_start_at_zero(device: WebGPUDevice) -> None:
    values = WebGPUExecutable(training_program(), device).read()
    assert not any(value.any() for value in values.values())


DOUBLE = """
@group(0) @binding(0) var<storage, read> weight: array<f32>;
@group(0) @binding(1) var<storage, read_write> doubled: array<f32>;
@compute @workgroup_size(8)
fn double(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < 5u) { doubled[id.x] = 2.0 * weight[id.x]; }
}
"""


def double_program(code: str = DOUBLE, entry: str = "double", output_words: int = 64) -> Program:
    return Program(
        name="double",
        kernels=(Kernel("wgsl", entry, code, (8, 1, 1)),),
        buffers=(Buffer("weights", 256, "parameter"), Buffer("result", 4 * output_words, "output")),
        tensors=(
            TensorSlot("weight", "parameter", (SIZE,), "f32", 0, 0),
            TensorSlot("doubled", "output", (output_words,), "f32", 1, 0),
        ),
        plan=(
            Dispatch(
                0,
                (whole(0, 256, "read"), whole(1, 4 * output_words, "read_write")),
                (1, 1, 1),
                "double",
            ),
        ),
    )


def test_shared_parameters(device: WebGPUDevice) -> None:
    training = started(device)
    evaluation = WebGPUExecutable(double_program(), device, share=training)
    np.testing.assert_array_equal(evaluation.step({}, {})["doubled"].numpy()[:SIZE], 2 * WEIGHT_VALUE)
    training.step(step_inputs(1), SCALARS)
    now = training.read()["weight"]
    assert (now != WEIGHT_VALUE).any()
    np.testing.assert_array_equal(evaluation.step({}, {})["doubled"].numpy()[:SIZE], 2 * now)
    evaluation.write({"weight": WEIGHT_VALUE})
    np.testing.assert_array_equal(training.read()["weight"], WEIGHT_VALUE)


def test_programs_in_turn_share_what_a_step_fills(device: WebGPUDevice) -> None:
    alone, first = started(device), started(device)
    program = first.program
    second = WebGPUExecutable(program, device, share=first, in_turn=True)
    own = sum(buffer.size for buffer in program.buffers if buffer.role in ("output", "constant"))
    assert second.shared_bytes == sum(buffer.size for buffer in program.buffers) - own
    for step in range(4):
        expected = alone.step(step_inputs(step), SCALARS)
        outputs = (first, second)[step % 2].step(step_inputs(step), SCALARS)
        for name, value in expected.items():
            np.testing.assert_array_equal(outputs[name].numpy(), value.numpy())
    for name, value in alone.read().items():
        np.testing.assert_array_equal(second.read()[name], value)


def test_what_programs_in_turn_have_of_their_own() -> None:
    program = training_program()
    work = next(i for i, buffer in enumerate(program.buffers) if buffer.role == "workspace")

    def changed(**options: Any) -> Program:
        buffers = list(program.buffers)
        buffers[work] = dataclasses.replace(buffers[work], **options)
        return dataclasses.replace(program, buffers=tuple(buffers))

    assert temporary_in(program, program)[work] == work
    assert temporary_in(program, changed(size=program.buffers[work].size * 2))[work] == work
    assert work not in temporary_in(changed(size=program.buffers[work].size * 2), program)
    assert work not in temporary_in(program, changed(name="other"))
    # Gaps in a packed buffer are zero, which another program would not know.
    assert work not in temporary_in(changed(name="packed0"), changed(name="packed0"))


@pytest.mark.parametrize(
    ("buffer", "slot", "message"),
    [
        ({"size": 512}, {}, "buffer 'weights' has 512 bytes, the shared program has 256"),
        ({"name": "others"}, {}, "buffer 'others' has 256 bytes, the shared program lacks it"),
        ({}, {"name": "w"}, "parameter 'w' is at a different place"),
        ({}, {"offset": 64}, "parameter 'weight' is at a different place"),
        ({}, {"dtype": "i32"}, "parameter 'weight' is at a different place"),
    ],
)
def test_what_can_not_be_shared(
    device: WebGPUDevice, buffer: dict[str, Any], slot: dict[str, Any], message: str
) -> None:
    program = double_program()
    program = dataclasses.replace(
        program,
        buffers=(dataclasses.replace(program.buffers[0], **buffer), *program.buffers[1:]),
        tensors=(dataclasses.replace(program.tensors[0], **slot), *program.tensors[1:]),
    )
    with pytest.raises(ProgramError, match=message):
        WebGPUExecutable(program, device, share=started(device))


def test_large_outputs_take_two_slots(device: WebGPUDevice) -> None:
    executable = WebGPUExecutable(double_program(output_words=1 << 18), device)
    handles = []
    for step in range(5):
        executable.write({"weight": np.full(SIZE, step)})
        handles.append(executable.step({}, {})["doubled"])
    assert [handle.numpy()[0] for handle in handles] == [0, 2, 4, 6, 8]
    assert executable.statistics()["device_bytes"] >= 2 << 20
    assert executable._ring.bytes == 2 << 20


def test_reads_larger_than_the_staging_buffer(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = started(device)
    whole_read = executable.read()
    monkeypatch.setattr(device_module, "MOST_STAGING", 12)
    pieces = executable.read()
    for name, value in whole_read.items():
        np.testing.assert_array_equal(pieces[name], value)


@pytest.mark.parametrize(
    ("code", "entry", "message"),
    [
        (DOUBLE.replace("2.0 *", "2.0 * nothing *"), "double", "nothing"),
        (DOUBLE.replace("2.0 *", "2u *"), "double", "Multiply can't work"),
        (DOUBLE, "missing", "missing"),
        (DOUBLE.replace("binding(1)", "binding(2)"), "double", "[Bb]inding"),
    ],
)
def test_a_broken_kernel_is_named(device: WebGPUDevice, code: str, entry: str, message: str) -> None:
    with pytest.raises(DeviceError, match=rf"compiling kernel '{entry}' \(double\): (?s:.*){message}"):
        WebGPUExecutable(double_program(code, entry), device)
    executable = WebGPUExecutable(double_program(), device)
    assert not executable.step({}, {})["doubled"].numpy().any()


def test_a_program_that_does_not_fit(device: WebGPUDevice) -> None:
    program = training_program()
    plan = (Dispatch(0, (whole(WEIGHT, 4, "read", 4),), (1, 1, 1), "odd"), *program.plan)
    with pytest.raises(TargetError, match="dispatch 'odd', binding 0: offset 4 is not a multiple"):
        WebGPUExecutable(dataclasses.replace(program, plan=plan), device)
    plan = (Dispatch(0, (whole(OUTPUTS, 4, "read_write"),), (1 << 20, 1, 1), "wide"), *program.plan)
    with pytest.raises(TargetError, match="workgroups: 1048576 exceeds"):
        WebGPUExecutable(dataclasses.replace(program, plan=plan), device)


def test_statistics(device: WebGPUDevice) -> None:
    statistics = started(device).statistics()
    assert statistics["launches"] == 2
    assert statistics["passes"] == {"fuse": 0.5}
    counts = {key: statistics[key] for key in ("dispatches", "copies", "submits", "kernels")}
    assert counts == {"dispatches": 2, "copies": 2, "submits": 1, "kernels": 2}
    assert statistics["device_bytes"] >= sum(buffer.size for buffer in training_program().buffers[:5])


def test_the_device(device: WebGPUDevice) -> None:
    assert WebGPUDevice() is device
    adapters = list_adapters()
    assert device.info in adapters
    assert device.target.software is (device.info.type == "software")
    assert WebGPUDevice(software=device.target.software) is device
    assert device.target.max_storage_buffers_per_shader_stage >= 8
    if device.target.subgroup_size is not None:
        assert device.target.subgroups


def test_no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_adapters", list)
    for software, message in (
        (None, "no WebGPU adapter: install a Vulkan driver.*apt-get install mesa-vulkan-drivers"),
        (True, "no software WebGPU adapter: install a Vulkan driver.*apt-get install mesa-vulkan-drivers"),
        (False, "no hardware WebGPU adapter: install your GPU's Vulkan driver"),
    ):
        with pytest.raises(NoAdapterError, match=message):
            request_adapter(software)
    assert list_adapters() == []


@pytest.mark.parametrize(
    ("local_rank", "software", "expected"),
    [("0", None, "a"), ("1", None, "b"), ("2", None, "a"), ("1", False, "b"), ("3", True, "e")],
)
def test_processes_of_a_host_share_out_equal_adapters(
    monkeypatch: pytest.MonkeyPatch, local_rank: str, software: bool | None, expected: str
) -> None:
    kinds = [("a", "DiscreteGPU", "Vulkan"), ("b", "DiscreteGPU", "Vulkan"), ("c", "DiscreteGPU", "OpenGL")]
    kinds += [("d", "IntegratedGPU", "Vulkan"), ("e", "CPU", "Vulkan")]
    equal_adapters = [
        SimpleNamespace(info={"device": name, "adapter_type": kind, "backend_type": backend, "description": ""})
        for name, kind, backend in kinds
    ]
    monkeypatch.setattr(adapters, "_adapters", lambda: equal_adapters)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "9")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", local_rank)
    assert request_adapter(software).info["device"] == expected


def run_python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


LOAD = """
import sys
sys.modules["xdsl"] = None
import numpy as np
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
program, state = Program.load(sys.argv[1])
executable = WebGPUExecutable(program, WebGPUDevice())
executable.write(state)
inputs = dict(np.load(sys.argv[2]))
outputs = executable.step(inputs, {"learning_rate": 0.5, "seed": 3})
np.savez(sys.argv[3], y=outputs["y"], **executable.read())
"""


def test_a_saved_program_needs_no_compiler(device: WebGPUDevice, tmp_path: Path) -> None:
    executable = started(device)
    executable.step(step_inputs(1), SCALARS)
    paths = [str(tmp_path / name) for name in ("program.safetensors", "inputs.npz", "outputs.npz")]
    training_program().save(paths[0], executable.read())
    inputs: dict[str, Any] = step_inputs(2)
    np.savez(paths[1], **inputs)
    run_python(LOAD, *paths)
    y = executable.step(step_inputs(2), SCALARS)["y"]
    with np.load(paths[2]) as saved:
        np.testing.assert_array_equal(saved["y"], y)
        for name, value in executable.read().items():
            np.testing.assert_array_equal(saved[name], value)


LATE_ERRORS = """
import logging
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
from wgpu.backends.wgpu_native._api import error_handler
device = WebGPUDevice()
for message in ("something late", "The WGPU device was lost (unknown): gone"):
    error_handler.log_error(message)
    for attempt in range(2):
        try:
            device.create_buffer("test", 4)
            print("fine")
        except DeviceError as error:
            print(type(error).__name__, str(error).strip())
print(WebGPUDevice() is device, WebGPUDevice().create_buffer("test", 4).size)
"""


def test_late_errors_are_raised_at_the_next_call() -> None:
    assert run_python(LATE_ERRORS).splitlines() == [
        "DeviceError the device reported: something late",
        "fine",
        *["DeviceLostError allocating 4 bytes for test: The WGPU device was lost (unknown): gone", LOST] * 2,
        "False 4",
    ]


DESTROYED = """
from runtime_programs import SCALARS, step_inputs, training_program
from tensorgrad.runtime.errors import DeviceError
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable
device = WebGPUDevice()
executable = WebGPUExecutable(training_program(), device)
handle = executable.step(step_inputs(), SCALARS)["y"]
device.wgpu_device.destroy()
for attempt in (lambda: executable.step(step_inputs(), SCALARS), executable.read, handle.numpy):
    try:
        attempt()
        print("fine")
    except DeviceError as error:
        print(type(error).__name__)
"""


def test_a_lost_device_raises() -> None:
    folder = str(Path(__file__).parents[1] / "helpers")
    code = f"import sys; sys.path.insert(0, {folder!r})\n{DESTROYED}"
    assert run_python(code).split() == ["DeviceLostError"] * 3


def test_importing_the_runtime_does_not_import_wgpu() -> None:
    code = "import sys, tensorgrad.runtime, tensorgrad.runtime.program; print('wgpu' in sys.modules)"
    assert run_python(code).strip() == "False"
