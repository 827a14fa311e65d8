"""`tg.testing`: derivatives compared with differences, values with values, and error messages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg

HERE = "^" + re.escape(__file__) + r":\d+: "
X = np.array([[0.5, -1.0, 2.0], [0.25, 1.5, -0.75]], np.float32)


def wrong(factor: float) -> Any:
    """`x ** 3` with a derivative that is off by a factor."""
    cube = tg.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, x), lambda x, g: (factor * 3.0 * x**2 * g,))
    return cube


def test_right_derivatives() -> None:
    tg.testing.check_grads(lambda x, y: tg.sin(x) @ tg.exp(y), (X, X.T), order=3)
    tg.testing.check_grads(lambda tree: {"a": tree["x"] * tree["y"][0], "b": 3}, ({"x": 2.0, "y": (X, [1, 2])},))
    tg.testing.check_grads(lambda x, i: x[i], (X, np.array([1, 1, 0], np.int32)), modes=("fwd",))
    tg.testing.check_grads(wrong(1.0), (X,), modes=["rev"])


@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_a_wrong_first_derivative(mode: str) -> None:
    element = r" of element \(0, 0\) of result 0" if mode == "fwd" else ""
    message = (
        rf"check_grads: derivative 1 \({mode}\){element} by args\[1\]\.x, along a random direction, is [-\d.]+; "
        r"central differences are [-\d.]+, and [-\de.]+ is allowed between them$"
    )
    with pytest.raises(AssertionError, match=HERE + message):
        tg.testing.check_grads(lambda y, tree: wrong(1.001)(tree["x"]) + y, (X, {"x": X}), modes=(mode,))
    tg.testing.check_grads(wrong(1.001), (X,), order=1, modes=(mode,), rtol=0.01)


def test_a_wrong_second_derivative() -> None:
    """The residual is a constant, so the first derivative is right and the second is wrong."""
    cube = tg.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, tg.stop_gradient(x)), lambda x, g: (3.0 * x**2 * g,))
    tg.testing.check_grads(cube, (X,), order=1)
    with pytest.raises(AssertionError, match=HERE + r"check_grads: derivative 2 \(rev of rev\) by args\[0\], along"):
        tg.testing.check_grads(cube, (X,))


def test_a_derivative_that_is_not_a_number() -> None:
    with pytest.raises(AssertionError, match=r"is nan; central differences are"):
        tg.testing.check_grads(lambda x: tg.where(x > 0.0, tg.sqrt(x), 0.0), (X,))


@pytest.mark.parametrize(
    ("kind", "message", "call"),
    [
        (
            tg.errors.OptionError,
            "order must be a positive integer, got 0",
            lambda: tg.testing.check_grads(tg.sin, (X,), 0),
        ),
        (
            tg.errors.OptionError,
            r"modes are some of rev, fwd, not \('reverse',\)",
            lambda: tg.testing.check_grads(tg.sin, (X,), modes=("reverse",)),
        ),
        (tg.errors.DTypeError, "no argument holds floats", lambda: tg.testing.check_grads(tg.sin, (np.array([1, 2]),))),
        (tg.errors.DTypeError, "no result is a float", lambda: tg.testing.check_grads(lambda x: x > 0, (X,))),
    ],
)
def test_what_cannot_be_checked(kind: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(kind, match=HERE + "check_grads: " + message):
        call()


def test_close() -> None:
    tg.testing.assert_close(tg.array(X), X)
    tg.testing.assert_close(tg.array(X) * (1 + 1e-6), X.astype(np.float64))
    tg.testing.assert_close({"a": (tg.array([1, 2]), 3)}, {"a": (np.array([1, 2]), 3)})
    tg.testing.assert_close(tg.array([1.0, np.inf]), [1.05, np.inf], rtol=0.1)
    tg.testing.assert_close(tg.array([np.nan]), [np.nan], equal_nan=True)
    tg.testing.assert_close(np.ones(2, np.float16), [1.0005, 1.0])
    tg.testing.assert_close(tg.zeros((0, 3)), np.zeros((0, 3)))


def test_what_is_not_close() -> None:
    moved = X.copy()
    moved[1, 2] += 0.25
    moved[0, 1] += 0.125
    for actual, expected, message in (
        (
            {"x": moved},
            {"x": tg.array(X)},
            r"'x': 2 of 6 elements differ \(33.3%\); the greatest difference is 0.25 at \(1, 2\): -0.5, expected "
            r"-0.75, relative 0.333 at \(1, 2\): -0.5, expected -0.75; allowed are rtol=1.3e-06, atol=1e-05$",
        ),
        (tg.ones((2, 3)), tg.ones(3), r"shape \(2, 3\), expected \(3,\)$"),
        ({"x": 1.0}, {"y": 1.0}, "the trees differ: leaves x, expected y$"),
        ((tg.array(1), 2.0), (2, 2.0), r"'0': 1 of 1 elements differ \(100%\); the greatest difference is 1: 1, expec"),
        (tg.array([np.nan]), [np.nan], r"1 of 1 elements differ \(100%\); the greatest difference is nan at \(0,\)"),
        (tg.array([1.0]), [np.inf], r"the greatest difference is inf at \(0,\): 1.0, expected inf, relative"),
        (tg.array([1.0, 2.0]), [np.inf, 2.0], "1 of 2"),
        (np.array([3], np.int32), np.array([4], np.int32), "allowed are rtol=0, atol=0$"),
    ):
        with pytest.raises(AssertionError, match=HERE + "assert_close: .*" + message):
            tg.testing.assert_close(actual, expected)
    with pytest.raises(AssertionError, match=r"allowed are rtol=0, atol=0\.2$"):
        tg.testing.assert_close(moved, X, atol=0.2)
    with pytest.raises(AssertionError, match="1 of 1"):
        tg.testing.assert_close(1.0, np.inf, rtol=1.0)
