"""`jvp`, `vjp`, `jacobian` and `hessian`: eager, inside traces, nested, and on pytrees."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError

untyped: Any = tg
"""The package as code without types calls it."""

RNG = generator(0)
X = RNG.normal(size=4).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)


def layer(w: Any, x: Any) -> Any:
    return tg.tanh(x @ w)


def same(actual: Any, expected: Any, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=rtol)


def dense(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the Jacobian of `layer` with respect to `w`."""
    slope = 1 - np.tanh(x @ w) ** 2
    return np.einsum("k,i,kj->kij", slope, x, np.eye(3))


def test_jvp_is_a_product_with_the_jacobian() -> None:
    v, u = RNG.normal(size=(4, 3)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
    value, tangent = tg.jvp(layer, (W, X), (v, u))
    same(value, np.tanh(X @ W))
    same(tangent, (1 - np.tanh(X @ W) ** 2) * (X @ v + u @ W))
    assert isinstance(tangent, tg.Array) and tangent.dtype == np.float32


def test_vjp_is_a_product_with_its_transpose() -> None:
    value, pullback = tg.vjp(layer, W, X)
    same(value, np.tanh(X @ W))
    for seed in range(2):
        u = np.random.default_rng(seed).normal(size=3).astype(np.float32)
        for_w, for_x = pullback(u)
        same(for_w, np.einsum("k,kij->ij", u, dense(W, X)))
        same(for_x, W @ (u * (1 - np.tanh(X @ W) ** 2)))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian(mode: Any) -> None:
    same(tg.jacobian(layer, mode=mode)(W, X), dense(W, X))
    both = tg.jacobian(layer, argnums=(0, -1), mode=mode)(W, X)
    same(both[0], dense(W, X))
    same(both[1], (1 - np.tanh(X @ W) ** 2)[:, None] * W.T)
    assert tg.jacobian(lambda x: x[:0], mode=mode)(X).shape == (0, 4)
    assert tg.jacobian(lambda x: tg.full((2,), 1.0) + tg.sum(x), mode=mode)(X[:0]).shape == (2, 0)
    same(tg.jacobian(lambda x: tg.ones((2,)), mode=mode)(X), np.zeros((2, 4)))
    same(tg.jacobian(lambda x: x, mode=mode)(X), np.eye(4))
    same(tg.jacobian(lambda x: (x, x), mode=mode)(X)[1], np.eye(4))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian_over_ops_of_every_kind(mode: Any) -> None:
    """Compared with one `grad` per element of the result."""
    table, indices = RNG.normal(size=(5, 2)).astype(np.float32), np.array([[4, 0], [2, 2]], np.int32)

    def f(t: Any) -> Any:
        gathered = tg.take(t, tg.array(indices))
        ordered = tg.take_along_axis(t, tg.array(np.array([[1, 0]] * 5, np.int32)), 1)
        product = tg.einsum("abc,dc->dab", gathered, ordered)
        padded = tg.concat([tg.flip(t, 0), t[::2]], 0)
        rows = tg.softmax(padded) * tg.max(t, axis=0) + tg.sum(product, axis=(0, 2))
        return tg.where(rows > 0, rows, tg.square(rows))[1:5]

    size = f(tg.array(table)).shape
    jacobian = tg.jacobian(f, mode=mode)(table)
    for place in np.ndindex(*size):
        same(np.asarray(jacobian)[place], tg.grad(lambda t, place=place: f(t)[place])(table))


def test_hessian_and_its_products() -> None:
    def f(x: Any) -> Any:
        return tg.sum(tg.sin(x)) * tg.sum(x * x)

    s, c = np.sin(X), np.cos(X)
    expected = -np.diag(s) * (X @ X) + 2 * np.outer(c, X) + 2 * np.outer(X, c) + 2 * np.eye(4) * s.sum()
    same(tg.hessian(f)(X), expected)
    same(tg.jacobian(tg.grad(f))(X), expected)
    v = RNG.normal(size=4).astype(np.float32)
    same(tg.jvp(tg.grad(f), (X,), (v,))[1], expected @ v)
    same(tg.grad(lambda x: tg.sum(tg.grad(f)(x) * v))(X), expected @ v)
    mixed = tg.hessian(lambda x, y: tg.sum(x * x) * y, argnums=(0, 1))(X, 3.0)
    same(mixed[0][0], 6 * np.eye(4))
    same(mixed[0][1], 2 * X)
    same(mixed[1][0], 2 * X)
    assert float(mixed[1][1]) == 0


def test_everything_nests() -> None:
    def f(x: Any) -> Any:
        return tg.sin(x) * x

    def push(g: Any) -> Any:
        return lambda x: tg.jvp(g, (x,), (1.0,))[1]

    def pull(g: Any) -> Any:
        return lambda x: tg.vjp(g, x)[1](1.0)[0]

    first = np.cos(1.5) * 1.5 + np.sin(1.5)
    second = 2 * np.cos(1.5) - np.sin(1.5) * 1.5
    third = -3 * np.sin(1.5) - np.cos(1.5) * 1.5
    ways = {"push": push, "pull": pull, "grad": tg.grad, "jacobian": tg.jacobian}
    for name, way in ways.items():
        same(way(f)(1.5), first)
        for other in ways.values():
            same(other(way(f))(1.5), second, 1e-4)
            same(tg.grad(other(way(f)))(1.5), third, 1e-4)
            same(push(other(way(f)))(1.5), third, 1e-4)
        module = tg.trace(way(f), ())
        module.verify()
        assert "tg.cos" in str(module), name


def test_only_the_function_is_differentiated() -> None:
    """Captured values are constants, even if they depend on the same tensor."""

    def outer(x: Any) -> Any:
        z = x * x
        return (
            tg.jvp(lambda y: y * z, (x,), (1.0,))[1],
            tg.vjp(lambda y: y * z, x)[1](1.0)[0],
            tg.jacobian(lambda y: y * z)(x),
        )

    module = tg.trace(outer, ())
    module.verify()
    same(tg.grad(lambda x: outer(x)[0] + outer(x)[1] + outer(x)[2])(3.0), 3 * 2 * 3.0)


def test_a_pullback_of_an_outer_trace() -> None:
    def f(x: Any) -> Any:
        value, pullback = tg.vjp(lambda y: tg.sin(y) * y, x)
        return tg.grad(lambda u: tg.sum(pullback(u * u)[0]))(value)

    u = np.sin(1.5) * 1.5
    same(
        tg.grad(lambda x: tg.sum(f(x)))(1.5),
        2 * (2 * np.cos(1.5) - np.sin(1.5) * 1.5) * u + 2 * (np.cos(1.5) * 1.5 + np.sin(1.5)) ** 2,
        1e-4,
    )
    _, pullback = tg.vjp(lambda y: y**3, 2.0)
    same(tg.grad(lambda u: pullback(u)[0])(5.0), 12.0)


class Pair(NamedTuple):
    a: Any
    b: Any


def test_trees() -> None:
    def f(p: Any, s: Any) -> Any:
        return {"x": p.a * s["k"][0], "n": tg.array(np.array([1, 2], np.int32)), "y": [p.b]}

    point = (Pair(X, 2.0), {"k": [3.0]})
    value, tangent = tg.jvp(f, point, (Pair(np.ones(4), 1.0), {"k": [1.0]}))
    same(value["x"], 3 * X)
    same(tangent["x"], 3 + X)
    assert tangent["n"] is None
    same(tangent["y"][0], 1.0)
    _, pullback = tg.vjp(f, *point)
    p, s = pullback({"x": np.ones(4), "n": None, "y": [2.0]})
    assert isinstance(p, Pair)
    same(p.a, 3 * np.ones(4))
    same(p.b, 2.0)
    same(s["k"][0], X.sum())
    jacobian = tg.jacobian(lambda p: Pair(p.a * p.b, p.b))(point[0])
    assert isinstance(jacobian, Pair) and isinstance(jacobian.a, Pair)
    same(jacobian.a.a, 2 * np.eye(4))
    same(jacobian.a.b, X)
    same(jacobian.b.a, np.zeros(4))


def test_f64_stays_exact() -> None:
    x = tg.array(np.array([0.1, 0.2]), "f64")
    direction = np.array([1 / 3, 1 / 7])
    tangent = tg.jvp(lambda x: x * x, (x,), (direction,))[1]
    assert tangent.dtype == np.float64
    same(tangent, 2 * np.array([0.1, 0.2]) * direction, 1e-15)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.jvp(tg.sin, (X,), ()), ShapeError, "1 primals, 0 tangents"),
        (lambda: tg.jvp(tg.sin, (X,), (X[:2],)), ShapeError, r"tangents\[0\] has shape \(2,\), expected \(4,\)"),
        (lambda: tg.jvp(tg.sin, (X,), ({"a": X},)), ShapeError, "must be a tree"),
        (lambda: tg.jvp(tg.sin, (np.array([1]),), (X,)), DTypeError, "jvp: an argument to differentiate by is i32"),
        (lambda: tg.jvp(tg.sin, (X,), (tg.array(X, "f64"),)), DTypeError, "is f64, expected f32"),
        (lambda: tg.vjp(tg.sin, X)[1](X[:1]), ShapeError, "the cotangent has shape"),
        (lambda: tg.jacobian(lambda x: x > 0)(X), DTypeError, "a result is bool"),
        (lambda: tg.jacobian(tg.sin, argnums=1)(X), TraceError, "there is no argument 1"),
        (lambda: untyped.jacobian(tg.sin, mode="both")(X), OptionError, "mode must be"),
        (lambda: tg.vjp(lambda x: "x", X), TraceError, "returned str"),
    ],
)
def test_errors_name_the_line(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert __file__ in str(caught.value)


def test_a_pullback_ends_with_its_trace() -> None:
    pullbacks: list[Any] = []

    def f(x: Any) -> Any:
        value, pullback = tg.vjp(tg.sin, x)
        pullbacks.append(pullback)
        return value

    tg.trace(f, ())
    with pytest.raises(TraceError, match="after that trace ended"):
        tg.trace(lambda u: pullbacks[0](u)[0], ())


def test_a_jacobian_is_traced_once() -> None:
    text = str(tg.trace(tg.jacobian(lambda x: tg.sin(x) * tg.sum(x)), (50,)))
    assert text.count("tg.") < 60
