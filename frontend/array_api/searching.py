"""Functions of the Array API standard that search, sort, and find unique elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensorgrad.errors import TraceError
from tensorgrad.ops import index, reduce
from tensorgrad.ops import searching as search
from tensorgrad.ops import sort as sorting
from tensorgrad.ops.creation import arange, full
from tensorgrad.ops.cumulative import cumsum, diff
from tensorgrad.ops.elementwise import arithmetic
from tensorgrad.ops.joining import concat
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.shape import reshape, take
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor, Traced


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the index of the largest element along an axis, or in the flattened array; the first one of ties."""
    return reduce.argmax(x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the index of the smallest element along an axis, or in the flattened array; the first one of ties."""
    return reduce.argmin(x, axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the number of nonzero elements along axes."""
    return search.count_nonzero(x, axis, keepdims)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """Returns the indices of the nonzero elements, one array for each axis.

    Raises:
        TraceError: The array is traced.
        ShapeError: The array has no axes.
    """
    return index.nonzero(x)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Returns the indices at which to insert values into a sorted vector so that it stays sorted."""
    return search.searchsorted(x1, x2, side, sorter)


def where(condition: Any, x1: Any, x2: Any, /) -> Tensor:
    """Returns elements of `x1` where a condition holds, and of `x2` elsewhere."""
    return arithmetic.where(condition, x1, x2)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Returns whether each element of `x1` is in `x2`, or is not with `invert`."""
    return search.isin(x1, x2, invert)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the indices that sort `x` along an axis. The sort is always stable."""
    return sorting.argsort(x, axis, descending)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns `x` sorted along an axis. The sort is always stable."""
    return sorting.sort(x, axis, descending)


def unique_all(x: Any, /) -> UniqueAll:
    """Returns the unique elements in ascending order, their first indices, their inverse indices, and their counts.

    Every NaN is unique.

    Raises:
        TraceError: The array is traced.
    """
    return _unique("unique_all", x)


def unique_counts(x: Any, /) -> UniqueCounts:
    """Returns the unique elements in ascending order, and their counts.

    Raises:
        TraceError: The array is traced.
    """
    result = _unique("unique_counts", x)
    return UniqueCounts(result.values, result.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Returns the unique elements in ascending order, and the index of each element among them.

    Raises:
        TraceError: The array is traced.
    """
    result = _unique("unique_inverse", x)
    return UniqueInverse(result.values, result.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """Returns the unique elements in ascending order.

    Raises:
        TraceError: The array is traced.
    """
    return _unique("unique_values", x).values


def _unique(what: str, x: Any) -> UniqueAll:
    tensor = _known(what, x)
    flat = reshape(tensor, -1)
    if not flat.size:
        nothing = full((0,), 0, NAMES["i32"])
        return UniqueAll(flat, nothing, full(tensor.shape, 0, NAMES["i32"]), nothing)
    order = sorting.argsort(flat)
    ordered = take(flat, order)
    begins = concat([full((1,), True, NAMES["bool"]), arithmetic.not_equal(ordered[1:], ordered[:-1])])
    places = arange(flat.size)[begins]
    group = cumsum(begins) - 1
    inverse = reshape(take(group, sorting.argsort(order)), tensor.shape)
    return UniqueAll(take(ordered, places), take(order, places), inverse, diff(places, append=flat.size))


def _known(what: str, x: Any) -> Tensor:
    """Returns the argument as an array with concrete values.

    Raises:
        TraceError: It is traced.
    """
    tensor = as_tensor(x)
    if isinstance(tensor, Traced):
        raise TraceError(
            f"{what}: how many elements the result has is known only when the program runs; choose "
            "values by where, or call it outside the traced function"
        )
    return tensor
