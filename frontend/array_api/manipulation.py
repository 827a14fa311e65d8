"""Manipulation and indexing functions of the Array API standard."""

from __future__ import annotations

from typing import Any

from tensorgrad.errors import OptionError
from tensorgrad.ops import joining, promotion
from tensorgrad.ops import shape as shaping
from tensorgrad.tracing.tensor import Tensor


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Returns arrays in the shape that they broadcast to.

    Raises:
        ShapeError: They don't broadcast.
    """
    tensors = [promotion.as_tensor(x) for x in arrays]
    extents = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(promotion.broadcast_to(x, extents) for x in tensors)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape that shapes broadcast to.

    Raises:
        ShapeError: They don't broadcast.
    """
    return promotion.broadcast_shapes(*shapes, what="broadcast_shapes")


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Tensor:
    """Returns `x` repeated along new leading axes and along axes of extent 1, to a shape.

    Raises:
        ShapeError: It does not broadcast to it.
    """
    return promotion.broadcast_to(x, shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Returns arrays concatenated along an axis; `None` flattens them first."""
    return joining.concat(arrays, axis)


def expand_dims(x: Any, /, axis: Any = 0) -> Tensor:
    """Returns `x` with axes of extent 1 at the positions `axis` of the result."""
    return shaping.expand_dims(x, axis)


def flip(x: Any, /, *, axis: Any = None) -> Tensor:
    """Returns `x` with its elements in reverse order along axes, all by default."""
    return shaping.flip(x, axis)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """Returns `x` with the axes in `source` moved to the positions in `destination`; the others keep their order."""
    return joining.moveaxis(x, source, destination)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Tensor:
    """Returns `x` with its axes permuted."""
    return joining.permute(x, tuple(axes))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Returns elements repeated along an axis, or in the flattened array; `repeats` is one number, or one per element.

    Raises:
        TraceError: The numbers are traced, so the result's shape is unknown.
    """
    return joining.repeat(x, repeats, axis)


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Returns the elements of `x` in row-major order, in another shape; one extent may be -1.

    Without `copy`, in-place changes of either array affect the other. Host arrays, which are immutable, are never
    copied.
    """
    result = shaping.reshape(x, shape if isinstance(shape, int) else tuple(shape))
    return result.clone() if copy else result


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Returns `x` with its elements shifted along axes, wrapping around."""
    return joining.roll(x, shift, axis)


def squeeze(x: Any, /, axis: Any) -> Tensor:
    """Returns `x` without the axes in `axis`, which are of extent 1.

    Raises:
        ShapeError: One has another extent.
    """
    return shaping.squeeze(x, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Returns arrays of one shape along a new axis."""
    return joining.stack(arrays, axis)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Tensor:
    """Returns the whole array repeated along each axis."""
    return joining.tile(x, repetitions)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the slices along an axis, as arrays without it."""
    return tuple(joining.moveaxis(x, axis, 0))


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Returns slices of `x` along an axis, which is optional for vectors.

    Raises:
        OptionError: `axis` is missing, and `x` has several axes.
    """
    tensor = promotion.as_tensor(x)
    if axis is None and tensor.ndim != 1:
        raise OptionError(f"take: axis= is needed for an array of {tensor.ndim} axes")
    return shaping.take(tensor, indices, 0 if axis is None else axis)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """Returns elements of `x` along an axis, at indices that differ by position; other axes broadcast."""
    return shaping.take_along_axis(x, indices, axis)
