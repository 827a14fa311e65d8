"""Singular values, pseudoinverses and functions of them, compared with NumPy, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError

RANDOM = generator(0)


def transposed(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def with_singular_values(rows: int, columns: int, values: Any) -> Any:
    left, right = (np.linalg.qr(RANDOM.normal(size=(extent, len(values))))[0] for extent in (rows, columns))
    return left * values @ right.T


MATRICES = {
    "one": RANDOM.normal(size=(1, 1)),
    "square": RANDOM.normal(size=(4, 4)),
    "tall": RANDOM.normal(size=(6, 3)),
    "wide": RANDOM.normal(size=(3, 5)),
    "column": RANDOM.normal(size=(4, 1)),
    "row": RANDOM.normal(size=(1, 4)),
    "batch": RANDOM.normal(size=(2, 3, 4, 3)),
    "zeros": np.zeros((4, 3)),
    "identity": np.eye(3),
    "ones": np.ones((3, 4)),
    "of rank 2": with_singular_values(6, 5, [3.0, 1.0]),
    "repeated": with_singular_values(6, 6, [2.0, 2.0, 2.0, 1.0, 1.0, 1.0]),
    "graded": with_singular_values(9, 8, 10.0 ** -np.linspace(0, 14, 8)),
    "large": RANDOM.normal(size=(3, 2)) * 1e200,
    "empty": np.zeros((0, 3)),
    "none": np.zeros((0, 3, 2)),
}


def check_singular(x: Any, u: Any, s: Any, vh: Any) -> None:
    """Checks values as NumPy's, descending, orthonormal vectors, and their product, up to `4 max(m, n) eps`."""
    u, s, vh = (np.asarray(part) for part in (u, s, vh))
    assert u.dtype == s.dtype == vh.dtype == x.dtype
    rounding = 4 * max(x.shape[-2:]) * np.finfo(x.dtype).eps
    tolerance = rounding * s.max(initial=0.0)
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), rtol=0, atol=tolerance)
    for columns in (u, transposed(vh)):
        assert abs(transposed(columns) @ columns - np.eye(columns.shape[-1])).max(initial=0.0) <= rounding
    count = s.shape[-1]
    assert abs(u[..., :count] * s[..., None, :] @ vh[..., :count, :] - x).max(initial=0.0) <= tolerance


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("full", [False, True], ids=["reduced", "full"])
@pytest.mark.parametrize("name", MATRICES)
def test_singular_values_are_those_of_numpy(name: str, full: bool) -> None:
    x = MATRICES[name]
    u, s, vh = tg.linalg.svd(tg.array(x, "f64"), full_matrices=full)
    check_singular(x, u, s, vh)
    shapes = [part.shape for part in np.linalg.svd(x, full_matrices=full)]
    assert [part.shape for part in (u, s, vh)] == shapes


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("kind", ["half of them equal", "graded"])
def test_sweeps_suffice_for_large_matrices(kind: str, dtype: str) -> None:
    """These converge most slowly."""
    values = np.repeat([1.0, 2.0], 24) if kind == "half of them equal" else 10.0 ** -np.linspace(0, 14, 48)
    matrices = tg.array(with_singular_values(50, 48, values), dtype)
    u, s, vh = tg.linalg.svd(matrices, full_matrices=False)
    check_singular(np.asarray(matrices), u, s, vh)


def test_rounding_errors_do_not_grow_with_the_rounds() -> None:
    """Errors are counted in eps of the norm."""
    x = RANDOM.normal(size=(128, 128)).astype(np.float32)
    exact, eps = x.astype(np.float64), float(np.finfo(np.float32).eps)
    u, s, vh = (np.asarray(part, np.float64) for part in tg.jit(tg.linalg.svd, device="cpu")(x))
    correct = np.linalg.svd(exact, compute_uv=False)
    assert abs(s - correct).max() < 8 * eps * correct[0]
    assert np.linalg.norm((u * s) @ vh - exact, 2) < 48 * eps * correct[0]
    assert all(np.linalg.norm(part.T @ part - np.eye(128), 2) < 48 * eps for part in (u, vh))


@pytest.mark.in_turns(4)
@pytest.mark.parametrize("name", MATRICES)
def test_what_follows_from_singular_values(name: str) -> None:
    x = MATRICES[name]
    matrices = tg.array(x, "f64")
    values = np.linalg.svd(x, compute_uv=False)
    tolerance = 4 * max(x.shape[-2:]) * 2.3e-16 * values.max(initial=0.0)
    np.testing.assert_allclose(np.asarray(tg.linalg.svdvals(matrices)), values, rtol=0, atol=tolerance)
    assert np.array_equal(tg.linalg.matrix_rank(matrices, rtol=1e-10), np.linalg.matrix_rank(x, rtol=1e-10))
    expected = np.linalg.pinv(x, rtol=1e-3)
    actual = np.asarray(tg.linalg.pinv(matrices, rtol=1e-3))
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-11 * abs(expected).max(initial=0.0))


def test_tolerances() -> None:
    x = np.stack([np.diag([1.0, 0.1, 0.01]), np.diag([2.0, 1.0, 0.0])])
    matrices = tg.array(x, "f64")
    assert np.array_equal(tg.linalg.matrix_rank(matrices), [3, 2])
    assert tg.linalg.matrix_rank(matrices).dtype == tg.i32
    assert np.array_equal(tg.linalg.matrix_rank(matrices, rtol=0.05), [2, 2])
    assert np.array_equal(tg.linalg.matrix_rank(matrices, rtol=tg.array([0.5, 0.75])), [1, 1])
    shares = np.array([0.05, 0.75])
    inverses = tg.linalg.pinv(matrices, rtol=shares)
    np.testing.assert_allclose(np.asarray(inverses), np.linalg.pinv(x, rtol=shares), atol=1e-14)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_norms(order: Any) -> None:
    for name in ("square", "tall", "wide", "batch", "zeros"):
        x = MATRICES[name]
        for keepdims in (False, True):
            actual = tg.linalg.matrix_norm(tg.array(x, "f64"), ord=order, keepdims=keepdims)
            expected = np.linalg.norm(x, order, (-2, -1), keepdims)
            assert actual.shape == np.shape(expected)
            np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_singular_values_on_devices(device: Any) -> None:
    x = RANDOM.normal(size=(2, 4, 3)).astype(np.float32)
    u, s, vh = tg.jit(lambda x: tuple(tg.linalg.svd(x, full_matrices=False)), device=device)(x)
    check_singular(x, u, s, vh)


@pytest.mark.nightly
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3)])
def test_derivatives_of_factors(shape: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=shape)
    tg.testing.check_grads(lambda x: tuple(tg.linalg.svd(x, full_matrices=False)), (x,), order=1, rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_second_derivatives() -> None:
    x = RANDOM.normal(size=(2, 2))
    tg.testing.check_grads(lambda x: tuple(tg.linalg.svd(x, full_matrices=False)), (x,), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_derivatives_of_a_projection() -> None:
    """Onto the complement of the columns, which doesn't depend on how they are completed."""

    def projection(x: Any) -> Any:
        u = tg.linalg.svd(x).U[:, 2:]
        return u @ u.mT

    tg.testing.check_grads(projection, (RANDOM.normal(size=(4, 2)),), order=1, rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["tall", "wide"])
def test_derivatives_of_pseudoinverses(name: str) -> None:
    tg.testing.check_grads(tg.linalg.pinv, (MATRICES[name],), order=1, rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_second_derivatives_of_pseudoinverses_at_equal_singular_values() -> None:
    tg.testing.check_grads(tg.linalg.pinv, (np.eye(2),), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_second_derivatives_of_pseudoinverses_of_low_rank() -> None:
    """Products of two factors have a constant rank."""
    factors = (RANDOM.normal(size=(3, 1)), RANDOM.normal(size=(1, 2)))
    tg.testing.check_grads(lambda x, y: tg.linalg.pinv(x @ y, rtol=1e-9), factors, rtol=1e-5, atol=1e-5)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("function", ["svdvals", "nuc", 2])
def test_derivatives_of_singular_values(function: Any) -> None:
    def values(x: Any) -> Any:
        return tg.linalg.svdvals(x) if function == "svdvals" else tg.linalg.matrix_norm(x, ord=function)

    tg.testing.check_grads(values, (RANDOM.normal(size=(2, 2, 3)),), order=1, rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_derivatives_at_equal_singular_values() -> None:
    slope = tg.grad(lambda x: tg.linalg.matrix_norm(x, ord="nuc"))(tg.array(2 * np.eye(3), "f64"))
    np.testing.assert_allclose(np.asarray(slope), np.eye(3), atol=1e-14)
    for x in (np.eye(3), np.zeros((3, 2)), np.ones((2, 3))):
        slope = tg.grad(lambda x: tg.sum(tg.linalg.svd(x).U ** 3))(tg.array(x, "f64"))
        assert np.isfinite(np.asarray(slope)).all() and abs(np.asarray(slope)).max() < 10


def test_singular_values_of_many_by_vmap() -> None:
    x = RANDOM.normal(size=(3, 2, 3))
    u, s, vh = tg.vmap(lambda x: tuple(tg.linalg.svd(x, full_matrices=False)))(tg.array(x, "f64"))
    check_singular(x, u, s, vh)


def test_sweeps_do_not_grow_with_the_matrix() -> None:
    lengths = {len(str(tg.trace(lambda x: tuple(tg.linalg.svd(x)), (n + 1, n))).splitlines()) for n in (8, 64)}
    assert len(lengths) == 1


def test_what_has_no_singular_values_is_an_error() -> None:
    for name in ("svd", "svdvals", "pinv", "matrix_rank"):
        function = getattr(tg.linalg, name)
        with pytest.raises(ShapeError, match=rf"{name}: takes an array of two axes or more, not \(2,\)"):
            function(tg.ones(2))
        with pytest.raises(DTypeError, match=f"{name}: is computed in f32 or f64, not f16"):
            function(tg.ones((2, 2), dtype=tg.f16))
    with pytest.raises(OptionError, match="matrix_norm: ord 3 is not one of fro, nuc, 1, -1, 2, -2, inf, -inf"):
        tg.linalg.matrix_norm(tg.ones((2, 2)), ord=3)
    with pytest.raises(ShapeError):
        tg.linalg.pinv(tg.ones((2, 2)), rtol=tg.ones(3))
