"""`tg.compile`: steps, parameters, attached programs, statistics, files."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from models import INPUTS, MLP, batch, compiled, squared_error

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.saved import Saved

DEVICES = ["numpy", "cpu", "wgpu"]


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_a_handle_gives_its_own_steps_value(device):
    first, again = compiled(device=device), compiled(device=device)
    at_once = [float(first.step(**batch(i))) for i in range(100)]
    handles = [again.step(**batch(i)) for i in range(100)]
    assert [float(handle) for handle in handles] == at_once
    assert len(set(at_once)) == 100
    assert first.step_count == again.step_count == 100
    assert isinstance(handles[0], tg.Array) and handles[0].shape == () and handles[0].dtype == np.float32
    assert f"{handles[0]:.3f}" == f"{at_once[0]:.3f}"
    assert float(handles[0] * 2) == pytest.approx(2 * at_once[0])


@pytest.mark.parametrize("device", DEVICES)
def test_parameters_are_copies_in_the_order_of_the_model(device):
    training = compiled(device=device)
    before = training.parameters()
    assert list(before) == list(MLP(3, 5, 2).named_parameters())
    copies = {path: values.copy() for path, values in before.items()}
    training.step(**batch())
    assert all(np.array_equal(before[path], copies[path]) for path in copies)
    after = training.parameters()
    assert not any(np.array_equal(after[path], copies[path]) for path in copies)
    after["layers.0.weight"][:] = 0
    assert training.parameters()["layers.0.weight"].any()


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_loaded_parameters_are_used(device):
    training, other = compiled(device=device), compiled(device=device, seed=5)
    other.load_parameters(training.parameters())
    assert float(training.step(**batch())) == float(other.step(**batch()))


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_an_attached_program_shares_the_parameters(device):
    training = compiled(device=device)

    def forward(model: Any, x: Any, scale: Any) -> Any:
        y = model(x)
        return {"y": y * scale, "parts": (tg.sum(y), model.layers[0].bias), "x": x}

    predict = training.attach(forward, inputs={"x": (4, 3), "scale": ()})
    for number in range(3):
        w, x = training.parameters(), batch(number)["x"]
        hidden = np.tanh(x @ w["layers.0.weight"] + w["layers.0.bias"])
        expected = hidden @ w["layers.1.weight"] + w["layers.1.bias"]
        results = predict(x=x, scale=2.0)
        assert list(results) == ["parts", "x", "y"]
        assert np.allclose(results["y"], 2 * expected, atol=1e-5)
        assert float(results["parts"][0]) == pytest.approx(expected.sum(), abs=1e-4)
        assert np.array_equal(results["parts"][1], w["layers.0.bias"]) and np.array_equal(results["x"], x)
        training.step(**batch(number))
    assert training.step_count == 3
    assert predict.stats()["submits"] == training.stats()["submits"]


def test_another_learning_rate_compiles_nothing():
    training, other = compiled(optimizer=tg.optim.sgd(0.5)), compiled(optimizer=tg.optim.sgd(0.1))
    seconds = training.stats()["compile_seconds"]
    training.set_learning_rate(0.1)
    assert training.learning_rate == 0.1
    for stepped in (training, other):
        stepped.step(**batch())
    assert all(np.array_equal(training.parameters()[path], values) for path, values in other.parameters().items())
    assert training.stats()["compile_seconds"] == seconds


@pytest.mark.parametrize("device", DEVICES)
def test_statistics(device):
    stats = compiled(device=device).stats()
    counts = ("dispatches", "submits", "copies", "kernels", "peak_bytes", "bytes_moved")
    assert all(isinstance(stats[name], int) for name in counts)
    assert stats["peak_bytes"] > 0 and stats["bytes_moved"] > 0 and stats["copies"] == 0
    assert (stats["dispatches"] > 0) == (stats["submits"] == 1) == (device != "numpy")
    assert {"trace", "grad", "append-updates", "simplify", "load"} <= stats["compile_seconds"].keys()


@pytest.mark.parametrize("dtype", ["f32", "i32", "u32", "bool", "f16", "f64"])
def test_inputs_of_every_dtype(dtype):
    def loss(model: Any, x: Any) -> Any:
        return tg.sum(model(tg.cast(x, "f32")))

    training = compiled(loss=loss, inputs={"x": tg.spec((1, 3), dtype)})
    expected = compiled(loss=loss, inputs={"x": (1, 3)})
    booleans = np.array([[True, False, True]])
    assert float(training.step(x=booleans)) == float(expected.step(x=booleans.astype(np.float32)))


def test_callables_of_every_kind():
    class Loss:
        def __call__(self, model: Any, x: Any, y: Any) -> Any:
            return squared_error(model, x, y)

        def method(self, model: Any, **inputs: Any) -> Any:
            return squared_error(model, **inputs)

    def scaled(scale: float, model: Any, x: Any, y: Any) -> Any:
        return scale * squared_error(model, x, y)

    expected = float(compiled().step(**batch()))
    for loss in (Loss(), Loss().method, functools.partial(scaled, 1.0), lambda m, y, x: squared_error(m, x, y)):
        assert float(compiled(loss=loss).step(**batch())) == pytest.approx(expected)


def test_an_unused_input_and_an_unused_parameter():
    for device in DEVICES:
        training = compiled(loss=lambda model, x, y: tg.sum(model.layers[1].bias) * 2.0, device=device)
        before = training.parameters()
        training.step(**batch())
        changed = [path for path, values in training.parameters().items() if not np.array_equal(values, before[path])]
        assert changed == ["layers.1.bias"]


@pytest.mark.parametrize("level", ["traced", "tg", "buf", "wgsl"])
def test_levels_are_printed(level):
    text = compiled().module(level)
    assert (text.startswith("builtin.module") and "layers.0.weight" in text) or level == "wgsl"
    rate = "learning_rate / (1 - beta1 ** step)"
    assert {"traced": "tg.tanh", "tg": rate, "buf": "linalg.generic", "wgsl": "wgsl."}[level] in text
    with pytest.raises(OptionError, match="traced, tg, stablehlo, buf, wgsl, cpu, llvm"):
        compiled().module("msl")


def test_threads_compile_the_same_model_at_once():
    model = MLP(3, 5, 2)
    expected = float(compiled(model=model).step(**batch()))
    losses: list[float] = []
    threads = [
        threading.Thread(target=lambda: losses.append(float(compiled(model=model).step(**batch())))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert losses == [expected] * 4


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_a_saved_program_continues_without_the_compiler(device, tmp_path):
    training, path = compiled(device=device), tmp_path / "model.safetensors"
    training.set_learning_rate(0.02)
    for number in range(3):
        training.step(**batch(number))
    training.save(path)
    _, state = Program.load(path)
    host = Saved.load(path).host
    assert host is not None and host.step_count == 3 and host.settings["learning_rate"] == 0.02
    parameters = training.parameters()
    assert all(np.array_equal(state[name], parameters[name]) for name in parameters)
    np.savez(tmp_path / "inputs.npz", allow_pickle=False, **batch(3))
    expected = float(training.step(**batch(3)))
    code = f"""
import sys
sys.modules["xdsl"] = None
import numpy as np
from tensorgrad.runtime.saved import Saved
if {device!r} == "cpu":
    from tensorgrad.runtime.cpu import CpuDevice as Device, CpuExecutable as Executable
else:
    from tensorgrad.runtime.webgpu import WebGPUDevice as Device, WebGPUExecutable as Executable
saved = Saved.load({str(path)!r})
executable = Executable(saved.program, Device())
executable.write(saved.state)
inputs = dict(np.load({str(tmp_path / "inputs.npz")!r}))
settings = {{"step": saved.host.step_count + 1, **saved.host.settings}}
print(float(executable.step(inputs, settings)["loss"]))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(expected, rel=1e-5)


def test_loading_is_strict_and_all_or_nothing():
    training = compiled()
    good = training.parameters()
    bad = [
        {**good, "other": np.zeros(3)},
        {path: values for path, values in good.items() if path != "layers.1.bias"},
        {**good, "layers.1.bias": np.zeros(3)},
        {path: np.array(["x"] * values.size).reshape(values.shape) for path, values in good.items()},
    ]
    for values in bad:
        changed = {path: value if value.dtype.kind == "U" else value + 1 for path, value in values.items()}
        with pytest.raises(InputError):
            training.load_parameters(changed)
        assert all(np.array_equal(training.parameters()[path], value) for path, value in good.items())


def test_devices_are_listed_with_what_they_are():
    listed = tg.devices()
    assert [device.type for device in listed if device.device in ("cpu", "numpy")] == ["cpu", "cpu"]
    names = [device.device for device in listed]
    assert names.index("cpu") < names.index("numpy") == len(names) - 1
    types = [device.type for device in listed[:-1]]
    assert types == sorted(types, key=["hardware", "cpu", "software"].index)
    assert {device.device for device in listed} == {"numpy", "cpu", "wgpu"}
    expected = "wgpu" if "hardware" in types else "cpu"
    assert compiled(device="auto").device.startswith(expected)
    assert INPUTS.keys() == batch().keys()


@pytest.mark.parametrize("device", DEVICES)
def test_an_interrupt_while_compiling_names_the_users_line(device, monkeypatch):
    def interrupted(self, ctx, op):
        raise KeyboardInterrupt

    monkeypatch.setattr(SimplifyPass, "apply", interrupted)
    with pytest.raises(
        KeyboardInterrupt, match=r"models\.py:\d+: interrupted while squared_error was compiled"
    ) as caught:
        compiled(device=device)
    assert not any("passes" in str(entry.path) for entry in caught.traceback), "the compiler's frames are left out"
    assert caught.value.__suppress_context__
