"""Invalid calls: one tensorgrad exception each, at the user's line, before anything has changed.

What users do most often is in `test_typical_mistakes.py`, with its exact line.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from models import batch, compiled

import tensorgrad as tg
from tensorgrad.errors import (
    ArgumentError,
    DTypeError,
    InputError,
    OptionError,
    ParameterError,
    ProgramError,
    ShapeError,
    TraceError,
    UserError,
)
from tensorgrad.surface import foreign

untyped: Any = tg
"""The package as code without types calls it."""

ARRAY = np.ones(3, np.float32)


def average(model: Any, x: Any, y: Any) -> Any:
    return tg.mean(model(x) - y)


OF_TRAINING: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "text": (lambda t: t.step(**{**batch(), "x": "text"}), InputError, "input 'x' has shape"),
    "nothing": (lambda t: t.step(**{**batch(), "x": None}), InputError, "input 'x' is None"),
    "pickled": (pickle.dumps, ProgramError, "a Training holds compiled programs and can't be copied"),
    "ragged": (lambda t: t.step(**{**batch(), "x": [[1.0], [2.0, 3.0]]}), InputError, "input 'x' is not an array"),
    "run-number": (lambda t: t.run(3, 5), InputError, "run: data must be dicts"),
    "run-arrays": (lambda t: t.run(3, [ARRAY]), InputError, "run: a batch must be a dict"),
    "evaluate-text": (lambda t: t.evaluate("x", [batch()]), TraceError, "takes a function"),
    "evaluate-dict": (lambda t: t.evaluate(average, batch()), InputError, "iterable of batches"),
    "evaluate-arrays": (lambda t: t.evaluate(average, [ARRAY]), InputError, "must be a dict"),
    "capture-number": (lambda t: t.capture(3, **batch()), InputError, "takes a name"),
    "attach-number": (lambda t: t.attach(3), TraceError, "attach takes a function"),
    "rate": (lambda t: t.set_learning_rate("1"), OptionError, "learning_rate"),
    "level": (lambda t: t.module("none"), OptionError, "level must be one of"),
    "state": (lambda t: t.load_parameters({"none": ARRAY}), InputError, "unknown parameter 'none'"),
    "state-number": (
        lambda t: t.load_parameters(5),
        InputError,
        "parameters must be a dict of arrays by name, got int",
    ),
    "state-none": (lambda t: t.load_parameters(None, strict=False), InputError, "by name, got NoneType"),
    "fit-arrays": (lambda t: untyped.fit(t, [ARRAY], steps=1), InputError, "must be a dict"),
    "fit-tuples": (lambda t: untyped.fit(t, [(1, 2, 3)], steps=1), InputError, "or a tuple of x, y, got tuple of 3"),
    "fit-callbacks": (
        lambda t: untyped.fit(t, [batch()], steps=1, callbacks=[print]),
        OptionError,
        "callbacks must be a list",
    ),
    "fit-log": (lambda t: untyped.fit(t, [batch()], steps=1, log=3), OptionError, "log must be a path"),
    "fit-checkpoint": (
        lambda t: untyped.fit(t, [batch()], steps=1, checkpoint=3),
        OptionError,
        "checkpoint must be a folder",
    ),
}


@pytest.mark.parametrize("name", OF_TRAINING)
def test_a_mistake_with_a_training_changes_nothing(name: str) -> None:
    call, error, message = OF_TRAINING[name]
    training = compiled()
    training.step(**batch())
    before = training.state_dict()
    with pytest.raises(error, match=message) as caught:
        call(training)
    assert f"{__file__}:" in str(caught.value)
    after = training.state_dict()
    assert training.step_count == 1 and before.keys() == after.keys()
    assert all(np.array_equal(before[path], after[path]) for path in before)


ELSEWHERE: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "checks": (lambda: compiled(checks="yes"), OptionError, "checks must be True or False"),
    "memory-float": (lambda: compiled(memory_limit=1.5), OptionError, "a number of bytes, must be a positive integer"),
    "memory-least": (lambda: compiled(memory_limit=10, device="wgpu"), ProgramError, "a step needs"),
    "optimizer": (lambda: compiled(optimizer="adam"), OptionError, "optimizer must be one of tg.optim"),
    "edit-passes": (lambda: compiled(edit_passes="simplify"), OptionError, "edit_passes must be a function"),
    "integers": (
        lambda: compiled(model={"w": np.zeros(1, int)}),
        ParameterError,
        "has no parameters: .* are floats: integers stay as they are",
    ),
    "pad": (lambda: untyped.pad(ARRAY, 1, mode="replicate"), OptionError, "'edge' is that"),
    "full": (lambda: tg.full((2,), 2**31, dtype="i32"), DTypeError, "full: int has values"),
    "keyword-of-a-layer": (lambda: untyped.nn.GRU(3, 4, size=1), ArgumentError, r"GRU\(\) has no argument 'size'"),
    "pairs": (
        lambda: [value for _, value in untyped.nn.Linear(3, 2).named_parameters()],
        ArgumentError,
        r"a dict by path: for name, parameter in model\.named_parameters\(\)\.items\(\)",
    ),
    "seed": (lambda: compiled(seed=tg.random.key(0)), OptionError, "seed must be an integer"),
    "seed-of-a-model": (
        lambda: tg.nn.Linear(3, 2).initialized(untyped.random.key(0)),
        OptionError,
        "seed must be an integer",
    ),
    "loss": (lambda: compiled(loss="mse"), TraceError, "takes a function"),
    "input-array": (lambda: compiled(inputs={"x": ARRAY}), InputError, "must be a shape or a tg.spec, not an array"),
    "schedule": (lambda: untyped.optim.adam("fast"), OptionError, r"one of tg\.optim\.schedules"),
    "parameter": (lambda: 1.0 - untyped.nn.PReLU().weight, ParameterError, "has no values: parameters are declared"),
    "buffer": (lambda: tg.nn.buffer(3) < 2, ParameterError, "has no values: parameters are declared"),
    "layer": (lambda: untyped.nn.Linear("3", 4), ShapeError, "in_features"),
    "matrices": (lambda: tg.linalg.inv(ARRAY), ShapeError, "inv: takes square matrices, not an array of shape"),
    "right-side": (lambda: tg.linalg.solve(np.eye(2), ARRAY), ShapeError, r"solve: \(2, 2\) does not fit a right side"),
    "class": (
        lambda: untyped.nn.Sequential(tg.nn.ReLU),
        OptionError,
        r"layer 0 is the class ReLU: give ReLU\(\.\.\.\)",
    ),
    "view": (
        lambda: untyped.array([1.0]).view(tg.i32),
        ShapeError,
        r"integers, not dtype\('int32'\); tg\.bitcast reads",
    ),
    "setting": (
        lambda: tg.optim.Adam([tg.tensor([1.0], device="cpu", requires_grad=True)], lr=0.1, beta=1),
        ArgumentError,
        r"adam\(\) has no argument 'beta'; did you mean betas",
    ),
    "direction": (lambda: untyped.jvp(tg.exp, tg.ones(2), tg.ones(2)), ArgumentError, r"tg\.jvp\(f, \(x,\), \(v,\)\)"),
    "extent": (lambda: untyped.ones(2.5), ShapeError, "must be of integers"),
    "dtype": (lambda: tg.cast(tg.ones(2), "none"), DTypeError, "is not a dtype"),
    "static": (lambda: untyped.jit(tg.exp, static=3), OptionError, "static must be names"),
    "argnums": (lambda: untyped.grad(tg.sum, argnums="x"), TraceError, "argnums must be the positions"),
    "vmap": (lambda: untyped.vmap(3), TraceError, "vmap takes a function"),
    "scan": (lambda: untyped.scan(3, 0.0, length=2), TraceError, "scan takes a function"),
    "cond": (lambda: untyped.cond(True, 1.0, 2.0), TraceError, "cond takes a function"),
    "checkpoint": (lambda: untyped.checkpoint(3), TraceError, "tg.checkpoint takes a function"),
    "trace": (lambda: untyped.trace(3, 2), TraceError, "tg.trace takes a function"),
    "from-torch": (lambda: untyped.nn.from_torch(tg.nn.Linear(1, 1), [1]), InputError, "state_dict"),
    "batches": (lambda: tg.data.batches({"x": ["a", "b"]}, 1), InputError, "arrays must be of numbers"),
    "generated": (
        lambda: next(iter(untyped.data.generated(lambda number: [ARRAY]))),
        InputError,
        "must return a dict of inputs by name",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_mistake_names_the_line(name: str) -> None:
    call, error, message = ELSEWHERE[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert f"{__file__}:" in str(caught.value) or "models.py:" in str(caught.value)
    assert caught.value.__cause__ is None


def test_other_libraries_methods_are_named() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'cuda'; x\.to\("):
        untyped.ones(()).cuda()
    with pytest.raises(AttributeError, match=r"no attribute 'sofmax'; did you mean softmax\?"):
        untyped.ones(()).sofmax()


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_results_are_copied_as_their_numbers(device: tg.DeviceName) -> None:
    value = compiled(device=device).step(**batch())
    for found in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert isinstance(found, tg.Array) and float(found) == float(value)


def test_a_jitted_function_is_copied_as_functions_are() -> None:
    double = tg.jit(lambda x: 2 * x, device="numpy")
    assert np.array_equal(double(ARRAY), 2 * ARRAY)
    assert copy.deepcopy({"f": double})["f"] is copy.copy(double) is double


def test_other_libraries_names_are_explained() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'remat'; tg\.checkpoint is that") as caught:
        untyped.remat(tg.sum)
    assert caught.value.name == "remat"
    with pytest.raises(AttributeError, match=r"has no attribute 'soft_max'; did you mean softmax\?$"):
        untyped.soft_max(ARRAY)
    with pytest.raises(AttributeError, match=r"module 'tensorgrad\.linalg' has no attribute 'eig'; .* are complex"):
        untyped.linalg.eig(ARRAY)
    for hint in (hint for meant in foreign.NAMES.values() for hint in meant.values()):
        for name in re.findall(r"\btg\.([a-zA-Z_0-9.]+[a-zA-Z_0-9])", hint):
            found: Any = tg
            for part in name.split("."):
                found = getattr(found, part)


def test_a_line_is_named_once() -> None:
    first = UserError("a mistake")
    assert str(first) == f"{first.location}: a mistake" and first.message == "a mistake"
    assert first.location.startswith(f"{__file__}:")
    again = ShapeError(f"wrong: {first}", location=first.location)
    assert str(again) == f"{first.location}: wrong: a mistake"
    assert str(OptionError(first)) == str(first), "another error in its place is located as it is"


@pytest.mark.parametrize("text", ["the slice 3:4: is wrong", "time 12:30: late", "file.py:3: a mistake"])
def test_what_looks_like_a_location_is_none(text: str) -> None:
    error = UserError(text)
    assert str(error) == f"{error.location}: {text}" and error.location.startswith(f"{__file__}:")
    with pytest.raises(OptionError) as caught:
        untyped.ones(2).gelu(approximate="3:4: ")
    assert caught.value.location.startswith(f"{__file__}:") and "3:4: " in str(caught.value)


def test_a_located_error_is_pickled_with_its_place() -> None:
    with pytest.raises(ShapeError) as caught:
        tg.add(tg.ones(2), tg.ones(3))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.location == caught.value.location
    assert type(again) is ShapeError


def test_the_line_is_the_user_s_where_python_made_the_function() -> None:
    """A dataclass' generated constructor has no file; our own frames are skipped."""
    with pytest.raises(OptionError) as caught:
        tg.optim.schedules.Schedule(1.0, "step +")
    assert str(caught.value).startswith(f"{__file__}:")
