"""Programs without a loss, which hold a model for attached functions, and their inputs that are trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from models import MLP

import tensorgrad as tg
from tensorgrad.errors import ArgumentError, DTypeError, InputError, OptionError

DEVICES = ["numpy", "cpu", "wgpu"]
X = np.ones((4, 3), np.float32)


@dataclass
class Cache:
    keys: list[Any]
    count: Any


@pytest.mark.parametrize("device", DEVICES)
def test_functions_of_an_initialized_model(device: tg.DeviceName) -> None:
    model = MLP(3, 5, 2).initialized(3)
    program: Any = tg.compile(model, device=device)
    forward = program.attach(lambda model, x: model(x))
    twice = program.attach(lambda model, x: 2 * model(x), inputs={"x": (4, 3)})
    expected = np.asarray(model(X))
    np.testing.assert_allclose(np.asarray(forward(x=X)), expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(twice(x=X)), 2 * expected, rtol=1e-5)
    program.load_parameters({path: value * 0 for path, value in program.parameters().items()})
    assert not np.asarray(forward(x=X)).any()


def test_it_has_no_step() -> None:
    program: Any = tg.compile(MLP(3, 5, 2), device="numpy")
    with pytest.raises(OptionError, match=r"step: this program was compiled without a loss; attach\(\)"):
        program.step()
    with pytest.raises(OptionError, match="optimizer is for a step, which needs a loss"):
        tg.compile(MLP(3, 5, 2), optimizer=tg.optim.sgd(0.1))
    with pytest.raises(OptionError, match="inputs is for a step"):
        tg.compile(MLP(3, 5, 2), inputs={"x": (4, 3)})
    with pytest.raises(OptionError, match="the loss needs inputs"):
        tg.compile(MLP(3, 5, 2), loss=lambda model: 0.0)


def read(model: Any, x: Any, cache: Any) -> Any:
    keys = [key + tg.sum(model(x)) for key in cache["keys"]]
    return {"keys": keys, "count": cache["count"] + 1}


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("is_declared", [False, True])
def test_inputs_may_be_trees(device: tg.DeviceName, is_declared: bool) -> None:
    model = MLP(3, 5, 2).initialized(0)
    specs = {"x": (4, 3), "cache": {"keys": [tg.spec((2,)), tg.spec((3,))], "count": tg.spec((), "i32")}}
    function: Any = tg.compile(model, device=device).attach(read, inputs=specs if is_declared else None)
    cache: Any = {"keys": [np.zeros(2, np.float32), np.ones(3, np.float32)], "count": np.int32(0)}
    total = np.asarray(model(X)).sum()
    for number in (1, 2):
        cache = function(x=X, cache=cache)
        np.testing.assert_allclose(np.asarray(cache["keys"][1]), 1 + number * total, rtol=1e-5)
    assert int(cache["count"]) == 2
    assert function.specializations == 1


def test_dataclasses_are_trees_too() -> None:
    function: Any = tg.compile(MLP(3, 5, 2), device="numpy").attach(lambda model, cache: cache.keys[0] * cache.count)
    product = function(cache=Cache([np.ones(2, np.float32)], np.float32(3)))
    assert np.asarray(product).tolist() == [3.0, 3.0]


def test_a_tree_of_shapes_is_an_error() -> None:
    program: Any = tg.compile(MLP(3, 5, 2), device="numpy")
    with pytest.raises(InputError, match=r"input 'cache.keys.0' must be a tg.spec"):
        program.attach(read, inputs={"x": (4, 3), "cache": {"keys": [2, 3], "count": tg.spec(())}})


def scaled(model: Any, x: Any, factor: Any, *, shift: Any = 0.0) -> Any:
    return model(x) * factor + shift


def test_inputs_by_position_come_in_the_declared_order() -> None:
    program = tg.compile(MLP(3, 5, 2).initialized(3), device="numpy")
    expected = program.attach(scaled)(x=X, factor=np.float32(2))
    assert np.asarray(expected).any()
    for inputs in (None, {"x": (4, 3), "factor": ()}):
        function = program.attach(scaled, inputs=inputs)
        np.testing.assert_array_equal(function(X, 2.0), expected)
        np.testing.assert_array_equal(function(X, factor=2.0), expected)
    swapped = program.attach(scaled, inputs={"factor": (), "x": (4, 3)})
    np.testing.assert_array_equal(swapped(2.0, X), expected)
    with pytest.raises(ArgumentError, match=r"scaled\(\) takes 2 inputs by position, got 3: x=\.\.\., factor=\.\.\."):
        program.attach(scaled)(X, 2.0, 1.0)
    with pytest.raises(ArgumentError, match=r"scaled\(\) got the input 'x' by position and by name"):
        swapped(2.0, X, x=X)
    with pytest.raises(InputError, match="missing input 'factor'"):
        program.attach(scaled, inputs={"x": (4, 3), "factor": ()})(X)


def test_trees_may_be_given_by_position() -> None:
    cache = {"keys": [np.ones(2), np.ones(3)], "count": 1}
    function: Any = tg.compile(MLP(3, 5, 2).initialized(0), device="numpy").attach(read)
    np.testing.assert_array_equal(function(X, cache)["keys"][0], function(x=X, cache=cache)["keys"][0])


def test_a_batch_says_what_the_inputs_are() -> None:
    batch: Any = {"x": np.ones((4, 3)), "y": np.zeros(4, np.int64), "mask": [True, False], "scale": 2.0}
    specs = tg.like(batch)
    assert specs == {
        "x": tg.spec((4, 3)),
        "y": tg.spec((4,), "i32"),
        "mask": tg.spec((2,), "bool"),
        "scale": tg.spec((), "f32"),
    }
    assert list(specs) == list(batch)
    assert tg.like(specs) == specs
    assert tg.like(np.ones(3, np.uint8)) == tg.spec(3, "u8")
    assert tg.like(tg.array(np.ones(3), "f64")) == tg.spec(3, "f64")
    assert tg.like(torch.ones(2, 3, dtype=torch.float64)) == tg.spec((2, 3))
    assert tg.like(Cache([X, X], 1)) == Cache([tg.spec((4, 3)), tg.spec((4, 3))], tg.spec((), "i32"))
    with pytest.raises(DTypeError, match="cannot use"):
        tg.like({"x": "text"})


def test_a_step_is_compiled_for_an_example_batch() -> None:
    batch = {"x": np.ones((4, 3)), "y": np.zeros(4, np.int64)}
    training = tg.compile(
        MLP(3, 5, 2),
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.sgd(0.1),
        inputs=tg.like(batch),
        device="numpy",
    )
    first = float(training.step(**batch))
    assert float(training.step(**batch)) < first
    nested = {"x": X, "cache": {"keys": [np.ones(2), np.ones(3)], "count": 1}}
    function: Any = training.attach(read, inputs=tg.like(nested))
    assert function(**nested)["keys"][1].shape == (3,)
