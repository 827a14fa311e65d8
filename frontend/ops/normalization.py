"""Normalization as functions: by statistics of the last axes, of groups of channels, or of neighboring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ml_dtypes import finfo

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import add, divide, maximum, multiply, power, square, subtract
from tensorgrad.ops.elementwise.functions import rsqrt
from tensorgrad.ops.joining import pad
from tensorgrad.ops.pooling import avg_pool
from tensorgrad.ops.promotion import as_float, in_full
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import mean, norm
from tensorgrad.ops.shape import reshape
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


@in_full
def _standardized(x: Tensor, axes: Sequence[int], eps: float) -> Tensor:
    centred = subtract(x, mean(x, axes, keepdims=True))
    return multiply(centred, rsqrt(add(mean(square(centred), axes, keepdims=True), eps)))


def _last_axes(what: str, x: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    extents = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not extents or x.shape[-len(extents) :] != extents:
        raise ShapeError(f"{what}: expected a shape [{', '.join(('...', *map(str, extents)))}], got {x.shape}")
    return tuple(range(-len(extents), 0))


def _affine(x: Tensor, weight: Any, bias: Any) -> Tensor:
    x = x if weight is None else multiply(x, weight)
    return x if bias is None else add(x, bias)


@recorded_whole
def layer_norm(
    x: TensorLike,
    normalized_shape: int | tuple[int, ...],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Returns `(x - mean) / sqrt(variance + eps) * weight + bias` over the last axes; the variance is the biased one.

    J. L. Ba, J. R. Kiros and G. E. Hinton, Layer Normalization, 2016.

    Args:
        x: `[..., *normalized_shape]`, floats.
        normalized_shape: The extents of the last axes: a number for one axis, or several.
        weight: `normalized_shape`, or None for 1.
        bias: `normalized_shape`, or None for 0.
        eps: Added to the variance.

    Raises:
        ShapeError: The last axes of `x` have other extents.

    Example:
        >>> tg.layer_norm([[1.0, 3.0], [2.0, 8.0]], 2)
        Array([[-0.999995 ,  0.999995 ],
         [-0.9999994,  0.9999994]], dtype=f32)
    """
    tensor = as_float(x)
    return _affine(_standardized(tensor, _last_axes("layer_norm", tensor, normalized_shape), eps), weight, bias)


@recorded_whole
def rms_norm(
    x: TensorLike, normalized_shape: int | tuple[int, ...], weight: TensorLike | None = None, eps: float | None = None
) -> Tensor:
    """Returns `x / sqrt(mean(x**2) + eps) * weight` over the last axes.

    B. Zhang and R. Sennrich, Root Mean Square Layer Normalization, 2019.

    Args:
        x: `[..., *normalized_shape]`, floats.
        normalized_shape: The extents of the last axes: a number for one axis, or several.
        weight: `normalized_shape`, or None for 1.
        eps: Added to the mean; None for the spacing of the dtype's numbers at 1.

    Raises:
        ShapeError: The last axes of `x` have other extents.

    Example:
        >>> tg.rms_norm([[3.0, 3.0], [2.0, -2.0]], 2)
        Array([[ 1.,  1.],
         [ 1., -1.]], dtype=f32)
    """
    tensor = as_float(x)
    axes = _last_axes("rms_norm", tensor, normalized_shape)
    added = float(finfo(tensor.dtype).eps) if eps is None else eps
    return _affine(_rescaled(tensor, axes, added), weight, None)


@in_full
def _rescaled(x: Tensor, axes: Sequence[int], eps: float) -> Tensor:
    return multiply(x, rsqrt(add(mean(square(x), axes, keepdims=True), eps)))


@recorded_whole
def group_norm(
    x: TensorLike, num_groups: int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: float = 1e-5
) -> Tensor:
    """Standardizes each group of neighboring channels of each example, then scales and shifts each channel.

    Y. Wu and K. He, Group Normalization, 2018. With as many groups as channels it is instance normalization.

    Args:
        x: `[batch, channels, ...]`, floats.
        num_groups: The number of groups; must divide the channels.
        weight: `[channels]`, or None for 1.
        bias: `[channels]`, or None for 0.
        eps: Added to the variance.

    Raises:
        ShapeError: There are fewer than two axes, or the groups don't divide the channels.

    Example:
        >>> tg.group_norm(tg.ones((2, 6, 4, 4)), 3).shape
        (2, 6, 4, 4)
    """
    tensor = as_float(x)
    num_groups = checked_extent(num_groups, "group_norm: num_groups", 1)
    if tensor.ndim < 2 or tensor.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {num_groups} groups do not divide the channels of shape {tensor.shape}")
    batch, channels, *rest = tensor.shape
    groups = reshape(tensor, [batch, num_groups, channels // num_groups, *rest])
    result = reshape(_standardized(groups, tuple(range(2, groups.ndim)), eps), tensor.shape)
    each = [channels, *[1] * len(rest)]
    return _affine(result, *(part if part is None else reshape(part, each) for part in (weight, bias)))


@recorded_whole
def normalize(x: TensorLike, p: float = 2.0, axis: int = -1, eps: float = 1e-12) -> Tensor:
    """Returns `x` divided by its norm along `axis`, or by `eps` if that is larger.

    Args:
        x: Vectors; integers and booleans are converted to f32.
        p: The order of the norm.
        axis: The axis of the vectors.
        eps: The minimum divisor.

    Raises:
        ShapeError: There is no such axis.
        OptionError: `eps` is negative.

    Example:
        >>> tg.normalize([[3.0, 4.0]])
        Array([[0.6, 0.8]], dtype=f32)
    """
    if not eps >= 0:
        raise OptionError(f"normalize: eps must not be negative, got {eps!r}")
    tensor = as_float(x)
    return divide(tensor, maximum(norm(tensor, p, axis, keepdims=True), eps))


@recorded_whole
def local_response_norm(x: TensorLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides each element by `(k + alpha * mean(square of size neighboring channels)) ** beta`.

    A. Krizhevsky, I. Sutskever and G. E. Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.
    Channels beyond the ends count as 0.

    Args:
        x: `[batch, channels, ...]`, floats.
        size: The number of channels; if it is even, there is one more below than above.
        alpha: See the formula.
        beta: See the formula.
        k: See the formula.

    Raises:
        ShapeError: There are fewer than two axes, or `size` is not a positive integer.

    Example:
        >>> tg.local_response_norm(tg.ones((1, 4, 2, 2)), 2).shape
        (1, 4, 2, 2)
    """
    tensor = as_float(x)
    size = checked_extent(size, "local_response_norm: size", 1)
    if tensor.ndim < 2:
        raise ShapeError(f"local_response_norm: expected a shape [batch, channels, ...], got {tensor.shape}")
    batch, channels, *rest = tensor.shape
    squares = reshape(square(tensor), [batch, 1, channels, math.prod(rest)])
    padded = pad(squares, [(0, 0), (0, 0), (size // 2, (size - 1) // 2), (0, 0)])
    means = reshape(avg_pool(padded, (size, 1), stride=1), tensor.shape)
    return divide(tensor, power(add(multiply(means, alpha), k), beta))
