"""Indices out of range: errors while tracing if they are known, and with `checks=True` if they depend on inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import InputError, ShapeError


class Tagger(tg.nn.Module):
    """Scores of 5 classes for each of 7 tokens."""

    def __init__(self) -> None:
        self.table = tg.nn.Embedding(7, 4)
        self.out = tg.nn.Linear(4, 5)

    def __call__(self, tokens: Any) -> Any:
        return self.out(self.table(tokens))


LOSSES: dict[str, Callable[..., Any]] = {
    "plain": lambda model, x, y: tg.cross_entropy(model(x), y),
    "ignored": lambda model, x, y: tg.cross_entropy(model(x), y, ignore_index=-100),
    "checkpoint": lambda model, x, y: tg.cross_entropy(tg.checkpoint(model)(x), y),
    "vmap": lambda model, x, y: tg.mean(tg.vmap(lambda a, b: tg.cross_entropy(model(a), b))(x, y)),
    "nll": lambda model, x, y: tg.nll(tg.log_softmax(model(x)), y.reshape(-1).reshape(x.shape)),
    "picked": lambda model, x, y: -tg.mean(model(x)[tg.arange(2)[:, None], tg.arange(3), y]),
    "along": lambda model, x, y: -tg.mean(tg.take_along_axis(model(x), tg.expand_dims(y, -1), -1)),
    "one_hot": lambda model, x, y: -tg.mean(model(x) * tg.one_hot(y, 5)),
    "shifted": lambda model, x, y: tg.cross_entropy(model(x), (y + 1) - 1),
    "written": lambda model, x, y: tg.mean(model(x)) + tg.mean(tg.zeros(5).at[y].add(1.0)),
}


def compiled(loss: Callable[..., Any], **options: Any) -> Any:
    inputs = {"x": tg.spec((2, 3), "i32"), "y": tg.spec((2, 3), "i32")}
    return tg.compile(Tagger(), loss=loss, optimizer=tg.optim.sgd(0.1), inputs=inputs, device="numpy", **options)


def tokens(**changed: int) -> dict[str, Any]:
    """Returns a batch in which one element of some inputs is changed."""
    inputs = {"x": np.arange(6).reshape(2, 3), "y": np.array([[0, 1, 2], [3, 4, 0]])}
    for name, value in changed.items():
        inputs[name][1, 2] = value
    return inputs


@pytest.mark.parametrize("name", LOSSES)
def test_inputs_that_index_are_checked(name: str) -> None:
    training = compiled(LOSSES[name], checks=True)
    before = training.parameters()
    for call in (training.step, training.gradients):
        for bad, least, most in (({"y": 5}, "", 4), ({"x": 7}, "-7", 6)):
            ((name_, value),) = bad.items()
            with pytest.raises(InputError, match=f"index {value} at .* in {least}.* to {most}") as caught:
                call(**tokens(**bad))
            assert f"input '{name_}'" in str(caught.value) and str(caught.value).count("test_index_ranges.py") == 2
    assert training.step_count == 0
    assert all(np.array_equal(before[path], value) for path, value in training.parameters().items())
    assert float(training.step(**tokens())) == float(compiled(LOSSES[name]).step(**tokens()))


def test_a_label_that_is_ignored_is_none_out_of_range() -> None:
    training = compiled(LOSSES["ignored"], checks=True)
    assert np.isfinite(float(training.step(**tokens(y=-100))))
    with pytest.raises(InputError, match="index -1 at"):
        training.step(**tokens(y=-1))


def test_only_what_indexes_is_checked() -> None:
    training = compiled(lambda model, x, y: tg.cross_entropy(model(x)[:, :2], y[:, :2]), checks=True)
    assert np.isfinite(float(training.step(**tokens(y=9))))


def test_attached_functions_check_at_every_shape() -> None:
    training = compiled(LOSSES["plain"], checks=True)
    scores = training.attach(lambda model, x: model(x), inputs={"x": tg.spec((2, 3), "i32")})
    for rows in (2, 4):
        assert scores(x=np.zeros((rows, 3), np.int32)).shape == (rows, 3, 5)
        with pytest.raises(InputError, match=r"index -8 at \(0, 0\)"):
            scores(x=np.full((rows, 3), -8))


def test_without_checks_they_read_nan() -> None:
    assert np.isnan(float(compiled(LOSSES["plain"]).step(**tokens(x=7))))
    assert np.isnan(float(compiled(LOSSES["shifted"]).step(**tokens(y=5))))


@pytest.mark.parametrize("name", ["plain", "nll"])
def test_labels_are_checked_in_every_call(name: str) -> None:
    training = compiled(LOSSES[name])
    before = training.parameters()
    evaluation = training.attach(LOSSES[name], inputs={"x": tg.spec((2, 3), "i32"), "y": tg.spec((2, 3), "i32")})
    for bad in (5, -1):
        for call in (training.step, training.gradients, evaluation):
            with pytest.raises(InputError, match=rf"input 'y', at .*: labels: index {bad} .* it must be in 0 to 4"):
                call(**tokens(y=bad))
    assert all(np.array_equal(value, before[path]) for path, value in training.parameters().items())
    assert np.isfinite(float(training.step(**tokens())))
    assert np.isfinite(float(compiled(LOSSES["ignored"]).step(**tokens(y=-100))))


def of_torch(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array.astype(np.int64))


@pytest.mark.parametrize("kind", [np.ndarray.tolist, of_torch, tg.array, lambda x: tg.tensor(x, device="cpu")])
def test_labels_of_any_kind_are_checked(kind: Callable[[Any], Any]) -> None:
    training = compiled(LOSSES["plain"])
    inputs = tokens()
    training.step(**inputs | {"y": kind(inputs["y"])})
    inputs = tokens(y=-100)
    with pytest.raises(InputError, match=r"input 'y'.*index -100 .* 0 to 4; ignore_index=-100 leaves such labels out"):
        training.step(**inputs | {"y": kind(inputs["y"])})


def test_computed_indices_are_not_followed() -> None:
    training = compiled(lambda model, x, y: tg.cross_entropy(model(x), tg.cumsum(y, 1)), checks=True)
    assert np.isnan(float(training.step(**tokens())))


KNOWN: dict[str, Callable[[], Any]] = {
    "counted": lambda: tg.trace(lambda x: x[tg.arange(3) * 2], (4, 2)),
    "in a checkpoint": lambda: tg.trace(lambda x: tg.checkpoint(lambda x: x[tg.arange(3) * 2])(x), (4, 2)),
    "in a gradient": lambda: tg.trace(tg.grad(lambda x: tg.sum(x[[4]])), (4,)),
    "of every example": lambda: tg.vmap(tg.take)(np.zeros((2, 3)), np.array([[1], [4]])),
    "eagerly": lambda: tg.embedding(np.zeros((4, 2)), np.array([4])),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_indices_are_checked_while_tracing(name: str) -> None:
    with pytest.raises(ShapeError, match=r"index 4 .*is out of range") as caught:
        KNOWN[name]()
    assert "test_index_ranges.py" in str(caught.value)
