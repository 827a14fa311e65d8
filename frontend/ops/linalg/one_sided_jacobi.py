"""Singular values of matrices, by one-sided Jacobi rotations, and pseudoinverses.

Source: Hestenes, Inversion of matrices by biorthogonalization and related results, J. SIAM 6 (1958), with the rounds of
`jacobi`. The functions here take nonempty matrices with at most as many columns as rows.
"""

from __future__ import annotations

from tensorgrad.ops import reduce
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import equal, greater, maximum, where
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat
from tensorgrad.ops.linalg.arguments import transposed
from tensorgrad.ops.linalg.householder import householder_qr
from tensorgrad.ops.linalg.jacobi import (
    CONVERGED,
    epsilon,
    gap_tolerance,
    identities,
    inverse_gaps,
    on_diagonal,
    padded_rows,
    rotate_rows,
    rotation,
    sweep_until_converged,
)
from tensorgrad.ops.reduce import matmul
from tensorgrad.ops.shape import expand_dims, take_along_axis
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

Factors = tuple[Tensor, Tensor, Tensor]
"""`U`, `s` and `Vh` of `(U * s) @ Vh`."""


def _round(state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    rows, half = state[0], state[0].shape[-2] // 2
    upper, lower = rows[..., :half, :], rows[..., half:, :]
    first, second = reduce.sum(upper * upper, -1), reduce.sum(lower * lower, -1)
    product = 2.0 * reduce.sum(upper * lower, -1)
    cosine, sine = rotation(second - first, product)
    longer = maximum(first, second)
    limit = CONVERGED * epsilon(rows) * sqrt(longer) * sqrt(reduce.max(longer, -1, keepdims=True))
    return tuple(rotate_rows(part, cosine, sine) for part in state), reduce.any(greater(absolute(product), limit))


def _orthogonalized(square: Tensor, *rows: Tensor) -> tuple[Tensor, ...]:
    """Rotates the columns of square matrices until they are orthogonal; returns them as rows.

    Other rows, such as those of an identity, are rotated in the same way, and returned too.
    """
    even = padded_rows(transposed(square))
    count = square.shape[-1]
    return tuple(part[..., :count, :count] for part in sweep_until_converged(_round, (even, *rows), even.shape[-2]))


def _scaled(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Scales matrices to a largest element of 1, so that squares don't overflow; returns them and the divisors."""
    largest = reduce.max(absolute(matrices), (-2, -1), keepdims=True)
    scale = where(equal(largest, 0.0), 1.0, largest)
    return matrices / scale, scale[..., 0]


def _lengths(rows: Tensor) -> Tensor:
    return sqrt(reduce.sum(rows * rows, -1))


def _jacobi_svdvals(matrices: Tensor) -> Tensor:
    scaled, scale = _scaled(matrices)
    is_square = matrices.shape[-2] == matrices.shape[-1]
    lengths = _lengths(_orthogonalized(scaled if is_square else householder_qr(scaled, False)[1])[0])
    return take_along_axis(lengths, argsort(lengths, descending=True), -1) * scale


def _jacobi_svd(matrices: Tensor) -> Factors:
    """Computes `U` by a QR factorization, so that its columns are orthonormal even for singular values of 0."""
    scaled, scale = _scaled(matrices)
    count = matrices.shape[-1]
    is_square = matrices.shape[-2] == count
    left, square = (scaled, scaled) if is_square else householder_qr(scaled, False)
    columns, rows = _orthogonalized(square, identities(matrices, count + count % 2))
    lengths = _lengths(columns)
    order = argsort(lengths, descending=True)
    columns, rows = (take_along_axis(part, expand_dims(order, -1), -2) for part in (columns, rows))
    inner, _ = householder_qr(transposed(columns), False)
    return inner if is_square else matmul(left, inner), take_along_axis(lengths, order, -1) * scale, rows


def _jacobi_pinv(matrices: Tensor, cutoff: Tensor) -> Tensor:
    left, values, right = jacobi_svd(matrices)
    counts = greater(values, expand_dims(cutoff, -1) * values[..., :1])
    inverses = where(counts, 1.0 / where(counts, values, 1.0), 0.0)
    return matmul(transposed(right) * expand_dims(inverses, -2), transposed(left))


jacobi_svdvals = custom_vjp(_jacobi_svdvals)
"""Returns the singular values of matrices, descending."""
jacobi_svd = custom_vjp(_jacobi_svd)
"""Returns `U`, the singular values, descending, and `Vh`, for matrices of shape (..., m, n); `U` has the same shape.

Singular vectors have no derivative where singular values are equal or 0 up to rounding: there, terms of the formula
that are divided by their difference, sum or magnitude are taken as 0.
"""
jacobi_pinv = custom_vjp(_jacobi_pinv)
"""Returns the pseudoinverses of matrices, given the cutoff for singular values of each, relative to the largest.

The derivative assumes that the rank is locally constant, and doesn't require singular values to differ.
"""


def completed_basis(columns: Tensor) -> Tensor:
    """Extends orthonormal columns to square orthogonal matrices."""
    return concat([columns, householder_qr(columns, True)[0][..., columns.shape[-1] :]], -1)


def _jacobi_svd_forward(matrices: Tensor) -> tuple[Factors, Factors]:
    factors = jacobi_svd(matrices)
    return factors, factors


def _jacobi_svd_backward(residuals: Factors, cotangents: Factors) -> tuple[Tensor]:
    """Source: Townsend, Differentiating the singular value decomposition (2016)."""
    left, values, right = residuals
    by_left, by_values, by_right = cotangents
    limit = gap_tolerance(values, left.shape[-2])
    across, along = expand_dims(values, -1), expand_dims(values, -2)
    factors = inverse_gaps(along - across, limit) * inverse_gaps(along + across, limit)
    projected = matmul(transposed(left), by_left)
    turning = matmul(right, transposed(by_right))
    inner = factors * ((projected - transposed(projected)) * along + across * (turning - transposed(turning)))
    product = matmul(left, inner + on_diagonal(by_values))
    if left.shape[-2] > left.shape[-1]:
        product = product + (by_left - matmul(left, projected)) * inverse_gaps(along, limit)
    return (matmul(product, right),)


def _jacobi_svdvals_forward(matrices: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    left, values, right = jacobi_svd(matrices)
    return values, (left, right)


def _jacobi_svdvals_backward(residuals: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor]:
    left, right = residuals
    return (matmul(left * expand_dims(cotangent, -2), right),)


def _jacobi_pinv_forward(matrices: Tensor, cutoff: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    inverse = jacobi_pinv(matrices, cutoff)
    return inverse, (matrices, inverse)


def _jacobi_pinv_backward(residuals: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor, None]:
    """Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose
    variables separate, SIAM J. Numer. Anal. 10 (1973)."""
    matrices, inverse = residuals
    back, across = transposed(inverse), transposed(cotangent)
    left = across - matmul(matrices, matmul(inverse, across))
    right = across - matmul(matmul(across, inverse), matrices)
    turned_back = matmul(matmul(back, cotangent), back)
    return matmul(matmul(left, inverse), back) + matmul(matmul(back, inverse), right) - turned_back, None


jacobi_svd.defvjp(_jacobi_svd_forward, _jacobi_svd_backward)
jacobi_svdvals.defvjp(_jacobi_svdvals_forward, _jacobi_svdvals_backward)
jacobi_pinv.defvjp(_jacobi_pinv_forward, _jacobi_pinv_backward)
