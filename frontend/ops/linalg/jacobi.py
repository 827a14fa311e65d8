"""Rotations that make the columns of a matrix orthogonal, of disjoint pairs in parallel.

Columns are stored as rows. In a round, each row belongs to one pair; a sweep consists of `n - 1` rounds, in which every
two rows are paired once. The loops are not differentiated; derivatives of what is computed from them have closed forms.

Sources: Hestenes, Inversion of matrices by biorthogonalization and related results, J. SIAM 6 (1958); Brent and Luk,
The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays, SIAM J. Sci. Stat. Comput. 6
(1985).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.ops import reduce
from tensorgrad.ops.creation import full
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import (
    copysign,
    equal,
    greater,
    less_equal,
    logical_or,
    maximum,
    stop_gradient,
    where,
)
from tensorgrad.ops.elementwise.composed import hypot
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat, eye, pad
from tensorgrad.ops.linalg.arguments import transposed
from tensorgrad.ops.promotion import broadcast_to
from tensorgrad.ops.shape import expand_dims
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.control import cond, scan

State = tuple[Tensor, ...]
"""The rows to make orthogonal, and others that are rotated in the same way."""

SWEEPS = 60
"""The maximum number of sweeps. Random matrices of 128 rows took about 10; the most observed up to this size is 32, if
half of the eigenvalues are equal."""
CONVERGED = 4
"""Sweeps stop once twice the product of every two rows is at most this times its rounding error."""


def orthogonalized(square: Tensor, *rows: Tensor) -> State:
    """Rotates the columns of square matrices until they are orthogonal; returns them as rows.

    Other rows, such as those of an identity, are rotated in the same way, and returned too. Sweeps run until they
    change nothing but rounding errors, or for `SWEEPS`.
    """
    columns, count = _padded_rows(transposed(square)), square.shape[-1]

    def round_(carry: Any, _: None) -> tuple[Any, None]:
        state, is_moving = _round(carry[0])
        return (state, logical_or(carry[1], is_moving)), None

    def sweep(carry: Any, _: None) -> tuple[Any, None]:
        state, is_moving = carry

        def swept(state: State) -> Any:
            return scan(round_, (state, full((), False, NAMES["bool"])), length=columns.shape[-2] - 1)[0]

        return cond(is_moving, swept, lambda state: (state, full((), False, NAMES["bool"])), state), None

    final = scan(sweep, ((columns, *rows), full((), True, NAMES["bool"])), length=SWEEPS)[0][0]
    return tuple(part[..., :count, :count] for part in final)


def _round(state: State) -> tuple[State, Tensor]:
    """Returns the state after a round, and whether some pair was further from orthogonal than by rounding errors."""
    rows, half = state[0], state[0].shape[-2] // 2
    upper, lower = rows[..., :half, :], rows[..., half:, :]
    first, second = reduce.sum(upper * upper, -1), reduce.sum(lower * lower, -1)
    product = 2.0 * reduce.sum(upper * lower, -1)
    longer = maximum(first, second)
    noise = epsilon(rows) * sqrt(longer) * sqrt(reduce.max(longer, -1, keepdims=True))
    # Rows of equal length would be turned by half a right angle for no more than a rounding error.
    angles = _rotation(second - first, where(greater(absolute(product), noise), product, 0.0))
    return tuple(_rotated(part, *angles) for part in state), reduce.any(greater(absolute(product), CONVERGED * noise))


def _rotation(gap: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """Returns sines, and tangents of half the angles, that diagonalize `[[0, product / 2], [product / 2, gap]]`.

    Of the two angles, it is the smaller one.
    """
    divisor = gap + copysign(hypot(gap, product), gap)
    is_flat = equal(divisor, 0.0)
    tangent = where(is_flat, 0.0, product / where(is_flat, 1.0, divisor))
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    return sine, sine / (1.0 + cosine)


def _rotated(rows: Tensor, sine: Tensor, half_tangent: Tensor) -> Tensor:
    """Rotates each row of the upper half with its counterpart in the lower half, then forms the next round's pairs.

    For that, all rows except the first move by one place, cyclically through both halves. What a rotation changes is
    computed and added: products with a cosine, rounded to 1 where angles are small, would make all rows longer, in each
    round. Source: Rutishauser, The Jacobi method for real symmetric matrices, Numer. Math. 9 (1966).
    """
    half = rows.shape[-2] // 2
    upper, lower = rows[..., :half, :], rows[..., half:, :]
    sine, half_tangent = expand_dims(sine, -1), expand_dims(half_tangent, -1)
    upper, lower = upper - sine * (lower + half_tangent * upper), lower + sine * (upper - half_tangent * lower)
    if half == 1:
        return concat([upper, lower], -2)
    first, last = upper[..., :1, :], upper[..., half - 1 :, :]
    return concat([first, lower[..., :1, :], upper[..., 1 : half - 1, :], lower[..., 1:, :], last], -2)


def epsilon(x: Tensor) -> float:
    """Returns eps of a tensor's dtype."""
    return float(np.finfo(x.dtype).eps)


def _padded_rows(x: Tensor) -> Tensor:
    """Appends a row of zeros if the number of rows is odd."""
    return pad(x, [(0, 0)] * (x.ndim - 2) + [(0, 1), (0, 0)]) if x.shape[-2] % 2 else x


def identities(x: Tensor, extent: int) -> Tensor:
    """Returns a stack of identity matrices, one for each matrix of `x`."""
    return broadcast_to(eye(extent, dtype=x.dtype), (*x.shape[:-2], extent, extent))


def scaled(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Scales matrices to a largest element of 1, so that squares don't overflow; returns them and the divisors."""
    largest = reduce.max(absolute(matrices), (-2, -1), keepdims=True)
    scale = where(equal(largest, 0.0), 1.0, largest)
    return matrices / scale, scale[..., 0]


def lengths(rows: Tensor) -> Tensor:
    """Returns the Euclidean norm of each row."""
    return sqrt(reduce.sum(rows * rows, -1))


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
