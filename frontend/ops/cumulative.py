"""Running sums and products along an axis, in blocks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.ops.elementwise.arithmetic import where
from tensorgrad.ops.joining import concat, moveaxis, pad
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.ops.reduce import prod
from tensorgrad.ops.reduce import sum as total
from tensorgrad.ops.shape import arange, expand_dims, flip, full, normalized_axis, reshape
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

BLOCK = 32
"""Elements of a block that are folded on their own; the folds of blocks are scanned."""

Fold: TypeAlias = Callable[[Tensor, int], Tensor]
Combine: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def _prepared(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Returns the tensor, flattened if there is no axis, with the axis moved to the end; booleans count."""
    tensor = as_tensor(x)
    if tensor.dtype == NAMES["bool"]:
        tensor = cast(tensor, NAMES["i32"])
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    place = normalized_axis(axis, tensor.ndim, what)
    return moveaxis(tensor, place, -1), place


def cumsum(x: Any, axis: int | None = None) -> Tensor:
    """Running sums along `axis` (of the flattened tensor if `None`).

    Blocks of 32 elements are summed at once, and the sums of blocks the same way: two kernels for each power of 32 in
    the extent, each element read 32 times from nearby. Each sum has the error of one that is summed in blocks.
    """
    rows, place = _prepared(x, axis, "cumsum")
    return moveaxis(_folds(rows, 0, total, operator.add, 0) if rows.size else rows, -1, place)


def cumprod(x: Any, axis: int | None = None) -> Tensor:
    """Running products along `axis` (of the flattened tensor if `None`); the derivative is exact where elements are 0.

    In blocks, as `cumsum`: each product has the error of one that is multiplied in blocks. The derivative divides by
    nothing: it is the product of the elements before each one and a linear recurrence from behind, in blocks too.
    """
    rows, place = _prepared(x, axis, "cumprod")
    if rows.size:
        rows = _products(rows) if np.issubdtype(rows.dtype, np.floating) else _folds(rows, 0, prod, operator.mul, 1)
    return moveaxis(rows, -1, place)


def _folds(rows: Tensor, behind: int, fold: Fold, combine: Combine, neutral: int) -> Tensor:
    """For each element, the fold of those before it, and of itself where `behind` is 0 (not 1)."""
    *lead, count = rows.shape
    if count <= 2 * BLOCK:
        seen = expand_dims(arange(count), 1) >= arange(count) + behind
        square = broadcast_to(expand_dims(rows, -2), (*lead, count, count))
        return fold(where(seen, square, neutral), -1)
    apart = _in_blocks(rows, neutral)
    before = _folds(fold(apart, -1), 1, fold, combine, neutral)
    inside = _folds(apart, behind, fold, combine, neutral)
    return _joined(combine(inside, expand_dims(before, -1)), count)


def _in_blocks(rows: Tensor, fill: int) -> Tensor:
    """Returns the rows in blocks, the last of which is filled up."""
    *lead, count = rows.shape
    blocks = -(-count // BLOCK)
    edges = [*([(0, 0)] * len(lead)), (0, blocks * BLOCK - count)]
    padded = pad(rows, edges, constant_values=fill) if count % BLOCK else rows
    return reshape(padded, (*lead, blocks, BLOCK))


def _joined(apart: Tensor, count: int) -> Tensor:
    """Returns the first elements of blocks side by side."""
    *lead, blocks, width = apart.shape
    return reshape(apart, (*lead, blocks * width))[..., :count]


@custom_vjp
def _products(rows: Tensor) -> Tensor:
    """Running products along the last axis."""
    return _folds(rows, 0, prod, operator.mul, 1)


def _products_kept(rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    products = _products(rows)
    return products, (rows, products)


def _products_cotangent(kept: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor]:
    """Of x_i: (the product of all before it) times s_i, where s_i = g_i + x_{i+1} s_{i+1}."""
    rows, products = kept
    edge = full((*rows.shape[:-1], 1), 1, rows.dtype)
    before = concat([edge, products[..., :-1]], -1)
    behind = concat([rows[..., 1:], edge], -1)
    return (before * flip(_recurrence(flip(behind, -1), flip(cotangent, -1))[1], -1),)


_products.defvjp(_products_kept, _products_cotangent)


def _recurrence(factors: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the running products p_i = a_i p_{i-1}, and s_i = b_i + a_i s_{i-1} with nothing in front of the first.

    By doubling within blocks, then among the blocks (G. Blelloch, Prefix Sums and Their Applications, 1990).
    """
    count = factors.shape[-1]
    if count > 2 * BLOCK:
        products, sums = _recurrence(_in_blocks(factors, 1), _in_blocks(terms, 0))
        _, ends = _recurrence(products[..., -1], sums[..., -1])
        start = full((*ends.shape[:-1], 1), 0, ends.dtype)
        before = expand_dims(concat([start, ends[..., :-1]], -1), -1)
        return _joined(products, count), _joined(sums + products * before, count)
    distance = 1
    while distance < count:
        here, there = factors[..., distance:], (..., slice(None, count - distance))
        terms = concat([terms[..., :distance], terms[..., distance:] + here * terms[there]], -1)
        factors = concat([factors[..., :distance], here * factors[there]], -1)
        distance *= 2
    return factors, terms
