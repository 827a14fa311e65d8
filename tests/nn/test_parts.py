"""Models of several parts, each with an optimizer and possibly a loss; gradients by path; other models' values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import MLP, batch, compiled, squared_error

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError, TraceError

DEVICES = ["numpy", "cpu", "wgpu"]
generator = np.random.default_rng(0)
X, Z = (generator.normal(size=(6, 2)).astype(np.float32) for _ in range(2))


def adversarial(model: Any, x: Any, z: Any) -> Any:
    fake = model["g"](z)
    real = tg.mean(tg.softplus(-model["d"](x)))
    return {
        "g": tg.mean(tg.softplus(-model["d"](fake))),
        "d": real + tg.mean(tg.softplus(model["d"](tg.stop_gradient(fake)))),
    }


def both(**options: Any) -> tg.Training:
    settings: dict[str, Any] = {
        "loss": adversarial,
        "optimizer": {"g": tg.optim.adam(1e-2, clip_norm=0.1), "d": tg.optim.sgd(0.1, momentum=0.9, clip_norm=0.2)},
        "inputs": {"x": X.shape, "z": Z.shape},
        "device": "numpy",
        **options,
    }
    return tg.compile({"g": MLP(2, 4, 2), "d": MLP(2, 4, 1)}, **settings)


def alone(part: str, values: dict[str, np.ndarray], optimizer: Any, device: tg.DeviceName) -> tg.Training:
    """Trains one part while the other stays unchanged."""
    training = both(optimizer={"g": None, "d": None, part: optimizer}, loss=lambda m, x, z: adversarial(m, x, z)[part])
    training = training.replace_model(device=device)
    training.load_parameters(values)
    return training


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
def test_each_part_takes_the_step_that_it_would_take_alone(device: tg.DeviceName) -> None:
    training = both(device=device)
    before = training.parameters()
    optimizers = {"g": tg.optim.adam(1e-2, clip_norm=0.1), "d": tg.optim.sgd(0.1, momentum=0.9, clip_norm=0.2)}
    expected: dict[str, np.ndarray] = {}
    losses: dict[str, float] = {}
    for part, optimizer in optimizers.items():
        other = alone(part, before, optimizer, device)
        losses[part] = float(other.step(x=X, z=Z))
        after = other.parameters()
        assert all(np.array_equal(after[path], before[path]) for path in after if not path.startswith(part))
        expected |= {path: value for path, value in after.items() if path.startswith(part)}
    part_losses = training.step(x=X, z=Z)
    assert list(part_losses) == ["d", "g"]
    assert all(float(part_losses[part]) == pytest.approx(losses[part], rel=1e-5) for part in losses)
    after = training.parameters()
    assert all(np.allclose(after[path], value, rtol=1e-4, atol=1e-6) for path, value in expected.items())
    assert all(not np.array_equal(after[path], before[path]) for path in after)


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_one_loss(device: tg.DeviceName) -> None:
    optimizers = {"layers.0": tg.optim.adam(1e-2), "layers.1": tg.optim.adam(1e-2)}
    whole, parts = compiled(device=device), compiled(optimizer=optimizers, device=device)
    for number in range(3):
        assert float(whole.step(**batch(number))) == pytest.approx(float(parts.step(**batch(number))), rel=1e-5)
    actual, expected = parts.parameters(), whole.parameters()
    assert all(np.allclose(actual[path], value, rtol=1e-5, atol=1e-6) for path, value in expected.items())
    parts.set(group="layers.0", learning_rate=0.0)
    before = parts.parameters()
    parts.step(**batch())
    moved = {path for path, value in parts.parameters().items() if not np.array_equal(value, before[path])}
    assert moved == {"layers.1.weight", "layers.1.bias"}


def test_settings_and_state_of_parts(tmp_path: Any) -> None:
    schedule = tg.optim.schedules.cosine(1e-2, 100)
    optimizers = {"g": tg.optim.adamw(schedule, groups={"*.bias": {"weight_decay": 0.0}}), "d": tg.optim.sgd(0.1)}
    training, other = both(optimizer=optimizers), both(optimizer=optimizers, seed=1)
    assert training.settings["g/*.bias/weight_decay"] == 0.0 if "g/*.bias/weight_decay" in training.settings else True
    assert {"g/learning_rate", "g/beta1", "d/learning_rate"} <= training.settings.keys()
    assert training.learning_rate == schedule.at(1, 1e-2) and list(training.schedules) == ["g"]
    with pytest.raises(OptionError, match=r"no group None has settings that can change; there are 'g'"):
        training.set_learning_rate(0.5)
    training.set(group="d", learning_rate=0.5)
    for _ in range(3):
        training.step(x=X, z=Z)
    training.save_checkpoint(tmp_path / "c")
    other.load_checkpoint(tmp_path / "c")
    assert other.settings == training.settings and other.settings["d/learning_rate"] == 0.5
    for each in (training, other):
        each.step(x=X, z=Z)
    state = other.state_dict()
    assert all(np.array_equal(state[name], value) for name, value in training.state_dict().items())


def test_parts_with_muon_links_and_accumulation() -> None:
    optimizers = {
        "g": tg.optim.muon(1e-2, others=tg.optim.adamw(1e-3)),
        "d": tg.optim.chain(tg.optim.clip_by_global_norm(0.5), tg.optim.ema(0.9), tg.optim.adam(1e-2)),
    }
    whole, micro = both(optimizer=optimizers), both(optimizer=optimizers, accumulate=2)
    for _ in range(2):
        whole.step(x=X, z=Z)
        for _ in range(2):
            micro.step(x=X, z=Z)
    actual, expected = micro.parameters(), whole.parameters()
    assert all(np.allclose(actual[path], value, rtol=1e-4, atol=1e-5) for path, value in expected.items())
    assert whole.settings["g/others/learning_rate"] == 1e-3 and whole.settings["d/ema/decay"] == 0.9
    report = tg.fit(whole, [{"x": X, "z": Z}] * 3, epochs=1, progress=False)
    assert report.losses.shape == (3,)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"optimizer": tg.optim.sgd(0.1)}, OptionError, r"gives losses of 'd', 'g'; what is trained is all together"),
        ({"optimizer": {"g": tg.optim.sgd(0.1), "d": None}}, OptionError, r"what is trained is 'g': optimizer= has"),
        (
            {"optimizer": {"g": tg.optim.sgd(0.1)}},
            ParameterError,
            r"no part has d\.layers\.0\.weight.*give a part None",
        ),
        (
            {"optimizer": {"gen": tg.optim.sgd(0.1)}},
            OptionError,
            r"'gen' is not a part of the model with parameters of its own; there are g",
        ),
        (
            {"optimizer": {"g": tg.optim.sgd(0.1), "d": tg.optim.sgd(0.1), "d.layers.0": None}},
            ParameterError,
            r"'d\.layers\.0\.weight' is in two parts, 'd' and 'd\.layers\.0'",
        ),
        ({"optimizer": {"g": 0.1, "d": None}}, OptionError, r"must be one of tg\.optim, such as .* got 0\.1"),
        (
            {"loss": lambda m, x, z: {"g": x, "d": 0.0}},
            ValueError,
            r"\['g'\] must return a float scalar, got sh",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        both(**options)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_parameters_that_are_not_trained_may_be_assigned(device: tg.DeviceName) -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        online, target = model["online"], model["target"]
        value = tg.mse(online(x), y + 0.5 * tg.stop_gradient(target(x)))
        for path, parameter in target.named_parameters().items():
            parameter.assign(0.9 * parameter + 0.1 * online.named_parameters()[path])
        return value

    networks = {"online": MLP(3, 5, 2), "target": MLP(3, 5, 2)}
    training = tg.compile(
        networks,
        loss=loss,
        optimizer={"online": tg.optim.adam(1e-2), "target": None},
        inputs={"x": (4, 3), "y": (4, 2)},
        device=device,
    )
    for number in range(3):
        before = training.parameters()
        gradients = training.gradients(**batch(number))
        assert {path.partition(".")[0] for path in gradients} == {"online"}
        training.step(**batch(number))
        after = training.parameters()
        for path, value in before.items():
            part, _, own = path.partition(".")
            assert (part == "online") != np.allclose(
                after[path], 0.9 * value + 0.1 * before[f"online.{own}"], atol=1e-6
            )
    with pytest.raises(ParameterError, match=r"'target\.layers\.0\.weight' is assigned in .*only the loss"):
        training.attach(lambda model: model["target"].layers[0].weight.assign(0.0), inputs={})
    with pytest.raises(AttributeError, match=r"assign.*not trained"):
        compiled(loss=lambda model, x, y: model.layers[0].weight.assign(0.0))


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_by_path(device: tg.DeviceName) -> None:
    def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
        model.seen.assign(model.seen + 1)
        return squared_error(model, x + tg.random.normal(key, x.shape), y), {"seen": model.seen}

    class Seen(MLP):
        def __init__(self) -> None:
            super().__init__(3, 5, 2)
            self.seen = tg.nn.buffer(())

    model = Seen()
    model.freeze("layers.1.bias")
    training = compiled(model=model, loss=noisy, optimizer=tg.optim.sgd(0.5, clip_norm=100.0), device=device)
    training.step(**batch())
    state = training.state_dict()
    gradients = training.gradients(**batch(1))
    assert list(gradients) == ["layers.0.weight", "layers.0.bias", "layers.1.weight"]
    assert all(np.array_equal(state[name], value) for name, value in training.state_dict().items())
    training.step(**batch(1))  # takes these gradients, with the same key
    for path, value in training.parameters().items():
        step = 0.5 * np.asarray(gradients[path]) if path in gradients else 0.0
        assert np.allclose(value, state[path] - step, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="missing input 'y'"):
        training.gradients(x=batch()["x"])
    with pytest.raises(TraceError, match="gradients inside a trace"):
        tg.jit(lambda x: training.gradients(x=x))(1.0)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_trees_of_arrays_are_models(device: tg.DeviceName) -> None:
    start = {"w": np.ones((3, 2)), "rest": [np.zeros(2, np.float32), {"scale": 2.0}], "order": np.array([2, 0, 1])}

    def loss(tree: Any, x: Any, y: Any) -> Any:
        assert isinstance(tree["rest"], list) and isinstance(tree["order"], np.ndarray)
        return tg.mse((x[:, tree["order"]] @ tree["w"] + tree["rest"][0]) * tree["rest"][1]["scale"], y)

    training = tg.compile(
        start, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3), "y": (4, 2)}, device=device
    )
    assert {path: value.shape for path, value in training.parameters().items()} == {
        "w": (3, 2),
        "rest.0": (2,),
        "rest.1.scale": (),
    }
    values = [float(training.step(**batch())) for _ in range(20)]
    assert values[-1] < values[0] and np.array_equal(start["w"], np.ones((3, 2)))
    model = training.model()
    assert type(model) is dict and isinstance(model["w"], tg.Array) and isinstance(model["rest"][0], tg.Array)
    assert float(loss(model, **batch())) == pytest.approx(float(training.step(**batch())), rel=1e-5)
    assert float(training.attach(loss)(**batch())) < values[-1]
    with pytest.raises(ParameterError, match=r"must be a tg\.nn\.Module, or a dict, list or tuple of arrays and"):
        compiled(model=3)


@pytest.mark.parametrize(
    "number", [0.0, np.float16(0), np.float32(0), np.float64(0), np.array(0.0), np.zeros((), "f2")]
)
def test_floats_in_a_tree_are_parameters_of_no_axes(number: Any) -> None:
    x = np.linspace(-1, 1, 16, dtype=np.float32)
    training = tg.compile(
        {"w": np.zeros(1, np.float32), "rest": [number, np.int32(7), 7]},
        loss=lambda p, x: tg.mean((p["w"] * x + p["rest"][0] - 3 * x - 1) ** 2),
        optimizer=tg.optim.sgd(0.5),
        inputs={"x": (16,)},
        device="numpy",
    )
    for _ in range(50):
        training.step(x=x)
    parameters = training.parameters()
    assert parameters.keys() == {"w", "rest.0"} and float(parameters["rest.0"]) == pytest.approx(1, abs=1e-2)
    halves = getattr(number, "dtype", None) == np.float16
    assert parameters["rest.0"].dtype == (np.float16 if halves else np.float32) and parameters["rest.0"].shape == ()


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", DEVICES)
def test_another_model_keeps_what_fits(device: tg.DeviceName, caplog: Any) -> None:
    class Net(tg.nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.body, self.norm, self.head = tg.nn.Linear(3, 4), tg.nn.BatchNorm1d(4), tg.nn.Linear(4, classes)

        def __call__(self, x: Any) -> Any:
            return self.head(self.norm(self.body(x)))

    model = Net(2)
    first = compiled(model=model, optimizer=tg.optim.adam(tg.optim.schedules.cosine(1e-2, 50)), device=device)
    first.set(learning_rate=0.5)
    for number in range(3):
        first.step(**batch(number))
    state = first.state_dict()
    model.head = tg.nn.Linear(4, 5)
    model.freeze("body.*")
    with pytest.raises(ParameterError, match=r"changed since tg\.compile; replace_model\(\).*: replaced head\.weight"):
        first.step(**batch())
    wider = {"x": (4, 3), "y": (4, 5)}
    with caplog.at_level("INFO", "tensorgrad"):
        second = first.replace_model(inputs=wider)
    assert second.replaced == (
        tuple(path for path in state if path.startswith(("body", "norm"))),
        ("head.weight", "head.bias"),
        ("head.weight", "head.bias"),
    )
    assert "replace_model: 7 kept; new: head.weight, head.bias" in caplog.text
    after = second.state_dict()
    assert second.step_count == 3 and second.settings["learning_rate"] == 0.5
    for name, value in after.items():
        fits = name in state and state[name].shape == value.shape
        assert not fits or np.array_equal(state[name], value), name
    assert "optimizer/adam.m/body.weight" not in after and np.any(after["optimizer/adam.m/norm.weight"])
    assert not np.any(after["optimizer/adam.m/head.bias"])
    other = {"x": batch()["x"], "y": np.zeros((4, 5), np.float32)}
    second.step(**other)
    model.trainable()
    third = second.replace_model(optimizer=tg.optim.sgd(0.1), seed=3)
    assert third.step_count == 0 and third.settings["learning_rate"] == 0.1
    assert all(np.array_equal(second.parameters()[path], value) for path, value in third.parameters().items())
    assert third.replaced and not third.replaced.new
    third.step(**other)
    with pytest.raises(OptionError, match=r"tg\.compile has no setting 'model_name'; the settings are device"):
        third.replace_model(model_name="x")
    with pytest.raises(OptionError, match="1 micro-batches of a step have run"):
        adding = third.replace_model(accumulate=2)
        adding.step(**other)
        adding.replace_model()


def test_a_slice_of_layers_is_a_sequential_that_shares_them():
    model = tg.nn.Sequential(tg.nn.Linear(2, 3), tg.nn.ReLU(), tg.nn.Linear(3, 2)).initialized(0)
    body = model[:-1]
    assert isinstance(body, tg.nn.Sequential) and len(body) == 2 and body[0] is model[0]
    np.testing.assert_array_equal(body(tg.ones(2)), tg.relu(model[0](tg.ones(2))))
    named = tg.nn.Sequential({"body": tg.nn.Linear(2, 3), "act": tg.nn.ReLU()})[:1]
    assert list(named.named_parameters()) == ["body.weight", "body.bias"] and len(model[3:]) == 0
