"""Groups of parameters of eager optimizers, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.errors import GradientError, OptionError

START = {"a": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "b": np.linspace(1, 2, 3, dtype=np.float32)}


def leaves(library: Any) -> dict[str, Any]:
    if library is torch:
        return {name: torch.tensor(value, requires_grad=True) for name, value in START.items()}
    return {name: tg.tensor(value, device="numpy", requires_grad=True) for name, value in START.items()}


CASES: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.5},
    "Adam": {"lr": 0.1},
    "AdamW": {"lr": 0.1, "weight_decay": 0.1},
    "RMSprop": {"lr": 0.05, "alpha": 0.9},
    "Adagrad": {"lr": 0.1},
}
OWN: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1},
    "Adam": {"lr": 0.01, "betas": (0.5, 0.8)},
    "AdamW": {"weight_decay": 0.0},
    "RMSprop": {"momentum": 0.9},
    "Adagrad": {"lr_decay": 0.5},
}


def trained(library: Any, kind: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Runs six steps, the last three with other learning rates."""
    named = leaves(library)
    groups = [{"params": [named["a"]]}, {"params": [named["b"]], **OWN[kind]}]
    optimizer = getattr(library.optim, kind)(groups, **CASES[kind])
    for step in range(6):
        if step == 3:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        optimizer.zero_grad()
        ((named["a"] * named["b"]) ** 2).sum().backward()
        optimizer.step()
    return optimizer, {name: value.detach().numpy() for name, value in named.items()}


@pytest.mark.parametrize("kind", CASES)
def test_groups_have_settings_of_their_own(kind: str) -> None:
    (optimizer, actual), (expected_optimizer, expected) = trained(tg, kind), trained(torch, kind)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-6)
    for group, other in zip(optimizer.param_groups, expected_optimizer.param_groups, strict=True):
        assert len(group["params"]) == 1
        for name in {*OWN[kind], "lr"}:
            assert group[name] == pytest.approx(other[name])


def test_a_group_of_a_model_keeps_its_names() -> None:
    model = tg.nn.Sequential(tg.nn.Linear(2, 3), tg.relu, tg.nn.Linear(3, 1)).initialized(0, device="numpy")
    optimizer = tg.optim.Adam([{"params": model[0], "lr": 0.0}, {"params": model[2]}], lr=0.1)
    before = model.state_dict()
    model(tg.ones((4, 2))).sum().backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        assert np.array_equal(value, before[name]) == name.startswith("0.")
    assert "optimizer/adam.m/1.weight" in {f"optimizer/{name}" for name in optimizer.state_dict()}
    other = tg.optim.Adam([{"params": model[0]}, {"params": model[2]}], lr=0.5)
    other.load_state_dict(optimizer.state_dict())
    assert [group["lr"] for group in other.param_groups] == [0.0, 0.1]


def test_the_learning_rate_can_be_read_and_set() -> None:
    named = leaves(tg)
    single = tg.optim.SGD(named, lr=0.1)
    assert single.lr == single.learning_rate == single.param_groups[0]["lr"] == 0.1
    single.lr = 0.2
    assert single.learning_rate == 0.2
    single.param_groups[0]["lr"] = 0.3
    assert single.lr == 0.3
    groups = tg.optim.SGD([{"params": named["a"], "lr": 0.1}, {"params": named["b"]}], lr=0.2)
    assert [group["lr"] for group in groups.param_groups] == [0.1, 0.2]
    groups.lr = 0.4
    assert [group["lr"] for group in groups.param_groups] == [0.4, 0.4]
    assert list(groups.param_groups[0])[:2] == ["params", "lr"] and "lr" in repr(groups.param_groups[0])


def test_a_schedule_scales_the_rate_of_each_group() -> None:
    named = leaves(tg)
    groups = [{"params": named["a"], "lr": 0.5}, {"params": named["b"]}]
    optimizer = tg.optim.SGD(groups, lr=tg.optim.schedules.step(1.0, 1, 0.5))
    for _ in range(2):
        optimizer.zero_grad()
        (named["a"].sum() + named["b"].sum()).backward()
        optimizer.step()
    np.testing.assert_allclose(named["a"].detach().numpy(), START["a"] - 0.5 - 0.25, rtol=1e-6)
    np.testing.assert_allclose(named["b"].detach().numpy(), START["b"] - 1.0 - 0.5, rtol=1e-6)


MISTAKES: list[tuple[Any, str]] = [
    (lambda p: tg.optim.SGD([{"params": p["a"], "speed": 1.0}], lr=0.1), r"groups\['0.\*'\] has no setting 'speed'"),
    (lambda p: tg.optim.SGD([{"params": p["a"], "lr": -1.0}], lr=0.1), "learning_rate must be"),
    (lambda p: tg.optim.SGD([{"params": []}], lr=0.1), "there are none"),
    (
        lambda p: tg.optim.Stepper([{"params": p["a"]}], tg.optim.sgd(0.1)),
        "Stepper takes parameters in groups",
    ),
    (lambda p: tg.optim.SGD(p, lr=0.1).param_groups[0].update(lr=float("nan")), "learning_rate"),
    (lambda p: tg.optim.SGD(p, lr=0.1).param_groups[0].update(momentum=0.5), "no setting 'momentum'"),
    (lambda p: tg.optim.SGD(p, lr=0.1).param_groups[0].pop("lr"), "not deleted"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistakes(mistake: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        mistake(leaves(tg))


def test_a_step_without_gradients_in_a_group() -> None:
    x, y = (tg.tensor([1.0], device="numpy", requires_grad=True) for _ in range(2))
    optimizer = tg.optim.SGD([{"params": [x], "lr": 0.5}, {"params": [y]}], lr=0.25)
    for parameter, expected in ((x, [0.5, 1.0]), (y, [0.5, 0.75])):
        optimizer.zero_grad()
        parameter.sum().backward()
        optimizer.step()
        assert [x.tolist()[0], y.tolist()[0]] == expected


def test_a_group_of_frozen_parameters_keeps_its_place_and_settings() -> None:
    x = tg.tensor([1.0], device="numpy", requires_grad=True)
    frozen = tg.tensor([1.0], device="numpy")
    groups = [{"params": [frozen], "lr": 0.5, "weight_decay": 0.125}, {"params": [x]}]
    optimizer = tg.optim.SGD(groups, lr=0.25)
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(0.5, 0.125), (0.25, 0.0)]
    assert optimizer.param_groups[0]["params"][0] is frozen
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    x.sum().backward()
    optimizer.step()
    assert (x.tolist(), frozen.tolist()) == ([0.5], [1.0])


def test_a_tensor_is_in_one_group() -> None:
    x = tg.tensor([1.0], device="numpy", requires_grad=True)
    with pytest.raises(OptionError, match=r"takes each tensor once: parameters '0\.0' and '1\.0' are one"):
        tg.optim.SGD([{"params": [x], "lr": 0.1}, {"params": [x], "lr": 0.5}], lr=0.1)
    with pytest.raises(OptionError, match=r"takes each tensor once: parameters '0' and '1' are one"):
        tg.optim.SGD([x, x], lr=0.1)


def test_parameters_are_any_iterable() -> None:
    model = tg.nn.Linear(2, 2).initialized(0, device="numpy")
    assert len(tg.optim.Adam(model.named_parameters().values()).param_groups[0]["params"]) == 2


@pytest.mark.parametrize("limit", [0.5, 100.0, float("inf")])
def test_gradients_are_clipped_as_by_pytorch(limit: float) -> None:
    ours, theirs = leaves(tg), leaves(torch)
    for named in (ours, theirs):
        ((named["a"] * named["b"]) ** 2).sum().backward()
    norm = tg.optim.clip_gradients([*ours.values(), tg.tensor([1.0], device="numpy", requires_grad=True)], limit)
    np.testing.assert_allclose(float(norm), float(torch.nn.utils.clip_grad_norm_(theirs.values(), limit)), rtol=1e-6)
    for name, tensor in ours.items():
        np.testing.assert_allclose(tensor.grad.numpy(), theirs[name].grad.numpy(), rtol=1e-6)
    with pytest.raises(GradientError, match="no parameter has a gradient"):
        tg.optim.clip_gradients(leaves(tg), 1.0)
    with pytest.raises(OptionError, match="max_norm must be more than 0, got 0"):
        tg.optim.clip_gradients(ours, 0)


def test_gradients_of_several_dtypes_are_clipped() -> None:
    named = [tg.tensor([1.0, 1.0], device="numpy", dtype=dtype, requires_grad=True) for dtype in ("f16", "f32", "f64")]
    for tensor, size in zip(named, (6e4, 3.0, 4.0), strict=True):
        tensor.grad = tg.tensor([size, size], device="numpy", dtype=tensor.dtype)
    norm = tg.optim.clip_gradients(named, 1.0)
    np.testing.assert_allclose(float(norm), 6e4 * 2**0.5, rtol=1e-3)
    for tensor, expected in zip(named, (0.5**0.5, 3 / 84853, 4 / 84853), strict=True):
        assert tensor.grad.dtype == tensor.dtype
        np.testing.assert_allclose(tensor.grad.numpy(), [expected] * 2, rtol=2e-3)
