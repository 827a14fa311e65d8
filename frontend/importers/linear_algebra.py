"""What LAPACK, which other libraries call, does otherwise than `tg.linalg`."""

from __future__ import annotations

from typing import Literal

import tensorgrad as tg
from tensorgrad.tracing.tensor import Tensor


def symmetric(x: Tensor, lower: bool) -> Tensor:
    """Returns the symmetric matrices of which a triangle is that of `x`: the other one is not read.

    Derivatives are those of the symmetric part of `x`, as in PyTorch, so both triangles have the same.
    """
    triangle, opposite = (tg.tril(x), tg.tril(x, k=-1)) if lower else (tg.triu(x), tg.triu(x, k=1))
    half = x * 0.5
    part = half + half.mT
    return part + tg.stop_gradient(triangle + opposite.mT - part)


def solve_triangular(x: Tensor, right: Tensor, upper: bool, left: bool, unit_diagonal: bool) -> Tensor:
    """Returns the solution `y` of `x @ y = right`, or of `y @ x = right` if `x` isn't on the left."""
    if left:
        return tg.linalg.solve_triangular(x, right, upper=upper, unit_diagonal=unit_diagonal)
    return tg.linalg.solve_triangular(x.mT, right.mT, upper=not upper, unit_diagonal=unit_diagonal).mT


def permutation(pivots: Tensor, rows: int) -> Tensor:
    """Returns the row that comes to each place where rows are exchanged with pivots, counted from 0, in turn."""
    row = tg.arange(rows)

    def exchange(order: Tensor, swap: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        place, pivot = swap[0], tg.expand_dims(swap[1], -1)
        there, here = tg.take_along_axis(order, pivot, -1), order[..., place, None]
        return tg.where(row == place, there, tg.where(row == pivot, here, order)), None

    start = tg.broadcast_to(row, (*pivots.shape[:-1], rows))
    return tg.scan(exchange, start, (tg.arange(pivots.shape[-1]), tg.moveaxis(pivots, -1, 0)))[0]


def qr(x: Tensor, mode: Literal["reduced", "complete"]) -> tuple[Tensor, Tensor]:
    """Returns `Q` and `R` with LAPACK's signs; `tg.linalg.qr` has those that make the diagonal of `R` positive.

    A reflection takes a column to its place on the diagonal, with the sign that the element there doesn't have; a
    column that is there already is not reflected. The reflections of `x` are those of `Q`, where elimination finds
    them: G. Ballard et al., Reconstructing Householder Vectors from Tall-Skinny QR, 2014.
    """
    q, r = tg.linalg.qr(x, mode=mode)
    row, column = tg.arange(q.shape[-2]), tg.arange(q.shape[-1])
    count = min(x.shape[-2:])

    def reflect(rest: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        vector = tg.take(rest, place, -1)
        sign = tg.where(tg.take(vector, place, -1) >= 0, 1.0, -1.0)
        normal = tg.where(row > place, vector / tg.expand_dims(tg.take(vector, place, -1) + sign, -1), 0.0)
        along = tg.where(column > place, tg.take(rest, place, -2), 0.0)
        is_reflected = tg.any(tg.not_equal(normal, 0.0), -1)
        return rest - tg.expand_dims(normal, -1) * tg.expand_dims(along, -2), tg.where(is_reflected, -sign, sign)

    signs = tg.moveaxis(tg.scan(reflect, tg.stop_gradient(q), tg.arange(count))[1], 0, -1)
    others = tg.ones((*signs.shape[:-1], q.shape[-1] - count), x.dtype)
    of_columns = tg.concat([signs, others], -1)
    return q * tg.expand_dims(of_columns, -2), r * tg.expand_dims(of_columns, -1)
