"""Eigenvalues and eigenvectors of symmetric matrices.

The columns of a symmetric positive definite matrix, rotated until they are orthogonal, are its eigenvectors times its
eigenvalues. A multiple of the identity makes a symmetric matrix definite: otherwise, two eigenvalues that differ by
sign alone would be one singular value.
"""

from __future__ import annotations

from tensorgrad.ops import reduce
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import maximum
from tensorgrad.ops.joining import eye
from tensorgrad.ops.linalg.jacobi import gap_tolerance, inverse_gaps, lengths, on_diagonal, orthogonalized, scaled
from tensorgrad.ops.shape import elements_at, expand_dims, swapaxes
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

DISTANCE = 1.5
"""The multiple of a bound on the norm of a matrix that is added to its diagonal. Eigenvalues are then at least a fifth
of the largest one, so that rounding errors of all columns are small beside their lengths."""


def _eigenpairs(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the eigenvalues, ascending, and the eigenvectors as rows.

    An eigenvalue is within a few eps of the norm of its matrix, as with other backward stable methods.
    """
    elements, scale = scaled(matrices)
    shift = DISTANCE * maximum(1.0, _norm_bound(elements))
    identity = eye(matrices.shape[-1], dtype=matrices.dtype)
    (columns,) = orthogonalized(elements + expand_dims(shift, -1) * identity)
    shifted = lengths(columns)
    order = argsort(shifted)
    vectors = elements_at(columns / expand_dims(shifted, -1), expand_dims(order, -1), -2)
    return elements_at(shifted - shift, order, -1) * scale, vectors


def _norm_bound(matrices: Tensor) -> Tensor:
    """Returns bounds on spectral norms, too large by at most a factor of `extent ** (1 / 16)`.

    They are Frobenius norms of eighth powers, of matrices divided by their largest sum of a row.
    """
    largest = maximum(1.0, reduce.max(reduce.sum(absolute(matrices), -1), -1, keepdims=True))
    power = matrices / expand_dims(largest, -1)
    for _ in range(3):
        power = reduce.matmul(power, power)
    return largest * reduce.sum(power * power, (-2, -1))[..., None] ** (1 / 16)


def _jacobi_eigvalsh(matrices: Tensor) -> Tensor:
    return _eigenpairs(matrices)[0]


def _jacobi_eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = _eigenpairs(matrices)
    return values, swapaxes(vectors, -1, -2)


jacobi_eigvalsh = custom_vjp(_jacobi_eigvalsh)
"""Returns the eigenvalues of nonempty symmetric matrices, ascending."""
jacobi_eigh = custom_vjp(_jacobi_eigh)
"""Returns the eigenvalues of nonempty symmetric matrices, ascending, and the eigenvectors, as columns of a matrix.

Eigenvectors have no derivative where eigenvalues are equal up to rounding: there, terms of the formula that are divided
by their difference are taken as 0.
"""


def _jacobi_eigh_forward(matrices: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    eigenpairs = jacobi_eigh(matrices)
    return eigenpairs, eigenpairs


def _jacobi_eigh_backward(residuals: tuple[Tensor, Tensor], cotangents: tuple[Tensor, Tensor]) -> tuple[Tensor]:
    """Source: Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation,
    section 3.1 (2008)."""
    values, vectors = residuals
    rows = swapaxes(vectors, -1, -2)
    factors = inverse_gaps(expand_dims(values, -2) - expand_dims(values, -1), gap_tolerance(values, values.shape[-1]))
    inner = on_diagonal(cotangents[0]) + factors * reduce.matmul(rows, cotangents[1])
    return (reduce.matmul(reduce.matmul(vectors, inner), rows),)


def _jacobi_eigvalsh_forward(matrices: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = jacobi_eigh(matrices)
    return values, vectors


def _jacobi_eigvalsh_backward(vectors: Tensor, cotangent: Tensor) -> tuple[Tensor]:
    return (reduce.matmul(vectors * expand_dims(cotangent, -2), swapaxes(vectors, -1, -2)),)


jacobi_eigh.defvjp(_jacobi_eigh_forward, _jacobi_eigh_backward)
jacobi_eigvalsh.defvjp(_jacobi_eigvalsh_forward, _jacobi_eigvalsh_backward)
