"""Blocked scans along an axis (running sums, products, extrema, and logsumexp), and differences of neighbors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from ml_dtypes import finfo

from tensorgrad.dialects.tg.index import identity_of
from tensorgrad.errors import ShapeError
from tensorgrad.ops.creation import arange, full
from tensorgrad.ops.elementwise.arithmetic import abs as magnitude
from tensorgrad.ops.elementwise.arithmetic import (
    equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    not_equal,
    stop_gradient,
    where,
)
from tensorgrad.ops.elementwise.functions import exp, isfinite, log1p
from tensorgrad.ops.joining import concat, moveaxis, pad
from tensorgrad.ops.promotion import as_float, as_tensor, broadcast_to, cast, in_full, promoted
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import counted, logsumexp
from tensorgrad.ops.reduce import max as largest
from tensorgrad.ops.reduce import min as smallest
from tensorgrad.ops.reduce import prod as product
from tensorgrad.ops.reduce import sum as total
from tensorgrad.ops.shape import elements_at, expand_dims, flip, normalized_axis, positions, reshape
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

BLOCK = 32
"""The number of elements of a block that is folded directly; the folds of blocks are scanned."""

Fold: TypeAlias = Callable[[Tensor, int], Tensor]
Combine: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Parts: TypeAlias = tuple[Tensor, ...]


def _along(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Returns the tensor, flattened if there is no axis, and the position of the axis."""
    tensor = as_tensor(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    return tensor, normalized_axis(axis, tensor.ndim, what)


def _prepared(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Returns the tensor, flattened if there is no axis, with the axis moved to the end, and its old position."""
    tensor, place = _along(x, axis, what)
    return moveaxis(tensor, place, -1), place


def _sums(x: Tensor, axis: int) -> Tensor:
    """Returns sums in the dtype of the summands."""
    return total(x, axis, dtype=x.dtype)


def _multiplied(x: Tensor, axis: int) -> Tensor:
    """Returns products in the dtype of the factors."""
    return product(x, axis, dtype=x.dtype)


@recorded_whole
def cumsum(x: TensorLike, axis: int | None = None, *, dtype: object = None) -> Tensor:
    """Running sums along `axis` (of the flattened tensor if `None`).

    Blocks of 32 elements are summed directly, and the sums of blocks in the same way: two kernels for each power of 32
    in the extent. On a GPU each element is read 32 times from nearby; native code carries sums on from element to
    element. Rounding errors are those of blocked summation.
    Integers of 8 and 16 bits are added as i32 or u32; with `dtype` elements are converted to that first.

    Raises:
        DTypeError: `dtype` is bool.
        ShapeError: The axis is out of range.

    Example:
        >>> tg.cumsum([[1, 2], [3, 4]], axis=0)
        Array([[1, 2],
         [4, 6]], dtype=i32)
    """
    tensor, place = _along(counted(x, dtype, "cumsum"), axis, "cumsum")
    return _folds(tensor, place, 0, _sums, operator.add, 0) if tensor.size else tensor


@recorded_whole
def cumprod(x: TensorLike, axis: int | None = None, *, dtype: object = None) -> Tensor:
    """Running products along `axis` (of the flattened tensor if `None`); the derivative is exact where elements are 0.

    Floats are multiplied in their order, as by NumPy, so that a product is finite wherever all products before it are:
    for each power of 32 in the extent, a kernel continues from every 32nd product of the one before. The first of them
    reads the whole row in sequence. The derivative is a sum of products, divided by the element; in rows with products
    that are infinite, 0 or denormal, it is the product of the preceding elements and a reversed linear recurrence.
    Integers of 8 and 16 bits are multiplied as i32 or u32; with `dtype` elements are converted to that first.

    Raises:
        DTypeError: `dtype` is bool.
        ShapeError: The axis is out of range.

    Example:
        >>> tg.cumprod([[1, 2], [3, 4]], axis=1)
        Array([[ 1,  2],
         [ 3, 12]], dtype=i32)
    """
    rows, place = _prepared(counted(x, dtype, "cumprod"), axis, "cumprod")
    if rows.size:
        rows = _products(rows) if is_float(rows.dtype) else _folds(rows, rows.ndim - 1, 0, _multiplied, operator.mul, 1)
    return moveaxis(rows, -1, place)


@recorded_whole
def cummax(x: TensorLike, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """Running maxima along `axis` (of the flattened tensor if `None`), and their positions along it, as in PyTorch.

    Args:
        x: Floats, integers or booleans.
        axis: The axis to scan along.

    Returns:
        The largest element so far, in `x`'s dtype, and its position as i32, the last one among equals. From a NaN on it
        is NaN, at the position of the last NaN. The cotangent flows to the element at the position.

    Raises:
        ShapeError: The axis is out of range.

    Example:
        >>> tg.cummax([1.0, 3.0, 2.0])
        (Array([1., 3., 3.], dtype=f32), Array([0, 1, 1], dtype=i32))
    """
    return _extremes(x, axis, "cummax", largest, maximum, "max")


@recorded_whole
def cummin(x: TensorLike, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """Running minima along `axis` (of the flattened tensor if `None`), and their positions along it, as in PyTorch.

    Args:
        x: Floats, integers or booleans.
        axis: The axis to scan along.

    Returns:
        The smallest element so far, in `x`'s dtype, and its position as i32, the last one among equals. From a NaN on
        it is NaN, at the position of the last NaN. The cotangent flows to the element at the position.

    Raises:
        ShapeError: The axis is out of range.

    Example:
        >>> tg.cummin([3.0, 1.0, 2.0])
        (Array([3., 1., 1.], dtype=f32), Array([0, 1, 1], dtype=i32))
    """
    return _extremes(x, axis, "cummin", smallest, minimum, "min")


@recorded_whole
def diff(
    x: TensorLike, n: int = 1, axis: int = -1, prepend: TensorLike | None = None, append: TensorLike | None = None
) -> Tensor:
    """Returns the differences of neighbors along `axis`, taken `n` times; for booleans, whether they differ.

    Args:
        x: Any tensor.
        n: How many times; each time the axis becomes shorter by one.
        axis: The axis.
        prepend: A tensor or number to put before `x` along `axis`. The result has the common dtype of both: a float
            before integers converts them to floats.
        append: A tensor or number to put after `x`, in the same way.

    Raises:
        ShapeError: The axis is out of range, `n` is negative, or the shape of `prepend` or `append` doesn't match.
        DTypeError: `prepend` or `append` has no common dtype with `x`.

    Example:
        >>> tg.diff([1, 4, 9])
        Array([3, 5], dtype=i32)
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "diff")
    if operator.index(n) < 0:
        raise ShapeError(f"diff: n must not be negative, got {n}")
    parts = promoted("diff", *(part for part in (prepend, tensor, append) if part is not None))
    slice_shape = (*tensor.shape[:place], 1, *tensor.shape[place + 1 :])
    rows = moveaxis(
        concat([part if part.ndim else broadcast_to(part, slice_shape) for part in parts], place), place, -1
    )
    minus = not_equal if rows.dtype == NAMES["bool"] else operator.sub
    for _ in range(n):
        rows = minus(rows[..., 1:], rows[..., :-1])
    return moveaxis(rows, -1, place)


def _extremes(
    x: Any, axis: int | None, what: str, fold: Fold, combine: Combine, reduction: str
) -> tuple[Tensor, Tensor]:
    """Returns running extrema, whose fold is the reduction `max` or `min`, and their positions."""
    rows, place = _prepared(x, axis, what)
    order = positions(rows.shape, rows.ndim - 1, NAMES["i32"])
    if rows.size:
        values = stop_gradient(cast(rows, NAMES["i32"]) if rows.dtype == NAMES["bool"] else rows)
        extremes = _folds(values, values.ndim - 1, 0, fold, combine, identity_of(reduction, values.dtype))
        reached = logical_or(equal(values, extremes), not_equal(values, values))
        order = _folds(where(reached, order, 0), rows.ndim - 1, 0, largest, maximum, identity_of("max", order.dtype))
        rows = _reached(rows, order) if is_float(rows.dtype) else elements_at(rows, order, -1)
    return moveaxis(rows, -1, place), moveaxis(order, -1, place)


@recorded_whole
@in_full
def logcumsumexp(x: TensorLike, axis: int | None = None) -> Tensor:
    """`log(cumsum(exp(x)))` along `axis` (of the flattened tensor if `None`), without overflow.

    It is blocked like `cumsum`. For elements that are all `-inf` it is `-inf`, with derivative 0. The derivative takes
    exponentials of nonpositive numbers only: it is a reversed linear recurrence, like that of `cumprod`.

    Args:
        x: Floats; integers and booleans are converted to f32, and f16 is computed in f32 and rounded once.
        axis: The axis to scan along.

    Raises:
        ShapeError: The axis is out of range.

    Example:
        >>> tg.logcumsumexp([1000.0, 1000.0])
        Array([1000.    , 1000.6932], dtype=f32)
    """
    rows, place = _prepared(as_float(x), axis, "logcumsumexp")
    return moveaxis(_logarithms(rows) if rows.size else rows, -1, place)


def _folds(x: Tensor, axis: int, behind: int, fold: Fold, combine: Combine, neutral: float) -> Tensor:
    """Returns for each element the fold of those before it along an axis, including itself if `behind` is 0 (not 1).

    The axis isn't moved, so that what is contiguous stays so.
    """
    count = x.shape[axis]
    if count <= 2 * BLOCK:
        seen = expand_dims(arange(count), 1) >= arange(count) + behind
        square = broadcast_to(expand_dims(x, axis), (*x.shape[:axis], count, *x.shape[axis:]))
        return fold(where(reshape(seen, (count, count, *[1] * (x.ndim - axis - 1))), square, neutral), axis + 1)
    apart = _in_blocks(x, neutral, axis)
    before = _folds(fold(apart, axis + 1), axis, 1, fold, combine, neutral)
    inside = _folds(apart, axis + 1, behind, fold, combine, neutral)
    return _joined(combine(inside, expand_dims(before, axis + 1)), count, axis)


def _in_blocks(x: Tensor, fill: float, axis: int = -1) -> Tensor:
    """Returns the tensor with an axis split into blocks, the last of which is padded with `fill`."""
    axis %= x.ndim
    count = x.shape[axis]
    blocks = -(-count // BLOCK)
    edges = [(0, blocks * BLOCK - count if place == axis else 0) for place in range(x.ndim)]
    padded = pad(x, edges, constant_values=fill) if count % BLOCK else x
    return reshape(padded, (*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1 :]))


def _joined(apart: Tensor, count: int, axis: int = -2) -> Tensor:
    """Returns the blocks along an axis, and their elements along the next, joined and cut to `count` elements."""
    axis %= apart.ndim
    joined = reshape(apart, (*apart.shape[:axis], -1, *apart.shape[axis + 2 :]))
    return joined[(*[slice(None)] * axis, slice(count))] if joined.shape[axis] > count else joined


@custom_vjp
def _products(rows: Tensor) -> Tensor:
    """Running products along the last axis, each in the order of the elements.

    From the longest blocks to the shortest, the products before all blocks are continued to those before shorter ones.
    """
    *lead, count = rows.shape
    stride = 1
    while count > 2 * BLOCK * stride:
        stride *= BLOCK
    total = -(-count // stride) * stride
    padded = pad(rows, [*([(0, 0)] * len(lead)), (0, total - count)], constant_values=1) if total > count else rows
    blocks, before = reshape(padded, (*lead, 1, total)), full((*lead, 1), 1, rows.dtype)
    while stride > 1:
        inside = _continued(before, blocks, arange(blocks.shape[-1] // stride) * stride)
        before, blocks = reshape(inside, (*lead, -1)), reshape(padded, (*lead, -1, stride))
        stride //= BLOCK
    return _joined(_continued(before, blocks, arange(blocks.shape[-1]) + 1), count)


def _continued(before: Tensor, blocks: Tensor, lengths: Tensor) -> Tensor:
    """Returns products that begin with the one before a block, and go on with its first elements: `lengths` of them."""
    *lead, width = blocks.shape
    start = expand_dims(before, -1)
    line = expand_dims(where(equal(arange(width), 0), start * blocks, blocks), -2)
    square = broadcast_to(line, (*lead, lengths.size, width))
    products = _multiplied(where(arange(width) < expand_dims(lengths, 1), square, 1), -1)
    return where(equal(lengths, 0), start, products)


def _products_kept(rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    products = _products(rows)
    return products, (rows, products)


def _products_cotangent(residuals: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor]:
    """Returns for x_i: (the product of all before it) times s_i, where s_i = g_i + x_{i+1} s_{i+1}.

    Products that begin behind x_i may overflow where those from the first element on don't. If the latter are neither
    infinite nor almost 0, it is the sum of cotangents times products from x_i on, divided by x_i.
    """
    rows, products = residuals
    edge = full((*rows.shape[:-1], 1), 1, rows.dtype)
    before = concat([edge, products[..., :-1]], -1)
    behind = concat([rows[..., 1:], edge], -1)
    slopes = before * flip(_recurrence(flip(behind, -1), flip(cotangent, -1))[1], -1)
    sums = flip(_folds(flip(cotangent * products, -1), rows.ndim - 1, 0, _sums, operator.add, 0), -1)
    is_normal = logical_and(isfinite(products), magnitude(products) >= float(finfo(rows.dtype).tiny))
    is_divided = equal(total(where(is_normal, 0, 1), -1, keepdims=True), 0)
    return (where(is_divided, sums / where(is_divided, rows, 1), slopes),)


_products.defvjp(_products_kept, _products_cotangent)


@custom_vjp
def _reached(rows: Tensor, order: Tensor) -> Tensor:
    """Gathers at nondecreasing positions, each of which equals its own index at its first occurrence."""
    return elements_at(rows, order, -1)


def _reached_kept(rows: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    return _reached(rows, order), order


def _reached_cotangent(order: Tensor, cotangent: Tensor) -> tuple[Tensor, None]:
    """Returns for x_i: s_i if i is its own position, where s_i = g_i + s_{i+1} unless i + 1 is its own position."""
    own = equal(order, positions(order.shape, order.ndim - 1, order.dtype))
    edge = full((*own.shape[:-1], 1), True, "bool")
    goes_on = where(concat([own[..., 1:], edge], -1), full((), 0, cotangent.dtype), 1)
    sums = flip(_recurrence(flip(goes_on, -1), flip(cotangent, -1))[1], -1)
    return where(own, sums, 0), None


_reached.defvjp(_reached_kept, _reached_cotangent)


@custom_vjp
def _logarithms(rows: Tensor) -> Tensor:
    """Running logarithms of sums of exponentials along the last axis."""
    return _folds(rows, rows.ndim - 1, 0, logsumexp, _log_of_two, -math.inf)


def _log_of_two(x: Tensor, y: Tensor) -> Tensor:
    """`log(exp(x) + exp(y))`."""
    above = maximum(x, y)
    return where(isfinite(above), above + log1p(exp(minimum(x, y) - above)), above)


def _logarithms_kept(rows: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    logarithms = _logarithms(rows)
    return logarithms, (rows, logarithms)


def _logarithms_cotangent(residuals: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor]:
    """Returns for x_i: `exp(x_i - y_i) s_i`, where s_i = g_i + exp(y_i - y_{i+1}) s_{i+1}; y is nondecreasing."""
    rows, logarithms = residuals
    current, after = logarithms[..., :-1], logarithms[..., 1:]
    rises = where(isfinite(current), current - after, 0.0)
    edge = full((*rows.shape[:-1], 1), 0, rows.dtype)
    factors = exp(concat([rises, edge], -1))
    sums = flip(_recurrence(flip(factors, -1), flip(cotangent, -1))[1], -1)
    return (exp(where(equal(logarithms, -math.inf), -math.inf, rows - logarithms)) * sums,)


_logarithms.defvjp(_logarithms_kept, _logarithms_cotangent)


def _recurrence(factors: Tensor, terms: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the running products p_i = a_i p_{i-1}, and s_i = b_i + a_i s_{i-1} with nothing before the first."""
    products, sums = associative_scan(
        lambda before, current: (current[0] * before[0], current[1] + current[0] * before[1]), (factors, terms), (1, 0)
    )
    return products, sums


def associative_scan(combine: Callable[[Parts, Parts], Parts], parts: Parts, neutral: tuple[float, ...]) -> Parts:
    """Running folds of tuples along the last axis, by doubling within blocks, then across the blocks.

    G. Blelloch, Prefix Sums and Their Applications, 1990.

    Args:
        combine: The associative fold of a prefix and what follows it.
        parts: The tensors of the tuples, all of the same shape, without empty axes.
        neutral: The identity element of the fold.

    Returns:
        For each tuple, the fold of all tuples up to it.
    """
    count = parts[0].shape[-1]
    if count > 2 * BLOCK:
        inside = associative_scan(
            combine, tuple(_in_blocks(part, fill) for part, fill in zip(parts, neutral, strict=True)), neutral
        )
        ends = associative_scan(combine, tuple(part[..., -1] for part in inside), neutral)
        before = tuple(_before(end, fill) for end, fill in zip(ends, neutral, strict=True))
        return tuple(_joined(part, count) for part in combine(before, inside))
    distance = 1
    while distance < count:
        earlier = tuple(part[..., : count - distance] for part in parts)
        folded = combine(earlier, tuple(part[..., distance:] for part in parts))
        parts = tuple(concat([part[..., :distance], rest], -1) for part, rest in zip(parts, folded, strict=True))
        distance *= 2
    return parts


def _before(ends: Tensor, first: float) -> Tensor:
    """Returns for each block the fold of the preceding blocks, to be combined with each of its elements."""
    start = full((*ends.shape[:-1], 1), first, ends.dtype)
    return expand_dims(concat([start, ends[..., :-1]], -1), -1)
