"""Singular values of matrices, by one-sided Jacobi rotations, and pseudoinverses.

Source: Hestenes, Inversion of matrices by biorthogonalization and related results, J. SIAM 6 (1958), in the order of
rounds of `jacobi`. The functions here take matrices that have elements, and no more columns than rows.
"""

from __future__ import annotations

from tensorgrad.array_api.jacobi import (
    SETTLED,
    identities,
    inverse_gaps,
    on_diagonal,
    padded_rows,
    rotation,
    rounding,
    rounding_limit,
    turned,
    until_settled,
)
from tensorgrad.array_api.orthogonal import orthogonal_factors
from tensorgrad.ops import reduce
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import equal, greater, maximum, where
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat
from tensorgrad.ops.reduce import matmul
from tensorgrad.ops.shape import expand_dims, swapaxes, take_along_axis
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

Factors = tuple[Tensor, Tensor, Tensor]
"""`U`, `s` and `Vh` of `(U * s) @ Vh`."""


def _transposed(x: Tensor) -> Tensor:
    return swapaxes(x, -1, -2)


def _round(state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    rows, half = state[0], state[0].shape[-2] // 2
    upper, lower = rows[..., :half, :], rows[..., half:, :]
    first, second = reduce.sum(upper * upper, -1), reduce.sum(lower * lower, -1)
    product = 2.0 * reduce.sum(upper * lower, -1)
    cosine, sine = rotation(second - first, product)
    longer = maximum(first, second)
    limit = SETTLED * rounding(rows) * sqrt(longer) * sqrt(reduce.max(longer, -1, keepdims=True))
    return tuple(turned(part, cosine, sine) for part in state), reduce.any(greater(absolute(product), limit))


def _settled(square: Tensor, *rows: Tensor) -> tuple[Tensor, ...]:
    """Returns the columns of square matrices as rows that are orthogonal to each other, and other rows turned alike."""
    even = padded_rows(_transposed(square))
    count = square.shape[-1]
    return tuple(part[..., :count, :count] for part in until_settled(_round, (even, *rows), even.shape[-2]))


def _scaled(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Returns matrices whose largest elements are 1, so that no square overflows, and what they were divided by."""
    largest = reduce.max(absolute(matrices), (-2, -1), keepdims=True)
    scale = where(equal(largest, 0.0), 1.0, largest)
    return matrices / scale, scale[..., 0]


def _lengths(rows: Tensor) -> Tensor:
    return sqrt(reduce.sum(rows * rows, -1))


def _singular_values(matrices: Tensor) -> Tensor:
    scaled, scale = _scaled(matrices)
    is_square = matrices.shape[-2] == matrices.shape[-1]
    lengths = _lengths(_settled(scaled if is_square else orthogonal_factors(scaled, False)[1])[0])
    return take_along_axis(lengths, argsort(lengths, descending=True), -1) * scale


def _singular(matrices: Tensor) -> Factors:
    """The columns of `U` come from orthogonal factors, so that they are orthonormal even for singular values of 0."""
    scaled, scale = _scaled(matrices)
    count = matrices.shape[-1]
    is_square = matrices.shape[-2] == count
    left, square = (scaled, scaled) if is_square else orthogonal_factors(scaled, False)
    columns, rows = _settled(square, identities(matrices, count + count % 2))
    lengths = _lengths(columns)
    order = argsort(lengths, descending=True)
    columns, rows = (take_along_axis(part, expand_dims(order, -1), -2) for part in (columns, rows))
    inner, _ = orthogonal_factors(_transposed(columns), False)
    return inner if is_square else matmul(left, inner), take_along_axis(lengths, order, -1) * scale, rows


def _pseudoinverse(matrices: Tensor, cutoff: Tensor) -> Tensor:
    left, values, right = singular(matrices)
    counts = greater(values, expand_dims(cutoff, -1) * values[..., :1])
    inverses = where(counts, 1.0 / where(counts, values, 1.0), 0.0)
    return matmul(_transposed(right) * expand_dims(inverses, -2), _transposed(left))


singular_values = custom_vjp(_singular_values)
"""Those of matrices, descending."""
singular = custom_vjp(_singular)
"""`U`, the singular values, descending, and `Vh`, of matrices of shape (..., m, n): `U` has the same shape.

Where singular values are equal or 0 to rounding, singular vectors have no derivative: what the formula divides by their
difference, sum or size counts as 0 there.
"""
pseudoinverse = custom_vjp(_pseudoinverse)
"""The pseudoinverses of matrices, and which part of the largest singular value others have to exceed, for each matrix.

The derivative is that of matrices whose rank stays the same, and needs no gaps between singular values.
"""


def completed(columns: Tensor) -> Tensor:
    """Appends columns to orthonormal ones, so that they form square matrices."""
    return concat([columns, orthogonal_factors(columns, True)[0][..., columns.shape[-1] :]], -1)


def _singular_forward(matrices: Tensor) -> tuple[Factors, Factors]:
    found = singular(matrices)
    return found, found


def _singular_backward(kept: Factors, cotangents: Factors) -> tuple[Tensor]:
    """Source: Townsend, Differentiating the singular value decomposition (2016)."""
    left, values, right = kept
    by_left, by_values, by_right = cotangents
    limit = rounding_limit(values, left.shape[-2])
    across, along = expand_dims(values, -1), expand_dims(values, -2)
    factors = inverse_gaps(along - across, limit) * inverse_gaps(along + across, limit)
    projected = matmul(_transposed(left), by_left)
    turning = matmul(right, _transposed(by_right))
    inner = factors * ((projected - _transposed(projected)) * along + across * (turning - _transposed(turning)))
    found = matmul(left, inner + on_diagonal(by_values))
    if left.shape[-2] > left.shape[-1]:
        found = found + (by_left - matmul(left, projected)) * inverse_gaps(along, limit)
    return (matmul(found, right),)


def _singular_values_forward(matrices: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    left, values, right = singular(matrices)
    return values, (left, right)


def _singular_values_backward(kept: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor]:
    left, right = kept
    return (matmul(left * expand_dims(cotangent, -2), right),)


def _pseudoinverse_forward(matrices: Tensor, cutoff: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    found = pseudoinverse(matrices, cutoff)
    return found, (matrices, found)


def _pseudoinverse_backward(kept: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor, None]:
    """Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose
    variables separate, SIAM J. Numer. Anal. 10 (1973)."""
    matrices, found = kept
    back, across = _transposed(found), _transposed(cotangent)
    left = across - matmul(matrices, matmul(found, across))
    right = across - matmul(matmul(across, found), matrices)
    turned_back = matmul(matmul(back, cotangent), back)
    return matmul(matmul(left, found), back) + matmul(matmul(back, found), right) - turned_back, None


singular.defvjp(_singular_forward, _singular_backward)
singular_values.defvjp(_singular_values_forward, _singular_values_backward)
pseudoinverse.defvjp(_pseudoinverse_forward, _pseudoinverse_backward)
