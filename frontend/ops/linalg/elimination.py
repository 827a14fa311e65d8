"""Systems of linear equations, determinants and Cholesky factors, by differentiable loops over columns."""

from __future__ import annotations

from tensorgrad.ops import reduce
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import equal, greater_equal, where
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat, moveaxis
from tensorgrad.ops.promotion import as_float, broadcast_shapes, broadcast_to, cast
from tensorgrad.ops.shape import arange, expand_dims, full, swapaxes
from tensorgrad.tracing.dtypes import NAMES, is_half
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.control import scan


def gauss_jordan_solve(matrices: Tensor, right: Tensor) -> Tensor:
    """Returns the solution `x` of `matrices @ x = right`; batch axes broadcast. Not finite if a matrix is singular."""
    left, right = as_float(matrices), as_float(right)
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2], what="solve")
    parts = [broadcast_to(part, (*batch, *part.shape[-2:])) for part in (left, right)]
    columns = left.shape[-1]
    return gauss_jordan(concat(parts, -1), columns, False)[0][..., columns:]


def gauss_jordan(rows: Tensor, columns: int, through_zeros: bool) -> tuple[Tensor, Tensor]:
    """Eliminates the leading columns of stacks of matrices, by Gauss-Jordan elimination with partial pivoting.

    Args:
        rows: Matrices of shape (..., m, n); f16 is computed in f32.
        columns: The number of columns to eliminate.
        through_zeros: Whether to continue after a zero pivot, as determinants need; otherwise results are not finite.

    Returns:
        The matrices, whose eliminated columns are those of the identity; and the pivots along a new first axis, negated
        for row exchanges, so that their product is the determinant.
    """
    if not columns:
        return rows, full((0, *rows.shape[:-2]), 1, rows.dtype)
    wide = cast(rows, NAMES["f32"]) if is_half(rows.dtype) else rows
    row, column = arange(rows.shape[-2]), arange(rows.shape[-1])

    def step(rows: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        current = equal(row, place)
        sizes = absolute(_column(rows, equal(column, place)))
        pivot_place = reduce.argmax(where(greater_equal(row, place), sizes, -1.0), -1)
        chosen = equal(row, expand_dims(pivot_place, -1))
        pivot_row, current_row = _row(rows, chosen), _row(rows, current)
        swapped = where(expand_dims(chosen, -1), expand_dims(current_row, -2), rows)
        pivot = reduce.sum(where(equal(column, place), pivot_row, 0.0), -1)
        divisor = where(equal(pivot, 0.0), 1.0, pivot) if through_zeros else pivot
        unit = expand_dims(pivot_row / expand_dims(divisor, -1), -2)
        factors = expand_dims(_column(swapped, equal(column, place)), -1)
        reduced = where(expand_dims(current, -1), unit, swapped - factors * unit)
        return reduced, where(equal(pivot_place, place), pivot, -pivot)

    left, pivots = scan(step, wide, arange(columns))
    return cast(left, rows.dtype), cast(pivots, rows.dtype)


def _column(rows: Tensor, which: Tensor) -> Tensor:
    return reduce.sum(where(which, rows, 0.0), -1)


def _row(rows: Tensor, which: Tensor) -> Tensor:
    return reduce.sum(where(expand_dims(which, -1), rows, 0.0), -2)


def cholesky_factor(matrices: Tensor) -> Tensor:
    """Returns the lower triangular `L` with `L @ L.mT = matrices`; NaN if a matrix is not positive definite."""
    if not matrices.size:
        return matrices
    symmetric = (matrices + swapaxes(matrices, -1, -2)) * 0.5
    wide = cast(symmetric, NAMES["f32"]) if is_half(matrices.dtype) else symmetric
    place_of = arange(matrices.shape[-1])

    def step(rest: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        current = equal(place_of, place)
        column = _column(rest, current)
        corner = reduce.sum(where(current, column, 0.0), -1, keepdims=True)
        factor = where(greater_equal(place_of, place), column, 0.0) / sqrt(corner)
        return rest - expand_dims(factor, -1) * expand_dims(factor, -2), factor

    columns = scan(step, wide, place_of)[1]
    return cast(moveaxis(columns, 0, -1), matrices.dtype)
