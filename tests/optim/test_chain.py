"""Chains of gradient transformations, compared with optax's formulas in float64, and with PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from harness import reference, traced
from test_optim_pytorch import STEPS, Values, check, ours, recorded
from test_packed_updates import Chain, counts, loss

import tensorgrad as tg
from tensorgrad.errors import OptionError
from tensorgrad.optim import links
from tensorgrad.runtime.program import Dispatch

untyped: Any = tg
"""The package as code without types calls it."""

optim = tg.optim
Transform = Callable[[int, Values, Values], Values]
"""What becomes of gradients in a step, given the parameters: in float64."""


def norm_of(values: Values) -> float:
    return math.sqrt(sum(float(np.sum(value**2)) for value in values.values()))


def each(function: Callable[[int, np.ndarray, np.ndarray], np.ndarray]) -> Transform:
    return lambda step, gradients, parameters: {
        name: function(step, value, parameters[name]) for name, value in gradients.items()
    }


def clip_by_global_norm(most: float) -> Transform:
    def transform(step: int, gradients: Values, parameters: Values) -> Values:
        norm = norm_of(gradients)
        return gradients if norm < most else {name: value / norm * most for name, value in gradients.items()}

    return transform


def normalize(scale: float, eps: float) -> Transform:
    def transform(step: int, gradients: Values, parameters: Values) -> Values:
        norm = (norm_of(gradients) + eps) / scale
        return {name: value / norm for name, value in gradients.items()}

    return transform


def normalize_per_parameter(scale: float, eps: float) -> Transform:
    return each(lambda step, g, p: g * scale / (math.sqrt(float(np.sum(g**2))) + eps))


def stateful(
    start: float, function: Callable[[int, np.ndarray, Any], tuple[np.ndarray, Any]], count: int = 1
) -> Transform:
    """A transformation with `count` values of state per parameter, initialized to `start`."""
    states: dict[str, Any] = {}

    def transform(step: int, gradients: Values, parameters: Values) -> Values:
        updates: Values = {}
        if step == 1:
            states.clear()
        for name, value in gradients.items():
            updates[name], states[name] = function(step, value, states.get(name, [start] * count))
        return updates

    return transform


def ema(decay: float, debias: bool) -> Transform:
    def function(step: int, g: np.ndarray, state: Any) -> Any:
        mean = decay * state[0] + (1 - decay) * g
        return (mean / (1 - decay**step) if debias else mean), [mean]

    return stateful(0.0, function)


def adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Transform:
    def function(step: int, g: np.ndarray, state: Any) -> Any:
        m, v = b1 * state[0] + (1 - b1) * g, b2 * state[1] + (1 - b2) * g * g
        return m / (1 - b1**step) / (np.sqrt(v / (1 - b2**step)) + eps), [m, v]

    return stateful(0.0, function, 2)


def trace(decay: float, nesterov: bool) -> Transform:
    def function(step: int, g: np.ndarray, state: Any) -> Any:
        total = g + decay * state[0]
        return (g + decay * total if nesterov else total), [total]

    return stateful(0.0, function)


def lion(b1: float, b2: float) -> Transform:
    return stateful(0.0, lambda step, g, s: (np.sign(b1 * s[0] + (1 - b1) * g), [b2 * s[0] + (1 - b2) * g]))


def rms(alpha: float, eps: float) -> Transform:
    def function(step: int, g: np.ndarray, state: Any) -> Any:
        v = alpha * state[0] + (1 - alpha) * g * g
        return g / (np.sqrt(v) + eps), [v]

    return stateful(0.0, function)


def adagrad(start: float, eps: float) -> Transform:
    return stateful(start, lambda step, g, s: (g / (np.sqrt(s[0] + g * g) + eps), [s[0] + g * g]))


def decayed(rate: float, names: Sequence[str] = ("matrix", "vector", "scalar")) -> Transform:
    return lambda step, gradients, parameters: {
        name: value + (rate * parameters[name] if name in names else 0.0) for name, value in gradients.items()
    }


def scaled(factor: Callable[[int], float]) -> Transform:
    return each(lambda step, g, p: factor(step) * g)


schedule = optim.schedules.linear(2.0, STEPS, warmup=5)
CASES: dict[str, tuple[Any, list[Transform]]] = {
    "clip": (optim.chain(optim.clip(0.5), optim.sgd(1e-2)), [each(lambda step, g, p: np.clip(g, -0.5, 0.5))]),
    "ema": (optim.chain(optim.ema(0.8), optim.sgd(1e-2)), [ema(0.8, True)]),
    "biased ema": (optim.chain(optim.ema(0.8, debias=False), optim.sgd(1e-2)), [ema(0.8, False)]),
    "normalize": (optim.chain(optim.normalize(3.0), optim.sgd(1e-2)), [normalize(3.0, 1e-6)]),
    "normalize per parameter": (
        optim.chain(optim.normalize_per_parameter(2.0), optim.sgd(1e-2)),
        [normalize_per_parameter(2.0, 1e-6)],
    ),
    "per parameter, around a norm": (
        optim.chain(
            optim.normalize_per_parameter(2.0),
            optim.clip_by_global_norm(0.7),
            optim.ema(0.5),
            optim.normalize_per_parameter(),
            optim.sgd(1e-2),
        ),
        [
            normalize_per_parameter(2.0, 1e-6),
            clip_by_global_norm(0.7),
            ema(0.5, True),
            normalize_per_parameter(1.0, 1e-6),
        ],
    ),
    "decay": (
        optim.chain(optim.add_decayed_weights(0.3, decay=["matrix", "s*"]), optim.sgd(1e-2)),
        [decayed(0.3, ("matrix", "scalar"))],
    ),
    "schedule": (optim.chain(optim.scale(schedule), optim.sgd(1e-2)), [scaled(schedule)]),
    "sign": (optim.chain(optim.scale(-0.5), optim.scale_by_learning_rate(1e-2)), [scaled(lambda step: -0.5)]),
    "adamw": (
        optim.chain(
            optim.clip_by_global_norm(1.0),
            optim.scale_by_adam((0.8, 0.95), 1e-4),
            optim.add_decayed_weights(0.2, decay="matrix"),
            optim.scale_by_learning_rate(1e-2),
        ),
        [clip_by_global_norm(1.0), adam(0.8, 0.95, 1e-4), decayed(0.2, ("matrix",))],
    ),
    "adam": (
        optim.chain(optim.clip_by_global_norm(1.0), optim.add_decayed_weights(0.1), optim.adam(1e-2)),
        [clip_by_global_norm(1.0), decayed(0.1), adam()],
    ),
    "norm of means": (
        optim.chain(optim.ema(0.9), optim.add_decayed_weights(0.1), optim.clip_by_global_norm(0.7), optim.sgd(1e-2)),
        [ema(0.9, True), decayed(0.1), clip_by_global_norm(0.7)],
    ),
    "two norms": (
        optim.chain(
            optim.clip_by_global_norm(2.0),
            optim.scale_by_adam(),
            optim.clip_by_global_norm(1.5),
            optim.ema(0.5),
            optim.sgd(1e-2, momentum=0.9),
        ),
        [clip_by_global_norm(2.0), adam(), clip_by_global_norm(1.5), ema(0.5, True), trace(0.9, False)],
    ),
    "two means": (
        optim.chain(optim.ema(0.9), optim.clip(1.0), optim.ema(0.5, debias=False), optim.sgd(1e-2)),
        [ema(0.9, True), each(lambda step, g, p: np.clip(g, -1.0, 1.0)), ema(0.5, False)],
    ),
    "trace": (optim.chain(optim.scale_by_sgd(0.9, nesterov=True), optim.sgd(1e-2)), [trace(0.9, True)]),
    "lion": (optim.chain(optim.scale_by_lion((0.7, 0.9)), optim.sgd(1e-2)), [lion(0.7, 0.9)]),
    "rmsprop": (optim.chain(optim.scale_by_rmsprop(0.9, 1e-4), optim.sgd(1e-2)), [rms(0.9, 1e-4)]),
    "adagrad": (optim.chain(optim.scale_by_adagrad(0.3, 1e-6), optim.sgd(1e-2)), [adagrad(0.3, 1e-6)]),
}


def expected(transforms: Sequence[Transform], start: Values, gradients: Sequence[Values]) -> Values:
    parameters = {name: value.astype(np.float64) for name, value in start.items()}
    for step, recorded_gradients in enumerate(gradients, 1):
        updates = {name: value.astype(np.float64) for name, value in recorded_gradients.items()}
        for transform in transforms:
            updates = transform(step, updates, parameters)
        parameters = {name: value - 1e-2 * updates[name] for name, value in parameters.items()}
    return parameters


@pytest.mark.parametrize("name", CASES)
def test_chains_are_those_of_optax(name):
    optimizer, transforms = CASES[name]
    start, gradients = recorded()
    check(ours(optimizer, start, gradients, [1e-2] * STEPS), expected(transforms, start, gradients))


@pytest.mark.parametrize("name", ["adamw", "norm of means", "two norms", "two means", "per parameter, around a norm"])
def test_chains_on_a_device_are_those_of_optax(name):
    optimizer, transforms = CASES[name]
    start, gradients = recorded()
    check(ours(optimizer, start, gradients, [1e-2] * STEPS, "wgpu"), expected(transforms, start, gradients))


def test_clipping_by_value_is_that_of_pytorch():
    start, gradients = recorded()
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()}
    optimizer = torch.optim.Adam(list(parameters.values()), lr=1e-2)
    for gradient in gradients:
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradient[name])
        torch.nn.utils.clip_grad_value_(list(parameters.values()), 0.3)
        optimizer.step()
    chained = ours(optim.chain(optim.clip(0.3), optim.adam(1e-2)), start, gradients, [1e-2] * STEPS)
    check(chained, {name: parameter.detach().numpy() for name, parameter in parameters.items()})


def test_a_norm_of_many_elements_is_of_no_more_sums_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_ROWS", 2)
    x = np.linspace(-1, 1, 7 * links.COLUMNS + 3)
    module = traced(links.norm_of, [x])
    assert "tensor<2x4096xf64>" in str(module)
    np.testing.assert_allclose(reference(module, [x])[0], np.linalg.norm(x), rtol=1e-12)


def test_the_norm_of_a_chain_is_that_of_an_optimizer():
    start, gradients = recorded()
    chained = ours(optim.chain(optim.clip_by_global_norm(0.5), optim.adamw(1e-2)), start, gradients, [1e-2] * STEPS)
    built_in = ours(optim.adamw(1e-2, clip_norm=0.5), start, gradients, [1e-2] * STEPS)
    assert all(np.array_equal(chained[name], built_in[name]) for name in chained)


def compiled(optimizer: Any, layers: int = 3, device: tg.DeviceName = "numpy", **options: Any) -> tg.Training:
    return tg.compile(Chain(layers), loss=loss, optimizer=optimizer, inputs={"x": (4, 7)}, device=device, **options)


CLIPPED = optim.chain(
    optim.clip(10.0), optim.add_decayed_weights(0.1), optim.clip_by_global_norm(1.0), optim.ema(0.9), optim.adam(1e-3)
)


@pytest.mark.nightly
@pytest.mark.parametrize("layers", [1, 12])
def test_links_take_no_dispatches_of_their_own(layers):
    plain, chained = compiled(optim.adam(1e-3), layers), compiled(CLIPPED, layers)
    updates, norms = counts(chained.program)
    assert updates == 1 and norms <= 2
    dispatches = [sum(isinstance(s, Dispatch) for s in training.program.plan) for training in (plain, chained)]
    assert dispatches[1] <= dispatches[0] + 3
    without = compiled(optim.chain(optim.clip(10.0), optim.add_decayed_weights(0.1), optim.ema(0.9), optim.adam(1e-3)))
    assert len(without.program.plan) == len(compiled(optim.adam(1e-3)).program.plan)
    twice = compiled(optim.chain(CLIPPED.links[2], optim.scale_by_adam(), optim.normalize(), optim.sgd(0.1)), layers)
    once = compiled(optim.chain(CLIPPED.links[2], optim.scale_by_adam(), optim.sgd(0.1)), layers)
    assert len(twice.program.plan) <= len(once.program.plan) + 3


def dispatches(optimizer: Any, layers: int) -> int:
    return sum(isinstance(step, Dispatch) for step in compiled(optimizer, layers).program.plan)


@pytest.mark.nightly
@pytest.mark.parametrize("layers", [1, 12])
def test_norms_of_each_parameter_run_side_by_side(layers):
    clip, own, adam = optim.clip_by_global_norm(1.0), optim.normalize_per_parameter(), optim.adam(1e-3)
    clipped = dispatches(optim.chain(clip, adam), layers)
    assert dispatches(optim.chain(own, adam), layers) <= clipped
    assert dispatches(optim.chain(own, clip, adam), layers) <= clipped + 3
    parameters = 2 * layers + 1
    assert dispatches(optim.chain(clip, own, adam), layers) <= clipped + 3 + parameters // 4


def test_a_gradient_of_zeros_has_no_direction():
    training = compiled(optim.chain(optim.normalize_per_parameter(), optim.sgd(0.1)))
    before = training.parameters()
    training.step(x=np.zeros((4, 7), np.float32))
    after = training.parameters()
    assert all(np.isfinite(value).all() for value in after.values())
    assert np.array_equal(after["layers.0.weight"], before["layers.0.weight"])


def test_settings_of_links_change_without_another_program():
    chained = optim.chain(optim.ema(0.9), optim.scale(2.0), optim.ema(0.5), optim.sgd(0.1))
    training, other = (
        compiled(chained),
        compiled(optim.chain(optim.ema(0.7), optim.scale(-1.0), optim.ema(0.2), optim.sgd(0.1))),
    )
    assert training.settings == {"learning_rate": 0.1, "ema/decay": 0.9, "scale/factor": 2.0, "ema.2/decay": 0.5}
    text = training.module()
    training.set(group="ema", decay=0.7)
    training.set(group="scale", factor=-1.0)
    training.set(group="ema.2", decay=0.2)
    x = np.ones((4, 7), np.float32)
    losses = [[float(run.step(x=x)) for _ in range(4)] for run in (training, other)]
    assert losses[0] == losses[1] and training.module() == text
    state = training.state_dict()
    assert state["training/ema.2/decay"] == 0.2 and "optimizer/ema.2.mean/layers.0.weight" in state
    for name, value in other.state_dict().items():
        assert np.array_equal(value, state[name]), name
    training.reset()
    assert training.settings["ema/decay"] == 0.9
    with pytest.raises(OptionError, match="decay must be a number from 0 to below 1, got 1"):
        training.set(group="ema", decay=1.0)
    with pytest.raises(
        OptionError, match=r"no group 'clip' has settings that can change; there are 'ema', 'scale', 'ema\.2'"
    ):
        training.set(group="clip", max_delta=1.0)


def test_chains_go_with_groups_accumulation_and_chains():
    inner = optim.chain(optim.clip_by_global_norm(0.5), optim.adamw(1e-2, groups={"*.bias": {"weight_decay": 0.0}}))
    optimizer = optim.chain(optim.ema(0.9), inner)
    assert [link.name for link in optimizer.links] == ["ema", "clip_by_global_norm"]
    training, other = (compiled(optimizer, device=device, accumulate=2) for device in ("numpy", "wgpu"))
    x = np.random.default_rng(0).normal(size=(6, 4, 7)).astype(np.float32)
    for trained in (training, other):
        trained.run(6, [{"x": part} for part in x])
    expected_values = training.parameters()
    for name, value in other.parameters().items():
        assert np.allclose(value, expected_values[name], rtol=1e-4, atol=1e-6), name


def test_names_and_formulas_of_any_form():
    class Named(tg.nn.Module):
        def __init__(self) -> None:
            self.parts = {'a "quoted\\" one': tg.nn.param((2,), 1.0), "plain": tg.nn.param((2,), 1.0)}

    def total(model: Any, x: Any) -> Any:
        return sum(tg.sum(part * x) for part in model.parts.values())

    schedule = tg.optim.Schedule(2.0, "(1 /\n step)")
    links = optim.add_decayed_weights(3.0, decay=lambda name: "quoted" in name), optim.scale(schedule)
    training = tg.compile(
        Named(), loss=total, optimizer=optim.chain(*links, optim.sgd(1.0)), inputs={"x": 2}, device="numpy"
    )
    training.step(x=np.zeros(2, np.float32))
    parameters = {name.rpartition(".")[2]: float(value[0]) for name, value in training.parameters().items()}
    assert sorted(parameters.values()) == [-5.0, 1.0]


def test_a_mask_that_is_empty_does_nothing():
    masked = compiled(optim.chain(optim.add_decayed_weights(0.5, decay=lambda name: False), optim.sgd(0.1)))
    plain = compiled(optim.sgd(0.1))
    assert masked.module() == plain.module()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optim.chain(), "the last must be an optimizer"),
        (lambda: optim.chain(optim.clip(1.0)), "the last must be an optimizer"),
        (lambda: optim.chain(optim.adam(), optim.sgd(0.1)), "all but the last must be links"),
        (lambda: untyped.optim.chain(0.5, optim.sgd(0.1)), "all but the last must be links"),
        (lambda: optim.chain(optim.clip(1.0), optim.sgd(0.1, groups={"clip": {"momentum": 0.5}})), "name of a link"),
        (lambda: optim.clip(0.0), "clip: max_delta must be more than 0"),
        (lambda: optim.clip(math.nan), "clip: max_delta"),
        (lambda: optim.clip_by_global_norm(-1.0), "clip_by_global_norm: max_norm"),
        (lambda: untyped.optim.clip_by_global_norm("1"), "clip_by_global_norm: max_norm"),
        (lambda: optim.add_decayed_weights(-0.1), "add_decayed_weights: weight_decay"),
        (lambda: untyped.optim.add_decayed_weights(0.1, decay=3), "add_decayed_weights: decay must be a pattern"),
        (lambda: optim.ema(1.0), "ema: decay must be a number from 0 to below 1"),
        (lambda: optim.normalize(eps=-1.0), "normalize: eps"),
        (lambda: optim.scale(math.inf), "scale: factor must be a finite number"),
        (lambda: optim.scale_by_learning_rate(-1.0), "scale_by_learning_rate: learning_rate"),
        (lambda: optim.scale_by_adam((0.9, 1.0)), r"scale_by_adam: betas\[1\]"),
        (lambda: optim.scale_by_rmsprop(1.0), "scale_by_rmsprop: alpha"),
        (lambda: optim.scale_by_sgd(0.0, nesterov=True), "nesterov needs a momentum"),
        (
            lambda: compiled(optim.chain(optim.add_decayed_weights(0.1, decay="*.w"), optim.sgd(0.1))),
            r"add_decayed_weights: decay '\*.w' matches no parameter",
        ),
    ],
)
def test_wrong_chains(call, message):
    with pytest.raises(OptionError, match=message):
        call()
