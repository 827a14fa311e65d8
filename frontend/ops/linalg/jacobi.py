"""Eigenvalues of symmetric matrices, by parallel Jacobi rotations of disjoint pairs of rows.

In a round, each row belongs to one pair; a sweep consists of `n - 1` rounds, in which every two rows are paired once.
Source: Brent and Luk, The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays, SIAM
J. Sci. Stat. Comput. 6 (1985). The loops are not differentiated; derivatives have closed forms in the eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tensorgrad.ops import reduce
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import copysign, equal, greater, less_equal, logical_or, stop_gradient, where
from tensorgrad.ops.elementwise.composed import hypot
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat, diagonal, eye, pad
from tensorgrad.ops.promotion import broadcast_to
from tensorgrad.ops.shape import expand_dims, full, swapaxes, take_along_axis
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.control import cond, scan
from tensorgrad.transforms.custom_vjp import custom_vjp

State = TypeVar("State")

SWEEPS = 60
"""The maximum number of sweeps. Random matrices of 128 rows took about 10; the most observed up to this size is 32, if
half of the eigenvalues are equal."""
CONVERGED = 4
"""Sweeps stop once twice every off-diagonal element is at most this times eps, relative to the largest diagonal one."""


def sweep_until_converged(run_round: Callable[[State], tuple[State, Tensor]], state: State, rows: int) -> State:
    """Runs sweeps until they change nothing but rounding errors, or for `SWEEPS`; returns the final state.

    Args:
        run_round: Runs one round: returns the next state, and whether an element was larger than rounding errors.
        state: The initial state, a pytree of tensors.
        rows: The number of rows, which is even.
    """

    def round_(carry: Any, _: None) -> tuple[Any, None]:
        state, is_moving = run_round(carry[0])
        return (state, logical_or(carry[1], is_moving)), None

    def sweep(carry: Any, _: None) -> tuple[Any, None]:
        state, is_moving = carry

        def swept(state: Any) -> Any:
            return scan(round_, (state, full((), False, NAMES["bool"])), length=rows - 1)[0]

        return cond(is_moving, swept, lambda state: (state, full((), False, NAMES["bool"])), state), None

    return scan(sweep, (state, full((), True, NAMES["bool"])), length=SWEEPS)[0][0]


def rotation(gap: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cosines and sines of the smaller angles that diagonalize `[[0, product / 2], [product / 2, gap]]`."""
    divisor = gap + copysign(hypot(gap, product), gap)
    is_flat = equal(divisor, 0.0)
    tangent = where(is_flat, 0.0, product / where(is_flat, 1.0, divisor))
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    return cosine, tangent * cosine


def rotate_rows(rows: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates each row of the upper half with its counterpart in the lower half, then forms the next round's pairs.

    For that, all rows except the first move by one place, cyclically through both halves.
    """
    half = rows.shape[-2] // 2
    upper, lower = rows[..., :half, :], rows[..., half:, :]
    cosine, sine = expand_dims(cosine, -1), expand_dims(sine, -1)
    upper, lower = cosine * upper - sine * lower, sine * upper + cosine * lower
    if half == 1:
        return concat([upper, lower], -2)
    first, last = upper[..., :1, :], upper[..., half - 1 :, :]
    return concat([first, lower[..., :1, :], upper[..., 1 : half - 1, :], lower[..., 1:, :], last], -2)


def epsilon(x: Tensor) -> float:
    """Returns eps of a tensor's dtype."""
    return float(np.finfo(x.dtype).eps)


def padded_rows(x: Tensor, columns: int = 0) -> Tensor:
    """Appends a row of zeros if the number of rows is odd, and `columns` columns of zeros."""
    widths = [(0, 0)] * (x.ndim - 2) + [(0, x.shape[-2] % 2), (0, columns)]
    return pad(x, widths) if any(high for _, high in widths) else x


def identities(x: Tensor, extent: int) -> Tensor:
    """Returns a stack of identity matrices, one for each matrix of `x`."""
    return broadcast_to(eye(extent, dtype=x.dtype), (*x.shape[:-2], extent, extent))


def _round(state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    matrix, half = state[0], state[0].shape[-1] // 2
    corners = diagonal(matrix, 0, -2, -1)
    product = 2.0 * diagonal(matrix[..., :half, half:], 0, -2, -1)
    cosine, sine = rotation(corners[..., half:] - corners[..., :half], product)
    limit = CONVERGED * epsilon(matrix) * reduce.max(absolute(corners), -1, keepdims=True)
    once = swapaxes(rotate_rows(matrix, cosine, sine), -1, -2)
    results = (rotate_rows(once, cosine, sine), *(rotate_rows(rows, cosine, sine) for rows in state[1:]))
    return results, reduce.any(greater(absolute(product), limit))


def _diagonalized(matrices: Tensor, *rows: Tensor) -> tuple[Tensor, ...]:
    even = padded_rows(matrices, matrices.shape[-1] % 2)
    return sweep_until_converged(_round, (even, *rows), even.shape[-1])


def _jacobi_eigvalsh(matrices: Tensor) -> Tensor:
    values = diagonal(_diagonalized(matrices)[0], 0, -2, -1)[..., : matrices.shape[-1]]
    return take_along_axis(values, argsort(values), -1)


def _jacobi_eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    extent = matrices.shape[-1]
    final, rows = _diagonalized(matrices, identities(matrices, extent + extent % 2))
    values = diagonal(final, 0, -2, -1)[..., :extent]
    order = argsort(values)
    vectors = take_along_axis(rows[..., :extent, :extent], expand_dims(order, -1), -2)
    return take_along_axis(values, order, -1), swapaxes(vectors, -1, -2)


jacobi_eigvalsh = custom_vjp(_jacobi_eigvalsh)
"""Returns the eigenvalues of nonempty symmetric matrices, ascending."""
jacobi_eigh = custom_vjp(_jacobi_eigh)
"""Returns the eigenvalues of nonempty symmetric matrices, ascending, and the eigenvectors, as columns of a matrix.

Eigenvectors have no derivative where eigenvalues are equal up to rounding: there, terms of the formula that are divided
by their difference are taken as 0.
"""


def inverse_gaps(gaps: Tensor, limit: Tensor) -> Tensor:
    """Returns the reciprocals of gaps, and 0 for gaps whose magnitude is at most `limit`."""
    is_none = less_equal(stop_gradient(absolute(gaps)), stop_gradient(limit))
    return where(is_none, 0.0, 1.0 / where(is_none, 1.0, gaps))


def on_diagonal(values: Tensor) -> Tensor:
    """Returns diagonal matrices with these diagonals."""
    return expand_dims(values, -1) * eye(values.shape[-1], dtype=values.dtype)


def gap_tolerance(values: Tensor, extent: int) -> Tensor:
    """Returns the largest gap between values that counts as 0: `8 * extent * eps` times the largest value.

    The result has shape (..., 1, 1).
    """
    return expand_dims(reduce.max(absolute(values), -1, keepdims=True), -1) * (8 * extent * epsilon(values))


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
