"""Statistics beyond sums and means: order statistics, covariances, counts; and comparison of whole tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops.creation import arange, full_like, zeros
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    divide,
    equal,
    greater_equal,
    lerp,
    less,
    logical_and,
    multiply,
    stop_gradient,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.composed import isclose
from tensorgrad.ops.elementwise.functions import isnan, sqrt
from tensorgrad.ops.joining import diagonal, linspace, narrow, stack
from tensorgrad.ops.promotion import as_float, as_tensor, cast, in_full
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import all as every
from tensorgrad.ops.reduce import matmul, max, mean, min, sum
from tensorgrad.ops.searching import searchsorted
from tensorgrad.ops.shape import as_indices, expand_dims, normalized_axes, reshape, transpose
from tensorgrad.ops.sort import sort
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import NAMES, SHORT, is_float
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Array, Tensor

INTERPOLATIONS: dict[str, Callable[[float], tuple[int, int, float]]] = {
    "linear": lambda place: (math.floor(place), math.ceil(place), place - math.floor(place)),
    "lower": lambda place: (math.floor(place), math.floor(place), 0.0),
    "higher": lambda place: (math.ceil(place), math.ceil(place), 0.0),
    "midpoint": lambda place: (math.floor(place), math.ceil(place), 0.0 if place == math.floor(place) else 0.5),
    "nearest": lambda place: (round(place), round(place), 0.0),
}
"""The two positions of a sorted row that a quantile lies between, and its distance from the first."""


def allclose(x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Returns whether all elements are close, as one boolean; see `isclose`.

    Raises:
        ShapeError: They don't broadcast.
        DTypeError: They have no common dtype.
        OptionError: A tolerance is negative.

    Example:
        >>> tg.allclose([1.0, 2.0], [1.0, 2.000001])
        Array(True, dtype=bool)
    """
    return every(isclose(x, y, rtol, atol, equal_nan))


@recorded_whole
def quantile(
    x: TensorLike, q: TensorLike, axis: Axes | None = None, keepdims: bool = False, *, method: str = "linear"
) -> Tensor:
    """Returns quantiles along `axis`: one axis, several, or all (None). NaN if a row contains NaN.

    Args:
        x: The samples; integers and booleans are converted to f32.
        q: A number in `[0, 1]`, or a list of them, which become the first axis of the result.
        axis: The axes of the samples.
        keepdims: Whether reduced axes are kept, with extent 1.
        method: The value between two samples: "linear" interpolates, "lower", "higher" and "nearest" select one of
            them, "midpoint" is their mean.

    Raises:
        OptionError: `q` is not in `[0, 1]`, or the method is unknown.
        ShapeError: There are no samples.

    Example:
        >>> tg.quantile([1.0, 2.0, 3.0, 4.0], [0.25, 0.5])
        Array([1.75, 2.5 ], dtype=f32)
    """
    if method not in INTERPOLATIONS:
        raise OptionError(f"quantile: method {method!r} is not one of {', '.join(INTERPOLATIONS)}")
    levels = np.asarray(q, np.float64)
    if levels.ndim > 1 or not levels.size or not np.all((levels >= 0) & (levels <= 1)):
        raise OptionError(f"quantile: q must be a number in [0, 1] or a list of them, got {q!r}")
    tensor = as_float(x)
    axes = normalized_axes(axis, tensor.ndim, "quantile")
    quantiles = _quantiles("quantile", tensor, axes, [float(level) for level in levels.reshape(-1)], method)
    extents = [1 if i in axes else extent for i, extent in enumerate(tensor.shape)]
    remaining = extents if keepdims else [extent for i, extent in enumerate(tensor.shape) if i not in axes]
    return reshape(quantiles, [*levels.shape, *remaining])


@recorded_whole
def median(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the median along `axis`, as in NumPy: the mean of the middle two of an even number of samples.

    NaN if a row contains NaN; integers and booleans are converted to f32.

    Raises:
        ShapeError: There are no samples.

    Example:
        >>> tg.median([[1.0, 9.0, 2.0], [4.0, 4.0, 0.0]], axis=1)
        Array([2., 4.], dtype=f32)
    """
    tensor = as_float(x)
    axes = normalized_axes(axis, tensor.ndim, "median")
    quantiles = _quantiles("median", tensor, axes, [0.5], "midpoint")
    return reshape(
        quantiles,
        [1 if i in axes else extent for i, extent in enumerate(tensor.shape) if keepdims or i not in axes],
    )


def _quantiles(what: str, x: Tensor, axes: Sequence[int], levels: Sequence[float], method: str) -> Tensor:
    """Returns `[quantiles, rows]`."""
    remaining = [axis for axis in range(x.ndim) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    if not count:
        raise ShapeError(f"{what}: axes {list(axes)} of {x.shape} are empty")
    rows = reshape(transpose(x, [*remaining, *axes]) if x.ndim > 1 else x, [-1, count])
    # NaN is sorted to the end.
    ordered = sort(rows, -1)
    is_undefined = isnan(ordered[:, -1])
    tensors: list[Tensor] = []
    for level in levels:
        low, high, share = INTERPOLATIONS[method](level * (count - 1))
        value = ordered[:, low]
        if share:
            value = add(multiply(value, 1 - share), multiply(ordered[:, high], share))
        tensors.append(where(is_undefined, math.nan, value))
    return stack(tensors)


@recorded_whole
def nansum(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the sum along `axis` of the elements that are not NaN, which alone have a nonzero derivative.

    Example:
        >>> tg.nansum([1.0, np.nan, 3.0])
        Array(4., dtype=f32)
    """
    return sum(_without_nan(as_tensor(x)), axis, keepdims)


@recorded_whole
def nanmean(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the mean along `axis` of the elements that are not NaN; NaN if there are none.

    Example:
        >>> tg.nanmean([1.0, np.nan, 3.0])
        Array(2., dtype=f32)
    """
    tensor = as_float(x)
    count = sum(cast(equal(tensor, tensor), tensor.dtype), axis, keepdims)
    return divide(sum(_without_nan(tensor), axis, keepdims), count)


def _without_nan(x: Tensor) -> Tensor:
    return where(isnan(x), 0, x) if is_float(x.dtype) else x


@recorded_whole
def cov(x: TensorLike, correction: int = 1) -> Tensor:
    """Returns the covariances of variables, the rows of a matrix: a matrix, or without axes the variance of only one.

    Args:
        x: `[samples]` or `[variables, samples]`; integers and booleans are converted to f32.
        correction: Subtracted from the number of samples in the divisor; 1 gives the unbiased estimate.

    Raises:
        ShapeError: There are more than two axes, or the number of samples does not exceed the correction.

    Example:
        >>> tg.cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
        Array([[ 1., -1.],
         [-1.,  1.]], dtype=f32)
    """
    tensor = as_float(x)
    if tensor.ndim not in (1, 2):
        raise ShapeError(f"cov: takes a shape [samples] or [variables, samples], not {tensor.shape}")
    count = tensor.shape[-1] - correction
    if count <= 0:
        raise ShapeError(f"cov: {tensor.shape[-1]} samples are too few for correction {correction}")
    return _covariance(tensor, count)


@in_full
def _covariance(x: Tensor, count: int) -> Tensor:
    rows = reshape(x, [-1, x.shape[-1]])
    centred = subtract(rows, mean(rows, -1, keepdims=True))
    covariance = multiply(matmul(centred, transpose(centred)), 1 / count)
    return reshape(covariance, ()) if covariance.shape == (1, 1) else covariance


@recorded_whole
def corrcoef(x: TensorLike) -> Tensor:
    """Returns the correlation coefficients of the rows of a matrix, or 1, without axes, for one row; see `cov`.

    Raises:
        ShapeError: There are more than two axes, or fewer than two samples.

    Example:
        >>> tg.corrcoef([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
        Array([[ 1., -1.],
         [-1.,  1.]], dtype=f32)
    """
    return _correlation(as_float(x))


@in_full
def _correlation(x: Tensor) -> Tensor:
    covariances = cov(x)
    if not covariances.ndim:
        return divide(covariances, covariances)
    deviation = sqrt(diagonal(covariances))
    return divide(covariances, multiply(expand_dims(deviation, 1), deviation))


@recorded_whole
def bincount(x: TensorLike, length: int, weights: TensorLike | None = None) -> Tensor:
    """Returns the number of occurrences of each integer from 0 to `length - 1`; others are ignored.

    NumPy's `minlength` extends the result to the largest value; here its length is fixed.

    Args:
        x: Integers, of any shape.
        length: The extent of the result.
        weights: The weight of each element instead of 1, of the shape of `x`.

    Returns:
        `[length]`: i32, or the dtype of the weights.

    Raises:
        DTypeError: `x` is not an integer tensor.
        ShapeError: The weights have another shape.
        OptionError: `length` is not a positive integer.

    Example:
        >>> tg.bincount([0, 2, 2], 4)
        Array([1, 0, 2, 0], dtype=i32)
    """
    places = as_tensor(x)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"bincount: takes integers, not {SHORT[places.dtype]}")
    length = checked_integer(length, "bincount: length", 1)
    places = as_indices(places, "bincount")
    counted = full_like(places, 1, NAMES["i32"]) if weights is None else as_tensor(weights)
    if counted.shape != places.shape:
        raise ShapeError(f"bincount: weights of shape {counted.shape} for {places.shape}")
    inside = logical_and(greater_equal(places, 0), less(places, length))
    chosen = where(inside, places, length)
    totals = zeros(length + 1, dtype=counted.dtype).at[reshape(chosen, -1)].add(reshape(counted, -1))
    return narrow(totals, 0, 0, length)


@recorded_whole
def histogram(x: TensorLike, bins: TensorLike = 10, range: tuple[float, float] | None = None) -> tuple[Tensor, Tensor]:
    """Returns the number of elements in each bin, and the edges of the bins.

    A bin contains its lower edge, the last one its upper edge too. NaN, and values outside, are ignored.

    Args:
        x: Numbers, of any shape.
        bins: The number of bins of equal width; or their edges, in increasing order.
        range: The outer edges, if `bins` is a number; by default the smallest and the largest element that is a
            number.

    Returns:
        Counts of shape `[bins]`, i32, and edges of shape `[bins + 1]`. Neither has a derivative with respect to `x`.

    Raises:
        OptionError: `bins` is neither, or the range is empty, or known edges are not in increasing order.

    Example:
        >>> tg.histogram([1.0, 2.0, 2.5, 4.0], bins=3)
        (Array([1, 2, 1], dtype=i32), Array([1., 2., 3., 4.], dtype=f32))
    """
    tensor = reshape(stop_gradient(as_float(x)), -1)
    if isinstance(bins, int) and not isinstance(bins, bool):
        if bins < 1:
            raise OptionError(f"histogram: bins must be positive, got {bins}")
        edges = _even_edges(tensor, bins, range)
    else:
        edges = as_float(stop_gradient(as_tensor(bins)))
        if edges.ndim != 1 or edges.shape[0] < 2:
            raise OptionError(f"histogram: bins must be a number, or two edges or more, got {bins!r}")
        known = np.asarray(edges) if isinstance(edges, Array) else np.zeros(2)
        if not np.all(known[1:] >= known[:-1]):
            raise OptionError(f"histogram: the edges of bins must be in increasing order, got {bins!r}")
    count = edges.shape[0] - 1
    # The last bin is closed: its upper edge belongs to it.
    place = subtract(searchsorted(edges, tensor, "right"), 1)
    place = where(equal(tensor, edges[count]), count - 1, place)
    return bincount(where(isnan(tensor), -1, place), count), edges


def _even_edges(x: Tensor, bins: int, range: tuple[float, float] | None) -> Tensor:
    if range is not None:
        low, high = range
        if not low < high:
            raise OptionError(f"histogram: range must be increasing, got {range!r}")
        return cast(linspace(low, high, bins + 1), x.dtype)
    if not x.size:
        return cast(linspace(0, 1, bins + 1), x.dtype)
    low, high = min(where(isnan(x), math.inf, x)), max(where(isnan(x), -math.inf, x))
    single = equal(low, high)  # as NumPy: a bin of width 1 around it
    low, high = where(single, subtract(low, 0.5), low), where(single, add(high, 0.5), high)
    share = multiply(cast(arange(bins + 1), x.dtype), 1 / bins)
    return lerp(low, high, share)
