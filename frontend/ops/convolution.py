"""Convolutions of tensors `[batch, channels, spatial...]`, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.base import integer, ints
from tensorgrad.dialects.tg.convolution import spread
from tensorgrad.errors import ShapeError
from tensorgrad.ops.elementwise.arithmetic import add
from tensorgrad.ops.promotion import as_tensor, common_numbers
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.shape import flip, reshape, transpose
from tensorgrad.ops.windows import Padding, Sizes, listed, paddings, same_padding
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def _conv_operands(what: str, x: Any, w: Any, spatial: int | None) -> tuple[Tensor, Tensor, int]:
    images, weights = common_numbers(what, x, w)
    count = images.ndim - 2
    expected = "" if spatial is None else f" ({spatial} of them)"
    if count < 0 or weights.ndim != images.ndim or spatial not in (None, count):
        raise ShapeError(
            f"{what}: [batch, channels, spatial...] and weights with as many spatial ones{expected}, "
            f"got {images.shape} and {weights.shape}"
        )
    return images, weights, count


def _check_groups(what: str, groups: Any, channels: int, inputs: int, outputs: int) -> int:
    """Returns the number of groups, after checking that it divides the channels to match the weights."""
    number = checked_extent(groups, f"{what}: groups")
    if number < 1 or channels != number * inputs:
        expected = f"{number} groups of {inputs}" if number > 1 else f"the {inputs} that the weights take"
        raise ShapeError(f"{what}: {channels} channels are not {expected}")
    if outputs % number:
        raise ShapeError(f"{what}: {outputs} outputs are not divisible by {number} groups")
    return number


def _with_bias(what: str, result: Tensor, bias: Any) -> Tensor:
    if bias is None:
        return result
    term = as_tensor(bias)
    if term.shape != (result.shape[1],):
        raise ShapeError(f"{what}: the bias is {term.shape}, expected ({result.shape[1]},)")
    return add(result, reshape(term, [-1, *[1] * (result.ndim - 2)]))


def _conv(
    what: str, spatial: int | None, x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Tensor:
    images, weights, count = _conv_operands(what, x, w, spatial)
    steps, holes = listed(stride, count, f"{what}: strides"), listed(dilation, count, f"{what}: dilations")
    number = _check_groups(what, groups, images.shape[1], weights.shape[1], weights.shape[0])
    sizes = [spread(size, hole) for size, hole in zip(weights.shape[2:], holes, strict=True)]
    low, high = paddings(padding, same_padding(images.shape[2:], sizes, steps), what)
    for axis, (extent, size, a, b) in enumerate(zip(images.shape[2:], sizes, low, high, strict=True)):
        if extent + a + b < size:
            raise ShapeError(
                f"{what}: a window of {size} does not fit into spatial axis {axis} of extent {extent} "
                f"padded by {a} and {b}"
            )
    ones = ints([1] * count)
    result = emit(
        convolution.ConvOp,
        [images, weights],
        stride=ints(steps),
        low=ints(low),
        high=ints(high),
        lhs_dilation=ones,
        rhs_dilation=ints(holes),
        groups=integer(number),
    )
    return _with_bias(what, result, bias)


@recorded_whole
def conv(
    x: TensorLike,
    w: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Returns the convolution of images with weights, as in neural networks: the window is not flipped.

    Args:
        x: `[batch, channels, spatial...]`.
        w: `[outputs, channels / groups, window...]`, with the same number of spatial axes.
        bias: `[outputs]`, added to each output, or None.
        stride: The distance between neighboring windows, in elements; one number, or one for each spatial axis.
        padding: Zeros around the images: a number, one for each axis, a pair (before, after) for each, `"valid"` for
            none, or `"same"` for `ceil(extent / stride)` positions (an odd one is added after).
        dilation: The distance between neighboring elements of a window.
        groups: The number of independent convolutions; with as many groups as channels it is depthwise.

    Returns:
        `[batch, outputs, spatial'...]`.

    Raises:
        ShapeError: The shapes don't match, or a window does not fit into the padded images.
        DTypeError: The operands have no common dtype, or it is bool.

    Example:
        >>> tg.conv(tg.ones((2, 3, 8, 8)), tg.ones((16, 3, 3, 3)), padding="same").shape
        (2, 16, 8, 8)
    """
    return _conv("conv", None, x, w, bias, stride, padding, dilation, groups)


def conv1d(
    x: TensorLike,
    w: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` along one axis: `x` is `[batch, channels, length]`.

    Example:
        >>> tg.conv1d([[[1.0, 2.0, 3.0, 4.0]]], [[[1.0, 1.0]]])
        Array([[[3., 5., 7.]]], dtype=f32)
    """
    return _conv("conv1d", 1, x, w, bias, stride, padding, dilation, groups)


def conv2d(
    x: TensorLike,
    w: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` on images: `x` is `[batch, channels, height, width]`.

    Example:
        >>> tg.conv2d(tg.ones((2, 3, 8, 8)), tg.ones((16, 3, 3, 3)), stride=2, padding=1).shape
        (2, 16, 4, 4)
    """
    return _conv("conv2d", 2, x, w, bias, stride, padding, dilation, groups)


def conv3d(
    x: TensorLike,
    w: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` on volumes: `x` is `[batch, channels, depth, height, width]`.

    Example:
        >>> tg.conv3d(tg.ones((2, 3, 4, 6, 6)), tg.ones((5, 3, 2, 3, 3))).shape
        (2, 5, 3, 4, 4)
    """
    return _conv("conv3d", 3, x, w, bias, stride, padding, dilation, groups)


@recorded_whole
def conv_transpose(
    x: TensorLike,
    w: TensorLike,
    bias: TensorLike | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Returns the transposed convolution: the derivative of `conv` with these settings with respect to its input.

    Each element of `x` adds its multiple of the window to the result, at a distance of `stride`.

    Args:
        x: `[batch, channels, spatial...]`.
        w: `[channels, outputs / groups, window...]`, as in PyTorch.
        bias: `[outputs]`, or None.
        stride: The distance between neighboring windows, in elements in the result.
        padding: Elements cropped from the borders of the result: as in `conv`; `"same"` leaves `extent * stride`.
        output_padding: Elements added at the end of the result, which few or no windows reach.
        dilation: The distance between neighboring elements of a window.
        groups: The number of independent convolutions.

    Returns:
        `[batch, outputs, spatial'...]` of extents
        `(extent - 1) * stride + dilation * (window - 1) + 1 + output_padding - padding before - padding after`.

    Raises:
        ShapeError: The shapes don't match, or the result would be empty.
        DTypeError: The operands have no common dtype, or it is bool.

    Example:
        >>> tg.conv_transpose(tg.ones((2, 16, 4, 4)), tg.ones((16, 3, 2, 2)), stride=2).shape
        (2, 3, 8, 8)
    """
    what = "conv_transpose"
    images, weights, count = _conv_operands(what, x, w, None)
    steps, holes = listed(stride, count, f"{what}: strides"), listed(dilation, count, f"{what}: dilations")
    more = listed(output_padding, count, f"{what}: output paddings", 0)
    channels, inputs, *window = weights.shape
    number = checked_extent(groups, f"{what}: groups")
    if channels != images.shape[1] or number < 1 or channels % number:
        raise ShapeError(
            f"{what}: {number} groups do not split {images.shape[1]} channels evenly between weights for {channels}"
        )
    sizes = [spread(size, hole) for size, hole in zip(window, holes, strict=True)]
    low, high = _transposed_padding(padding, [size - s for size, s in zip(sizes, steps, strict=True)], what)
    for axis, (extent, size, s) in enumerate(zip(images.shape[2:], sizes, steps, strict=True)):
        if spread(extent, s) + size - 1 - low[axis] - high[axis] + more[axis] < 0:
            raise ShapeError(f"{what}: the padding leaves nothing of spatial axis {axis}")
    split = reshape(weights, [number, channels // number, inputs, *window])
    swapped = transpose(split, [0, 2, 1, *range(3, 3 + count)])
    turned = reshape(swapped, [number * inputs, channels // number, *window])
    result = emit(
        convolution.ConvOp,
        [images, flip(turned, list(range(2, 2 + count)))],
        stride=ints([1] * count),
        low=ints([size - 1 - a for size, a in zip(sizes, low, strict=True)]),
        high=ints([size - 1 - a + b for size, a, b in zip(sizes, high, more, strict=True)]),
        lhs_dilation=ints(steps),
        rhs_dilation=ints(holes),
        groups=integer(number),
    )
    return _with_bias(what, result, bias)


def _transposed_padding(padding: Any, totals: Sequence[int], what: str) -> tuple[list[int], list[int]]:
    """Like `paddings`, but `"same"` may crop a negative amount, if the stride is wider than the window."""
    if padding != "same":
        return paddings(padding, totals, what)
    return [total // 2 for total in totals], [total - total // 2 for total in totals]
