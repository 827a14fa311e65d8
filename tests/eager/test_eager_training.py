"""Eager training loops of models, losses and optimizers, compared with compiled steps; memory and errors."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.optim import packed_update


def leaf(values: Any, place: tg.DeviceName = "numpy") -> Any:
    return tg.tensor(values, device=place, requires_grad=True)


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    loaded: Any = load_digits()
    return (loaded.data / 16).astype(np.float32), loaded.target.astype(np.int32)


def classifier() -> Any:
    return tg.nn.Sequential(tg.nn.Linear(64, 32), tg.relu, tg.nn.Linear(32, 10))


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("place", ["numpy", "cpu"])
def test_an_eager_loop_trains_as_the_compiled_step(place: tg.DeviceName) -> None:
    images, labels = digits()
    training = tg.compile(
        classifier(),
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (64, 64), "y": tg.spec(64, "i32")},
        device=place,
        seed=3,
    )
    model = classifier().initialized(seed=3, device=place)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    random = np.random.default_rng(0)
    for _ in range(100):
        chosen = random.integers(0, 1500, 64)
        expected = training.step(x=images[chosen], y=labels[chosen])
        loss = tg.cross_entropy(model(tg.tensor(images[chosen], device=place)), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert float(loss) == pytest.approx(float(expected), rel=2e-3, abs=2e-4)
    with tg.no_grad():
        predicted = tg.argmax(model(tg.tensor(images[1500:], device=place)), 1)
    assert np.mean(predicted.numpy() == labels[1500:]) > 0.85
    moved = tg.compile(
        model,
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (64, 64), "y": tg.spec(64, "i32")},
        device=place,
    )
    assert float(moved.step(x=images[:64], y=labels[:64])) < 0.5


OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (lambda p: tg.optim.SGD(p, lr=0.1), tg.optim.sgd(0.1)),
    "momentum": (lambda p: tg.optim.SGD(p, 0.1, momentum=0.9, nesterov=True), tg.optim.sgd(0.1, 0.9, nesterov=True)),
    "adam": (lambda p: tg.optim.Adam(p, lr=0.01), tg.optim.adam(0.01)),
    "adamw": (lambda p: tg.optim.AdamW(p, lr=0.01, weight_decay=0.1), tg.optim.adamw(0.01, weight_decay=0.1)),
    "rmsprop": (lambda p: tg.optim.RMSprop(p, lr=0.01), tg.optim.rmsprop(0.01)),
    "adagrad": (lambda p: tg.optim.Adagrad(p, lr=0.01), tg.optim.adagrad(0.01)),
    "lion": (lambda p: tg.optim.Lion(p, lr=0.001), tg.optim.lion(0.001)),
    "clipped": (
        lambda p: tg.optim.Stepper(p, tg.optim.adam(0.01, clip_norm=0.1)),
        tg.optim.adam(0.01, clip_norm=0.1),
    ),
    "scheduled": (
        lambda p: tg.optim.SGD(p, tg.optim.schedules.cosine(0.1, 5)),
        tg.optim.sgd(tg.optim.schedules.cosine(0.1, 5)),
    ),
    "muon": (
        lambda p: tg.optim.Stepper(p, tg.optim.muon(0.01, others=tg.optim.adam(0.01))),
        tg.optim.muon(0.01, others=tg.optim.adam(0.01)),
    ),
}


@pytest.mark.usefixtures("compiled_blocks")
@pytest.mark.parametrize("name", ["momentum", "adam", "rmsprop"])
@pytest.mark.parametrize("place", ["cpu", "wgpu"])
def test_losses_with_loops_and_branches(place: tg.DeviceName, name: str) -> None:
    """The state of these optimizers is packed in rows, beside loops too."""
    x = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)

    def loss(model: Any) -> Any:
        state, _ = tg.scan(lambda c, row: (tg.tanh(model[0](c) + row), None), tg.ones((3, 2)), x)
        chosen = tg.cond(tg.sum(model[0].weight) > 0, tg.sin, tg.cos, model[1](state))
        return tg.sum(chosen**2) + tg.linalg.slogdet(model[0].weight + 2 * tg.eye(2))[1]

    def trained(place: tg.DeviceName) -> list[np.ndarray]:
        model = tg.nn.Sequential(tg.nn.Linear(2, 2), tg.nn.Linear(2, 3)).initialized(0, device=place)
        optimizer = OPTIMIZERS[name][0](model.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()
        return [parameter.numpy() for parameter in model.parameters()]

    for actual, expected in zip(trained(place), trained("numpy"), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_do_what_the_compiled_ones_do(name: str) -> None:
    make, compiled = OPTIMIZERS[name]
    x = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)

    def loss(model: Any, x: Any) -> Any:
        return tg.mean((model(x) - 1.0) ** 2)

    training = tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=compiled, inputs={"x": (8, 3)}, device="numpy")
    model = tg.nn.Linear(3, 2).initialized(device="numpy")
    optimizer = make(model)
    for _ in range(4):
        training.step(x=x)
        optimizer.zero_grad()
        loss(model, x).backward()
        optimizer.step()
    for path, value in training.state_dict(parts="model").items():
        np.testing.assert_allclose(model.named_parameters()[path].numpy(), value, rtol=1e-5, atol=1e-6)
    assert optimizer.step_count == 4


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["adam", "adafactor"])
def test_state_has_shapes_and_dtypes_of_its_own(name: str, dtype: str) -> None:
    """The state of f16 parameters is f32, and adafactor's has rows and columns; both are restored from a file."""
    make: Any = {"adam": lambda: tg.optim.adam(0.05), "adafactor": lambda: tg.optim.adafactor()}[name]
    start = np.random.default_rng(0).normal(size=(4, 3))

    def trained(parts: list[int]) -> np.ndarray:
        x: Any = tg.tensor(start, dtype, device="numpy", requires_grad=True)
        state: Any = None
        for steps in parts:
            optimizer = tg.optim.Stepper([x], make())
            if state is not None:
                optimizer.load_state_dict(state)
            for _ in range(steps):
                optimizer.zero_grad()
                (x * x).sum().backward()
                optimizer.step()
            state = optimizer.state_dict()
        assert str(x.dtype) == str(tg.array(0.0, dtype).dtype)
        return x.numpy()

    whole = trained([4])
    assert np.sum(whole.astype(np.float64) ** 2) < np.sum(start**2)
    np.testing.assert_array_equal(trained([2, 2]), whole)


def test_the_state_of_an_optimizer_goes_on() -> None:
    def trained(steps: int, state: Any = None, start: Any = None) -> tuple[Any, Any]:
        model = tg.nn.Linear(3, 2).initialized(device="cpu", values=start)
        optimizer = tg.optim.Adam(model.named_parameters(), lr=0.05)
        if state is not None:
            optimizer.load_state_dict(state)
        for _ in range(steps):
            optimizer.zero_grad()
            tg.mean((model(np.ones((4, 3), np.float32)) - 2.0) ** 2).backward()
            optimizer.step()
        return {path: parameter.numpy() for path, parameter in model.named_parameters().items()}, optimizer

    whole, _ = trained(6)
    half, optimizer = trained(3)
    rest, _ = trained(3, optimizer.state_dict(), half)
    for path, value in whole.items():
        np.testing.assert_allclose(rest[path], value, rtol=1e-6)
    with pytest.raises(tg.errors.InputError, match="'training/step' is missing"):
        optimizer.load_state_dict({})
    with pytest.raises(tg.errors.InputError, match=r"unknown state 'adam\.m/other'"):
        optimizer.load_state_dict({**optimizer.state_dict(), "adam.m/other": np.zeros(3)})
    assert optimizer.step_count == 3


def test_settings_of_an_optimizer() -> None:
    x = leaf([1.0])
    optimizer = tg.optim.SGD([x], lr=0.5)
    assert optimizer.learning_rate == 0.5
    optimizer.learning_rate = 0.25
    (x * 1.0).sum().backward()
    optimizer.step()
    assert x.tolist() == [0.75]
    with pytest.raises(tg.errors.OptionError, match="learning_rate must be"):
        optimizer.learning_rate = -1.0
    with pytest.raises(tg.errors.GradientError, match="step: no parameter has a gradient"):
        optimizer.zero_grad()
        optimizer.step()


def test_what_optimizers_refuse() -> None:
    no_optimizer: Any = 0.1
    with pytest.raises(tg.errors.OptionError, match="an optimizer takes parameters: there are none"):
        tg.optim.SGD([], 0.1)
    with pytest.raises(tg.errors.OptionError, match=r"model\.initialized\(seed, device=\.\.\.\) has tensors"):
        tg.optim.SGD(tg.nn.Linear(2, 2).parameters(), 0.1)
    with pytest.raises(tg.errors.GradientError, match="with requires_grad=True, and none of these has it"):
        tg.optim.SGD([tg.tensor([1.0], device="numpy")], 0.1)
    with pytest.raises(tg.errors.GradientError, match=r"'0' is a constant on the host: .*initialized\(0, device=\"cpu"):
        tg.optim.SGD(tg.nn.Linear(2, 2).initialized(0).parameters(), 0.1)
    with pytest.raises(tg.errors.OptionError, match="parameters of one device"):
        tg.optim.SGD([leaf([1.0]), leaf([1.0], "cpu")], 0.1)
    with pytest.raises(tg.errors.OptionError, match=r"Stepper takes an optimizer such as tg\.optim\.adam"):
        tg.optim.Stepper([leaf([1.0])], no_optimizer)


def test_parameters_without_a_gradient_stay() -> None:
    x, y = leaf([1.0]), leaf([1.0])
    optimizer = tg.optim.Adam({"x": x, "y": y}, lr=0.1)
    (x * 2).sum().backward()
    optimizer.step()
    assert (x.tolist() != [1.0], y.tolist()) == (True, [1.0])


@pytest.mark.parametrize("place", ["numpy", "cpu"])
@pytest.mark.parametrize("row_bytes", [1, 1 << 26])
def test_state_lies_in_rows(row_bytes: int, place: tg.DeviceName, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any number of rows, and although some parameters have no gradient in some steps."""
    monkeypatch.setattr(packed_update, "ROW_BYTES", row_bytes)
    start = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    parameters = [leaf(values, place) for values in start]
    others = [torch.nn.Parameter(torch.tensor(values)) for values in start]
    ours, theirs = tg.optim.Adam(parameters, lr=0.1), torch.optim.Adam(others, lr=0.1)
    for step in range(6):
        for optimizer, values in ((ours, parameters), (theirs, others)):
            optimizer.zero_grad()
            batch: Any = values if step != 5 else values[:2]
            loss: Any = sum((value**2).sum() for value in batch)
            loss.backward()
            optimizer.step()
    for parameter, other in zip(parameters, others, strict=True):
        np.testing.assert_allclose(parameter.numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)
    state = ours.state_dict()
    for number, other in enumerate(others):
        for key, theirs_ in (("m", "exp_avg"), ("v", "exp_avg_sq")):
            np.testing.assert_allclose(state[f"adam.{key}/{number}"], theirs.state[other][theirs_].numpy(), rtol=1e-4)


def test_batch_norm_keeps_its_statistics() -> None:
    model = tg.nn.BatchNorm1d(3).initialized(device="cpu")
    x = np.random.default_rng(0).normal(2.0, 3.0, (64, 3)).astype(np.float32)
    for _ in range(3):
        model(tg.tensor(x, device="cpu"))
    mean = next(value for path, value in model.named_buffers().items() if "mean" in path)
    assert np.all(np.abs(mean.numpy()) > 0.2)
    evaluated = tg.nn.inference(model)(tg.tensor(x, device="cpu"))
    assert float(tg.mean(evaluated)) != pytest.approx(0.0, abs=1e-3)


def test_a_model_lets_its_gradients_go() -> None:
    model = tg.nn.Linear(2, 1).initialized(device="numpy")
    model(np.ones((1, 2), np.float32)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
    with pytest.raises(tg.errors.ParameterError, match="zero_grad: weight is declared and gathers no gradient"):
        tg.nn.Linear(2, 1).zero_grad()


def test_frozen_parameters_gather_none() -> None:
    model = classifier()
    model.freeze("0.*")
    initialized = model.initialized(device="numpy")
    assert [parameter.requires_grad for parameter in initialized.parameters()] == [False, False, True, True]


def test_optimizers_skip_frozen_parameters() -> None:
    model = classifier()
    model.freeze("0.*")
    model = model.initialized(device="numpy")
    before = {path: value.numpy() for path, value in model.named_parameters().items()}
    groups = [{"params": model[0].parameters(), "lr": 1.0}, {"params": model[2].parameters()}]
    optimizer: Any
    for optimizer in (tg.optim.Adam(model, lr=0.1), tg.optim.Adam(groups, lr=0.1)):
        assert [len(group["params"]) for group in optimizer.param_groups] in ([4], [2, 2])
        model(np.ones((1, 64), np.float32)).sum().backward()
        optimizer.step()
        assert len([name for name in optimizer.state_dict() if name.startswith("adam.m/")]) == 2
    after = {path: value.numpy() for path, value in model.named_parameters().items()}
    changed = {path for path, value in after.items() if not np.array_equal(value, before[path])}
    assert changed == {"2.weight", "2.bias"}
    model.trainable("0.bias")
    with pytest.raises(tg.errors.GradientError, match=r"step: parameter '0\.1' required no gradient when"):
        optimizer.step()
    averaging = tg.optim.Stepper(model, tg.optim.weight_ema(tg.optim.sgd(0.1)))
    assert averaging.averages().keys() == {"0.bias", "2.weight", "2.bias"}


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "steps"), [("numpy", 2_000), ("cpu", 10_000)])
def test_ten_thousand_steps_leave_nothing(place: tg.DeviceName, steps: int) -> None:
    x = leaf([1.0, 2.0], place)
    optimizer = tg.optim.SGD([x], lr=1e-4)
    counts: list[int] = []
    losses: list[Any] = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        optimizer.step()
        losses = [*losses[-4:], loss]
        if step in (100, steps - 1):
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[1] - counts[0] < 200


@pytest.mark.usefixtures("device")
def test_rows_of_many_parts() -> None:
    """The driver takes conditions more than 80 levels deep for false, so rows of state are not gathered by such."""

    class Recurrent(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tg.nn.GRU(2, 2, batch_first=True)

        def __call__(self, x: Any) -> Any:
            return self.inner(x)[0]

    draw = np.random.default_rng(0)
    tokens, targets = draw.integers(0, 7, (8, 4)).astype(np.int32), draw.normal(size=(8, 2)).astype(np.float32)

    def state(place: tg.DeviceName) -> dict[str, np.ndarray]:
        encoder = tg.nn.TransformerEncoderLayer(2, 1, 8, dropout=0.0)
        attention = tg.nn.MultiHeadAttention(2, 1, causal=True)
        layers = [tg.nn.Embedding(7, 2), encoder, attention, Recurrent(), lambda x: tg.mean(x, axis=1)]
        model = tg.nn.Sequential(*layers, tg.nn.Linear(2, 2)).initialized(0, device=place)
        stepper = tg.optim.Stepper(model, tg.optim.rmsprop(0.1, eps=1e-2, momentum=0.5, centered=True))
        tg.mse(model(tg.tensor(tokens, device=place)), tg.tensor(targets, device=place)).backward()
        stepper.step()
        return stepper.state_dict()

    expected, actual = state("numpy"), state("wgpu")
    assert len(expected) > 90
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-5, err_msg=name)
