"""QR factors, eigenvalues, singular values, and what follows from them: pseudoinverses and ranks."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from tensorgrad.errors import OptionError
from tensorgrad.ops import joining, reduce
from tensorgrad.ops.creation import zeros
from tensorgrad.ops.elementwise.arithmetic import greater
from tensorgrad.ops.linalg.arguments import float_matrices, symmetric_part, transposed
from tensorgrad.ops.linalg.eigenvalues import jacobi_eigh, jacobi_eigvalsh
from tensorgrad.ops.linalg.elimination import triangular_factors
from tensorgrad.ops.linalg.householder import householder_qr
from tensorgrad.ops.linalg.singular_values import completed_basis, jacobi_pinv, jacobi_svd, jacobi_svdvals
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import expand_dims
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


class Eigh(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LuFactors(NamedTuple):
    """The result of `lu_factor`."""

    lu: Tensor
    pivots: Tensor
    permutation: Tensor


class Qr(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class Svd(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def lu_factor(x: TensorLike, /) -> LuFactors:
    """Returns a lower triangular `L` and an upper triangular `U` with `L @ U = x[permutation]`, in f32 or f64.

    By elimination with partial pivoting, as LAPACK does it. Derivatives of any order are exact if the first `min(m, n)`
    columns of `x` are linearly independent. `solve_triangular` solves systems with the factors:

        solve_triangular(lu, solve_triangular(lu, b[permutation], unit_diagonal=True), upper=True)

    Args:
        x: Matrices of shape (..., m, n).

    Returns:
        `lu`, of the shape of `x`: `U` on and above the diagonal, `L` below it, whose own diagonal is ones; `pivots`, of
        shape (..., min(m, n)): the row with which each row was exchanged, one after the other, counted from 0; and
        `permutation`, of shape (..., m): the row of `x` that has come to each place.

    Raises:
        ShapeError: `x` has fewer than two axes.
        DTypeError: It is f16.

    Example:
        >>> lu, pivots, permutation = tg.linalg.lu_factor([[2.0, 2.0], [4.0, 2.0]])
        >>> lu.tolist(), pivots.tolist(), permutation.tolist()
        ([[4.0, 2.0], [0.5, 1.0]], [1, 1], [1, 0])
    """
    return LuFactors(*triangular_factors(float_matrices("lu_factor", x)))


@recorded_whole
def qr(x: TensorLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Qr:
    """Returns `Q` with orthonormal columns and upper triangular `R` with `Q @ R = x`, in f32 or f64.

    The diagonal of `R` is nonnegative, so NumPy's factors may differ in sign. Derivatives of any order are exact if the
    first `min(m, n)` columns of `x` are linearly independent.

    Args:
        x: Matrices of shape (..., m, n).
        mode: `complete` for `Q` of shape (..., m, m), `reduced` for its first `min(m, n)` columns.

    Raises:
        ShapeError: `x` has fewer than two axes.
        DTypeError: It is f16.
        OptionError: The mode is unknown.

    Example:
        >>> q, r = tg.linalg.qr(tg.ones((5, 3)))
        >>> q.shape, r.shape
        ((5, 3), (3, 3))
    """
    if mode not in ("reduced", "complete"):
        raise OptionError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return Qr(*householder_qr(float_matrices("qr", x), mode == "complete"))


@recorded_whole
def eigh(x: TensorLike, /) -> Eigh:
    """Returns the eigenvalues of symmetric matrices, ascending, and their eigenvectors, the columns of a matrix.

    Computed by Jacobi rotations in f32 or f64, within a few roundings of the matrix's norm. The signs of eigenvectors
    are unspecified, and so is the basis for a repeated eigenvalue. Of a matrix that is not symmetric, the symmetric
    part is used.

    Derivatives of any order are exact if all eigenvalues differ. Between eigenvectors whose eigenvalues are equal up to
    rounding, they are taken as 0: gradients remain finite, but are correct only to first order, and only for functions
    of the eigenvalues that don't depend on their order.

    Args:
        x: Matrices of shape (..., n, n).

    Raises:
        ShapeError: The matrices are not square.
        DTypeError: They are f16.

    Example:
        >>> values, vectors = tg.linalg.eigh([[2.0, 0.0], [0.0, 1.0]])
        >>> values
        Array([1., 2.], dtype=f32)
    """
    matrices = symmetric_part("eigh", x)
    if not matrices.size:
        return Eigh(zeros(matrices.shape[:-1], matrices.dtype), matrices)
    return Eigh(*jacobi_eigh(matrices))


@recorded_whole
def eigvalsh(x: TensorLike, /) -> Tensor:
    """Returns the eigenvalues of symmetric matrices, ascending: those of `eigh`.

    Args:
        x: Matrices of shape (..., n, n).

    Raises:
        ShapeError: The matrices are not square.
        DTypeError: They are f16.

    Example:
        >>> tg.linalg.eigvalsh([[3.0, 0.0], [0.0, 1.0]]).tolist()
        [1.0, 3.0]
    """
    matrices = symmetric_part("eigvalsh", x)
    return jacobi_eigvalsh(matrices) if matrices.size else zeros(matrices.shape[:-1], matrices.dtype)


@recorded_whole
def svd(x: TensorLike, /, *, full_matrices: bool = True) -> Svd:
    """Returns the singular values `S` of matrices, descending, and singular vectors, with `(U * S) @ Vh = x`.

    Computed by one-sided Jacobi rotations in f32 or f64. The signs of pairs of singular vectors are unspecified.

    Derivatives of any order are exact if the `min(m, n)` singular values differ and none is 0. Between singular vectors
    whose values are equal up to rounding, and for singular values of 0, they are taken as 0: gradients remain finite,
    but are correct only to first order, and only for functions of the singular values that don't depend on their order.

    Args:
        x: Matrices of shape (..., m, n).
        full_matrices: Whether `U` has shape (..., m, m) and `Vh` (..., n, n), completed to arbitrary orthonormal bases,
            instead of (..., m, k) and (..., k, n) with `k = min(m, n)`.

    Raises:
        ShapeError: `x` has fewer than two axes.
        DTypeError: It is f16.

    Example:
        >>> u, s, vh = tg.linalg.svd(tg.ones((5, 3)), full_matrices=False)
        >>> u.shape, s.shape, vh.shape
        ((5, 3), (3,), (3, 3))
    """
    tensor = float_matrices("svd", x)
    rows, columns = tensor.shape[-2:]
    if rows < columns:
        right, values, left = svd(transposed(tensor), full_matrices=full_matrices)
        return Svd(transposed(left), values, transposed(right))
    if not tensor.size:
        width = rows if full_matrices else columns
        left, right = (joining.eye(*shape, dtype=tensor.dtype) for shape in ((rows, width), (columns, columns)))
        values = zeros((*tensor.shape[:-2], columns), tensor.dtype)
        parts = [broadcast_to(part, (*tensor.shape[:-2], *part.shape)) for part in (left, right)]
        return Svd(parts[0], values, parts[1])
    left, values, right = jacobi_svd(tensor)
    return Svd(completed_basis(left) if full_matrices and rows > columns else left, values, right)


def svdvals(x: TensorLike, /) -> Tensor:
    """Returns the singular values of matrices, descending: those of `svd`.

    Args:
        x: Matrices of shape (..., m, n).

    Raises:
        ShapeError: `x` has fewer than two axes.
        DTypeError: It is f16.

    Example:
        >>> tg.linalg.svdvals([[3.0, 0.0], [0.0, -4.0]])
        Array([4., 3.], dtype=f32)
    """
    tensor = _tall(float_matrices("svdvals", x))
    return jacobi_svdvals(tensor) if tensor.size else zeros((*tensor.shape[:-2], tensor.shape[-1]), tensor.dtype)


def _tall(x: Tensor) -> Tensor:
    return transposed(x) if x.shape[-2] < x.shape[-1] else x


@recorded_whole
def pinv(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """Returns the Moore-Penrose pseudoinverses of matrices.

    Derivatives of any order are exact if nearby matrices have the same rank, even if singular values are equal.

    Args:
        x: Matrices of shape (..., m, n).
        rtol: The cutoff for singular values, relative to the largest: a number, or an array with the shape of the batch
            axes. Smaller ones are taken as 0. By default `max(m, n) * eps`.

    Raises:
        ShapeError: `x` has fewer than two axes, or `rtol` doesn't fit.
        DTypeError: It is f16.

    Example:
        >>> tg.linalg.pinv([[2.0, 0.0], [0.0, 0.0]])
        Array([[0.5, 0. ],
         [0. , 0. ]], dtype=f32)
    """
    tensor = float_matrices("pinv", x)
    cutoff = _cutoff(tensor, rtol)
    if not tensor.size:
        return transposed(tensor)
    inverse = jacobi_pinv(_tall(tensor), cutoff)
    return inverse if tensor.shape[-2] >= tensor.shape[-1] else transposed(inverse)


def _cutoff(matrices: Tensor, rtol: Any) -> Tensor:
    """Returns the relative cutoff for singular values of each matrix."""
    if rtol is None:
        rtol = max(matrices.shape[-2:]) * float(np.finfo(matrices.dtype).eps)
    return broadcast_to(cast(as_tensor(rtol), matrices.dtype), matrices.shape[:-2])


def matrix_rank(x: TensorLike, /, *, rtol: TensorLike | None = None) -> Tensor:
    """Returns the number of singular values of each matrix that exceed a cutoff, as i32.

    Args:
        x: Matrices of shape (..., m, n).
        rtol: The cutoff, relative to the largest singular value, as for `pinv`.

    Raises:
        ShapeError: `x` has fewer than two axes, or `rtol` doesn't fit.
        DTypeError: It is f16.

    Example:
        >>> tg.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]])
        Array(1, dtype=i32)
    """
    tensor = float_matrices("matrix_rank", x)
    cutoff, values = _cutoff(tensor, rtol), svdvals(tensor)
    return reduce.sum(cast(greater(values, expand_dims(cutoff, -1) * values[..., :1]), NAMES["i32"]), -1)
