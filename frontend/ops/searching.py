"""Binary search in sorted vectors, and counting and membership tests based on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.creation import full
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    not_equal,
    stop_gradient,
    where,
)
from tensorgrad.ops.elementwise.functions import isnan
from tensorgrad.ops.promotion import as_tensor, cast, common, common_dtype
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import sum as total
from tensorgrad.ops.shape import reshape, take, take_rows
from tensorgrad.ops.sort import sort
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.tracing.dtypes import NAMES, DType, is_float
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Array, Tensor

SIDES = ("left", "right")


@recorded_whole
def count_nonzero(x: TensorLike, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Returns the number of nonzero elements along `axis`, as i32; NaN is nonzero.

    Example:
        >>> tg.count_nonzero([[1, 0], [2, 3]], axis=1)
        Array([1, 2], dtype=i32)
    """
    return total(cast(not_equal(stop_gradient(as_tensor(x)), 0), NAMES["i32"]), axis, keepdims)


@recorded_whole
def searchsorted(x: TensorLike, values: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> Tensor:
    """Returns the insertion positions of values in a sorted vector, as i32.

    NaN counts as larger than every number, as in `sort`. One gather for each power of two in the vector's extent.

    Args:
        x: A vector in increasing order.
        values: What to search for, of any shape.
        side: Before the elements that are equal (`left`) or after them (`right`).
        sorter: The positions that sort `x`, if it is not sorted.

    Raises:
        ShapeError: `x` is not a vector.
        OptionError: `side` is neither.

    Example:
        >>> tg.searchsorted([1.0, 2.0, 4.0], [0.5, 2.0, 9.0])
        Array([0, 1, 3], dtype=i32)
    """
    vector = as_tensor(x)
    if vector.ndim != 1:
        raise ShapeError(f"searchsorted: takes a vector, not a tensor of shape {vector.shape}")
    if side not in SIDES:
        raise OptionError(f"searchsorted: side {side!r} is not one of {', '.join(SIDES)}")
    if sorter is not None:
        vector = take(vector, sorter)
    is_scalar = isinstance(values, (bool, int, float))
    tensor = as_tensor(values, common_dtype([vector.dtype], [values]) if is_scalar else None)
    extent = vector.size
    result = full(tensor.shape, 0, "i32")
    if not extent or not tensor.size:
        return result
    for bit in reversed(range(extent.bit_length())):
        further = add(result, 2**bit)
        before = take_rows(vector, minimum(further, extent) - 1, 0)
        result = where(logical_and(less_equal(further, extent), _is_before(before, tensor, side)), further, result)
    return result


def _is_before(element: Tensor, value: Tensor, side: str) -> Tensor:
    """Returns whether an element precedes the insertion position of a value."""
    element, value = common("searchsorted", element, value)
    before = (less if side == "left" else less_equal)(element, value)
    if not is_float(element.dtype):
        return before
    last = isnan(value)
    return logical_or(before, last if side == "right" else logical_and(last, logical_not(isnan(element))))


def _holdable(values: Any, dtype: DType) -> Tensor:
    """Returns values as a tensor; integers that `dtype` can't hold are dropped, since they equal no element."""
    if isinstance(values, Tensor):
        return values
    array = to_numpy(values, "isin: values")
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return as_tensor(values)
    limits = np.iinfo(dtype)
    return Array(array[(array >= limits.min) & (array <= limits.max)].astype(dtype))


def _isin_of_other_sign(element: Tensor, candidates: Tensor, invert: bool) -> Tensor:
    """Returns `isin` of signed and unsigned 64-bit integers, which have no common dtype."""
    if element.dtype.kind == "u":
        is_member, fits = isin(cast(element, NAMES["i64"]), candidates), less_equal(element, np.iinfo(np.int64).max)
    else:
        is_member, fits = isin(cast(element, NAMES["u64"]), candidates), less_equal(0, element)
    hit = logical_and(is_member, fits)
    return logical_not(hit) if invert else hit


def isin(x: TensorLike, values: TensorLike, invert: bool = False) -> Tensor:
    """Returns whether each element is among the values, or not among them with `invert`; NaN never is.

    Raises:
        DTypeError: They have no common dtype.

    Example:
        >>> tg.isin([1, 2, 3], [3, 1])
        Array([ True, False,  True], dtype=bool)
    """
    element = as_tensor(x)
    candidates = _holdable(values, element.dtype)
    kinds = {element.dtype.kind: element.dtype, candidates.dtype.kind: candidates.dtype}
    if NAMES["u64"] in kinds.values() and "i" in kinds:
        return _isin_of_other_sign(element, candidates, invert)
    ordered = sort(reshape(candidates, -1))
    if not ordered.size:
        return full(element.shape, invert, NAMES["bool"])
    place = minimum(searchsorted(ordered, element), int(np.int32(ordered.size - 1)))
    near = take_rows(ordered, place, 0)
    return (not_equal if invert else equal)(near, element)
