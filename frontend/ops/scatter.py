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
from tensorgrad.dialects.tg.base import integer
from tensorgrad.errors import OptionError, ShapeError, TraceError
from tensorgrad.ops.cumulative import Combine, Parts, associative_scan, farthest
from tensorgrad.ops.elementwise.arithmetic import (
    equal,
    floor_divide,
    less,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    not_equal,
    where,
)
from tensorgrad.ops.index import axis_of_indices, updates_at
from tensorgrad.ops.joining import concat, moveaxis, narrow, pad
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast, check_numbers, in_dtype
from tensorgrad.ops.shape import (
    as_indices,
    counted_from_front,
    full,
    index_dtype,
    positions,
    reshape,
    take_along_axis,
    take_rows,
)
from tensorgrad.ops.sort import argsort
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import NAMES, DType, is_float, is_half
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit
from tensorgrad.transforms.custom_vjp import custom_vjp

EXTREMES: dict[str, tuple[Combine, int]] = {"amax": (maximum, -1), "amin": (minimum, 1)}
"""The larger or smaller of two elements, and the sign of the identity element."""

REDUCTIONS = ("sum", "prod", "mean", *EXTREMES)


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


def scatter(x: TensorLike, axis: int, indices: TensorLike, updates: TensorLike) -> Tensor:
    """`x` with `updates` along `axis` at indices for each position, as in PyTorch: other axes may be shorter.

    `scatter(x, 1, i, u)` writes `u[a, b]` to `x[a, i[a, b]]`. Of equal indices the last along the axis wins; one out of
    range is dropped. The cotangent of each position flows to the update that was written there, or to `x` if there is
    none. The indices are sorted, as by `argsort`.

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
    order, _, last = _runs(lines)
    written, values = last > 0, take_along_axis(lines.updates, _at(order, last), -1)
    return _changed(tensor, place, written, values)


def scatter_reduce(
    x: TensorLike, axis: int, indices: TensorLike, updates: TensorLike, reduce: str, include_self: bool = True
) -> Tensor:
    """`x` with `updates` reduced along `axis`, at indices for each position, as in PyTorch.

    Positions that no index names keep their elements. An index out of range is dropped. Sums and means are
    `scatter_add`s; products, maxima and minima sort the indices and scan the updates in that order, in blocks.

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
    count = _added(full(lines.places.shape, 1, "i32"), lines)
    folds = _FOLDS[reduce](lines, count, include_self, reduce)
    return cast(_changed(wide, place, count > 0, folds), tensor.dtype)


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
    return _segments("segment_sum", x, segment_ids, num_segments, "sum", lambda rows: 0)


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
    return _segments("segment_mean", x, segment_ids, num_segments, "mean", lambda rows: 0)


def segment_prod(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the product of the rows of each segment, 1 where there are none; the derivative is exact at zeros.

    The numbers are sorted once for all elements of a row, and the rows scanned in that order, in blocks.

    Args:
        x: As for `segment_sum`; f16 is multiplied in f32 and rounded once.
        segment_ids: As for `segment_sum`.
        num_segments: As for `segment_sum`, as are the exceptions.

    Example:
        >>> tg.segment_prod(tg.array([3.0, 2.0, 4.0]), [0, 1, 0], 3)
        Array([12.,  2.,  1.], dtype=f32)
    """
    return _segments("segment_prod", x, segment_ids, num_segments, "prod", lambda rows: 1)


def segment_max(x: TensorLike, segment_ids: TensorLike, num_segments: int | None = None) -> Tensor:
    """Returns the maxima of the rows of each segment; where there are none, `-inf`, or the dtype's least integer.

    Equal maxima share the derivative evenly. The numbers are sorted as for `segment_prod`.

    Args:
        x: As for `segment_sum`.
        segment_ids: As for `segment_sum`.
        num_segments: As for `segment_sum`, as are the exceptions.

    Example:
        >>> tg.segment_max(tg.array([[3.0, 1.0], [2.0, 5.0]]), [0, 0], 2)
        Array([[  3.,   5.],
         [-inf, -inf]], dtype=f32)
    """
    return _segments("segment_max", x, segment_ids, num_segments, "amax", lambda rows: farthest(rows, -1))


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
    return _segments("segment_min", x, segment_ids, num_segments, "amin", lambda rows: farthest(rows, 1))


def _segments(
    what: str, x: Any, segment_ids: Any, num_segments: int | None, reduce: str, empty: Callable[[Tensor], float]
) -> Tensor:
    """Returns the rows of each segment reduced; `empty` gives the identity element, for segments without rows."""
    tensor, numbers = as_tensor(x), as_indices(segment_ids, what)
    check_numbers(what, tensor.dtype)
    if tensor.shape[: numbers.ndim] != numbers.shape:
        raise ShapeError(f"{what}: x {tensor.shape} does not begin with the axes of segment_ids {numbers.shape}")
    count, row = _segment_count(what, numbers, num_segments), tensor.shape[numbers.ndim :]
    if not tensor.size or not count:
        return full((count, *row), empty(tensor), tensor.dtype)
    flat = reshape(numbers, -1)
    inside = logical_and(less(-1, flat), less(flat, count)) if flat.dtype.kind == "i" else less(flat, count)
    places = where(inside, cast(flat, index_dtype(count)), count)
    rows = reshape(tensor, (flat.size, math.prod(row)))
    if reduce == "sum":
        added = emit(index_ops.ScatterAddOp, [rows, places], axis=integer(0), extent=integer(count))
        return reshape(added, (count, *row))
    wide = cast(rows, _wide(tensor.dtype, reduce))
    lines = _Lines(full((wide.shape[1], count), empty(wide), wide.dtype), moveaxis(wide, 0, -1), places)
    named = _added(full(places.shape, 1, "i32"), lines)
    folds = where(named > 0, _FOLDS[reduce](lines, named, False, reduce), lines.into)
    return cast(reshape(moveaxis(folds, -1, 0), (count, *row)), tensor.dtype)


def _segment_count(what: str, numbers: Tensor, num_segments: int | None) -> int:
    if num_segments is None:
        if not isinstance(numbers, Array):
            raise TraceError(
                f"{what}: the numbers of segments are traced, so num_segments= must say how many there are"
            )
        return int(np.max(np.asarray(numbers), initial=-1)) + 1
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


def _changed(x: Tensor, place: int, written: Tensor, values: Tensor) -> Tensor:
    """Returns `x` with values where `written` is true; both have the axis last, and may be shorter on others."""
    written, values = moveaxis(written, -1, place), moveaxis(values, -1, place)
    widths = [(0, whole - part) for whole, part in zip(x.shape, values.shape, strict=True)]
    return where(pad(written, widths), pad(values, widths), x)


def _added(updates: Tensor, lines: _Lines) -> Tensor:
    """Returns the sum of the updates at each position."""
    kind = index_ops.ScatterAddOp if lines.places.ndim < updates.ndim else index_ops.ScatterAddAlongAxisOp
    bounds = {"axis": integer(updates.ndim - 1), "extent": integer(lines.into.shape[-1])}
    return emit(kind, [updates, lines.places], **bounds)


def _taken(rows: Tensor, places: Tensor) -> Tensor:
    """Returns the elements at positions along the last axis, which may be one vector for all rows."""
    return (take_rows if places.ndim < rows.ndim else take_along_axis)(rows, places, rows.ndim - 1)


def _read(rows: Tensor, places: Tensor) -> Tensor:
    """Returns the elements at positions; arbitrary ones if they are out of range."""
    return _taken(rows, minimum(places, rows.shape[-1] - 1))


def _runs(lines: _Lines) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the order that sorts updates by position, which come first at theirs, and the ends of positions.

    The end of a position is one past its last update in that order, and 0 if there is none.
    """
    order = argsort(lines.places)
    ordered = take_along_axis(lines.places, order, -1)
    differs, edge = ordered[..., 1:] != ordered[..., :-1], full((*order.shape[:-1], 1), True, "bool")
    last = concat([differs, edge], -1)
    position = positions(order.shape, order.ndim - 1, NAMES["i32"])
    ends = _Lines(lines.into, position, where(last, ordered, lines.into.shape[-1]))
    return order, concat([edge, differs], -1), _added(position + 1, ends)


def _at(rows: Tensor, ends: Tensor) -> Tensor:
    """Returns the elements at the ends of positions; arbitrary ones if there is no update."""
    return _taken(rows, maximum(ends - 1, 0))


def _folded(lines: _Lines, combine: Combine, neutral: float) -> Tensor:
    """Returns the fold of the updates at each position; arbitrary if there are none."""

    def since_first(before: Parts, current: Parts) -> Parts:
        return where(current[1], current[0], combine(before[0], current[0])), logical_or(before[1], current[1])

    order, first, ends = _runs(lines)
    parts = _taken(lines.updates, order), first
    return _at(associative_scan(since_first, parts, (neutral, False))[0], ends)


def _sum(lines: _Lines, count: Tensor, include_self: bool, name: str) -> Tensor:
    total = _added(lines.updates, lines)
    return lines.into + total if include_self else total


def _mean(lines: _Lines, count: Tensor, include_self: bool, name: str) -> Tensor:
    total = _sum(lines, count, include_self, name)
    number = cast(count + 1 if include_self else maximum(count, 1), total.dtype)
    return total / number if is_float(total.dtype) else floor_divide(total, number)


def _prod(lines: _Lines, count: Tensor, include_self: bool, name: str) -> Tensor:
    product = _folded(lines, multiply, 1)
    return lines.into * product if include_self else product


def _extreme(lines: _Lines, count: Tensor, include_self: bool, name: str) -> Tensor:
    function: Callable[..., Tensor] = _shared if is_float(lines.into.dtype) else _extreme_of
    return function(lines.into, lines.updates, lines.places, count, include_self, name)


def _extreme_of(into: Tensor, updates: Tensor, places: Tensor, count: Tensor, include_self: bool, name: str) -> Tensor:
    combine, sign = EXTREMES[name]
    extremes = _folded(_Lines(into, updates, places), combine, farthest(into, sign))
    return where(count > 0, combine(into, extremes) if include_self else extremes, into)


_shared = custom_vjp(_extreme_of, nondiff_argnums=(4, 5))


def _shared_kept(
    into: Tensor, updates: Tensor, places: Tensor, count: Tensor, include_self: bool, name: str
) -> tuple[Tensor, Parts]:
    extremes = _shared(into, updates, places, count, include_self, name)
    return extremes, (into, updates, places, count, extremes)


def _shared_cotangent(
    include_self: bool, name: str, residuals: Parts, cotangent: Tensor
) -> tuple[Tensor, Tensor, None, None]:
    """Divides the cotangent of each position evenly among the elements that equal its extremum."""
    into, updates, places, count, extremes = residuals
    lines = _Lines(into, updates, places)
    own = _same(into, extremes) if include_self else logical_not(count > 0)
    hit = logical_and(_same(updates, _read(extremes, places)), places < into.shape[-1])
    share = cotangent / cast(cast(own, NAMES["i32"]) + _added(cast(hit, NAMES["i32"]), lines), cotangent.dtype)
    return where(own, share, 0.0), where(hit, _read(share, places), 0.0), None, None


def _same(x: Tensor, y: Tensor) -> Tensor:
    """Returns whether elements are equal, or both NaN."""
    return logical_or(equal(x, y), logical_and(not_equal(x, x), not_equal(y, y)))


_shared.defvjp(_shared_kept, _shared_cotangent)

_FOLDS: dict[str, Callable[[_Lines, Tensor, bool, str], Tensor]] = {
    "sum": _sum,
    "mean": _mean,
    "prod": _prod,
    **dict.fromkeys(EXTREMES, _extreme),
}
