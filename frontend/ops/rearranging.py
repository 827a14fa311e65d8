"""Functions that merge, split and reorder axes, stack tensors, and build diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorgrad.errors import ShapeError
from tensorgrad.ops.creation import arange
from tensorgrad.ops.elementwise.arithmetic import add, equal, where
from tensorgrad.ops.joining import concat, diagonal, pad, split
from tensorgrad.ops.promotion import as_tensor, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import expand_dims, flip, normalized_axis, reshape, swapaxes, transpose
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


def flatten(x: TensorLike, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Returns `x` with the axes from `start_axis` to `end_axis`, both included, merged into one.

    A tensor without axes becomes one of shape `(1,)`.

    Raises:
        ShapeError: There are no such axes, or they are in the wrong order.

    Example:
        >>> tg.flatten(tg.ones((2, 3, 4)), 1).shape
        (2, 12)
    """
    tensor = as_tensor(x)
    if not tensor.ndim:
        return reshape(tensor, (1,))
    first, last = (normalized_axis(axis, tensor.ndim, "flatten") for axis in (start_axis, end_axis))
    if first > last:
        raise ShapeError(f"flatten: axis {start_axis} comes after {end_axis}")
    merged = math.prod(tensor.shape[first : last + 1])
    return reshape(tensor, [*tensor.shape[:first], merged, *tensor.shape[last + 1 :]])


def unflatten(x: TensorLike, axis: int, extents: Sequence[int]) -> Tensor:
    """Returns `x` with one axis split into several, the inverse of `flatten`.

    Args:
        x: A tensor.
        axis: The axis to split.
        extents: The extents of the new axes; one of them may be -1, and is inferred.

    Raises:
        ShapeError: There is no such axis, or the product of the extents is not its own.

    Example:
        >>> tg.unflatten(tg.ones((2, 12)), 1, (3, -1)).shape
        (2, 3, 4)
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "unflatten")
    known = math.prod(extent for extent in extents if extent != -1)
    count, whole = list(extents).count(-1), tensor.shape[place]
    fits = known == whole if not count else count == 1 and known > 0 and whole % known == 0
    if not fits or any(extent < -1 for extent in extents):
        raise ShapeError(f"unflatten: axis {place} of {tensor.shape} does not divide into {tuple(extents)}")
    parts = [whole // known if extent == -1 else extent for extent in extents]
    return reshape(tensor, [*tensor.shape[:place], *parts, *tensor.shape[place + 1 :]])


def unbind(x: TensorLike, axis: int = 0) -> list[Tensor]:
    """Returns the slices of `x` along `axis`, each without that axis.

    Raises:
        ShapeError: There is no such axis.

    Example:
        >>> [row.tolist() for row in tg.unbind([[1, 2], [3, 4]])]
        [[1, 2], [3, 4]]
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "unbind")
    key = (slice(None),) * place
    return [tensor[(*key, i)] for i in range(tensor.shape[place])]


def hstack(tensors: Sequence[Any]) -> Tensor:
    """Concatenates tensors along their second axis, vectors along their only one.

    Raises:
        ShapeError: There are none, or their shapes differ on another axis.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.hstack([tg.ones((2, 1)), tg.zeros((2, 2))])
        Array([[1., 0., 0.],
         [1., 0., 0.]], dtype=f32)
    """
    parts = [as_tensor(part) for part in tensors]
    parts = [part if part.ndim else reshape(part, (1,)) for part in parts]
    return concat(parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Tensor:
    """Concatenates tensors along their first axis; vectors become rows.

    Raises:
        ShapeError: There are none, or their shapes differ on another axis.
        DTypeError: They have no common dtype.

    Example:
        >>> tg.vstack([[1, 2], [3, 4]])
        Array([[1, 2],
         [3, 4]], dtype=i32)
    """
    parts = [as_tensor(part) for part in tensors]
    return concat([part if part.ndim > 1 else reshape(part, (1, -1)) for part in parts], 0)


def array_split(x: TensorLike, sections: int, axis: int = 0) -> list[Tensor]:
    """Splits `x` into `sections` parts along `axis`, whose extents differ by at most one, the longer ones first.

    Raises:
        ShapeError: There is no such axis, or `sections` is not a positive integer.

    Example:
        >>> [part.tolist() for part in tg.array_split(tg.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "array_split")
    sections = checked_extent(sections, "array_split: sections", 1)
    least, longer = divmod(tensor.shape[place], sections)
    ends = [(i + 1) * least + min(i + 1, longer) for i in range(sections - 1)]
    return split(tensor, ends, place)


def rot90(x: TensorLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Returns `x` rotated `k` times by 90 degrees in the plane of two axes, from the first towards the second.

    Raises:
        ShapeError: There are no such axes, or they are the same.

    Example:
        >>> tg.rot90([[1, 2], [3, 4]])
        Array([[2, 4],
         [1, 3]], dtype=i32)
    """
    tensor = as_tensor(x)
    first, second = (normalized_axis(axis, tensor.ndim, "rot90") for axis in axes)
    if first == second:
        raise ShapeError(f"rot90: the axes {axes} are the same")
    match k % 4:
        case 0:
            return tensor.clone()
        case 1:
            return swapaxes(flip(tensor, second), first, second)
        case 2:
            return flip(tensor, (first, second))
        case _:
            return flip(swapaxes(tensor, first, second), second)


def _divided(what: str, x: Any, factor: int, power: int, axes: Sequence[int]) -> Tensor:
    """Returns `[..., channels, height, width]`, after checking that a power of the factor divides `axes`."""
    tensor = as_tensor(x)
    factor = checked_extent(factor, f"{what}: the factor", 1)
    if tensor.ndim < 3 or any(tensor.shape[axis] % factor**power for axis in axes):
        names = ["channels", "height", "width"]
        for axis in axes:
            names[axis] = f"a multiple of {factor**power}"
        raise ShapeError(f"{what}: expected a shape [..., {', '.join(names)}], got {tensor.shape}")
    return tensor


@recorded_whole
def pixel_shuffle(x: TensorLike, factor: int) -> Tensor:
    """Returns `[..., c * factor**2, h, w]` as `[..., c, h * factor, w * factor]`: channels become pixels.

    W. Shi et al., Real-Time Single Image and Video Super-Resolution, 2016.

    Raises:
        ShapeError: There are fewer than three axes, or `factor**2` does not divide the channels.

    Example:
        >>> tg.pixel_shuffle(tg.ones((1, 8, 3, 3)), 2).shape
        (1, 2, 6, 6)
    """
    tensor = _divided("pixel_shuffle", x, factor, 2, [-3])
    *lead, channels, height, width = tensor.shape
    remaining = channels // factor**2
    apart = reshape(tensor, [*lead, remaining, factor, factor, height, width])
    n = len(lead)
    turned = transpose(apart, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return reshape(turned, [*lead, remaining, height * factor, width * factor])


@recorded_whole
def pixel_unshuffle(x: TensorLike, factor: int) -> Tensor:
    """Returns `[..., c, h * factor, w * factor]` as `[..., c * factor**2, h, w]`, the inverse of `pixel_shuffle`.

    Raises:
        ShapeError: There are fewer than three axes, or `factor` does not divide the last two.

    Example:
        >>> tg.pixel_unshuffle(tg.ones((1, 2, 6, 6)), 2).shape
        (1, 8, 3, 3)
    """
    tensor = _divided("pixel_unshuffle", x, factor, 1, [-2, -1])
    *lead, channels, height, width = tensor.shape
    apart = reshape(tensor, [*lead, channels, height // factor, factor, width // factor, factor])
    n = len(lead)
    turned = transpose(apart, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return reshape(turned, [*lead, channels * factor * factor, height // factor, width // factor])


@recorded_whole
def channel_shuffle(x: TensorLike, groups: int) -> Tensor:
    """Returns `[batch, channels, ...]` with the channels of `groups` groups interleaved.

    X. Zhang et al., ShuffleNet, 2018.

    Raises:
        ShapeError: There are fewer than two axes, or `groups` does not divide the channels.

    Example:
        >>> tg.channel_shuffle(tg.arange(4).reshape(1, 4, 1), 2)[0, :, 0]
        Array([0, 2, 1, 3], dtype=i32)
    """
    tensor = as_tensor(x)
    groups = checked_extent(groups, "channel_shuffle: groups", 1)
    if tensor.ndim < 2 or tensor.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups do not divide the channels of shape {tensor.shape}")
    batch, channels, *rest = tensor.shape
    apart = reshape(tensor, [batch, groups, channels // groups, *rest])
    return reshape(swapaxes(apart, 1, 2), tensor.shape)


def diag(x: TensorLike, k: int = 0) -> Tensor:
    """Returns the `k`-th diagonal of a matrix, or the matrix that has a vector there and 0 elsewhere.

    Raises:
        ShapeError: `x` is neither a vector nor a matrix, or `k` is not an integer.

    Example:
        >>> tg.diag([1.0, 2.0])
        Array([[1., 0.],
         [0., 2.]], dtype=f32)
    """
    tensor = as_tensor(x)
    if tensor.ndim == 2:
        return diagonal(tensor, k)
    if tensor.ndim != 1:
        raise ShapeError(f"diag: takes a vector or a matrix, not a tensor of shape {tensor.shape}")
    return diag_embed(tensor, k)


def diag_embed(x: TensorLike, k: int = 0) -> Tensor:
    """Returns matrices that have the last axis of `x` on their `k`-th diagonal and 0 elsewhere.

    Args:
        x: `[..., n]`.
        k: Which diagonal: above the main one if positive, below it if negative.

    Returns:
        `[..., n + |k|, n + |k|]`.

    Raises:
        ShapeError: `x` has no axes, or `k` is not an integer.

    Example:
        >>> tg.diag_embed(tg.ones((5, 3))).shape
        (5, 3, 3)
    """
    tensor = as_tensor(x)
    k = checked_extent(k, "diag_embed: k")
    if not tensor.ndim:
        raise ShapeError("diag_embed: a tensor without axes has no diagonal")
    none = [(0, 0)] * (tensor.ndim - 1)
    columns = pad(tensor, [*none, (max(k, 0), max(-k, 0))])
    extent = columns.shape[-1]
    is_diagonal = equal(arange(extent), add(expand_dims(arange(extent), 1), k))
    return where(is_diagonal, expand_dims(columns, -2), cast(0, tensor.dtype))
