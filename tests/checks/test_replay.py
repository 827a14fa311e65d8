"""`tg replay` and `Training.replay`: a past step op by op, from its checkpoint, key and batch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.checks.inspection import Inspected
from tensorgrad.errors import InputError, OptionError
from tensorgrad.tools.tg import main

pytestmark = pytest.mark.usefixtures("kept_programs")

SCRIPT = '''\
"""A training with noise, and several names for it."""

import sizes
import tensorgrad as tg


def loss(model, x, key):
    noise = tg.random.normal(key, x.shape)
    return tg.mean((model(x) - noise) ** 2), {"square": tg.mean(model(x) ** 2)}


def compiled(device="cpu", **options):
    model = tg.nn.Sequential(tg.nn.Linear(sizes.WIDTH, 8), tg.relu, tg.nn.Linear(8, sizes.WIDTH))
    inputs = {"x": (4, sizes.WIDTH)}
    return tg.compile(model, loss=loss, optimizer=tg.optim.adam(0.05), inputs=inputs, device=device, **options)


def broken():
    return 1 / 0


def faulty():
    return tg.compile(
        tg.nn.Linear(sizes.WIDTH, 2),
        loss=lambda model, x: tg.mean(tg.log(model(x) - 100)),  # the fault
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, sizes.WIDTH)},
        device="numpy",
    )


TEXT = "no training"

if __name__ == "__main__":
    raise SystemExit("it is imported, not run")
'''

COMMAND = str(Path(sys.executable).with_name("tg"))
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a script, a module that it imports, and a batch; imports are undone afterwards."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "sizes.py").write_text("WIDTH = 3\n", encoding="utf-8")
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "batch.npz", x=X)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in ("script", "sizes", "one", "two", "none"):
        if name not in before:
            sys.modules.pop(name, None)


def namespace(folder: Path) -> dict[str, Any]:
    """Returns the names that the script defines."""
    sys.path.insert(0, str(folder))
    names: dict[str, Any] = {"__name__": "script"}
    exec(compile(SCRIPT, folder / "script.py", "exec"), names)
    return names


def printed(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Returns the output of a successful command."""
    assert main(["replay", *map(str, args)]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Returns the message of a failing command, without the line of the call in this file."""
    assert main(["replay", *map(str, args)]) == 1
    text = capsys.readouterr().err.removeprefix("tg: error: ").rstrip("\n")
    return re.sub(rf"^{re.escape(__file__)}:\d+: ", "", text)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_a_step_of_the_past_has_the_loss_that_the_device_had(
    device: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only if parameters, state, settings, step count and key are those of that step."""
    training = namespace(folder)["compiled"](device)
    losses: list[float] = []
    for step in range(4):
        training.save_checkpoint(folder / f"{step}.safetensors")
        loss, _ = training.step(x=X)
        losses.append(float(loss))
    assert len({round(loss, 3) for loss in losses}) == 4
    for step in (0, 3):
        checkpoint = folder / f"{step}.safetensors"
        report = json.loads(
            printed(capsys, "script.py:compiled", "--checkpoint", checkpoint, "--batch", "batch.npz", "--json")
        )
        assert report["step"] == step + 1
        np.testing.assert_allclose(report["results"]["0"], losses[step], rtol=1e-5)
    np.testing.assert_allclose(training.parameters()["0.weight"], _updated(training, folder, 3), rtol=1e-4, atol=1e-6)


def _updated(training: Any, folder: Path, step: int) -> np.ndarray:
    """Returns a weight after a step on the reference."""
    training.load_checkpoint(folder / f"{step}.safetensors")
    gradients: list[np.ndarray] = []

    def look(inspected: Inspected) -> None:
        if inspected.phase == "update" and inspected.value.shape == (3, 8):
            gradients.append(np.array(inspected.value))

    training.replay(look, x=X)
    after = gradients[-1]
    training.step(x=X)
    return after


def test_keys_are_drawn_to_the_same_bits(folder: Path) -> None:
    training = namespace(folder)["compiled"]("cpu")
    training.step(x=X)
    (drawn,) = (inspected.value for inspected in training.inspect("tg.threefry", x=X))
    key = tg.random.fold_in(tg.random.key(0), 2)
    bits = np.asarray(tg.random.bits(key, (4, 3)))
    assert drawn.ravel().tobytes() == bits.ravel().tobytes()


def test_every_value_is_given_and_nothing_changes(folder: Path) -> None:
    training = namespace(folder)["compiled"]()
    before = training.state_dict()
    seen: list[tuple[str, str]] = []
    loss, metrics = training.replay(lambda inspected: seen.append((inspected.op, inspected.phase)), x=X)
    assert {phase for _, phase in seen} == {"forward", "backward", "update"}
    assert ("tg.sqrt", "update") in seen and ("tg.relu", "forward") in seen
    after = training.state_dict()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
    there, expected = training.step(x=X)
    np.testing.assert_allclose(float(loss), float(there), rtol=1e-5)
    np.testing.assert_allclose(float(metrics["square"]), float(expected["square"]), rtol=1e-5)
    with pytest.raises(InputError, match="replay makes the input 'key' itself"):
        training.replay(print, x=X, key=np.zeros(2, np.uint32))
    with pytest.raises(OptionError, match="no op of the step is from 'nowhere'"):
        training.replay(print, "nowhere", x=X)


@pytest.mark.nightly
def test_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "script.py:compiled", "--input", "x=x.npy", "--rows", 4)
    first, head, *rows, last = text.splitlines()
    assert first.startswith("step 1: ") and " values, 0 " in first and "1.square" in first
    assert head.split() == ["op", "phase", "line", "module", "type", "least", "most", "mean", "not", "finite"]
    assert len(rows) == 4 and last == f"and {int(first.split()[2]) - 4} others"
    (row,) = (
        printed_line
        for printed_line in printed(capsys, "script.py:compiled", "--input", "x=x.npy", "--at", "2").splitlines()
        if "(result)" in printed_line
    )
    assert row.split()[:6] == ["tg.add", "forward", "script.py:9", "2", "(result)", "float32[4,"]


def test_values_as_json_and_as_arrays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["script.py:compiled", "--input", "x=x.npy", "--at", "tg.relu", "--out", "values.npz"]
    report = json.loads(printed(capsys, *command, "--json"))
    (entry,) = report["values"]
    with np.load(folder / "values.npz") as arrays:
        assert arrays.files == ["000000 forward tg.relu"]
        value = arrays["000000 forward tg.relu"]
    assert (entry["op"], entry["phase"], entry["shape"], entry["dtype"]) == ("tg.relu", "forward", [4, 8], "float32")
    assert (entry["nans"], entry["infinities"], entry["first"]) == (0, 0, None)
    np.testing.assert_allclose([entry["least"], entry["most"], entry["mean"]], [value.min(), value.max(), value.mean()])


def test_blame(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = 1 + next(number for number, text in enumerate(SCRIPT.splitlines()) if "# the fault" in text)
    text = printed(capsys, "script.py:faulty", "--input", "x=x.npy", "--blame")
    assert text.startswith(f"step 1: {folder / 'script.py'}:{line}: tg.log of the loss makes 8 NaN of 8 elements")
    blame = json.loads(printed(capsys, "script.py:faulty", "--input", "x=x.npy", "--blame", "--json"))["blame"]
    assert (blame["op"], blame["phase"], blame["result"]["nans"]) == ("tg.log", "forward", 8)
    assert blame["operands"][0]["dtype"] == "float32"
    text = printed(capsys, "script.py:compiled", "--input", "x=x.npy", "--blame")
    assert text == "step 1: every value that it gives is finite\n"
    assert json.loads(printed(capsys, "script.py:compiled", "--input", "x=x.npy", "--blame", "--json")) == {
        "step": 1,
        "blame": None,
    }


@pytest.mark.nightly
def test_micro_batches_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "two.py").write_text("import script\n\ntraining = script.compiled(accumulate=2)\n", encoding="utf-8")
    training = namespace(folder)["compiled"](accumulate=2)
    for _ in range(3):
        training.step(x=X)
    training.save_checkpoint("half.safetensors")
    text = printed(capsys, "two.py", "--checkpoint", "half.safetensors", "--input", "x=x.npy", "--rows", 1)
    assert text.startswith("step 2, micro-batch 2 of 2: ")


@pytest.mark.nightly
def test_which_training_is_meant(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--input", "x=x.npy"]
    (folder / "one.py").write_text("import script\n\nfirst = again = script.compiled()\n", encoding="utf-8")
    assert printed(capsys, "one.py", *arguments).startswith("step 1: ")
    assert printed(capsys, "one.py:again", *arguments).startswith("step 1: ")
    (folder / "two.py").write_text("import script\n\na, b = script.compiled(), script.faulty()\n", encoding="utf-8")
    advice = "name one, or a function that returns one, as in two.py:NAME"
    assert refused(capsys, "two.py", *arguments) == f"two.py has the trainings a, b: {advice}"
    advice = advice.replace("two", "script")
    assert refused(capsys, "script.py", *arguments) == f"script.py has no training at its level: {advice}"
    neither = "is neither a training nor a function without arguments that returns one"
    assert refused(capsys, "script.py:TEXT", *arguments) == f"script.py: TEXT {neither}"
    assert refused(capsys, "script.py:nothing", *arguments) == f"script.py: nothing {neither}"
    assert refused(capsys, "script.py:broken", *arguments) == "script.py: ZeroDivisionError: division by zero"


@pytest.mark.nightly
def test_what_does_not_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script_training = "script.py:compiled"
    namespace(folder)["faulty"]().save_checkpoint("other.safetensors")
    assert "other.safetensors: the state is not this training's" in refused(
        capsys, script_training, "--checkpoint", "other.safetensors", "--input", "x=x.npy"
    )
    assert "missing input 'x'" in refused(capsys, script_training)
    assert refused(capsys, script_training, "--batch", "batch.npz", "--input", "x=x.npy") == (
        "an input is given twice, by --batch and --input or by two of these"
    )
    assert (
        refused(capsys, script_training, "--batch", "x.npy")
        == "x.npy holds one array without a name; expected an .npz file, whose arrays have names"
    )
    nowhere = "inspect: no op of the step is from '1'; there are the modules 2, 0"
    assert refused(capsys, script_training, "--input", "x=x.npy", "--at", "1") == nowhere
    assert refused(capsys, script_training, "--input", "x=x.npy", "--blame", "--at", "2") == (
        "--blame covers the whole step and writes no values: leave out --at and --out"
    )
    assert "No such file" in refused(capsys, "missing.py:compiled")
    assert refused(capsys, "training.tg") == (
        "training.tg: a step is replayed from the Python file that compiles the training: a saved program has kernels, "
        "and none of the ops that they are made of"
    )
    script = subprocess.run(
        [COMMAND, "replay", script_training, "--input", "x=x.npy", "--at", "1"], capture_output=True, text=True
    )
    assert (script.returncode, script.stderr) == (1, f"tg: error: {nowhere}\n"), "the line of the script is not named"
    (folder / "none.py").write_text("import sizes\n\nsizes.missing\n", encoding="utf-8")
    assert refused(capsys, "none.py") == "none.py: AttributeError: module 'sizes' has no attribute 'missing'"
