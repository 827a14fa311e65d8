"""Windows as separate axes or as columns of a matrix, and images summed from such columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorgrad.dialects.tg import convolution
from tensorgrad.dialects.tg.base import ints
from tensorgrad.dialects.tg.convolution import spread, window_count
from tensorgrad.errors import ShapeError
from tensorgrad.ops.joining import pad
from tensorgrad.ops.promotion import as_tensor, common_numbers
from tensorgrad.ops.shape import normalized_axis, reshape, transpose
from tensorgrad.ops.windows import Padding, Sizes, listed, paddings, same_padding
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit
from tensorgrad.tracing.views import viewing


@viewing(in_order=False)
def unfold(x: TensorLike, axis: int, size: int, step: int) -> Tensor:
    """Returns every window along an axis, as PyTorch's `Tensor.unfold`: a view, no copy.

    Args:
        x: A tensor of one axis or more.
        axis: The axis; in the result it enumerates the windows.
        size: The extent of the windows, and of a new last axis.
        step: The distance between the starts of neighboring windows. A remainder that fills no window is dropped.

    Raises:
        ShapeError: The axis is out of range, no window fits, or `size` or `step` is not a positive integer.

    Example:
        >>> tg.unfold([1, 2, 3, 4], 0, 2, 1)
        Array([[1, 2],
         [2, 3],
         [3, 4]], dtype=i32)
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "unfold")
    extent, stride = checked_extent(size, "unfold: size"), checked_extent(step, "unfold: step")
    if not 1 <= extent <= tensor.shape[place] or stride < 1:
        raise ShapeError(
            f"unfold: windows of {extent}, {stride} apart, do not fit axis {place} of {tensor.shape}; "
            "both numbers are at least 1"
        )
    return _windows(tensor, [place], [extent], [stride], [1])


def _windows(x: Tensor, axes: list[int], size: list[int], stride: list[int], dilation: list[int]) -> Tensor:
    settings = {"axes": ints(axes), "size": ints(size), "stride": ints(stride), "dilation": ints(dilation)}
    return emit(convolution.WindowsOp, [x], **settings)


class _Grid:
    """The windows over the spatial axes of images with given extents."""

    def __init__(self, what: str, extents: Sequence[int], size: Any, stride: Any, padding: Any, dilation: Any) -> None:
        count = len(extents)
        self.axes = list(range(2, 2 + count))
        self.size = listed(size, count, f"{what}: sizes")
        self.stride = listed(stride, count, f"{what}: strides")
        self.dilation = listed(dilation, count, f"{what}: dilations")
        spans = [spread(n, d) for n, d in zip(self.size, self.dilation, strict=True)]
        low, high = paddings(padding, same_padding(extents, spans, self.stride), what)
        self.padding = list(zip(low, high, strict=True))
        self.padded = [a + n + b for a, n, b in zip(low, extents, high, strict=True)]
        self.counts = [window_count(n, span, s) for n, span, s in zip(self.padded, spans, self.stride, strict=True)]
        if not all(self.counts):
            raise ShapeError(
                f"{what}: windows that span {spans} do not fit images of {list(extents)} padded by {self.padding}"
            )


def im2col(x: TensorLike, size: Sizes, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1) -> Tensor:
    """Returns the windows over images as columns, as `torch.nn.functional.unfold`, for any number of spatial axes.

    Args:
        x: `[batch, channels, spatial...]`.
        size: The windows' extents: one number, or one for each spatial axis, as for the following arguments.
        stride: The distance between neighboring windows, in elements.
        padding: Zeros around the images, as in `conv`.
        dilation: The distance between neighboring elements of a window.

    Returns:
        `[batch, channels * window, windows]`: each column has the elements of a window, channel by channel.

    Raises:
        ShapeError: `x` has no spatial axis, or no window fits.

    Example:
        >>> tg.im2col(tg.ones((2, 3, 8, 8)), (3, 3)).shape
        (2, 27, 36)
    """
    tensor = as_tensor(x)
    if tensor.ndim < 3:
        raise ShapeError(f"im2col: takes [batch, channels, spatial...], not {tensor.shape}")
    grid = _Grid("im2col", tensor.shape[2:], size, stride, padding, dilation)
    tensor = pad(tensor, [(0, 0), (0, 0), *grid.padding]) if any(map(any, grid.padding)) else tensor
    windows = _windows(tensor, grid.axes, grid.size, grid.stride, grid.dilation)
    count, (batch, channels) = len(grid.axes), tensor.shape[:2]
    columns = transpose(windows, [0, 1, *range(2 + count, 2 + 2 * count), *grid.axes])
    return reshape(columns, [batch, channels * math.prod(grid.size), math.prod(grid.counts)])


def col2im(
    x: TensorLike, output_size: Sequence[int], size: Sizes, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1
) -> Tensor:
    """Returns images summed from columns of windows, as `torch.nn.functional.fold`: the transpose of `im2col`.

    Args:
        x: `[batch, channels * window, windows]`, as `im2col` returns it.
        output_size: The images' spatial extents, one for each axis.
        size: The windows' extents; this and the following arguments are as in `im2col`.
        stride: The distance between neighboring windows, in elements.
        padding: The padding added around the images; window elements that lie there are dropped.
        dilation: The distance between neighboring elements of a window.

    Returns:
        `[batch, channels, *output_size]`, 0 where there is no window.

    Raises:
        ShapeError: The shape does not match such columns, or no window fits.
        DTypeError: The elements are bool.

    Example:
        >>> tg.col2im(tg.ones((1, 4, 4)), (3, 3), (2, 2))[0, 0]
        Array([[1., 2., 1.],
         [2., 4., 2.],
         [1., 2., 1.]], dtype=f32)
    """
    tensor = common_numbers("col2im", x)[0]
    extents = listed(list(output_size), len(output_size), "col2im: output_size")
    grid = _Grid("col2im", extents, size, stride, padding, dilation)
    window, count = math.prod(grid.size), len(extents)
    if tensor.ndim != 3 or tensor.shape[1] % window or tensor.shape[2] != math.prod(grid.counts):
        raise ShapeError(f"col2im: {tensor.shape} is not [batch, channels * {window}, {math.prod(grid.counts)}]")
    batch, channels = tensor.shape[0], tensor.shape[1] // window
    apart = reshape(tensor, [batch, channels, *grid.size, *grid.counts])
    windows = transpose(apart, [0, 1, *range(2 + count, 2 + 2 * count), *grid.axes])
    settings = {"stride": ints(grid.stride), "dilation": ints(grid.dilation), "extents": ints(grid.padded)}
    images = emit(convolution.FoldOp, [windows], axes=ints(grid.axes), **settings)
    cropped = [(-low, -high) for low, high in grid.padding]
    return pad(images, [(0, 0), (0, 0), *cropped]) if any(map(any, cropped)) else images
