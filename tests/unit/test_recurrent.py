"""Recurrent layers against PyTorch: values, states and gradients; and wrong use."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad import nn
from tensorgrad.errors import OptionError, ShapeError

RNG = np.random.default_rng(0)
LAYERS: dict[str, tuple[type[nn.RNN] | type[nn.GRU] | type[nn.LSTM], Any]] = {
    "RNN": (nn.RNN, torch.nn.RNN),
    "GRU": (nn.GRU, torch.nn.GRU),
    "LSTM": (nn.LSTM, torch.nn.LSTM),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"num_layers": 2, "bias": False},
    {"bidirectional": True},
]
by_layer = pytest.mark.parametrize("name", LAYERS)


def values(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def flat(result: Any) -> list[Any]:
    output, state = result
    return [output, *(state if isinstance(state, tuple) else (state,))]


def pair(name: str, options: dict[str, Any]) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """Our layer, PyTorch's with random parameters, and these as ours."""
    ours, theirs = LAYERS[name]
    layer, reference = ours(3, 5, **options), theirs(3, 5, **options)
    return layer, reference, nn.from_torch(layer, reference.state_dict())


@by_layer
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "state"])
def test_same_as_pytorch(name: str, options: dict[str, Any], given: bool) -> None:
    layer, reference, parameters = pair(name, options)
    assert {path: p.shape for path, p in layer.named_parameters().items()} == {
        path: tuple(p.shape) for path, p in reference.named_parameters()
    }
    x = values(2, 6, 3) if options.get("batch_first") else values(6, 2, 3)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    states = [values(count, 2, 5) for _ in range(layer.STATES if given else 0)]
    tensors = [torch.tensor(one, requires_grad=True) for one in (x, *states)]
    packed = tuple(tensors[1:]) if len(states) > 1 else tensors[1] if states else None
    expected = flat(reference(tensors[0], packed))
    weights = [values(*one.shape) for one in expected]
    total: Any = sum((one * torch.tensor(weight)).sum() for one, weight in zip(expected, weights, strict=True))
    total.backward()

    def loss(model: Any, **inputs: Any) -> Any:
        rest = [inputs[f"s{i}"] for i in range(len(states))]
        found = flat(model(inputs["x"], tuple(rest) if len(rest) > 1 else rest[0] if rest else None))
        return sum(tg.sum(one * weight) for one, weight in zip(found, weights, strict=True))

    named = {"x": x, **{f"s{i}": one for i, one in enumerate(states)}}
    shapes = {key: one.shape for key, one in named.items()}
    training = tg.compile(layer, loss=loss, optimizer=tg.optim.sgd(1.0), inputs=shapes, device="numpy")
    training.load_parameters(parameters)
    rest = list(named)[1:]
    forward = training.attach(
        lambda model, **inputs: flat(
            model(inputs["x"], tuple(inputs[k] for k in rest) if len(rest) > 1 else inputs[rest[0]] if rest else None)
        ),
        inputs=shapes,
    )
    for found, one in zip(forward(**named), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), one.detach().numpy(), rtol=1e-4, atol=1e-5)
    training.step(**named)
    for path, gradient in reference.named_parameters():
        found = parameters[path] - training.parameters()[path]
        np.testing.assert_allclose(found, gradient.grad.numpy(), rtol=1e-3, atol=2e-4, err_msg=path)


@by_layer
def test_without_a_batch(name: str) -> None:
    layer, reference, parameters = pair(name, {})
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    training.load_parameters(parameters)
    x = values(6, 3)
    found = training.attach(lambda model, x: flat(model(x)), inputs={"x": x.shape})(x=x)
    for one, expected in zip(found, flat(reference(torch.tensor(x))), strict=True):
        np.testing.assert_allclose(np.asarray(one), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_relu() -> None:
    layer, reference, parameters = pair("RNN", {"nonlinearity": "relu"})
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    training.load_parameters(parameters)
    x = values(6, 2, 3)
    found = training.attach(lambda model, x: model(x)[0], inputs={"x": x.shape})(x=x)
    np.testing.assert_allclose(np.asarray(found), reference(torch.tensor(x))[0].detach().numpy(), rtol=1e-4, atol=1e-5)


@by_layer
@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_training_is_the_same_on_devices(name: str, device: str) -> None:
    """A running sum is learned; every device ends where numpy ends."""
    x = np.random.default_rng(1).normal(size=(8, 4, 1)).astype(np.float32)
    y = np.cumsum(x, 0) * np.float32(0.1)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = LAYERS[name][0](1, 6)
            self.out = nn.Linear(6, 1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return tg.mean(tg.square(model.out(model.layer(x)[0]) - y))

    training = tg.compile(
        Model(), loss=loss, optimizer=tg.optim.adam(2e-2), inputs={"x": x.shape, "y": y.shape}, device=device
    )
    losses = [float(training.step(x=x, y=y)) for _ in range(30)]
    assert losses[-1] < losses[0] / 5
    reference = tg.compile(
        Model(), loss=loss, optimizer=tg.optim.adam(2e-2), inputs={"x": x.shape, "y": y.shape}, device="numpy"
    )
    expected = [float(reference.step(x=x, y=y)) for _ in range(30)]
    np.testing.assert_allclose(losses, expected, rtol=2e-3)


def test_dropout_between_layers() -> None:
    layer = nn.GRU(3, 4, num_layers=2, dropout=0.5)
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    x = values(5, 2, 3)
    plain = training.attach(lambda model, x: model(x)[0], inputs={"x": x.shape})(x=x)
    dropped = [
        training.attach(lambda model, x, k=k: model(x, dropout_key=tg.random.key(k))[0], inputs={"x": x.shape})(x=x)
        for k in (0, 0, 1)
    ]
    same = [np.array_equal(np.asarray(a), np.asarray(b)) for a, b in itertools.pairwise([plain, *dropped])]
    assert same == [False, True, False]


def test_wrong_use() -> None:
    with pytest.raises(ShapeError, match="GRU: hidden_size must be a positive integer, got 0"):
        nn.GRU(3, 0)
    with pytest.raises(OptionError, match="LSTM: dropout must be a number between 0 and 1, got 2"):
        nn.LSTM(3, 4, dropout=2)
    with pytest.raises(OptionError, match="nonlinearity must be one of tanh, relu, got 'sin'"):
        nn.RNN(3, 4, nonlinearity="sin")
    options: list[tuple[str, Any]] = [
        (r"expected a shape \[length, 3\] or \[..., ..., 3\], got \(5, 2, 4\)", lambda m: m(tg.zeros((5, 2, 4)))),
        (r"expected a state of shape \(1, 2, 4\), got", lambda m: m(tg.zeros((5, 2, 3)), (tg.zeros((1, 4)),) * 2)),
        ("the state is a tuple of 2 tensors, got 1", lambda m: m(tg.zeros((5, 2, 3)), tg.zeros((1, 2, 4)))),
    ]
    for message, call in options:
        with pytest.raises(ShapeError, match=rf"test_recurrent.py:\d+: LSTM: {message}"):
            tg.compile(
                nn.LSTM(3, 4),
                loss=lambda model, call=call: tg.sum(call(model)[0]),
                optimizer=tg.optim.sgd(0.1),
                inputs={},
                device="numpy",
            )
