"""User-defined optimizers and links: the same kernels, state, settings and schedules as built-in ones."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from test_optim_pytorch import SHAPES, Parameters, check, fed, recorded
from test_packed_updates import Chain, counts, loss

import tensorgrad as tg
from tensorgrad.errors import OptionError, TraceError
from tensorgrad.runtime.program import Dispatch

optim = tg.optim


def lion_init(parameter: Any) -> Any:
    return {"m": tg.zeros(parameter.shape)}


def lion_update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
    blend = hyper.beta1 * state["m"] + (1 - hyper.beta1) * gradient
    mean = hyper.beta2 * state["m"] + (1 - hyper.beta2) * gradient
    if hyper.weight_decay:
        parameter = parameter * (1 - hyper.learning_rate * hyper.weight_decay)
    return parameter - hyper.learning_rate * tg.sign(blend), {"m": mean}


def own_lion(learning_rate: Any = 1e-4, weight_decay: float = 0.0, **options: Any) -> Any:
    settings = {"beta1": 0.9, "beta2": 0.99, "weight_decay": weight_decay}
    return optim.optimizer("own", lion_init, lion_update, learning_rate, settings, **options)


def belief_update(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
    """AdaBelief (Zhuang et al., 2020): the variance of the gradient around its mean, instead of its square."""
    mean = hyper.beta1 * state["m"] + (1 - hyper.beta1) * gradient
    square = hyper.beta2 * state["s"] + (1 - hyper.beta2) * (gradient - mean) ** 2 + hyper.eps
    rate = hyper.learning_rate / (1 - hyper.beta1**step)
    return parameter - rate * mean / (tg.sqrt(square) / (1 - hyper.beta2**step).sqrt() + hyper.eps), {
        "m": mean,
        "s": square,
    }


def adabelief(learning_rate: Any = 1e-3, **options: Any) -> Any:
    settings = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    return optim.optimizer("adabelief", optim.zeros_of("m", "s"), belief_update, learning_rate, settings, **options)


def compiled(optimizer: Any, layers: int = 3, **options: Any) -> tg.Training:
    options = {"device": "numpy", **options}
    return tg.compile(Chain(layers), loss=loss, optimizer=optimizer, inputs={"x": (4, 7)}, **options)


def dispatches(training: tg.Training) -> int:
    return sum(isinstance(step, Dispatch) for step in training.program.plan)


@pytest.mark.in_turns(6)
@pytest.mark.parametrize("layers", [1, 12])
@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}, {"clip_norm": 1.0, "groups": {"*.bias": {"beta1": 0.5}}}])
def test_one_s_own_takes_the_dispatches_of_the_built_in_one(layers, options):
    pairs = [(own_lion, optim.lion), (adabelief, optim.adam)]
    for own, built_in in pairs:
        of_ones_own, of_library = compiled(own(**options), layers), compiled(built_in(**options), layers)
        assert dispatches(of_ones_own) == dispatches(of_library)
        assert counts(of_ones_own.program) == counts(of_library.program)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_lion_by_hand_is_lion(device):
    schedule = optim.schedules.linear(1e-2, 20, warmup=3)
    options = {"weight_decay": 0.1, "decay": ["matrix", "s*"], "clip_norm": 1.5, "groups": {"vector": {"beta2": 0.5}}}
    start, gradients = recorded()
    trainings = []
    for make in (own_lion, optim.lion):
        training = tg.compile(
            Parameters(start), loss=fed, optimizer=make(schedule, **options), inputs=SHAPES, device=device
        )
        for number, gradient in enumerate(gradients[:20]):
            if number == 10:
                training.set(weight_decay=0.3)
                training.set(group="vector", beta2=0.9)
            training.step(**gradient)
        trainings.append(training)
    check(trainings[0].parameters(), trainings[1].parameters())
    assert trainings[0].settings == trainings[1].settings
    names = [{name.replace("/own.", "/lion.") for name in trained.state_dict()} for trained in trainings]
    assert names[0] == names[1]


def test_adabelief_by_hand_trains_and_goes_on_from_a_checkpoint(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 4, 7)).astype(np.float32)
    whole, first = compiled(adabelief(1e-2), accumulate=2), compiled(adabelief(1e-2), accumulate=2)
    losses = [float(whole.step(x=x[0])) for _ in range(12)]
    assert losses[-1] < losses[0]
    for _ in range(5):
        first.step(x=x[0])
    first.save_checkpoint(tmp_path / "state.safetensors")
    second = compiled(adabelief(1e-2), accumulate=2)
    second.load_checkpoint(tmp_path / "state.safetensors")
    assert [float(second.step(x=x[0])) for _ in range(7)] == losses[5:]
    assert "optimizer/adabelief.s/layers.0.weight" in second.state_dict()


def test_parts_and_links_of_ones_own():
    def halved(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return gradient * (step <= 2).select(hyper.early, 0.5), {"n": state["n"] + 1.0}

    link = optim.transformation(
        "halve", lambda parameter: {"n": tg.full((), 3.0)}, halved, {"early": 0.25}, only="*.weight"
    )
    optimizer = {"layers": optim.chain(link, optim.sgd(0.1)), "unused": own_lion(0.1)}
    training = compiled(optimizer)
    plain = compiled({"layers": optim.sgd(0.1), "unused": own_lion(0.1)})
    before = training.parameters()
    for each in (training, plain):
        each.step(x=np.ones((4, 7), np.float32))
    after, moved = training.parameters(), plain.parameters()
    change, expected = (values["layers.0.weight"] - before["layers.0.weight"] for values in (after, moved))
    assert np.allclose(change, expected / 4, rtol=1e-4, atol=1e-7)
    assert np.array_equal(after["layers.0.bias"], moved["layers.0.bias"])
    # State starts from what init gives, whatever its shape.
    assert training.state_dict()["optimizer/halve.n/layers.0.weight"] == 4.0
    assert "optimizer/halve.n/layers.0.bias" not in training.state_dict()
    training.set(group="layers/halve", early=1.0)
    assert training.settings["layers/halve/early"] == 1.0


def test_the_norm_of_all_gradients():
    def unit(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return parameter - hyper.learning_rate * gradient / (hyper.norm + 1e-6), state

    own = optim.optimizer("unit", lambda parameter: {}, unit, 0.1)
    start, gradients = recorded()
    built_in = optim.chain(optim.normalize(1.0), optim.sgd(0.1))
    trainings = [
        tg.compile(Parameters(start), loss=fed, optimizer=optimizer, inputs=SHAPES, device="numpy")
        for optimizer in (own, built_in)
    ]
    for gradient in gradients[:5]:
        for training in trainings:
            training.step(**gradient)
    check(trainings[0].parameters(), trainings[1].parameters())


def test_elements_that_depend_on_each_other_are_updated_apart():
    def centered(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        """Elementwise only for vectors: the function depends on the shape."""
        gradient = gradient - tg.mean(gradient, axis=0, keepdims=True) if gradient.ndim > 1 else gradient
        return parameter - hyper.learning_rate * gradient, state

    training = compiled(optim.optimizer("centered", lambda parameter: {}, centered, 0.1, clip_norm=1e6))
    before = training.parameters()
    training.step(x=np.ones((4, 7), np.float32))
    after = training.parameters()
    change = {name: after[name] - before[name] for name in after}
    assert np.allclose(change["layers.2.weight"].mean(0), 0.0, atol=1e-6)
    assert not np.allclose(change["layers.2.bias"], 0.0)


def test_masked_links_are_for_some():
    start, gradients = recorded()
    clipped, plain, some = (
        tg.compile(Parameters(start), loss=fed, optimizer=optimizer, inputs=SHAPES, device="numpy")
        for optimizer in (
            optim.chain(optim.ema(0.5), optim.clip(1e-3), optim.sgd(0.1)),
            optim.sgd(0.1),
            optim.chain(optim.masked(optim.ema(0.5), "v*"), optim.masked(optim.clip(1e-3), "vector"), optim.sgd(0.1)),
        )
    )
    for training in (clipped, plain, some):
        training.step(**gradients[0])
    check(some.parameters(), {**plain.parameters(), "vector": clipped.parameters()["vector"]})
    assert [name for name in some.state_dict() if "ema.mean" in name] == ["optimizer/ema.mean/vector"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optim.optimizer("a/b", lion_init, lion_update, 0.1), "text without a slash"),
        (lambda: optim.optimizer("a", lion_init, cast("Any", None), 0.1), "update must be a function"),
        (lambda: optim.transformation("a", cast("Any", {}), lion_update), "init must be a function"),
        (
            lambda: optim.transformation("a", lion_init, lion_update, {"x": np.nan}),
            "a: x must be a finite",
        ),
        (lambda: optim.optimizer("a", lion_init, lion_update, -0.1), "a: learning_rate"),
        (lambda: optim.masked(cast("Any", optim.sgd(0.1)), "*"), "masked: takes a link"),
        (lambda: optim.masked(optim.clip(1.0), cast("Any", 3)), "only must be a pattern"),
    ],
)
def test_wrong_definitions(call, message):
    with pytest.raises(OptionError, match=message):
        call()


WRONG = {
    "no pair": (lambda g, s, p, step, hyper: p - g, "must return a tensor and a dict"),
    "three": (lambda g, s, p, step, hyper: (p - g, s, s), "must return a tensor and a dict"),
    "no dict": (lambda g, s, p, step, hyper: (p - g, s["m"]), "must return a tensor and a dict"),
    "states": (lambda g, s, p, step, hyper: (p - g, {}), "must return the states that init"),
    "shape": (lambda g, s, p, step, hyper: (tg.sum(p), s), "must return a tensor of shape"),
    "setting": (
        lambda g, s, p, step, hyper: (p - hyper.rate * g, s),
        "no hyper-parameter 'rate'; the hyper-parameters are learning_rate",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_updates(name):
    update, message = WRONG[name]
    with pytest.raises(OptionError, match=message):
        compiled(optim.optimizer("wrong", optim.zeros_of("m"), update, 0.1))


def test_what_the_host_computes_is_no_condition_of_python():
    def branching(gradient: Any, state: Any, parameter: Any, step: Any, hyper: Any) -> Any:
        return (parameter - gradient if step < 3 else parameter), state

    with pytest.raises(TraceError, match=r"step < 3 is computed anew for each step: choose by condition\.select"):
        compiled(optim.optimizer("branching", lambda parameter: {}, branching, 0.1))
