"""Values of models by path: state dicts of eager models, and models as functions of other values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import compiled

import tensorgrad as tg
from tensorgrad.errors import InputError, ParameterError, TraceError


class Net(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l1, self.norm, self.l2 = tg.nn.Linear(2, 4), tg.nn.BatchNorm1d(4), tg.nn.Linear(4, 1)

    def __call__(self, x: Any) -> Any:
        return self.l2(tg.tanh(self.norm(self.l1(x))))


X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
Y = np.array([[1.0], [0.0], [-1.0]], np.float32)


def linear_loss(model: Any, x: Any, y: Any) -> Any:
    return tg.mean((model(x) - y) ** 2)


def other(model: Any, seed: int = 1) -> dict[str, Any]:
    """Returns values of another initialization, by path."""
    return model.initialized(seed).named_parameters()


def test_values_replace_those_of_a_model() -> None:
    model = tg.nn.inference(Net().initialized(0))
    values = other(Net())
    expected = tg.nn.inference(Net().initialized(1))(X)
    np.testing.assert_array_equal(model.with_values(values)(X), expected)
    nested = {"l1": {"weight": values["l1.weight"], "bias": values["l1.bias"]}, "l2.weight": values["l2.weight"]}
    np.testing.assert_array_equal(model.with_values({**nested, "l2.bias": np.asarray(values["l2.bias"])})(X), expected)
    np.testing.assert_array_equal(model.with_values(tg.nn.inference(Net().initialized(1)))(X), expected)
    assert not np.array_equal(model(X), expected)  # it stays as it is


def test_what_is_left_out_keeps_its_value() -> None:
    model = Net().initialized(0, device="numpy")
    before = model.state_dict()
    changed = model.with_values({"l1.bias": tg.ones(4)})
    changed(tg.tensor(X, device="numpy"))
    after = model.state_dict()
    assert after["norm.num_batches_tracked"] == 1  # its buffers are the model's
    np.testing.assert_array_equal(after["l1.bias"], before["l1.bias"])
    assert changed.named_parameters()["l2.weight"] is model.named_parameters()["l2.weight"]


def test_derivatives_of_a_step_of_descent_propagate_through_it() -> None:
    """MAML's gradient, beside the same in the weights as arguments."""
    model = tg.nn.Linear(2, 1).initialized(0)

    def adapted(model: Any) -> Any:
        gradients = tg.grad(linear_loss)(model, X, Y).named_parameters()
        values = {name: value - 0.1 * gradients[name] for name, value in model.named_parameters().items()}
        return linear_loss(model.with_values(values), X, Y)

    def by_hand(weight: Any, bias: Any) -> Any:
        def loss(weight: Any, bias: Any) -> Any:
            return tg.mean((X @ weight + bias - Y) ** 2)

        first, second = tg.grad(loss, argnums=(0, 1))(weight, bias)
        return loss(weight - 0.1 * first, bias - 0.1 * second)

    weight, bias = tg.grad(by_hand, argnums=(0, 1))(model.weight, model.bias)
    for gradient in (tg.grad(adapted)(model), tg.jit(tg.grad(adapted), device="numpy")(model)):
        np.testing.assert_allclose(gradient.weight, weight, rtol=1e-5)
        np.testing.assert_allclose(gradient.bias, bias, rtol=1e-5)


def test_a_declared_model_takes_all_of_its_values() -> None:
    model = tg.nn.MLP(2, 3, 1)
    members = [other(model, seed) for seed in range(4)]
    stacked = {name: tg.stack([member[name] for member in members]) for name in members[0]}
    ensemble = tg.vmap(lambda values, x: model.with_values(values)(x), in_axes=(0, None))(stacked, X)
    expected = [model.initialized(seed)(X) for seed in range(4)]
    np.testing.assert_allclose(ensemble, expected, rtol=1e-5)


def test_one_model_computes_the_values_of_another_in_a_loss() -> None:
    target = tg.nn.Linear(2, 1)

    def loss(model: Any, x: Any, y: Any) -> Any:
        row = model(tg.ones((1, 3)))[0]
        return linear_loss(target.with_values({"weight": row[:2].reshape(2, 1), "bias": row[2:]}), x, y)

    training = tg.compile(
        tg.nn.Linear(3, 3), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (3, 2), "y": (3, 1)}, device="numpy"
    )
    losses = [float(training.step(x=X, y=Y)) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_buffers_of_a_loss_can_be_assigned_to_through_it() -> None:
    def loss(model: Any, x: Any) -> Any:
        return tg.mean(model.with_values({"l1.bias": tg.zeros(4)})(x) ** 2)

    training = tg.compile(
        Net(), loss=lambda model, x: loss(model, x) + 0 * tg.sum(model.l1.bias), inputs={"x": (3, 2)}, device="numpy"
    )
    training.step(x=X)
    assert training.buffers()["norm.num_batches_tracked"] == 1


MISMATCHES: list[tuple[Any, dict[str, Any], str]] = [
    (tg.nn.Linear(2, 1).initialized(0), {"wieght": np.ones((2, 1))}, "unknown parameter 'wieght'"),
    (tg.nn.Linear(2, 1).initialized(0), {"weight": np.ones((1, 2))}, r"'weight' has shape \(1, 2\), expected \(2, 1\)"),
    (tg.nn.Linear(2, 1).initialized(0), {"weight": tg.ones((1, 2))}, r"'weight' is f32\[2, 1\], the value f32\[1, 2\]"),
    (tg.nn.Linear(2, 1).initialized(0), {"weight": tg.ones((2, 1), "f64")}, r"the value f64\[2, 1\]"),
    (
        tg.nn.Linear(2, 1),
        {"weight": np.ones((2, 1))},
        "the model is declared.* missing: bias",
    ),
]


@pytest.mark.parametrize(("model", "values", "message"), MISMATCHES)
def test_values_must_fit(model: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.with_values(values)


def test_state_dicts_go_from_model_to_model() -> None:
    first, second = (Net().initialized(seed, device="numpy") for seed in (0, 1))
    first(tg.tensor(X, device="numpy"))
    state = first.state_dict()
    assert set(state) == {*first.named_parameters(), *first.named_buffers()}
    weight = second.l1.weight
    assert second.load_state_dict(state) == ((), ())
    assert second.l1.weight is weight and weight.requires_grad  # in place: optimizers keep it
    for name, value in second.state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    state["l1.weight"][:] = 0  # copies
    assert np.any(first.state_dict()["l1.weight"] != 0)


def test_states_of_trainings_and_models_are_the_same() -> None:
    training = compiled(device="numpy")
    state = training.state_dict(parts="model")
    model = training.model()
    assert state.keys() == model.state_dict().keys()
    live = model.initialized(device="numpy")
    live.load_state_dict({name: value + 1 for name, value in state.items()})
    training.load_state_dict(live.state_dict(), parts="model")
    for name, value in training.parameters().items():
        np.testing.assert_array_equal(value, state[name] + 1)


def test_another_models_state_is_refused_with_ten_names_and_a_count() -> None:
    model = tg.nn.MLP(2, [2] * 7, 2).initialized(0, device="numpy")
    training = tg.compile(tg.nn.MLP(2, [2] * 7, 2), device="numpy")
    state = {f"blocks.{i}": np.zeros(3, np.float32) for i in range(25)}
    before = model.state_dict()
    for load in (model.load_state_dict, lambda state: training.load_state_dict(state, parts="model")):
        with pytest.raises(InputError) as caught:
            load(state)
        message = str(caught.value)
        assert "nothing is loaded. missing: layers.0.weight, " in message
        assert "and 6 more, 16 in all; unexpected: blocks.0, " in message
        assert "blocks.9 and 15 more, 25 in all" in message and "blocks.10" not in message
    with pytest.raises(InputError, match=r"layers.0.bias is float32\[3\], expected float32\[2\]"):
        model.load_state_dict({**before, "layers.0.bias": np.zeros(3, np.float32)})
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_part_of_a_state_is_loaded_where_it_fits() -> None:
    model = tg.nn.Linear(2, 1).initialized(0, device="numpy")
    loaded = model.load_state_dict({"bias": np.ones(1, np.float32), "extra": np.ones(2)}, strict=False)
    assert loaded.missing == ("weight",) and loaded.unexpected == ("extra",)
    assert model.state_dict()["bias"] == 1


def test_models_without_values_of_their_own_have_no_state() -> None:
    with pytest.raises(ParameterError, match="weight is declared and has no values"):
        tg.nn.Linear(2, 1).state_dict()
    with pytest.raises(ParameterError, match="weight is not on a device"):
        tg.nn.Linear(2, 1).load_state_dict({})
    with pytest.raises(ParameterError, match="weight is not on a device"):
        tg.nn.Linear(2, 1).initialized(0).load_state_dict({})
    with pytest.raises(TraceError, match="weight is traced"):
        tg.grad(lambda model: tg.sum(model.state_dict()["weight"]))(tg.nn.Linear(2, 1).initialized(0))
