"""`tg.grad` and `tg.value_and_grad` behave as in JAX, on numpy arrays and nested."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from xdsl.context import Context

import tensorgrad as tg
from tensorgrad.errors import DTypeError, ParameterError, ShapeError, TraceError
from tensorgrad.passes.tensors.simplify import SimplifyPass

X = np.array([1.0, -2.0, 3.0], np.float32)


def cubes(x: Any) -> Any:
    return tg.sum(x**3)


def test_on_numpy_arrays():
    value, gradient = tg.value_and_grad(cubes)(X)
    assert isinstance(value, tg.Array) and isinstance(gradient, tg.Array)
    assert float(value) == (X**3).sum()
    assert np.allclose(gradient, 3 * X**2)
    assert gradient.dtype == np.float32 and gradient.shape == (3,)


def test_several_arguments():
    def f(x, y, z):
        return tg.sum(x * y) * z

    y = np.array([4.0, 5.0, 6.0], np.float32)
    for_x, for_z = tg.grad(f, argnums=(0, 2))(X, y, 2.0)
    assert np.allclose(for_x, 2 * y) and float(for_z) == (X * y).sum()
    assert np.allclose(tg.grad(f, argnums=1)(X, y, 2.0), 2 * X)
    assert float(tg.grad(f, argnums=-1)(X, y, 2.0)) == (X * y).sum()
    second, first = tg.grad(f, argnums=(1, 0))(X, y, 2.0)
    assert np.allclose(second, 2 * X) and np.allclose(first, 2 * y)
    single = tg.grad(f, argnums=(0,))(X, y, 2.0)
    assert isinstance(single, tuple) and len(single) == 1


def test_trees():
    class Layer(NamedTuple):
        w: Any
        b: Any

    def f(p, x):
        return tg.sum(x @ p["layers"][0].w + p["layers"][0].b) * p["scale"]

    p = {"layers": [Layer(np.ones((3, 2), np.float32), np.zeros(2, np.float32))], "scale": 2.0, "none": None}
    gradient = tg.grad(f)(p, X)
    assert list(gradient) == ["layers", "none", "scale"] and gradient["none"] is None
    assert isinstance(gradient["layers"][0], Layer)
    assert np.allclose(gradient["layers"][0].w, 2 * X[:, None].repeat(2, 1))
    assert np.allclose(gradient["layers"][0].b, [2, 2])
    assert float(gradient["scale"]) == 4.0


def test_other_arguments_pass_through_untouched():
    seen: list[Any] = []

    def f(x, how, *rest, flag=None, **options):
        seen.append((how, rest, flag, options))
        return tg.sum(x) if how == "sum" else tg.mean(x)

    marker = object()
    tg.grad(f)(X, "sum", X, marker, flag=True, other=[1])
    how, rest, flag, options = seen[0]
    assert how == "sum" and rest[0] is X and rest[1] is marker and flag is True and options == {"other": [1]}


def test_closures_over_outer_values():
    """`d/dx (x * d/dy (x * y))`, where the inner function closes over the outer tensor."""

    def outer(x):
        return x * tg.grad(lambda y: x * y**2)(3.0)

    assert float(tg.grad(outer)(2.0)) == 24.0
    assert float(tg.grad(lambda x: tg.grad(lambda y: x)(1.0) + x)(5.0)) == 1.0


def test_any_order():
    f = tg.grad(tg.grad(tg.grad(lambda x: x**5)))
    assert float(f(2.0)) == pytest.approx(60 * 4)
    hessian_rows = [tg.grad(lambda x, i=i: tg.grad(cubes)(x)[i])(X) for i in range(3)]
    assert np.allclose(np.stack([np.asarray(row) for row in hessian_rows]), np.diag(6 * X))
    mixed = tg.grad(lambda x: tg.grad(lambda x, y: x**2 * y**3, argnums=(0, 1))(x, 2.0)[1])
    assert float(mixed(3.0)) == pytest.approx(2 * 3 * 3 * 4)


def test_inside_a_trace():
    def step(w, x):
        value, gradient = tg.value_and_grad(lambda w: tg.sum((x @ w) ** 2))(w)
        return value, w - 0.1 * gradient

    module = tg.trace(step, (3, 2), (4, 3))
    SimplifyPass().apply(Context(), module)
    assert str(module).count("tg.dot_general") == 2


def test_values_that_are_not_used_or_not_reached():
    def f(x, y):
        return tg.sum(y)

    assert np.array_equal(tg.grad(f)(X, X), np.zeros(3))
    assert np.array_equal(tg.grad(lambda x: tg.sum(tg.stop_gradient(x) * x))(X), X)
    assert float(tg.grad(lambda x: x)(3.0)) == 1.0
    assert float(tg.grad(lambda x: 2.0)(3.0)) == 0.0


def test_a_carry_that_iterations_forget_passes_no_derivative():
    def last(c, rows):
        return tg.sum(3 * tg.scan(lambda _, row: (row, None), c, rows)[0])

    dc, drows = tg.grad(last, argnums=(0, 1))(np.ones(2, np.float32), np.ones((3, 2), np.float32))
    assert np.asarray(dc).tolist() == [0, 0] and np.asarray(drows).tolist() == [[0, 0], [0, 0], [3, 3]]


def test_dtypes():
    exact = tg.array(X, "f64")
    assert tg.grad(cubes)(exact).dtype == np.float64
    assert tg.grad(cubes)(X.astype(np.float64)).dtype == np.float32
    assert tg.grad(cubes)(tg.array(X, "f16")).dtype == np.float16
    assert float(tg.grad(lambda x: x * x)(3)) == 6.0


def with_aux(x: Any, times: Any = 2.0) -> Any:
    y = tg.sin(x) * times
    return tg.sum(y**2), {"y": y, "place": (tg.argmax(x), None), "number": 3}


def check_aux(aux: Any) -> None:
    np.testing.assert_allclose(aux["y"], 2 * np.sin(X), rtol=1e-6)
    assert int(aux["place"][0]) == 2 and aux["place"][1] is None
    assert isinstance(aux["number"], tg.Array) and int(aux["number"]) == 3


def without_aux(x: Any) -> Any:
    return with_aux(x)[0]


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", [None, "numpy", "cpu"])
def test_aux_is_returned_beside_the_derivative(device: tg.DeviceName | None) -> None:
    def run(function: Any) -> Any:
        return function(X) if device is None else tg.jit(function, device=device)(X)

    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    value, gradient, hessian = without_aux(X), tg.grad(without_aux)(X), tg.hessian(without_aux)(X)
    (result, aux), slope = run(tg.value_and_grad(with_aux, has_aux=True))
    close(result, value)
    close(slope, gradient)
    check_aux(aux)
    (slope, _), aux = run(lambda x: tg.grad(with_aux, (0, 1), has_aux=True)(x, 2.0))
    close(slope, gradient)
    check_aux(aux)
    result, tangent, aux = run(lambda x: tg.jvp(with_aux, (x,), (x,), has_aux=True))
    close([result, tangent], [value, np.sum(gradient * X)])
    check_aux(aux)
    for mode in ("reverse", "forward"):
        slope, aux = run(tg.jacobian(with_aux, mode=mode, has_aux=True))
        close(slope, gradient)
        check_aux(aux)
    result, aux = run(tg.hessian(with_aux, has_aux=True))
    close(result, hessian)
    check_aux(aux)

    def pulled(x: Any) -> Any:
        value, pullback, aux = tg.vjp(with_aux, x, has_aux=True)
        return value, pullback(1.0), aux

    result, (slope,), aux = run(pulled)
    close(result, value)
    close(slope, gradient)
    check_aux(aux)


def test_aux_has_derivatives_and_examples() -> None:
    outer = tg.grad(lambda x: tg.sum(tg.grad(with_aux, has_aux=True)(x)[1]["y"] * X))(X)
    np.testing.assert_allclose(outer, 2 * np.cos(X) * X, rtol=1e-5)
    slopes, aux = tg.vmap(tg.grad(with_aux, has_aux=True))(np.stack([X, X]))
    np.testing.assert_allclose(slopes[1], tg.grad(without_aux)(X), rtol=1e-6)
    check_aux(tg.tree_map(lambda leaf: leaf[0], aux))
    value, same = tg.grad(lambda x: (x[0], x), has_aux=True)(X)
    assert np.array_equal(value, [1, 0, 0]) and np.array_equal(same, X), "an argument may be returned"


def test_aux_may_have_what_attention_would_not_keep() -> None:
    """Attention is outlined before it is differentiated, so that its weights are not kept; unless they are returned."""
    q = np.random.default_rng(0).normal(size=(1, 1, 64, 8)).astype(np.float32)

    def loss(q: Any) -> Any:
        weights = tg.softmax(q @ tg.swapaxes(q, -1, -2))
        return tg.sum(tg.sin(weights @ q)), weights

    def without(q: Any) -> Any:
        return loss(q)[0]

    outlined = ["@attention" in str(tg.trace(f, q.shape)) for f in (tg.grad(without), tg.grad(loss, has_aux=True))]
    assert outlined == [True, False]
    slope, weights = tg.grad(loss, has_aux=True)(q)
    np.testing.assert_allclose(slope, tg.grad(without)(q), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(weights, loss(q)[1], rtol=1e-5, atol=1e-6)


def test_names_are_kept():
    assert tg.grad(cubes).__name__ == "cubes"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.grad(lambda x: x * 2)(X), ShapeError, r"must return a float scalar, got shape \(3,\)"),
        (lambda: tg.grad(lambda x: tg.cast(tg.sum(x), "i32"))(X), ShapeError, "of i32"),
        (lambda: tg.grad(cubes)(np.array([1, 2])), DTypeError, "only floats have derivatives"),
        (lambda: tg.grad(cubes)(np.array(["a"])), DTypeError, "as a tensor"),
        (lambda: tg.grad(cubes, argnums=1)(X), TraceError, "there is no argument 1"),
        (lambda: tg.grad(lambda x: "x")(X), TraceError, "returned str"),
        (
            lambda: tg.grad(with_aux)(X),
            TraceError,
            r"with_aux returned a tuple; if it is \(value, aux\), give has_aux=True",
        ),
        (lambda: tg.grad(cubes, has_aux=True)(X), TraceError, r"cubes must return \(value, aux\), got a tensor"),
        (lambda: tg.vjp(lambda x: (x, x, x), X, has_aux=True), TraceError, r"vjp: with .* got a tuple of 3"),
        (lambda: tg.jvp(lambda x: (x, "x"), (X,), (X,), has_aux=True), TraceError, "returned str"),
        (lambda: tg.grad(lambda m: m.weight)(tg.nn.Linear(2, 2)), ParameterError, "has no values"),
        (lambda: tg.grad(lambda x: x if x > 0 else -x)(2.0), TraceError, "control flow"),
    ],
)
def test_errors_name_the_line(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert __file__ in str(caught.value)
    assert float(tg.grad(lambda x: x * x)(3.0)) == 6.0


class Pair(NamedTuple):
    first: Any
    second: Any


def test_stop_gradient_keeps_trees() -> None:
    tree = {"a": [tg.array([1.0, 2.0]), (tg.array(3.0),)], "b": Pair(tg.array(4.0), None)}
    stopped = tg.stop_gradient(tree)
    assert isinstance(stopped["a"], list) and isinstance(stopped["a"][1], tuple) and isinstance(stopped["b"], Pair)
    assert stopped["b"].second is None and np.array_equal(stopped["a"][0], [1, 2])

    def function(x: Any) -> Any:
        constant = tg.stop_gradient({"x": x, "all": [x, (x * 2.0,)]})
        return tg.sum(x * constant["x"] + constant["all"][0] * constant["all"][1][0])

    assert np.array_equal(tg.grad(function)(tg.array([2.0, 5.0])), [2.0, 5.0])
    assert [float(x) for x in tg.stop_gradient([1.0, 2.0])] == [1.0, 2.0], "a list stays a list"
    assert isinstance(tg.stop_gradient(np.ones(2)), tg.Array)


def test_stop_gradient_of_a_module() -> None:
    """The module computes the same values, and its parameters get no gradient."""
    model = tg.nn.Sequential(tg.nn.Linear(3, 4), tg.nn.BatchNorm1d(4), tg.nn.Linear(4, 2))

    def whole(model: Any, x: Any) -> Any:
        target = tg.stop_gradient(model)
        assert isinstance(target, tg.nn.Sequential) and isinstance(target[0], tg.nn.Linear)
        return tg.mean((model(x) - 0.5 * tg.nn.inference(target)(x)) ** 2)

    def by_result(model: Any, x: Any) -> Any:
        return tg.mean((model(x) - 0.5 * tg.stop_gradient(tg.nn.inference(model)(x))) ** 2)

    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    parameters: list[dict[str, np.ndarray]] = []
    for loss in (whole, by_result):
        training = tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": x.shape}, device="numpy")
        training.step(x=x)
        parameters.append(training.parameters())
    for path in parameters[0]:
        assert np.allclose(parameters[0][path], parameters[1][path], rtol=1e-6, atol=1e-7), path
