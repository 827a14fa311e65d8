"""Systems of linear equations, determinants and Cholesky factors, by differentiable loops over columns."""

from __future__ import annotations

from tensorgrad.ops import reduce
from tensorgrad.ops.creation import arange, full
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import equal, greater, greater_equal, less, where
from tensorgrad.ops.elementwise.functions import sqrt
from tensorgrad.ops.joining import concat, moveaxis
from tensorgrad.ops.promotion import broadcast_shapes, broadcast_to, cast, widened
from tensorgrad.ops.shape import expand_dims, swapaxes
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.control import scan


def gauss_jordan_solve(matrices: Tensor, right: Tensor) -> Tensor:
    """Returns the solution `x` of `matrices @ x = right`; batch axes broadcast. Not finite if a matrix is singular."""
    batch = broadcast_shapes(matrices.shape[:-2], right.shape[:-2], what="solve")
    parts = [broadcast_to(part, (*batch, *part.shape[-2:])) for part in (matrices, right)]
    columns = matrices.shape[-1]
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
    wide = widened(rows)
    row, column = arange(rows.shape[-2]), arange(rows.shape[-1])

    def step(rows: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        chosen, pivot_row, pivot, swapped = _pivoted(rows, place)
        divisor = where(equal(pivot, 0.0), 1.0, pivot) if through_zeros else pivot
        unit = expand_dims(pivot_row / expand_dims(divisor, -1), -2)
        factors = expand_dims(_column(swapped, equal(column, place)), -1)
        reduced = where(expand_dims(equal(row, place), -1), unit, swapped - factors * unit)
        return reduced, where(equal(chosen, place), pivot, -pivot)

    left, pivots = scan(step, wide, arange(columns))
    return cast(left, rows.dtype), cast(pivots, rows.dtype)


def _pivoted(rows: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Chooses the pivot of a column: of the rows from `place` on, the one with the largest element there.

    Returns:
        The pivot's row number, its row, the pivot, and the matrices with the row of `place` in that row's place too.
    """
    row, column = arange(rows.shape[-2]), arange(rows.shape[-1])
    sizes = absolute(_column(rows, equal(column, place)))
    number = reduce.argmax(where(greater_equal(row, place), sizes, -1.0), -1)
    chosen = equal(row, expand_dims(number, -1))
    pivot_row, current_row = _row(rows, chosen), _row(rows, equal(row, place))
    swapped = where(expand_dims(chosen, -1), expand_dims(current_row, -2), rows)
    return number, pivot_row, reduce.sum(where(equal(column, place), pivot_row, 0.0), -1), swapped


def _column(rows: Tensor, which: Tensor) -> Tensor:
    return reduce.sum(where(which, rows, 0.0), -1)


def _row(rows: Tensor, which: Tensor) -> Tensor:
    return reduce.sum(where(expand_dims(which, -1), rows, 0.0), -2)


def triangular_factors(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns triangular factors of matrices of shape (..., m, n), by partial pivoting as in LAPACK's `getrf`.

    Returns:
        The factors in one matrix, the ones on the diagonal of the lower one left out; for each column in turn, the row
        that was exchanged with the column's; and the rows' numbers after all exchanges, both i32.
    """
    row, column = arange(matrices.shape[-2]), arange(matrices.shape[-1])
    order = broadcast_to(row, matrices.shape[:-1])
    columns = min(matrices.shape[-2:])
    if not matrices.size:
        return matrices, order[..., :columns], order

    def step(carry: tuple[Tensor, Tensor], place: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        rows, order = carry
        chosen, pivot_row, pivot, swapped = _pivoted(rows, place)
        current, below, here = equal(row, place), greater(row, place), equal(column, place)
        divisor = where(equal(pivot, 0.0), 1.0, pivot)  # all below a pivot of 0 is 0
        factors = where(below, _column(swapped, here) / expand_dims(divisor, -1), 0.0)
        pivoted = where(expand_dims(current, -1), expand_dims(pivot_row, -2), swapped)
        right = where(greater(column, place), pivot_row, 0.0)
        reduced = pivoted - expand_dims(factors, -1) * expand_dims(right, -2)
        eliminated = where(expand_dims(below, -1), where(here, expand_dims(factors, -1), reduced), pivoted)
        is_chosen = equal(row, expand_dims(chosen, -1))
        numbers = [reduce.sum(where(which, order, 0), -1, keepdims=True) for which in (current, is_chosen)]
        return (eliminated, where(current, numbers[1], where(is_chosen, numbers[0], order))), chosen

    (factors, order), exchanges = scan(step, (matrices, order), arange(columns))
    return factors, moveaxis(exchanges, 0, -1), order


def substitute(matrices: Tensor, right: Tensor, upper: bool, unit_diagonal: bool) -> Tensor:
    """Returns the solution `x` of `matrices @ x = right` for triangular matrices; batch axes broadcast.

    Args:
        matrices: Matrices of shape (..., n, n); what is beside the triangle is not read.
        right: Right sides of shape (..., n, k); f16 is computed in f32.
        upper: Whether the triangle is the one above the diagonal, not the one below.
        unit_diagonal: Whether the diagonal is ones, whatever is there.
    """
    columns, rest = widened(matrices), widened(right)
    batch = broadcast_shapes(columns.shape[:-2], rest.shape[:-2], what="solve_triangular")
    rest = broadcast_to(rest, (*batch, *rest.shape[-2:]))
    if not rest.size:
        return cast(rest, right.dtype)
    row = arange(columns.shape[-1])

    def step(rest: Tensor, element: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        place, column = element
        current, after = equal(row, place), less(row, place) if upper else greater(row, place)
        solved = _row(rest, current)
        if not unit_diagonal:
            solved = solved / reduce.sum(where(current, column, 0.0), -1, keepdims=True)
        return rest - expand_dims(where(after, column, 0.0), -1) * expand_dims(solved, -2), solved

    rows = scan(step, rest, (row, moveaxis(columns, -1, 0)), reverse=upper)[1]
    return cast(moveaxis(rows, 0, -2), right.dtype)


def cholesky_factor(matrices: Tensor) -> Tensor:
    """Returns the lower triangular `L` with `L @ L.mT = matrices`; NaN if a matrix is not positive definite."""
    if not matrices.size:
        return matrices
    symmetric = (matrices + swapaxes(matrices, -1, -2)) * 0.5
    wide = widened(symmetric)
    place_of = arange(matrices.shape[-1])

    def step(rest: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        current = equal(place_of, place)
        column = _column(rest, current)
        corner = reduce.sum(where(current, column, 0.0), -1, keepdims=True)
        factor = where(greater_equal(place_of, place), column, 0.0) / sqrt(corner)
        return rest - expand_dims(factor, -1) * expand_dims(factor, -2), factor

    columns = scan(step, wide, place_of)[1]
    return cast(moveaxis(columns, 0, -1), matrices.dtype)
