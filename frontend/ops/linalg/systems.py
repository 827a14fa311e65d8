"""Systems of linear equations, inverses, determinants and Cholesky factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tensorgrad.errors import ShapeError
from tensorgrad.ops import joining, reduce
from tensorgrad.ops.elementwise import arithmetic
from tensorgrad.ops.elementwise.functions import log
from tensorgrad.ops.linalg.arguments import square_matrices, transposed
from tensorgrad.ops.linalg.elimination import cholesky_factor, gauss_jordan, gauss_jordan_solve, substitute
from tensorgrad.ops.promotion import as_float, common_numbers
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import expand_dims
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


class Slogdet(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


@recorded_whole
def cholesky(x: TensorLike, /, *, upper: bool = False) -> Tensor:
    """Returns the Cholesky factors of symmetric positive definite matrices: lower triangular, or upper with `upper`.

    They are NaN if a matrix is not positive definite. Of a matrix that is not symmetric, the symmetric part is used.

    Args:
        x: Matrices of shape (..., n, n).
        upper: Whether to return `U` with `U.mT @ U = x` instead of `L` with `L @ L.mT = x`.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> tg.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
        [[2.0, 0.0], [1.0, 2.0]]
    """
    factor = cholesky_factor(as_float(square_matrices("cholesky", x)))
    return transposed(factor) if upper else factor


@recorded_whole
def det(x: TensorLike, /) -> Tensor:
    """Returns the determinants of matrices, by elimination with partial pivoting.

    The derivative is exact if the matrix is nonsingular.

    Args:
        x: Matrices of shape (..., n, n).

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> tg.linalg.det([[2.0, 1.0], [1.0, 3.0]])
        Array(5., dtype=f32)
    """
    return reduce.prod(_pivots("det", x), 0)


@recorded_whole
def slogdet(x: TensorLike, /) -> Slogdet:
    """Returns the signs of the determinants of matrices, and the logarithms of their absolute values.

    Unlike `det`, it neither overflows nor underflows for large matrices.

    Args:
        x: Matrices of shape (..., n, n).

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> tg.linalg.slogdet([[-2.0, 0.0], [0.0, 4.0]])
        Slogdet(sign=Array(-1., dtype=f32), logabsdet=Array(2.0794415, dtype=f32))
    """
    pivots = _pivots("slogdet", x)
    return Slogdet(reduce.prod(arithmetic.sign(pivots), 0), reduce.sum(log(arithmetic.abs(pivots)), 0))


def _pivots(what: str, x: Any) -> Tensor:
    tensor = as_float(square_matrices(what, x))
    return gauss_jordan(tensor, tensor.shape[-1], True)[1]


@recorded_whole
def inv(x: TensorLike, /) -> Tensor:
    """Returns the inverses of matrices; not finite if a matrix is singular.

    `solve` multiplies by an inverse at less cost, and with smaller errors.

    Args:
        x: Matrices of shape (..., n, n).

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> tg.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
        Array([[0.5 , 0.  ],
         [0.  , 0.25]], dtype=f32)
    """
    tensor = as_float(square_matrices("inv", x))
    return gauss_jordan_solve(tensor, joining.eye(tensor.shape[-1], dtype=tensor.dtype))


@recorded_whole
def solve(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Returns the solution `x` of `x1 @ x = x2`; not finite if a matrix is singular.

    Args:
        x1: Matrices of shape (..., n, n).
        x2: A vector of shape (n,), or matrices of shape (..., n, k), whose batch axes broadcast with those of `x1`.

    Raises:
        ShapeError: The matrices are not square, or don't match the right-hand side.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
        [1.0, 0.5]
    """
    return _solved("solve", x1, x2, gauss_jordan_solve)


def solve_triangular(x1: TensorLike, x2: TensorLike, /, *, upper: bool = False, unit_diagonal: bool = False) -> Tensor:
    """Returns the solution `x` of `x1 @ x = x2` for triangular matrices, by substitution.

    It is not finite if a matrix is singular. For few right sides it takes fewer operations than `solve`, by a factor
    that grows with the size. What lies beside the triangle is not read, so `x1` may hold both factors of `lu_factor`.

    Args:
        x1: Matrices of shape (..., n, n).
        x2: A vector of shape (n,), or matrices of shape (..., n, k), whose batch axes broadcast with those of `x1`.
        upper: Whether the triangle is the one above the diagonal, not the one below.
        unit_diagonal: Whether the diagonal is ones, whatever `x1` has there.

    Raises:
        ShapeError: The matrices are not square, or don't match the right-hand side.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0]).tolist()
        [1.0, 2.0]
    """
    return _solved("solve_triangular", x1, x2, partial(substitute, upper=upper, unit_diagonal=unit_diagonal))


def _solved(what: str, x1: TensorLike, x2: TensorLike, method: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Returns the solution of a system by a method that takes matrices and columns."""
    left, right = common_numbers(what, square_matrices(what, x1), x2)
    columns = expand_dims(right, -1) if right.ndim == 1 else right
    if not right.ndim or columns.shape[-2] != left.shape[-1]:
        raise ShapeError(f"{what}: {left.shape} does not fit a right side of shape {right.shape}")
    solutions = method(as_float(left), as_float(columns))
    return solutions[..., 0] if right.ndim == 1 else solutions
