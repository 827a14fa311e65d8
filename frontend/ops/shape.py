"""Functions that reshape and index tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg import leaves, shape
from tensorgrad.dialects.tg.base import integer, ints, size_of
from tensorgrad.errors import AxisError, DTypeError, ShapeError
from tensorgrad.ops import promotion
from tensorgrad.ops.creation import arange
from tensorgrad.ops.elementwise.arithmetic import add, less, where
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.tracing.dtypes import NAMES, SHORT, DType
from tensorgrad.tracing.index_ranges import Note, allowed
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import current_trace, emit
from tensorgrad.tracing.views import viewing


def normalized_axis(axis: Any, rank: int, what: str) -> int:
    """Returns an axis counted from the front.

    Raises:
        AxisError: It is out of range.
        ShapeError: It is not an integer.
    """
    try:
        number = operator.index(axis)
    except (TypeError, ShapeError):
        description = f"a tensor of shape {axis.shape}" if isinstance(axis, Tensor) else repr(axis)
        raise ShapeError(f"{what}: the axis must be an integer, not {description}") from None
    if not -rank <= number < rank:
        raise AxisError(f"{what}: axis {number} is out of range for a tensor of {rank} axes")
    return number % rank


def normalized_axes(axes: Any, rank: int, what: str) -> list[int]:
    """Returns axes counted from the front, in order; `None` means all.

    Raises:
        ShapeError: One is out of range, or named twice.
    """
    if axes is None:
        return list(range(rank))
    listed = axes if isinstance(axes, (tuple, list)) else (axes,)
    results = sorted(normalized_axis(axis, rank, what) for axis in listed)
    if len(set(results)) != len(results):
        raise ShapeError(f"{what}: axes {listed} name an axis twice")
    return results


def _listed(shape: Any) -> list[int]:
    """Returns extents that are passed one by one, or as one sequence.

    Raises:
        ShapeError: One is no integer.
    """
    nested = len(shape) == 1 and isinstance(shape[0], (tuple, list))
    extents = shape[0] if nested else shape
    try:
        return [operator.index(extent) for extent in extents]
    except TypeError:
        is_dtype = any(isinstance(extent, (np.dtype, type)) for extent in extents)
        hint = "; tg.bitcast reads the same bits as another dtype" if is_dtype else ""
        raise ShapeError(f"the extents of a shape are integers, not {', '.join(map(repr, extents))}{hint}") from None


@viewing(in_order=True, reshapes=True)
def reshape(x: TensorLike, *shape_: Axes) -> Tensor:
    """Returns the same elements in row-major order, in another shape; one extent may be -1.

    Raises:
        ShapeError: The number of elements differs.

    Example:
        >>> tg.reshape(tg.arange(6), (2, -1))
        Array([[0, 1, 2],
         [3, 4, 5]], dtype=i32)
    """
    tensor = as_tensor(x)
    extents = _listed(shape_)
    if extents.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent may be -1, got {tuple(extents)}")
    if -1 in extents:
        known = size_of([extent for extent in extents if extent != -1])
        if not known or tensor.size % known:
            raise ShapeError(f"reshape: {tensor.shape} does not fit {tuple(extents)}")
        extents[extents.index(-1)] = tensor.size // known
    if tuple(extents) == tensor.shape:
        return tensor
    return emit(shape.ReshapeOp, [tensor], shape=ints(extents))


@viewing(in_order=False)
def transpose(x: TensorLike, *axes: Axes | None) -> Tensor:
    """Permutes the axes; reverses them if none are given.

    This is NumPy's function: `swapaxes` is PyTorch's `transpose`, which swaps two axes.

    Args:
        x: A tensor.
        *axes: The axis of `x` that each axis of the result is, one by one or as one sequence; none reverses them.

    Raises:
        ShapeError: The axes are not a permutation, or are 0 and 1, one by one, of a matrix: that would leave it as it
            is, where PyTorch swaps them. A sequence, as computed permutations are, may do so.

    Example:
        >>> tg.transpose(tg.ones((2, 3, 4)), 0, 2, 1).shape
        (2, 4, 3)
        >>> tg.ones((2, 3, 4)).transpose().shape
        (4, 3, 2)
    """
    tensor = as_tensor(x)
    requested = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    if not requested or requested == (None,):
        order = list(range(tensor.ndim))[::-1]
    else:
        order = [normalized_axis(axis, tensor.ndim, "transpose") for axis in requested]
    if len(order) == 2 != tensor.ndim:
        raise ShapeError(
            f"transpose: {tuple(requested)} is not a permutation of {tensor.ndim} axes; swapaxes swaps two of them"
        )
    if len(axes) == 2 and order == [0, 1]:
        raise ShapeError(
            f"transpose: the permutation {axes} leaves a matrix as it is; swapaxes swaps two axes, as PyTorch's "
            "transpose does, and transpose without axes reverses them"
        )
    if order == list(range(tensor.ndim)):
        return tensor
    return emit(shape.TransposeOp, [tensor], permutation=ints(order))


@viewing(in_order=False)
def broadcast_to(x: TensorLike, shape_: Sequence[int]) -> Tensor:
    """Broadcasts `x` along new leading axes and along axes of extent 1, to `shape_`.

    Raises:
        ShapeError: NumPy's rules don't allow it.

    Example:
        >>> tg.broadcast_to([1.0, 2.0], (3, 2))
        Array([[1., 2.],
         [1., 2.],
         [1., 2.]], dtype=f32)
    """
    return promotion.broadcast_to(x, shape_)


@viewing(in_order=False)
def expand(x: TensorLike, *shape_: Axes) -> Tensor:
    """Broadcasts `x` to a shape in which -1 stands for its own extent, as PyTorch's `expand`; see `broadcast_to`.

    Raises:
        ShapeError: `x` does not broadcast to the shape, or a new leading axis has the extent -1.

    Example:
        >>> tg.array([[1.0], [2.0]]).expand(-1, 3)
        Array([[1., 1., 1.],
         [2., 2., 2.]], dtype=f32)
    """
    tensor = as_tensor(x)
    extents = _listed(shape_)
    new = len(extents) - tensor.ndim
    if new < 0 or any(extent < 0 and (extent < -1 or axis < new) for axis, extent in enumerate(extents)):
        raise ShapeError(
            f"expand: {tensor.shape} does not broadcast to {tuple(extents)}; -1 keeps an extent of its own"
        )
    own = [1] * new + list(tensor.shape)
    return promotion.broadcast_to(
        tensor, [size if extent == -1 else extent for extent, size in zip(extents, own, strict=True)]
    )


@viewing(in_order=False)
def swapaxes(x: TensorLike, first: int, second: int) -> Tensor:
    """Swaps two axes.

    Example:
        >>> tg.swapaxes(tg.ones((2, 3, 4)), 1, 2).shape
        (2, 4, 3)
    """
    tensor = as_tensor(x)
    order = list(range(tensor.ndim))
    i, j = (normalized_axis(axis, tensor.ndim, "swapaxes") for axis in (first, second))
    order[i], order[j] = order[j], order[i]
    return transpose(tensor, order)


@viewing(in_order=True)
def expand_dims(x: TensorLike, axis: Axes) -> Tensor:
    """Adds axes of extent 1 at the positions in `axis` of the result.

    Example:
        >>> tg.expand_dims([1.0, 2.0], 0).shape
        (1, 2)
    """
    tensor = as_tensor(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = normalized_axes(axis, tensor.ndim + count, "expand_dims")
    rest = iter(tensor.shape)
    return reshape(tensor, [1 if i in places else next(rest) for i in range(tensor.ndim + count)])


def atleast_1d(*tensors: TensorLike) -> Tensor | tuple[Tensor, ...]:
    """Returns scalars as vectors of one element, all others unchanged: one tensor for one argument, else a tuple.

    Example:
        >>> tg.atleast_1d(3.0).shape
        (1,)
    """
    return _with_axes(tensors, lambda shape_: shape_ or (1,))


def atleast_2d(*tensors: TensorLike) -> Tensor | tuple[Tensor, ...]:
    """Returns vectors as `[1, n]`, scalars as `[1, 1]`, others unchanged: one tensor for one argument, else a tuple.

    Example:
        >>> tg.atleast_2d([1.0, 2.0]).shape
        (1, 2)
    """
    return _with_axes(tensors, lambda shape_: (1,) * (2 - len(shape_)) + shape_)


def atleast_3d(*tensors: TensorLike) -> Tensor | tuple[Tensor, ...]:
    """Returns matrices as `[m, n, 1]`, vectors as `[1, n, 1]`, scalars as `[1, 1, 1]`, and all others unchanged.

    One tensor for one argument, else a tuple.

    Example:
        >>> tg.atleast_3d([[1.0, 2.0]]).shape
        (1, 2, 1)
    """
    wide = {0: lambda shape_: (1, 1, 1), 1: lambda shape_: (1, *shape_, 1), 2: lambda shape_: (*shape_, 1)}
    return _with_axes(tensors, lambda shape_: wide[len(shape_)](shape_) if len(shape_) in wide else shape_)


def _with_axes(
    tensors: Sequence[Any], shaped: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Tensor | tuple[Tensor, ...]:
    results = tuple(reshape(x, shaped(x.shape)) for x in map(as_tensor, tensors))
    return results[0] if len(results) == 1 else results


@viewing(in_order=True)
def unsqueeze(x: TensorLike, axis: Axes) -> Tensor:
    """Adds axes of extent 1, like `expand_dims`; this is PyTorch's name.

    Example:
        >>> tg.ones((2, 3)).unsqueeze(-1).shape
        (2, 3, 1)
    """
    return expand_dims(x, axis)


def numel(x: TensorLike) -> int:
    """Returns the number of elements, like `x.size`.

    Example:
        >>> tg.numel(tg.ones((2, 3)))
        6
    """
    return as_tensor(x).size


@viewing(in_order=True)
def squeeze(x: TensorLike, axis: Axes | None = None) -> Tensor:
    """Drops axes of extent 1: those in `axis`, or all.

    Raises:
        ShapeError: An axis in `axis` has another extent.

    Example:
        >>> tg.squeeze(tg.ones((1, 3, 1)), 0).shape
        (3, 1)
    """
    tensor = as_tensor(x)
    if axis is None:
        places = [i for i, extent in enumerate(tensor.shape) if extent == 1]
    else:
        places = normalized_axes(axis, tensor.ndim, "squeeze")
    for place in places:
        if tensor.shape[place] != 1:
            raise ShapeError(f"squeeze: axis {place} of {tensor.shape} is not of extent 1")
    return reshape(tensor, [extent for i, extent in enumerate(tensor.shape) if i not in places])


def flip(x: TensorLike, axis: Axes | None = None) -> Tensor:
    """Reverses the order of the elements along `axis` (all axes by default).

    Example:
        >>> tg.flip([[1, 2], [3, 4]], axis=1)
        Array([[2, 1],
         [4, 3]], dtype=i32)
    """
    tensor = as_tensor(x)
    return emit(shape.ReverseOp, [tensor], axes=ints(normalized_axes(axis, tensor.ndim, "flip")))


def counted_from_front(indices: Any, extent: int, what: str) -> Tensor:
    """Returns indices of an axis, converting negative ones, which count from the end, as in NumPy.

    Raises:
        DTypeError: They are not integers.
        ShapeError: A known index is out of range.
    """
    tensor = as_tensor(indices)
    places, unsigned = as_indices(tensor, what, extent), tensor.dtype.kind == "u"
    check_range(tensor, 0 if unsigned else -extent, extent - 1, what)
    if unsigned or counts_below(tensor) is not None:
        return places
    return where(less(places, 0), add(places, extent), places)


def as_indices(indices: Any, what: str, extent: int = 0) -> Tensor:
    """Returns indices of an axis as integers of 32 bits or more that can represent its extent.

    Raises:
        DTypeError: They are not integers.
    """
    tensor = as_tensor(indices)
    if tensor.dtype.kind not in "iu":
        raise DTypeError(f"{what}: indices must be integers, got {SHORT[tensor.dtype]}")
    fits = tensor.dtype.itemsize >= 4 and extent <= np.iinfo(tensor.dtype).max
    return tensor if fits else promotion.cast(tensor, index_dtype(extent))


def index_dtype(extent: int) -> DType:
    """Returns the dtype of positions on an axis: i32, or i64 if that can't represent the extent."""
    return NAMES["i32" if extent <= np.iinfo(np.int32).max else "i64"]


def counts_below(x: Tensor) -> int | None:
    """Returns an exclusive bound of a traced tensor's integers, if it is known to count from 0 as `arange` does."""
    if not isinstance(x, Traced):
        return None
    op = x.value.owner
    while isinstance(op, shape.ReshapeOp | shape.BroadcastOp | shape.TransposeOp):
        op = op.operands[0].owner
    return op.shape[op.axis.value.data] if isinstance(op, leaves.IotaOp) else None


def check_range(indices: Tensor, low: int, high: int, what: str, is_label: bool = False) -> None:
    """Checks indices: immediately if they are known, else by `note_range`.

    Raises:
        ShapeError: One is out of range.
    """
    count = counts_below(indices)
    if count is None and not isinstance(indices, Array):
        note_range(indices, low, high, what, is_label)
        return
    values = np.asarray(indices) if count is None else np.arange(count)
    outside = (values < low) | (values > high)
    if outside.any():
        index = values[outside].flat[0]
        raise ShapeError(f"{what}: index {index} is out of range, {allowed(low, high)}")


def note_range(indices: Tensor, low: int, high: int, what: str, is_label: bool = False) -> None:
    """Records the valid range of traced indices.

    Constants are checked when the trace ends, inputs by `checks=True`; those that are the labels of a loss, always.
    """
    trace = current_trace()
    if isinstance(indices, Traced) and trace is not None:
        trace.notes.append(Note(indices.value, low, high, what, user_line(), is_label))


def take_rows(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Returns slices of `x` along `axis` at nonnegative positions; NaN, or 0, if out of range."""
    return emit(index_ops.TakeOp, [x, indices], axis=integer(axis))


@recorded_whole
def take(x: TensorLike, indices: TensorLike, axis: int = 0) -> Tensor:
    """Returns slices of `x` along `axis` at `indices`, whose axes replace `axis`.

    Negative indices count from the end. An index out of range is an error if its value is known; otherwise it reads NaN
    (0 if the elements are not floats) and has no derivative. Only the selected slices are read.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: A known index is out of range.

    Example:
        >>> tg.take([[1, 2], [3, 4], [5, 6]], [2, 0])
        Array([[5, 6],
         [1, 2]], dtype=i32)
    """
    return slices_at(x, indices, axis, "take")


def slices_at(x: TensorLike, indices: TensorLike, axis: int, what: str) -> Tensor:
    """Returns what `take` does; `what` is the function's name in error messages."""
    tensor, index_tensor = as_tensor(x), as_tensor(indices)
    place = normalized_axis(axis, tensor.ndim, what)
    return take_rows(tensor, counted_from_front(index_tensor, tensor.shape[place], what), place)


@recorded_whole
def take_along_axis(x: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """Returns elements of `x` along `axis`, at indices for each position; other axes broadcast.

    Negative indices count from the end; an index out of range is treated as in `take`.

    Raises:
        DTypeError: The indices are not integers.
        ShapeError: The shapes don't broadcast outside `axis`, or a known index is out of range.

    Example:
        >>> tg.take_along_axis([[3, 1, 2]], tg.argsort([[3, 1, 2]]), axis=1)
        Array([[1, 2, 3]], dtype=i32)
    """
    tensor, where_ = as_tensor(x), as_tensor(indices)
    place = normalized_axis(axis, tensor.ndim, "take_along_axis")
    if where_.ndim != tensor.ndim:
        raise ShapeError(f"take_along_axis: {tensor.shape} and indices {where_.shape} differ in their number of axes")
    places = counted_from_front(where_, tensor.shape[place], "take_along_axis")
    try:
        return elements_at(tensor, places, place)
    except ValueError:
        raise ShapeError(f"take_along_axis: {tensor.shape} and indices {where_.shape} do not broadcast") from None


def elements_at(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """Returns what `take_along_axis` does, at places that are known to be positions of the axis.

    Raises:
        ValueError: The shapes don't broadcast outside `axis`.
    """
    axis %= x.ndim
    lead = np.broadcast_shapes(x.shape[:axis], places.shape[:axis])
    trail = np.broadcast_shapes(x.shape[axis + 1 :], places.shape[axis + 1 :])
    operands = [promotion.broadcast_to(tensor, (*lead, tensor.shape[axis], *trail)) for tensor in (x, places)]
    return emit(index_ops.TakeAlongAxisOp, operands, axis=integer(axis))


def positions(extents: Sequence[int], axis: int, dtype: DType) -> Tensor:
    """Returns each element's own position along `axis`."""
    return promotion.broadcast_to(
        reshape(arange(extents[axis], dtype=dtype), [-1 if i == axis else 1 for i in range(len(extents))]), extents
    )
