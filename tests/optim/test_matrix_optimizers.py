"""Adafactor and Muon, whose updates are not elementwise; Muon is compared with PyTorch's implementation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from test_optim_pytorch import RATES, STEPS, Values, check
from torch.optim import _muon

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.runtime.program import Dispatch

untyped: Any = tg
"""The package as code without types calls it."""

SHAPES = {"wide": (5, 7), "tall": (8, 3), "square": (4, 4), "again": (5, 7), "vector": (6,)}
OTHERS = tg.optim.adamw(3e-4, weight_decay=0.1)


class Matrices(tg.nn.Module):
    def __init__(self, start: Values):
        self.wide, self.tall, self.square, self.again, self.vector = (
            tg.nn.param(value.shape, init=value) for value in start.values()
        )


def fed(model: Any, wide: Any, tall: Any, square: Any, again: Any, vector: Any) -> Any:
    """A loss whose gradients are its inputs."""
    values = {"wide": wide, "tall": tall, "square": square, "again": again, "vector": vector}
    return sum(tg.sum(getattr(model, name) * value) for name, value in values.items())


def recorded() -> tuple[Values, list[Values]]:
    generator = np.random.default_rng(3)

    def values(scale: float) -> Values:
        return {name: np.asarray(generator.normal(size=s) * scale, np.float32) for name, s in SHAPES.items()}

    return values(1.0), [values(10.0 ** generator.uniform(-2, 1)) for _ in range(STEPS)]


def compiled(optimizer: Any, start: Values, device: tg.DeviceName = "numpy", **options: Any) -> tg.Training:
    return tg.compile(Matrices(start), loss=fed, optimizer=optimizer, inputs=SHAPES, device=device, **options)


def ours(optimizer: Any, device: tg.DeviceName = "numpy") -> Values:
    start, gradients = recorded()
    training = compiled(optimizer, start, device)
    for rate, gradient in zip(RATES, gradients, strict=True):
        training.set(learning_rate=rate)
        training.step(**gradient)
    return training.parameters()


def theirs(clip_norm: float | None = None, **options: Any) -> Values:
    """Returns PyTorch's result, whose matrices are transposed: `[out, in]`."""
    start, gradients = recorded()
    parameters = {name: torch.nn.Parameter(torch.tensor(value.T.copy())) for name, value in start.items()}
    matrices = [value for name, value in parameters.items() if name != "vector"]
    optimizer = torch.optim.Muon(matrices, lr=RATES[0], **options)
    rest = torch.optim.AdamW([parameters["vector"]], lr=3e-4, weight_decay=0.1)
    for rate, gradient in zip(RATES, gradients, strict=True):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradient[name].T.copy())
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        rest.step()
    return {name: parameter.detach().numpy().T for name, parameter in parameters.items()}


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "clipped": {"clip_norm": 1.0},
    "adjusted": {"adjust_lr_fn": "match_rms_adamw", "nesterov": False, "momentum": 0.8, "weight_decay": 0.0},
    "few steps": {"ns_steps": 3, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-3, "weight_decay": 0.3},
}


@pytest.mark.in_turns(16)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("name", CASES)
def test_muon_is_that_of_pytorch(name, device, monkeypatch):
    parameters = ours(tg.optim.muon(RATES[0], others=OTHERS, **CASES[name]), device)
    rounded = theirs(**CASES[name])
    # Their iteration is in bfloat16, of three digits. The same code in float64 tells the formulas.
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.double)
    check(parameters, theirs(**CASES[name]))
    for key, value in rounded.items():
        assert np.linalg.norm(parameters[key] - value) <= 2e-3 * np.linalg.norm(value), key


def test_the_iteration_makes_matrices_orthogonal_nearly():
    start, gradients = recorded()
    training = compiled(tg.optim.muon(1.0, 0.0, others=OTHERS), start)
    training.step(**gradients[0])
    after = training.parameters()
    for name in ("wide", "tall", "square"):
        step = (start[name] - after[name]) / math.sqrt(max(1.0, SHAPES[name][1] / SHAPES[name][0]))
        values = np.linalg.svd(step, compute_uv=False)
        assert np.all((values > 0.3) & (values < 1.3)), name
    expected = _muon._zeropower_via_newtonschulz(
        torch.tensor(gradients[0]["square"]), (3.4445, -4.775, 2.0315), 5, 1e-7
    )
    assert np.allclose(start["square"] - after["square"], expected.float().numpy(), atol=0.05)


def deep(layers: int, **options: Any) -> tg.Training:
    model = tg.nn.Sequential(*(tg.nn.Linear(8, 8) for _ in range(layers)), tg.nn.Linear(8, 3))
    optimizer = tg.optim.muon(1e-2, others=tg.optim.adamw(1e-3), **options)
    return tg.compile(
        model, loss=lambda model, x: tg.mean(model(x) ** 2), optimizer=optimizer, inputs={"x": (4, 8)}, device="wgpu"
    )


@pytest.mark.usefixtures("kept_programs")
def test_kernels_grow_with_the_shapes_of_matrices_not_with_their_number():
    def of_updates(training: tg.Training) -> int:
        """Returns the dispatches of a step except those of its gradients."""
        plan = [step for step in training.program.plan if isinstance(step, Dispatch)]
        forward = tg.compile(
            training._source.model,
            loss=training._source.loss,
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": (4, 8)},
            device="wgpu",
        )
        return len(plan) - len(forward.program.plan)

    few, many = deep(2), deep(4)
    assert of_updates(many) <= of_updates(few) + 1
    assert of_updates(deep(4, clip_norm=1.0)) <= of_updates(many) + 2
    values = many.parameters()
    many.step(x=np.ones((4, 8), np.float32))
    assert all(not np.array_equal(value, values[name]) for name, value in many.parameters().items())


def test_only_some_matrices():
    start, gradients = recorded()
    masked = compiled(tg.optim.muon(1e-2, only=["w*", "square"], others=OTHERS), start)
    state = {name for name in masked.state_dict() if name.startswith("optimizer/")}
    assert {name for name in state if "muon" in name} == {"optimizer/muon.m/wide", "optimizer/muon.m/square"}
    assert "optimizer/adam.m/tall" in state and "optimizer/adam.m/wide" not in state
    plain = compiled(OTHERS, start)
    for training in (masked, plain):
        for gradient in gradients[:3]:
            training.step(**gradient)
    after, expected = masked.parameters(), plain.parameters()
    assert all(np.array_equal(after[name], expected[name]) == (name not in ("wide", "square")) for name in SHAPES)


def test_settings_of_the_rest_change_too():
    start, gradients = recorded()
    rest = tg.optim.adamw(tg.optim.schedules.constant(3e-4, warmup=2), groups={"vector": {"eps": 1e-6}})
    training = compiled(tg.optim.muon(1e-2, others=rest, groups={"tall": {"momentum": 0.5}}), start)
    assert training.settings["others/learning_rate"] == 3e-4 and training.settings["others/vector/eps"] == 1e-6
    training.set(group="others", learning_rate=0.0, weight_decay=0.0)
    training.set(group="tall", learning_rate=0.0) if "tall/learning_rate" in training.settings else None
    training.step(**gradients[0])
    assert np.array_equal(training.parameters()["vector"], start["vector"])
    other = compiled(tg.optim.muon(1e-2, others=rest, groups={"tall": {"momentum": 0.5}}), start)
    other.load_state_dict(training.state_dict())
    assert other.settings == training.settings and other.settings["others/weight_decay"] == 0.0


@pytest.mark.nightly
def test_muon_goes_with_chains_and_accumulation():
    start, gradients = recorded()
    optimizer = tg.optim.chain(
        tg.optim.clip(0.5), tg.optim.clip_by_global_norm(1.0), tg.optim.muon(1e-2, others=OTHERS)
    )
    results = []
    for device in ("numpy", "cpu", "wgpu"):
        training = compiled(optimizer, start, device, accumulate=2)
        for gradient in gradients[:6]:
            training.step(**gradient)
        results.append(training.parameters())
    mean = compiled(optimizer, start)
    for first, second in zip(gradients[:6:2], gradients[1:6:2], strict=True):
        mean.step(**{name: (first[name] + second[name]) / 2 for name in first})
    for name, value in mean.parameters().items():
        assert all(np.allclose(each[name], value, rtol=1e-4, atol=1e-5) for each in results), name


def test_state_of_adafactor_is_of_rows_and_columns():
    start, _ = recorded()
    state = compiled(tg.optim.adafactor(), start).state_dict()
    shapes = {name: value.shape for name, value in state.items() if name.startswith("optimizer/")}
    matrices = [name for name in SHAPES if name != "vector"]
    assert shapes == {
        **{f"optimizer/adafactor.row/{name}": (SHAPES[name][0], 1) for name in matrices},
        **{f"optimizer/adafactor.column/{name}": (1, SHAPES[name][1]) for name in matrices},
        "optimizer/adafactor.v/vector": (6,),
    }


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_adafactor_on_tensors_of_more_axes(device):
    start = np.random.default_rng(0).normal(size=(2, 3, 1, 5)).astype(np.float32)

    class Kernel(tg.nn.Module):
        def __init__(self) -> None:
            self.p = tg.nn.param(start.shape, init=start)

    training = tg.compile(
        Kernel(),
        loss=lambda model, g: tg.sum(model.p * g),
        optimizer=tg.optim.adafactor(),
        inputs={"g": start.shape},
        device=device,
    )
    parameter = torch.nn.Parameter(torch.tensor(start))
    optimizer = torch.optim.Adafactor([parameter])
    for step in range(5):
        gradient = np.random.default_rng(step).normal(size=start.shape).astype(np.float32)
        training.step(g=gradient)
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
    assert np.allclose(training.parameters()["p"], parameter.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tg.optim.adafactor(beta2_decay=0.1), "beta2_decay must be at most 0"),
        (lambda: tg.optim.adafactor(d=0.5), "d must be at least 1"),
        (lambda: untyped.optim.adafactor(eps=1e-3), "eps must be two numbers"),
        (lambda: tg.optim.adafactor(eps=(-1.0, 1e-3)), "eps1"),
        (lambda: tg.optim.muon(ns_steps=100), "ns_steps must be an integer from 0 to 99"),
        (lambda: untyped.optim.muon(ns_coefficients=(1.0, 2.0)), "ns_coefficients must be three"),
        (lambda: tg.optim.muon(ns_coefficients=(1.0, 2.0, math.nan)), "ns_coefficients must be finite"),
        (lambda: tg.optim.muon(adjust_lr_fn="none"), "adjust_lr_fn must be"),
        (lambda: tg.optim.muon(momentum=1.5), "momentum"),
        (lambda: untyped.optim.muon(only=3), "only must be a pattern"),
        (lambda: tg.optim.muon(others=tg.optim.muon()), "others must be another optimizer"),
        (lambda: tg.optim.muon(others=tg.optim.sgd(0.1, clip_norm=1.0)), "without links or clip_norm"),
        (
            lambda: tg.optim.muon(others=OTHERS, groups={"others": {"eps": 1.0}}),
            "has the name of the other optimizer's",
        ),
        (
            lambda: compiled(tg.optim.muon(only="none", others=OTHERS), recorded()[0]),
            "only 'none' matches no parameter",
        ),
    ],
)
def test_settings_out_of_range(call, message):
    with pytest.raises(OptionError, match=message):
        call()


@pytest.mark.parametrize("only", [None, "wide"])
def test_what_muon_does_not_take_needs_another_optimizer(only):
    message = {
        None: r"'vector' of shape \[6\] does not have 2 axes",
        "wide": r"'tall' of shape \[8, 3\] is not among only=",
    }
    with pytest.raises(OptionError, match=rf"{message[only]}; give others=, an optimizer for the rest"):
        compiled(tg.optim.muon(only=only), recorded()[0])
