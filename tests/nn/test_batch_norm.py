"""Batch norm compared with PyTorch's: results, gradients and running statistics over several steps, on both devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.errors import OptionError, ParameterError, PartialStateWarning, ShapeError

DEVICES = ["numpy", "cpu", "wgpu"]
FORMS: dict[str, tuple[Any, Any, dict[str, Any], tuple[int, ...]]] = {
    "1d": (tg.nn.BatchNorm1d, torch.nn.BatchNorm1d, {}, (5, 3)),
    "1d of sequences": (tg.nn.BatchNorm1d, torch.nn.BatchNorm1d, {"momentum": 0.3}, (2, 3, 5)),
    "2d": (tg.nn.BatchNorm2d, torch.nn.BatchNorm2d, {"eps": 1e-2}, (2, 3, 4, 5)),
    "3d": (tg.nn.BatchNorm3d, torch.nn.BatchNorm3d, {"affine": False}, (2, 3, 2, 2, 2)),
    "averages": (tg.nn.BatchNorm2d, torch.nn.BatchNorm2d, {"momentum": None}, (2, 3, 2, 2)),
}


class Scaled(tg.nn.Module):
    """A batch norm of an input scaled by a parameter, whose gradient propagates through the statistics."""

    def __init__(self, norm: Any, rank: int):
        super().__init__()
        self.scale = tg.nn.param((3, *[1] * (rank - 2)), init=1.5)
        self.norm = norm

    def __call__(self, x: Any) -> Any:
        return self.norm(tg.tanh(x * self.scale))


class ScaledInTorch(torch.nn.Module):
    """The same model in PyTorch."""

    def __init__(self, norm: Any, rank: int):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((3, *[1] * (rank - 2)), 1.5))
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.tanh(x * self.scale))


def close(actual: Any, expected: Any) -> bool:
    return np.allclose(np.asarray(actual), np.asarray(expected), rtol=2e-5, atol=5e-6)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
def test_steps_and_inference_are_those_of_pytorch(form: str, device: tg.DeviceName) -> None:
    kind, kind_in_torch, options, shape = FORMS[form]
    model, other = Scaled(kind(3, **options), len(shape)), ScaledInTorch(kind_in_torch(3, **options), len(shape))
    inputs = {"x": shape, "y": shape}
    # Plain descent: parameters differ by what gradients differ.
    training = tg.compile(
        model, loss=lambda m, x, y: tg.mse(m(x), y), optimizer=tg.optim.sgd(0.5), inputs=inputs, device=device
    )
    training.load_parameters(tg.nn.from_torch(model, other.state_dict()))
    infer = training.attach(lambda m, x: tg.nn.inference(m)(x), inputs={"x": shape})
    optimizer = torch.optim.SGD(other.parameters(), 0.5)
    generator = np.random.default_rng(0)
    for number in range(4):
        x, y = (generator.normal(size=shape).astype(np.float32) for _ in range(2))
        x += number
        other.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(other(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        other.eval()
        assert close(training.step(x=x, y=y), loss.detach())
        with torch.no_grad():
            assert close(infer(x=x), other(torch.from_numpy(x)))
    expected = other.state_dict()
    state = tg.nn.to_torch(model, training.state_dict())
    assert state.keys() == expected.keys()
    assert all(close(state[name], expected[name]) for name in expected)
    assert state["norm.num_batches_tracked"].shape == () and state["norm.num_batches_tracked"] == 4
    fresh = ScaledInTorch(kind_in_torch(3, **options), len(shape))
    fresh.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    again = tg.nn.from_torch(model, fresh.state_dict())
    assert again["norm.num_batches_tracked"].dtype == np.int32 and again["norm.num_batches_tracked"] == 4


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
def test_whole_models_have_a_form_for_inference(device: tg.DeviceName, tmp_path: Path) -> None:
    def model() -> tg.nn.Module:
        block = tg.nn.Sequential(tg.nn.Conv2d(2, 4, 3, bias=False), tg.nn.BatchNorm2d(4), tg.nn.ReLU())
        head = {"norm": tg.nn.BatchNorm1d(16), "drop": tg.nn.Dropout(0.5), "out": tg.nn.Linear(16, 3)}
        return tg.nn.Sequential(block, tg.nn.Flatten(), tg.nn.Sequential(head))

    def compiled() -> tg.Training:
        return tg.compile(
            model(),
            loss=lambda model, x, y, key: tg.cross_entropy(model(x, key), y),
            optimizer=tg.optim.adam(1e-2, clip_norm=1.0),
            inputs={"x": (6, 2, 4, 4), "y": tg.spec(6, "i32")},
            device=device,
        )

    training = compiled()
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(6, 2, 4, 4)).astype(np.float32), np.arange(6, dtype=np.int32) % 3
    for _ in range(3):
        training.step(x=x, y=y)
    # Dropout does nothing, key or not; an example's result is its own, whatever the batch.
    keyed = training.attach(lambda model, x: tg.nn.inference(model)(x, tg.random.key(0)))
    infer = training.attach(lambda model, x: tg.nn.inference(model)(x), inputs={"x": (6, 2, 4, 4)})
    assert np.array_equal(keyed(x=x), infer(x=x))
    assert np.allclose(np.asarray(infer(x=x[:1])), np.asarray(infer(x=x))[:1], atol=1e-5)
    assert training.buffers()["2.norm.num_batches_tracked"] == 3
    training.save_checkpoint(tmp_path / "checkpoint")
    again = compiled()
    again.load_checkpoint(tmp_path / "checkpoint")
    assert np.array_equal(np.asarray(training.step(x=x, y=y)), np.asarray(again.step(x=x, y=y)))
    assert np.array_equal(training.buffers()["0.1.running_var"], again.buffers()["0.1.running_var"])


def test_the_form_for_inference_shares_everything() -> None:
    class Model(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = [tg.nn.BatchNorm1d(3)]
            self.tied = self.norms[0]

        def __call__(self, x: Any) -> Any:
            return self.tied(self.norms[0](x))

    model = Model()
    form = tg.nn.inference(model)
    assert isinstance(form, Model) and isinstance(form.tied, tg.nn.BatchNorm1d) and form.tied is form.norms[0]
    assert form.named_buffers() == model.named_buffers() and form.named_parameters() == model.named_parameters()
    assert type(model.tied) is tg.nn.BatchNorm1d and repr(form) == repr(model)
    # A loss that takes the form for inference updates no statistics, and its gradient takes them for constants.
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    training = tg.compile(
        model,
        loss=lambda model, x: tg.mean(tg.nn.inference(model)(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device="numpy",
    )
    assert np.isclose(float(training.step(x=x)), np.mean((x / (1 + 1e-5)) ** 2), rtol=1e-5)
    assert training.buffers()["norms.0.num_batches_tracked"] == 0


def test_errors() -> None:
    norm = tg.nn.BatchNorm2d(3)

    def compiled(shape: tuple[int, ...], model: tg.nn.Module = norm) -> tg.Training:
        loss, optimizer = (lambda model, x: tg.mean(model(x))), tg.optim.sgd(0.1)
        return tg.compile(model, loss=loss, optimizer=optimizer, inputs={"x": shape}, device="numpy")

    with pytest.raises(ShapeError, match=r"BatchNorm2d: expected a shape \[batch, 3, 2 spatial axes\]"):
        compiled((2, 3, 4))
    with pytest.raises(ShapeError, match="BatchNorm1d: expected a shape"):
        compiled((2, 3, 4, 4), tg.nn.BatchNorm1d(3))
    with pytest.raises(ShapeError, match="1 numbers a channel; their variance takes at least 2"):
        compiled((1, 3, 1, 1))
    with pytest.raises(OptionError, match="BatchNorm1d: momentum must be a number between 0 and 1"):
        tg.nn.BatchNorm1d(3, momentum=2)
    with pytest.raises(ParameterError, match=r"running_mean.*tg\.nn\.inference\(model\)"):
        compiled((2, 3, 4, 4)).attach(lambda model, x: model(x), inputs={"x": (2, 3, 4, 4)})


@pytest.mark.nightly
def test_statistics_of_segments_that_are_computed_twice_are_updated_once() -> None:
    def compiled(**options: Any) -> tg.Training:
        layers: list[Any] = []
        for _ in range(6):
            layers += [tg.nn.Linear(16, 16, bias=False), tg.nn.BatchNorm1d(16), tg.nn.Tanh()]
        loss, optimizer = (lambda model, x: tg.mean(model(x) ** 4)), tg.optim.adam(1e-2, clip_norm=1.0)
        model = tg.nn.Sequential(*layers)
        return tg.compile(model, loss=loss, optimizer=optimizer, inputs={"x": (256, 16)}, **options)

    reference = compiled(device="numpy")
    most = compiled(device="wgpu").program.statistics["peak_bytes"]
    limited = compiled(device="wgpu", memory_limit=int(0.88 * most))
    assert limited.stats()["memory_limit"]["segments"] > 1
    for x in np.random.default_rng(0).normal(size=(2, 256, 16)).astype(np.float32):
        assert close(limited.step(x=x), reference.step(x=x))
    expected = reference.buffers()
    assert all(close(value, expected[name]) for name, value in limited.buffers().items())


def test_the_state_of_a_model_has_its_running_statistics() -> None:
    def compiled() -> tg.Training:
        model = tg.nn.Sequential(tg.nn.Linear(3, 4), tg.nn.BatchNorm1d(4))
        inputs = {"x": (8, 3)}
        return tg.compile(
            model, loss=lambda m, x: tg.mean(m(x)), optimizer=tg.optim.adam(0.1), inputs=inputs, device="numpy"
        )

    first, second = compiled(), compiled()
    x = np.random.default_rng(0).normal(3, 2, (8, 3)).astype(np.float32)
    first.run(5, {"x": x})

    def statistics(training: tg.Training) -> np.ndarray:
        return np.asarray(training.attach(lambda model, x: tg.nn.inference(model)(x))(x=x))

    with pytest.warns(PartialStateWarning, match=r"leaves the buffers 1\.running_mean, 1\.running_var, 1\.num_batches"):
        missing, _ = second.load_parameters(first.parameters())
    assert missing == tuple(second.buffers()) and not np.allclose(statistics(first), statistics(second))
    second.load_state_dict(first.state_dict(), strict=False)
    assert np.array_equal(statistics(first), statistics(second)) and second.step_count == 0
    second.reset()
    second.load_parameters(first.state_dict(parts="model"))
    assert np.array_equal(statistics(first), statistics(second))
