"""Saved programs run without the compiler and on other devices, and contain nothing specific to this machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import tensorgrad as tg
from tensorgrad.driver.compiling.recipe import kernel_target
from tensorgrad.errors import ArgumentError, InputError, OptionError, ProgramError
from tensorgrad.runtime.errors import TargetError
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.saved import Saved
from tensorgrad.runtime.target import Target

DEVICES = ["numpy", "cpu", "wgpu"]


class Model(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(6, 16), tg.nn.Linear(16, 3)]
        self.dropout = tg.nn.Dropout(0.5)

    def __call__(self, x: Any) -> Any:
        return self.layers[1](tg.tanh(self.layers[0](x)))


def loss(model: Model, x: Any, y: Any, key: Any) -> Any:
    logits = model(x + 0.1 * tg.random.normal(key, x.shape))
    right = tg.mean(tg.cast(tg.argmax(logits, axis=1) == y, "f32"))
    return tg.cross_entropy(logits, y), {"quality": {"accuracy": right}, "largest": [tg.max(logits), tg.min(logits)]}


class Pair(NamedTuple):
    chances: Any
    label: Any


def predict(model: Model, x: Any) -> Any:
    logits = model(x)
    return {"pair": Pair(tg.softmax(logits), tg.argmax(logits, axis=1)), "nothing": None, "all": [logits]}


def compiled(**options: Any) -> tg.Training:
    settings: dict[str, Any] = {"device": "wgpu", "seed": 2**40 + 7}
    return tg.compile(
        Model(),
        loss=loss,
        optimizer=tg.optim.adamw(tg.optim.schedules.cosine(1e-2, 20), clip_norm=1.0),
        inputs={"x": (8, 6), "y": tg.spec(8, "i32")},
        **{**settings, **options},
    )


def batch(seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(8, 6)).astype(np.float32)
    return {"x": x, "y": np.argmax(x[:, :3], axis=1).astype(np.int32)}


def without_compiler(code: str, folder: Path) -> str:
    """Returns the output of a process that can't import xDSL."""
    before = 'import sys; sys.modules["xdsl"] = None\nimport numpy as np, tensorgrad as tg\n'
    command = [sys.executable, "-W", "error", "-c", before + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def metadata_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="numpy") as file:
        return file.metadata()


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
def test_an_inference_runs_without_the_compiler(device: str, tmp_path: Path) -> None:
    training = compiled(device=device)
    for number in range(3):
        training.step(**batch(number))
    inference = training.attach(predict, inputs={"x": (8, 6)})
    inference.save(tmp_path / "predict.tg")
    x = batch(9)["x"]
    expected = inference(x=x)
    np.save(tmp_path / "x.npy", x)
    where = "cpu" if device == "cpu" else "wgpu"
    code = (
        f'function = tg.load("predict.tg", device="{where}")'
        + """
found = function(x=np.load("x.npy"))
assert list(found) == ["all", "nothing", "pair"] and type(found["all"]) is list and type(found["pair"]) is tuple
assert found["nothing"] is None and function.inputs == {"x": ((8, 6), "f32")}
np.savez("found.npz", chances=found["pair"][0], label=found["pair"][1], logits=found["all"][0])
print(function.device, sorted(function.parameters()))
"""
    )
    printed = without_compiler(code, tmp_path)
    assert printed.startswith(f"{where} (") and "layers.0.weight" in printed
    with np.load(tmp_path / "found.npz") as saved:
        np.testing.assert_allclose(saved["chances"], expected["pair"].chances, rtol=1e-5)
        np.testing.assert_array_equal(saved["label"], expected["pair"].label)
        np.testing.assert_allclose(saved["logits"], expected["all"][0], rtol=1e-4, atol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_training_goes_on_without_the_compiler(accumulate: int, tmp_path: Path) -> None:
    training = compiled(accumulate=accumulate)
    for number in range(4):
        training.step(**batch(number))
    training.set_learning_rate(0.02)
    training.save(tmp_path / "training.tg")
    arrays = {f"{name}{i}": value for i in range(4, 9) for name, value in batch(i).items()}
    np.savez(tmp_path / "batches.npz", allow_pickle=False, **arrays)
    place = 4 // accumulate, accumulate, 4 % accumulate
    code = f"""
training, batches = tg.load("training.tg"), np.load("batches.npz")
assert (training.step_count, training.accumulate, training.accumulated) == {place}
losses = []
for i in range(4, 9):
    if i == 6:
        training.save("again.tg")
        training = tg.load("again.tg")
    loss, metrics = training.step(x=batches[f"x{{i}}"], y=batches[f"y{{i}}"])
    losses.append([float(loss), float(metrics["quality"]["accuracy"]), *map(float, metrics["largest"])])
np.savez("found.npz", losses=losses, **training.parameters())
print(training.step_count, training.accumulated)
"""
    printed = without_compiler(code, tmp_path)
    expected = []
    for number in range(4, 9):
        value, metrics = training.step(**batch(number))
        expected.append([value, metrics["quality"]["accuracy"], *metrics["largest"]])
    assert printed.split() == [str(training.step_count), str(training.accumulated)]
    with np.load(tmp_path / "found.npz") as saved:
        # The same kernels, keys and state: the same bits.
        np.testing.assert_array_equal(saved["losses"], np.array([[float(v) for v in row] for row in expected]))
        for name, value in training.parameters().items():
            np.testing.assert_array_equal(saved[name], value)


@pytest.mark.nightly
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_file_for_another_target(accumulate: int, tmp_path: Path) -> None:
    training = compiled(accumulate=accumulate)
    inference = training.attach(predict, inputs={"x": (8, 6)})
    inference.save(tmp_path / "predict.tg", target="webgpu-default")
    training.save(tmp_path / "training.tg", target="webgpu-default")
    default = Target.named("webgpu-default")
    for name in ("predict.tg", "training.tg"):
        saved = Saved.load(tmp_path / name)
        for program in (saved.program, saved.others):
            if program is not None:
                program.check_fits(default)
                assert program.target is not None and not program.target.f16 and not program.target.subgroups
    x = batch(1)["x"]
    function = tg.load(tmp_path / "predict.tg")
    assert isinstance(function, tg.LoadedFunction)
    with pytest.raises(ProgramError, match="is a function: call it"):
        function.step(x=x)
    np.testing.assert_allclose(function(x=x)["all"][0], inference(x=x)["all"][0], rtol=1e-4, atol=1e-6)
    again = tg.load(tmp_path / "training.tg")
    assert isinstance(again, tg.LoadedTraining)
    with pytest.raises(ProgramError, match=r"is a training: step\(...\) runs a step of it"):
        again(**batch(0))
    for number in range(3):
        np.testing.assert_allclose(again.step(**batch(number))[0], training.step(**batch(number))[0], rtol=1e-4)


@pytest.mark.nightly
def test_a_file_says_what_it_needs(tmp_path: Path) -> None:
    training = compiled()
    training.save(tmp_path / "training.tg")
    program, _ = Program.load(tmp_path / "training.tg")
    device, needs = kernel_target(training._compilation.recipe), program.target
    assert needs is not None and device is not None
    kernels = program.kernels
    assert needs.max_compute_workgroup_storage_size == max(kernel.workgroup_storage for kernel in kernels)
    assert any(kernel.workgroup_storage for kernel in kernels) == any("var<workgroup>" in k.code for k in kernels)
    assert needs.f16 is any("enable f16" in kernel.code for kernel in kernels)
    assert needs.subgroups is any("subgroup" in kernel.code for kernel in kernels)
    assert needs.max_buffer_size == max(buffer.size for buffer in program.buffers) < device.max_buffer_size
    assert device.name not in (tmp_path / "training.tg").read_bytes().decode("latin-1")
    program.check_fits(replace(needs, name="just enough"))
    for limit in (
        "max_storage_buffers_per_shader_stage",
        "max_storage_buffer_binding_size",
        "max_buffer_size",
        "max_compute_workgroup_size_x",
        "max_compute_invocations_per_workgroup",
        "max_compute_workgroup_storage_size",
        "max_compute_workgroups_per_dimension",
    ):
        value = getattr(needs, limit)
        if value > 1:
            with pytest.raises(TargetError, match=limit):
                program.check_fits(replace(needs, **{limit: value - 1}))
    for feature in ("f16", "subgroups"):
        if getattr(needs, feature):
            with pytest.raises(TargetError, match=f"uses {feature}, which target"):
                program.check_fits(replace(needs, **{feature: False}))


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_a_file_names_no_folder_of_this_machine(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def saved(folder: Path) -> list[str]:
        monkeypatch.chdir(folder)
        path = tmp_path / f"{folder.name}.tg"
        compiled(device=device, accumulate=2).save(path)
        text = "".join(metadata_of(path).values())
        assert str(Path.home()) + "/" not in text and str(Path(__file__).parent) not in text
        assert str(Path(tg.__file__).resolve().parent) not in text
        plan = json.loads(metadata_of(path)["program"])["plan"]
        return [step["label"] for step in plan if step["op"] == "dispatch" and step["label"]]

    name = Path(__file__).name
    assert any(label.startswith(f"{name}:") for label in saved(tmp_path))
    root = Path(__file__).parents[2]
    assert any(label.startswith(f"tests/e2e/{name}:") for label in saved(root))


def test_what_the_host_does_is_in_the_file(tmp_path: Path) -> None:
    training = compiled()
    training.save(tmp_path / "training.tg")
    host = json.loads(metadata_of(tmp_path / "training.tg")["host"])
    assert host["kind"] == "step" and host["key"] == [256, 7] and host["made"] == {"key": "fold_in(key(seed), call)"}
    assert host["results"] == {
        "tuple": [
            "loss",
            {
                "dict": {
                    "largest": {"list": ["metrics.largest.0", "metrics.largest.1"]},
                    "quality": {"dict": {"accuracy": "metrics.quality.accuracy"}},
                }
            },
        ]
    }
    loaded = tg.load(tmp_path / "training.tg")
    assert isinstance(loaded, tg.LoadedTraining) and loaded.inputs.keys() == {"x", "y"}
    with pytest.raises(InputError, match="step makes the input 'key' itself"):
        loaded.step(**batch(0), key=np.zeros(2, np.uint32))
    with pytest.raises(InputError, match="no setting 'momentum'"):
        loaded.set(momentum=0.5)
    with pytest.raises(InputError, match="learning_rate must be a finite number"):
        loaded.set(learning_rate=float("nan"))
    loaded.set(learning_rate=0.5)
    training.set_learning_rate(0.5)
    for number in range(2):
        assert float(loaded.step(**batch(number))[0]) == float(training.step(**batch(number))[0])
    with pytest.raises(InputError, match="missing input 'y'"):
        loaded.step(x=batch(0)["x"])
    assert loaded.step_count == 2
    loaded.load_parameters(training.parameters())


def test_a_loaded_program_takes_all_parameters_or_changes_nothing(tmp_path: Path) -> None:
    training = tg.compile(
        tg.nn.Linear(3, 2),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.adam(0.1),
        inputs={"x": (4, 3)},
        device="numpy",
    )
    training.save(tmp_path / "training.tg", target="cpu")
    loaded = tg.load(tmp_path / "training.tg", device="cpu")
    before = loaded.parameters()
    ones = {path: np.ones_like(value) for path, value in before.items()}
    for values, message in (
        (5, "parameters must be a dict of arrays by name, got int"),
        ({}, "missing parameters 'bias', 'weight' (expected: bias, weight)"),
        ({"bias": ones["bias"]}, "missing parameter 'weight' (expected: bias, weight)"),
        ({**ones, "other": 1.0}, "unknown parameter 'other' (expected: bias, weight)"),
        ({**ones, "bias": np.ones(3)}, "parameter 'bias' has shape (3,), expected (2,)"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            loaded.load_parameters(cast(Any, values))
    assert all(np.array_equal(value, before[path]) for path, value in loaded.parameters().items())
    loaded.load_parameters({**ones, "adam.m/bias": np.zeros(2)})
    assert all(np.array_equal(value, ones[path]) for path, value in loaded.parameters().items())


class Twice:
    """A node of a tree whose children have one name."""

    def __init__(self, children: Sequence[Any]):
        self.children = [*children]

    def tree_children(self) -> tuple[list[Any], type[Twice]]:
        return self.children, Twice

    def tree_names(self) -> list[str]:
        return ["child" for _ in self.children]


def test_what_can_not_be_saved_or_loaded_says_why(tmp_path: Path) -> None:
    training = compiled(device="numpy")
    path = tmp_path / "file.tg"
    lazy = training.attach(predict)
    with pytest.raises(InputError, match=r"save: .* call it first"):
        lazy.save(path)
    with pytest.raises(TargetError, match="is not a profile"):
        training.attach(predict, inputs={"x": (8, 6)}).save(path, target="nowhere")
    with pytest.raises(ProgramError, match=r"'layers.0.weight' .* takes 384 bytes, more than a buffer"):
        training.save(path, target='{"max_buffer_size": 64}')
    with pytest.raises(ProgramError, match="two children have one name"):
        training.attach(lambda model, x: Twice([model(x), x]), inputs={"x": (8, 6)}).save(path)
    assert not path.exists()
    lazy(x=np.zeros((5, 6), np.float32))
    lazy.save(path)
    loaded = tg.load(path)
    assert isinstance(loaded, tg.LoadedFunction)
    zeros = np.zeros((5, 6), np.float32)
    np.testing.assert_array_equal(np.asarray(loaded(zeros)["all"][0]), np.asarray(loaded(x=zeros)["all"][0]))
    with pytest.raises(ArgumentError, match=r"the function takes 1 input by position, got 2: x=\.\.\."):
        loaded(zeros, zeros)
    assert loaded.inputs == {"x": ((5, 6), "f32")}
    with pytest.raises(InputError, match=r"input 'x' has shape \(8, 6\), expected \(5, 6\)"):
        loaded(x=np.zeros((8, 6), np.float32))
    with pytest.raises(OptionError, match="device must be one of auto, wgpu, cpu"):
        tg.load(path, device="numpy")
    for timeout in (0, -1, float("nan"), "1", True):
        with pytest.raises(OptionError, match="timeout must be a positive number of seconds"):
            tg.load(path, timeout=timeout)  # type: ignore[arg-type]
    program, state = Program.load(path)
    program.save(path, state)
    with pytest.raises(ProgramError, match="holds a program alone"):
        tg.load(path)


@pytest.mark.in_turns(7)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "thing"}, "kind: expected function, step or generator, got 'thing'"),
        ({"step_count": -1}, "step_count: expected a number from 0, got -1"),
        ({"accumulate": 4}, "micro-batches need a second program"),
        ({"accumulated": 1}, "1 of 1 micro-batches have run"),
        ({"key": [1, 2**32]}, r"key\[1\]: expected a word, got 4294967296"),
        ({"key": 3}, "malformed"),
        ({"made": {"x": "fold_in(key(seed), call)"}}, "the host can't make input 'x'"),
        ({"made": {"key": "import os"}}, "the host can't make input 'key' by 'import os'"),
        ({"settings": {"learning_rate": None}}, "settings, learning_rate: expected a finite number, got None"),
        ({"settings": {}}, "has no value for"),
        ({"results": {"dict": 3}}, "results have no nodes of kind 'dict'"),
        ({"results": {"set": [0]}}, "results have no nodes of kind 'set'"),
        ({"results": {"list": 3}}, "results have no nodes of kind 'list'"),
        ({"results": "other"}, "holds a malformed program: there is no output 'other'"),
        ({"more": 1}, "holds a malformed program: unknown field 'more'"),
        ({"results": None, "kind": "step"}, None),
    ],
)
def test_a_host_that_is_malformed(change: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "file.tg"
    compiled(device="numpy").save(path)
    with safe_open(path, framework="numpy") as file:
        metadata, names = file.metadata(), file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    metadata["host"] = json.dumps(json.loads(metadata["host"]) | change)
    save_file(tensors, path, metadata=metadata)
    if message is None:
        tg.load(path)
        return
    with pytest.raises(ProgramError, match=message):
        tg.load(path)
    metadata["host"] = "[" * 100_000
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ProgramError, match="malformed"):
        tg.load(path)


def test_an_older_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "file.tg"
    save_file({"a": np.zeros(1)}, path, metadata={"format": "tensorgrad-program", "format_version": "1"})
    with pytest.raises(
        ProgramError, match="is of format version 1; this release reads version 2: save the program again"
    ):
        tg.load(path)
