"""Settings that change without recompiling, and parameter groups with their own settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_optim_pytorch import PEERS, SHAPES, Parameters, check, fed, recorded
from test_packed_updates import counts

import tensorgrad as tg
from tensorgrad.errors import OptionError


def compiled(optimizer, device: tg.DeviceName = "numpy"):
    return tg.compile(Parameters(recorded()[0]), loss=fed, optimizer=optimizer, inputs=SHAPES, device=device)


CHANGES = [
    ("sgd", {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}, {"momentum": 0.5, "weight_decay": 0.3}),
    ("adam", {"weight_decay": 0.1}, {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.0}),
    ("adamw", {"clip_norm": 2.0}, {"betas": (0.5, 0.99), "weight_decay": 0.5, "learning_rate": 3e-3}),
    ("rmsprop", {"momentum": 0.5, "centered": True}, {"alpha": 0.9, "momentum": 0.8, "eps": 1e-2}),
    ("adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}, {"lr_decay": 0.2, "weight_decay": 0.0, "eps": 1e-3}),
]
ITS_OWN = {"learning_rate": "lr"}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize(("name", "options", "changes"), CHANGES)
def test_changed_settings_are_those_of_pytorch(name, options, changes, device):
    """Settings change after 10 steps, and the clipping norm after 20."""
    (start, gradients), (make, torch_make) = recorded(), PEERS[name]
    training = compiled(make(1e-2, **options), device)
    options = dict(options)
    clip_norm = options.pop("clip_norm", None)
    parameters = {key: torch.nn.Parameter(torch.tensor(value)) for key, value in start.items()}
    optimizer = torch_make(list(parameters.values()), lr=1e-2, **options)
    before = training.stats()["compile_seconds"]
    for number, gradient in enumerate(gradients[:30]):
        if number == 10:
            training.set(**changes)
            optimizer.param_groups[0].update({ITS_OWN.get(key, key): value for key, value in changes.items()})
        if number == 20 and clip_norm is not None:
            clip_norm = 0.5
            training.set(clip_norm=0.5)
        for key, parameter in parameters.items():
            parameter.grad = torch.tensor(gradient[key])
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip_norm)
        optimizer.step()
        training.step(**gradient)
    check(training.parameters(), {key: value.detach().numpy() for key, value in parameters.items()})
    assert training.stats()["compile_seconds"] == before


GROUPS = {
    "*": {"weight_decay": 0.2},
    "vector": {"weight_decay": 0.0, "learning_rate": 5e-3},
    "s*": {"betas": (0.5, 0.9)},
}


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("clip_norm", [None, 1.5])
def test_groups_are_those_of_pytorch(device, clip_norm):
    start, gradients = recorded()
    training = compiled(tg.optim.adamw(1e-2, weight_decay=0.1, clip_norm=clip_norm, groups=GROUPS), device)
    tensors = {key: torch.nn.Parameter(torch.tensor(value)) for key, value in start.items()}
    optimizer = torch.optim.AdamW(
        [
            {"params": [tensors["matrix"]], "weight_decay": 0.2},
            {"params": [tensors["vector"]], "weight_decay": 0.0, "lr": 5e-3},
            {"params": [tensors["scalar"]], "weight_decay": 0.2, "betas": (0.5, 0.9)},
        ],
        lr=1e-2,
    )
    for number, gradient in enumerate(gradients):
        if number == 20:
            training.set(group="vector", learning_rate=1e-3)
            training.set(group="*", weight_decay=0.05)
            optimizer.param_groups[1]["lr"] = 1e-3
            optimizer.param_groups[0]["weight_decay"] = optimizer.param_groups[2]["weight_decay"] = 0.05
        for key, parameter in tensors.items():
            parameter.grad = torch.tensor(gradient[key])
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(tensors.values()), clip_norm)
        optimizer.step()
        training.step(**gradient)
    check(training.parameters(), {key: value.detach().numpy() for key, value in tensors.items()})
    if clip_norm is not None:
        updates, norms = counts(training.program)
        assert updates <= 3 and norms <= 2


def test_a_momentum_of_one_group():
    (start, gradients), groups = recorded(), {"vector": {"momentum": 0.9}}
    of_groups = compiled(tg.optim.sgd(0.1, groups=groups))
    plain, moving = compiled(tg.optim.sgd(0.1)), compiled(tg.optim.sgd(0.1, momentum=0.9))
    for gradient in gradients[:10]:
        for training in (of_groups, plain, moving):
            training.step(**gradient)
    expected = {**plain.parameters(), "vector": moving.parameters()["vector"]}
    check(of_groups.parameters(), expected)
    assert start.keys() == expected.keys()


def test_a_schedule_scales_the_rate_of_groups():
    schedule = tg.optim.schedules.step(0.5, 1, factor=0.5)
    training = compiled(tg.optim.sgd(schedule, groups={"scalar": {"learning_rate": 2.0}}))
    before = training.parameters()
    ones = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    training.step(**ones)
    training.step(**ones)
    after = training.parameters()
    assert np.allclose(before["scalar"] - after["scalar"], 3.0, rtol=1e-6)
    assert np.allclose(before["vector"] - after["vector"], 0.75, rtol=1e-6)


def test_settings_are_in_checkpoints_and_reset():
    optimizer = tg.optim.adamw(1e-2, clip_norm=1.0, groups={"vector": {"weight_decay": 0.3}})
    training, other = compiled(optimizer), compiled(optimizer)
    first = training.settings
    assert first == {
        "learning_rate": 1e-2,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-8,
        "weight_decay": 1e-2,
        "clip_norm": 1.0,
        "vector/weight_decay": 0.3,
    }
    training.set(betas=(0.5, 0.6), clip_norm=0.1)
    training.set(group="vector", weight_decay=0.7)
    state = training.state_dict()
    assert state["training/vector/weight_decay"] == 0.7 and state["training/beta2"] == 0.6
    other.load_state_dict(state)
    assert other.settings == training.settings != first
    with pytest.raises(OptionError, match="beta1"):
        other.load_state_dict({**state, "training/beta1": np.array(1.5), "training/step": np.array(9)})
    assert other.settings == training.settings and other.step_count == 0
    other.reset()
    assert other.settings == first


@pytest.mark.parametrize(
    ("group", "settings", "message"),
    [
        (None, {"momentum": 0.5}, r"no setting 'momentum'; there are learning_rate, beta1, beta2, eps, weight_decay"),
        (None, {"clip_norm": 1.0}, "no setting 'clip_norm'"),
        (None, {"learning_rate": 0.1, "betas": (0.5, 1.0)}, "beta2"),
        (None, {"betas": 0.5}, "betas must be two numbers"),
        (None, {"weight_decay": -1.0}, "weight_decay"),
        ("vector", {"eps": 0.1}, r"no setting 'eps' of group 'vector'; there are weight_decay"),
        ("bias", {"eps": 0.1}, r"no group 'bias' .*there are 'vector'"),
    ],
)
def test_wrong_settings_change_nothing(group, settings, message):
    training = compiled(tg.optim.adamw(groups={"vector": {"weight_decay": 0.3}}))
    before = training.settings
    with pytest.raises(OptionError, match=message) as raised:
        training.set(group=group, **settings)
    assert "test_optimizer_settings.py" in str(raised.value) and training.settings == before


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            {"vectr": {"weight_decay": 0.0}},
            r"'vectr' matches no trained parameter; the nearest are vector",
        ),
        (
            {"vector": {"momentum": 0.5}},
            r"groups\['vector'\] has no setting 'momentum'; there are learning_rate, beta1",
        ),
        ({"vector": {"betas": (0.5, 1.0)}}, "beta2"),
        ({"vector": {"learning_rate": -1.0}}, "learning_rate"),
        ({"vector": 0.5}, "groups must be"),
        ([("vector", {})], "groups must be"),
    ],
)
def test_wrong_groups(groups, message):
    with pytest.raises(OptionError, match=message):
        compiled(tg.optim.adamw(groups=groups))
