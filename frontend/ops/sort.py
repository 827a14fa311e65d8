"""Sorting, and top-k."""

from __future__ import annotations

from typing import Any

from tensorgrad.dialects.tg import sort as sort_ops
from tensorgrad.dialects.tg.base import integer
from tensorgrad.errors import ShapeError
from tensorgrad.ops.joining import moveaxis, narrow
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.shape import normalized_axis, reshape, take_along_axis
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def _rows(x: Any, axis: int | None, what: str) -> tuple[Tensor, int]:
    """Returns the tensor (flattened if there is no axis) and its axis from the front."""
    tensor = as_tensor(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    return tensor, normalized_axis(axis, tensor.ndim, what)


def argsort(x: TensorLike, axis: int | None = -1, descending: bool = False) -> Tensor:
    """Returns the positions that sort `x` along `axis` (flattened if `None`), as i32.

    Stable in both directions; NaN counts as larger than every number. Any length: ceil(log2 n) kernels that merge
    sorted runs, with at most log2 n comparisons per element and kernel.

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
    return take_along_axis(tensor, argsort(tensor, place, descending), place)


def top_k(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Returns the `k` largest elements along `axis` (or the smallest), in order, and their positions as i32.

    The first among equals comes first; NaN counts as largest. It costs as much as `argsort`.

    Raises:
        ShapeError: The axis has fewer than `k` elements.

    Example:
        >>> values, positions = tg.top_k([3.0, 9.0, 5.0], 2)
        >>> values, positions
        (Array([9., 5.], dtype=f32), Array([1, 2], dtype=i32))
    """
    tensor, place = _rows(x, axis, "top_k")
    if not 0 <= k <= tensor.shape[place]:
        raise ShapeError(f"top_k: axis {place} of {tensor.shape} does not have {k} elements")
    order = narrow(argsort(tensor, place, largest), place, 0, k)
    return take_along_axis(tensor, order, place), order
