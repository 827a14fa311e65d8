"""Methods of a training in a group, other than `step`: results as for the whole batch, or an immediate error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed_models import Net, batch, compiled, in_group, same

import tensorgrad as tg
from tensorgrad.errors import DivergenceError, InputError, OptionError
from tensorgrad.runtime.plan import Collective, Repeat, runs

pytestmark = pytest.mark.usefixtures("kept_programs")

DEVICES = ["numpy", "cpu"]


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=2e-5, atol=1e-6)


def part(group: Any, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns one process's part of a batch."""
    if group is None:
        return values
    each = len(values["x"]) // group.size
    return {name: value[group.rank * each : (group.rank + 1) * each] for name, value in values.items()}


def logits(model: Any, x: Any) -> Any:
    return tg.nn.inference(model)(x)


def scores(model: Any, x: Any, y: Any) -> Any:
    class_scores = logits(model, x)
    return {
        "loss": tg.cross_entropy(class_scores, y),
        "largest": tg.max(class_scores),
        "by_class": tg.mean(class_scores, 0),
    }


@pytest.mark.nightly
@pytest.mark.parametrize("device", DEVICES)
def test_attached_functions_take_whole_batches_and_give_whole_results(device):
    def use(group):
        training = compiled(group, device=device)
        training.step(**batch(0))
        function = training.attach(logits, inputs={"x": (8, 6)})
        outputs = [np.asarray(function(x=batch(1)["x"]))]
        collectives = 0
        if device == "cpu":
            collectives = sum(isinstance(step, Collective) for step, _ in runs(function.program.plan))
        outputs.append(np.asarray(function(x=batch(1)["x"][:3])))  # three have no equal parts
        training.step(**batch(1))
        outputs.append(np.asarray(function(x=batch(1)["x"])))  # with the parameters as they are then
        batches = [batch(2), {name: value[:3] for name, value in batch(3).items()}]
        return outputs, training.evaluate(scores, batches), collectives

    arrays, means, none = use(None)
    assert none == 0
    for size in (2, 4):
        for results, evaluated, collectives in in_group(size, use):
            assert [result.shape for result in results] == [(8, 4), (3, 4), (8, 4)]
            for result, expected in zip(results, arrays, strict=True):
                close(result, expected)
            for name, value in means.items():
                close(evaluated[name], value)
            assert collectives == (device == "cpu")  # values computed from parts are gathered once


@pytest.mark.nightly
def test_evaluations_weigh_by_an_input():
    def weighted(model, x, y, mask):
        each = tg.cross_entropy(logits(model, x), y, reduction="none")
        return tg.sum(each * mask) / tg.sum(mask)

    def use(group):
        training = compiled(group)
        masks = [np.array([1, 1, 1, 0, 0, 0, 0, 0], np.float32), np.ones(8, np.float32)]
        batches = [{**batch(number), "mask": mask} for number, mask in enumerate(masks)]
        return training.evaluate(weighted, batches, weight="mask")

    for value in in_group(4, use):
        close(value, use(None))


def captured_loss(model: Any, x: Any, y: Any, key: Any) -> Any:
    hidden = tg.capture("hidden", model.first(x))
    tg.capture("mean", tg.mean(hidden))
    return tg.cross_entropy(model(x, key), y)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("gives_part", [True, False])
def test_captures_and_gradients_are_those_of_the_whole_batch(device, gives_part):
    def use(group):
        training = compiled(group, device=device, loss=captured_loss)
        own = part(group, batch(1)) if gives_part else batch(1)
        before = training.state_dict()
        captured = {**training.capture("*", **own), **training.gradients(**own)}
        assert same(training.state_dict(), before)
        return {name: np.asarray(value) for name, value in captured.items()}

    alone = use(None)
    assert alone["hidden"].shape == (8, 8) and "second.weight" in alone
    for values in in_group(2, use):
        assert values.keys() == alone.keys()
        for name, value in alone.items():
            close(values[name], value)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("gives_part", [True, False])
def test_the_reference_has_the_whole_batch(gives_part):
    def use(group):
        training = compiled(group, shard="optimizer")
        training.step(**batch(0))
        own = part(group, batch(1)) if gives_part else batch(1)
        values = [inspected.value for inspected in training.inspect("first", **own)]
        loss, _ = training.replay(lambda inspected: None, **own)
        assert training.blame(**own) is None
        return values, np.asarray(loss), np.asarray(training.step(**own)[0])

    alone, replayed, stepped = use(None)
    for values, loss, step in in_group(2, use):
        assert [value.shape for value in values] == [value.shape for value in alone]
        for value, expected in zip(values, alone, strict=True):
            close(value, expected)
        close(loss, replayed)
        close(step, stepped)


@pytest.mark.nightly
def test_a_step_that_one_process_finds_not_finite_is_taken_back_by_all():
    def use(group):
        training = compiled(group, shard="optimizer", check_numerics=True)
        training.step(**batch(0))
        before = training.state_dict()
        broken = {name: value.copy() for name, value in batch(1).items()}
        broken["x"][7, 2] = np.inf
        with pytest.raises(DivergenceError) as caught:
            training.step(**part(group, broken))
        assert same(training.state_dict(), before) and training.step_count == 1
        nan_origin = training.blame(**part(group, broken))
        following, _ = training.step(**batch(1))
        return str(caught.value).partition("taken back: ")[2], str(nan_origin), np.asarray(following)

    message, blame, loss = use(None)
    for other, blamed, following in in_group(4, use):
        assert (other, blamed) == (message, blame)
        close(following, loss)


@pytest.mark.nightly
def test_values_that_one_process_finds_out_of_range_all_refuse():
    def use(group):
        training = compiled(group, checks=True)
        broken = {name: value.copy() for name, value in batch(1).items()}
        broken["y"][5] = 9
        before = training.state_dict()
        for act in (training.step, training.gradients):
            with pytest.raises(InputError, match="'y'"):
                act(**part(group, broken))
        assert same(training.state_dict(), before)
        return np.asarray(training.step(**batch(0))[0])

    for loss in in_group(4, use):
        close(loss, use(None))


@pytest.mark.nightly
def test_steps_of_a_group_are_measured():
    def use(group):
        training = compiled(group, device="cpu")
        plain = np.asarray(training.step(**batch(0))[0])
        training.reset()
        with training.profile() as profile:
            measured = np.asarray(training.step(**batch(0))[0])
        assert measured.tobytes() == plain.tobytes()
        return profile.steps, len(profile.dispatches)

    for steps, dispatches in in_group(2, use):
        assert steps == 1 and dispatches > 0


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ({"tune": True}, "tune"),
        ({"verify": True}, "verify"),
        ({"on_device_lost": "restart"}, "on_device_lost='restart'"),
    ],
)
def test_what_is_for_one_process_is_refused(option, what):
    def use(group):
        with pytest.raises(OptionError) as caught:
            compiled(group, device="cpu", **option)
        assert str(caught.value).endswith(f"{what} is for a process on its own, not for a group")
        return True

    assert all(in_group(2, use))


def test_a_training_knows_its_group():
    assert compiled(None).group is None
    assert all(in_group(2, lambda group: compiled(group).group is group))
    assert in_group(1, lambda group: compiled(group).group) == [None]


def test_parts_and_wholes_are_told_by_their_shapes():
    def use(group):
        listed = {name: value.tolist() for name, value in batch(0).items()}
        forms = (batch(0), part(group, batch(0)), listed)
        return len({np.asarray(compiled(group, model=Net()).step(**arrays)[0]).tobytes() for arrays in forms})

    assert in_group(2, use) == [1, 1]


class Layers(tg.nn.Module):
    """Layers that a loop runs, each of which a branch may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = tg.nn.param((3, 6, 6), init=tg.initializers.normal(0.3))
        self.last = tg.nn.Linear(6, 4)

    def __call__(self, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            changed = tg.cond(tg.max(w) > 0.5, lambda: tg.tanh(x @ w), lambda: x)
            return changed + 0.5 * x, tg.mean(changed)

        x, means = tg.scan(layer, x, self.weights)
        return self.last(x) + tg.sum(means)


@pytest.mark.parametrize("device", DEVICES)
def test_loops_and_branches_reduce_over_the_group(device: tg.DeviceName) -> None:
    """Collectives inside them read and write slices of stacked gradients."""

    def loss(model, x, y):
        return tg.cross_entropy(model(x), y)

    def use(group):
        training = compiled(group, model=Layers(), loss=loss, device=device)
        losses = [float(training.step(**part(group, batch(number)))) for number in range(3)]
        if device == "cpu" and group is not None:
            loops = [step for step in training.program.plan if isinstance(step, Repeat)]
            assert any(isinstance(step, Collective) for loop in loops for step, _ in runs(loop.steps))
        return losses, training.parameters()

    losses, parameters = use(None)
    for own, values in in_group(2, use):
        close(own, losses)
        for name, value in parameters.items():
            close(values[name], value)
