"""QR factors compared with NumPy, reconstruction, and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError

SHAPES = [(1, 1), (3, 3), (5, 2), (2, 5), (4, 1), (1, 4), (2, 3, 4, 3), (2, 3, 4), (9, 8)]
RANDOM = generator(0)


def transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def check_factors(x: Any, q: Any, r: Any, tolerance: float) -> None:
    """Checks orthonormal columns, a triangular factor with nonnegative diagonal, and their product."""
    q, r = np.asarray(q), np.asarray(r)
    assert q.dtype == r.dtype == x.dtype
    np.testing.assert_allclose(
        transposed(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)), atol=tolerance
    )
    np.testing.assert_allclose(q @ r, x, atol=tolerance * max(1.0, abs(x).max(initial=0.0)))
    assert np.array_equal(r, np.triu(r)) and (np.diagonal(r, 0, -2, -1) >= 0).all()


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_those_of_numpy(shape: tuple[int, ...], mode: Any) -> None:
    x = RANDOM.normal(size=shape)
    factors, expected = tg.linalg.qr(tg.array(x, "f64"), mode=mode), np.linalg.qr(x, mode=mode)
    check_factors(x, factors.Q, factors.R, 1e-14)
    signs = np.sign(np.diagonal(expected.R, 0, -2, -1))
    count = signs.shape[-1]
    np.testing.assert_allclose(factors.Q[..., :count], expected.Q[..., :count] * signs[..., None, :], atol=1e-13)
    np.testing.assert_allclose(factors.R[..., :count, :], expected.R[..., :count, :] * signs[..., None], atol=1e-13)
    assert factors.Q.shape == expected.Q.shape and factors.R.shape == expected.R.shape


@pytest.mark.in_turns(6, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_factors_on_devices(device: Any, mode: Any) -> None:
    x = RANDOM.normal(size=(2, 4, 3)).astype(np.float32)
    q, r = tg.jit(lambda x: tuple(tg.linalg.qr(x, mode=mode)), device=device)(x)
    check_factors(x, q, r, 1e-6)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((3, 2)),
        np.eye(3),
        -np.eye(3),
        np.ones((4, 3)),
        np.outer(np.arange(4.0), [1.0, 0.0, 2.0]),
        np.diag([1e200, 1.0, 1e-200]) + np.triu(np.full((3, 3), 1e-200)),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros((0, 2, 2)),
    ],
    ids=["zeros", "identity", "negative", "ones", "rank one", "far apart", "no rows", "no columns", "no matrices"],
)
def test_factors_of_special_matrices(x: Any) -> None:
    modes: tuple[Any, ...] = ("reduced", "complete")
    for mode in modes:
        q, r = tg.linalg.qr(tg.array(x, "f64"), mode=mode)
        check_factors(x, q, r, 1e-14)
    if np.array_equal(x, np.eye(3)):
        assert np.array_equal(tg.linalg.qr(tg.array(x)).Q, x)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("shape", "mode"), [((3, 3), "reduced"), ((4, 2), "reduced"), ((2, 3), "reduced"), ((3, 2), "complete")]
)
def test_derivatives_of_factors(shape: tuple[int, ...], mode: Any) -> None:
    x = RANDOM.normal(size=(2, *shape))
    tg.testing.check_grads(lambda x: tuple(tg.linalg.qr(x, mode=mode)), (x,), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_derivatives_where_nothing_is_left_to_reflect() -> None:
    """The matrix is already triangular, but varies to first order below the diagonal."""
    x = np.array([[2.0, 1.0, 3.0], [0.0, -1.5, 0.5], [0.0, 0.0, 1.0]])
    tg.testing.check_grads(lambda x: tuple(tg.linalg.qr(x)), (x,), rtol=1e-5, atol=1e-5)
    slope = tg.grad(lambda x: tg.sum(tg.linalg.qr(x).R))(np.zeros((3, 2)))
    assert np.isfinite(np.asarray(slope)).all()


def test_loops_do_not_grow_with_the_matrix() -> None:
    lengths = {len(str(tg.trace(lambda x: tuple(tg.linalg.qr(x)), (n, n))).splitlines()) for n in (8, 64)}
    assert len(lengths) == 1


def test_what_has_no_factors_is_an_error() -> None:
    unknown: Any = "raw"
    with pytest.raises(OptionError, match="qr: mode must be 'reduced' or 'complete', got 'raw'"):
        tg.linalg.qr(tg.ones((2, 2)), mode=unknown)
    with pytest.raises(ShapeError, match=r"qr: takes an array of two axes or more, not \(2,\)"):
        tg.linalg.qr(tg.ones(2))
    with pytest.raises(DTypeError, match="qr: is computed in f32 or f64, not f16"):
        tg.linalg.qr(tg.ones((2, 2), dtype=tg.f16))


def test_below_the_diagonal_are_zeros_without_a_sign() -> None:
    upper = np.asarray(tg.linalg.qr(tg.array([[1.0, 1.0], [1.0, 1.0000001]])).R)
    assert upper[1, 0] == 0 and not np.signbit(upper[1, 0]) and (np.diag(upper) >= 0).all()
