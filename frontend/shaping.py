"""Functions that reshape, index and make tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.dialects.tg import index as index_ops
from tensorgrad.dialects.tg import leaves, shape
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, integer, ints, size_of
from tensorgrad.dtypes import NAMES, SHORT, DType, as_dtype, spec
from tensorgrad.elementwise import add, as_tensor, broadcast_to, less, where
from tensorgrad.errors import DTypeError, ShapeError
from tensorgrad.location import user_line
from tensorgrad.tensor import Array, Tensor, Traced
from tensorgrad.tracer import as_array, current_trace, emit


def normalized_axis(axis: Any, rank: int, what: str) -> int:
    """An axis counted from the front.

    Raises:
        ShapeError: It is out of range.
    """
    try:
        number = operator.index(axis)
    except TypeError:
        raise ShapeError(f"{user_line()}: {what}: axis {axis!r} is no integer") from None
    if not -rank <= number < rank:
        raise ShapeError(f"{user_line()}: {what}: axis {number} is out of range for a tensor of {rank} axes")
    return number % rank


def normalized_axes(axes: Any, rank: int, what: str) -> list[int]:
    """Axes counted from the front, in order; `None` means all.

    Raises:
        ShapeError: One is out of range, or named twice.
    """
    if axes is None:
        return list(range(rank))
    listed = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = sorted(normalized_axis(axis, rank, what) for axis in listed)
    if len(set(found)) != len(found):
        raise ShapeError(f"{user_line()}: {what}: axes {listed} name an axis twice")
    return found


def array(x: Any, dtype: object = None) -> Tensor:
    """A tensor of the given numbers; float64 rounds to f32 unless `dtype` asks for f64.

    Raises:
        DTypeError: Values that don't fit.
    """
    if isinstance(x, Traced):
        return x if dtype is None else as_tensor(x).astype(dtype)
    return Array(np.array(as_array(x, None if dtype is None else as_dtype(dtype))))


def full(shape_: int | Sequence[int], value: float, dtype: object = None) -> Tensor:
    """A tensor filled with `value`; its dtype is the value's unless given."""
    wanted = as_array(value).dtype if dtype is None else as_dtype(dtype)
    extents = spec(shape_, wanted).shape
    return Array(np.broadcast_to(as_array(value, wanted), extents))


def zeros(shape_: int | Sequence[int], dtype: object = "f32") -> Tensor:
    """A tensor of zeros."""
    return full(shape_, 0, dtype)


def ones(shape_: int | Sequence[int], dtype: object = "f32") -> Tensor:
    """A tensor of ones."""
    return full(shape_, 1, dtype)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: object = None) -> Tensor:
    """The numbers `start, start + step, …` below `stop` (or from 0 to `start`); i32, or f32 if one of them is a float.

    Floats are computed in f64, as NumPy does, and rounded once.

    Raises:
        ShapeError: `step` is 0.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError(f"{user_line()}: arange: the step is 0")
    if isinstance(first, float) or isinstance(last, float) or isinstance(step, float):
        return Array(np.arange(first, last, step).astype(as_dtype("f32" if dtype is None else dtype)))
    dtype = "i32" if dtype is None else dtype
    wanted, count = as_dtype(dtype), len(range(first, last, step))
    if current_trace() is None or not count:
        return Array(np.arange(first, last, step).astype(wanted))
    positions = emit(leaves.IotaOp, [], shape=ints([count]), axis=integer(0), element=ELEMENT_TYPES[wanted])
    scaled = positions if step == 1 else positions * step
    return scaled if first == 0 else scaled + first


def reshape(x: Any, *shape_: Any) -> Tensor:
    """The same elements in row-major order, in another shape; one extent may be -1.

    Raises:
        ShapeError: The number of elements differs.
    """
    tensor = as_tensor(x)
    given = shape_[0] if len(shape_) == 1 and isinstance(shape_[0], (tuple, list)) else shape_
    extents = [operator.index(extent) for extent in given]
    if extents.count(-1) > 1:
        raise ShapeError(f"{user_line()}: reshape: only one extent may be -1, got {tuple(extents)}")
    if -1 in extents:
        known = size_of([extent for extent in extents if extent != -1])
        if not known or tensor.size % known:
            raise ShapeError(f"{user_line()}: reshape: {tensor.shape} does not fit {tuple(extents)}")
        extents[extents.index(-1)] = tensor.size // known
    if tuple(extents) == tensor.shape:
        return tensor
    return emit(shape.ReshapeOp, [tensor], shape=ints(extents))


def transpose(x: Any, *axes: Any) -> Tensor:
    """Permutes the axes; reverses them when none are given.

    Raises:
        ShapeError: The axes are no permutation.
    """
    tensor = as_tensor(x)
    given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    if not given or given == (None,):
        order = list(range(tensor.ndim))[::-1]
    else:
        order = [normalized_axis(axis, tensor.ndim, "transpose") for axis in given]
    if order == list(range(tensor.ndim)):
        return tensor
    return emit(shape.TransposeOp, [tensor], permutation=ints(order))


def swapaxes(x: Any, first: int, second: int) -> Tensor:
    """Exchanges two axes."""
    tensor = as_tensor(x)
    order = list(range(tensor.ndim))
    i, j = (normalized_axis(axis, tensor.ndim, "swapaxes") for axis in (first, second))
    order[i], order[j] = order[j], order[i]
    return transpose(tensor, order)


def expand_dims(x: Any, axis: Any) -> Tensor:
    """Adds axes of extent 1 at the places in `axis` of the result."""
    tensor = as_tensor(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    places = normalized_axes(axis, tensor.ndim + count, "expand_dims")
    rest = iter(tensor.shape)
    return reshape(tensor, [1 if i in places else next(rest) for i in range(tensor.ndim + count)])


def squeeze(x: Any, axis: Any = None) -> Tensor:
    """Drops axes of extent 1: those in `axis`, or all.

    Raises:
        ShapeError: An axis in `axis` has another extent.
    """
    tensor = as_tensor(x)
    if axis is None:
        places = [i for i, extent in enumerate(tensor.shape) if extent == 1]
    else:
        places = normalized_axes(axis, tensor.ndim, "squeeze")
    for place in places:
        if tensor.shape[place] != 1:
            raise ShapeError(f"{user_line()}: squeeze: axis {place} of {tensor.shape} is not of extent 1")
    return reshape(tensor, [extent for i, extent in enumerate(tensor.shape) if i not in places])


def flip(x: Any, axis: Any = None) -> Tensor:
    """Reverses the order of the elements along `axis` (all axes by default)."""
    tensor = as_tensor(x)
    return emit(shape.ReverseOp, [tensor], axes=ints(normalized_axes(axis, tensor.ndim, "flip")))


@dataclass(frozen=True)
class Selection:
    """What a key selects of a tensor: a slice of every axis, some of them reversed, in a new shape.

    Attributes:
        start: The first position on each axis.
        stop: The end on each axis.
        step: The distance between positions, at least 1.
        reverse: The axes that run backwards.
        shape: The extents with axes of integers dropped and those of `None` added.
        gather: The axis of that shape that is indexed by a tensor, and the tensor.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]
    reverse: tuple[int, ...]
    shape: tuple[int, ...]
    gather: tuple[int, Tensor] | None

    @property
    def extents(self) -> list[int]:
        """The extent of each axis of the slice."""
        return [len(range(a, b, c)) for a, b, c in zip(self.start, self.stop, self.step, strict=True)]


def selection(tensor: Tensor, key: Any) -> Selection:
    """What `tensor[key]` selects.

    Raises:
        ShapeError: Too many indices, or an integer out of range.
        DTypeError: A key of another kind.
    """
    keys = _expanded(key if isinstance(key, tuple) else (key,), tensor.ndim)
    start, stop, step, reverse = [], [], [], []
    shape_after: list[int] = []
    gather: tuple[int, Any] | None = None
    axis = 0
    for entry in keys:
        if entry is None:
            shape_after.append(1)
            continue
        extent = tensor.shape[axis]
        if isinstance(entry, slice):
            first, last, stride, backwards = _bounds(entry, extent)
            shape_after.append(len(range(first, last, stride)))
            if backwards:
                reverse.append(axis)
        elif _is_integer(entry):
            position = operator.index(entry)
            if not -extent <= position < extent:
                raise ShapeError(f"{user_line()}: index {position} is out of range for axis {axis} of {tensor.shape}")
            first, stride = position % extent, 1
            last = first + 1
        else:
            if gather is not None:
                raise DTypeError(f"{user_line()}: only one axis can be indexed by a tensor")
            gather = (len(shape_after), _places(entry, axis, tensor.shape))
            first, last, stride = 0, extent, 1
            shape_after.append(extent)
        start.append(first)
        stop.append(last)
        step.append(stride)
        axis += 1
    return Selection(tuple(start), tuple(stop), tuple(step), tuple(reverse), tuple(shape_after), gather)


def _places(entry: Any, axis: int, extents: tuple[int, ...]) -> Tensor:
    """What an axis is indexed by; of a mask whose values are known, the places where it holds.

    Raises:
        DTypeError: A mask whose values are known only when the program runs.
        ShapeError: A mask of another extent.
    """
    found = as_tensor(entry)
    if found.dtype != NAMES["bool"]:
        return found
    if isinstance(found, Traced):
        raise DTypeError(
            f"{user_line()}: how many elements a mask selects is known only when the program runs; choose values by "
            "tg.where, or weigh them by the mask"
        )
    if found.shape != extents[axis : axis + 1]:
        raise ShapeError(
            f"{user_line()}: a mask of shape {found.shape} for axis {axis} of {extents}; a mask covers one axis"
        )
    return Array(np.flatnonzero(np.asarray(found)).astype(np.int32))


def index(x: Any, key: Any) -> Tensor:
    """`x[key]`: integers, slices with steps, `None`, `...`, and one tensor of integers, or one known mask of an axis.

    Raises:
        ShapeError: Too many indices, or an integer out of range.
        DTypeError: A key of another kind.
    """
    result = tensor = as_tensor(x)
    found = selection(tensor, key)
    if found.extents != list(tensor.shape):
        bounds = {"start": ints(found.start), "stop": ints(found.stop), "step": ints(found.step)}
        result = emit(shape.SliceOp, [result], **bounds)
    if found.reverse:
        result = emit(shape.ReverseOp, [result], axes=ints(found.reverse))
    result = reshape(result, found.shape)
    return result if found.gather is None else take(result, found.gather[1], found.gather[0])


def _is_integer(entry: Any) -> bool:
    return isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool_))


def _expanded(keys: tuple[Any, ...], rank: int) -> list[Any]:
    """The keys with `...` spelled out and the axes that are left kept whole."""
    for key in keys:
        array_like = isinstance(key, (Tensor, np.ndarray, list))
        if not (key is None or key is Ellipsis or isinstance(key, slice) or _is_integer(key) or array_like):
            raise DTypeError(f"{user_line()}: cannot index by {key!r}; use integers, slices, None, ... or a tensor")
    used = sum(1 for key in keys if key is not None and key is not Ellipsis)
    dots = [i for i, key in enumerate(keys) if key is Ellipsis]
    if used > rank or len(dots) > 1:
        raise ShapeError(f"{user_line()}: {used} indices for a tensor of {rank} axes")
    place = dots[0] if dots else len(keys)
    rest = [slice(None)] * (rank - used)
    return [*keys[:place], *rest, *keys[place + 1 :]]


def _bounds(entry: slice, extent: int) -> tuple[int, int, int, bool]:
    """A slice as start, stop and positive step, and whether its elements are to be reversed."""
    for bound in (entry.start, entry.stop, entry.step):
        if bound is not None and not _is_integer(bound):
            raise DTypeError(f"{user_line()}: slice bounds are integers, not {bound!r}")
    if entry.step == 0:
        raise ShapeError(f"{user_line()}: a slice's step is not 0")
    positions = range(extent)[entry]
    if not positions:
        return 0, 0, 1, False
    if positions.step > 0:
        return positions[0], positions[-1] + 1, positions.step, False
    return positions[-1], positions[0] + 1, -positions.step, True


def _wrapped(indices: Tensor, extent: int) -> Tensor:
    """Negative indices count from the end, as in NumPy."""
    if indices.dtype.kind == "u":
        return indices
    return where(less(indices, 0), add(indices, extent), indices)


def _as_indices(indices: Any, what: str) -> Tensor:
    tensor = as_tensor(indices)
    if tensor.dtype not in (NAMES["i32"], NAMES["u32"]):
        raise DTypeError(f"{user_line()}: {what}: indices are i32 or u32, not {SHORT[tensor.dtype]}")
    return tensor


def take(x: Any, indices: Any, axis: int = 0) -> Tensor:
    """Slices of `x` along `axis` at `indices`, whose axes take the place of `axis`.

    Negative indices count from the end. An index out of range reads NaN (0 where the elements are no floats) and has no
    derivative. Only the slices named are read.

    Raises:
        DTypeError: The indices are no integers.
    """
    tensor, where_ = as_tensor(x), _as_indices(indices, "take")
    place = normalized_axis(axis, tensor.ndim, "take")
    return emit(index_ops.TakeOp, [tensor, _wrapped(where_, tensor.shape[place])], axis=integer(place))


def take_along_axis(x: Any, indices: Any, axis: int) -> Tensor:
    """Elements of `x` along `axis`, at indices that differ by position; other axes broadcast.

    Negative indices count from the end; an index out of range reads as in `take`.

    Raises:
        DTypeError: The indices are no integers.
        ShapeError: The shapes don't broadcast outside `axis`.
    """
    tensor, where_ = as_tensor(x), _as_indices(indices, "take_along_axis")
    place = normalized_axis(axis, tensor.ndim, "take_along_axis")
    if where_.ndim != tensor.ndim:
        raise ShapeError(
            f"{user_line()}: take_along_axis: {tensor.shape} and indices {where_.shape} differ in their number of axes"
        )
    other = [1 if i == place else extent for i, extent in enumerate(tensor.shape)]
    index_other = [1 if i == place else extent for i, extent in enumerate(where_.shape)]
    try:
        joint = list(np.broadcast_shapes(tuple(other), tuple(index_other)))
    except ValueError:
        raise ShapeError(
            f"{user_line()}: take_along_axis: {tensor.shape} and indices {where_.shape} do not broadcast"
        ) from None
    extents = [tensor.shape[place] if i == place else extent for i, extent in enumerate(joint)]
    index_extents = [where_.shape[place] if i == place else extent for i, extent in enumerate(joint)]
    operands = [
        broadcast_to(tensor, extents),
        broadcast_to(_wrapped(where_, tensor.shape[place]), index_extents),
    ]
    return emit(index_ops.TakeAlongAxisOp, operands, axis=integer(place))


def positions(extents: Sequence[int], axis: int, dtype: DType) -> Tensor:
    """Each element's own position along `axis`."""
    return broadcast_to(
        reshape(arange(extents[axis], dtype=dtype), [-1 if i == axis else 1 for i in range(len(extents))]), extents
    )
