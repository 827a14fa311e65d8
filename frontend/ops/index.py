"""Reading and updating tensors at computed indices."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import StringAttr

from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg.base import integer
from tensorgrad.errors import DTypeError, ShapeError, TraceError
from tensorgrad.ops.creation import arange
from tensorgrad.ops.elementwise.arithmetic import equal
from tensorgrad.ops.joining import narrow, pad
from tensorgrad.ops.promotion import as_tensor, broadcast_shapes, broadcast_to, cast, in_dtype
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import (
    as_indices,
    counted_from_front,
    expand_dims,
    index_dtype,
    normalized_axis,
    note_range,
    reshape,
    slices_at,
    take_along_axis,
    take_rows,
)
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import SHORT, as_dtype
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit


@recorded_whole
def embedding(table: TensorLike, indices: TensorLike) -> Tensor:
    """Returns the rows of `table` at `indices`: `[*indices.shape, *table.shape[1:]]`. Only these rows are read.

    An index out of range reads NaN. The derivative adds the cotangents of equal indices in increasing order of their
    position, without atomics: by a stable sort of the indices and a sum over each row's segment.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: The table has no axes.

    Example:
        >>> tg.embedding([[0.5, 1.0], [2.0, 3.0]], [1, 1, 0])
        Array([[2. , 3. ],
         [2. , 3. ],
         [0.5, 1. ]], dtype=f32)
    """
    return slices_at(table, indices, 0, "embedding")


def axis_of_indices(tensor: Tensor, indices: Tensor, axis: int, what: str) -> int:
    """Returns the axis that indices refer to, counted from the front.

    Raises:
        ShapeError: They differ in rank from the tensor, or are longer on another axis.
    """
    place = normalized_axis(axis, tensor.ndim, what)
    fits = indices.ndim == tensor.ndim and all(
        i == place or size <= extent for i, (size, extent) in enumerate(zip(indices.shape, tensor.shape, strict=False))
    )
    if not fits:
        raise ShapeError(
            f"{what}: indices {indices.shape} do not fit {tensor.shape} along axis {place}: they have "
            "as many axes, and elsewhere no larger extents; for rows there are x[indices] and x.at[indices].add(rows)"
        )
    return place


def updates_at(indices: Tensor, updates: Tensor, what: str) -> Tensor:
    """Returns the updates that correspond to indices: on each axis the leading ones, as in PyTorch.

    Raises:
        ShapeError: There are fewer of them than indices on an axis, or they have a different number of axes.
    """
    extents = indices.shape
    if updates.ndim != len(extents) or any(size < least for size, least in zip(updates.shape, extents, strict=True)):
        raise ShapeError(f"{what}: updates {updates.shape} do not cover the indices {extents}")
    for axis, extent in enumerate(extents):
        updates = narrow(updates, axis, 0, extent)
    return updates


@recorded_whole
def gather(x: TensorLike, axis: int, indices: TensorLike) -> Tensor:
    """Elements of `x` along `axis` at indices for each position, as in PyTorch: other axes may be shorter.

    `gather(x, 1, i)[a, b] = x[a, i[a, b]]`. An index out of range reads NaN (0 where the elements are not floats).

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: The indices are longer than `x` on another axis.

    Example:
        >>> tg.gather([[1, 2], [3, 4]], 1, [[1, 1], [0, 0]])
        Array([[2, 2],
         [3, 3]], dtype=i32)
    """
    tensor, positions = as_tensor(x), as_tensor(indices)
    place = axis_of_indices(tensor, positions, axis, "gather")
    for other, extent in enumerate(positions.shape):
        if other != place:
            tensor = narrow(tensor, other, 0, extent)
    return take_along_axis(tensor, positions, place)


@recorded_whole
def scatter_add(x: TensorLike, axis: int, indices: TensorLike, updates: TensorLike) -> Tensor:
    """Adds `updates` to `x` along `axis` at indices for each position, as in PyTorch: other axes may be shorter.

    `scatter_add(x, 1, i, u)` adds `u[a, b]` to `x[a, i[a, b]]`; equal indices accumulate in increasing order of their
    position. An index out of range is dropped, and so are updates beyond the indices of an axis. Few indices are
    compared with every position; many are sorted, and each position sums its segment.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: There are fewer updates than indices on an axis, or these are longer than `x` on another one.

    Example:
        >>> tg.scatter_add(tg.zeros(3), 0, [0, 2, 2], [1.0, 2.0, 4.0])
        Array([1., 0., 6.], dtype=f32)
    """
    tensor, positions = as_tensor(x), as_tensor(indices)
    place = axis_of_indices(tensor, positions, axis, "scatter_add")
    extent = tensor.shape[place]
    parts = updates_at(positions, in_dtype(updates, tensor.dtype), "scatter_add")
    added = scattered(parts, counted_from_front(positions, extent, "scatter_add"), place, extent)
    return tensor + pad(added, [(0, whole - part) for whole, part in zip(tensor.shape, added.shape, strict=True)])


def scattered(updates: Tensor, places: Tensor, axis: int, extent: int, reduction: str = "sum") -> Tensor:
    """Returns the updates reduced at places along an axis, one for each update or for each slice of them.

    Args:
        updates: The updates.
        places: Of the same shape, or of that of some axes of the updates from `axis` on.
        axis: The axis of the result that places count along.
        extent: Its extent; updates of other places are dropped.
        reduction: `sum`, `prod`, `max` or `min`; a position without updates receives the identity element.
    """
    bounds = {"axis": integer(axis), "extent": integer(extent)}
    slices = places.ndim < updates.ndim
    if reduction == "sum":
        return emit(index_ops.ScatterAddOp if slices else index_ops.ScatterAddAlongAxisOp, [updates, places], **bounds)
    kind = index_ops.ScatterReduceOp if slices else index_ops.ScatterReduceAlongAxisOp
    return emit(kind, [updates, places], **bounds, reduction=StringAttr(reduction))


@recorded_whole
def one_hot(indices: TensorLike, count: int, dtype: object = "f32") -> Tensor:
    """Returns a new last axis of `count` elements: 1 at the index, 0 elsewhere; all 0 if it is out of range.

    It is a comparison with positions, which is fused into a sum or product that reads it.

    Raises:
        DTypeError: The indices are not integers.
        OptionError: `count` is not a positive integer.

    Example:
        >>> tg.one_hot([2, 0], 3)
        Array([[0., 0., 1.],
         [1., 0., 0.]], dtype=f32)
    """
    count = checked_integer(count, "one_hot: the number of classes", 1)
    tensor = as_indices(indices, "one_hot", count)
    note_range(tensor, 0, count - 1, "one_hot")
    return cast(equal(expand_dims(tensor, -1), arange(count, dtype=tensor.dtype)), as_dtype(dtype))


def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """Returns the indices of nonzero elements along each axis, in row-major order, as in NumPy.

    Their number depends on values, which therefore have to be known: it works only outside a trace.

    Raises:
        TraceError: The values are not known yet.
        ShapeError: There are no axes.

    Example:
        >>> tg.nonzero([[1, 0], [0, 2]])
        (Array([0, 1], dtype=i32), Array([0, 1], dtype=i32))
    """
    tensor = as_tensor(x)
    if not tensor.ndim:
        raise ShapeError("nonzero: a tensor without axes has no indices")
    if not isinstance(tensor, Array):
        raise TraceError(
            "nonzero: how many elements the result has is known only when the program runs; choose values by where"
        )
    coordinates = zip(np.nonzero(np.asarray(tensor)), tensor.shape, strict=True)
    return tuple(Array(places.astype(index_dtype(extent))) for places, extent in coordinates)


def masked_select(x: TensorLike, mask: TensorLike) -> Tensor:
    """Returns the elements of `x` where a mask is true, as one axis; both broadcast, as in PyTorch.

    Raises:
        TraceError: The values of the mask are not known yet: it works only outside a trace.
        DTypeError: The mask is not boolean.
        ShapeError: They don't broadcast.

    Example:
        >>> tg.masked_select([1.0, 2.0, 3.0], [True, False, True])
        Array([1., 3.], dtype=f32)
    """
    tensor, chosen = as_tensor(x), as_tensor(mask)
    if chosen.dtype.kind != "b":
        raise DTypeError(f"masked_select: the mask must be bool, got {SHORT[chosen.dtype]}")
    extents = broadcast_shapes(tensor.shape, chosen.shape, what="masked_select")
    places = nonzero(reshape(broadcast_to(chosen, extents), -1))[0]
    return take_rows(reshape(broadcast_to(tensor, extents), -1), places, 0)
