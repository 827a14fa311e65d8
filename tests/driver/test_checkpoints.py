"""Checkpoints: training resumes bit for bit, other readers can read them, and loading is all or nothing."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import pytest
from models import MLP, batch, compiled, squared_error
from safetensors import numpy as safetensors_numpy
from safetensors import safe_open
from safetensors import torch as safetensors_torch

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, TraceError

pytestmark = pytest.mark.usefixtures("kept_programs")

DEVICES = ["numpy", "cpu", "wgpu"]


def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
    return squared_error(model, x + 0.1 * tg.random.normal(key, x.shape), y)


def trained(steps: int = 3, **options: Any) -> tg.Training:
    settings: dict[str, Any] = {"loss": noisy, "optimizer": tg.optim.adamw(tg.optim.schedules.cosine(1e-2, 20))}
    training = compiled(**{**settings, **options})
    for number in range(steps):
        training.step(**batch(number))
    return training


def same(left: Any, right: Any) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].tobytes() == right[name].tobytes() for name in left
    )


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_a_fresh_training_continues_bit_for_bit(device, tmp_path):
    training = trained(device=device, seed=2**40 + 7)
    training.set_learning_rate(0.02)
    training.save_checkpoint(tmp_path / "c.safetensors")
    by_file, by_state = trained(0, device=device), trained(1, device=device, seed=5)
    assert by_file.load_checkpoint(tmp_path / "c.safetensors") == ((), ())
    by_state.load_state_dict(training.state_dict())
    for other in (by_file, by_state):
        assert same(other.state_dict(), training.state_dict())
        assert other.step_count == 3 and other.learning_rate == training.learning_rate
    for number in range(3, 6):
        losses = {np.float32(each.step(**batch(number))).tobytes() for each in (training, by_file, by_state)}
        assert len(losses) == 1
    assert same(by_file.state_dict(), training.state_dict()) and same(by_state.state_dict(), training.state_dict())
    by_file.reset()
    training.reset()
    assert same(by_file.state_dict(), training.state_dict())


def test_names_are_as_documented():
    training = trained()
    state = training.state_dict()
    paths = list(training.parameters())
    assert paths == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    assert list(state)[: len(paths)] == paths
    settings = {f"training/{name}" for name in training.settings}
    assert "training/learning_rate" in settings
    host_names = {"training/step", "training/key", *settings}
    assert {name for name in state if name.startswith("training/")} == host_names
    others = [name for name in state if name not in {*host_names, *paths}]
    assert others and all(name.startswith("optimizer/") and name.rpartition("/")[2] in paths for name in others)
    assert state["training/step"] == 3 and state["training/key"].tolist() == [0, 0]


def test_others_read_it(tmp_path):
    training, path = trained(), tmp_path / "c.safetensors"
    training.save_checkpoint(path)
    expected = training.state_dict()
    assert same(safetensors_numpy.load_file(path), expected)
    tensors = safetensors_torch.load_file(path)
    assert tensors.keys() == expected.keys()
    assert all(np.array_equal(tensors[name].numpy(), value) for name, value in expected.items())
    with safe_open(path, framework="numpy") as file:
        (content,) = (json.loads(text) for text in file.metadata().values())
    checksums = {name: zlib.crc32(value.tobytes()) for name, value in expected.items()}
    assert content == {"version": 1, "run": None, "checksums": checksums}
    other = trained(0)
    other.load_state_dict(tensors)  # tensors of PyTorch are arrays too
    assert same(other.state_dict(), expected)


def refused(training: tg.Training, values: Any, error: type[Exception], message: str) -> str:
    before = training.state_dict()
    with pytest.raises(error, match=message) as caught:
        training.load_state_dict(values)
    assert same(training.state_dict(), before)
    return str(caught.value)


def test_all_that_is_wrong_is_listed_and_nothing_loads():
    training, state = trained(), trained(5).state_dict()
    del state["layers.0.bias"], state["training/key"]
    state |= {"layers.1.weight": np.zeros((2, 5), np.float32), "layers.1.bias": np.zeros(2), "head.weight": np.zeros(1)}
    message = refused(training, state, InputError, "nothing is loaded")
    assert __file__ in message
    assert "missing: layers.0.bias, training/key; unexpected: head.weight; of another shape or dtype: " in message
    assert "layers.1.weight is float32[2, 5], expected float32[5, 2]" in message
    assert "layers.1.bias is float64[2], expected float32[2]" in message


def test_a_checkpoint_of_another_model(tmp_path):
    trained(model=MLP(3, 7, 7, 2)).save_checkpoint(tmp_path / "c.safetensors")
    training = trained()
    before = training.state_dict()
    with pytest.raises(InputError, match=r"unexpected: layers.2.bias, .*layers.0.weight is float32\[3, 7\]"):
        training.load_checkpoint(tmp_path / "c.safetensors")
    other = trained(optimizer=tg.optim.sgd(0.1))
    with pytest.raises(InputError, match=r"missing: optimizer/adam"):
        training.load_state_dict(other.state_dict())
    assert same(training.state_dict(), before)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("training/step", np.array(-1), InputError),
        ("training/key", np.array([0, 2**32]), InputError),
        ("training/learning_rate", np.array(np.nan), OptionError),
        ("layers.0.bias", "text", InputError),
        ("layers.0.bias", [[1.0], [1.0, 2.0]], InputError),
    ],
)
def test_values_out_of_range(name, value, error):
    refused(trained(), {**trained(4).state_dict(), name: value}, error, name)


def test_what_is_no_mapping():
    refused(trained(), [1.0], InputError, "takes arrays by name, got list")


def test_parts_load_on_request():
    training, before = trained(), trained().state_dict()
    values = {"layers.0.bias": np.ones(5, np.float32), "head": np.ones(3)}
    missing, unexpected = training.load_state_dict(values, strict=False)
    assert unexpected == ("head",) and set(missing) == {*MLP(3, 5, 2).named_parameters()} - {"layers.0.bias"}
    assert same(training.state_dict(), {**before, "layers.0.bias": values["layers.0.bias"]})
    with pytest.raises(InputError, match=r"expected float32\[5\]"):
        training.load_state_dict({"layers.0.bias": np.ones(4, np.float32)}, strict=False)


def test_the_parts_of_a_state_come_apart(tmp_path):
    source, target = trained(5), compiled(optimizer=tg.optim.adam(0.5))
    state, start = source.state_dict(), target.state_dict()
    parts = {part: source.state_dict(parts=part) for part in ("model", "optimizer", "settings")}
    assert {**parts["model"], **parts["optimizer"], **parts["settings"]}.keys() == state.keys()
    assert parts["model"].keys() == source.parameters().keys()
    assert {"training/step", "optimizer/adam.m/layers.0.bias"} <= parts["optimizer"].keys()
    assert {"training/learning_rate", "training/key"} <= parts["settings"].keys()
    # Without strict=, only the model is taken; what stays is listed.
    missing, unexpected = target.load_state_dict(state, strict=False)
    assert not missing and {*unexpected} == {*parts["optimizer"], *parts["settings"]}
    assert target.step_count == 0 and target.learning_rate == 0.5
    assert same(target.state_dict(), {**start, **parts["model"]})
    target.reset()
    target.load_state_dict(parts["model"], parts="model")
    assert same(target.state_dict(), {**start, **parts["model"]})
    source.save_checkpoint(tmp_path / "c.safetensors")
    target.reset()
    target.load_checkpoint(tmp_path / "c.safetensors", parts=["model", "optimizer"])
    assert same(target.state_dict(parts=["model", "optimizer"]), {**parts["model"], **parts["optimizer"]})
    assert target.step_count == 5 and target.learning_rate == 0.5
    with pytest.raises(OptionError, match="parts must be among model, optimizer, settings, got 'weights'"):
        target.state_dict(parts="weights")
    with pytest.raises(InputError, match=r"missing: optimizer/adam.*parts= and strict=False"):
        target.load_state_dict(parts["model"], parts=["model", "optimizer"])


def test_what_is_no_checkpoint(tmp_path):
    training = trained()
    before = training.state_dict()
    (tmp_path / "text").write_text("not a file of tensors")
    training.program.save(tmp_path / "program")
    safetensors_numpy.save_file(before, tmp_path / "arrays")
    safetensors_numpy.save_file(before, tmp_path / "newer", {"tensorgrad-checkpoint": '{"version": 9}'})
    for name, message in [
        ("text", "not a safetensors file"),
        ("arrays", "not a checkpoint"),
        ("program", "program holds no training to continue from"),
        ("newer", "version 9"),
    ]:
        with pytest.raises(InputError, match=message):
            training.load_checkpoint(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        training.load_checkpoint(tmp_path / "nothing")
    assert same(training.state_dict(), before)


@pytest.mark.parametrize("name", ["layers.0.weight", "training/step"])
def test_a_bit_that_has_changed(name, tmp_path):
    training, path = trained(), tmp_path / "c.safetensors"
    training.save_checkpoint(path)
    before = training.state_dict()
    content = bytearray(path.read_bytes())
    content[content.rindex(before[name].tobytes())] ^= 4
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"is a damaged checkpoint: {name} is not what was written"):
        training.load_checkpoint(path)
    assert same(training.state_dict(), before)


def test_a_folder_that_is_missing(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        trained(0).save_checkpoint(tmp_path / "nowhere" / "c.safetensors")


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_saved_training_is_a_checkpoint_too(device, accumulate, tmp_path):
    """Also if it was saved for another device, as by a page."""
    grouped = tg.optim.adamw(1e-2, groups={"layers.0.*": {"learning_rate": 2e-2}})
    first = trained(5, accumulate=accumulate, optimizer=grouped, seed=7)
    first.set_learning_rate(0.003) if accumulate == 2 else None
    first.save(tmp_path / "training.tg", target="webgpu-default")
    second = trained(0, accumulate=accumulate, optimizer=grouped, device=device)
    assert second.load_checkpoint(tmp_path / "training.tg") == ((), ())
    assert same(first.state_dict(), second.state_dict())
    assert second.step_count == first.step_count
    np.testing.assert_allclose(second.step(**batch(9)), first.step(**batch(9)), rtol=1e-5)


def test_a_saved_function_is_no_checkpoint(tmp_path):
    training = trained(0)
    training.attach(lambda model, x: model(x), inputs={"x": (8, 3)}).save(tmp_path / "f.tg", target="webgpu-default")
    with pytest.raises(InputError, match=r"f\.tg holds no training to continue from"):
        training.load_checkpoint(tmp_path / "f.tg")


def test_not_inside_a_trace(tmp_path):
    training = trained()
    training.save_checkpoint(tmp_path / "c")
    for call in (
        lambda x: training.load_state_dict({}),
        lambda x: training.load_checkpoint(tmp_path / "c"),
    ):
        with pytest.raises(TraceError, match="inside a trace"):
            tg.trace(call, (1,))
