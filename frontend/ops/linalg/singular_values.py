"""Singular values of matrices, by one-sided Jacobi rotations, and pseudoinverses.

The functions here take nonempty matrices with at most as many columns as rows.
"""

from __future__ import annotations

from tensorgrad.ops.elementwise.arithmetic import greater, where
from tensorgrad.ops.joining import concat
from tensorgrad.ops.linalg.arguments import transposed
from tensorgrad.ops.linalg.householder import householder_qr
from tensorgrad.ops.linalg.jacobi import (
    gap_tolerance,
    identities,
    inverse_gaps,
    lengths,
    on_diagonal,
    orthogonalized,
    scaled,
)
from tensorgrad.ops.reduce import matmul
from tensorgrad.ops.shape import elements_at, expand_dims
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

Factors = tuple[Tensor, Tensor, Tensor]
"""`U`, `s` and `Vh` of `(U * s) @ Vh`."""


def _jacobi_svdvals(matrices: Tensor) -> Tensor:
    elements, scale = scaled(matrices)
    is_square = matrices.shape[-2] == matrices.shape[-1]
    values = lengths(orthogonalized(elements if is_square else householder_qr(elements, False)[1])[0])
    return elements_at(values, argsort(values, descending=True), -1) * scale


def _jacobi_svd(matrices: Tensor) -> Factors:
    """Computes `U` by a QR factorization, so that its columns are orthonormal even for singular values of 0."""
    elements, scale = scaled(matrices)
    count = matrices.shape[-1]
    is_square = matrices.shape[-2] == count
    left, square = (elements, elements) if is_square else householder_qr(elements, False)
    columns, rows = orthogonalized(square, identities(matrices, count + count % 2))
    values = lengths(columns)
    order = argsort(values, descending=True)
    columns, rows = (elements_at(part, expand_dims(order, -1), -2) for part in (columns, rows))
    inner, _ = householder_qr(transposed(columns), False)
    return inner if is_square else matmul(left, inner), elements_at(values, order, -1) * scale, rows


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
