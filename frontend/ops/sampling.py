"""Weighted sums of few elements along an axis, at static positions and with static weights: interpolation and means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.base import NumpyArray, ints
from tensorgrad.ops.elementwise.arithmetic import multiply, where
from tensorgrad.ops.joining import pad, repeat
from tensorgrad.ops.reduce import sum as sum_over
from tensorgrad.ops.shape import reshape, take
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit

WIDEST_WINDOW = 8
"""The widest windows that are read as windows; wider ones, without a short period, are gathered."""


@dataclass(frozen=True)
class Samples:
    """The sources of each new element along an axis.

    Attributes:
        places: `[new, taps]`, the old elements; positions are clamped to the axis.
        weights: `[new, taps]`, their weights; elements with weight 0 are not read.
        period: The number of new elements after which the weights repeat, and the positions increase by `step`.
        step: The number of old elements per period.
    """

    places: NumpyArray
    weights: NumpyArray
    period: int
    step: int


def taken(x: Tensor, axis: int, places: NumpyArray) -> Tensor:
    """Returns the elements at static positions: a slice or a repetition if they are regular, which costs nothing."""
    count, extent = len(places), x.shape[axis]
    steps = np.unique(np.diff(places))
    if count and len(steps) <= 1:
        step = int(steps[0]) if len(steps) else 1
        if step > 0:
            key: list[Any] = [slice(None)] * x.ndim
            key[axis] = slice(int(places[0]), int(places[-1]) + 1, step)
            return x[tuple(key)]
    if count and count % extent == 0 and np.array_equal(places, np.repeat(np.arange(extent), count // extent)):
        return repeat(x, count // extent, axis)
    return take(x, Array(places.astype(np.int32)), axis)


def sampled(x: Tensor, axis: int, samples: Samples) -> Tensor:
    """Returns the new elements as weighted sums: from windows if these are narrow, else gathered."""
    places, weights = samples.places, samples.weights
    period = min(samples.period, len(places))
    own = places[:period][weights[:period] != 0]
    low, high = int(own.min()), int(own.max())
    if high - low < WIDEST_WINDOW:
        return _by_windows(x, axis, samples, (low, high))
    at = Array(np.clip(places, 0, x.shape[axis] - 1).astype(np.int32))
    return _weighted(take(x, at, axis), weights, axis, axis + 1)


def _weighted(x: Tensor, weights: NumpyArray, axis: int, taps: int) -> Tensor:
    """Sums over the axis `taps`, with the weights of each position of `axis`; elements with weight 0 are ignored."""
    shape = [1] * x.ndim
    shape[axis], shape[taps] = weights.shape
    terms = multiply(x, Array(weights.astype(x.dtype).reshape(shape)))
    if not weights.all():
        terms = where(Array((weights != 0).reshape(shape)), terms, 0.0)
    return sum_over(terms, taps)


def _by_windows(x: Tensor, axis: int, samples: Samples, reach: tuple[int, int]) -> Tensor:
    """Computes every period of new elements from a window over the old ones."""
    (low, high), new_extent, step = reach, len(samples.places), samples.step
    period = min(samples.period, new_extent)
    count, size = -(-new_extent // period), high - low + 1
    behind = (count - 1) * step + high - (x.shape[axis] - 1)
    x = pad(x, [(-low, behind) if i == axis else (0, 0) for i in range(x.ndim)], "edge")
    windows = emit(
        convolution.WindowsOp, [x], axes=ints([axis]), size=ints([size]), stride=ints([step]), dilation=ints([1])
    )
    weights = np.zeros((period, size))
    each = samples.weights[:period]
    rows, taps = np.nonzero(each)
    weights[rows, samples.places[rows, taps] - low] = each[rows, taps]
    before, rest = x.shape[:axis], x.shape[axis + 1 :]
    apart = reshape(windows, [*before, count, 1, *rest, size])
    result = reshape(_weighted(apart, weights, axis + 1, apart.ndim - 1), [*before, count * period, *rest])
    return result if count * period == new_extent else result[(*[slice(None)] * axis, slice(0, new_extent))]
