"""Programs as data: validation, fitting a target, and the file format."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_programs import INPUTS, OUTPUTS, STATE, WEIGHT, training_program, whole
from safetensors import safe_open
from safetensors.numpy import save_file

from tensorgrad.runtime.errors import InputError, ProgramError, TargetError
from tensorgrad.runtime.program import Copy, Dispatch, Program, Repeat
from tensorgrad.runtime.target import Target

STATE_VALUES = {
    "weight": np.arange(5, dtype=np.float32),
    "count": np.array(7, np.int32),
    "frozen": np.array([True, False, True]),
    "half": np.array([0.5, -1, 65504], np.float16),
    "empty": np.zeros((0, 2), np.float32),
}


def replaced(items: tuple[Any, ...], index: int, **changes: Any) -> tuple[Any, ...]:
    changed = list(items)
    changed[index] = dataclasses.replace(items[index], **changes)
    return tuple(changed)


def with_kernel(**changes: Any) -> Program:
    program = training_program()
    return dataclasses.replace(program, kernels=replaced(program.kernels, 0, **changes))


def with_buffer(index: int, /, **changes: Any) -> Program:
    program = training_program()
    return dataclasses.replace(program, buffers=replaced(program.buffers, index, **changes))


def with_tensor(name: str, /, **changes: Any) -> Program:
    program = training_program()
    index = [slot.name for slot in program.tensors].index(name)
    return dataclasses.replace(program, tensors=replaced(program.tensors, index, **changes))


def with_step(index: int, **changes: Any) -> Program:
    program = training_program()
    return dataclasses.replace(program, plan=replaced(program.plan, index, **changes))


def with_bindings(*bindings: Any) -> Program:
    program = training_program()
    return dataclasses.replace(program, plan=(Dispatch(0, bindings, (1, 1, 1), "d"), *program.plan))


def with_plan(*steps: Any) -> Program:
    return dataclasses.replace(training_program(), plan=steps)


def with_native_kernels(*entries: str) -> Program:
    program = training_program()
    native = dataclasses.replace(program.kernels[0], language="llvm")
    codes = [dataclasses.replace(native, entry=entry, code=f"define void @{entry}(ptr %x)") for entry in entries]
    return dataclasses.replace(program, kernels=tuple(codes))


MALFORMED = [
    (with_native_kernels("update", "update"), "two kernels are named 'update'"),
    (with_kernel(language="msl"), r"kernels\[0\] \('update'\), language: expected wgsl or llvm, got 'msl'"),
    (with_kernel(entry="not one"), r"kernels\[0\] \('not one'\), entry: expected an identifier"),
    (with_kernel(workgroup_size=(8, 1, 0)), r"workgroup_size\[2\]: expected a positive integer, got 0"),
    (with_buffer(0, size=255), r"buffers\[0\] \('weights'\), size: expected a positive multiple of 4, got 255"),
    (with_buffer(0, size=0), "positive multiple"),
    (with_buffer(0, role="scratch"), r"buffers\[0\] \('weights'\), role: expected parameter, .*, got 'scratch'"),
    (with_buffer(0, data=b"1234"), "only constants have data"),
    (with_buffer(3, data=None), "buffer 'bias': a constant has no data"),
    (with_buffer(3, data=bytes(24)), "24 bytes of data in 20"),
    (with_buffer(4, role="input"), "more than one input buffer: inputs, work"),
    (with_buffer(4, name="bias"), "two buffers are named 'bias'"),
    (with_buffer(4, name=""), r"buffers\[4\] \(''\), name: expected a text that is not empty"),
    (with_tensor("x", role="gift"), r"tensors\[5\] \('x'\), role: expected parameter, .*, got 'gift'"),
    (with_tensor("x", dtype="f64"), "input 'x': f64 is for native code alone"),
    (with_tensor("x", shape=(-1,)), r"tensors\[5\] \('x'\), shape\[0\]: expected an integer from 0, got -1"),
    (with_tensor("x", buffer=9), "input 'x': there is no buffer 9"),
    (with_tensor("x", buffer=STATE), "input 'x' lies in a buffer of role 'state', not 'input'"),
    (with_tensor("x", offset=2), r"tensors\[5\] \('x'\), offset: expected a multiple of 4 from 0, got 2"),
    (with_tensor("x", offset=1012), "bytes 1012 to 1032 of buffer 'inputs', which has 1024"),
    (with_tensor("x", offset=244), "input 'x' and input 'mask' overlap"),
    (with_tensor("x", formula="1"), "only scalars have a formula"),
    (with_tensor("x", name="mask"), "two inputs are named 'mask'"),
    (with_tensor("count", name="weight"), "two parameter or state tensors are named 'weight'"),
    (with_tensor("rate", shape=(1,)), "scalar 'rate': a scalar of shape"),
    (with_tensor("rate", formula="import os"), r"tensors\[8\] \('rate'\), formula: formula 'import os'"),
    (with_step(0, kernel=2), r"dispatch 0 \('update weight'\): no kernel 2"),
    (with_step(0, workgroups=(1, 1)), r"plan\[0\] \('update weight'\), workgroups: expected 3 entries, got \(1, 1\)"),
    (with_step(0, workgroups=(0, 1, 1)), r"workgroups\[0\]: expected a positive integer, got 0"),
    (with_step(1, size=0), r"plan\[1\], size: expected a positive multiple of 4, got 0"),
    (with_step(1, size=260), "copy 1, source: bytes 0 to 260 of buffer 'work'"),
    (with_step(1, destination=4), "copy 1: within buffer 'work'"),
    (with_step(1, destination=3), "copy 1 writes a constant"),
    (with_bindings(whole(WEIGHT, 0, "read")), r"bindings\[0\], size: expected a positive multiple of 4, got 0"),
    (
        with_bindings(whole(WEIGHT, 4, "write")),
        r"plan\[0\] \('d'\), bindings\[0\], access: expected read or read_write, got 'write'",
    ),
    (with_bindings(whole(3, 4, "read_write")), "binding 0 writes constant 'bias'"),
    (
        with_bindings(whole(WEIGHT, 4, "read"), whole(STATE, 4, "read"), whole(WEIGHT, 4, "read_write", 8)),
        "buffer 'weights' is bound both 'read' and 'read_write'",
    ),
    (
        with_bindings(whole(WEIGHT, 8, "read_write"), whole(WEIGHT, 8, "read_write", 4)),
        "two writable bindings of buffer 'weights' overlap",
    ),
    (with_plan(), "no step of the plan writes output 'y'"),
    (with_plan(training_program().plan[1]), "no step of the plan writes output 'total'"),
    (with_plan(Repeat(2, training_program().plan[:3])), "no step of the plan writes output 'total'"),
    (with_step(2, destination_offset=780), "no step of the plan writes output 'seen'"),
    (
        dataclasses.replace(training_program(), format_version=3),
        "format version 3; this release reads version 2: update",
    ),
]


@pytest.mark.parametrize(("program", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(program: Program, message: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=message):
        program.validate()
    with pytest.raises(ProgramError, match=message):
        program.save(tmp_path / "program.safetensors")
    assert not list(tmp_path.iterdir())


def test_well_formed() -> None:
    training_program().validate()
    overlapping = with_bindings(whole(WEIGHT, 8, "read"), whole(WEIGHT, 8, "read", 4))
    overlapping.validate()
    with_tensor("y", offset=256).validate()
    with_plan(Repeat(2, training_program().plan), Copy(INPUTS, 0, OUTPUTS, 0, 4)).validate()
    with_tensor("y", shape=(0,)).validate()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_buffer_size": 512}, "buffer 'inputs': 1024 exceeds max_buffer_size = 512"),
        ({"max_storage_buffer_binding_size": 16}, "'update weight', binding 0: 20 exceeds"),
        ({"max_storage_buffers_per_shader_stage": 6}, "'update weight': its bindings: 7 exceeds"),
        ({"max_compute_workgroup_size_x": 4}, r"kernel 'update': workgroup \(8, 1, 1\): 8 exceeds"),
        ({"max_compute_invocations_per_workgroup": 4}, "exceeds max_compute_invocations_per_workgroup = 4"),
        ({"min_storage_buffer_offset_alignment": 512}, "binding 3: offset 256 is not a multiple of the 512 bytes"),
    ],
)
def test_limits(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        training_program().check_fits(Target(name="small", **limits))


def test_subgroup_size() -> None:
    code = "fn f() { subgroupBroadcast(1, 0u); }"
    program = dataclasses.replace(with_kernel(code=code), target=Target.named("lavapipe"))
    program.check_fits(Target.named("lavapipe"))
    with pytest.raises(TargetError, match="compiled for subgroups of 8, target 'gpu' has 32"):
        program.check_fits(Target(name="gpu", subgroups=True, subgroup_size=32))
    with pytest.raises(TargetError, match="varying size"):
        program.check_fits(Target(name="gpu", subgroups=True))


SUBGROUPS = "fn f() { let x = subgroupAdd(1.0); }"


@pytest.mark.parametrize(
    ("code", "fields", "message"),
    [
        ("enable f16;\n\nfn f() {}", {}, "uses f16, which target 'gpu' lacks"),
        ("// by hand\nenable subgroups, f16;\nfn f() {}", {"subgroups": True}, "uses f16, which target 'gpu' lacks"),
        (SUBGROUPS, {}, "uses subgroups, which target 'gpu' lacks"),
        ("@builtin(subgroup_size) subgroup_size: u32,", {}, "uses subgroups, which target 'gpu' lacks"),
        ("enable subgroups;\n" + SUBGROUPS, {"subgroups": True}, "has `enable subgroups;`, .* does not take"),
        (
            SUBGROUPS,
            {"subgroups": True, "shader_dialect": "standard"},
            "uses subgroups without `enable subgroups;`, .* demands",
        ),
    ],
)
def test_features_and_dialect(code: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=f"kernel 'update' of 'training' {message}"):
        with_kernel(code=code).check_fits(Target(name="gpu", **fields))


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("fn f() { let my_subgroup = 1; let enable_f16 = 2; }", {}),
        ("enable f16;\nfn f() {}", {"f16": True}),
        (SUBGROUPS, {"subgroups": True}),
        (
            "enable subgroups;\nenable f16;\n" + SUBGROUPS,
            {"subgroups": True, "f16": True, "shader_dialect": "standard"},
        ),
    ],
)
def test_features_that_are_there(code: str, fields: dict[str, Any]) -> None:
    with_kernel(code=code).check_fits(Target(name="gpu", **fields))


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "program.safetensors"
    program = training_program()
    program.save(path)
    assert Program.load(path) == (program, {})
    program.save(path, STATE_VALUES)
    loaded, state = Program.load(path)
    assert loaded == program
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["plain", path.name]
    assert state.keys() == STATE_VALUES.keys()
    for name, value in STATE_VALUES.items():
        assert state[name].dtype == value.dtype
        np.testing.assert_array_equal(state[name], value)
    with safe_open(path, framework="numpy") as file:
        keys = set(file.keys())
    assert keys == {"parameter/weight", "state/count", "state/frozen", "state/half", "state/empty", "constant/bias"}


def test_save_takes_strided_arrays(tmp_path: Path) -> None:
    path = tmp_path / "program.safetensors"
    strided = np.arange(10, dtype=np.float32)[::-2]
    training_program().save(path, {**STATE_VALUES, "weight": strided})
    np.testing.assert_array_equal(Program.load(path)[1]["weight"], strided)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": np.zeros(4, np.float32)}, r"parameter 'weight': expected f32 of shape \(5,\), got float32 of"),
        ({"weight": np.zeros(5)}, "got float64"),
        ({"other": np.zeros(5)}, "unknown other"),
    ],
)
def test_foreign_state_leaves_the_file(tmp_path: Path, change: dict[str, np.ndarray], message: str) -> None:
    path = tmp_path / "program.safetensors"
    training_program().save(path, STATE_VALUES)
    before = path.read_bytes()
    with pytest.raises(InputError, match=message):
        training_program().save(path, {**STATE_VALUES, **change})
    with pytest.raises(InputError, match="missing count, empty, frozen, half"):
        training_program().save(path, {"weight": STATE_VALUES["weight"]})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_statistics_must_be_json(tmp_path: Path) -> None:
    program = dataclasses.replace(training_program(), statistics={"loss": float("nan")})
    with pytest.raises(ProgramError, match="statistics that are not JSON"):
        program.save(tmp_path / "program.safetensors")


def write_file(path: Path, metadata: dict[str, str] | None, **tensors: np.ndarray) -> Path:
    save_file(tensors or {"a": np.zeros(1)}, path, metadata=metadata)
    return path


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    with pytest.raises(FileNotFoundError):
        Program.load(path)
    path.write_bytes(b"no such thing")
    with pytest.raises(ProgramError, match="is not a safetensors file"):
        Program.load(path)
    with pytest.raises(ProgramError, match="holds no program"):
        Program.load(write_file(path, None))
    for version, advice in (
        ("9", "update tensorgrad"),
        ("1", "save the program again"),
        ("x", "save the program again"),
    ):
        metadata = {"format": "tensorgrad-program", "format_version": version, "program": "{}"}
        with pytest.raises(
            ProgramError, match=f"is of format version {version}; this release reads version 2: {advice}$"
        ):
            Program.load(write_file(path, metadata))


@pytest.mark.parametrize("change", [{"kernels": None}, {"plan": [{"op": "jump"}]}, {"name": None, "more": 1}, {}])
def test_malformed_files(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "file.safetensors"
    training_program().save(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    content = json.loads(metadata["program"]) | change
    text = json.dumps(content) if change else "{"
    with pytest.raises(ProgramError, match="malformed program"):
        Program.load(write_file(path, {**metadata, "program": text}, **{"constant/bias": np.zeros(20, np.uint8)}))


def test_truncated_state(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    training_program().save(path, STATE_VALUES)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in ("parameter/weight", "constant/bias")}
    with pytest.raises(ProgramError, match="missing count, empty, frozen, half"):
        Program.load(write_file(path, metadata, **tensors))


def test_saving_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-folder"):
        training_program().save(tmp_path / "no-folder" / "program.safetensors")
