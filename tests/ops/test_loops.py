"""`while_loop` and `fori_loop`: values on every device, derivatives, bounds, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.errors import DTypeError, OptionError, ShapeError, TraceError

untyped: Any = tg
"""The package as code without types calls it."""

DEVICES: list[tg.DeviceName] = ["numpy", "cpu", "wgpu"]


def grown(x: Any, w: Any, loop: Callable[..., Any]) -> Any:
    """Grows a vector, by the number of steps too, until its norm is 10."""
    start = {"steps": 0, "x": x}
    last = loop(
        lambda state: tg.norm(state["x"]) < 10.0,
        lambda state: {"steps": state["steps"] + 1, "x": state["x"] * 1.5 + tg.sin(w * state["x"])},
        start,
    )
    return last["x"] * tg.cast(last["steps"], last["x"].dtype), last["steps"]


def python(condition: Any, body: Any, state: Any) -> Any:
    while bool(condition(state)):
        state = body(state)
    return state


def bounded(condition: Any, body: Any, state: Any) -> Any:
    return tg.while_loop(condition, body, state, at_most=7)


X = np.array([0.5, -1.0, 0.25], np.float32)
STEPS = 4
"""How often the body runs from there on."""


def test_outside_a_trace_it_is_the_loop_of_python() -> None:
    expected, steps = grown(X, 0.3, lambda c, b, s: python(c, b, {"steps": tg.array(0), "x": tg.array(X)}))
    assert int(steps) == STEPS
    for loop in (tg.while_loop, bounded):
        actual, steps = grown(X, 0.3, loop)
        assert int(steps) == STEPS and steps.dtype == tg.i32 and np.array_equal(actual, expected)
    assert float(tg.while_loop(lambda x: x > 5.0, lambda x: x[7], 3.0)) == 3.0, "the body is not called"


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_a_bounded_loop_is_compiled(device: tg.DeviceName) -> None:
    expected, _ = grown(X, 0.3, tg.while_loop)
    function = tg.jit(lambda x: grown(x, 0.3, bounded), device=device)
    actual, steps = function(X)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert int(steps) == STEPS
    actual, steps = function(100 * X)
    assert int(steps) == 0, "the state is the first one if the condition never holds"
    cut = tg.jit(lambda x: tg.while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, x, at_most=3), device=device)
    assert [float(cut(np.float32(x))) for x in (1.0, 30.0, 101.0)] == [8.0, 120.0, 101.0]
    assert float(tg.jit(lambda x: tg.while_loop(lambda x: x < 9.0, tg.exp, x, at_most=0))(np.float32(1))) == 1.0


def test_it_is_one_scan_of_one_branch() -> None:
    ops = list(tg.trace(lambda x: grown(x, 0.3, bounded), X).walk())
    assert sum(isinstance(op, ScanOp) for op in ops) == sum(isinstance(op, CondOp) for op in ops) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_derivatives_are_those_of_the_loop_of_python(device: tg.DeviceName) -> None:
    def loss(x: Any, w: Any) -> Any:
        return tg.sum(tg.cos(grown(x, w, bounded)[0]))

    leaves = [tg.tensor(value, "f32", device="numpy", requires_grad=True) for value in (X, 0.3)]
    tg.sum(tg.cos(grown(leaves[0], leaves[1], tg.while_loop)[0])).backward()
    gradients = tg.jit(tg.grad(loss, (0, 1)), device=device)(X, np.float32(0.3))
    for leaf, gradient in zip(leaves, gradients, strict=True):
        np.testing.assert_allclose(gradient, leaf.grad, rtol=2e-3, atol=2e-3)


@pytest.mark.nightly
def test_derivatives_are_central_differences() -> None:
    tg.testing.check_grads(lambda x, w: grown(x, w, bounded)[0], (X, 0.3), rtol=1e-5)
    tg.testing.check_grads(lambda x: tg.fori_loop(1, 4, lambda i, y: tg.sin(y) * i + x, x), (X,))


def root(a: Any) -> Any:
    return tg.while_loop(lambda x: tg.abs(x * x - a) > 1e-5 * a, lambda x: (x + a / x) / 2, a, at_most=20)


def test_each_example_of_a_batch_ends_by_itself() -> None:
    a = np.array([2.0, 4.0, 9.0, 100.0, 0.3], np.float32)
    np.testing.assert_allclose(tg.vmap(root)(a), np.sqrt(a), rtol=1e-5)
    np.testing.assert_allclose(tg.vmap(tg.grad(root))(a), 0.5 / np.sqrt(a), rtol=1e-3)


@pytest.mark.in_turns(3, 2)
@pytest.mark.parametrize("device", DEVICES)
def test_loops_over_integers(device: tg.DeviceName) -> None:
    def body(i: Any, state: Any) -> Any:
        return state[0] + i, state[1] * 2.0

    for lower, upper in ((0, 5), (-2, 3), (3, 3), (4, 1)):
        expected = [sum(range(lower, upper)), 2.0 ** len(range(lower, upper))]
        fixed = tg.jit(lambda x, a=lower, b=upper: tg.fori_loop(a, b, body, (0, x)), device=device)(np.float32(1))
        traced = tg.jit(lambda a, b, x: tg.fori_loop(a, b, body, (0, x), at_most=6), device=device)
        for results in (
            fixed,
            traced(np.int32(lower), np.int32(upper), np.float32(1)),
            tg.fori_loop(lower, upper, body, (0, 1.0)),
        ):
            assert [float(part) for part in results] == expected
    assert [float(part) for part in tg.fori_loop(0, 9, body, (0, 1.0), at_most=2)] == [1.0, 4.0]


def below(x: Any) -> Any:
    return x < 3.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: tg.while_loop(below, lambda x: x + 1.0, x), TraceError, "needs a bound: at_most= says how often"),
        (lambda x: tg.fori_loop(0, tg.cast(x, "i32"), lambda i, s: s, x), TraceError, "a bound is traced, so at_most="),
        (lambda x: tg.while_loop(below, lambda x: (x,), x, 3), ShapeError, "the state that the body gives has 0, exp"),
        (lambda x: tg.while_loop(below, lambda x: x[None], x, 3), ShapeError, r"has shape \(1,\), expected \(\)"),
        (lambda x: tg.while_loop(below, lambda x: tg.cast(x, "i32"), x, 3), DTypeError, "is i32, expected f32"),
        (lambda x: tg.while_loop(lambda x: x, tg.exp, x, 3), DTypeError, "the condition must be a bool, it is f32"),
        (lambda x: tg.while_loop(lambda x: x[None] < 3, tg.exp, x, 3), ShapeError, "the condition must be a scalar"),
        (lambda x: tg.while_loop(below, lambda x: "x", x, 3), TraceError, "returned str"),
        (lambda x: tg.while_loop(below, tg.exp, x, -1), OptionError, "at_most must be an integer from 0, got -1"),
        (lambda x: untyped.while_loop(True, tg.exp, x), TraceError, "while_loop takes a function, got True"),
        (lambda x: tg.fori_loop(0, 2.0, lambda i, s: s, x), DTypeError, "a bound must be an integer, it is f32"),
        (lambda x: tg.fori_loop(0, 2, lambda i, s: s[None], x), ShapeError, "fori_loop: the state that the body gives"),
    ],
)
def test_errors_name_the_line(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        tg.grad(call)(2.0)
    assert str(caught.value).startswith(f"{__file__}:")
    if error is not TraceError and "takes" not in message:
        with pytest.raises(error, match=message):
            call(tg.array(2.0))
