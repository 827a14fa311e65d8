"""Triangular factors and systems compared with SciPy, which calls LAPACK; and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from draws import generator
from scipy import linalg

import tensorgrad as tg
from tensorgrad.errors import DTypeError, ShapeError

RANDOM = generator(0)
SHAPES = [(1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 4, 4), (2, 0, 3), (0, 2, 2)]


def check_factors(x: Any, factors: tuple[Any, ...], tolerance: float) -> None:
    """Checks that the product of factors is the matrix with permuted rows, and that exchanges lead to this order."""
    lu, pivots, permutation = map(np.asarray, factors)
    assert (lu.shape, lu.dtype, pivots.dtype, permutation.dtype) == (x.shape, x.dtype, np.int32, np.int32)
    rows, count = x.shape[-2], min(x.shape[-2:])
    lower = np.tril(lu[..., :count], -1) + np.eye(rows, count)
    assert abs(lower).max(initial=0) <= 1  # each pivot is the largest
    permuted = np.take_along_axis(x, permutation[..., None], -2)
    np.testing.assert_allclose(lower @ np.triu(lu[..., :count, :]), permuted, atol=tolerance)
    for matrix in np.ndindex(x.shape[:-2]):
        order = np.arange(rows)
        for place, row in enumerate(pivots[matrix]):
            order[[place, row]] = order[[row, place]]
        assert np.array_equal(order, permutation[matrix])


@pytest.mark.parametrize("shape", SHAPES)
def test_factors(shape: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=shape)
    factors = tg.linalg.lu_factor(tg.array(x, "f64"))
    check_factors(x, factors, 1e-14)
    if x.ndim == 2 and x.size:
        lu, pivots = linalg.lu_factor(x)
        np.testing.assert_allclose(factors.lu, lu, atol=1e-14)
        assert np.array_equal(factors.pivots, pivots)


def test_factors_of_singular_matrices() -> None:
    for x in (np.zeros((3, 3)), np.ones((3, 2)), np.array([[0.0, 1.0], [0.0, 2.0]])):
        check_factors(x, tg.linalg.lu_factor(tg.array(x, "f64")), 0)


@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_systems(upper: bool, unit_diagonal: bool) -> None:
    """Batch axes broadcast; what lies beside the triangle is not read."""
    x, right = RANDOM.normal(size=(3, 4, 4)) + 2 * np.eye(4), RANDOM.normal(size=(2, 1, 4, 2))
    triangle = np.tri(4, k=-1 if unit_diagonal else 0, dtype=bool)
    known = tg.array(np.where(triangle.T if upper else triangle, x, np.nan), "f64")
    result = tg.linalg.solve_triangular(known, tg.array(right, "f64"), upper=upper, unit_diagonal=unit_diagonal)
    expected = [
        [linalg.solve_triangular(part, one, lower=not upper, unit_diagonal=unit_diagonal) for part in x]
        for one in right[:, 0]
    ]
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_a_system_by_factors() -> None:
    x, right = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=4)
    lu, _, permutation = tg.linalg.lu_factor(tg.array(x, "f64"))
    inner = tg.linalg.solve_triangular(lu, tg.array(right, "f64")[permutation], unit_diagonal=True)
    solution = tg.linalg.solve_triangular(lu, inner, upper=True)
    np.testing.assert_allclose(solution, np.linalg.solve(x, right), atol=1e-12)


def test_systems_in_f16_are_solved_in_f32() -> None:
    x = tg.array([[3.0, 0.0], [1.0, 3.0]], "f16")
    solution = tg.linalg.solve_triangular(x, tg.ones(2, dtype="f16"))
    assert solution.dtype == tg.f16 and np.array_equal(solution, np.array([1 / 3, 2 / 9], np.float16))
    assert tg.linalg.solve_triangular(tg.ones((0, 0)), tg.ones((0, 3))).shape == (0, 3)


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_devices(device: Any) -> None:
    x, right = (RANDOM.normal(size=shape).astype(np.float32) for shape in ((2, 4, 4), (2, 4, 3)))

    def function(x: Any, right: Any) -> Any:
        factors = tg.linalg.lu_factor(x)
        return factors, tg.linalg.solve_triangular(factors.lu, right, unit_diagonal=True)

    factors, solution = tg.jit(function, device=device)(x, right)
    check_factors(x, factors, 1e-6)
    lower = np.tril(np.asarray(factors.lu), -1) + np.eye(4)
    np.testing.assert_allclose(lower @ np.asarray(solution), right, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3)])
def test_derivatives_of_factors(shape: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=(2, *shape))
    tg.testing.check_grads(lambda x: tg.linalg.lu_factor(x).lu, (x,), rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("upper", [False, True])
def test_derivatives_of_systems(upper: bool) -> None:
    x, right = RANDOM.normal(size=(2, 3, 3)) + 2 * np.eye(3), RANDOM.normal(size=(3, 2))
    for unit_diagonal in (False, True):

        def function(x: Any, right: Any, unit_diagonal: bool = unit_diagonal) -> Any:
            return tg.linalg.solve_triangular(x, right, upper=upper, unit_diagonal=unit_diagonal)

        tg.testing.check_grads(function, (x, right), rtol=1e-5, atol=1e-5)


def test_what_is_no_system_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"lu_factor: takes an array of two axes or more, not \(2,\)"):
        tg.linalg.lu_factor(tg.ones(2))
    with pytest.raises(DTypeError, match="lu_factor: is computed in f32 or f64, not f16"):
        tg.linalg.lu_factor(tg.ones((2, 2), dtype=tg.f16))
    with pytest.raises(ShapeError, match=r"solve_triangular: takes square matrices, not an array of shape \(2, 3\)"):
        tg.linalg.solve_triangular(tg.ones((2, 3)), tg.ones(2))
    with pytest.raises(ShapeError, match=r"solve_triangular: \(2, 2\) does not fit a right side of shape \(3,\)"):
        tg.linalg.solve_triangular(tg.ones((2, 2)), tg.ones(3))
