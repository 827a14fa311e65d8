"""Pooling over the last axes of tensors, in any number of dimensions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from tensorgrad.dialects.tg import convolution, shape
from tensorgrad.dialects.tg.base import NumpyArray, ints
from tensorgrad.dialects.tg.convolution import spread, window_count
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.creation import arange, full
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    divide,
    equal,
    greater_equal,
    less,
    logical_and,
    logical_or,
    multiply,
    where,
)
from tensorgrad.ops.elementwise.functions import isnan
from tensorgrad.ops.joining import moveaxis
from tensorgrad.ops.promotion import as_tensor, cast, common_numbers, in_full
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import max as largest
from tensorgrad.ops.reduce import mean
from tensorgrad.ops.reduce import min as smallest
from tensorgrad.ops.reduce import sum as sum_over
from tensorgrad.ops.sampling import Samples, sampled
from tensorgrad.ops.shape import as_indices, check_range, expand_dims, reshape, take
from tensorgrad.ops.windows import Padding, Sizes, last_axes, listed, paddings, same_padding
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


class _Windows(ABC):
    """Windows over the last axes of a tensor.

    Attributes:
        axes: The axes.
        extents: Their extents.
        at: For each axis, `[windows, size]`: the positions of their elements; those outside of the axis are padding.
    """

    axes: list[int]
    extents: list[int]
    at: list[NumpyArray]

    def inside(self) -> list[NumpyArray]:
        """Returns for each axis, `[windows, size]`: whether an element is not padding."""
        return [(at >= 0) & (at < extent) for at, extent in zip(self.at, self.extents, strict=True)]

    @abstractmethod
    def windows(self, x: Tensor, filling: float) -> Tensor:
        """Returns the windows, their own axes last; padding is `filling`."""

    def shaped(self, axis: int, values: NumpyArray) -> NumpyArray:
        """Returns `[windows, size]` of an axis reshaped to broadcast to the windows of all axes."""
        count = len(self.axes)
        shape = [1] * 2 * count
        shape[axis], shape[count + axis] = values.shape
        return values.reshape(shape)

    def places(self) -> Tensor:
        """Returns the row-major position of each window element in the plane; one past the end for padding."""
        total, size = Array(np.zeros((), np.int32)), math.prod(self.extents)
        valid: Tensor = Array(np.ones((), np.bool_))
        rest = size
        for axis, (at, inside, extent) in enumerate(zip(self.at, self.inside(), self.extents, strict=True)):
            rest //= extent
            total = add(total, Array(self.shaped(axis, at * rest).astype(np.int32)))
            valid = logical_and(valid, Array(self.shaped(axis, inside)))
        return where(valid, total, size)

    def largest(self, x: Tensor, return_indices: bool) -> Any:
        """Returns the largest element of each window, and optionally its position in the plane."""
        lowest = -math.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
        windows, rank = self.windows(x, lowest), x.ndim
        own = tuple(range(rank, rank + len(self.axes)))
        maxima = largest(windows, own)
        result = self._without_padding(maxima) if is_float(x.dtype) else maxima
        if not return_indices:
            return result
        hit = equal(windows, largest(windows, own, keepdims=True))
        if is_float(x.dtype):
            hit = logical_or(hit, isnan(windows))
        return result, smallest(where(hit, self.places(), math.prod(self.extents)), own)

    def _without_padding(self, maxima: Tensor) -> Tensor:
        """Corrects the derivative of windows whose maximum is -inf, which is shared with their padding."""
        for axis, inside in zip(self.axes, self.inside(), strict=True):
            share = inside.shape[1] / np.maximum(inside.sum(1), 1)
            if share.max(initial=1.0) > 1:
                factor = Array(share.astype(maxima.dtype).reshape([-1, *[1] * (maxima.ndim - 1 - axis)]))
                maxima = where(equal(maxima, -math.inf), multiply(maxima, factor), maxima)
        return maxima


class Pool(_Windows):
    """The windows of a pooling: their positions, and the padding that they need."""

    def __init__(
        self, what: str, x: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        self.axes = last_axes(what, x, size)
        count = len(self.axes)
        self.size = listed(size, count, f"{what}: sizes")
        self.stride = self.size if stride is None else listed(stride, count, f"{what}: strides")
        self.dilation = listed(dilation, count, f"{what}: dilations")
        self.extents = [x.shape[axis] for axis in self.axes]
        spans = [spread(n, d) for n, d in zip(self.size, self.dilation, strict=True)]
        self.low, self.high = paddings(padding, same_padding(self.extents, spans, self.stride), what)
        self.extra = [0] * count
        for i, (axis, extent, span, s) in enumerate(zip(self.axes, self.extents, spans, self.stride, strict=True)):
            padded = self.low[i] + extent + self.high[i]
            if max(self.low[i], self.high[i]) >= span or not extent or padded < span:
                raise ShapeError(
                    f"{what}: windows that span {span} do not fit axis {axis} of extent {extent} padded "
                    f"by {self.low[i]} and {self.high[i]}: each must hold an element, and one must fit"
                )
            rest = (padded - span) % s
            # A partial last window counts if it starts inside, as in PyTorch.
            if ceil_mode and rest and padded - rest - span + s < self.low[i] + extent:
                self.extra[i] = s - rest
        self.at = [self._along(i) for i in range(count)]

    def _along(self, i: int) -> NumpyArray:
        size, s, hole = self.size[i], self.stride[i], self.dilation[i]
        padded = self.low[i] + self.extents[i] + self.high[i] + self.extra[i]
        starts = np.arange(window_count(padded, spread(size, hole), s))[:, None] * s - self.low[i]
        return starts + np.arange(size) * hole

    def windows(self, x: Tensor, filling: float) -> Tensor:
        """Returns the windows, their own axes last; padding is `filling`."""
        rank, high = x.ndim, [a + b for a, b in zip(self.high, self.extra, strict=True)]
        if any(self.low) or any(high):
            before, behind = [0] * rank, [0] * rank
            for axis, a, b in zip(self.axes, self.low, high, strict=True):
                before[axis], behind[axis] = a, b
            value = Array(np.asarray(filling, x.dtype))
            x = emit(shape.PadOp, [x, value], low=ints(before), high=ints(behind), interior=ints([0] * rank))
        return emit(
            convolution.WindowsOp,
            [x],
            axes=ints(self.axes),
            size=ints(self.size),
            stride=ints(self.stride),
            dilation=ints(self.dilation),
        )

    def counts(self, count_padding: bool) -> NumpyArray:
        """Returns the number of elements that each window averages over."""
        total = np.ones((), np.int64)
        for at, extent, low, high in zip(self.at, self.extents, self.low, self.high, strict=True):
            first, last = (-low, extent + high) if count_padding else (0, extent)
            total = total[..., None] * ((at >= first) & (at < last)).sum(1)
        return total


class _Parts(_Windows):
    """The windows of an adaptive pooling: possibly overlapping parts of the axes, as equal as integers allow.

    Part `i` of `n` reaches from `floor(i * extent / n)` to before `ceil((i + 1) * extent / n)`.
    """

    def __init__(self, x: Tensor, axes: list[int], counts: list[int]) -> None:
        self.axes = axes
        self.extents = [x.shape[axis] for axis in axes]
        self.at = []
        for extent, count in zip(self.extents, counts, strict=True):
            part = np.arange(count)
            first, behind = part * extent // count, -(-(part + 1) * extent // count)
            at = first[:, None] + np.arange((behind - first).max())
            self.at.append(np.where(at < behind[:, None], at, -1))

    def windows(self, x: Tensor, filling: float) -> Tensor:
        """Returns the parts, their own axes last; shorter ones are padded with `filling` at the end."""
        valid = np.ones((), np.bool_)
        for i, (axis, at, inside) in enumerate(zip(self.axes, self.at, self.inside(), strict=True)):
            x = moveaxis(take(x, Array(np.maximum(at, 0).astype(np.int32)), axis), axis + 1, -1)
            valid = valid & self.shaped(i, inside)
        return x if valid.all() else where(Array(valid), x, filling)

    def samples(self, i: int) -> Samples:
        """Returns the samples whose weighted sums are the means of the parts along an axis."""
        (count, size), inside = self.at[i].shape, self.inside()[i]
        shared = math.gcd(self.extents[i], count)
        places = self.at[i][:, :1] + np.arange(size)
        return Samples(places, inside / inside.sum(1, keepdims=True), count // shared, self.extents[i] // shared)


@overload
def max_pool(
    x: TensorLike,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool(
    x: TensorLike,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@recorded_whole
def max_pool(
    x: TensorLike,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Returns the largest element of each window, NaN if one is NaN.

    Equal maxima of a window, and several NaN, share its derivative evenly, as in `max` (PyTorch gives it to one).
    Padding gets no share.

    Args:
        x: `[batch, channels, spatial...]`, or with any leading axes if `size` lists the windows' extents.
        size: The windows' extents; one number means all axes but the first two.
        stride: The distance between neighboring windows, in elements; the windows' extents by default.
        padding: As in `conv`, but never larger than any element.
        dilation: The distance between neighboring elements of a window.
        ceil_mode: Whether a partial last window counts, if it starts inside.
        return_indices: Whether to also return the elements' positions: i32 of the same shape, in the flattened last
            axes of `x`, without padding. The first among equals, or the first NaN. `max_unpool` takes them.

    Raises:
        ShapeError: No window fits, or one would contain only padding.

    Example:
        >>> tg.max_pool([[[1.0, 3.0, 7.0, 5.0]]], 2)
        Array([[[3., 7.]]], dtype=f32)
        >>> tg.max_pool(tg.ones((1, 3, 8, 8)), (3, 3), stride=(2, 2), padding=1).shape
        (1, 3, 4, 4)
    """
    tensor = common_numbers("max_pool", x)[0]
    return Pool("max_pool", tensor, size, stride, padding, dilation, ceil_mode).largest(tensor, return_indices)


def max_unpool(
    x: TensorLike,
    indices: TensorLike,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sizes | None = None,
) -> Tensor:
    """Returns zeros with the elements of `x` at `indices`: the partial inverse of `max_pool`.

    If several elements have the same index, the last of them is written, and gets the derivative.

    Args:
        x: A result of `max_pool`: `[batch, channels, spatial...]`, or with any leading axes if `size` is a list.
        indices: Integers of the same shape: positions in the flattened last axes of the result.
        size: The windows' extents; one number means all axes but the first two.
        stride: The distance between neighboring windows, in elements; the windows' extents by default.
        padding: The padding on either side, one number, or one for each axis.
        output_size: The extents of the result's last axes, or its whole shape; by default
            `(extent - 1) * stride + size - 2 * padding`.

    Raises:
        ShapeError: The shapes differ, the result would be empty, or a known index is out of range.
        DTypeError: The indices are not integers.

    Example:
        >>> values, indices = tg.max_pool([[[1.0, 3.0, 7.0, 5.0]]], 2, return_indices=True)
        >>> tg.max_unpool(values, indices, 2)
        Array([[[0., 3., 7., 0.]]], dtype=f32)
    """
    tensor, where_ = common_numbers("max_unpool", x)[0], as_indices(indices, "max_unpool")
    if where_.shape != tensor.shape:
        raise ShapeError(f"max_unpool: {tensor.shape} and indices {where_.shape} differ in shape")
    axes = last_axes("max_unpool", tensor, size)
    extents = _unpooled("max_unpool", [tensor.shape[axis] for axis in axes], size, stride, padding, output_size)
    lead, plane = tensor.shape[: axes[0]], math.prod(extents)
    check_range(where_, 0, plane - 1, "max_unpool")
    planes = math.prod(lead)
    own = reshape(where_, [planes, -1] if tensor.size else [planes, 0])
    inside = logical_and(greater_equal(own, 0), less(own, plane))
    flat = where(inside, add(cast(own, NAMES["i32"]), expand_dims(multiply(arange(planes), plane), 1)), planes * plane)
    result = full((planes * plane,), 0, tensor.dtype).at[reshape(flat, -1)].set(reshape(tensor, -1))
    return reshape(result, [*lead, *extents])


def _unpooled(what: str, extents: list[int], size: Any, stride: Any, padding: Any, output_size: Any) -> list[int]:
    """Returns the extents of the tensor that was pooled."""
    count = len(extents)
    sizes = listed(size, count, f"{what}: sizes")
    steps = sizes if stride is None else listed(stride, count, f"{what}: strides")
    margins = listed(padding, count, f"{what}: paddings", 0)
    if output_size is not None:
        requested = list(output_size) if isinstance(output_size, (tuple, list)) else output_size
        return listed(requested[-count:] if isinstance(requested, list) else requested, count, f"{what}: output_size")
    whole = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(extents, steps, sizes, margins, strict=True)]
    if min(whole) < 1:
        raise ShapeError(f"{what}: paddings {margins} leave nothing of windows of {sizes}")
    return whole


@recorded_whole
def avg_pool(
    x: TensorLike,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_padding: bool = True,
    dilation: Sizes = 1,
    divisor_override: int | None = None,
) -> Tensor:
    """Returns the mean of each window; integers average as f32.

    Args:
        x: As in `max_pool`, like the following arguments.
        size: The windows' extents.
        stride: The distance between neighboring windows, in elements.
        padding: Zeros around `x`.
        ceil_mode: Whether a partial last window counts.
        count_padding: Whether zeros of the padding count as elements; if not, a window averages over its elements of
            `x`. What `ceil_mode` adds never counts. PyTorch's name, `count_include_pad`, is accepted too.
        dilation: The distance between neighboring elements of a window.
        divisor_override: The divisor of the sums, instead of the number of elements.

    Raises:
        ShapeError: No window fits, or one would contain only padding.
        OptionError: `divisor_override` is 0, or not an integer.

    Example:
        >>> tg.avg_pool([[[1.0, 3.0, 5.0, 7.0]]], 2)
        Array([[[2., 6.]]], dtype=f32)
    """
    tensor = common_numbers("avg_pool", x)[0]
    tensor = tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])
    pool = Pool("avg_pool", tensor, size, stride, padding, dilation, ceil_mode)
    if divisor_override is not None:
        divisor_override = checked_extent(divisor_override, "avg_pool: divisor_override")
    if divisor_override == 0:
        raise OptionError("avg_pool: divisor_override is 0")
    return _averages(tensor, pool, count_padding, divisor_override)


@in_full
def _averages(x: Tensor, pool: Pool, count_padding: bool, divisor: int | None) -> Tensor:
    """Returns the sum of each window by a divisor; by default by the number of its elements."""
    total = sum_over(pool.windows(x, 0.0), tuple(range(x.ndim, x.ndim + len(pool.axes))))
    if divisor is not None:
        return multiply(total, 1.0 / divisor)
    counts = pool.counts(count_padding)
    if counts.size and bool((counts == counts.flat[0]).all()):
        return multiply(total, 1.0 / int(counts.flat[0]))
    return divide(total, Array(counts.astype(x.dtype)))


def _adaptive(what: str, x: Tensor, size: Any) -> tuple[list[int], list[int]]:
    """Returns the axes and the number of parts of each; None leaves an axis unchanged."""
    axes = last_axes(what, x, size)
    sizes = list(size) if isinstance(size, (tuple, list)) else [size] * len(axes)
    filled = [x.shape[axis] if number is None else number for axis, number in zip(axes, sizes, strict=True)]
    if not all(x.shape[axis] for axis in axes):
        raise ShapeError(f"{what}: {x.shape} has an axis without elements")
    return axes, listed(filled, len(axes), f"{what}: sizes")


@recorded_whole
def adaptive_avg_pool(x: TensorLike, size: int | Sequence[int | None]) -> Tensor:
    """Returns the means of parts of the last axes, a given number of each; integers average as f32.

    Part `i` of `n` holds the elements from `floor(i * extent / n)` to before `ceil((i + 1) * extent / n)`, as in
    PyTorch: parts overlap if `n` does not divide the extent.

    Args:
        x: `[batch, channels, spatial...]`, or with any leading axes if `size` is a list.
        size: The number of parts of each axis, the result's extents; one number means all axes but the first two. None
            in a list leaves an axis unchanged.

    Raises:
        ShapeError: An axis has no elements, or there are no such axes.

    Example:
        >>> tg.adaptive_avg_pool(tg.ones((1, 3, 7, 5)), (2, 2)).shape
        (1, 3, 2, 2)
    """
    tensor = common_numbers("adaptive_avg_pool", x)[0]
    tensor = tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])
    axes, counts = _adaptive("adaptive_avg_pool", tensor, size)
    even = [tensor.shape[axis] // n if tensor.shape[axis] % n == 0 else 1 for axis, n in zip(axes, counts, strict=True)]
    tensor = tensor if max(even) == 1 else avg_pool(tensor, even)
    parts = _Parts(tensor, axes, counts)
    for i, axis in enumerate(axes):
        if tensor.shape[axis] != counts[i]:
            tensor = sampled(tensor, axis, parts.samples(i))
    return tensor


@overload
def adaptive_max_pool(
    x: TensorLike, size: int | Sequence[int | None], return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool(
    x: TensorLike, size: int | Sequence[int | None], return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@recorded_whole
def adaptive_max_pool(x: TensorLike, size: int | Sequence[int | None], return_indices: bool = False) -> Any:
    """Returns the largest element of each part of the last axes, a given number of each.

    Args:
        x: `[batch, channels, spatial...]`, or with any leading axes if `size` is a list.
        size: The number of parts of each axis, as in `adaptive_avg_pool`.
        return_indices: Whether to also return the elements' positions, as `max_pool` does.

    Raises:
        ShapeError: An axis has no elements, or there are no such axes.

    Example:
        >>> tg.adaptive_max_pool([[[1.0, 4.0, 2.0, 3.0]]], 2)
        Array([[[4., 3.]]], dtype=f32)
    """
    tensor = common_numbers("adaptive_max_pool", x)[0]
    axes, counts = _adaptive("adaptive_max_pool", tensor, size)
    if any(tensor.shape[axis] % count for axis, count in zip(axes, counts, strict=True)):
        return _Parts(tensor, axes, counts).largest(tensor, return_indices)
    even = [tensor.shape[axis] // count for axis, count in zip(axes, counts, strict=True)]
    return Pool("adaptive_max_pool", tensor, even, None, 0, 1, False).largest(tensor, return_indices)


@recorded_whole
def global_max_pool(x: TensorLike, keepdims: bool = False) -> Tensor:
    """Returns the largest element of each channel of `[batch, channels, spatial...]`.

    Example:
        >>> tg.global_max_pool(tg.ones((2, 3, 4, 4)), keepdims=True).shape
        (2, 3, 1, 1)
    """
    tensor = as_tensor(x)
    return largest(tensor, tuple(range(2, tensor.ndim)), keepdims)


@recorded_whole
def global_avg_pool(x: TensorLike, keepdims: bool = False) -> Tensor:
    """Returns the mean of each channel of `[batch, channels, spatial...]`.

    Example:
        >>> tg.global_avg_pool(tg.ones((2, 3, 4, 4))).shape
        (2, 3)
    """
    tensor = as_tensor(x)
    return mean(tensor, tuple(range(2, tensor.ndim)), keepdims)
