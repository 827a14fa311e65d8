"""Moving averages of parameters: their values, beside PyTorch's, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import tensorgrad as tg
from tensorgrad.errors import OptionError, ParameterError

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


def loss_of(model: Any, x: Any) -> Any:
    return tg.mean((model(x) - 1.0) ** 2)


def compiled(optimizer: Any, device: tg.DeviceName = "numpy", model: Any = None, **options: Any) -> Any:
    model = tg.nn.Linear(3, 2) if model is None else model
    return tg.compile(model, loss=loss_of, optimizer=optimizer, inputs={"x": (8, 3)}, device=device, **options)


def averaged_by_hand(training: Any, steps: int, decay: float | Callable[[int], float]) -> dict[str, np.ndarray]:
    """Runs steps, and returns the averages that they should give."""
    averages = training.parameters()
    for step in range(1, steps + 1):
        training.step(x=X)
        share = decay(step) if callable(decay) else decay
        averages = {name: share * averages[name] + (1 - share) * v for name, v in training.parameters().items()}
    return averages


OPTIMIZERS: dict[str, Any] = {
    "sgd": tg.optim.sgd(0.1),
    "adam": tg.optim.adam(0.05, clip_norm=1.0, groups={"bias": {"learning_rate": 0.5}}),
    "chain": tg.optim.chain(tg.optim.clip(0.1), tg.optim.adamw(0.05)),
    "muon": tg.optim.muon(0.05, others=tg.optim.adam(0.05)),
    "adafactor": tg.optim.adafactor(0.05),
    "scheduled": tg.optim.rmsprop(tg.optim.schedules.cosine(0.1, 5)),
}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_averages_of_each_optimizer(name: str, device: tg.DeviceName) -> None:
    training = compiled(tg.optim.weight_ema(OPTIMIZERS[name], 0.8), device)
    plain = compiled(OPTIMIZERS[name], device)
    expected = averaged_by_hand(training, 5, 0.8)
    averaged_by_hand(plain, 5, 0.8)
    for path, value in training.averages().items():
        np.testing.assert_allclose(value, expected[path], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(training.parameters()[path], plain.parameters()[path], rtol=1e-6)


def test_averages_are_those_of_pytorch() -> None:
    training = compiled(tg.optim.weight_ema(tg.optim.sgd(0.1), 0.9))
    model: Any = torch.nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(training.parameters()["weight"].T))
        model.bias.copy_(torch.tensor(training.parameters()["bias"]))
    average: Any = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    average.update_parameters(model)  # the first copies
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        training.step(x=X)
        optimizer.zero_grad()
        ((model(torch.tensor(X)) - 1.0) ** 2).mean().backward()
        optimizer.step()
        average.update_parameters(model)
    np.testing.assert_allclose(training.averages()["weight"], average.module.weight.detach().numpy().T, rtol=1e-5)


def test_averages_start_before_the_first_step_where_pytorch_s_start_after_it() -> None:
    x = tg.tensor([1.0], device="numpy", requires_grad=True)
    ours = tg.optim.Stepper([x], tg.optim.weight_ema(tg.optim.sgd(0.1), 0.9))
    model = torch.nn.ParameterList([torch.ones(1)])
    average: Any = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    theirs = torch.optim.SGD(model.parameters(), 0.1)
    found: list[tuple[float, float]] = []
    for _ in range(3):
        for optimizer, parameter in ((ours, x), (theirs, model[0])):
            optimizer.zero_grad()
            parameter.sum().backward()
            optimizer.step()
        average.update_parameters(model)
        found.append((float(ours.averages()["0"][0]), float(average.module[0].detach())))
    np.testing.assert_allclose(found, [(0.99, 0.9), (0.971, 0.89), (0.9439, 0.871)], rtol=1e-5)


def test_a_parameter_without_a_gradient_in_the_first_step_has_an_average_too() -> None:
    x, y = (
        tg.tensor([value], dtype, device="numpy", requires_grad=True) for value, dtype in ((1.0, "f32"), (5.0, "f16"))
    )
    optimizer = tg.optim.Stepper({"x": x, "y": y}, tg.optim.weight_ema(tg.optim.sgd(0.5, momentum=0.5), 0.5))
    x.sum().backward()
    optimizer.step()
    assert {name: value.tolist() for name, value in optimizer.averages().items()} == {"x": [0.75], "y": [5.0]}
    optimizer.zero_grad()
    y.sum().backward()
    optimizer.step()
    assert {name: value.tolist() for name, value in optimizer.averages().items()} == {"x": [0.75], "y": [4.75]}


def test_a_warm_up_forgets_the_start() -> None:
    training = compiled(tg.optim.weight_ema(tg.optim.sgd(0.1), 0.999, warm_up=True))
    expected = averaged_by_hand(training, 6, lambda step: min(0.999, (1 + step) / (10 + step)))
    np.testing.assert_allclose(training.averages()["weight"], expected["weight"], rtol=1e-5)


def test_the_decay_is_a_setting() -> None:
    training = compiled(tg.optim.weight_ema(tg.optim.sgd(0.1), 0.9))
    training.set(ema_decay=0.0)
    training.step(x=X)
    np.testing.assert_array_equal(training.averages()["weight"], training.parameters()["weight"])
    assert training.settings["ema_decay"] == 0.0


def test_functions_run_on_the_averages_inside_the_context() -> None:
    training = compiled(tg.optim.weight_ema(tg.optim.adam(0.1), 0.5), "cpu")
    forward: Any = training.attach(lambda model, x: model(x), inputs={"x": (8, 3)})
    for _ in range(3):
        training.step(x=X)
    before, averages = training.state_dict(), training.averages()
    with training.averaged():
        np.testing.assert_allclose(forward(X), X @ averages["weight"] + averages["bias"], rtol=1e-5)
        np.testing.assert_array_equal(training.parameters()["bias"], averages["bias"])
    with pytest.raises(ZeroDivisionError), training.averaged():
        _ = 1 / 0
    for name, value in training.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    with_averages: Any = tg.nn.Linear(3, 2).with_values(averages)
    np.testing.assert_allclose(with_averages(X), X @ averages["weight"] + averages["bias"], rtol=1e-5)


def test_steps_inside_the_context_are_refused() -> None:
    """They would change averages, in whose place the parameters come back."""
    training = compiled(tg.optim.weight_ema(tg.optim.adam(0.1), 0.5))
    training.step(x=X)
    before = training.state_dict()
    with training.averaged(), training.averaged():
        pass
    with training.averaged():
        with pytest.raises(ParameterError, match=r"step: the parameters are averages here; train after"):
            training.step(x=X)
        with pytest.raises(ParameterError, match=r"fit: the parameters are averages here; train after"):
            tg.fit(training, [{"x": X}], epochs=1, progress=False)
    assert all(np.array_equal(value, before[name]) for name, value in training.state_dict().items())
    training.step(x=X)
    model = tg.nn.Linear(3, 2).initialized(0, device="numpy")
    optimizer = tg.optim.Stepper(model, tg.optim.weight_ema(tg.optim.adam(0.1), 0.8))
    loss_of(model, X).backward()
    with optimizer.averaged(), pytest.raises(ParameterError, match=r"step: the parameters are averages here"):
        optimizer.step()
    optimizer.step()


def test_before_the_first_step_they_are_the_parameters() -> None:
    training = compiled(tg.optim.weight_ema(tg.optim.adam(0.1)))
    np.testing.assert_array_equal(training.averages()["weight"], training.parameters()["weight"])


def test_a_run_resumes_with_its_averages(tmp_path: Path) -> None:
    whole, half, resumed = (compiled(tg.optim.weight_ema(tg.optim.adam(0.1), 0.7)) for _ in range(3))
    for _ in range(4):
        whole.step(x=X)
    for training in (half, resumed):
        if training is resumed:
            half.save_checkpoint(tmp_path / "half.safetensors")
            resumed.load_checkpoint(tmp_path / "half.safetensors")
        for _ in range(2):
            training.step(x=X)
    assert "optimizer/adam.weight_average/weight" in whole.state_dict()
    np.testing.assert_array_equal(resumed.averages()["weight"], whole.averages()["weight"])


def test_new_layers_start_with_their_own_values() -> None:
    model = tg.nn.MLP(3, 4, 2)
    training = compiled(tg.optim.weight_ema(tg.optim.sgd(0.1), 0.9), model=model)
    training.step(x=X)
    averages = training.averages()
    model.layers[1] = tg.nn.Linear(4, 2)
    training = training.replace_model()
    np.testing.assert_array_equal(training.averages()["layers.0.weight"], averages["layers.0.weight"])
    np.testing.assert_array_equal(training.averages()["layers.1.weight"], training.parameters()["layers.1.weight"])


def test_frozen_parameters_are_themselves_and_half_floats_have_their_dtype() -> None:
    model = tg.nn.Linear(3, 2, dtype="f16")
    model.freeze("bias")
    training = tg.compile(
        model,
        loss=lambda model, x: tg.mean((tg.cast(model(tg.cast(x, "f16")), "f32") - 1.0) ** 2),
        optimizer=tg.optim.weight_ema(tg.optim.sgd(0.1), 0.9),
        inputs={"x": (8, 3)},
        device="numpy",
    )
    training.step(x=X)
    averages = training.averages()
    assert averages["weight"].dtype == np.float16
    np.testing.assert_array_equal(averages["bias"], training.parameters()["bias"])
    with training.averaged():
        np.testing.assert_array_equal(training.parameters()["weight"], averages["weight"])


def test_eager_optimizers_keep_averages_too() -> None:
    training = compiled(tg.optim.weight_ema(tg.optim.adam(0.1), 0.8))
    model = tg.nn.Linear(3, 2).initialized(0, device="numpy")
    optimizer = tg.optim.Stepper(model, tg.optim.weight_ema(tg.optim.adam(0.1), 0.8))
    np.testing.assert_array_equal(optimizer.averages()["weight"], model.state_dict()["weight"])
    for _ in range(3):
        training.step(x=X)
        optimizer.zero_grad()
        loss_of(model, X).backward()
        optimizer.step()
    before = model.state_dict()["weight"]
    np.testing.assert_allclose(optimizer.averages()["weight"], training.averages()["weight"], rtol=1e-5)
    with optimizer.averaged():
        np.testing.assert_allclose(model.state_dict()["weight"], training.averages()["weight"], rtol=1e-5)
    np.testing.assert_array_equal(model.state_dict()["weight"], before)
    assert model.weight.requires_grad


MISTAKES: list[tuple[Any, str]] = [
    (lambda: tg.optim.weight_ema(cast(Any, 0.9)), "takes an optimizer"),
    (lambda: tg.optim.weight_ema(tg.optim.sgd(0.1), 1.0), "decay must be"),
    (lambda: tg.optim.weight_ema(tg.optim.weight_ema(tg.optim.sgd(0.1))), "sgd keeps an average already"),
    (lambda: compiled(tg.optim.sgd(0.1)).averages(), "the optimizer keeps no averages: tg.optim.weight_ema"),
    (lambda: compiled(tg.optim.sgd(0.1)).averaged().__enter__(), "the optimizer keeps no averages"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistakes(mistake: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        mistake()
