"""The tracer: names, roles and locations in the IR, and results of eager functions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
import pytest
from models import MLP, squared_error
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.printer import Printer

import tensorgrad as tg
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.dialects.tg import Tg, leaves
from tensorgrad.dialects.tg.base import constant_value, is_splat
from tensorgrad.errors import DTypeError, TraceError
from tensorgrad.tools.parsing import LocatingParser


def names(module: ModuleOp) -> list[tuple[str, str]]:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    return [(slot.role, slot.name) for slot in arguments_of(function)]


def test_arguments_have_the_functions_names():
    def function(x, y, *rest):
        return x + y + rest[0] + rest[1]

    assert names(tg.trace(function, 2, 2, 2, 2)) == [("input", name) for name in ("x", "y", "rest0", "rest1")]


def test_leaves_of_trees_have_their_path():
    @dataclass
    class Batch:
        x: Any
        y: Any

    def function(batch, parameters, pair):
        return batch.x + batch.y + parameters["w"][1] + pair[0]

    module = tg.trace(function, Batch((2,), (2,)), {"w": [tg.spec(2), tg.spec(2)]}, (tg.spec(2), tg.spec(2)))
    paths = [name for _, name in names(module)]
    assert paths == ["batch.x", "batch.y", "parameters.w.0", "parameters.w.1", "pair.0", "pair.1"]


def test_parameters_of_a_module_are_parameters():
    module = tg.trace(squared_error, MLP(3, 2), (4, 3), (4, 2))
    assert names(module) == [
        ("parameter", "layers.0.weight"),
        ("parameter", "layers.0.bias"),
        ("input", "x"),
        ("input", "y"),
    ]


def test_a_role_that_there_is_not_is_refused():
    class Weights(dict[str, Any]):
        leaf_role = "weight"

    with pytest.raises(TraceError, match=r"Weights\.leaf_role must be one of parameter, .*, got 'weight'"):
        tg.trace(lambda weights: weights["w"], Weights(w=tg.spec(2)))


def test_names_are_unique():
    class X(tg.nn.Module):
        def __init__(self) -> None:
            self.x = tg.nn.param((2,), init=0.0)

    assert names(tg.trace(lambda m, x: m.x + x, X(), 2)) == [("parameter", "x"), ("input", "x_1")]


@pytest.mark.parametrize("generic", [False, True])
def test_what_is_traced_round_trips(generic):
    def function(x, labels):
        y = tg.softmax(x.reshape(4, 3).T, axis=0)
        z = tg.where(y > 0.5, y, -y)[1:, ::-2] ** 2 / 3.0
        return tg.cross_entropy(x, labels), {"z": z, "w": tg.take(x, labels, axis=1), "i": tg.cast(z, "i32")}

    module = tg.trace(function, (6, 2), tg.spec(6, "u32"))
    output = StringIO()
    Printer(output, print_generic_format=generic).print_op(module)
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    again = LocatingParser(context, output.getvalue()).parse_module()
    again.verify()
    assert str(again) == str(module)


def test_every_op_has_the_users_line():
    def function(x):
        y = tg.relu(x)
        return tg.logsumexp(y, axis=0)

    first = inspect.getsourcelines(function)[1]
    module = tg.trace(function, (3, 2))
    body = next(op for op in module.ops if isinstance(op, FuncOp)).body.block
    lines = []
    for op in body.ops:
        location: Any = op.location
        assert location.filename.data == __file__
        lines.append(location.line.data - first)
    assert lines[0] == 1 and set(lines[1:-1]) == {2}
    assert "tg.relu" in next(iter(body.ops)).name


def test_python_numbers_take_the_tensors_dtype():
    for dtype in ("f16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
        text = str(tg.trace(lambda x: 2 * x + 1, tg.spec(3, dtype)))
        element = dtype.replace("u", "ui")
        assert f"-> tensor<3x{element}>" in text
    with pytest.raises(DTypeError, match="i32 and u64"):
        tg.trace(lambda x, y: x + y, tg.spec(3, "i32"), tg.spec(3, "u64"))


def test_a_broadcast_array_is_stored_once():
    """Not at every point that it is broadcast to, as it is the same along the other axes."""
    scale = np.linspace(0.5, 1.5, 24, dtype=np.float32)[:, None, None]
    function = tg.trace(lambda x: tg.max_pool(x * scale, 3, stride=2, padding=1), (4, 24, 16, 20))
    values = [constant_value(op.results[0]) for op in function.walk() if isinstance(op, leaves.ConstantOp)]
    assert [value.shape for value in values if value is not None and not is_splat(value)] == [(24,), (8,), (10,)]
    x = np.random.default_rng(0).normal(size=(4, 24, 16, 20)).astype(np.float32)
    np.testing.assert_array_equal(tg.jit(lambda x: x * scale, device="numpy")(x), x * scale)


def test_outside_a_trace_functions_compute():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    sums = tg.sum(tg.exp(x) @ tg.array(x).T, axis=0) + 1
    assert isinstance(sums, tg.Array)
    assert np.allclose(sums, (np.exp(x) @ x.T).sum(0) + 1)
    assert sums[0].item() == pytest.approx(float((np.exp(x) @ x.T).sum(0)[0]) + 1)


def test_a_trace_gives_no_module_of_what_is_no_tensor():
    def function(x):
        return "x"

    with pytest.raises(TraceError, match="function returned str"):
        tg.trace(function, 2)
    with pytest.raises(TraceError, match="use as an index"):
        tg.trace(lambda x: [0, 1][x], tg.spec((), "i32"))


def test_losses_against_numpy():
    generator = np.random.default_rng(0)
    logits = (generator.normal(size=(2, 5, 7)) * 50).astype(np.float32)
    labels = generator.integers(0, 7, (2, 5))
    exact = logits.astype(np.float64)
    top = exact.max(-1, keepdims=True)
    logs = exact - top - np.log(np.exp(exact - top).sum(-1, keepdims=True))
    expected = -np.take_along_axis(logs, labels[..., None], -1)[..., 0]
    assert np.allclose(tg.cross_entropy(logits, labels, reduction="none"), expected, rtol=1e-5, atol=1e-4)
    assert float(tg.cross_entropy(logits, labels)) == pytest.approx(expected.mean(), rel=1e-5)
    assert float(tg.cross_entropy(logits, labels.astype(np.uint32), "sum")) == pytest.approx(expected.sum(), rel=1e-5)
    with pytest.raises(tg.errors.ShapeError, match="index -1 is out of range"):
        tg.cross_entropy(logits[0, 0], np.int32(-1))
    assert np.isnan(float(tg.jit(tg.cross_entropy, device="numpy")(logits[0, 0], np.int32(-1))))
    assert np.isnan(float(tg.jit(tg.cross_entropy, device="numpy")(logits[0, 0], np.int32(7))))
    assert float(tg.mse(logits[0], logits[1])) == pytest.approx(float(((exact[0] - exact[1]) ** 2).mean()), rel=1e-5)
    gradient = tg.grad(lambda x: tg.cross_entropy(x, labels))(logits)
    onehot = np.eye(7)[labels]
    assert np.allclose(gradient, (np.exp(logs) - onehot) / labels.size, atol=1e-6)


def test_a_label_lookup_makes_no_matrix_of_labels():
    text = str(tg.trace(tg.cross_entropy, (8, 10), tg.spec(8, "i32")))
    assert "tg.take_along_axis" in text and "tg.iota" not in text


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tg.cross_entropy(np.zeros((2, 3)), np.zeros(2)), DTypeError),
        (lambda: tg.cross_entropy(np.zeros((2, 3), int), np.zeros(2, int)), DTypeError),
        (lambda: tg.cross_entropy(np.zeros((2, 3)), np.zeros(3, int)), ValueError),
        (lambda: tg.cross_entropy(np.float32(1), np.int32(0)), ValueError),
        (lambda: tg.cross_entropy(np.zeros((2, 3)), np.zeros(2, int), reduction="max"), tg.errors.OptionError),
        (lambda: tg.mse(np.zeros((2, 1)), np.zeros(2)), tg.errors.ShapeError),
        (lambda: tg.mse(np.zeros(2), np.zeros(2), reduction=""), tg.errors.OptionError),
    ],
)
def test_losses_refuse(call, error):
    with pytest.raises(error):
        call()
