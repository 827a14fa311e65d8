"""Systems of linear equations, determinants and Cholesky factors, by loops over columns that have derivatives."""

from __future__ import annotations

from tensorgrad.ops import reduce
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import equal, greater_equal, where
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat, moveaxis
from tensorgrad.ops.promotion import as_float, broadcast_shapes, broadcast_to, cast
from tensorgrad.ops.shape import arange, expand_dims, full, swapaxes
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.control import scan


def solution(matrices: Tensor, right: Tensor) -> Tensor:
    """Returns `x` of `matrices @ x = right`, of stacks that broadcast; not finite where a matrix is singular."""
    left, right = as_float(matrices), as_float(right)
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2], what="solve")
    parts = [broadcast_to(part, (*batch, *part.shape[-2:])) for part in (left, right)]
    columns = left.shape[-1]
    return eliminated(concat(parts, -1), columns, False)[0][..., columns:]


def eliminated(rows: Tensor, columns: int, through_zeros: bool) -> tuple[Tensor, Tensor]:
    """Eliminates columns in stacks of rows, by Gauss and Jordan with the largest pivot of each column.

    Args:
        rows: Rows of equations, in f16 they are computed in f32.
        columns: How many columns to eliminate, from the first.
        through_zeros: Whether to go on behind a pivot of 0, as determinants do; else what follows is not finite.

    Returns:
        The rows, whose eliminated columns are those of the identity, and the pivots along a new first axis, each with
        the sign of the exchange of rows that it came by.
    """
    if not columns:
        return rows, full((0, *rows.shape[:-2]), 1, rows.dtype)
    wide = cast(rows, NAMES["f32"]) if rows.dtype == NAMES["f16"] else rows
    row, column = arange(rows.shape[-2]), arange(rows.shape[-1])

    def step(rows: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        current = equal(row, place)
        sizes = absolute(_column(rows, equal(column, place)))
        pivot_at = reduce.argmax(where(greater_equal(row, place), sizes, -1.0), -1)
        chosen = equal(row, expand_dims(pivot_at, -1))
        pivot_row, current_row = _row(rows, chosen), _row(rows, current)
        swapped = where(expand_dims(chosen, -1), expand_dims(current_row, -2), rows)
        pivot = reduce.sum(where(equal(column, place), pivot_row, 0.0), -1)
        divisor = where(equal(pivot, 0.0), 1.0, pivot) if through_zeros else pivot
        unit = expand_dims(pivot_row / expand_dims(divisor, -1), -2)
        factors = expand_dims(_column(swapped, equal(column, place)), -1)
        reduced = where(expand_dims(current, -1), unit, swapped - factors * unit)
        return reduced, where(equal(pivot_at, place), pivot, -pivot)

    left, pivots = scan(step, wide, arange(columns))
    return cast(left, rows.dtype), cast(pivots, rows.dtype)


def _column(rows: Tensor, which: Tensor) -> Tensor:
    return reduce.sum(where(which, rows, 0.0), -1)


def _row(rows: Tensor, which: Tensor) -> Tensor:
    return reduce.sum(where(expand_dims(which, -1), rows, 0.0), -2)


def cholesky_factor(matrices: Tensor) -> Tensor:
    """Returns the lower factors `L` of `L @ L.mT = matrices`; NaN where a matrix is not positive definite."""
    if not matrices.size:
        return matrices
    symmetric = (matrices + swapaxes(matrices, -1, -2)) * 0.5
    wide = cast(symmetric, NAMES["f32"]) if matrices.dtype == NAMES["f16"] else symmetric
    place_of = arange(matrices.shape[-1])

    def step(rest: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        current = equal(place_of, place)
        column = _column(rest, current)
        corner = reduce.sum(where(current, column, 0.0), -1, keepdims=True)
        factor = where(greater_equal(place_of, place), column, 0.0) / sqrt(corner)
        return rest - expand_dims(factor, -1) * expand_dims(factor, -2), factor

    columns = scan(step, wide, place_of)[1]
    return cast(moveaxis(columns, 0, -1), matrices.dtype)
