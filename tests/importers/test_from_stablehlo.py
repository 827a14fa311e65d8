"""`tg.from_stablehlo`: values, derivatives and training of what JAX wrote, and errors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ShapeError

TEXTS = Path(__file__).with_name("stablehlo")
MLP, LOOP = TEXTS / "mlp.mlir", TEXTS / "loop.mlir"


RNG = generator(0)
W, B, X = (RNG.normal(size=shape).astype(np.float32) for shape in ((4, 8), (8,), (5, 4)))
Y = np.array([0, 3, 7, 1, 0], np.int32)


def loss(w: tg.Tensor, b: tg.Tensor, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    """The same loss, written here."""
    return tg.cross_entropy(tg.relu(x @ w + b), y)


def test_a_loss_and_its_gradients() -> None:
    function = tg.from_stablehlo(MLP)
    assert function.names == ("w", "b", "x", "y")
    np.testing.assert_allclose(function(W, B, X, Y), loss(*map(tg.tensor, (W, B, X, Y))), rtol=1e-6)
    gradients = tg.grad(function, argnums=(0, 1))(W, B, X, Y)
    for gradient, expected in zip(gradients, tg.grad(loss, argnums=(0, 1))(W, B, X, Y), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_a_compiled_loop_and_its_derivative() -> None:
    function = tg.from_stablehlo(LOOP)
    p, y = W[:3, :3], B[:3]
    expected = y
    for _ in range(4):
        expected = np.tanh(p @ expected)
    compiled = tg.jit(lambda p, y: (function(p, y), tg.grad(lambda p: tg.sum(function(p, y)))(p)), device="cpu")
    value, gradient = compiled(p, y)
    np.testing.assert_allclose(value, expected, rtol=1e-5)

    def unrolled(p: tg.Tensor) -> tg.Tensor:
        state = tg.tensor(y)
        for _ in range(4):
            state = tg.tanh(p @ state)
        return tg.sum(state)

    np.testing.assert_allclose(gradient, tg.grad(unrolled)(p), rtol=1e-4, atol=1e-6)


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: tg.scan(lambda carry, row: (tg.tanh(carry + row), carry * row), x[0], x)[1],
    "reverse": lambda x: tg.scan(lambda carry, row: (carry * row, carry), x[0], x, reverse=True)[1],
    "solve": lambda x: tg.linalg.solve(x @ x.mT + tg.eye(3), x),
    "singular values": tg.linalg.svdvals,
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_we_write_are_read(name: str) -> None:
    """The bound is a constant inside of the condition."""
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    written = tg.jit(LOOPS[name], device="numpy")
    expected = written(x)
    text = str(written.module("stablehlo"))
    assert "stablehlo.while" in text
    read = tg.from_stablehlo(text)
    np.testing.assert_allclose(read(x), expected, rtol=1e-5, atol=1e-6)
    gradients = [tg.grad(lambda x, f=function: tg.sum(f(x) ** 2))(x) for function in (LOOPS[name], read)]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def test_it_is_vectorized() -> None:
    function = tg.from_stablehlo(LOOP)
    states = np.stack([B[:3], B[3:6]])
    rows = tg.vmap(function, in_axes=(None, 0))(W[:3, :3], states)
    np.testing.assert_allclose(rows[1], function(W[:3, :3], states[1]), rtol=1e-6)


FOLDED = """func.func @main(%a: tensor<3xCOUNTx2xf32>, %b: tensor<3xCOUNTx2xf32>)
    -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.5> : tensor<f32>
  %0:2 = stablehlo.reduce(%a init: %one), (%b init: %zero) across dimensions = [1] : (tensor<3xCOUNTx2xf32>,
    tensor<3xCOUNTx2xf32>, tensor<f32>, tensor<f32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
   reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>)  {
    %1 = stablehlo.multiply %p, %q : tensor<f32>
    %2 = stablehlo.multiply %q, %r : tensor<f32>
    %3 = stablehlo.add %2, %s : tensor<f32>
    stablehlo.return %1, %3 : tensor<f32>, tensor<f32>
  }
  func.return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xf32>
}"""
"""The composition of maps `x -> a * x + b`, which isn't commutative."""


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_a_reduction_by_a_function_of_its_own(count: int) -> None:
    function = tg.from_stablehlo(FOLDED.replace("COUNT", str(count)))
    a, b = RNG.normal(size=(2, 3, count, 2)).astype(np.float32)

    def composed(a: tg.Tensor, b: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        slope, offset = tg.ones((3, 2)), tg.full((3, 2), 0.5)
        for i in range(count):
            slope, offset = slope * a[:, i], offset * a[:, i] + b[:, i]
        return slope, offset

    for value, expected in zip(tg.jit(function, device="cpu")(a, b), composed(tg.tensor(a), tg.tensor(b)), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    of_sum = (tg.grad(lambda a, b, f=f: tg.sum(f(a, b)[1] ** 2), argnums=(0, 1)) for f in (function, composed))
    for gradient, expected in zip(*(gradients(a, b) for gradients in of_sum), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_derivatives_stop_where_they_did() -> None:
    compiled = tg.jit(lambda x: tg.sum(tg.stop_gradient(tg.sin(x)) * x * tg.stop_gradient(x)), device="numpy")
    compiled(B)
    text = compiled.module("stablehlo")
    assert text.count("tensorgrad.stop_gradient") == 2 and text.count("func.func private") == 1
    np.testing.assert_allclose(tg.grad(tg.from_stablehlo(text))(B), np.sin(B) * B, rtol=1e-6)


def test_the_kink_of_relu_keeps_its_slope() -> None:
    at_kink = np.array([-2, 0, 3], np.float32)
    compiled = tg.jit(lambda x: tg.sum(tg.relu(x) * tg.relu(2 * x + 1)), device="numpy")
    compiled(at_kink)
    text = compiled.module("stablehlo")
    assert text.count('"tensorgrad.relu"') == 2 and text.count("func.func private") == 1
    np.testing.assert_allclose(tg.grad(tg.from_stablehlo(text))(at_kink), [0, 0, 13])


def test_a_rule_that_nobody_knows_is_its_body() -> None:
    function = tg.from_stablehlo("""
        func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.composite "tensorgrad.rule.0" %x {decomposition = @sine} : (tensor<3xf32>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }
        func.func private @sine(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.sine %x : tensor<3xf32>
          return %0 : tensor<3xf32>
        }
    """)
    np.testing.assert_allclose(tg.grad(lambda x: tg.sum(function(x)))(B[:3]), np.cos(B[:3]), rtol=1e-6)


def test_a_training_step_is_written_and_read(tmp_path: Path) -> None:
    """What a training's step computes as StableHLO is read as a function here."""
    model = tg.nn.Linear(4, 2)
    training = tg.compile(
        model,
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": tg.spec((5, 4))},
        device="numpy",
    )
    path = tmp_path / "step.mlir"
    path.write_text(training.module("stablehlo"), encoding="utf-8")
    step = tg.from_stablehlo(path)
    values = {**training.parameters(), "x": X, "learning_rate": np.float32(0.1)}
    value, *_ = step(*(values[name] for name in step.names))
    np.testing.assert_allclose(value, np.asarray(training.step(x=X)), rtol=1e-6)


def test_a_function_is_written_with_the_parameters_that_it_reads(tmp_path: Path) -> None:
    model = tg.nn.Sequential(tg.nn.Linear(4, 3), tg.nn.Linear(3, 2))
    training = tg.compile(model, device="numpy")
    first = training.attach(lambda model, x: model[0](x), inputs={"x": (5, 4)})
    path = tmp_path / "first.mlir"
    path.write_text(first.module("stablehlo"), encoding="utf-8")
    read = tg.from_stablehlo(path)
    assert read.names == ("0.weight", "0.bias", "x") and "1.weight" in first.module("tg")
    values = {**training.parameters(), "x": X}
    np.testing.assert_allclose(read(*(values[name] for name in read.names)), first(x=X), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((W,), InputError, "the function takes 2 arguments, got 1"),
        ((W, B[:3]), ShapeError, r"argument 0 \(arg0\) has shape \(4, 8\), expected \(3, 3\)"),
        ((tg.tensor(np.ones((3, 3), np.int32)), B[:3]), InputError, "is i32, expected f32"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tg.from_stablehlo(LOOP)(*arguments)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%1 = stablehlo.cholesky %x, lower = true : tensor<2x2xf32> loc(#loc1)", r"cholesky: .*\(model.py:7\)"),
        ("%1 = stablehlo.nothing %x : tensor<2x2xf32>", "Operation stablehlo.nothing is not registered"),
        ("%1 = stablehlo.sine %y : tensor<2x2xf32>", "%y"),
        ("%1 = func.call @other(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>", "other"),
        ("%1 = func.call @f(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>", "@f calls itself"),
        ("%1 = stablehlo.reshape %x : (tensor<2x2xf32>) -> tensor<?xf32>", "shapes must be static"),
    ],
)
def test_texts_that_are_refused(body: str, message: str) -> None:
    head, end = "func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {", "return %x : tensor<2x2xf32>\n}"
    text = "\n".join((head, body, end, '#loc1 = loc("model.py":7:0)', ""))
    with pytest.raises(OptionError, match=message):
        tg.from_stablehlo(text)


def test_jax_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorgrad.importers.jax.model.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install jax"):
        tg.from_jax(lambda x: x, np.ones(3))
    assert importlib.util.find_spec("tensorgrad.importers.jax") is not None


def test_bf16_stays() -> None:
    """Constants, of a list and of one element that repeats; and results of ops, each of which is rounded."""
    function = tg.from_stablehlo("""
    func.func public @main(%x: tensor<3xbf16>) -> (tensor<3xbf16>, tensor<bf16>) {
      %list = stablehlo.constant dense<[1.0, -2.0, 256.0]> : tensor<3xbf16>
      %one = stablehlo.constant dense<1.0> : tensor<3xbf16>
      %sum = stablehlo.add %list, %one : tensor<3xbf16>
      %result = stablehlo.add %sum, %x : tensor<3xbf16>
      %lowest = stablehlo.constant dense<0xFF80> : tensor<bf16>
      %top = stablehlo.reduce(%result init: %lowest) applies stablehlo.maximum across dimensions = [0]
        : (tensor<3xbf16>, tensor<bf16>) -> tensor<bf16>
      return %result, %top : tensor<3xbf16>, tensor<bf16>
    }
    """)
    result, top = map(np.asarray, function(np.full(3, 2, tg.bf16)))
    np.testing.assert_array_equal(result, np.array([4, 1, 258], tg.bf16))  # 256 + 1 is 256 there
    assert result.dtype == top.dtype == tg.bf16 and top == 258


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "f64"])
def test_the_total_order_of_floats(element: str, device: tg.DeviceName) -> None:
    """It tells zeros by their signs, and places NaN beyond the infinities of its sign."""
    function = tg.from_stablehlo(f"""
    func.func public @main(%x: tensor<8x1x{element}>, %y: tensor<1x8x{element}>) -> (tensor<8x8xi1>, tensor<8x8xi1>) {{
      %a = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<8x1x{element}>) -> tensor<8x8x{element}>
      %b = stablehlo.broadcast_in_dim %y, dims = [0, 1] : (tensor<1x8x{element}>) -> tensor<8x8x{element}>
      %lt = stablehlo.compare LT, %a, %b, TOTALORDER
        : (tensor<8x8x{element}>, tensor<8x8x{element}>) -> tensor<8x8xi1>
      %eq = stablehlo.compare EQ, %a, %b, TOTALORDER
        : (tensor<8x8x{element}>, tensor<8x8x{element}>) -> tensor<8x8xi1>
      return %lt, %eq : tensor<8x8xi1>, tensor<8x8xi1>
    }}
    """)
    dtype = {"bf16": tg.bf16, "f16": np.float16, "f32": np.float32, "f64": np.float64}[element]
    rising = np.array([np.copysign(np.nan, -1), -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], dtype)
    columns, rows = (tg.tensor(x, dtype=dtype) for x in (rising[:, None], rising[None]))
    less, equal = tg.jit(function, device=device)(columns, rows)
    np.testing.assert_array_equal(less, np.triu(np.ones((8, 8), bool), 1))
    np.testing.assert_array_equal(equal, np.eye(8, dtype=bool))
