"""The command `tg`: tables of dispatch times, tuned schedules, and errors for bad input."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.runtime.profile import DispatchTime, Profile
from tensorgrad.runtime.webgpu import WebGPUDevice, profile
from tensorgrad.tools import bench, tg_opt
from tensorgrad.tools.tg import main

LOSS = """
func.func @loss(%w: tensor<40x30xf32> {tg.name = "w", tg.role = "parameter"},
                %x: tensor<20x40xf32> {tg.name = "x", tg.role = "input"},
                %rate: tensor<f32> {tg.name = "rate", tg.role = "scalar", tg.formula = "learning_rate / step"})
    -> (tensor<f32> {tg.name = "loss", tg.role = "output"}, tensor<40x30xf32> {tg.name = "w", tg.role = "update"}) {
  %0 = tg.dot_general %x, %w lhs_batch = [] rhs_batch = [] lhs_contracting = [1] rhs_contracting = [0]
    : tensor<20x40xf32>, tensor<40x30xf32>
  %1 = tg.sum %0 axes = [0, 1] : tensor<20x30xf32>
  %2 = tg.broadcast %rate shape = [40, 30] dims = [] : tensor<f32>
  %3 = tg.sub %w, %2 : tensor<40x30xf32>, tensor<40x30xf32>
  func.return %1, %3 : tensor<f32>, tensor<40x30xf32>
}
"""

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Records the arguments of each profile."""
    calls: list[dict[str, Any]] = []
    original = profile.profile

    def watched(executable: Any, inputs: Any, scalars: Any, steps: int) -> Any:
        parameters = executable.read(executable.program.slots("parameter"))
        calls.append({"inputs": inputs, "scalars": scalars, "steps": steps, "parameters": parameters})
        return original(executable, inputs, scalars, steps)

    monkeypatch.setattr(profile, "profile", watched)
    return calls


def rows(output: str) -> list[list[str]]:
    """Returns the cells of the table's rows."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_ir(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, steps: list[dict[str, Any]]
) -> None:
    (tmp_path / "loss.mlir").write_text(LOSS)
    assert main(["bench", str(tmp_path / "loss.mlir"), "--steps", "2"]) == 0
    *kernels, every, step = rows(capsys.readouterr().out)
    assert len(kernels) >= 2
    assert sum(int(row[3]) for row in kernels) == int(every[3])
    assert every[0] == "all dispatches"
    assert every[5] == "100.0%"
    assert step[0] == "a step, awaited"
    (call,) = steps
    assert call["steps"] == 2
    assert call["scalars"] == {"learning_rate": bench.SETTING, "step": 1.0}
    assert call["inputs"]["x"].std() == pytest.approx(1, rel=0.1)
    assert call["parameters"]["w"].std() == pytest.approx(0.02, rel=0.1)
    monkeypatch.setattr("sys.stdin", io.StringIO(LOSS))
    np.savez(tmp_path / "inputs.npz", x=np.full((20, 40), 3.0))
    assert main(["bench", "-", "--steps", "1", "--rows", "1", "--inputs", str(tmp_path / "inputs.npz")]) == 0
    others = rows(capsys.readouterr().out)[1]
    assert others[0] == f"{len(kernels) - 1} others"
    assert (steps[1]["inputs"]["x"] == 3).all()


@pytest.mark.nightly
def test_tuning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, steps: list[dict[str, Any]]
) -> None:
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "loss.mlir").write_text(LOSS)
    assert main(["bench", str(tmp_path / "loss.mlir"), "--steps", "1", "--tune", "20"]) == 0
    *_, gain, last_line = capsys.readouterr().out.splitlines()
    assert gain.startswith("before tuning: ")
    path = Path(last_line.removeprefix("schedules are kept in "))
    assert path.parent == tmp_path / "cache" / "schedules"
    assert json.loads(path.read_text())["kernels"]
    assert len(steps) == 2


def trained(device: tg.DeviceName = "wgpu") -> tg.Training:
    return tg.compile(
        tg.nn.Sequential(*(tg.nn.Linear(8, 8) for _ in range(3))),
        loss=lambda model, x, labels: tg.cross_entropy(model(x), labels),
        optimizer=tg.optim.adam(tg.optim.schedules.cosine(0.25, 10)),
        inputs={"x": (4, 8), "labels": tg.spec(4, "i32")},
        device=device,
    )


def test_a_saved_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: WebGPUDevice, steps: list[dict[str, Any]]
) -> None:
    training, path = trained(), tmp_path / "program.safetensors"
    for _ in range(3):
        training.step(x=np.ones((4, 8)), labels=np.arange(4))
    training.save(path)
    before = path.read_bytes()
    kind = "software" if device.target.software else "hardware"
    assert main(["bench", str(path), "--steps", "1", "--rows", "100", "--device", kind]) == 0
    *kernels, every, _ = rows(capsys.readouterr().out)
    assert int(every[3]) == training.stats()["dispatches"]
    assert any(row[1].startswith("test_tg.py:") for row in kernels)
    (call,) = steps
    assert call["scalars"]["step"] == 4
    assert call["scalars"]["learning_rate"] == training.settings["learning_rate"]
    assert not call["inputs"]["labels"].any()
    for name, value in training.parameters().items():
        np.testing.assert_array_equal(call["parameters"][name], value)
    assert path.read_bytes() == before


def test_dispatches_of_one_kernel_from_one_line_are_one_row() -> None:
    def one(kernel: str, label: str, seconds: float) -> DispatchTime:
        return DispatchTime(kernel, label, (1, 2, 3), 2, seconds)

    timed = Profile((one("a", "x:1", 1.0), one("b", "x:1", 2.0), one("a", "x:1", 4.0), one("a", "x:2", 8.0)), 9)
    assert [(row.kernel, row.label, row.times, row.seconds) for row in timed.kernels()] == [
        ("a", "x:1", 4, 5.0),
        ("b", "x:1", 2, 2.0),
        ("a", "x:2", 2, 8.0),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.mlir", None, "No such file"),
        ("missing.safetensors", None, "No such file"),
        ("text.safetensors", "nothing", "is not a safetensors file"),
        ("wrong.mlir", "func.func @f() { foo }", "Operation foo is not registered"),
        ("empty.mlir", "builtin.module {}", "expected exactly one function"),
    ],
)
def test_bad_files(
    name: str, content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert main(["bench", str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("tg: error: ")
    assert message in error


def test_another_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loss.mlir").write_text(LOSS)
    below = str(tmp_path / "below.mlir")
    assert tg_opt.main([str(tmp_path / "loss.mlir"), "-p", "inference-pipeline", "-o", below]) == 0
    assert main(["bench", below]) == 1
    assert "is at level wgsl; functions at level tg or buf are compiled" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["cpu", "software"])
def test_kernels(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels are compiled as they are, with the recipes that some have; there is nothing to tune."""
    (tmp_path / "loss.mlir").write_text(LOSS)
    kernels, passes = str(tmp_path / "kernels.mlir"), ["lower-tg-to-buf,fuse", "lower-tg-to-buf,fuse,schedule"]
    for listed in passes if kind == "software" else passes[:1]:
        assert tg_opt.main([str(tmp_path / "loss.mlir"), "-p", listed, "-o", kernels]) == 0
        assert main(["bench", kernels, "--device", kind, "--steps", "1"]) == 0
        assert "all dispatches" in capsys.readouterr().out
    assert main(["bench", kernels, "--device", kind, "--tune", "1"]) == 1
    assert "--tune is for the level tg" in capsys.readouterr().err
    assert tg_opt.main([str(tmp_path / "loss.mlir"), "-p", "lower-tg-to-buf", "-o", kernels]) == 0
    text = Path(kernels).read_text()
    recipe = re.sub(
        r"(buf\.kernel .*?) \{$", r"\1 recipe = #buf.recipe<collapse, map(to = [task])> {", text, flags=re.M
    )
    Path(kernels).write_text(recipe)
    assert main(["bench", kernels, "--device", kind, "--steps", "1"]) == (0 if kind == "cpu" else 1)
    printed = capsys.readouterr()
    assert "recipe0" in printed.out if kind == "cpu" else "of which only native code is made" in printed.err


def test_inputs_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loss.mlir").write_text(LOSS)
    np.savez(tmp_path / "inputs.npz", y=np.ones(3))
    assert main(["bench", str(tmp_path / "loss.mlir"), "--inputs", str(tmp_path / "inputs.npz")]) == 1
    assert "unknown input 'y'" in capsys.readouterr().err


def test_a_saved_program_has_its_schedules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained("numpy").save(tmp_path / "program")
    assert main(["bench", str(tmp_path / "program"), "--tune", "1"]) == 1
    assert "--tune is for .mlir files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["bench"], ["bench", "f", "--steps", "0"], ["bench", "f", "--tune", "-1"], ["bench", "f", "--device", "tpu"]],
)
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert "usage: tg" in capsys.readouterr().err


FILE_ERRORS = {
    "missing.mlir": "missing.mlir: No such file or directory",
    "folder.mlir": "folder.mlir: Is a directory",
    "empty.mlir": "empty.mlir is empty",
    "bad.mlir": "bad.mlir:1:1\ngarbage\n^^^^^^^\nOperation garbage is not registered",
}
"""What `tg report` says of files that hold no IR, once each."""


@pytest.mark.parametrize("name", FILE_ERRORS)
def test_a_file_that_holds_no_ir_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.mlir").mkdir()
    Path("empty.mlir").touch()
    Path("bad.mlir").write_text("garbage\n")
    assert main(["report", name]) == 1
    assert capsys.readouterr().err == f"tg: error: {FILE_ERRORS[name]}\n"


def test_ir_has_no_saved_contents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "f.mlir"]) == 1
    expected = "f.mlir is IR, expected a saved program; `tg run`, `tg bench` and `tg report` take IR"
    assert capsys.readouterr().err == f"tg: error: {expected}\n"


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_what_is_no_saved_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert main([command, "folder"]) == 1
    assert capsys.readouterr().err == "tg: error: folder: Is a directory\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reprot", "f.mlir"], "tg: error: there is no command 'reprot'; did you mean report?"),
        (["frobnicate"], "tg: error: there is no command 'frobnicate'; choose from bench, cache, completion, devices,"),
        (["report", "f.mlir", "--txt"], "tg report: error: unrecognized arguments: --txt; did you mean --text?"),
        (["cache", "list"], "tg cache: error: unrecognized arguments: list"),
        (["run", "f.tg", "--steps", "x"], "tg run: error: argument --steps: must be a whole number, got 'x'"),
        (["serve", ".", "--port", "x"], "tg serve: error: argument --port: must be a whole number, got 'x'"),
        (["bench", "f.tg", "--tune", "x"], "argument --tune: must be a number of seconds that is not negative, got x"),
    ],
)
def test_a_wrong_command_line_gets_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.startswith(f"usage: tg {'' if 'no command' in message else arguments[0]}")


def test_files_without_arrays_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for start in (b"words", b"PK\x03\x04words"):
        path = tmp_path / "x.npy"
        path.write_bytes(start)
        assert main(["run", "f.tg", "--input", f"x={path}"]) == 1
        expected = f"--input x: {path} is not an .npy file of numbers"
        assert capsys.readouterr().err.endswith(f": {expected}\n")


def test_a_training_that_is_nowhere_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "missing.py"]) == 1
    assert "missing.py: No such file or directory\n" in capsys.readouterr().err
