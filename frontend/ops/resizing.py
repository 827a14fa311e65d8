"""Resizing of the last axes of tensors, in any number of dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import convolution, shape
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import multiply, where
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast
from tensorgrad.ops.reduce import sum as sum_over
from tensorgrad.ops.shape import reshape, take
from tensorgrad.ops.windows import Sizes, windowed_axes
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit

WIDEST_WINDOW = 8
"""`resize` reads windows of at most so many elements; between sizes that share no larger factor it gathers."""


def resize(x: Any, size: Sizes, method: str = "nearest") -> Tensor:
    """Returns the tensor with its last axes stretched or shrunk to `size`; element centres lie at half positions.

    Args:
        x: A tensor whose last axes are resized: `len(size)` of them, or all but the first two for one number.
        size: The new extents.
        method: `"nearest"`: the element under the new element's centre (PyTorch's `nearest-exact`); whole factors cost
            nothing. `"bilinear"`: along each axis the two elements around it, weighted by closeness (PyTorch's
            `linear`, `bilinear` and `trilinear` without `align_corners` or antialiasing); integers become f32. Only
            the elements that have a weight are looked at, so NaN and infinities don't spread further than that.

    Raises:
        ShapeError: An extent is 0, or there are no such axes.
        OptionError: There is no such method.
    """
    tensor = as_tensor(x)
    axes, wanted = windowed_axes("resize", tensor, size)
    if method not in ("nearest", "bilinear"):
        raise OptionError(f"{user_line()}: resize: the method is 'nearest' or 'bilinear', not {method!r}")
    if not all(tensor.shape[axis] for axis in axes):
        raise ShapeError(f"{user_line()}: resize: {tensor.shape} has an axis without elements")
    if method == "bilinear" and not is_float(tensor.dtype):
        tensor = cast(tensor, NAMES["f32"])
    for axis, extent in zip(axes, wanted, strict=True):
        if tensor.shape[axis] != extent:
            tensor = (_nearest if method == "nearest" else _linear)(tensor, axis, extent)
    return tensor


def _nearest(x: Tensor, axis: int, wanted: int) -> Tensor:
    extent = x.shape[axis]
    if wanted % extent == 0:
        factor, before, behind = wanted // extent, x.shape[: axis + 1], x.shape[axis + 1 :]
        repeated = broadcast_to(reshape(x, [*before, 1, *behind]), [*before, factor, *behind])
        return reshape(repeated, [*x.shape[:axis], wanted, *behind])
    if extent % wanted == 0:
        step = extent // wanted
        return x[(*[slice(None)] * axis, slice(step // 2, None, step))]
    return take(x, Array(((2 * np.arange(wanted) + 1) * extent // (2 * wanted)).astype(np.int32)), axis)


def _linear(x: Tensor, axis: int, wanted: int) -> Tensor:
    extent = x.shape[axis]
    # The new element's centre is at (numerator / denominator) elements from the first one's.
    numerator, denominator = (2 * np.arange(wanted) + 1) * extent - wanted, 2 * wanted
    first, fraction = numerator // denominator, (numerator % denominator) / denominator
    second = first + (fraction > 0)
    shared = math.gcd(extent, wanted)
    period, step = wanted // shared, extent // shared
    low, high = int(first[:period].min()), int(second[:period].max())
    if high - low < WIDEST_WINDOW:
        return _by_windows(x, axis, (low, high, step), first[:period], fraction[:period])
    rest = [-1, *[1] * (x.ndim - 1 - axis)]
    weight = Array(fraction.astype(x.dtype).reshape(rest))
    at = [np.clip(part, 0, extent - 1).astype(np.int32) for part in (first, second)]
    left, right = (take(x, Array(part), axis) for part in at)
    return where(Array((fraction > 0).reshape(rest)), left * (1.0 - weight) + right * weight, left)


def _by_windows(
    x: Tensor,
    axis: int,
    window: tuple[int, int, int],
    first: np.ndarray[Any, np.dtype[Any]],
    fraction: np.ndarray[Any, np.dtype[Any]],
) -> Tensor:
    """Computes every period of new elements from a window over the old ones, as a sum of the few that have a weight."""
    low, high, step = window
    extent, rank, period = x.shape[axis], x.ndim, len(first)
    count, size = extent // step, high - low + 1
    behind = max((count - 1) * step + high - (extent - 1), 0)
    everything = [slice(None)] * axis
    edges = [x[(*everything, slice(0, 1))]] * max(-low, 0), [x[(*everything, slice(extent - 1, extent))]] * behind
    if any(edges):
        x = emit(shape.ConcatOp, [*edges[0], x, *edges[1]], axis=integer(axis))
    if low > 0:
        x = x[(*everything, slice(low, None))]
    windows = emit(
        convolution.WindowsOp, [x], axes=ints([axis]), size=ints([size]), stride=ints([step]), dilation=ints([1])
    )
    assert windows.shape[axis] == count
    weights = np.zeros((period, size))
    weights[np.arange(period), first - low] = 1 - fraction
    held = fraction > 0
    weights[np.arange(period)[held], first[held] - low + 1] = fraction[held]
    rest = windows.shape[axis + 1 : rank]
    spread_out = reshape(windows, [*windows.shape[: axis + 1], 1, *rest, size])
    shaped = [period, *[1] * len(rest), size]
    terms = multiply(spread_out, Array(weights.astype(x.dtype).reshape(shaped)))
    terms = where(Array((weights > 0).reshape(shaped)), terms, 0.0)
    result = sum_over(terms, -1)
    return reshape(result, [*x.shape[:axis], count * period, *rest])
