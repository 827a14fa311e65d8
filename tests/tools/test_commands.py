"""`tg devices`, `inspect`, `run` and `cache`: tables for people, JSON for programs, and errors for bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import tensorgrad as tg
from tensorgrad.runtime.errors import NoAdapterError
from tensorgrad.runtime.webgpu import WebGPUDevice
from tensorgrad.tools.parsing import parse_module
from tensorgrad.tools.pass_pipeline import read_pipeline
from tensorgrad.tools.tg import COMMANDS, main
from tensorgrad.tools.tg_opt import TgOpt

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def loss(model: Any, x: tg.Tensor) -> tg.Tensor:
    return tg.mean(model(x) ** 2)


@pytest.fixture
def training() -> tg.Training:
    return tg.compile(tg.nn.Linear(4, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (3, 4)}, device="cpu")


@pytest.fixture
def folder(tmp_path: Path, training: tg.Training) -> Path:
    """A folder with a saved training, a saved function, and an input for both."""
    training.save(tmp_path / "training.tg")
    predict = training.attach(lambda model, x: {"scores": model(x), "best": tg.argmax(model(x), axis=1)})
    predict(x=X)
    predict.save(tmp_path / "predict.tg")
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Returns the output of a successful command."""
    assert main(list(map(str, args))) == 0
    return capsys.readouterr().out


def test_run_a_function(folder: Path, capsys: pytest.CaptureFixture[str], training: tg.Training) -> None:
    out = folder / "out.npz"
    command = ["run", folder / "predict.tg", "--input", f"x={folder / 'x.npy'}", "--device", "cpu"]
    table = printed(capsys, *command, "--out", out)
    assert "scores" in table and "float32[3, 2]" in table and "best" in table
    values = training.parameters()
    expected = X @ values["weight"] + values["bias"]
    with np.load(out) as outputs:
        np.testing.assert_allclose(outputs["scores"], expected, rtol=1e-5, atol=1e-6)
        assert (outputs["best"] == expected.argmax(axis=1)).all()
    results = json.loads(printed(capsys, *command, "--json"))["results"]
    np.testing.assert_allclose(results["scores"], expected, rtol=1e-5, atol=1e-6)


def test_run_steps_of_a_training(folder: Path, capsys: pytest.CaptureFixture[str], training: tg.Training) -> None:
    losses = [float(training.step(x=X)) for _ in range(3)]
    command = ["run", folder / "training.tg", "--input", f"x={folder / 'x.npy'}", "--device", "cpu", "--json"]
    printed_results = json.loads(printed(capsys, *command, "--steps", 2, "--save", folder / "later.tg"))
    assert printed_results["results"] == {"result": losses[1]}
    command[1] = folder / "later.tg"
    assert json.loads(printed(capsys, *command))["results"] == {"result": losses[2]}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "predict.tg takes these inputs (missing: x)\n  --input x=FILE.npy  f32[3, 4]\n"),
        (["x"], "--input takes name=file.npy or name=numbers, got 'x'"),
        (["x=none.npy"], "No such file"),
        (["x=text.npy"], "text.npy is not an .npy file of numbers"),
        (["y=x.npy"], "predict.tg takes these inputs (missing: x; unknown: y)\n  --input x="),
    ],
)
def test_run_refuses(
    inputs: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "text.npy").write_text("text")
    arguments = [part for named_file in inputs for part in ("--input", named_file)]
    assert main(["run", "predict.tg", "--device", "cpu", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_folders_of_results_are_made(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command = ["run", "training.tg", "--input", "x=x.npy", "--device", "cpu"]
    printed(capsys, *command, "--out", "new/values/out.npz", "--save", "new/later.tg")
    assert (folder / "new" / "values" / "out.npz").exists() and (folder / "new" / "later.tg").exists()
    assert main([*command, "--out", "x.npy/out.npz"]) == 1
    assert capsys.readouterr().err == "tg: error: x.npy: File exists\n"


def test_a_file_that_cannot_be_written_is_named_as_the_user_does(
    training: tg.Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        training.save("missing/training.tg")
    assert caught.value.filename == "missing/training.tg"


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("command", ["devices", "inspect", "run", "bench", "cache"])
def test_tables_fit_narrow_consoles(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table would cut words of a letter or two; each row is a block of lines instead."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TENSORGRAD_CACHE", "cache")
    options = {
        "inspect": ["predict.tg"],
        "run": ["predict.tg", "--input", "x=x.npy", "--device", "cpu"],
        "bench": ["predict.tg", "--device", "cpu", "--steps", "1"],
    }
    words: dict[int, set[str]] = {}
    for width in (40, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = [line for line in printed(capsys, command, *options.get(command, [])).splitlines() if ": " not in line]
        assert max(map(len, lines)) <= width
        words[width] = {word for line in lines for word in line.split() if word.isalpha() and len(word) <= 12}
    assert words[200] - words[40] <= {"GFLOP"}


def test_native_code_runs_only_where_it_is_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder / "predict.tg")]) == 1
    assert 'if you trust the file, ask for the device "cpu", which runs it' in capsys.readouterr().err


def test_inspect(folder: Path, capsys: pytest.CaptureFixture[str], training: tg.Training) -> None:
    table = printed(capsys, "inspect", folder / "training.tg")
    assert table.startswith(f"loss: a step, {training.stats()['dispatches']} dispatches")
    assert "f32[4, 2]" in table and "test_commands.py" in table
    description = json.loads(printed(capsys, "inspect", folder / "training.tg", "--json"))
    assert description["tensors"]["parameter"]["weight"] == {"type": "f32[4, 2]", "bytes": 32, "formula": None}
    assert description["settings"] == {"learning_rate": 0.1}
    assert sum(kernel["dispatches"] for kernel in description["kernels"]) == training.stats()["dispatches"]
    assert description["statistics"]["peak_bytes"] == training.stats()["peak_bytes"]
    assert "18 others" not in printed(capsys, "inspect", folder / "predict.tg")
    assert "others" in printed(capsys, "inspect", folder / "training.tg", "--rows", 1)


def test_inspect_says_what_a_program_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = tg.compile(
        tg.nn.MLP(64, 64, 64),
        loss=loss,
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (64, 64)},
        device="wgpu",
        precision="f16",
    )
    training.save(tmp_path / "half.tg")
    assert "needs " in printed(capsys, "inspect", tmp_path / "half.tg")
    assert json.loads(printed(capsys, "inspect", tmp_path / "half.tg", "--json"))["needs"]["f16"] is True


def test_inspect_refuses_what_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("text")
    assert main(["inspect", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("tg: error: ")


def test_devices(capsys: pytest.CaptureFixture[str], device: WebGPUDevice) -> None:
    table = printed(capsys, "devices")
    assert "NumPy" in table and "LLVM" in table
    listed = json.loads(printed(capsys, "devices", "--json"))
    assert [entry["device"] for entry in listed["devices"]] == [entry.device for entry in tg.devices()]
    assert listed["missing"] == {}
    targets = {entry["device"]: entry["target"] for entry in listed["devices"]}
    assert targets["wgpu"]["max_buffer_size"] == device.target.max_buffer_size and targets["numpy"] is None


def test_devices_say_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NoAdapterError("no adapter: install mesa-vulkan-drivers")

    monkeypatch.setattr("tensorgrad.runtime.webgpu.WebGPUDevice", refuse)
    assert "install mesa-vulkan-drivers" in printed(capsys, "devices")
    assert "install" in json.loads(printed(capsys, "devices", "--json"))["missing"]["wgpu"]


def test_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORGRAD_CACHE", str(tmp_path / "ours"))
    monkeypatch.setenv("TENSORGRAD_CACHE_OBJECTS", str(tmp_path / "objects"))
    monkeypatch.setenv("TENSORGRAD_CACHE_PROGRAMS", "1")
    (tmp_path / "objects").mkdir(mode=0o700)  # whatever the umask
    (tmp_path / "objects" / "notes.txt").write_text("not ours")
    tg.compile(tg.nn.Linear(4, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (3, 4)}, device="cpu")
    caches = json.loads(printed(capsys, "cache", "--json"))
    assert caches["programs"]["files"] == 1 and caches["programs"]["bytes"] > 1000
    assert caches["native code"]["files"] > 0
    assert "deleted" in printed(capsys, "cache", "--clear")
    assert {cache["files"] for cache in json.loads(printed(capsys, "cache", "--json")).values()} == {0}
    assert (tmp_path / "objects" / "notes.txt").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main([name, "--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text and "Attributes" not in text


def test_it_prints_its_help_when_it_is_alone(capsys: pytest.CaptureFixture[str]) -> None:
    help_text = printed(capsys)
    assert help_text.startswith("usage: tg ") and all(name in help_text for name in COMMANDS)
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert (caught.value.code, capsys.readouterr().out) == (0, help_text)


@pytest.mark.parametrize("arguments", [[], ["--version"], ["--help"], ["nothing"]])
def test_it_answers_without_what_it_does_not_need(arguments: list[str]) -> None:
    probe = (
        "import sys\n"
        "from tensorgrad.tools.tg import main\n"
        "try:\n"
        f"    main({arguments})\n"
        "except SystemExit:\n"
        "    pass\n"
        "loaded = {'numpy', 'rich', 'xdsl', 'wgpu', 'llvmlite', 'shtab'} & set(sys.modules)\n"
        "print('loaded', sorted(loaded))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_narrow_consoles(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    description = capsys.readouterr().out.partition("\n\n")[2]
    assert [line for line in description.splitlines() if len(line) > 40 and len(line.split()) > 1] == []


EXPONENTIAL = """
func.func @main(%x: tensor<3xf32> {tg.name = "x", tg.role = "input"},
    %rate: tensor<f32> {tg.name = "rate", tg.role = "scalar", tg.formula = "learning_rate"})
    -> (tensor<3xf32> {tg.name = "y", tg.role = "output"}) {
  %0 = tg.exp %x : tensor<3xf32>
  %1 = tg.broadcast %rate shape = [3] dims = [] : tensor<f32>
  %2 = tg.mul %0, %1 : tensor<3xf32>, tensor<3xf32>
  func.return %2 : tensor<3xf32>
}
"""

LEVELS = {
    "tg": (),
    "buf": ("lower-tg-to-buf",),
    "buf with a memory plan": ("lower-tg-to-buf", "fuse", "schedule", "plan-memory"),
    "wgsl": ("inference-pipeline",),
    "llvm": ("inference-pipeline{target=cpu}",),
}


def lowered(passes: Sequence[str]) -> str:
    """Returns the exponential after some passes."""
    module = parse_module(EXPONENTIAL, "exponential.mlir")
    for pass_ in read_pipeline(",".join(passes), TgOpt([]).available_passes):
        pass_.apply(Context(), module)
    return str(module)


@pytest.mark.parametrize("level", LEVELS)
def test_run_ir_at_its_own_level(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "exponential.mlir"
    path.write_text(lowered(LEVELS[level]), encoding="utf-8")
    command = ["run", path, "--input", "x=[-1, 0, 2]"]
    expected = np.exp(np.array([-1, 0, 2], np.float32))
    results = json.loads(printed(capsys, *command, "--input", "learning_rate=0.5", "--json"))["results"]
    np.testing.assert_allclose(results["output/y"], expected / 2, rtol=1e-6)
    assert f"at level {level}" in " ".join(printed(capsys, *command).split())
    # Arguments that aren't passed are sampled, the same at every level.
    sampled = [printed(capsys, "run", path, "--json") for _ in range(2)]
    assert sampled[0] == sampled[1]


def test_a_buffer_that_nothing_writes_is_garbage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, first, second = lowered(LEVELS["buf"]).split("buf.kernel")
    assert "math.exp" in first
    path = tmp_path / "edited.mlir"
    path.write_text(f"{before}buf.kernel{second}", encoding="utf-8")
    assert np.isnan(json.loads(printed(capsys, "run", path, "--json"))["results"]["output/y"]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "z=1"], "has no argument z; it has input/x, scalar/rate"),
        (["--input", "x=1"], "input 'x' has shape (3,), the value for it ()"),
        (["--input", "x=[[1, 2], [3]]"], "--input x is not an array"),
        (["--input", "x=[1, null, 2]"], "--input x: [1, null, 2] is not an array of numbers, but of object"),
        (["--input", "x=[1e39, 0, 0]"], "input 'x' has values too large for float32"),
        (["--input", "learning_rate=[1, 2]"], "learning_rate is a number that the host computes with, got int64[2]"),
        (["--device", "cpu"], "is IR, which runs where its level does, once: leave out --device"),
    ],
)
def test_what_ir_does_not_take(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "exponential.mlir"
    path.write_text(EXPONENTIAL, encoding="utf-8")
    assert main(["run", str(path), *options]) == 1
    assert message in capsys.readouterr().err
