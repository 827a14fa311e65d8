"""NumPy's operators and functions on tensors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import DTypeError, ShapeError, TraceError
from tensorgrad.ops import numpy_functions

X = np.array([[0.5, -0.25, 2.0], [1.0, 0.75, -3.0]], np.float32)


def test_every_elementwise_function_has_its_counterpart():
    names = {*numpy_functions.SAME, *numpy_functions.OPERATORS}
    for name in sorted(names):
        ufunc: Any = getattr(np, name)
        assert isinstance(ufunc, np.ufunc)
        whole = any(part in name for part in ("bitwise", "shift", "invert"))
        value = np.array([1, 2, 0], np.int32) if whole else np.array([0.5, 0.25, 1.0], np.float32)
        values = [value[::-1] if i else value for i in range(ufunc.nin)]
        if name == "arccosh":
            values = [values[0] + 1]
        with np.errstate(all="ignore"):
            expected = ufunc(*values)
        for position in range(ufunc.nin):  # the other operand stays numpy's
            operands = [tg.array(v) if i == position else v for i, v in enumerate(values)]
            jitted = tg.jit(
                lambda x, u=ufunc, o=operands, p=position: u(*(x if i == p else v for i, v in enumerate(o))),
                device="numpy",
            )
            for results in (ufunc(*operands), jitted(values[position])):
                for part, correct in zip(results, expected, strict=True) if name == "divmod" else [(results, expected)]:
                    assert isinstance(part, tg.Array), name
                    np.testing.assert_allclose(np.asarray(part), correct, rtol=1e-6, err_msg=name)
                    assert part.dtype == correct.dtype, name


def test_operators_of_numpy_are_ours():
    scale, matrix = np.float32(2), np.ones((4, 2), np.float32)

    def f(x: Any) -> Any:
        left, right = matrix @ x, x.T @ X
        return {
            "a": scale * x,
            "b": X - x,
            "c": left,
            "d": right,
            "e": np.greater(X, x),
            "f": -(X**x),
            "g": np.float64(3) / x,
        }

    for results in (tg.jit(f)(X), f(tg.array(X))):
        with np.errstate(all="ignore"):
            expected = f(X)
        for name, value in expected.items():
            assert isinstance(results[name], tg.Array)
            np.testing.assert_allclose(np.asarray(results[name]), value, rtol=1e-6)
    assert np.allclose(tg.grad(lambda x: np.square(np.sin(x)).sum())(X), np.sin(2 * X), atol=1e-6)


def test_numpy_reads_concrete_tensors():
    x = tg.array(X)
    for function in (np.mean, np.sum, np.max, np.std, np.argsort, np.linalg.norm, np.ravel):
        assert isinstance(function(x), (np.ndarray, np.generic))
        assert np.array_equal(function(x), function(X))
    assert np.array_equal(np.concatenate([x, X], axis=1), np.concatenate([X, X], axis=1))
    assert np.allclose(np.cbrt(x), np.cbrt(X)) and np.add.reduce(x, axis=0).tolist() == X.sum(0).tolist()
    total = X.copy()
    total += x
    np.add(x, 1, out=total, where=x > 0)
    assert np.array_equal(total, np.where(X > 0, X + 1, 2 * X))


REFUSED = [
    (lambda x: np.mean(x), "np.mean .*use tg.mean"),
    (lambda x: np.max(x, axis=1), "np.max .*use tg.max"),
    (lambda x: np.concatenate([X, x]), "np.concatenate .*use tg.concat"),
    (lambda x: np.linalg.norm(x), "np.linalg.norm .*use tg.norm"),
    (lambda x: np.linalg.svd(x), "np.linalg.svd .*use tg.linalg.svd"),
    (lambda x: np.linalg.eig(x), "np.linalg.eig .*compose it"),
    (lambda x: np.fft.fft(x), "np.fft.fft .*compose it"),
    (lambda x: np.cbrt(x), "np.cbrt .*compose it"),
    (lambda x: np.add.reduce(x), "np.add.reduce .*use tg.sum"),
    (lambda x: np.add.accumulate(x), "np.add.accumulate .*use tg.add"),
    (lambda x: np.exp(x, dtype=np.float64), "np.exp .*use tg.exp"),
    (lambda x: np.add(X, x, out=X.copy()), "np.add: .*written into a numpy array"),
    (lambda x: np.asarray(x), "conversion to a numpy array"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_numpy_cannot_do_with_traced_tensors(call, message):
    with pytest.raises(TraceError, match=rf"^{re.escape(__file__)}:\d+: {message}"):
        tg.trace(call, (2, 3))


def test_masks():
    x, known = tg.array(X), np.array([True, False, True])
    assert np.array_equal(x[:, known], X[:, known]) and np.array_equal(x[[False, True]], X[[False, True]])
    assert np.array_equal(tg.jit(lambda x: x[..., known])(X), X[:, known])
    assert np.array_equal(x.at[:, known].set(7.0), np.where(known, 7, X))
    assert np.array_equal(x[:, tg.array(X)[0] > 0], X[:, X[0] > 0])
    assert x[:, np.zeros(3, bool)].shape == (2, 0)
    with pytest.raises(DTypeError, match=r"how many elements a mask selects.*tg\.where") as caught:
        tg.trace(lambda x: x[x > 0], (3,))
    assert __file__ in str(caught.value)
    assert np.array_equal(x[X > 0], X[X > 0])
    with pytest.raises(ShapeError, match=r"a mask of shape \(2,\) for the axes of \(2, 3\) from 1 on"):
        _ = x[:, [True, False]]


def test_powers_of_integers():
    counts = tg.array([1, 2, 3])
    assert np.array_equal(counts**3, [1, 8, 27]) and np.allclose(counts**0.5, np.sqrt([1, 2, 3]))
    calls: list[tuple[Any, list[int]]] = [
        (lambda x: x**x, [1, 4, 27]),
        (lambda x: 2**x, [2, 4, 8]),
        (lambda x: np.array([3]) ** x, [3, 9, 27]),
        (lambda x: np.power(x, x), [1, 4, 27]),
    ]
    for call, expected in calls:
        assert (
            np.asarray(call(counts)).tolist() == np.asarray(tg.jit(call, device="numpy")(counts)).tolist() == expected
        )
    with pytest.raises(DTypeError, match="integers take a constant exponent that is not negative; cast first"):
        tg.trace(lambda x: x**-1, tg.spec(3, "i32"))


def test_a_number_beside_integers_is_not_rounded() -> None:
    x = tg.array([1, 4, 9], "i16")
    for value in (1.5, np.array([1.5], np.float32)):
        for actual, expected in (
            (tg.diff(x, prepend=value), np.diff([1, 4, 9], prepend=value)),
            (tg.diff(x, append=value), np.diff([1, 4, 9], append=value)),
        ):
            np.testing.assert_array_equal(np.asarray(actual), expected)
            assert actual.dtype == np.float32
    assert tg.diff(x, prepend=0, append=2).dtype == np.int16 and tg.diff(x, prepend=0).tolist() == [1, 3, 5]
    assert tg.diff(tg.array([1.0, 2.0]), prepend=[0]).tolist() == [1.0, 1.0]
    with pytest.raises(DTypeError, match="diff: i16 and u64 have no common type"):
        tg.diff(x, append=tg.ones(1, "u64"))
