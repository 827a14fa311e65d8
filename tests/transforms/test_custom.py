"""`tg.custom_vjp`: custom derivatives, at every order, on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser

import tensorgrad as tg
from tensorgrad.dialects.tg import Tg
from tensorgrad.errors import ArgumentError, DTypeError, ShapeError, TraceError
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.simplify import SimplifyPass

if TYPE_CHECKING:
    from tensorgrad.runtime.webgpu import WebGPUDevice

X = np.array([0.5, -2.0, 3.0], np.float32)


def same(actual: Any, expected: Any, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=rtol)


def tripled() -> Any:
    """`x * x` with the custom derivative `3 * x`, to tell which derivative is used."""

    @tg.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (3.0 * x * g,))
    return f


def test_the_derivative_is_the_given_one() -> None:
    f = tripled()
    same(f(X), X * X)
    value, gradient = tg.value_and_grad(lambda x: tg.sum(tg.sin(f(x))))(X)
    same(value, np.sin(X * X).sum())
    same(gradient, np.cos(X * X) * 3 * X)
    same(tg.vjp(f, X)[1](np.ones(3))[0], 3 * X)
    same(tg.jvp(f, (X,), (2 * np.ones(3),))[1], 6 * X)
    same(tg.jacobian(f)(X), np.diag(3 * X))
    same(tg.jacobian(f, mode="forward")(X), np.diag(3 * X))
    assert f.__name__ == "f"


def test_higher_orders_follow_from_forward_and_backward() -> None:
    f = tripled()
    assert float(tg.grad(tg.grad(f))(2.0)) == 3.0
    assert float(tg.grad(tg.grad(tg.grad(f)))(2.0)) == 0.0
    same(tg.hessian(lambda x: tg.sum(f(x)))(X), 3 * np.eye(3))


def test_a_residual_of_the_function_itself_has_its_derivative() -> None:
    @tg.custom_vjp
    def f(x):
        return tg.exp(x)

    def forward(x):
        y = f(x)
        return y, y

    f.defvjp(forward, lambda y, g: (2.0 * y * g,))
    e = np.exp(0.5)
    for order, expected in enumerate((e, 2 * e, 4 * e, 8 * e)):
        g = f
        for _ in range(order):
            g = tg.grad(g)
        same(g(0.5), expected)
    same(tg.jvp(tg.grad(f), (0.5,), (1.0,))[1], 4 * e)


def test_two_functions_that_use_each_other() -> None:
    f, g = tg.custom_vjp(lambda x: x * 1.0), tg.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (f(x), g(x)), lambda r, u: (2.0 * r * u,))
    g.defvjp(lambda x: (g(x), f(x)), lambda r, u: (3.0 * r * u,))
    assert float(tg.grad(f)(5.0)) == 10.0  # 2 g
    assert float(tg.grad(tg.grad(f))(5.0)) == 30.0  # 2 * 3 f
    assert float(tg.grad(tg.grad(tg.grad(f)))(5.0)) == 60.0  # 6 * 2 g


def test_trees_static_arguments_and_integers() -> None:
    @lambda f: tg.custom_vjp(f, nondiff_argnums=(0, 2))
    def scaled(how, p, factor, index):
        return {"y": tg.take(p["w"], index) * factor, "n": index, "b": p["b"]}

    def forward(how, p, factor, index):
        return scaled(how, p, factor, index), (how, index, 7)

    def backward(how, factor, residuals, g):
        name, index, seven = residuals
        assert how == name == "how" and seven == 7 and g["n"] is None
        return {
            "w": tg.grad(lambda x: tg.sum(tg.take(x, index) * g["y"] * factor * 10.0))(tg.zeros((3,)) * g["y"][0])
        }, None

    scaled.defvjp(forward, backward)
    index = np.array([2, 0, 2], np.int32)
    p = {"w": X, "b": np.float32(1)}

    def loss(p):
        scaled_tree = scaled("how", p, 4, index)
        return tg.sum(scaled_tree["y"]) + scaled_tree["b"]

    same(tg.value_and_grad(loss)(p)[0], 4 * X[index].sum() + 1)
    gradients = tg.grad(loss)(p)
    same(gradients["w"], [40, 0, 80])
    same(gradients["b"], 0)


def test_a_derivative_that_is_not_linear_has_reverse_mode_only() -> None:
    bounded = tg.custom_vjp(lambda x: x)
    bounded.defvjp(lambda x: (x, None), lambda _, g: (tg.clip(g, -1.0, 1.0),))
    same(tg.grad(lambda x: tg.sum(bounded(x) * x))(X), X + np.clip(X, -1, 1))
    with pytest.raises(TraceError, match="linear in its cotangent"):
        tg.jvp(lambda x: 5.0 * bounded(x), (X,), (X,))
    signed = tg.custom_vjp(lambda x: x)
    signed.defvjp(lambda x: (x, None), lambda _, g: (tg.sign(g),))
    with pytest.raises(TraceError, match="linear in its cotangent"):
        tg.jvp(signed, (X,), (X,))


def test_what_is_computed_alike_is_computed_once() -> None:
    @tg.custom_vjp
    def f(x):
        return tg.exp(x)

    def forward(x):
        y = tg.exp(x)
        return y, y

    f.defvjp(forward, lambda y, g: (y * g,))
    module = tg.trace(tg.value_and_grad(lambda x: tg.sum(f(x))), (3,))
    module.verify()
    assert "tg.call @f" in str(module)
    (expected,) = TensorExecutor(module).call([X])[1:]
    for pass_ in (InlineCallsPass(), SimplifyPass()):
        pass_.apply(Context(), module)
    assert str(module).count("tg.exp") == 1 and "tg.call" not in str(module)
    same(TensorExecutor(module).call([X])[1], expected, 0)


def test_in_a_training_step(device: WebGPUDevice) -> None:
    f = tripled()

    class Model(tg.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = tg.nn.Linear(3, 2)

        def __call__(self, x):
            return f(self.layer(x))

    def run(where: tg.DeviceName) -> Any:
        training = tg.compile(
            Model(),
            loss=lambda model, x: tg.mean(model(x)),
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": (5, 3)},
            device=where,
        )
        x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
        before = training.parameters()
        for _ in range(2):
            training.step(x=x)
        predict = training.attach(lambda model, x: model(x), inputs={"x": (5, 3)})
        return before, training.parameters(), predict(x=x)

    (before, after, value), (_, on_device, other) = run("numpy"), run("wgpu")
    assert not np.allclose(before["layer.weight"], after["layer.weight"])
    for path, expected in after.items():
        same(on_device[path], expected)
    same(other, value)


def later(function: Any) -> Any:
    """A call inside a trace."""
    return lambda: tg.trace(function, (3,))


def broken(forward: Any, backward: Any) -> Any:
    f = tg.custom_vjp(lambda x: tg.exp(x))
    f.defvjp(forward, backward)
    return later(f)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.custom_vjp(tg.exp)(X), TraceError, "exp has no derivative yet"),
        (broken(tg.exp, tg.exp), TraceError, r"must return \(result, residuals\)"),
        (broken(lambda x: (tg.sum(x), x), tg.exp), ShapeError, "forward of lambda\\w* returns"),
        (broken(lambda x: (x, x), lambda x, g: g), TraceError, "must return a tuple of 1"),
        (broken(lambda x: (x, x), lambda x, g: (tg.sum(g),)), ShapeError, r"has shape \(3,\), its cotangent \(\)"),
        (broken(lambda x: (x, x), lambda x, g: (g > 0,)), DTypeError, "is f32, its cotangent bool"),
        (
            broken(lambda x: (x, x), lambda x, g: ({"a": g},)),
            TraceError,
            "a cotangent 'a' for argument 0, which has no such tensor",
        ),
        (lambda: tg.custom_vjp(tg.exp, nondiff_argnums=(3,))(X), TraceError, "has no derivative"),
        (lambda: tripled()("x"), DTypeError, "as a tensor"),
    ],
)
def test_errors_name_the_line(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert __file__ in str(caught.value)
    assert float(tg.grad(lambda x: x * x)(3.0)) == 6.0


def test_traced_values_from_around_are_refused() -> None:
    def outer(y):
        f = tg.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (x * y, None), lambda _, g: (g,))
        return f(y)

    with pytest.raises(TraceError, match=r"uses a traced tensor of shape \(3,\) from around it"):
        tg.trace(outer, (3,))


def test_integers_have_no_cotangent() -> None:
    f = tg.custom_vjp(lambda x, i: x)
    f.defvjp(lambda x, i: (x, None), lambda _, g: (g, g))
    with pytest.raises(DTypeError, match="is i32; only floats have cotangents"):
        tg.grad(lambda x: tg.sum(f(x, np.array([1, 2, 3], np.int32))))(X)


AGAIN = """
func.func @f(%x: tensor<6xf32>) -> tensor<f32> {
  %0 = tg.call @g(%x) recompute : (tensor<6xf32>) -> (tensor<6xf32>) {
  ^bb0(%a: tensor<6xf32>):
    %b = tg.exp %a : tensor<6xf32>
    %c = tg.sin %b : tensor<6xf32>
    tg.return %c : tensor<6xf32>
  }
  %1 = tg.sum %0 axes = [0] : tensor<6xf32>
  func.return %1 : tensor<f32>
}
"""


def test_a_recomputed_call_keeps_nothing_of_the_first_time() -> None:
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    module = Parser(context, AGAIN).parse_module()
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    passes = (GradPass(), InlineCallsPass(recompute=False), SimplifyPass())
    for pass_ in passes:
        pass_.apply(context, module)
        module.verify()
    verify_dominance(module)
    assert str(module).count("tg.exp") == 2 and str(module).count("recompute") == 2
    executor = TensorExecutor(module)
    value, gradient = executor.call([x])
    same(value, np.sin(np.exp(x)).sum())
    same(gradient, np.cos(np.exp(x)) * np.exp(x))
    assert executor.peak_bytes() >= 4 * 6 * 3 and executor.bytes_moved() > 4 * 6 * 4
    InlineCallsPass().apply(context, module)
    module.verify()
    assert str(module).count("tg.exp") == 2 and "tg.call" not in str(module)
    LowerTgToBufPass().apply(context, module)
    results = BufferExecutor(module).run({"arg0": x})
    same(results["gradient/arg0"], gradient, 1e-6)


def test_arguments_by_name() -> None:
    @tg.custom_vjp
    def scaled(x: Any, factor: Any = 2.0, offset: Any = 1.0) -> Any:
        return x * factor + offset

    def forward(x: Any, factor: Any = 2.0, offset: Any = 1.0) -> Any:
        return x * factor + offset, (x, factor)

    scaled.defvjp(forward, lambda kept, g: (3.0 * kept[1] * g, tg.sum(kept[0] * g), None))
    call: Any = scaled
    for function in (call, tg.jit(lambda **named: call(**named), device="numpy")):
        same(function(x=X, offset=0.0), 2 * X)
    same(call(X, offset=5.0), 2 * X + 5)
    same(tg.grad(lambda x: tg.sum(call(offset=x, factor=4.0, x=x)))(X), 12.0 * np.ones(3))
    same(tg.grad(lambda x: tg.sum(call(x=x, factor=4.0, offset=0.0)))(tg.tensor(X, device="numpy")), 12.0 * np.ones(3))
    with pytest.raises(ArgumentError, match=r"scaled: got an unexpected keyword argument 'faktor'; it takes \(x"):
        call(X, faktor=2.0)
    with pytest.raises(ArgumentError, match="multiple values for argument 'x'"):
        call(X, x=X)


def test_an_argument_without_a_position_is_refused() -> None:
    @tg.custom_vjp
    def scaled(x: Any, *, factor: Any = 2.0) -> Any:
        return x * factor

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, g: (g,))
    call: Any = scaled
    with pytest.raises(ArgumentError, match="scaled: factor can only be given by name"):
        call(X, factor=3.0)
