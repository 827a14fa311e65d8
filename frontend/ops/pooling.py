"""Pooling of the last axes of tensors, in any number of dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import convolution, shape
from tensorgrad.dialects.tg.base import ints
from tensorgrad.dialects.tg.convolution import spread, window_count
from tensorgrad.errors import ShapeError
from tensorgrad.ops.contract import numbers
from tensorgrad.ops.elementwise.arithmetic import divide, equal, multiply, where
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.reduce import max as largest
from tensorgrad.ops.reduce import mean
from tensorgrad.ops.reduce import sum as sum_over
from tensorgrad.ops.windows import Padding, Sizes, last_axes, listed, paddings, same_padding
from tensorgrad.tracing.dtypes import NAMES, is_float
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


class Pool:
    """The windows of a pooling: where they lie, and how much padding they need."""

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
                    f"{user_line()}: {what}: windows that span {span} do not fit axis {axis} of extent {extent} padded "
                    f"by {self.low[i]} and {self.high[i]}: each must hold an element, and one must fit"
                )
            rest = (padded - span) % s
            # A last window that is cut off counts if it starts inside, as in PyTorch.
            if ceil_mode and rest and padded - rest - span + s < self.low[i] + extent:
                self.extra[i] = s - rest

    def windows(self, x: Tensor, filling: float) -> Tensor:
        """Returns the windows, their own axes last."""
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

    def shares(self) -> list[np.ndarray[Any, np.dtype[Any]]]:
        """For each axis and window, its extent over how much of it is not padding."""
        found: list[np.ndarray[Any, np.dtype[Any]]] = []
        for i, (extent, size, s, hole) in enumerate(
            zip(self.extents, self.size, self.stride, self.dilation, strict=True)
        ):
            padded = self.low[i] + extent + self.high[i] + self.extra[i]
            starts = np.arange(window_count(padded, spread(size, hole), s))[:, None] * s - self.low[i]
            at = starts + np.arange(size) * hole
            found.append(size / np.maximum(((at >= 0) & (at < extent)).sum(1), 1))
        return found

    def counts(self, count_padding: bool) -> np.ndarray[Any, np.dtype[Any]]:
        """Returns how many elements each window averages over."""
        total = np.ones((), np.int64)
        settings = zip(self.extents, self.size, self.stride, self.dilation, strict=True)
        for i, (extent, size, s, hole) in enumerate(settings):
            padded = self.low[i] + extent + self.high[i]
            first, last = (0, padded) if count_padding else (self.low[i], self.low[i] + extent)
            starts = np.arange(window_count(padded + self.extra[i], spread(size, hole), s))[:, None] * s
            at = starts + np.arange(size) * hole
            total = total[..., None] * ((at >= first) & (at < last)).sum(1)
        return total


def max_pool(
    x: Any,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the largest element of each window, NaN if one is NaN.

    Equal maxima of a window, and several NaN, share its derivative evenly, as in `max` (PyTorch gives it to one). The
    padding has no share.

    Args:
        x: `[batch, channels, spatial...]`, or with any leading axes where `size` lists the windows' extents.
        size: The windows' extents; one number means all axes but the first two.
        stride: Elements between neighbouring windows; as far as the windows are wide by default.
        padding: As in `conv`, but never larger than any element: it wins nowhere.
        dilation: Elements between neighbours in a window.
        ceil_mode: Whether a last window that is cut off counts, if it starts inside.

    Raises:
        ShapeError: A window fits nowhere, or would hold padding only.
    """
    tensor = numbers("max_pool", x)[0]
    pool = Pool("max_pool", tensor, size, stride, padding, dilation, ceil_mode)
    lowest = -math.inf if is_float(tensor.dtype) else np.iinfo(tensor.dtype).min
    rank = tensor.ndim
    result = largest(pool.windows(tensor, lowest), tuple(range(rank, rank + len(pool.axes))))
    if not is_float(tensor.dtype):
        return result
    for axis, share in zip(pool.axes, pool.shares(), strict=True):
        if share.max(initial=1.0) > 1:
            # Elements of -inf are equal to the padding, which is to have no share of the derivative.
            factor = Array(share.astype(tensor.dtype).reshape([-1, *[1] * (rank - 1 - axis)]))
            result = where(equal(result, -math.inf), multiply(result, factor), result)
    return result


def avg_pool(
    x: Any,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_padding: bool = True,
    dilation: Sizes = 1,
) -> Tensor:
    """Returns the mean of each window; integers average as f32.

    Args:
        x: As in `max_pool`, like all that follows.
        size: The windows' extents.
        stride: Elements between neighbouring windows.
        padding: Zeros around `x`.
        ceil_mode: Whether a last window that is cut off counts.
        count_padding: Whether zeros of the padding count as elements; if not, a window averages over what it holds of
            `x`. What `ceil_mode` adds never counts.
        dilation: Elements between neighbours in a window.

    Raises:
        ShapeError: A window fits nowhere, or would hold padding only.
    """
    tensor = numbers("avg_pool", x)[0]
    tensor = tensor if is_float(tensor.dtype) else cast(tensor, NAMES["f32"])
    pool = Pool("avg_pool", tensor, size, stride, padding, dilation, ceil_mode)
    rank = tensor.ndim
    total = sum_over(pool.windows(tensor, 0.0), tuple(range(rank, rank + len(pool.axes))))
    counts = pool.counts(count_padding)
    if counts.size and bool((counts == counts.flat[0]).all()):
        return multiply(total, 1.0 / int(counts.flat[0]))
    return divide(total, Array(counts.astype(tensor.dtype)))


def global_max_pool(x: Any, keepdims: bool = False) -> Tensor:
    """Returns the largest element of each channel of `[batch, channels, spatial...]`."""
    tensor = as_tensor(x)
    return largest(tensor, tuple(range(2, tensor.ndim)), keepdims)


def global_avg_pool(x: Any, keepdims: bool = False) -> Tensor:
    """Returns the mean of each channel of `[batch, channels, spatial...]`."""
    tensor = as_tensor(x)
    return mean(tensor, tuple(range(2, tensor.ndim)), keepdims)
