"""Layers that move in a tree keep their values: in initialized models, in trainings, with the optimizer's state."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad import nn
from tensorgrad.errors import InputError, OptionError, ParameterError, TraceError

X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
Y = X[:, :1] * X[:, 1:2]


class Adapted(nn.Module):
    """A layer and a low-rank correction that is initially zero."""

    def __init__(self, base: Any, rank: int = 2) -> None:
        super().__init__()
        self.base = base
        inputs, outputs = base.weight.shape
        self.a = nn.param((inputs, rank), init=tg.initializers.normal(0.02))
        self.b = nn.param((rank, outputs), init=0.0)

    def __call__(self, x: Any) -> Any:
        return self.base(x) + x @ self.a @ self.b


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q: Any = nn.Linear(4, 4)
        self.k: Any = nn.Linear(4, 4)
        self.blocks: Any = [nn.Linear(4, 4)]
        self.out = nn.Linear(4, 1)

    def __call__(self, x: Any) -> Any:
        hidden = tg.tanh(self.q(x))
        for layer in (self.k, *self.blocks):
            hidden = hidden if layer is None else tg.tanh(layer(hidden))
        return self.out(hidden)


def loss(model: Any, x: Any, y: Any) -> Any:
    return tg.mse(model(x), y)


def compiled(model: Any, device: tg.DeviceName = "numpy") -> tg.Training:
    inputs = {"x": X.shape, "y": Y.shape}
    return tg.compile(model, loss=loss, optimizer=tg.optim.adam(1e-2), inputs=inputs, device=device)


def wrap(net: Net) -> dict[str, str]:
    net.q = Adapted(net.q)
    return {"q.base.weight": "q.weight", "q.base.bias": "q.bias", "q.a": "", "q.b": ""}


def swap(net: Net) -> dict[str, str]:
    net.q, net.k = net.k, net.q
    return {"q.weight": "k.weight", "q.bias": "k.bias", "k.weight": "q.weight", "k.bias": "q.bias"}


def into_a_list(net: Net) -> dict[str, str]:
    net.blocks = [*net.blocks, net.k]
    net.k = None
    return {"blocks.1.weight": "k.weight", "blocks.1.bias": "k.bias"}


def share(net: Net) -> dict[str, str]:
    net.k = net.q
    return {"q.weight": "q.weight"}


def replace_by_a_new_one(net: Net) -> dict[str, str]:
    net.q = nn.Linear(4, 4)
    return {"q.weight": "", "q.bias": ""}


def change_a_list(net: Net) -> dict[str, str]:
    net.blocks[0] = Adapted(net.blocks[0])
    net.blocks.append(nn.Linear(4, 4))
    moved = {f"blocks.0.base.{name}": f"blocks.0.{name}" for name in ("weight", "bias")}
    return {**moved, **dict.fromkeys(["blocks.0.a", "blocks.0.b", "blocks.1.weight", "blocks.1.bias"], "")}


CHANGES = [wrap, swap, into_a_list, share, replace_by_a_new_one, change_a_list]
by_change = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
Change = Callable[[Net], dict[str, str]]


@by_change
def test_a_training_continues_with_moved_layers(change: Change) -> None:
    net = Net()
    first = compiled(net)
    for _ in range(3):
        first.step(x=X, y=Y)
    before = first.state_dict()
    sources = change(net)
    with pytest.raises(ParameterError, match="the model's parameters changed since"):
        first.model()
    second = first.replace_model()
    after = second.state_dict()
    assert second.replaced is not None and second.step_count == 3
    for path in second.parameters():
        source = sources.get(path, path)
        assert (path in second.replaced.kept) == bool(source), path
        for prefix in ("", "optimizer/adam.m/", "optimizer/adam.v/"):
            same = bool(source) and np.array_equal(after[prefix + path], before[prefix + source])
            assert same == bool(source), prefix + path
    second.step(x=X, y=Y)


@by_change
def test_an_initialized_model_can_be_changed(change: Change) -> None:
    net = Net()
    model = net.initialized(0)
    before = {path: np.asarray(value) for path, value in model.named_parameters().items()}
    sources = change(model)
    new = [path for path, source in sources.items() if not source]
    if new:
        with pytest.raises(ParameterError, match=r"has no values: .*model\.initialized\(seed\)"):
            model(X)
    complete = model.initialized(7)
    training = compiled(model)  # which draws new ones itself
    for path, value in complete.named_parameters().items():
        source = sources.get(path, path)
        assert not source or np.array_equal(value, before[source]), path
        assert not source or np.array_equal(training.parameters()[path], before[source]), path
    if change is wrap:
        assert np.allclose(complete(X), net.initialized(0)(X), atol=1e-6)
    assert list(net.named_parameters()) == list(before) and isinstance(net.q, nn.Linear)  # it is another model


def test_a_wrapped_base_is_frozen() -> None:
    model = Net().initialized(0)
    model.freeze()
    model.q = Adapted(model.q)
    base, training = np.asarray(model.q.base.weight), compiled(model)
    start = float(training.step(x=X, y=Y))
    training.run(50, {"x": X, "y": Y})
    assert float(training.step(x=X, y=Y)) < start and np.array_equal(training.parameters()["q.base.weight"], base)
    assert "frozen" in repr(model) and "q.base.weight" not in training.gradients(x=X, y=Y)
    wider = training.model()
    wider.k = Adapted(wider.k)
    assert np.array_equal(training.replace_model(wider).parameters()["k.base.weight"], wider.k.base.weight)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_layers_move_on_a_device(device: tg.DeviceName) -> None:
    model = Net().initialized(0, device=device)
    weight, expected = model.q.weight, np.asarray(model(tg.tensor(X, device=device)))
    model.freeze("q.*")
    assert not weight.requires_grad and model.k.weight.requires_grad
    model.q = Adapted(model.q)
    assert model.named_parameters()["q.base.weight"] is weight
    model = model.initialized(1, device=device)
    output = model(tg.tensor(X, device=device))
    assert np.allclose(np.asarray(output), expected, atol=1e-6)
    output.sum().backward()
    assert model.q.base.weight.grad is None and model.q.b.grad is not None
    training = compiled(model, device)
    with tg.no_grad():
        model.q.b.add_(1.0)
    training.step(x=X, y=Y)
    training.reset()
    assert not training.parameters()["q.b"].any()


def test_layers_of_several_models_stay_apart() -> None:
    net = Net()
    first, second = net.initialized(0), net.initialized(1)
    models = {"one": first, "two": second, "copy": copy.deepcopy(first), "again": first}
    both = tg.compile(models, loss=lambda m: 0.0, optimizer=None, inputs={}, device="numpy").parameters()
    assert len(both) == 3 * len(first.parameters())
    first.k = second.q
    assert first.k.weight is second.q.weight
    again = pickle.loads(pickle.dumps(first))
    assert np.array_equal(again.k.weight, second.q.weight) and again.initialized().k.weight is not again.k.weight


def test_a_model_that_a_function_returns_is_initialized_again() -> None:
    model = Net().initialized(0)
    slopes: Any = tg.grad(lambda m: tg.sum(m(X)))(model)
    with pytest.raises(ParameterError, match=r"Net\.q is set in a model that a function returned: initialized\(\)"):
        slopes.q = Adapted(slopes.q)
    own: Any = slopes.initialized()
    weight = np.asarray(next(iter(slopes.named_parameters().values())))
    own.q = Adapted(own.q)
    assert np.array_equal(own.q.base.weight, weight)


def test_a_model_as_a_function_of_its_values() -> None:
    net = nn.MLP(4, 8, 1)
    model = net.initialized(0)

    def scaled(scale: Any) -> Any:
        values = {path: value * scale for path, value in model.named_parameters().items()}
        return tg.mse(net.initialized(values=values)(X), Y)

    step = 1e-2
    numeric = (scaled(1 + step) - scaled(1 - step)) / (2 * step)
    assert np.isclose(tg.grad(scaled)(1.0), numeric, rtol=1e-2)
    assert np.isclose(tg.jit(tg.grad(scaled), device="numpy")(1.0), tg.grad(scaled)(1.0), rtol=1e-5)
    eager = tg.tensor(1.0, device="numpy", requires_grad=True)
    scaled(eager).backward()
    assert np.isclose(eager.grad, tg.grad(scaled)(1.0), rtol=1e-5)

    def adapted(model: Any, x: Any, y: Any) -> Any:  # one step of gradient descent, differentiated
        slopes = tg.grad(lambda m: tg.mse(m(x), y))(model).named_parameters()
        inner = {path: value - 0.1 * slopes[path] for path, value in model.named_parameters().items()}
        return tg.mse(model.initialized(values=inner)(x), y)

    training = tg.compile(
        net, loss=adapted, optimizer=tg.optim.adam(1e-2), inputs={"x": X.shape, "y": Y.shape}, device="numpy"
    )
    losses = [float(training.step(x=X, y=Y)) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_an_ensemble_of_models() -> None:
    net = nn.MLP(4, 8, 1)
    models = [net.initialized(seed) for seed in range(3)]
    stacked = {path: tg.stack([m.named_parameters()[path] for m in models]) for path in net.named_parameters()}
    outputs = tg.vmap(lambda values: net.initialized(values=values)(X))(stacked)
    assert np.allclose(outputs, np.stack([model(X) for model in models]), atol=1e-6)
    with pytest.raises(TraceError, match=r"the seed is a traced tensor, .* tg\.stack their parameters"):
        tg.vmap(lambda seed: net.initialized(seed)(X))(np.arange(3))


def test_values_that_do_not_fit() -> None:
    net = nn.Linear(4, 2)

    def with_values(**values: Any) -> Any:
        return tg.jit(
            lambda s: tg.sum(net.initialized(values={k: s * v for k, v in values.items()})(X)), device="numpy"
        )

    with pytest.raises(InputError, match=r"parameter 'weight' is f32\[4, 2\], the value f32\[2\]"):
        with_values(weight=np.ones(2, np.float32))(1.0)
    with pytest.raises(InputError, match="unknown parameter 'wieght'"):
        with_values(wieght=np.ones((4, 2), np.float32))(1.0)
    with pytest.raises(OptionError, match="values that are computed in a trace can't go to 'cpu'"):
        tg.jit(lambda s: net.initialized(values={"bias": s * np.ones(2, "f4")}, device="cpu").bias, device="numpy")(1.0)
