"""Statistical and utility functions of the Array API standard."""

from __future__ import annotations

from typing import Any

from tensorgrad.ops import cumulative, reduce
from tensorgrad.ops.creation import full
from tensorgrad.ops.joining import concat
from tensorgrad.ops.shape import normalized_axis
from tensorgrad.tracing.tensor import Tensor


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether every element along axes is true; true for empty axes."""
    return reduce.all(x, axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether any element along axes is true; false for empty axes."""
    return reduce.any(x, axis, keepdims)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Returns cumulative products along an axis, optional for vectors; with `include_initial` they begin with a 1."""
    products = cumulative.cumprod(x, axis, dtype=dtype)
    return _after(1, products, axis) if include_initial else products


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Returns cumulative sums along an axis, optional for vectors; with `include_initial` they begin with a 0."""
    sums = cumulative.cumsum(x, axis, dtype=dtype)
    return _after(0, sums, axis) if include_initial else sums


def _after(first: int, rest: Tensor, axis: int | None) -> Tensor:
    place = normalized_axis(0 if axis is None else axis, rest.ndim, "include_initial")
    extents = [1 if i == place else extent for i, extent in enumerate(rest.shape)]
    return concat([full(extents, first, rest.dtype), rest], place)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Returns the `n`-th differences of adjacent elements along an axis."""
    return cumulative.diff(x, n, axis, prepend, append)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the largest element along axes; NaN if any is NaN."""
    return reduce.max(x, axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest element along axes; NaN if any is NaN."""
    return reduce.min(x, axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the mean along axes."""
    return reduce.mean(x, axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the product along axes, 1 if they are empty; without `dtype`, small integers widen to 32 bits."""
    return reduce.prod(x, axis, keepdims, dtype=dtype)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns the standard deviation along axes; `correction` is subtracted from the number of elements."""
    return reduce.std(x, axis, correction, keepdims)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the sum along axes, 0 if they are empty; without `dtype`, small integers widen to 32 bits."""
    return reduce.sum(x, axis, keepdims, dtype=dtype)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns the variance along axes; `correction` is subtracted from the number of elements."""
    return reduce.var(x, axis, correction, keepdims)
