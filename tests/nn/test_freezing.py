"""Frozen parameters, and parameters that a loss does not depend on."""

from __future__ import annotations

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import FrozenWarning, OptionError, ParameterError, UnusedParameterWarning


class Net(tg.nn.Module):
    def __init__(self):
        self.encoder = [tg.nn.Linear(3, 4), tg.nn.Linear(4, 4)]
        self.head = tg.nn.Linear(4, 2)

    def __call__(self, x):
        for layer in self.encoder:
            x = tg.tanh(layer(x))
        return self.head(x)


def loss(model, x):
    return tg.mean((model(x) - 1.0) ** 2)


X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def compiled(model, optimizer=None, device: tg.DeviceName = "numpy", function=loss):
    optimizer = optimizer or tg.optim.adamw(0.1)
    return tg.compile(model, loss=function, optimizer=optimizer, inputs={"x": (5, 3)}, device=device)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_frozen_parameters_have_no_state_and_stay(device, clip_norm):
    model = Net()
    model.freeze("encoder.*")
    model.trainable("*.1.bias")
    training = compiled(model, tg.optim.adamw(0.1, clip_norm=clip_norm), device)
    before = training.parameters()
    losses = [float(training.step(x=X)) for _ in range(5)]
    after = training.parameters()
    assert list(before) == list(after) == list(Net().named_parameters()) and losses[-1] < losses[0]
    trained = {name for name in after if not np.array_equal(before[name], after[name])}
    assert trained == {"encoder.1.bias", "head.weight", "head.bias"}
    state = training.state_dict()
    assert {name.rpartition("/")[2] for name in state if name.startswith("optimizer/")} == trained
    assert set(after) < set(state)


def test_what_is_trained_is_as_if_others_were_constants():
    model, other = Net(), Net()
    model.freeze("encoder.*")
    training, every = compiled(model, tg.optim.sgd(0.1)), compiled(other, tg.optim.sgd(0.1))
    training.step(x=X)
    every.step(x=X)
    for name in ("head.weight", "head.bias"):
        assert np.allclose(training.parameters()[name], every.parameters()[name], rtol=1e-6)
    assert "encoder.0.weight" in training.module("tg")


def test_the_norm_is_that_of_what_is_trained():
    model = Net()
    model.freeze("encoder.*", "head.weight")
    training = compiled(model, tg.optim.sgd(1.0, clip_norm=1e-3))
    before = training.parameters()["head.bias"]
    training.step(x=X)
    moved = training.parameters()["head.bias"] - before
    assert np.isclose(np.linalg.norm(moved), 1e-3, rtol=2e-3)


def test_programs_keep_what_they_train():
    model = Net()
    first = compiled(model)
    model.freeze()
    assert all(not parameter.trainable for parameter in model.named_parameters().values())
    before = first.parameters()
    with pytest.warns(FrozenWarning, match=r"whether encoder\.0\.weight, .* is frozen is as it was.*replace_model\(\)"):
        first.step(x=X)
    first.step(x=X)  # said once
    assert not np.array_equal(before["head.bias"], first.parameters()["head.bias"])
    model.trainable()
    with pytest.warns(FrozenWarning):
        first.step(x=X)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_where_all_is_frozen_or_there_is_no_optimizer_steps_are_evaluations(device):
    class Counting(Net):
        def __init__(self):
            super().__init__()
            self.seen = tg.nn.buffer((), dtype="i32")

    def counted(model, x):
        model.seen.assign(model.seen + x.shape[0])
        return loss(model, x), {"seen": model.seen}

    frozen = Counting()
    frozen.freeze()
    plain = tg.compile(Counting(), loss=counted, optimizer=None, inputs={"x": (5, 3)}, device=device)
    for training in (compiled(frozen, device=device, function=counted), plain):
        before = training.parameters()
        values = [training.step(x=X) for _ in range(2)]
        assert float(values[0][0]) == float(values[1][0]) and [int(m["seen"]) for _, m in values] == [5, 10]
        assert all(np.array_equal(value, before[path]) for path, value in training.parameters().items())
        assert not any(name.startswith("optimizer/") for name in training.state_dict())
        assert training.settings == {} and training.step_count == 2 and '"gradient"' not in training.module("tg")
        for refused in (lambda t: t.learning_rate, lambda t: t.set_learning_rate(0.1), lambda t: t.gradients(x=X)):
            with pytest.raises(OptionError):
                refused(training)
        assert float(training.evaluate(lambda model, x: loss(model, x), [{"x": X}])) == pytest.approx(
            float(values[0][0]), rel=1e-5
        )
    with pytest.raises(OptionError, match="accumulate=2 is for a program that trains"):
        tg.compile(Net(), loss=loss, optimizer=None, inputs={"x": (5, 3)}, device=device, accumulate=2)
    no_parameters = tg.compile(
        tg.nn.Sequential(tg.nn.ReLU()), loss=loss, optimizer=None, inputs={"x": (5, 3)}, device=device
    )
    assert float(no_parameters.step(x=X)) == pytest.approx(((np.maximum(X, 0) - 1) ** 2).mean(), rel=1e-5)


def test_modules_show_what_is_frozen():
    model = Net()
    model.freeze("head.weight")
    assert repr(model).count("frozen") == 1 and "weight: f32[4, 2] frozen" in repr(model).replace("2, 4", "4, 2")


@pytest.mark.parametrize("method", ["freeze", "trainable"])
def test_a_pattern_that_fits_nothing_names_near_paths(method):
    model = Net()
    model.freeze("encoder.0.*")
    before = [parameter.trainable for parameter in model.named_parameters().values()]
    message = rf"{method}: 'head.wieght' matches no parameter; the nearest are head\.weight"
    with pytest.raises(ParameterError, match=message):
        getattr(model, method)("encoder.*", "head.wieght")
    assert [parameter.trainable for parameter in model.named_parameters().values()] == before


def test_a_trace_changes_nothing():
    def freezing(model, x):
        model.head.freeze()
        return loss(model, x)

    with pytest.raises(ParameterError, match="traced"):
        compiled(Net(), function=freezing)


class Wider(Net):
    def __init__(self):
        super().__init__()
        self.extra = tg.nn.Linear(2, 2)


def stopped(model, x):
    return loss(model, x) + tg.sum(tg.stop_gradient(model.extra.weight)) + tg.sum(model.extra.bias)


def test_a_parameter_that_the_loss_does_not_depend_on_is_named():
    with pytest.warns(UnusedParameterWarning) as warned:
        compiled(Wider())
    assert [str(warning.message).rpartition("parameter ")[2] for warning in warned] == [
        "'extra.weight', which is to be trained",
        "'extra.bias', which is to be trained",
    ]
    assert all(
        "test_freezing.py:" in str(warning.message) and "loss() does not" in str(warning.message) for warning in warned
    )
    assert all(warning.filename == __file__ for warning in warned)
    with pytest.warns(UnusedParameterWarning, match=r"'extra\.weight'"):
        compiled(Wider(), function=stopped)


@pytest.mark.parametrize(
    "read", [tg.round, lambda x: tg.cast(x > 0, "f32"), lambda x: tg.cast(tg.argmax(x, 1), "f32"), lambda x: x // 1]
)
def test_a_parameter_that_no_derivative_reaches_is_named(read):
    def without_derivative(model, x):
        return loss(model, x) + tg.mean(read(model.extra(x[:, :2])))

    with pytest.warns(UnusedParameterWarning, match=r"'extra\.(weight|bias)'"):
        compiled(Wider(), function=without_derivative)


def test_frozen_parameters_may_be_unused(recwarn):
    model = Wider()
    model.freeze("extra.*")
    compiled(model)
    assert not recwarn.list


class Looping(tg.nn.Module):
    def __init__(self):
        self.w = tg.nn.param((3,), 1.0)

    def __call__(self, x):
        return tg.scan(lambda carry, row: (carry * self.w + row, None), tg.zeros((3,)), x)[0]


def test_parameters_in_loops_are_depended_on(recwarn):
    compiled(Looping(), function=lambda model, x: tg.sum(model(x)))
    assert not recwarn.list
