"""Derivatives at kinks, poles and ties, and where a function has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from case import f32, i32
from harness import Function, NumpyArray, levels, traced, with_gradient

import tensorgrad as tg
from tensorgrad.dialects.tg import index, reduce
from tensorgrad.dialects.tg.base import TensorOp, integer
from tensorgrad.ops import reduce as reductions
from tensorgrad.ops import shape as shaping
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit
from tensorgrad.transforms.grad import grad

INF, NAN = np.inf, np.nan


def gradients(function: Function, *inputs: NumpyArray) -> list[NumpyArray]:
    """Returns the gradients of the sum of a function by its float arguments, equal at every level."""
    wrt = [position for position, x in enumerate(inputs) if x.dtype.kind == "f"]
    module = with_gradient(traced(lambda *xs: reductions.sum(function(*xs)), inputs), wrt)
    (_, expected), *rest = levels(module, inputs)
    for level, results in rest:
        for actual, correct in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, correct, rtol=1e-6, err_msg=level)
    return expected[1:]


KINKS: list[tuple[str, Callable[..., Any], list[list[float]], list[list[float]]]] = [
    ("relu", tg.relu, [[-1, -0.0, 0.0, 2, INF, -INF]], [[0, 0, 0, 1, 1, 0]]),
    ("relu of NaN", tg.relu, [[NAN]], [[1]]),
    ("abs", tg.abs, [[-1, -0.0, 0.0, 2, INF, -INF]], [[-1, 0, 0, 1, 1, -1]]),
    ("maximum", tg.maximum, [[1, 2, 3], [2, 2, 1]], [[0, 0.5, 1], [1, 0.5, 0]]),
    ("minimum", tg.minimum, [[1, 2, 3], [2, 2, 1]], [[1, 0.5, 0], [0, 0.5, 1]]),
    ("maximum of one tensor", lambda x: tg.maximum(x, x), [[1, -2]], [[1, 1]]),
    ("minimum of one tensor", lambda x: tg.minimum(x, x), [[1, -2]], [[1, 1]]),
    ("maximum with a number", lambda x: tg.maximum(x, 0.0), [[-1, 0, 1]], [[0, 0.5, 1]]),
    ("max with ties", lambda x: reductions.max(x), [[1, 3, 3, 2, 3]], [[0, 1 / 3, 1 / 3, 0, 1 / 3]]),
    ("min with ties", lambda x: reductions.min(x), [[1, 3, 1, 2]], [[0.5, 0, 0.5, 0]]),
    ("max of all infinite", lambda x: reductions.max(x), [[-INF, -INF]], [[0.5, 0.5]]),
    ("max of one infinity", lambda x: reductions.max(x), [[-INF, INF, 0]], [[0, 1, 0]]),
    ("sqrt at 0", tg.sqrt, [[0.0, 4.0]], [[INF, 0.25]]),
    ("log at 0", tg.log, [[0.0, 2.0]], [[INF, 0.5]]),
    ("tanh far out", tg.tanh, [[-100, 100]], [[0, 0]]),
    ("sigmoid far out", tg.sigmoid, [[-200, 200, 0]], [[0, 0, 0.25]]),
    ("sign by abs", lambda x: tg.abs(x) * x, [[0.0, -2.0]], [[0, 4]]),
    ("compare", lambda x: tg.cast(x > 0, "f32"), [[1, -1, 0]], [[0, 0, 0]]),
    ("integer cast", lambda x: tg.cast(tg.cast(x, "i32"), "f32") + x, [[1.5, -2.5]], [[1, 1]]),
    ("wider and back", lambda x: tg.cast(tg.cast(x, "f64") * 3.0, "f32"), [[1.5, -2.5]], [[3, 3]]),
    ("stop gradient", lambda x: tg.stop_gradient(x) * x, [[2.0, -3.0]], [[2, -3]]),
    ("stop gradient everywhere", lambda x: tg.stop_gradient(x * x), [[2.0, -3.0]], [[0, 0]]),
    # As PyTorch: an exponent of 0 has no slope in the base, a base of 0 none in an exponent that is not negative.
    ("power at base 0", tg.power, [[0, 0, 0, 0, 0], [2, 1, 0.5, 0, 3]], [[0, 1, INF, 0, 0], [0, 0, 0, 0, 0]]),
    ("power of a negative base", tg.power, [[-2, -2], [3, 2]], [[12, -4], [NAN, NAN]]),
    ("power at exponent 0", tg.power, [[2, -3, 0.5], [0, 0, 0]], [[0, 0, 0], [np.log(2), NAN, np.log(0.5)]]),
    ("cube at 0", lambda x: x**3, [[0.0, -2.0]], [[0, 12]]),
    ("square at 0", lambda x: x**2, [[0.0]], [[0]]),
    ("zeroth power at 0", lambda x: x**0, [[0.0, 5.0]], [[0, 0]]),
    ("where", lambda x: tg.where(x > 0, x * 2.0, x * 3.0), [[1, -1, 0]], [[2, 3, 3]]),
    # The side that is not taken is differentiated too: its infinite slope times a cotangent of 0 is NaN.
    ("where over a pole", lambda x: tg.where(x > 0, tg.sqrt(x), 0.0), [[0.0, 4.0]], [[NAN, 0.25]]),
    (
        "where around a pole",
        lambda x: tg.where(x > 0, tg.sqrt(tg.where(x > 0, x, 1.0)), 0.0),
        [[0.0, 4.0]],
        [[0, 0.25]],
    ),
    ("fmod at 0", lambda x: tg.fmod(x, 2.0), [[-0.0, 0.0, -3.0]], [[1, 1, 1]]),
    ("x + x", lambda x: x + x, [[2.0]], [[2]]),
    ("x * x", lambda x: x * x, [[3.0]], [[6]]),
    ("x / x", lambda x: x / x, [[3.0]], [[0]]),
]


@pytest.mark.parametrize(
    ("function", "inputs", "expected"), [k[1:] for k in KINKS], ids=[k[0].replace(" ", "_") for k in KINKS]
)
def test_kink(function: Function, inputs: list[list[float]], expected: list[list[float]]) -> None:
    slopes = gradients(function, *[f32(*x) for x in inputs])
    for gradient, correct in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(gradient, f32(*correct), rtol=1e-6)


@pytest.mark.parametrize("kind", [reduce.MaxOp, reduce.MinOp])
def test_ties_share_along_rows_and_columns(kind: type[TensorOp]) -> None:
    ours = reductions.max if kind is reduce.MaxOp else reductions.min
    x = f32(1, 1, 1, 2, 2, 2).reshape(2, 3)
    np.testing.assert_allclose(gradients(lambda x: ours(x, 1), x)[0], np.full((2, 3), 1 / 3), rtol=1e-6)
    winner = 1 if kind is reduce.MaxOp else 0
    expected = np.zeros((2, 3))
    expected[winner] = 1
    np.testing.assert_allclose(gradients(lambda x: ours(x, 0), x)[0], expected)
    expected[winner] = 1 / 3
    np.testing.assert_allclose(gradients(lambda x: ours(x), x)[0], expected, rtol=1e-6)


def test_indices_out_of_range_have_no_derivative() -> None:
    x, indices = f32(1, 2, 3), i32(0, -1, 3, 2, 0, 2**31 - 1)

    def take(x: Tensor, i: Tensor) -> Tensor:
        return emit(index.TakeOp, [x, i], axis=integer(0))

    # The loss is NaN, because out-of-range indices read NaN; the gradient is not.
    assert gradients(take, x, indices)[0].tolist() == [2, 0, 1]
    along = gradients(lambda x, i: emit(index.TakeAlongAxisOp, [x, i], axis=integer(0)), x, indices)
    assert along[0].tolist() == [2, 0, 1]
    updates = f32(1, 2, 3, 4, 5, 6)
    for op in (index.ScatterAddOp, index.ScatterAddAlongAxisOp):
        slopes = gradients(lambda u, i, op=op: emit(op, [u, i], axis=integer(0), extent=integer(3)), updates, indices)
        assert slopes[0].tolist() == [1, 0, 0, 1, 1, 0]


def test_negative_indices_have_the_derivative_of_what_they_name() -> None:
    slopes = gradients(lambda x, i: shaping.take(x, i), f32(1, 2, 3), i32(-1, -1, 0))
    assert slopes[0].tolist() == [1, 0, 2]


EXTREME_ROWS = [
    [1e4, -1e4, 0.0],
    [1e4, 1e4, 1e4 - 1],
    [-1e4, -1e4, -1e4 + 1],
    [-INF, 0.0, 1.0],
    [-INF, -INF, 5.0],
    [88.0, 89.0, -200.0],
]


def exact_softmax(rows: NumpyArray) -> NumpyArray:
    wide = rows.astype(np.float64)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_softmax_is_stable() -> None:
    rows = np.array(EXTREME_ROWS, np.float32)
    probabilities = exact_softmax(rows)
    np.testing.assert_allclose(np.asarray(reductions.softmax(Array(rows))), probabilities, rtol=1e-5, atol=1e-30)
    weights = f32(1, -2, 3)
    expected = probabilities * (weights - (probabilities * weights).sum(-1, keepdims=True))
    actual = gradients(lambda x: reductions.softmax(x) * Array(weights), rows)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_logsumexp_is_stable() -> None:
    rows = np.array(EXTREME_ROWS, np.float32)
    wide = rows.astype(np.float64)
    top = wide.max(-1)
    expected = top + np.log(np.exp(wide - top[:, None]).sum(-1))
    np.testing.assert_allclose(np.asarray(reductions.logsumexp(Array(rows), -1)), expected, rtol=1e-6)
    np.testing.assert_allclose(
        gradients(lambda x: reductions.logsumexp(x, -1), rows)[0], exact_softmax(rows), rtol=1e-5, atol=1e-30
    )


def test_logsumexp_of_infinities() -> None:
    assert np.asarray(reductions.logsumexp(Array(f32(-INF, -INF)))) == -INF
    assert np.asarray(reductions.logsumexp(Array(f32(INF, 1)))) == INF
    assert np.isnan(np.asarray(reductions.logsumexp(Array(f32(NAN, 1)))))


def test_log_softmax_is_stable() -> None:
    rows = np.array(EXTREME_ROWS, np.float32)
    wide = rows.astype(np.float64)
    top = wide.max(-1, keepdims=True)
    expected = wide - top - np.log(np.exp(wide - top).sum(-1, keepdims=True))
    np.testing.assert_allclose(np.asarray(reductions.log_softmax(Array(rows))), expected, rtol=1e-6, atol=1e-6)
    # The likelihood of one class, so that no infinite term meets another.
    picked = gradients(lambda x: reductions.log_softmax(x)[:, 2], rows)[0]
    np.testing.assert_allclose(picked, np.array([0, 0, 1]) - exact_softmax(rows), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", range(1, 6))
def test_derivatives_nest(order: int) -> None:
    def polynomial(x: Tensor) -> Tensor:
        return x**5 + tg.sin(x) * 2.0

    function: Function = polynomial
    for _ in range(order):
        function = grad(function)
    x = 0.7
    factor = np.prod([5 - i for i in range(order)]) * x ** (5 - order)
    expected = factor + 2 * np.sin(x + order * np.pi / 2)
    assert float(function(Array(np.array(x)))) == pytest.approx(expected, rel=1e-12)


def test_a_value_from_outside_is_a_constant_to_an_inner_derivative() -> None:
    def outer(x: Tensor) -> Tensor:
        return grad(lambda y: x * y * y)(x * 2.0)

    # d/dy (x y^2) at y = 2x is 4 x^2; its derivative is 8x.
    assert float(grad(outer)(Array(np.array(3.0)))) == pytest.approx(24.0)


def test_what_does_not_matter_has_gradient_zero() -> None:
    slopes = gradients(lambda x, y: x * 2.0, f32(1, 2), f32(3, 4, 5))
    assert slopes[0].tolist() == [2, 2]
    assert slopes[1].tolist() == [0, 0, 0]


def _nested(function: Callable[..., Any], orders: int) -> Callable[..., Any]:
    """Returns the derivative of an order, by the first argument and of the sum of each result."""
    for _ in range(orders):
        function = grad(lambda x, *rest, f=function: tg.sum(f(x, *rest)))
    return function


TIES: dict[str, tuple[Callable[..., Any], float, list[float]]] = {
    "logaddexp": (lambda x: tg.logaddexp(x, x * 0 + 2.0), 2.0, [0.5, 0.25, 0.0, -0.125]),
    "logsumexp": (lambda x: tg.logsumexp(tg.stack([x, x * 0 + 2.0]), 0), 2.0, [0.5, 0.25, 0.0, -0.125]),
    "softmax": (lambda x: tg.softmax(tg.stack([x, x * 0 + 2.0]), 0)[0], 2.0, [0.25, 0.0, -0.125]),
    "logcumsumexp": (lambda x: tg.logcumsumexp(tg.stack([x, x * 0 + 2.0]), 0)[1], 2.0, [0.5, 0.25, 0.0]),
    "softplus": (tg.softplus, 0.0, [0.5, 0.25, 0.0, -0.125]),
    "log_sigmoid": (tg.log_sigmoid, 0.0, [0.5, -0.25, 0.0, 0.125]),
    "loss of logits": (
        lambda x: tg.binary_cross_entropy_with_logits(x, x * 0 + 0.3, "none"),
        0.0,
        [0.2, 0.25, 0.0, -0.125],
    ),
    "sinc": (tg.sinc, 0.0, [0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5, 0.0, -(np.pi**6) / 7]),
    "sinc near 0": (tg.sinc, 1e-5, [-(np.pi**2) / 3e5, -(np.pi**2) / 3, np.pi**4 / 5e5]),
    "xlogy": (lambda x: tg.xlogy(x, x * 2 + 3.0), 0.0, [np.log(3), 4 / 3, -4 / 3]),
    "xlogy in its second argument": (lambda x: tg.xlogy(x * 0, x), 2.0, [0.0, 0.0]),
    "hypot": (lambda x: tg.hypot(x, x * 0 + 1.0), 0.0, [0.0, 1.0, 0.0, -3.0]),
    "hypot of equals": (lambda x: tg.hypot(x, x), 1.0, [np.sqrt(2), 0.0]),
    "hypot at the origin": (lambda x: tg.hypot(x, x * 0), 0.0, [0.0, 0.0, 0.0]),
    "norm at the origin": (lambda x: tg.norm(tg.stack([x, x * 0]), 2, 0), 0.0, [0.0, 0.0, 0.0]),
    "norm of order 4": (lambda x: tg.norm(tg.stack([x, x * 0 + 1.0]), 4, 0), 0.0, [0.0, 0.0, 0.0, 6.0]),
    "norm of order 1/2": (lambda x: tg.norm(tg.stack([x, x * 0 + 1.0]), 0.5, 0), 0.0, [0.0, 0.0]),
    "std of equals": (lambda x: tg.std(tg.stack([x, x * 0 + 1.0])), 1.0, [0.0, 0.0]),
    "atan2 of equals": (lambda x: tg.atan2(x, x * 0 + 1.0), 1.0, [0.5, -0.5, 0.5]),
    "atan2 at the origin": (lambda x: tg.atan2(x, x * 0), 0.0, [0.0, 0.0]),
    "huber": (lambda x: tg.huber(x, x * 0, "none"), 0.0, [0.0, 1.0, 0.0]),
    "abs": (tg.abs, 0.0, [0.0, 0.0]),
    "square of maximum": (lambda x: tg.maximum(x, x * 0) ** 2, 0.0, [0.0, 0.5]),
    "square of relu": (lambda x: tg.relu(x) ** 2, 0.0, [0.0, 0.0]),
    "square": (lambda x: x**2, 0.0, [0.0, 2.0, 0.0]),
    "prod": (lambda x: tg.prod(tg.stack([x, x, x])), 0.0, [0.0, 0.0, 6.0]),
}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", TIES)
def test_derivatives_at_ties(name: str) -> None:
    """Of every order, where a derivative has a maximum, an absolute value or a comparison in it; and forwards."""
    function, at, expected = TIES[name]
    x = Array(np.array(at))
    actual = [float(_nested(function, order)(x)) for order in range(1, len(expected) + 1)]
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10)
    _, tangent = tg.jvp(_nested(function, 1), (x,), (Array(np.array(1.0)),))
    np.testing.assert_allclose(float(tangent), expected[1], rtol=1e-9, atol=1e-10)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_second_derivatives_at_ties_on_devices(device: Any) -> None:
    """In one program, in f32."""
    points = {name: np.float32(at) for name, (_, at, _) in TIES.items()}
    second = {name: _nested(function, 2) for name, (function, _, _) in TIES.items()}
    derivatives: Any = tg.jit(lambda xs: {name: second[name](xs[name]) for name in second}, device=device)(points)
    for name, (_, _, expected) in TIES.items():
        np.testing.assert_allclose(float(derivatives[name]), expected[1], rtol=1e-5, atol=2e-6, err_msg=name)


def test_mixed_derivatives_of_xlogy_and_logaddexp() -> None:
    def mixed(function: Callable[..., Any], x: float, y: float) -> float:
        by_x = grad(lambda x, y: tg.sum(function(x, y)))
        return float(grad(lambda y, x: tg.sum(by_x(x, y)))(Array(np.array(y)), Array(np.array(x))))

    assert mixed(tg.xlogy, 0.0, 2.0) == pytest.approx(0.5)
    assert mixed(tg.logaddexp, 1.0, 1.0) == pytest.approx(-0.25)


ROWS_OF_NOTHING = np.array([[-INF, -INF, -INF], [0.0, 1.0, -INF]])
WHERE = np.array([[True, False, True], [True, True, True]])
NOTHING: dict[str, tuple[Callable[..., Any], float]] = {
    "softmax": (tg.softmax, NAN),
    "softmax where": (lambda x: tg.softmax(x, where=WHERE), 0.0),
    "softmax where true": (lambda x: tg.softmax(x, where=True), 0.0),
    "log_softmax": (tg.log_softmax, NAN),
    "log_softmax where true": (lambda x: tg.log_softmax(x, where=True), -INF),
    "logsumexp": (lambda x: tg.logsumexp(x, -1), -INF),
    "logsumexp where": (lambda x: tg.logsumexp(x, -1, where=WHERE), -INF),
    "logcumsumexp": (lambda x: tg.logcumsumexp(x, -1), -INF),
    "logaddexp": (lambda x: tg.logaddexp(x, x), -INF),
    "cross_entropy": (lambda x: tg.cross_entropy(x, i32(1, 1), "none"), NAN),
    "cross_entropy of probabilities": (lambda x: tg.cross_entropy(x, f32(0, 1, 0, 0, 1, 0).reshape(2, 3), "none"), NAN),
}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", NOTHING)
def test_rows_of_minus_infinity(name: str) -> None:
    """Derivatives of what is finite are finite, in such rows too: a row that is discarded spoils no parameter."""
    function, nothing = NOTHING[name]
    value = np.asarray(function(Array(ROWS_OF_NOTHING)))
    np.testing.assert_array_equal(value[0], np.full_like(value[0], nothing))
    finite = np.isfinite(value)
    assert finite[1].any()

    def finite_part(x: Tensor) -> Tensor:
        return tg.where(finite, function(x), 0.0)

    (slopes,) = gradients(finite_part, ROWS_OF_NOTHING.astype(np.float32))
    assert np.isfinite(slopes).all() and not slopes[0].any()
    weights = Array(np.linspace(1, 2, 6).reshape(2, 3))
    second = grad(lambda x: tg.sum(_nested(finite_part, 1)(x) * weights))(Array(ROWS_OF_NOTHING))
    assert np.isfinite(np.asarray(second)).all()
