"""Layers of convolutions and of windows as columns, of `[batch, channels, spatial...]`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.nn.checks import channelled, divides, listed, positive
from tensorgrad.nn.initializers import uniform
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init, param

_Sizes = int | Sequence[int]


class _Convolution(Module):
    """The base of both kinds: settings, and parameters initialized as in PyTorch."""

    spatial: ClassVar[int]

    def _declare(
        self,
        channels: tuple[int, int, int],
        settings: dict[str, _Sizes],
        padding: Any,
        leading: tuple[int, int],
        bias: bool,
        dtype: object,
        inits: tuple[Init | None, Init | None],
    ) -> None:
        name = type(self).__name__
        self.in_channels, self.out_channels, self.groups = channels
        for setting, value in settings.items():
            setattr(self, setting, listed(name, setting, value, self.spatial))
        self.padding = padding
        shape = (*leading, *vars(self)["kernel_size"])
        # PyTorch's fan-in uses the weight's second axis, also for transposed convolutions.
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        first, second = (uniform(-bound, bound) if init is None else init for init in inits)
        self.weight = param(shape, first, dtype)
        self.bias = param((self.out_channels,), second, dtype) if bias else None

    def _checked(self, in_channels: int, out_channels: int, groups: int) -> tuple[int, int, int]:
        name = type(self).__name__
        in_channels, out_channels, groups = positive(
            name, in_channels=in_channels, out_channels=out_channels, groups=groups
        )
        divides(name, groups=groups, in_channels=in_channels, out_channels=out_channels)
        return in_channels, out_channels, groups


class _Conv(_Convolution):
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: Any = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        in_channels, out_channels, groups = channels = self._checked(in_channels, out_channels, groups)
        sizes = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
        leading = (out_channels, in_channels // groups)
        self._declare(channels, sizes, padding, leading, bias, dtype, (init, bias_init))

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[batch, in_channels, spatial...]`.

        Raises:
            ShapeError: `x` has a different number of axes or channels, or a window does not fit.
        """
        images = channelled(type(self).__name__, x, self.in_channels, self.spatial)
        return tg.conv(images, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _ConvTranspose(_Convolution):
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: Any = 0,
        output_padding: _Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Sizes = 1,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        in_channels, out_channels, groups = channels = self._checked(in_channels, out_channels, groups)
        sizes = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
        self.output_padding = output_padding
        leading = (in_channels, out_channels // groups)
        self._declare(channels, sizes, padding, leading, bias, dtype, (init, bias_init))

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[batch, in_channels, spatial...]`.

        Raises:
            ShapeError: `x` has a different number of axes or channels, or the result would be empty.
        """
        images = channelled(type(self).__name__, x, self.in_channels, self.spatial)
        settings = (self.stride, self.padding, self.output_padding, self.dilation, self.groups)
        return tg.conv_transpose(images, self.weight, self.bias, *settings)


class Conv1d(_Conv):
    """The convolution of `[batch, in_channels, length]`, as `tg.conv1d`.

    Parameters are initialized as in PyTorch: uniform within `1 / sqrt(in_channels / groups * window)` of zero.

    Args:
        in_channels: The channels of the input.
        out_channels: The channels of the result.
        kernel_size: The extents of the window.
        stride: The distance between neighboring windows, in elements.
        padding: Zeros around the input: a number, a pair (before, after) for each axis, "same" or "valid".
        dilation: The distance between neighboring elements of a window.
        groups: The number of independent convolutions; it must divide both numbers of channels.
        bias: Whether there is a bias.
        dtype: The dtype of the parameters.
        init: The initial weight: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias.

    Attributes:
        weight: Parameter of shape `[out_channels, in_channels / groups, window...]`.
        bias: Parameter of shape `[out_channels]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer, or the groups don't divide the channels.

    Example:
        >>> tg.nn.Conv1d(3, 8, 5).initialized(0)(tg.ones((2, 3, 20))).shape
        (2, 8, 16)
    """

    spatial = 1


class Conv2d(_Conv):
    """The convolution of `[batch, in_channels, height, width]`; arguments as in `Conv1d`.

    Example:
        >>> tg.nn.Conv2d(3, 8, 3, padding="same").initialized(0)(tg.ones((2, 3, 6, 6))).shape
        (2, 8, 6, 6)
    """

    spatial = 2


class Conv3d(_Conv):
    """The convolution of `[batch, in_channels, depth, height, width]`; arguments as in `Conv1d`.

    Example:
        >>> tg.nn.Conv3d(3, 8, 2).initialized(0)(tg.ones((2, 3, 4, 5, 6))).shape
        (2, 8, 3, 4, 5)
    """

    spatial = 3


class ConvTranspose1d(_ConvTranspose):
    """The transposed convolution of `[batch, in_channels, length]`, as `tg.conv_transpose`.

    Parameters are initialized as in PyTorch: uniform within `1 / sqrt(out_channels / groups * window)` of zero.

    Args:
        in_channels: The channels of the input.
        out_channels: The channels of the result.
        kernel_size: The extents of the window.
        stride: The distance between neighboring windows in the result, in elements.
        padding: Elements cropped from the borders of the result.
        output_padding: Elements added at the end of the result.
        groups: The number of independent convolutions; it must divide both numbers of channels.
        bias: Whether there is a bias.
        dilation: The distance between neighboring elements of a window.
        dtype: The dtype of the parameters.
        init: The initial weight: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias.

    Attributes:
        weight: Parameter of shape `[in_channels, out_channels / groups, window...]`.
        bias: Parameter of shape `[out_channels]`, or None.

    Raises:
        ShapeError: An extent is not a positive integer, or the groups don't divide the channels.

    Example:
        >>> tg.nn.ConvTranspose1d(8, 3, 2, stride=2).initialized(0)(tg.ones((2, 8, 5))).shape
        (2, 3, 10)
    """

    spatial = 1


class ConvTranspose2d(_ConvTranspose):
    """The transposed convolution of `[batch, in_channels, height, width]`; arguments as in `ConvTranspose1d`.

    Example:
        >>> tg.nn.ConvTranspose2d(8, 3, 2, stride=2).initialized(0)(tg.ones((2, 8, 4, 4))).shape
        (2, 3, 8, 8)
    """

    spatial = 2


class ConvTranspose3d(_ConvTranspose):
    """The transposed convolution of `[batch, in_channels, depth, height, width]`; see `ConvTranspose1d`.

    Example:
        >>> tg.nn.ConvTranspose3d(8, 3, 2).initialized(0)(tg.ones((2, 8, 2, 3, 4))).shape
        (2, 3, 3, 4, 5)
    """

    spatial = 3


class _Columns(Module):
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride


class Unfold(_Columns):
    """The windows of images as columns; see `tg.im2col`, which has the same arguments, but in PyTorch's order here.

    Example:
        >>> tg.nn.Unfold(3)(tg.ones((2, 3, 8, 8))).shape
        (2, 27, 36)
    """

    def __call__(self, x: Any) -> tg.Tensor:
        """Returns the columns, `[batch, channels * window, windows]`.

        Raises:
            ShapeError: `x` has no spatial axis, or no window fits.
        """
        return tg.im2col(x, self.kernel_size, self.stride, self.padding, self.dilation)


class Fold(_Columns):
    """Images of the extents `output_size`, summed from columns of windows; see `tg.col2im`.

    A single number is both the height and the width, as in PyTorch.

    Example:
        >>> tg.nn.Fold((3, 3), 2)(tg.ones((1, 4, 4)))[0, 0]
        Array([[1., 2., 1.],
         [2., 4., 2.],
         [1., 2., 1.]], dtype=f32)
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ):
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)

    def __call__(self, x: Any) -> tg.Tensor:
        """Returns the images, `[batch, channels, *output_size]`.

        Raises:
            ShapeError: The shape does not match such columns.
        """
        return tg.col2im(x, self.output_size, self.kernel_size, self.stride, self.padding, self.dilation)
