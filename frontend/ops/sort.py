"""Sorting, and top-k."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import sort as sort_ops
from tensorgrad.dialects.tg.base import integer
from tensorgrad.errors import ShapeError
from tensorgrad.ops.elementwise.arithmetic import stop_gradient, where
from tensorgrad.ops.elementwise.bits import bitwise_invert, bitwise_xor
from tensorgrad.ops.joining import concat, moveaxis, narrow, pad
from tensorgrad.ops.promotion import as_tensor, bitcast, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import max, min
from tensorgrad.ops.shape import elements_at, expand_dims, normalized_axis, positions, reshape
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit

SELECTED = 8
"""The most elements that `top_k` finds without sorting, such as a router's experts."""

FEW = 32
"""By how many times as many elements a row has as `top_k` returns so that it sorts those of some blocks only."""


def _rows(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Returns the tensor (flattened if there is no axis) and its axis from the front."""
    tensor = as_tensor(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    return tensor, normalized_axis(axis, tensor.ndim, what)


@recorded_whole
def argsort(x: TensorLike, axis: int | None = -1, descending: bool = False) -> Tensor:
    """Returns the positions that sort `x` along `axis` (flattened if `None`), as i32.

    Stable in both directions; NaN counts as larger than every number. Any length: on a GPU ceil(log2 n) kernels that
    merge sorted runs, with at most log2 n comparisons per element and kernel; on a CPU by digits, in time proportional
    to the length.

    Raises:
        ShapeError: The axis is out of range.

    Example:
        >>> tg.argsort([3.0, 1.0, 2.0], descending=True)
        Array([0, 2, 1], dtype=i32)
    """
    tensor, place = _rows(x, axis, "argsort")
    if tensor.dtype == NAMES["bool"]:
        tensor = cast(tensor, NAMES["i32"])
    order = emit(sort_ops.ArgsortOp, [moveaxis(tensor, place, -1)], descending=integer(int(descending)))
    return moveaxis(order, -1, place)


@recorded_whole
def sort(x: TensorLike, axis: int | None = -1, descending: bool = False) -> Tensor:
    """`x` sorted along `axis` (flattened if `None`): the elements at the positions of `argsort`.

    The cotangent of each result flows to the element that it came from.

    Raises:
        ShapeError: The axis is out of range.

    Example:
        >>> tg.sort([[3, 1], [2, 4]], axis=0)
        Array([[2, 1],
         [3, 4]], dtype=i32)
    """
    tensor, place = _rows(x, axis, "sort")
    return elements_at(tensor, argsort(tensor, place, descending), place)


@recorded_whole
def top_k(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Returns the `k` largest elements along `axis` (or the smallest), in order, and their positions as i32.

    The first among equals comes first; NaN counts as largest. Up to `SELECTED` elements cost two passes over the axis
    each. More, if they are few beside n elements, are found by sorting blocks with the largest maxima: some 2 sqrt(k n)
    elements in all.

    Raises:
        ShapeError: The axis has fewer than `k` elements.

    Example:
        >>> values, positions = tg.top_k([3.0, 9.0, 5.0], 2)
        >>> values, positions
        (Array([9., 5.], dtype=f32), Array([1, 2], dtype=i32))
    """
    tensor, place = _rows(x, axis, "top_k")
    k = checked_extent(k, "top_k: k")
    if not 0 <= k <= tensor.shape[place]:
        raise ShapeError(f"top_k: axis {place} of {tensor.shape} does not have {k} elements")
    if 0 < k <= SELECTED:
        order = _selected(tensor, k, place, largest)
    elif 0 < k * FEW <= tensor.shape[place]:
        order = _of_blocks(tensor, k, place, largest)
    else:
        order = narrow(argsort(tensor, place, largest), place, 0, k)
    return elements_at(tensor, order, place), order


def _selected(x: Tensor, k: int, axis: int, largest: bool) -> Tensor:
    """Returns the positions of the `k` first elements in their order, found one after another."""
    keys = _keys(x) if largest else bitwise_invert(_keys(x))
    lowest, places = int(np.iinfo(keys.dtype).min), positions(x.shape, axis, NAMES["i32"])
    selected: list[Tensor] = []
    left: Tensor | None = None
    for _ in range(k):
        best = max(keys if left is None else where(left, keys, lowest), axis, keepdims=True)
        is_best = keys == best
        hit = is_best if left is None else is_best & left
        selected.append(min(where(hit, places, x.shape[axis]), axis, keepdims=True))
        left = (keys < best) | (is_best & (places > selected[-1]))
    return concat(selected, axis)


def _of_blocks(x: Tensor, k: int, axis: int, largest: bool) -> Tensor:
    """Returns the positions of the `k` first elements in their order, sorting those of `k` blocks only.

    Each of the `k` first blocks, by their maxima and then by their positions, has an element that comes before all of
    any other block.
    """
    rows = moveaxis(x, axis, -1)
    keys = _keys(rows) if largest else bitwise_invert(_keys(rows))
    *lead, extent = rows.shape
    width = 1 << (math.isqrt(extent // k).bit_length() - 1)
    count = -(-extent // width)
    padding = [*([(0, 0)] * len(lead)), (0, count * width - extent)]
    padded = pad(keys, padding, constant_values=int(np.iinfo(keys.dtype).min))
    blocks = reshape(padded, (*lead, count, width))
    chosen = sort(argsort(max(blocks, -1), descending=True)[..., :k])
    candidates = elements_at(blocks, expand_dims(chosen, -1), -2)
    order = argsort(reshape(candidates, (*lead, k * width)), descending=True)[..., :k]
    return moveaxis(elements_at(chosen, order // width, -1) * width + order % width, -1, axis)


def _keys(x: Tensor) -> Tensor:
    """Returns integers in the order of elements: equal zeros are equal, and NaN is the largest."""
    if x.dtype.kind in "iu":
        return x
    if x.dtype == NAMES["bool"]:
        return cast(x, NAMES["i32"])
    wide = x if x.dtype == NAMES["f64"] else cast(x, NAMES["f32"])
    signed = NAMES[f"i{8 * wide.dtype.itemsize}"]
    largest = int(np.iinfo(signed).max)
    bits = bitcast(stop_gradient(where(wide == 0, 0, wide)), signed)
    return where(wide != wide, largest, where(bits < 0, bitwise_xor(bits, largest), bits))
