"""Sums of few elements along an axis, at places and with weights that are known: interpolation, and means of ranges."""

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
"""Windows of at most so many elements are read as such; wider ones, where nothing repeats soon, are gathered."""


@dataclass(frozen=True)
class Samples:
    """What each new element along an axis is made of.

    Attributes:
        places: `[new, taps]`, the old elements; those before the first are the first, those behind the last the last.
        weights: `[new, taps]`, by which they are multiplied; one with the weight 0 is not looked at.
        period: After so many new elements the weights are the same again, and the places `step` higher.
        step: How many old elements lie between periods.
    """

    places: NumpyArray
    weights: NumpyArray
    period: int
    step: int


def taken(x: Tensor, axis: int, places: NumpyArray) -> Tensor:
    """Returns the elements at known places: a slice or a repetition where they lie regularly, which cost nothing."""
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
    """Returns the sums that make up the new elements: from windows where they are narrow, else gathered."""
    places, weights = samples.places, samples.weights
    period = min(samples.period, len(places))
    own = places[:period][weights[:period] != 0]
    low, high = int(own.min()), int(own.max())
    if high - low < WIDEST_WINDOW:
        return _by_windows(x, axis, samples, (low, high))
    at = Array(np.clip(places, 0, x.shape[axis] - 1).astype(np.int32))
    return _weighted(take(x, at, axis), weights, axis, axis + 1)


def _weighted(x: Tensor, weights: NumpyArray, axis: int, taps: int) -> Tensor:
    """Sums over the axis `taps`, with the weights of each position of `axis`; what has none is not looked at."""
    shape = [1] * x.ndim
    shape[axis], shape[taps] = weights.shape
    terms = multiply(x, Array(weights.astype(x.dtype).reshape(shape)))
    if not weights.all():
        terms = where(Array((weights != 0).reshape(shape)), terms, 0.0)
    return sum_over(terms, taps)


def _by_windows(x: Tensor, axis: int, samples: Samples, reach: tuple[int, int]) -> Tensor:
    """Computes every period of new elements from a window over the old ones."""
    (low, high), wanted, step = reach, len(samples.places), samples.step
    period = min(samples.period, wanted)
    count, size = -(-wanted // period), high - low + 1
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
    return result if count * period == wanted else result[(*[slice(None)] * axis, slice(0, wanted))]
