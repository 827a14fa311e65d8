"""Recurrent layers compared with PyTorch: values, states and gradients; and errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from draws import generator

import tensorgrad as tg
from tensorgrad import nn
from tensorgrad.errors import DTypeError, InputError, OptionError, ShapeError

RNG = generator(0)
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
    """Returns our layer, PyTorch's with random parameters, and these parameters for ours."""
    ours, theirs = LAYERS[name]
    layer, reference = ours(3, 5, **options), theirs(3, 5, **options)
    return layer, reference, nn.from_torch(layer, reference.state_dict())


@pytest.mark.in_turns(3)
@by_layer
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.parametrize("has_state", [False, True], ids=["zeros", "state"])
def test_same_as_pytorch(name: str, options: dict[str, Any], has_state: bool) -> None:
    layer, reference, parameters = pair(name, options)
    assert {path: p.shape for path, p in layer.named_parameters().items()} == {
        path: tuple(p.shape) for path, p in reference.named_parameters()
    }
    x = values(2, 6, 3) if options.get("batch_first") else values(6, 2, 3)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    states = [values(count, 2, 5) for _ in range(layer.STATES if has_state else 0)]
    tensors = [torch.tensor(value, requires_grad=True) for value in (x, *states)]
    packed = tuple(tensors[1:]) if len(states) > 1 else tensors[1] if states else None
    expected = flat(reference(tensors[0], packed))
    weights = [values(*output.shape) for output in expected]
    total: Any = sum((correct * torch.tensor(weight)).sum() for correct, weight in zip(expected, weights, strict=True))
    total.backward()

    def loss(model: Any, **inputs: Any) -> Any:
        rest = [inputs[f"s{i}"] for i in range(len(states))]
        outputs = flat(model(inputs["x"], tuple(rest) if len(rest) > 1 else rest[0] if rest else None))
        return sum(tg.sum(output * weight) for output, weight in zip(outputs, weights, strict=True))

    named = {"x": x, **{f"s{i}": state for i, state in enumerate(states)}}
    shapes = {key: value.shape for key, value in named.items()}
    training = tg.compile(layer, loss=loss, optimizer=tg.optim.sgd(1.0), inputs=shapes, device="numpy")
    training.load_parameters(parameters)
    rest = list(named)[1:]
    forward = training.attach(
        lambda model, **inputs: flat(
            model(inputs["x"], tuple(inputs[k] for k in rest) if len(rest) > 1 else inputs[rest[0]] if rest else None)
        ),
        inputs=shapes,
    )
    for actual, correct in zip(forward(**named), expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual), correct.detach().numpy(), rtol=1e-4, atol=1e-5)
    training.step(**named)
    for path, gradient in reference.named_parameters():
        actual = parameters[path] - training.parameters()[path]
        np.testing.assert_allclose(actual, gradient.grad.numpy(), rtol=1e-3, atol=2e-4, err_msg=path)


@by_layer
def test_without_a_batch(name: str) -> None:
    layer, reference, parameters = pair(name, {})
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    training.load_parameters(parameters)
    x = values(6, 3)
    outputs = training.attach(lambda model, x: flat(model(x)), inputs={"x": x.shape})(x=x)
    for output, expected in zip(outputs, flat(reference(torch.tensor(x))), strict=True):
        np.testing.assert_allclose(np.asarray(output), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_relu() -> None:
    layer, reference, parameters = pair("RNN", {"nonlinearity": "relu"})
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    training.load_parameters(parameters)
    x = values(6, 2, 3)
    output = training.attach(lambda model, x: model(x)[0], inputs={"x": x.shape})(x=x)
    np.testing.assert_allclose(np.asarray(output), reference(torch.tensor(x))[0].detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
@by_layer
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_training_is_the_same_on_devices(name: str, device: tg.DeviceName) -> None:
    """A running sum is learned; every device ends with numpy's parameters."""
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
    plain = training.attach(lambda model, x: nn.inference(model)(x)[0], inputs={"x": x.shape})(x=x)
    dropped = [
        training.attach(lambda model, x, k=k: model(x, dropout_key=tg.random.key(k))[0], inputs={"x": x.shape})(x=x)
        for k in (0, 0, 1)
    ]
    same = [np.array_equal(np.asarray(a), np.asarray(b)) for a, b in itertools.pairwise([plain, *dropped])]
    assert same == [False, True, False]


PADDED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "mask", "numpy"),
    ({"batch_first": True, "bidirectional": True}, "lengths", "wgpu"),
    ({"num_layers": 2, "bidirectional": True}, "lengths", "numpy"),
    ({"num_layers": 3, "batch_first": True, "bias": False}, "mask", "numpy"),
]
LENGTHS = [3, 6, 1, 5]


def mask_of(lengths: list[int], length: int, batch_first: bool) -> np.ndarray:
    rows = np.arange(length)[None, :] < np.array(lengths)[:, None]
    return rows if batch_first else rows.T


@pytest.mark.nightly
@by_layer
@pytest.mark.parametrize(("options", "padding", "device"), PADDED)
def test_padded_batches_are_packed_sequences(
    name: str, options: dict[str, Any], padding: str, device: tg.DeviceName
) -> None:
    layer, reference, parameters = pair(name, options)
    first = bool(options.get("batch_first"))
    length, batch = 6, len(LENGTHS)
    x = values(batch, length, 3) if first else values(length, batch, 3)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    states = [values(count, batch, 5) for _ in range(layer.STATES)]
    tensors = [torch.tensor(value, requires_grad=True) for value in (x, *states)]
    packed = torch.nn.utils.rnn.pack_padded_sequence(tensors[0], torch.tensor(LENGTHS), first, enforce_sorted=False)
    outputs, last = reference(packed, tuple(tensors[1:]) if len(states) > 1 else tensors[1])
    expected = flat((torch.nn.utils.rnn.pad_packed_sequence(outputs, first)[0], last))
    weights = [values(*output.shape) for output in expected]
    total: Any = sum((correct * torch.tensor(weight)).sum() for correct, weight in zip(expected, weights, strict=True))
    total.backward()
    counts = np.array(LENGTHS, np.int32) if padding == "lengths" else mask_of(LENGTHS, length, first)
    where = mask_of(LENGTHS, length, first)[..., None]
    x = np.where(where, x, np.nan).astype(np.float32)  # whatever is in the padding

    def results(model: Any, **inputs: Any) -> list[Any]:
        rest = [inputs[f"s{i}"] for i in range(len(states))]
        return flat(model(inputs["x"], tuple(rest) if len(rest) > 1 else rest[0], **{padding: inputs[padding]}))

    class Inputs(nn.Module):
        """The layer's inputs as parameters, to get gradients with respect to them."""

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.x = layer, nn.param(x.shape, 0.0)
            self.states = [nn.param(state.shape, 0.0) for state in states]

    def loss(model: Any, counts: Any) -> Any:
        inputs = {"x": model.x, **{f"s{i}": state for i, state in enumerate(model.states)}, padding: counts}
        return sum(tg.sum(o * w) for o, w in zip(results(model.layer, **inputs), weights, strict=True))

    specs = {"counts": tg.spec(counts.shape, "i32" if padding == "lengths" else "bool")}
    training = tg.compile(Inputs(), loss=loss, optimizer=tg.optim.sgd(1.0), inputs=specs, device=device)
    below = {f"layer.{path}": value for path, value in parameters.items()}
    everything = {**below, "x": x, **{f"states.{i}": state for i, state in enumerate(states)}}
    training.load_parameters(everything)
    forward = training.attach(
        lambda model, counts: results(
            model.layer, x=model.x, **{f"s{i}": s for i, s in enumerate(model.states)}, **{padding: counts}
        ),
        inputs=specs,
    )
    for actual, correct in zip(forward(counts=counts), expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual), correct.detach().numpy(), rtol=1e-4, atol=1e-5)
    training.step(counts=counts)
    after = training.parameters()
    for path, parameter in reference.named_parameters():
        actual = below[f"layer.{path}"] - after[f"layer.{path}"]
        np.testing.assert_allclose(actual, parameter.grad.numpy(), rtol=1e-3, atol=2e-4, err_msg=path)
    for i, correct in enumerate(tensors[1:]):
        assert correct.grad is not None
        np.testing.assert_allclose(states[i] - after[f"states.{i}"], correct.grad.numpy(), rtol=1e-3, atol=2e-4)
    assert tensors[0].grad is not None
    gradient = np.where(where, x - after["x"], 0)
    np.testing.assert_allclose(gradient, tensors[0].grad.numpy(), rtol=1e-3, atol=2e-4)


@by_layer
def test_a_mask_skips_elements_anywhere(name: str) -> None:
    layer, reference, parameters = pair(name, {"bidirectional": True})
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    training.load_parameters(parameters)
    x, mask = values(6, 3), np.array([False, True, False, True, True, False])
    expected = flat(reference(torch.tensor(x[mask])))
    outputs = training.attach(lambda model, x, mask: flat(model(x, mask=mask)))(x=x, mask=mask)
    np.testing.assert_allclose(np.asarray(outputs[0])[mask], expected[0].detach().numpy(), rtol=1e-4, atol=1e-5)
    assert not np.asarray(outputs[0])[~mask].any()
    for output, like in zip(outputs[1:], expected[1:], strict=True):
        np.testing.assert_allclose(np.asarray(output), like.detach().numpy(), rtol=1e-4, atol=1e-5)
    shorter = training.attach(lambda model, x: flat(model(x, lengths=4)))(x=x)
    for output, like in zip(shorter[1:], flat(reference(torch.tensor(x[:4])))[1:], strict=True):
        np.testing.assert_allclose(np.asarray(output), like.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_sequence_of_no_elements_leaves_the_state() -> None:
    layer, _, parameters = pair("GRU", {"bidirectional": True})
    training = tg.compile(layer, loss=lambda model: 0.0, optimizer=tg.optim.sgd(0.0), inputs={}, device="numpy")
    training.load_parameters(parameters)
    x, state = values(4, 2, 3), values(2, 2, 5)
    output, last = training.attach(lambda model, x, s: model(x, s, lengths=[0, 4]))(x=x, s=state)
    assert not np.asarray(output)[:, 0].any() and np.asarray(output)[:, 1].all()
    assert np.array_equal(np.asarray(last)[:, 0], state[:, 0]) and np.all(np.asarray(last)[:, 1] != state[:, 1])


@by_layer
def test_parameters_go_to_pytorch_and_back(name: str) -> None:
    layer, reference, parameters = pair(name, {"num_layers": 2, "bidirectional": True})
    there = nn.to_torch(layer, parameters)
    assert there.keys() == reference.state_dict().keys()
    reference.load_state_dict({key: torch.from_numpy(value) for key, value in there.items()})
    back = nn.from_torch(layer, reference.state_dict())
    assert all(np.array_equal(back[path], value) for path, value in parameters.items())


WRONG_LENGTHS: list[tuple[str, type[Exception], dict[str, Any]]] = [
    ("give lengths or a mask, not both", OptionError, {"lengths": [1, 2], "mask": np.ones((5, 2), bool)}),
    (r"expected lengths of shape \(2,\), got \(3,\)", ShapeError, {"lengths": [1, 2, 3]}),
    (r"expected a mask of shape \(5, 2\), got \(2, 5\)", ShapeError, {"mask": np.ones((2, 5), bool)}),
    ("lengths must be integers, they are f32", DTypeError, {"lengths": np.ones(2, np.float32)}),
    ("the mask must hold booleans, it holds f32", DTypeError, {"mask": np.ones((5, 2), np.float32)}),
    (r"lengths must be from 0 to 5, got \[1, 6\]", InputError, {"lengths": [1, 6]}),
    (r"lengths must be from 0 to 5, got \[-1, 2\]", InputError, {"lengths": [-1, 2]}),
]


@pytest.mark.parametrize(
    ("message", "error", "arguments"), WRONG_LENGTHS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_wrong_lengths(message: str, error: type[Exception], arguments: dict[str, Any]) -> None:
    with pytest.raises(error, match=rf"test_recurrent.py:\d+: LSTM: {message}"):
        tg.compile(
            nn.LSTM(3, 4),
            loss=lambda model: tg.sum(model(tg.zeros((5, 2, 3)), **arguments)[0]),
            optimizer=tg.optim.sgd(0.1),
            inputs={},
            device="numpy",
        )


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
        ("the state must be a tuple of 2 tensors, got 1", lambda m: m(tg.zeros((5, 2, 3)), tg.zeros((1, 2, 4)))),
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
