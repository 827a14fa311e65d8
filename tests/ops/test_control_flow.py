"""`scan` and `cond`: values and derivatives compared with Python loops and branches, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.control import ScanOp
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError

untyped: Any = tg
"""The package as code without types calls it."""

RNG = generator(0)
W = RNG.normal(size=(3, 3))
H = RNG.normal(size=(2, 3))
X = RNG.normal(size=(5, 2, 3))


def unrolled(body: Callable[..., Any], init: Any, xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    """Returns the results of the same loop in Python, over one tensor and with one tensor as y."""
    carry, rows = init, []
    for t in reversed(range(xs.shape[0])) if reverse else range(xs.shape[0]):
        carry, y = body(carry, xs[t])
        rows.insert(0 if reverse else len(rows), y)
    return carry, tg.stack(rows)


def f64(x: np.ndarray) -> tg.Tensor:
    return tg.array(x, tg.f64)


def same(actual: Any, expected: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=rtol)


def recurrent(loop: Callable[..., Any], reverse: bool) -> Callable[..., Any]:
    """Returns a loss of a small recurrent network that reads its weights, its last state and all its outputs."""

    def loss(w: Any, h: Any, x: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            new = tg.tanh(carry @ w + row)
            return new, new * tg.sin(carry)

        last, rows = loop(body, h, x, reverse=reverse)
        return tg.sum(last**3) + tg.sum(tg.cos(rows) * x)

    return loss


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_are_those_of_the_unrolled_loop(reverse: bool) -> None:
    ours, theirs = recurrent(tg.scan, reverse), recurrent(unrolled, reverse)
    at = f64(W), f64(H), f64(X)
    value, gradients = tg.value_and_grad(ours, (0, 1, 2))(*at)
    expected, slopes = tg.value_and_grad(theirs, (0, 1, 2))(*at)
    same(value, expected)
    for gradient, slope in zip(gradients, slopes, strict=True):
        same(gradient, slope)
    directions = tuple(f64(np.cos(np.asarray(x))) for x in at)
    same(tg.jvp(ours, at, directions)[1], tg.jvp(theirs, at, directions)[1])

    def second(function: Callable[..., Any]) -> Any:
        return tg.grad(lambda *args: sum(tg.sum(g**2) for g in tg.grad(function, (0, 1, 2))(*args)), (0, 1, 2))

    for gradient, slope in zip(second(ours)(*at), second(theirs)(*at), strict=True):
        same(gradient, slope, 1e-10)
    same(tg.hessian(ours)(*at), tg.hessian(theirs)(*at), 1e-10)
    for mode in ("reverse", "forward"):
        rows = tg.jacobian(lambda w: tg.grad(ours)(w, at[1], at[2]), mode=mode)(at[0])
        same(rows, tg.hessian(theirs)(*at), 1e-10)


def test_gradient_is_the_central_difference() -> None:
    loss, step = recurrent(tg.scan, False), 1e-5
    gradient = np.asarray(tg.grad(loss, 2)(f64(W), f64(H), f64(X)))
    for place in [(0, 0, 0), (2, 1, 1), (4, 0, 2)]:
        moved = [X.copy(), X.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (float(np.asarray(loss(f64(W), f64(H), f64(x)))) for x in moved)
        assert abs((up - down) / (2 * step) - gradient[place]) < 1e-8


class State(NamedTuple):
    """A carry of several dtypes."""

    count: Any
    best: Any
    seen: Any
    sums: dict[str, Any]


def step(state: State, x: Any) -> tuple[State, Any]:
    new = State(
        state.count + 1,
        tg.maximum(state.best, x["a"]),
        tg.logical_or(state.seen, x["a"] > 1.0),
        {"b": state.sums["b"] + tg.cast(x["b"], tg.f32)},
    )
    return new, (new.count * x["b"], {"seen": new.seen})


def test_trees_and_dtypes() -> None:
    a, b = RNG.normal(size=(6, 3)).astype(np.float32), np.arange(6, dtype=np.int32)
    init = State(0, np.full(3, -np.inf, np.float32), np.zeros(3, np.bool_), {"b": 0.0})
    state, (products, seen) = tg.scan(step, init, {"a": a, "b": b})
    assert isinstance(state, State)
    assert int(np.asarray(state.count)) == 6 and state.count.dtype == np.int32
    same(state.best, a.max(0))
    np.testing.assert_array_equal(np.asarray(state.seen), (a > 1).any(0))
    assert float(state.sums["b"]) == 15.0
    np.testing.assert_array_equal(np.asarray(products), np.arange(1, 7) * b)
    np.testing.assert_array_equal(np.asarray(seen["seen"]), np.logical_or.accumulate(a > 1, 0))


def test_lengths_of_none_and_one() -> None:
    def body(carry: Any, x: Any) -> Any:
        return carry * 2.0 + tg.sum(x), (carry, None)

    for length in (0, 1):
        x = np.ones((length, 3), np.float32)
        carry, (old, nothing) = tg.scan(body, 1.0, x)
        assert float(carry) == (1.0, 5.0)[length]
        assert nothing is None
        same(old, np.ones(length))
        slope, by_x = tg.grad(lambda c, x: tg.scan(body, c, x)[0], (0, 1))(1.0, x)
        assert float(slope) == (1.0, 2.0)[length]
        same(by_x, np.ones((length, 3)))


def test_without_xs() -> None:
    carry, rows = tg.scan(lambda c, x: (c * 2, c), np.int32(1), length=10)
    assert int(np.asarray(carry)) == 1024
    np.testing.assert_array_equal(np.asarray(rows), 2 ** np.arange(10))


@pytest.mark.nightly
def test_nested_and_with_gradients_inside() -> None:
    """Gradient descent in a scan, on the loss of a scan; differentiated with respect to its start."""

    def loss(w: Any, x: Any, loop: Callable[..., Any]) -> Any:
        last, rows = loop(lambda c, row: (tg.sin(c * w) + row, c * row), w, x)
        return tg.sum(last**2) + tg.sum(rows)

    def descend(w: Any, x: Any, loop: Callable[..., Any]) -> Any:
        def body(at: Any, row: Any) -> Any:
            slope = tg.grad(loss)(at, x * row, loop)
            return at - 0.1 * slope, tg.sum(slope)

        last, slopes = loop(body, w, x[:, 0])
        return tg.sum(last * last) + tg.sum(tg.sin(slopes))

    w, x = f64(RNG.normal(size=3)), f64(RNG.normal(size=(4, 3)))
    for order in (lambda f: f, lambda f: tg.grad(f, (0, 1)), lambda f: tg.hessian(f)):
        actual = order(lambda w, x: descend(w, x, tg.scan))(w, x)
        expected = order(lambda w, x: descend(w, x, unrolled))(w, x)
        for part, correct in zip(
            *([actual, expected] if isinstance(actual, tuple) else [[actual], [expected]]), strict=True
        ):
            same(part, correct, 1e-9)


def test_random_key_in_the_carry() -> None:
    def body(key: Any, x: Any) -> Any:
        next_key, mine = tg.random.split(key)
        return next_key, tg.random.normal(mine, (2,))

    _, rows = tg.scan(body, tg.random.key(3), length=4)
    key, expected = tg.random.key(3), []
    for _ in range(4):
        key, row = body(key, None)
        expected.append(np.asarray(row))
    same(rows, np.stack(expected), 1e-6)


def test_custom_derivative_inside() -> None:
    @tg.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 1.0

    doubled.defvjp(lambda x: (x, None), lambda _, g: (g * 2.0,))
    slope = tg.grad(lambda c: tg.scan(lambda c, _: (doubled(c), None), c, length=3)[0])(1.0)
    assert float(slope) == 8.0
    clipped = tg.custom_vjp(lambda x: x * 1.0)
    clipped.defvjp(lambda x: (x, None), lambda _, g: (tg.minimum(g, 0.5),))
    with pytest.raises(TraceError, match="needs a custom derivative that is linear in its cotangent"):
        tg.jvp(lambda c: tg.scan(lambda c, _: (clipped(c), None), c, length=3)[0], (1.0,), (1.0,))


def test_the_trace_does_not_grow_and_keeps_little() -> None:
    def loss(w: Any, x: Any) -> Any:
        return tg.sum(tg.scan(lambda c, row: (tg.tanh(c * w + row), None), w, x)[0])

    def ops(length: int) -> list[Any]:
        module = tg.trace(tg.grad(loss), (3,), (length, 3))
        return [op for op in module.walk() if isinstance(op, TensorOp | ScanOp)]

    assert len(ops(4)) == len(ops(400))
    loops = [op for op in ops(4) if isinstance(op, ScanOp)]
    assert len(loops) == 2
    assert len(loops[0].results) <= 4  # the carry, and what the derivative reads of it


def test_wrong_use() -> None:
    def keep(c: Any, x: Any) -> Any:
        return c, None

    with pytest.raises(OptionError, match="length says how often"):
        tg.scan(keep, 0.0)
    with pytest.raises(OptionError, match="from 0, got -1"):
        tg.scan(keep, 0.0, length=-1)
    with pytest.raises(OptionError, match=r"must be an integer from 0, got 1\.5"):
        untyped.scan(keep, 0.0, length=1.5)
    with pytest.raises(ShapeError, match=r"xs\.b has shape \(4,\), axis 0 should have the extent 3"):
        tg.scan(keep, 0.0, {"a": np.zeros(3), "b": np.zeros(4)})
    with pytest.raises(ShapeError, match="xs is a scalar"):
        tg.scan(keep, 0.0, 1.0)
    with pytest.raises(ShapeError, match=r"xs has shape \(3,\), axis 0 should have the extent 2"):
        tg.scan(keep, 0.0, np.zeros(3), length=2)
    with pytest.raises(ShapeError, match=r"test_control_flow.py:\d+: scan: the carry that the body gives has shape"):
        tg.scan(lambda c, x: (tg.stack([c, c]), None), 0.0, length=2)
    with pytest.raises(DTypeError, match="the carry that the body gives is f32, expected i32"):
        tg.scan(lambda c, x: (c * 0.5, None), 0, length=2)
    with pytest.raises(ShapeError, match="has 0, 1, expected one tensor"):
        tg.scan(lambda c, x: ((c, c), None), 0.0, length=2)
    with pytest.raises(TraceError, match=r"must return \(carry, y\), got a tuple of 3"):
        untyped.scan(lambda c, x: (c, c, c), 0.0, length=2)
    with pytest.raises(TraceError, match="returned str"):
        tg.scan(lambda c, x: (c, "y"), 0.0, length=2)
    carries: list[Any] = []
    tg.scan(lambda c, x: (carries.append(c) or c, None), 0.0, length=2)
    with pytest.raises(TraceError, match="used after that trace ended"):
        tg.sin(carries[0])


def test_cond_runs_one_branch() -> None:
    def choose(x: Any) -> Any:
        return tg.cond(tg.sum(x) > 0.0, lambda x: {"y": tg.log(x)}, lambda x: {"y": x * x}, x)["y"]

    same(choose(np.array([1.0, 2.0])), np.log([1.0, 2.0]), 1e-6)
    same(choose(np.array([1.0, -2.0])), [1.0, 4.0], 1e-6)

    def loss(x: Any) -> Any:
        return tg.sum(choose(x) * x)

    for x in (np.array([1.0, 2.0]), np.array([1.0, -2.0])):
        expected = tg.log if x.sum() > 0 else tg.square
        same(tg.grad(loss)(f64(x)), tg.grad(lambda x, f=expected: tg.sum(f(x) * x))(f64(x)))
        same(tg.hessian(loss)(f64(x)), tg.hessian(lambda x, f=expected: tg.sum(f(x) * x))(f64(x)))


def test_cond_differentiates_what_it_uses_from_around() -> None:
    def loss(w: Any, x: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            return tg.cond(tg.sum(row) > 0.0, lambda: c * w, lambda: c + row), c

        last, rows = tg.scan(body, w, x)
        return tg.sum(last) + tg.sum(rows * rows)

    def python(w: Any, x: Any) -> Any:
        c, rows = w, []
        for t in range(4):
            rows.append(c)
            c = c * w if data[t].sum() > 0 else c + x[t]
        return tg.sum(c) + tg.sum(tg.square(tg.stack(rows)))

    data = RNG.normal(size=(4, 3))
    at = f64(RNG.normal(size=3)), f64(data)
    for gradient, expected in zip(tg.grad(loss, (0, 1))(*at), tg.grad(python, (0, 1))(*at), strict=True):
        same(gradient, expected)
    same(tg.hessian(loss)(*at), tg.hessian(python)(*at))
    same(tg.jvp(loss, at, at)[1], tg.jvp(python, at, at)[1])


def test_repeated_predicates_select() -> None:
    """A Jacobian batches a cond; if its predicate is batched too, it becomes a selection."""
    x = np.array([-1.0, 2.0, 0.5])

    def rows(x: Any) -> Any:
        return tg.scan(lambda c, v: (c, tg.cond(v > 0.0, lambda: v * v, lambda: c * v)), tg.sum(x), x)[1]

    expected = np.diag(np.where(x > 0, 2 * x, x.sum())) + np.where(x > 0, 0, x)[:, None]
    for mode in ("reverse", "forward"):
        same(tg.jacobian(rows, mode=mode)(f64(x)), expected)


def test_cond_wrong_use() -> None:
    with pytest.raises(ShapeError, match=r"predicate must be a scalar, it has shape \(2,\)"):
        tg.cond(np.array([True, False]), lambda: 1.0, lambda: 2.0)
    with pytest.raises(DTypeError, match="predicate must be a bool, it is f32"):
        tg.cond(1.0, lambda: 1.0, lambda: 2.0)
    with pytest.raises(ShapeError, match=r"what the second function gives\.a has shape \(2,\), expected \(\)"):
        tg.cond(True, lambda: {"a": 1.0}, lambda: {"a": np.zeros(2, np.float32)})
    with pytest.raises(DTypeError, match="what the second function gives is i32, expected f32"):
        tg.cond(True, lambda: 1.0, lambda: 2)
    with pytest.raises(ShapeError, match="has a, b, expected a"):
        tg.cond(True, lambda: {"a": 1.0}, lambda: {"a": 1.0, "b": 1.0})
    with pytest.raises(TraceError, match="returned str"):
        tg.cond(True, lambda: "a", lambda: "b")
