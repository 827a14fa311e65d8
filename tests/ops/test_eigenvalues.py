"""Eigenvalues and eigenvectors of symmetric matrices: compared with NumPy, reconstruction, and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import DTypeError, ShapeError

RANDOM = generator(0)


def transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def symmetric(*shape: int) -> Any:
    x = RANDOM.normal(size=shape)
    return x + transposed(x)


def with_eigenvalues(values: Any) -> Any:
    q = np.linalg.qr(RANDOM.normal(size=(len(values), len(values))))[0]
    x = q * values @ q.T
    return (x + x.T) / 2


def check_eigen(x: Any, values: Any, vectors: Any) -> None:
    """Checks ascending values as NumPy's, orthonormal vectors, and their product, up to `4 n eps`."""
    values, vectors = np.asarray(values), np.asarray(vectors)
    assert values.dtype == vectors.dtype == x.dtype and vectors.shape == x.shape
    rounding = 4 * x.shape[-1] * np.finfo(x.dtype).eps
    tolerance = rounding * abs(values).max(initial=0.0)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), rtol=0, atol=tolerance)
    assert abs(transposed(vectors) @ vectors - np.eye(x.shape[-1])).max(initial=0.0) <= rounding
    assert abs(vectors * values[..., None, :] @ transposed(vectors) - x).max(initial=0.0) <= tolerance


@pytest.mark.parametrize(
    "x",
    [
        symmetric(1, 1),
        symmetric(2, 2),
        symmetric(7, 7),
        symmetric(2, 3, 4, 4),
        np.zeros((3, 3)),
        np.eye(4),
        np.ones((5, 5)),
        np.diag([3.0, -1.0, 2.0]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
        np.diag([1e200, 1.0, 1e-200]),
        with_eigenvalues([1.0, 1.0, 1.0, 2.0, 2.0, -1.0, -1.0]),
        with_eigenvalues(10.0 ** -np.linspace(0, 12, 9)),
    ],
    ids=[
        *("one", "two", "odd", "batch", "zeros", "identity", "ones", "diagonal", "exchange", "far apart", "repeated"),
        "graded",
    ],
)
def test_eigenvalues_are_those_of_numpy(x: Any) -> None:
    values, vectors = tg.linalg.eigh(tg.array(x, "f64"))
    check_eigen(x, values, vectors)
    np.testing.assert_allclose(np.asarray(tg.linalg.eigvalsh(tg.array(x, "f64"))), values, rtol=1e-14)


@pytest.mark.parametrize("kind", ["half of them equal", "graded"])
def test_sweeps_suffice_for_large_matrices(kind: str) -> None:
    """These converge most slowly."""
    values = np.repeat([1.0, 2.0], 32) if kind == "half of them equal" else 10.0 ** -np.linspace(0, 12, 64)
    x = with_eigenvalues(values)
    eigenvalues, vectors = tg.linalg.eigh(tg.array(x, "f64"))
    check_eigen(x, eigenvalues, vectors)


def test_rounding_errors_do_not_grow_with_the_rounds() -> None:
    """Errors are counted in eps of the norm: rotations that aren't quite orthogonal would scale rows in each round."""
    x = symmetric(128, 128).astype(np.float32)
    exact, eps = x.astype(np.float64), float(np.finfo(np.float32).eps)
    norm = np.linalg.norm(exact, 2)
    values, vectors = (np.asarray(part, np.float64) for part in tg.jit(tg.linalg.eigh, device="cpu")(x))
    assert abs(values - np.linalg.eigvalsh(exact)).max() < 16 * eps * norm
    assert np.linalg.norm(vectors.T @ vectors - np.eye(128), 2) < 16 * eps
    assert np.linalg.norm(exact @ vectors - vectors * values, 2) < 48 * eps * norm


@pytest.mark.in_turns(3, 2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_eigenvalues_on_devices(device: Any) -> None:
    x = symmetric(2, 5, 5).astype(np.float32)
    values, vectors = tg.jit(lambda x: tuple(tg.linalg.eigh(x)), device=device)(x)
    check_eigen(x, values, vectors)


@pytest.mark.nightly
def test_derivatives_of_eigenvalues() -> None:
    x = symmetric(3, 3) + np.triu(RANDOM.normal(size=(3, 3)))
    tg.testing.check_grads(lambda x: tuple(tg.linalg.eigh(x)), (x,), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_derivatives_of_eigenvalues_alone() -> None:
    tg.testing.check_grads(tg.linalg.eigvalsh, (symmetric(2, 3, 3),), rtol=1e-5, atol=1e-5)


def test_derivatives_at_equal_eigenvalues() -> None:
    x = np.asarray(with_eigenvalues([1.0, 1.0, 3.0]))
    slope = tg.grad(lambda x: tg.sum(tg.linalg.eigvalsh(x) ** 3))(tg.array(x, "f64"))
    np.testing.assert_allclose(slope, 3 * x @ x, rtol=1e-12, atol=1e-12)
    slope = tg.grad(lambda x: tg.sum(tg.linalg.eigh(x).eigenvectors ** 3))(tg.array(x, "f64"))
    assert np.isfinite(np.asarray(slope)).all() and abs(np.asarray(slope)).max() < 10


def test_eigenvalues_of_many_by_vmap() -> None:
    x = symmetric(3, 2, 2)
    values, vectors = tg.vmap(lambda x: tuple(tg.linalg.eigh(x)))(tg.array(x, "f64"))
    check_eigen(x, values, vectors)


def test_sweeps_do_not_grow_with_the_matrix() -> None:
    lengths = {len(str(tg.trace(lambda x: tuple(tg.linalg.eigh(x)), (n, n))).splitlines()) for n in (8, 64)}
    assert len(lengths) == 1


def test_what_has_no_eigenvalues_is_an_error() -> None:
    for function in (tg.linalg.eigh, tg.linalg.eigvalsh):
        with pytest.raises(ShapeError, match=r"eig\w+: takes square matrices, not an array of shape \(2, 3\)"):
            function(tg.ones((2, 3)))
        with pytest.raises(DTypeError, match=r"eig\w+: is computed in f32 or f64, not f16"):
            function(tg.ones((2, 2), dtype=tg.f16))
    assert np.isnan(np.asarray(tg.linalg.eigvalsh(tg.array([[1.0, np.nan], [np.nan, 2.0]])))).all()
