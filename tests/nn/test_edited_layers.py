"""Sequences of layers that are edited as lists are, and the modules in a model by path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, OptionError, ParameterError

EDITS: dict[str, Callable[[Any, Any], Any]] = {
    "setitem": lambda layers, new: layers.__setitem__(2, new),
    "setitem from the end": lambda layers, new: layers.__setitem__(-1, new),
    "delitem": lambda layers, new: layers.__delitem__(0),
    "delitem from the end": lambda layers, new: layers.__delitem__(-1),
    "delitem of a slice": lambda layers, new: layers.__delitem__(slice(0, 2)),
    "append": lambda layers, new: layers.append(new),
    "insert": lambda layers, new: layers.insert(1, new),
    "insert from the end": lambda layers, new: layers.insert(-1, new),
    "insert at the end": lambda layers, new: layers.insert(3, new),
    "extend": lambda layers, new: layers.extend([new, new]),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_sequence_is_edited_as_pytorch_s(name: str) -> None:
    ours = tg.nn.Sequential(tg.nn.Linear(3, 3), tg.nn.ReLU(), tg.nn.Linear(3, 3)).initialized(0)
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
    returned, expected = EDITS[name](ours, tg.nn.Linear(3, 3)), EDITS[name](theirs, torch.nn.Linear(3, 3))
    assert (returned is ours) == (expected is theirs)
    ours = ours.initialized(1)
    assert list(ours.named_parameters()) == [path for path, _ in theirs.named_parameters()]
    assert list(ours.named_modules()) == [path for path, _ in theirs.named_modules()]
    assert [type(layer).__name__ for layer in ours] == [type(layer).__name__ for layer in theirs]
    theirs.load_state_dict({path: torch.from_numpy(x) for path, x in tg.nn.to_torch(ours, ours.state_dict()).items()})
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(ours(x), theirs(torch.from_numpy(x)).detach(), rtol=1e-5, atol=1e-6)


def test_values_and_names_stay_with_their_layers() -> None:
    model = tg.nn.Sequential({"first": tg.nn.Linear(3, 3), "last": tg.nn.Linear(3, 2)}).initialized(0)
    last = np.asarray(model.named_parameters()["last.weight"])
    model.insert(1, tg.nn.ReLU()).append(tg.nn.Linear(2, 1))
    assert list(model.named_children()) == ["first", "1", "last", "3"]
    assert np.array_equal(model.initialized(0).named_parameters()["last.weight"], last)
    del model[1]
    assert list(model.named_children()) == ["first", "last", "2"]


def test_edits_that_are_refused_change_nothing() -> None:
    model: Any = tg.nn.Sequential(tg.nn.Linear(3, 3), tg.nn.ReLU())
    before = list(model)
    for edit in (lambda: model.append(tg.nn.ReLU), lambda: model.extend([tg.nn.ReLU(), 3])):
        with pytest.raises(OptionError, match=r"Sequential: layer [23] (is the class ReLU|can't be called)"):
            edit()
    for edit in (lambda: model.insert(3, tg.nn.ReLU()), lambda: model.__setitem__(2, tg.nn.ReLU())):
        with pytest.raises(IndexError, match="out of range"):
            edit()
    assert list(model) == before
    result = tg.jit(lambda model: model, device="numpy")(model.initialized(0))
    with pytest.raises(ParameterError, match="is set in a model that a function returned"):
        result.append(tg.nn.ReLU())


class Net(tg.nn.Module):
    """Modules in a list and a dict, one of them in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.body = tg.nn.Sequential(tg.nn.Linear(3, 3), tg.nn.ReLU())
        self.blocks = [tg.nn.Linear(3, 3), {"a": tg.nn.Tanh()}]
        self.again = self.body
        self.weight = tg.nn.param((3,), 1.0)


def test_the_modules_in_a_model() -> None:
    model = Net()
    assert list(model.named_modules()) == ["", "body", "body.0", "body.1", "blocks.0", "blocks.1.a"]
    assert model.modules()[0] is model and model.modules()[2] is model.body[0]
    assert list(model.named_children()) == ["body", "blocks.0", "blocks.1.a", "again"]
    assert model.children() == [model.body, model.blocks[0], model.blocks[1]["a"]]
    assert tg.nn.ReLU().children() == []
    with pytest.raises(ArgumentError, match="modules come as a dict by path"):
        for _, _ in model.named_modules():
            pass


def test_the_modules_of_a_traced_model_have_its_tensors() -> None:
    def summed(model: Any) -> Any:
        layers = [layer for layer in model.modules() if isinstance(layer, tg.nn.Linear)]
        assert len(layers) == 2
        return sum(tg.sum(layer.weight) for layer in layers)

    model = Net().initialized(0)
    expected = sum(np.asarray(model.named_parameters()[f"{path}.weight"]).sum() for path in ("body.0", "blocks.0"))
    np.testing.assert_allclose(tg.jit(summed, device="numpy")(model), expected, rtol=1e-5)
