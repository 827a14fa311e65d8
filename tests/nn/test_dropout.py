"""Layers that drop: what they need in training, and how a model says that it is used for inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad import nn
from tensorgrad.errors import OptionError

X = np.random.default_rng(0).normal(size=(6, 2, 8)).astype(np.float32)


def attention(query: Any, key: Any = None, dropout: float = 0.5) -> Any:
    return nn.scaled_dot_product_attention(
        query[:, None], query[:, None], query[:, None], None, False, None, dropout, key
    )


class Custom(nn.Module):
    """A module that reads `training`, as in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def __call__(self, x: Any, key: Any = None) -> Any:
        return attention(self.linear(x), key, 0.5 if self.training else 0.0)


def decoder() -> nn.Module:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = nn.TransformerDecoder(lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.5), 2)

        def __call__(self, x: Any, key: Any = None) -> Any:
            return self.decoder(x, x, key)

    return Both()


MODELS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "sequential": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), "key"),
    "nested": (lambda: nn.Sequential(nn.Sequential({"a": nn.Linear(8, 8), "b": nn.Dropout(0.5)})), "key"),
    "channels": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout1d(0.5)), "key"),
    "perceptron": (lambda: nn.MLP(8, [16, 16], 8, dropout=0.5), "key"),
    "attention": (lambda: nn.MultiHeadAttention(8, 2, dropout=0.5), "dropout_key"),
    "encoder": (lambda: nn.TransformerEncoder(lambda: nn.TransformerEncoderLayer(8, 2, 16), 2), "key"),
    "decoder": (decoder, "key"),
    "rnn": (lambda: nn.RNN(8, 8, num_layers=2, dropout=0.5), "dropout_key"),
    "lstm": (lambda: nn.LSTM(8, 8, num_layers=3, dropout=0.5), "dropout_key"),
    "in a sequence": (lambda: nn.Sequential(nn.GRU(8, 8, num_layers=2, dropout=0.5)), "key"),
    "custom": (Custom, "key"),
}
by_model = pytest.mark.parametrize("name", MODELS)


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def compiled(model: nn.Module, loss: Callable[..., Any]) -> tg.Training:
    return tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.0), inputs={"x": X.shape}, device="numpy")


@by_model
def test_a_loss_without_the_key_is_refused(name: str) -> None:
    model, argument = MODELS[name][0](), MODELS[name][1]
    with pytest.raises(
        OptionError, match=r"test_dropout.py:\d+: .* drops with .*has no key: .*tg.nn.inference\(model\)"
    ):
        compiled(model, lambda m, x: tg.mean(first(m(x)) ** 2))
    keyed = compiled(model, lambda m, x, key: tg.mean(first(m(x, **{argument: key})) ** 2))
    assert len({float(keyed.step(x=X)) for _ in range(3)}) == 3  # a mask for each step


@pytest.mark.in_turns(3)
@by_model
def test_an_attached_function_says_that_it_is_for_inference(name: str) -> None:
    model, argument = MODELS[name][0](), MODELS[name][1]
    training = compiled(model, lambda m, x, key: tg.mean(first(m(x, **{argument: key})) ** 2))
    with pytest.raises(OptionError, match="has no key"):
        training.attach(lambda m, x: first(m(x)), inputs={"x": X.shape})
    scores = training.evaluate(lambda m, x: tg.mean(first(nn.inference(m)(x)) ** 2), [{"x": X}] * 2)
    predictions = training.attach(lambda m, x: first(nn.inference(m)(x)))(x=X)
    assert np.isclose(scores, np.mean(np.asarray(predictions) ** 2), rtol=1e-5)


@by_model
def test_an_initialized_model_needs_the_key_too(name: str) -> None:
    model, argument = MODELS[name][0]().initialized(0), MODELS[name][1]
    with pytest.raises(OptionError, match=r"test_dropout.py:\d+: .* drops with .*has no key"):
        model(X)
    dropped = first(model(X, **{argument: tg.random.key(0)}))
    plain = np.asarray(first(nn.inference(model)(X)))
    assert not np.array_equal(dropped, plain)
    assert np.array_equal(plain, first(nn.inference(model)(X, **{argument: tg.random.key(0)})))


def test_eager_tensors_need_the_key_too() -> None:
    model = nn.Sequential(nn.Linear(8, 400), nn.Dropout(0.9)).initialized(0, device="cpu")
    x = tg.tensor(X[0], device="cpu")
    with pytest.raises(OptionError, match=r"Dropout drops with probability 0.9, and has no key: .*model\(x, key=key\)"):
        model(x)
    dropped = model(x, key=tg.random.key(0)) == 0
    assert 0.85 < np.mean(np.asarray(dropped)) < 0.95
    assert np.all(np.asarray(nn.inference(model)(x)) != 0)


def test_attention_as_a_function_needs_the_key() -> None:
    with pytest.raises(OptionError, match=r"scaled_dot_product_attention drops .*model\(x, dropout_key=key\)"):
        attention(X)
    assert not np.array_equal(attention(X, tg.random.key(0)), attention(X, dropout=0.0))


def test_nothing_to_drop_needs_no_key() -> None:
    for model in (nn.Dropout(0.0), nn.LSTM(8, 8, dropout=0.5), nn.MLP(8, [4], 2), nn.MultiHeadAttention(8, 2)):
        first(model.initialized(0)(X))


def test_the_form_for_inference_reaches_every_module() -> None:
    model = nn.Sequential({"body": nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), "head": nn.Linear(8, 1)})
    form = nn.inference(model)
    body: Any = form[0]
    assert model.training and not form.training
    assert [layer.training for layer in body] == [False, False] and len(form) == len(model) == 2

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weight: Any = nn.param(3, init=1.0)
            self.training = weight

    assert list(nn.inference(Named()).named_parameters()) == ["training"]
