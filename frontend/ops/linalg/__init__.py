"""Linear algebra, with the names and signatures of the Array API standard."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops import contract, joining, reduce
from tensorgrad.ops.contract import numbers
from tensorgrad.ops.elementwise import arithmetic
from tensorgrad.ops.elementwise.arithmetic import greater
from tensorgrad.ops.elementwise.functions import log
from tensorgrad.ops.linalg.elimination import cholesky_factor, eliminated, solution
from tensorgrad.ops.linalg.jacobi import eigen, eigenvalues
from tensorgrad.ops.linalg.orthogonal import orthogonal_factors
from tensorgrad.ops.linalg.singular import completed, pseudoinverse, singular, singular_values
from tensorgrad.ops.promotion import as_float, as_tensor, broadcast_to, cast, common
from tensorgrad.ops.shape import expand_dims, normalized_axis, reshape, swapaxes, zeros
from tensorgrad.surface.calls import publish
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

MATRIX_NORMS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


class Eigh(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Qr(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class Svd(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """Returns the Cholesky factors of symmetric positive definite matrices: lower triangular, or upper with `upper`.

    They are NaN if a matrix is not positive definite. Of a matrix that is not symmetric, the symmetric part is used.

    Raises:
        ShapeError: The matrices are not square.
    """
    factor = cholesky_factor(as_float(_square("cholesky", x)))
    return matrix_transpose(factor) if upper else factor


def det(x: Any, /) -> Tensor:
    """Returns the determinants of matrices, by elimination with partial pivoting.

    The derivative is exact if the matrix is nonsingular.

    Raises:
        ShapeError: The matrices are not square.
    """
    return reduce.prod(_pivots("det", x), 0)


def slogdet(x: Any, /) -> Slogdet:
    """Returns the signs of the determinants of matrices, and the logarithms of their absolute values.

    Raises:
        ShapeError: The matrices are not square.
    """
    pivots = _pivots("slogdet", x)
    return Slogdet(reduce.prod(arithmetic.sign(pivots), 0), reduce.sum(log(arithmetic.abs(pivots)), 0))


def _pivots(what: str, x: Any) -> Tensor:
    tensor = as_float(_square(what, x))
    return eliminated(tensor, tensor.shape[-1], True)[1]


def inv(x: Any, /) -> Tensor:
    """Returns the inverses of matrices; not finite if a matrix is singular.

    Raises:
        ShapeError: The matrices are not square.
    """
    tensor = as_float(_square("inv", x))
    return solution(tensor, joining.eye(tensor.shape[-1], dtype=tensor.dtype))


def solve(x1: Any, x2: Any, /) -> Tensor:
    """Returns the solution `x` of `x1 @ x = x2`; not finite if a matrix is singular.

    Args:
        x1: Square matrices.
        x2: A vector, or matrices whose batch axes broadcast with those of `x1`.

    Raises:
        ShapeError: The matrices are not square, or don't match the right-hand side.
    """
    left, right = numbers("solve", _square("solve", x1), x2)
    columns = expand_dims(right, -1) if right.ndim == 1 else right
    if not right.ndim or columns.shape[-2] != left.shape[-1]:
        raise ShapeError(f"solve: {left.shape} does not fit a right side of shape {right.shape}")
    found = solution(left, columns)
    return found[..., 0] if right.ndim == 1 else found


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Qr:
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
    """
    if mode not in ("reduced", "complete"):
        raise OptionError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return Qr(*orthogonal_factors(_matrices("qr", x), mode == "complete"))


def _matrices(what: str, x: Any) -> Tensor:
    """Returns the argument as stacks of matrices, after checking that they are f32 or f64."""
    tensor = as_float(x)
    if tensor.ndim < 2:
        raise ShapeError(f"{what}: takes an array of two axes or more, not {tensor.shape}")
    if tensor.dtype == NAMES["f16"]:
        raise DTypeError(f"{what}: is computed in f32 or f64, not f16: convert it with astype")
    return tensor


def eigh(x: Any, /) -> Eigh:
    """Returns the eigenvalues of symmetric matrices, ascending, and their eigenvectors, the columns of a matrix.

    Computed by Jacobi rotations in f32 or f64. The signs of eigenvectors are unspecified, and so is the basis for a
    repeated eigenvalue. Of a matrix that is not symmetric, the symmetric part is used.

    Derivatives of any order are exact if all eigenvalues differ. Between eigenvectors whose eigenvalues are equal up to
    rounding, they are taken as 0: gradients remain finite, but are correct only to first order, and only for functions
    of the eigenvalues that don't depend on their order.

    Raises:
        ShapeError: The matrices are not square.
        DTypeError: They are f16.
    """
    matrices = _symmetric("eigh", x)
    if not matrices.size:
        return Eigh(zeros(matrices.shape[:-1], matrices.dtype), matrices)
    return Eigh(*eigen(matrices))


def eigvalsh(x: Any, /) -> Tensor:
    """Returns the eigenvalues of symmetric matrices, ascending: those of `eigh`.

    Raises:
        ShapeError: The matrices are not square.
        DTypeError: They are f16.
    """
    matrices = _symmetric("eigvalsh", x)
    return eigenvalues(matrices) if matrices.size else zeros(matrices.shape[:-1], matrices.dtype)


def _symmetric(what: str, x: Any) -> Tensor:
    tensor = _matrices(what, _square(what, x))
    return tensor * 0.5 + matrix_transpose(tensor) * 0.5


def svd(x: Any, /, *, full_matrices: bool = True) -> Svd:
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
    """
    tensor = _matrices("svd", x)
    rows, columns = tensor.shape[-2:]
    if rows < columns:
        right, values, left = svd(matrix_transpose(tensor), full_matrices=full_matrices)
        return Svd(matrix_transpose(left), values, matrix_transpose(right))
    if not tensor.size:
        width = rows if full_matrices else columns
        left, right = (joining.eye(*shape, dtype=tensor.dtype) for shape in ((rows, width), (columns, columns)))
        values = zeros((*tensor.shape[:-2], columns), tensor.dtype)
        parts = [broadcast_to(part, (*tensor.shape[:-2], *part.shape)) for part in (left, right)]
        return Svd(parts[0], values, parts[1])
    left, values, right = singular(tensor)
    return Svd(completed(left) if full_matrices and rows > columns else left, values, right)


def svdvals(x: Any, /) -> Tensor:
    """Returns the singular values of matrices, descending: those of `svd`.

    Raises:
        ShapeError: `x` has fewer than two axes.
        DTypeError: It is f16.
    """
    tensor = _tall(_matrices("svdvals", x))
    return singular_values(tensor) if tensor.size else zeros((*tensor.shape[:-2], tensor.shape[-1]), tensor.dtype)


def _tall(x: Tensor) -> Tensor:
    return matrix_transpose(x) if x.shape[-2] < x.shape[-1] else x


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Returns the Moore-Penrose pseudoinverses of matrices.

    Derivatives of any order are exact if nearby matrices have the same rank, even if singular values are equal.

    Args:
        x: Matrices of shape (..., m, n).
        rtol: The cutoff for singular values, relative to the largest: a number, or an array with the shape of the batch
            axes. Smaller ones are taken as 0. By default `max(m, n) * eps`.

    Raises:
        ShapeError: `x` has fewer than two axes, or `rtol` doesn't fit.
        DTypeError: It is f16.
    """
    tensor = _matrices("pinv", x)
    cutoff = _cutoff(tensor, rtol)
    if not tensor.size:
        return matrix_transpose(tensor)
    found = pseudoinverse(_tall(tensor), cutoff)
    return found if tensor.shape[-2] >= tensor.shape[-1] else matrix_transpose(found)


def _cutoff(matrices: Tensor, rtol: Any) -> Tensor:
    """Returns the relative cutoff for singular values of each matrix."""
    if rtol is None:
        rtol = max(matrices.shape[-2:]) * float(np.finfo(matrices.dtype).eps)
    return broadcast_to(cast(as_tensor(rtol), matrices.dtype), matrices.shape[:-2])


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Returns the number of singular values that exceed `rtol` times the largest, as i32; see `pinv`.

    Raises:
        ShapeError: `x` has fewer than two axes, or `rtol` doesn't fit.
        DTypeError: It is f16.
    """
    tensor = _matrices("matrix_rank", x)
    cutoff, values = _cutoff(tensor, rtol), svdvals(tensor)
    return reduce.sum(cast(greater(values, expand_dims(cutoff, -1) * values[..., :1]), NAMES["i32"]), -1)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Returns the vector products along an axis of extent 3; the others broadcast.

    Raises:
        ShapeError: The axis has another extent.
    """
    rank = max(as_tensor(x1).ndim, as_tensor(x2).ndim)
    if axis >= 0 and as_tensor(x1).ndim != as_tensor(x2).ndim:
        raise ShapeError(f"cross: the axis counts from the end where the arrays differ in rank, not {axis}")
    place = normalized_axis(axis, rank, "cross") - rank
    extents = [x.shape[place] for x in map(as_tensor, (x1, x2))]
    if extents != [3, 3]:
        raise ShapeError(f"cross: axis {axis} is of extent 3, not {extents[0]} and {extents[1]}")
    left, right = (joining.moveaxis(x, place, 0) for x in common("cross", x1, x2))
    parts = [left[(i + 1) % 3] * right[(i + 2) % 3] - left[(i + 2) % 3] * right[(i + 1) % 3] for i in range(3)]
    return joining.stack(parts, place)


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """Returns the diagonals of matrices, `offset` above the main one."""
    return joining.diagonal(x, offset, -2, -1)


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Returns the matrix product: leading axes are batches and broadcast, vectors are rows or columns."""
    return reduce.matmul(x1, x2)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Returns matrix norms.

    Args:
        x: Matrices of shape (..., m, n).
        keepdims: Whether the last two axes remain, with extent 1.
        ord: "fro" for the Frobenius norm; 1 or -1 for the largest or smallest column sum of magnitudes; inf or -inf for
            the same of rows; 2 or -2 for the largest or smallest singular value; "nuc" for the sum of singular values.

    Raises:
        OptionError: `ord` is unknown.
        ShapeError: `x` has fewer than two axes.
        DTypeError: `x` is f16 and the norm needs singular values.
    """
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"matrix_norm: takes an array of two axes or more, not {tensor.shape}")
    if ord not in MATRIX_NORMS:
        raise OptionError(f"matrix_norm: ord {ord!r} is not one of {', '.join(map(str, MATRIX_NORMS))}")
    if ord == "fro":
        return reduce.norm(tensor, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(_matrices("matrix_norm", tensor))
        found = (reduce.sum if ord == "nuc" else reduce.max if ord > 0 else reduce.min)(values, -1)
        return expand_dims(expand_dims(found, -1), -1) if keepdims else found
    along = -2 if abs(ord) == 1 else -1
    sums = reduce.norm(tensor, 1, axis=along, keepdims=True)
    found = (reduce.max if ord > 0 else reduce.min)(sums, (-2, -1), True)
    return found if keepdims else reshape(found, tensor.shape[:-2])


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Returns powers of square matrices, by repeated squaring; for negative `n`, powers of their inverses.

    Raises:
        ShapeError: The matrices are not square.
    """
    tensor = _square("matrix_power", x)
    if n < 0:
        return matrix_power(inv(tensor), -n)
    result = broadcast_to(joining.eye(tensor.shape[-1], dtype=tensor.dtype), tensor.shape)
    squared = tensor
    while n:
        if n & 1:
            result = reduce.matmul(result, squared)
        n >>= 1
        if n:
            squared = reduce.matmul(squared, squared)
    return result


def _square(what: str, x: Any) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2]:
        raise ShapeError(f"{what}: takes square matrices, not an array of shape {tensor.shape}")
    return tensor


def matrix_transpose(x: Any, /) -> Tensor:
    """Returns `x` with its last two axes exchanged.

    Raises:
        ShapeError: It has fewer.
    """
    tensor = as_tensor(x)
    if tensor.ndim < 2:
        raise ShapeError(f"matrix_transpose: takes an array of two axes or more, not {np.shape(x)}")
    return swapaxes(tensor, -1, -2)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Returns the outer product of two vectors."""
    return contract.outer(x1, x2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """Returns sums of products over pairs of axes: the last `axes` of `x1` with the first of `x2`, or two lists."""
    return contract.tensordot(x1, x2, axes)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Returns the sums of the diagonals of matrices, `offset` above the main one."""
    return reduce.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Returns the sums of products along an axis, which counts from the end; the others broadcast.

    Raises:
        ShapeError: The arrays have different extents along it.
    """
    left, right = as_tensor(x1), as_tensor(x2)
    places = [normalized_axis(axis, x.ndim, "vecdot") for x in (left, right)]
    first, second = (joining.moveaxis(x, place, -1) for x, place in zip((left, right), places, strict=True))
    if first.shape[-1] != second.shape[-1]:
        raise ShapeError(f"vecdot: {left.shape} and {right.shape} differ along axis {axis}")
    products = arithmetic.multiply(first, second)
    return reduce.sum(products, -1, dtype=products.dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Returns `sum(|x| ** ord) ** (1 / ord)` along axes, or of all elements; `ord` may be 0 and infinite too."""
    return reduce.norm(x, ord, axis, keepdims)


publish(globals())
