"""Scatters to computed positions along an axis: the last of equal indices wins, or they are reduced.

Segments are scatters of rows: `segment_sum` and its kin reduce the rows that have the same number, as in a batch of
graphs, or of sequences of different lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.errors import OptionError, ShapeError, TraceError
from tensorgrad.ops.creation import full
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    equal,
    floor_divide,
    less,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    not_equal,
    where,
)
from tensorgrad.ops.index import axis_of_indices, scattered, updates_at
from tensorgrad.ops.joining import concat, moveaxis, narrow
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast, check_numbers, in_dtype
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import (
    as_indices,
    counted_from_front,
    elements_at,
    expand_dims,
    index_dtype,
    positions,
    reshape,
)
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import NAMES, DType, is_float, is_half
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.transforms.custom_vjp import custom_vjp

_STEPS: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": ("sum", add),
    "prod": ("prod", multiply),
    "mean": ("sum", add),
    "amax": ("max", maximum),
    "amin": ("min", minimum),
}
"""How updates are reduced, in the dialect's words, and what combines the result with an element."""

REDUCTIONS, EXTREMES = tuple(_STEPS), ("amax", "amin")


@dataclass(frozen=True)
class _Lines:
    """Updates and their positions, with the axis last.

    Attributes:
        into: The tensor written to, of the same extents on other axes as the updates.
        updates: The updates.
        places: Nonnegative positions along the last axis, as `index_dtype`; the extent if they are out of range. Their
            shape is that of the updates, or they are one vector for all lines.
    """

    into: Tensor
    updates: Tensor
    places: Tensor


@recorded_whole
def scatter(x: TensorLike, axis: int, indices: TensorLike, updates: TensorLike) -> Tensor:
    """`x` with `updates` along `axis` at indices for each position, as in PyTorch: other axes may be shorter.

    `scatter(x, 1, i, u)` writes `u[a, b]` to `x[a, i[a, b]]`. Of equal indices the last along the axis wins; one out of
    range is dropped. The cotangent of each position flows to the update that was written there, or to `x` if there is
    none. It is a reduction of positions, at a cost as of `scatter_add`.

    Args:
        x: Any tensor.
        axis: The axis that the indices count along.
        indices: Integers, of as many axes as `x`; negative ones count from the end.
        updates: An element for each index, or one number for all, cast to `x`'s dtype. If they are longer than the
            indices on an axis, the excess is ignored, as in PyTorch.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: Updates are shorter than the indices, or these are longer than `x` on another axis; or a known index
            is out of range.

    Example:
        >>> tg.scatter(tg.zeros(4), 0, [1, 3], [5.0, 6.0])
        Array([0., 5., 0., 6.], dtype=f32)
    """
    tensor = as_tensor(x)
    place, lines = _lines(tensor, axis, indices, updates, "scatter")
    if lines is None:
        return tensor
    order = positions(lines.places.shape, lines.places.ndim - 1, NAMES["i32"])
    last = _at_places(order, lines, "max")
    updated = where(less(-1, last), elements_at(lines.updates, maximum(last, 0), -1), lines.into)
    return _replaced(tensor, place, updated)


@recorded_whole
def scatter_reduce(
    x: TensorLike, axis: int, indices: TensorLike, updates: TensorLike, reduce: str, include_self: bool = True
) -> Tensor:
    """`x` with `updates` reduced along `axis`, at indices for each position, as in PyTorch.

    Positions that no index names keep their elements. An index out of range is dropped. Equal indices accumulate in
    increasing order of their position, at a cost as of `scatter_add`.

    Args:
        x: A tensor of numbers. f16 is reduced in f32 and rounded once.
        axis: The axis that the indices count along.
        indices: Integers, of as many axes as `x`; other axes may be shorter, and negative ones count from the end.
        updates: An element for each index, or one number for all, cast to `x`'s dtype. If they are longer than the
            indices on an axis, the excess is ignored, as in PyTorch.
        reduce: `sum`, `prod`, `mean` (of integers rounded down), `amax` or `amin`.
        include_self: Whether the elements of `x` at these positions are included.

    Returns:
        A tensor like `x`. The derivative of products is exact where elements are 0; equal extrema share it evenly,
        including `x`'s own only if that is included.

    Raises:
        OptionError: `reduce` is unknown.
        DTypeError: The indices are not integers, or `x` is boolean.
        ShapeError: Updates are shorter than the indices, or these are longer than `x` on another axis; or a known index
            is out of range.

    Example:
        >>> tg.scatter_reduce(tg.zeros(3), 0, [0, 2, 2], [1.0, 2.0, 4.0], "amax")
        Array([1., 0., 4.], dtype=f32)
    """
    if reduce not in REDUCTIONS:
        raise OptionError(f"scatter_reduce: reduce {reduce!r} is not one of {', '.join(REDUCTIONS)}")
    tensor = as_tensor(x)
    check_numbers("scatter_reduce", tensor.dtype)
    wide = cast(tensor, _wide(tensor.dtype, reduce))
    place, lines = _lines(wide, axis, indices, in_dtype(updates, tensor.dtype), "scatter_reduce")
    if lines is None:
        return tensor
    return cast(_replaced(wide, place, _reduced(lines, reduce, include_self)), tensor.dtype)


@recorded_whole
def segment_sum(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the sum of the rows of each segment, as `jax.ops.segment_sum`: the derivative of taking rows by number.

    Rows are added in the order of their positions, without atomics: see `scatter_add`.

    Args:
        x: `[*ids, *row]`, numbers.
        segment_ids: `[*ids]`, the number of the segment that each row belongs to, in any order. A row whose number is
            negative, or not below `num_segments`, belongs to none.
        num_segments: The number of segments, which is static; by default one more than the largest number, if the
            numbers are known.

    Returns:
        `[num_segments, *row]`, of the dtype of `x`; 0 where a segment has no rows.

    Raises:
        DTypeError: The numbers of segments are not integers, or `x` is boolean.
        ShapeError: `x` doesn't begin with the axes of `segment_ids`.
        OptionError: `num_segments` is not an integer from 0.
        TraceError: It is not given, and the numbers of segments are traced.

    Example:
        >>> tg.segment_sum(tg.array([1.0, 2.0, 4.0]), [0, 2, 0], 4)
        Array([5., 0., 2., 0.], dtype=f32)
    """
    return _segments("segment_sum", x, segment_ids, num_segments, "sum")


@recorded_whole
def segment_mean(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the mean of the rows of each segment (of integers rounded down), 0 where there are none.

    Args:
        x: As for `segment_sum`; f16 is averaged in f32 and rounded once.
        segment_ids: As for `segment_sum`.
        num_segments: As for `segment_sum`, as are the exceptions.

    Example:
        >>> tg.segment_mean(tg.array([1.0, 2.0, 4.0]), [0, 1, 0])
        Array([2.5, 2. ], dtype=f32)
    """
    return _segments("segment_mean", x, segment_ids, num_segments, "mean")


@recorded_whole
def segment_prod(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the product of the rows of each segment, 1 where there are none; the derivative is exact at zeros.

    The rows are multiplied in the order of their positions, as `segment_sum` adds them.

    Args:
        x: As for `segment_sum`; f16 is multiplied in f32 and rounded once.
        segment_ids: As for `segment_sum`.
        num_segments: As for `segment_sum`, as are the exceptions.

    Example:
        >>> tg.segment_prod(tg.array([3.0, 2.0, 4.0]), [0, 1, 0], 3)
        Array([12.,  2.,  1.], dtype=f32)
    """
    return _segments("segment_prod", x, segment_ids, num_segments, "prod")


@recorded_whole
def segment_max(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the maxima of the rows of each segment; where there are none, `-inf`, or the dtype's least integer.

    Equal maxima share the derivative evenly.

    Args:
        x: As for `segment_sum`.
        segment_ids: As for `segment_sum`.
        num_segments: As for `segment_sum`, as are the exceptions.

    Example:
        >>> tg.segment_max(tg.array([[3.0, 1.0], [2.0, 5.0]]), [0, 0], 2)
        Array([[  3.,   5.],
         [-inf, -inf]], dtype=f32)
    """
    return _segments("segment_max", x, segment_ids, num_segments, "amax")


@recorded_whole
def segment_min(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the minima of the rows of each segment; where there are none, `inf`, or the dtype's largest integer.

    Args:
        x: As for `segment_sum`.
        segment_ids: As for `segment_sum`.
        num_segments: As for `segment_sum`, as are the exceptions; equal minima share the derivative evenly.

    Example:
        >>> tg.segment_min(tg.array([3.0, 2.0, 4.0]), [0, 1, 0])
        Array([3., 2.], dtype=f32)
    """
    return _segments("segment_min", x, segment_ids, num_segments, "amin")


def _segments(what: str, x: Any, segment_ids: Any, num_segments: int | None, reduce: str) -> Tensor:
    """Returns the rows of each segment reduced; the identity element for segments without rows, 0 for means."""
    tensor, numbers = as_tensor(x), as_indices(segment_ids, what)
    check_numbers(what, tensor.dtype)
    if tensor.shape[: numbers.ndim] != numbers.shape:
        raise ShapeError(f"{what}: x {tensor.shape} does not begin with the axes of segment_ids {numbers.shape}")
    count, row = _segment_count(what, numbers, num_segments), tensor.shape[numbers.ndim :]
    reduction = _STEPS[reduce][0]
    if not tensor.size or not count:
        return full((count, *row), index_ops.identity_of(reduction, tensor.dtype), tensor.dtype)
    flat = reshape(numbers, -1)
    inside = logical_and(less(-1, flat), less(flat, count)) if flat.dtype.kind == "i" else less(flat, count)
    places = where(inside, cast(flat, index_dtype(count)), count)
    rows = cast(reshape(tensor, (flat.size, math.prod(row))), _wide(tensor.dtype, reduce))
    folds = scattered(rows, places, 0, count, reduction)
    if reduce == "mean":
        folds = _mean(folds, expand_dims(scattered(full(flat.shape, 1, "i32"), places, 0, count, "sum"), 1))
    return cast(reshape(folds, (count, *row)), tensor.dtype)


def _segment_count(what: str, numbers: Tensor, num_segments: int | None) -> int:
    if num_segments is None:
        if not isinstance(numbers, Array):
            raise TraceError(
                f"{what}: the numbers of segments are traced, so num_segments= must say how many there are"
            )
        return int(np.max(np.asarray(numbers))) + 1 if numbers.size else 0
    return checked_integer(num_segments, f"{what}: num_segments", 0)


def _wide(dtype: DType, reduce: str) -> DType:
    """Returns the dtype in which elements are combined: a narrow mean needs a wider sum and count."""
    if is_half(dtype):
        return NAMES["f32"]
    if reduce == "mean" and dtype.itemsize < 4:
        return NAMES["i32" if dtype.kind == "i" else "u32"]
    return dtype


def _lines(x: Tensor, axis: int, indices: Any, updates: Any, what: str) -> tuple[int, _Lines | None]:
    """Returns the nonnegative axis and the updates; None if there are no indices or no positions."""
    index_tensor, parts = as_tensor(indices), in_dtype(updates, x.dtype)
    place = axis_of_indices(x, index_tensor, axis, what)
    if not parts.ndim:
        parts = broadcast_to(parts, index_tensor.shape)
    parts = updates_at(index_tensor, parts, what)
    extent = x.shape[place]
    counted = counted_from_front(index_tensor, extent, what)
    if not index_tensor.size or not x.size:
        return place, None
    inside = less(counted, extent)
    if counted.dtype.kind == "i":
        inside = logical_and(inside, less(-1, counted))
    places = where(inside, cast(counted, index_dtype(extent)), extent)
    into = x
    for other, size in enumerate(index_tensor.shape):
        if other != place:
            into = narrow(into, other, 0, size)
    return place, _Lines(moveaxis(into, place, -1), moveaxis(parts, place, -1), moveaxis(places, place, -1))


def _replaced(x: Tensor, place: int, values: Tensor) -> Tensor:
    """Returns `x` with `values`, which have the axis last and may be shorter, in place of its first elements."""
    values = moveaxis(values, -1, place)
    for axis, size in enumerate(values.shape):
        if size < x.shape[axis]:
            rest = narrow(x, axis, size, x.shape[axis] - size)
            for later, shorter in enumerate(values.shape[axis + 1 :], axis + 1):
                rest = narrow(rest, later, 0, shorter)
            values = concat([values, rest], axis)
    return values


def _at_places(updates: Tensor, lines: _Lines, reduction: str) -> Tensor:
    """Returns updates like those of the lines, reduced at each position."""
    return scattered(updates, lines.places, updates.ndim - 1, lines.into.shape[-1], reduction)


def _count(lines: _Lines) -> Tensor:
    """Returns the number of updates at each position."""
    return _at_places(full(lines.places.shape, 1, "i32"), lines, "sum")


def _mean(total: Tensor, count: Tensor) -> Tensor:
    """Returns a sum divided by a count, which may be 0; of integers, rounded down."""
    number = cast(maximum(count, 1), total.dtype)
    return total / number if is_float(total.dtype) else floor_divide(total, number)


def _reduced(lines: _Lines, reduce: str, include_self: bool) -> Tensor:
    """Returns the updates reduced at each position, and the elements where there are none."""
    reduction, combine = _STEPS[reduce]
    if include_self and reduce in EXTREMES and is_float(lines.into.dtype):
        return _shared(lines.into, lines.updates, lines.places, reduce)
    folds = _at_places(lines.updates, lines, reduction)
    if include_self:
        folds = combine(lines.into, folds)
        if reduction != "sum":
            return folds  # an element combined with the identity element keeps its bits; -0.0 + 0 doesn't
    count = _count(lines)
    if reduce == "mean":
        folds = _mean(folds, count + 1 if include_self else count)
    return where(count > 0, folds, lines.into)


def _extreme_of(into: Tensor, updates: Tensor, places: Tensor, reduce: str) -> Tensor:
    reduction, combine = _STEPS[reduce]
    return combine(into, _at_places(updates, _Lines(into, updates, places), reduction))


_shared = custom_vjp(_extreme_of, nondiff_argnums=(3,))


def _shared_kept(into: Tensor, updates: Tensor, places: Tensor, reduce: str) -> tuple[Tensor, tuple[Tensor, ...]]:
    extremes = _shared(into, updates, places, reduce)
    return extremes, (into, updates, places, extremes)


def _shared_cotangent(reduce: str, residuals: tuple[Tensor, ...], cotangent: Tensor) -> tuple[Tensor, Tensor, None]:
    """Divides the cotangent of each position evenly among the elements that equal its extremum."""
    into, updates, places, extremes = residuals
    lines = _Lines(into, updates, places)
    own, inside = _same(into, extremes), places < into.shape[-1]
    hit = logical_and(_same(updates, elements_at(extremes, minimum(places, into.shape[-1] - 1), -1)), inside)
    count = cast(own, NAMES["i32"]) + _at_places(cast(hit, NAMES["i32"]), lines, "sum")
    share = cotangent / cast(count, cotangent.dtype)
    read = elements_at(share, minimum(places, into.shape[-1] - 1), -1)
    return where(own, share, 0.0), where(hit, read, 0.0), None


def _same(x: Tensor, y: Tensor) -> Tensor:
    """Returns whether elements are equal, or both NaN."""
    return logical_or(equal(x, y), logical_and(not_equal(x, x), not_equal(y, y)))


_shared.defvjp(_shared_kept, _shared_cotangent)
