"""Programs as a PyTorch user would first write them: they work, or the error says what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import FrozenWarning, InputError, ParameterError, ShapeError

DEVICES = ["numpy", "cpu", "wgpu"]
Arrays = dict[str, np.ndarray]


class Net(tg.nn.Module):
    """Two layers with a batch norm between them, and a head."""

    def __init__(self, features: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.body = tg.nn.Sequential(tg.nn.Linear(features, 16), tg.nn.BatchNorm1d(16), tg.nn.ReLU())
        self.head = tg.nn.Linear(16, classes)

    def __call__(self, x: Any) -> Any:
        return self.head(self.body(x))


def cross_entropy(model: Any, x: Any, y: Any) -> Any:
    return tg.cross_entropy(model(x), y)


def examples(classes: int = 3) -> Arrays:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    return {"x": x, "y": np.argmax(x[:, :classes], axis=1).astype(np.int32)}


INPUTS = {"x": (64, 4), "y": tg.spec(64, "i32")}


def accuracy(training: tg.Training, data: Arrays) -> float:
    labels = training.attach(lambda model, x: tg.argmax(tg.nn.inference(model)(x), axis=1))(x=data["x"])
    return float(np.mean(np.asarray(labels) == data["y"]))


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_a_penalty_over_all_parameters(device: tg.DeviceName) -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        return tg.cross_entropy(model(x), y) + 0.1 * sum((p**2).sum() for p in model.parameters())

    data = examples()
    training = tg.compile(Net(), loss=loss, optimizer=tg.optim.sgd(0.0), inputs=INPUTS, device=device)
    plain = tg.compile(Net(), loss=cross_entropy, optimizer=None, inputs=INPUTS, device=device)
    penalty = 0.1 * sum(float((value**2).sum()) for value in training.parameters().values())
    assert penalty > 0.1
    assert float(training.step(**data)) == pytest.approx(float(plain.step(**data)) + penalty, rel=1e-4)


def test_a_penalty_by_pairs_of_names_and_parameters() -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        return tg.cross_entropy(model(x), y) + sum((p**2).sum() for name, p in model.named_parameters())

    with pytest.raises(tg.errors.ArgumentError, match=r"named_parameters\(\)\.items\(\)"):
        tg.compile(Net(), loss=loss, optimizer=tg.optim.sgd(0.0), inputs=INPUTS, device="numpy")


def test_tied_weights() -> None:
    class Language(tg.nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            self.embedding, self.hidden = tg.nn.Embedding(11, 8), tg.nn.Linear(8, 8)
            self.head = tg.nn.Linear(8, 11, bias=False)
            if tied:
                self.head.weight = self.embedding.weight

        def __call__(self, tokens: Any) -> Any:
            return self.embedding.attend(tg.tanh(self.hidden(self.embedding(tokens))))

    with pytest.raises(ShapeError, match=r"weight is \[in, out\] here, \[8, 11\], .* call embedding\.attend\(x\)"):
        Language(tied=True)
    model = Language(tied=False)
    del model.head
    assert list(model.named_parameters()) == ["embedding.weight", "hidden.weight", "hidden.bias"]
    tokens = np.arange(22, dtype=np.int32).reshape(2, 11) % 11
    training = tg.compile(
        model,
        loss=lambda model, x: tg.cross_entropy(tg.reshape(model(x), (-1, 11)), tg.reshape(x, -1)),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": tg.spec((2, 11), "i32")},
        device="numpy",
    )
    losses = training.run(40, {"x": tokens})
    assert losses[-1] < 0.5 * losses[0]
    # Two layers of one layout share a weight as they do in PyTorch.
    first, last = tg.nn.Linear(4, 4, bias=False), tg.nn.Linear(4, 4, bias=False)
    last.weight = first.weight
    network = tg.nn.Sequential(first, tg.nn.Tanh(), last)
    assert list(network.named_parameters()) == ["0.weight"]


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_the_logits_of_the_labels_by_two_index_arrays(device: tg.DeviceName) -> None:
    def loss(model: Any, x: Any, y: Any) -> Any:
        return -tg.mean(tg.log_softmax(model(x), axis=1)[np.arange(len(x)), y])

    data = examples()
    training = tg.compile(Net(), loss=loss, optimizer=tg.optim.adam(1e-2), inputs=INPUTS, device=device)
    plain = tg.compile(Net(), loss=cross_entropy, optimizer=tg.optim.adam(1e-2), inputs=INPUTS, device=device)
    for _ in range(3):
        assert float(training.step(**data)) == pytest.approx(float(plain.step(**data)), rel=1e-4)


def test_lengths_of_sequences() -> None:
    class Last(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = tg.nn.GRU(3, 8, batch_first=True), tg.nn.Linear(8, 1)

        def __call__(self, x: Any, lengths: Any) -> Any:
            _, state = self.cell(x, lengths=lengths)
            return self.head(state[-1])[:, 0]

    generator = np.random.default_rng(0)
    x, lengths = generator.normal(size=(16, 6, 3)).astype(np.float32), generator.integers(1, 7, 16).astype(np.int32)
    y = np.array([row[:length, 0].sum() for row, length in zip(x, lengths, strict=True)], np.float32)
    training = tg.compile(
        Last(),
        loss=lambda model, x, lengths, y: tg.mse(model(x, lengths), y),
        optimizer=tg.optim.adam(2e-2),
        inputs={"x": x.shape, "lengths": tg.spec(16, "i32"), "y": y.shape},
        device="numpy",
    )
    losses = training.run(60, {"x": x, "lengths": lengths, "y": y})
    assert losses[-1] < 0.3 * losses[0]
    padded = np.where(np.arange(6)[None, :, None] < lengths[:, None, None], x, np.nan).astype(np.float32)
    assert np.isfinite(float(training.step(x=padded, lengths=lengths, y=y)))


def test_a_new_head_on_old_weights() -> None:
    first = tg.compile(Net(), loss=cross_entropy, optimizer=tg.optim.adam(1e-2), inputs=INPUTS, device="numpy")
    first.run(60, examples())
    old, data = first.state_dict(), examples(4)
    second = tg.compile(
        Net(classes=4), loss=cross_entropy, optimizer=tg.optim.adam(1e-2), inputs=INPUTS, device="numpy"
    )
    with pytest.raises(
        InputError, match=r"head\.weight is float32\[16, 3\], expected .*\[16, 4\].*replace_model keeps"
    ):
        second.load_state_dict(old, strict=False)
    loaded = second.load_state_dict({k: v for k, v in old.items() if not k.startswith("head.")}, strict=False)
    assert loaded.missing == ("head.weight", "head.bias")
    assert second.step_count == 0 and {"training/learning_rate", "training/step"} <= {*loaded.unexpected}
    # Or the model that there is gets another head.
    model = Net()
    first = tg.compile(model, loss=cross_entropy, optimizer=tg.optim.adam(1e-2), inputs=INPUTS, device="numpy")
    first.load_state_dict(old)
    model.head = tg.nn.Linear(16, 4)
    with pytest.raises(ParameterError, match=r"changed since tg\.compile; replace_model\(\).*replaced head\.weight"):
        first.step(**data)
    third = first.replace_model(optimizer=tg.optim.adam(1e-2))
    assert third.replaced is not None and third.replaced.new == ("head.weight", "head.bias")
    for training in (second, third):
        before = training.state_dict(parts="model")
        assert all(np.array_equal(before[name], old[name]) for name in before if not name.startswith("head"))
        training.run(60, data)
        assert accuracy(training, data) > 0.8


def test_a_second_phase_of_fine_tuning() -> None:
    model, data = Net(), examples()
    model.freeze("body.*")
    first = tg.compile(model, loss=cross_entropy, optimizer=tg.optim.adam(1e-2), inputs=INPUTS, device="numpy")
    first.run(20, data)
    model.trainable()
    with pytest.warns(FrozenWarning, match=r"whether body\.0\.weight, .* is frozen is as it was .*replace_model\(\)"):
        first.step(**data)
    before = first.state_dict()
    second = first.replace_model(optimizer=tg.optim.adam(1e-3))
    assert second.replaced is not None and not second.replaced.new and second.step_count == 0
    assert second.learning_rate == 1e-3
    losses = second.run(20, data)
    after = second.state_dict()
    assert losses[-1] < losses[0] and not np.array_equal(after["body.0.weight"], before["body.0.weight"])


def test_old_weights_with_running_statistics() -> None:
    settings: dict[str, Any] = {"loss": cross_entropy, "inputs": INPUTS, "device": "numpy"}
    first = tg.compile(Net(), optimizer=tg.optim.adam(1e-2), **settings)
    data = examples()
    data["x"] = data["x"] * 5 + 20
    first.run(100, data)
    second = tg.compile(Net(), optimizer=tg.optim.sgd(1e-3), **settings)
    second.load_state_dict(first.state_dict(), strict=False)
    assert accuracy(second, data) == accuracy(first, data) > 0.9
    assert second.learning_rate == 1e-3 and second.step_count == 0


def moons(count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    angle, side = generator.uniform(0, np.pi, count), generator.integers(0, 2, count)
    x = np.stack([np.cos(angle) * (1 - 2 * side) + side - 0.5, np.sin(angle) * (1 - 2 * side) + 0.5 * side], axis=1)
    return (x + 0.05 * generator.normal(size=(count, 2))).astype(np.float32)


def distance(left: np.ndarray, right: np.ndarray) -> float:
    """Returns the energy distance of two samples."""

    def apart(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)).mean())

    return 2 * apart(left, right) - apart(left, left) - apart(right, right)


def test_a_generator_and_a_discriminator_in_one_step() -> None:
    def network(features: int, results: int) -> Any:
        activation = tg.nn.LeakyReLU(0.2)
        first, last = tg.nn.Linear(features, 32), tg.nn.Linear(32, results)
        return tg.nn.Sequential(first, activation, tg.nn.Linear(32, 32), activation, last)

    def loss(model: Any, x: Any, key: Any) -> Any:
        judge, fake = model["discriminator"], model["generator"](tg.random.normal(key, x.shape))
        return {
            "generator": tg.mean(tg.softplus(-judge(fake))),
            "discriminator": tg.mean(tg.softplus(-judge(x)) + tg.softplus(judge(tg.stop_gradient(fake)))),
        }

    training = tg.compile(
        {"generator": network(2, 2), "discriminator": network(2, 1)},
        loss=loss,
        optimizer={
            "generator": tg.optim.adam(5e-4, betas=(0.5, 0.9)),
            "discriminator": tg.optim.adam(2e-3, betas=(0.5, 0.9)),
        },
        inputs={"x": (128, 2)},
        device="numpy",
    )
    sample = training.attach(lambda model, z: model["generator"](z))
    real, z = moons(400, 1), np.random.default_rng(2).normal(size=(400, 2)).astype(np.float32)
    assert distance(np.asarray(sample(z=z)), real) > 0.4
    losses = training.step(x=moons(128, 9))
    for number in range(250):
        training.step(x=moons(128, 10 + number))
    assert losses.keys() == {"generator", "discriminator"}
    assert distance(np.asarray(sample(z=z)), real) < 0.2


def test_an_actor_a_critic_and_a_target_that_follows() -> None:
    def network(features: int) -> Any:
        return tg.nn.Sequential(tg.nn.Linear(features, 64), tg.nn.Tanh(), tg.nn.Linear(64, 1))

    def loss(model: Any, x: Any, taken: Any, after: Any) -> Any:
        actor, critic, target = model["actor"], model["critic"], model["target"]
        best = tg.sin(2 * x)
        future = target(tg.concat([after, actor(after)], axis=1))
        for parameter, online in zip(target.parameters(), critic.parameters(), strict=True):
            parameter.assign(0.95 * parameter + 0.05 * online)
        action, reward = actor(x), -((taken - best) ** 2)
        return {
            "critic": tg.mse(critic(tg.concat([x, taken], axis=1)), tg.stop_gradient(reward + 0.3 * future)),
            "actor": -tg.mean(critic(tg.concat([x, action], axis=1))),
        }, {"reward": tg.mean(-((action - best) ** 2))}

    critic = network(2)
    training = tg.compile(
        {"actor": network(1), "critic": critic.initialized(1), "target": critic.initialized(1)},
        loss=loss,
        optimizer={"actor": tg.optim.adam(2e-3), "critic": tg.optim.adam(1e-2), "target": None},
        inputs=dict.fromkeys(("x", "taken", "after"), (128, 1)),
        device="numpy",
    )
    start = training.parameters()
    assert all(np.array_equal(start[f"target.{path}"], start[f"critic.{path}"]) for path in critic.named_parameters())
    generator = np.random.default_rng(0)

    def step() -> float:
        x, after = (generator.uniform(-1, 1, (128, 1)).astype(np.float32) for _ in range(2))
        _, metrics = training.step(x=x, taken=generator.uniform(-1.5, 1.5, (128, 1)).astype(np.float32), after=after)
        return float(metrics["reward"])

    rewards = [step() for _ in range(250)]
    assert rewards[0] < -0.3 and np.mean(rewards[-20:]) > -0.1
    before = training.parameters()
    step()
    now = training.parameters()
    for path in critic.named_parameters():
        expected = 0.95 * before[f"target.{path}"] + 0.05 * before[f"critic.{path}"]
        assert np.allclose(now[f"target.{path}"], expected, atol=1e-6)
