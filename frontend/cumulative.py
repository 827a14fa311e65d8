"""Running sums and products along an axis."""

from __future__ import annotations

from typing import Any

from tensorgrad.dtypes import NAMES
from tensorgrad.elementwise import as_tensor, broadcast_to, cast, where
from tensorgrad.joining import concat, moveaxis, pad
from tensorgrad.reductions import sum as total
from tensorgrad.shaping import arange, expand_dims, full, normalized_axis, reshape
from tensorgrad.tensor import Tensor, method

BLOCK = 32
"""So many elements are summed from their own start; the sums of blocks run in turn."""


def _prepared(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """The tensor, flattened if there is no axis, with the axis moved to the end; booleans count."""
    tensor = as_tensor(x)
    if tensor.dtype == NAMES["bool"]:
        tensor = cast(tensor, NAMES["i32"])
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    place = normalized_axis(axis, tensor.ndim, what)
    return moveaxis(tensor, place, -1), place


@method
def cumsum(x: Any, axis: int | None = None) -> Tensor:
    """Running sums along `axis` (of the flattened tensor if `None`).

    Blocks of 32 elements are summed at once, and the sums of blocks the same way: two kernels for each power of 32 in
    the extent, each element read 32 times from nearby. Each sum has the error of one that is summed in blocks.
    """
    rows, place = _prepared(x, axis, "cumsum")
    return moveaxis(_running_sums(rows, 0), -1, place) if rows.size else moveaxis(rows, -1, place)


def _running_sums(rows: Tensor, behind: int) -> Tensor:
    """For each element, the sum of those before it, and of itself where `behind` is 0 (not 1)."""
    *lead, count = rows.shape
    if count <= 2 * BLOCK:
        seen = expand_dims(arange(count), 1) >= arange(count) + behind
        square = broadcast_to(expand_dims(rows, -2), (*lead, count, count))
        return total(where(seen, square, 0), -1)
    blocks = -(-count // BLOCK)
    padded = pad(rows, [*([(0, 0)] * len(lead)), (0, blocks * BLOCK - count)]) if count % BLOCK else rows
    apart = reshape(padded, (*lead, blocks, BLOCK))
    before = _running_sums(total(apart, -1), 1)
    joined = reshape(_running_sums(apart, behind) + expand_dims(before, -1), (*lead, blocks * BLOCK))
    return joined[..., :count]


@method
def cumprod(x: Any, axis: int | None = None) -> Tensor:
    """Running products along `axis` (of the flattened tensor if `None`); the derivative is exact where elements are 0.

    By doubling: ceil(log2 n) kernels over all elements, and no product of more than that many roundings.
    """
    rows, place = _prepared(x, axis, "cumprod")
    *lead, count = rows.shape
    distance = 1
    while distance < count:
        ones = full((*lead, distance), 1, rows.dtype)
        rows = rows * concat([ones, rows[..., : count - distance]], -1)
        distance *= 2
    return moveaxis(rows, -1, place)
