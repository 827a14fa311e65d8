"""User errors: one clear exception each, which names the user's line or argument; nothing changes."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from models import MLP, batch, compiled, squared_error

import tensorgrad as tg
from tensorgrad.errors import (
    DTypeError,
    InputError,
    OptionError,
    ParameterError,
    ShapeError,
    TensorgradError,
    TraceError,
)


def here(offset: int = 0) -> str:
    """Returns the line of the call, as messages name it."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno + offset}"


kept: list[Any] = []


def wrong_shape(model, x, y):
    return tg.mean(model(x) - tg.sum(y, axis=0)[:1] @ tg.ones((3,)))


def wrong_inner(model, x, y):
    return tg.mean(model(y))


def wrong_dtype(model, x, y):
    return tg.mean(tg.where(x, x, 0.0))


def not_scalar(model, x, y):
    return model(x) - y


def not_float(model, x, y):
    return tg.sum(tg.cast(x, "i32"))


def nothing(model, x, y):
    model(x)


def pair(model, x, y):
    return tg.mean(x), tg.mean(y)


def text(model, x, y):
    return "loss"


def control_flow(model, x, y):
    if tg.mean(x) > 0:
        return tg.mean(x)
    return tg.mean(y)


def to_float(model, x, y):
    return float(tg.mean(x)) * tg.mean(y)


def to_numpy(model, x, y):
    return tg.mean(np.asarray(x))


def keeps(model, x, y):
    kept.append(tg.mean(x))
    return tg.mean(y)


def uses_kept(model, x, y):
    return kept[-1] + tg.mean(y)


def compiles(model, x, y):
    compiled()
    return tg.mean(x)


def traces(model, x, y):
    tg.trace(tg.exp, (2,))
    return tg.mean(x)


def replaces(model, x, y):
    model.layers[0].weight = tg.zeros((3, 5))
    return tg.mean(model(x))


def adds(model, x, y):
    model.extra = tg.nn.Linear(2, 2)
    return tg.mean(x)


def removes(model, x, y):
    del model.layers[1]
    return tg.mean(x)


def own_parameter(model, x, y):
    return tg.sum(tg.nn.param((3,), init=0.0) * x)


def bad_labels(model, x, y):
    return tg.cross_entropy(model(x), y[:, 0])


def bad_index(model, x, y):
    return x[4, 0]


LOSSES = [
    (wrong_shape, ShapeError, "do not|inner|matmul"),
    (wrong_inner, ShapeError, "matmul"),
    (wrong_dtype, DTypeError, "where: the condition must be bool"),
    (not_scalar, ShapeError, r"not_scalar\(\) must return a float scalar, got shape \(4, 2\)"),
    (not_float, DTypeError, r"not_float\(\) must return a float scalar, got i32"),
    (nothing, TraceError, r"nothing\(\) must return one float scalar, got NoneType"),
    (pair, TraceError, r"pair\(\) must return one float scalar, got tuple"),
    (text, TraceError, r"text\(\) returned str"),
    (control_flow, TraceError, "Python control flow"),
    (to_float, TraceError, r"float\(\)"),
    (to_numpy, TraceError, "numpy array"),
    (compiles, TraceError, "tg.compile inside a trace"),
    (traces, TraceError, "tg.trace inside a trace"),
    (replaces, ParameterError, "replaced layers.0.weight|removed layers.0.weight"),
    (adds, ParameterError, "added extra.weight, extra.bias"),
    (removes, ParameterError, "removed layers.1.weight, layers.1.bias"),
    (own_parameter, ParameterError, r"parameter f32\[3\] has no values"),
    (bad_labels, DTypeError, "cross_entropy: takes float logits and integer labels, not f32 and f32"),
    (bad_index, ShapeError, "index 4 is out of range"),
]


@pytest.mark.parametrize(("loss", "error", "message"), LOSSES, ids=[loss.__name__ for loss, _, _ in LOSSES])
def test_a_loss_that_cannot_be_compiled(loss, error, message):
    model = MLP(3, 5, 2)
    before, shown = model.named_parameters(), repr(model)
    with pytest.raises(error, match=message) as caught:
        compiled(model=model, loss=loss)
    assert isinstance(caught.value, TensorgradError)
    assert __file__ in str(caught.value) or "models.py" in str(caught.value)
    assert caught.value.__cause__ is None
    assert model.named_parameters() == before and repr(model) == shown
    # The trace is closed: the next one works.
    compiled(model=model).step(**batch())


def test_a_shape_mismatch_names_the_line():
    line = here(+2)
    with pytest.raises(ShapeError) as caught:
        tg.trace(lambda x, y: x + y, (2, 3), (4,))
    assert str(caught.value) == f"{line}: add: shapes (2, 3) and (4,) do not broadcast"


def test_a_message_that_quotes_another_names_the_line_once():
    line = here(+2)
    with pytest.raises(DTypeError) as caught:
        tg.concat([tg.ones(2, "u64"), np.ones(2, np.int32)])
    assert str(caught.value) == f"{line}: concat: u64 and i32 have no common type; cast one of them"


def test_a_traced_value_after_its_trace():
    compiled(loss=keeps)
    line = here(+2)
    with pytest.raises(TraceError, match="after that trace ended") as caught:
        _ = kept[-1] + 1.0
    assert line in str(caught.value)
    with pytest.raises(TraceError, match="after that trace ended"):
        compiled(loss=uses_kept)
    with pytest.raises(TraceError, match="after that trace ended"):
        tg.grad(lambda x: x * x)(kept[-1])


CALLS = [
    ({"x": np.zeros((4, 3))}, "missing input 'y'"),
    ({**batch(), "z": 1.0}, "unknown input 'z'"),
    ({**batch(), "y": np.zeros((4, 3))}, r"input 'y' has shape \(4, 3\), expected \(4, 2\)"),
    ({**batch(), "y": np.zeros((4, 2), complex)}, "input 'y' is complex128"),
    ({**batch(), "y": [["a", "b"]] * 4}, "input 'y'"),
    ({**batch(), "y": np.full((4, 2), 1e39)}, "input 'y' has values too large"),
]


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize(("inputs", "message"), CALLS)
def test_a_step_with_wrong_inputs_changes_nothing(device, inputs, message):
    training, untouched = compiled(device=device), compiled(device=device)
    before = training.parameters()
    with pytest.raises(InputError, match=message):
        training.step(**inputs)
    assert training.step_count == 0
    assert all(np.array_equal(training.parameters()[path], values) for path, values in before.items())
    for number in range(2):
        assert float(training.step(**batch(number))) == float(untouched.step(**batch(number)))


def test_a_step_inside_a_trace():
    training = compiled()
    predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
    calls = [
        lambda x: training.step(**batch()),
        lambda x: training.load_parameters(training.parameters()),
        lambda x: training.attach(lambda model, x: x, inputs={"x": 1}),
        lambda x: predict(x=np.zeros((4, 3))),
    ]
    for call in calls:
        with pytest.raises(TraceError, match="inside a trace"):
            tg.trace(call, (1,))
    assert training.step_count == 0
    training.step(**batch())


def mutate_replace(model: Any) -> None:
    model.layers[0].weight = tg.nn.param((3, 5), init=0.0)


def mutate_add(model: Any) -> None:
    model.head = tg.nn.Linear(2, 2)


def mutate_remove(model: Any) -> None:
    model.layers.pop()


@pytest.mark.parametrize("mutate", [mutate_replace, mutate_add, mutate_remove])
def test_a_model_that_changes_after_compile(mutate):
    model = MLP(3, 5, 2)
    training = compiled(model=model)
    training.step(**batch())
    before = training.parameters()
    mutate(model)
    with pytest.raises(ParameterError, match=r"changed since tg.compile; .*: .*(replaced|added|removed) ") as caught:
        training.step(**batch())
    assert __file__ in str(caught.value)
    with pytest.raises(ParameterError, match=r"changed since tg\.compile"):
        training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
    assert training.step_count == 1
    assert all(np.array_equal(training.parameters()[path], values) for path, values in before.items())


@pytest.mark.parametrize("rate", [math.nan, -1.0, math.inf, "1", True, None])
def test_a_learning_rate_out_of_range(rate):
    with pytest.raises(OptionError, match="learning_rate"):
        compiled(optimizer=tg.optim.adam(rate))
    training = compiled()
    with pytest.raises(OptionError, match="learning_rate"):
        training.set_learning_rate(rate)
    assert training.learning_rate == 1e-2


def test_a_loss_of_other_arguments():
    with pytest.raises(InputError, match=r"squared_error\(\) takes the arguments \(.*x.*y.*\).*'y'") as caught:
        compiled(inputs={"x": (4, 3)})
    assert "models.py" in str(caught.value)
    with pytest.raises(InputError, match="'z'"):
        compiled(inputs={"x": (4, 3), "y": (4, 2), "z": 1})
    with pytest.raises(InputError, match="multiple values"):
        compiled(inputs={"model": (4, 3), "x": 1, "y": 1})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "MLP"}, ParameterError, "must be a tg.nn.Module, or a dict, .* not str"),
        ({"model": tg.nn.Module()}, ParameterError, "Module has no parameters"),
        ({"optimizer": 0.1}, OptionError, "optimizer must be one of tg.optim"),
        ({"device": "cuda"}, OptionError, "device must be one of auto, wgpu, cpu, numpy, not 'cuda'"),
        ({"seed": 0.5}, OptionError, "seed must be an integer"),
        ({"inputs": [(4, 3)]}, InputError, "inputs must map names to shapes"),
        ({"inputs": {"x": (4, -3), "y": 1}}, InputError, "input 'x' must be a shape"),
        ({"inputs": {"x": "f32", "y": 1}}, InputError, "input 'x' must be a shape"),
        ({"inputs": {1: (4, 3)}}, InputError, "name of an input must be an identifier, got 1"),
    ],
)
def test_options_of_compile(options, error, message):
    with pytest.raises(error, match=message):
        compiled(**options)


def test_results_of_attach():
    training = compiled()
    with pytest.raises(TraceError, match=r"returned no tensor"):
        training.attach(lambda model, x: None, inputs={"x": (4, 3)})
    with pytest.raises(ParameterError, match="added w"):
        training.attach(lambda model: setattr(model, "w", tg.nn.param((1,), init=0.0)) or tg.ones(1), inputs={})
    with pytest.raises(ShapeError):
        training.attach(lambda model, x: model(x), inputs={"x": (4, 4)})
    with pytest.raises(InputError, match="missing input 'x'"):
        training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})()


def test_what_a_device_cannot_run_is_refused_by_name():
    with pytest.raises(TensorgradError, match="f64"):
        compiled(
            device="wgpu",
            loss=lambda model, x, y: squared_error(model, tg.cast(x, "f32"), y),
            inputs={"x": tg.spec((4, 3), "f64"), "y": (4, 2)},
        )
