"""Pooling layers, of `[batch, channels, spatial...]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.nn.checks import listed
from tensorgrad.nn.module import Module


class _Pool(Module):
    spatial: ClassVar[int]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Any = 0,
        ceil_mode: bool = False,
    ):
        super().__init__()
        name = type(self).__name__
        self.kernel_size = listed(name, "kernel_size", kernel_size, self.spatial)
        self.stride = self.kernel_size if stride is None else listed(name, "stride", stride, self.spatial)
        self.padding = padding
        self.ceil_mode = ceil_mode


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Any = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = listed(type(self).__name__, "dilation", dilation, self.spatial)
        self.return_indices = return_indices

    def __call__(self, x: Any) -> Any:
        """Returns the largest element of each window; with `return_indices` also its index.

        Raises:
            ShapeError: No window fits, or one would contain only padding.
        """
        settings = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        return tg.max_pool(x, *settings, return_indices=True) if self.return_indices else tg.max_pool(x, *settings)


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def __call__(self, x: Any) -> tg.Tensor:
        """Returns the mean of each window.

        Raises:
            ShapeError: No window fits, or one would contain only padding.
        """
        return tg.avg_pool(
            x,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            divisor_override=self.divisor_override,
        )


class _MaxUnpool(Module):
    spatial: ClassVar[int]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ):
        super().__init__()
        name = type(self).__name__
        self.kernel_size = listed(name, "kernel_size", kernel_size, self.spatial)
        self.stride = self.kernel_size if stride is None else listed(name, "stride", stride, self.spatial)
        self.padding = padding

    def __call__(self, x: Any, indices: Any, output_size: Sequence[int] | None = None) -> tg.Tensor:
        """Returns zeros, with the elements of `x` at the indices that a max pooling returned.

        Raises:
            ShapeError: The shapes of `x` and `indices` differ, or a known index lies outside of the result.
        """
        return tg.max_unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class _Adaptive(Module):
    spatial: ClassVar[int]

    def __init__(self, output_size: int | Sequence[int | None]):
        super().__init__()
        name = type(self).__name__
        sizes: list[Any] = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * self.spatial
        known = listed(name, "output_size", [1 if size is None else size for size in sizes], self.spatial)
        self.output_size = tuple(size if size is None else n for size, n in zip(sizes, known, strict=True))


class _AdaptiveAvgPool(_Adaptive):
    def __call__(self, x: Any) -> tg.Tensor:
        """Returns the mean of each part.

        Raises:
            ShapeError: There are no such axes, or one has no elements.
        """
        return tg.adaptive_avg_pool(x, self.output_size)


class _AdaptiveMaxPool(_Adaptive):
    def __init__(self, output_size: int | Sequence[int | None], return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def __call__(self, x: Any) -> Any:
        """Returns the largest element of each part; with `return_indices` also its index.

        Raises:
            ShapeError: There are no such axes, or one has no elements.
        """
        if self.return_indices:
            return tg.adaptive_max_pool(x, self.output_size, return_indices=True)
        return tg.adaptive_max_pool(x, self.output_size)


class MaxPool1d(_MaxPool):
    """The largest element of each window of `[batch, channels, length]`; the arguments are those of `tg.max_pool`.

    Example:
        >>> tg.nn.MaxPool1d(2)([[[1.0, 3.0, 7.0, 5.0]]])
        Array([[[3., 7.]]], dtype=f32)
    """

    spatial = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of `[batch, channels, height, width]`; see `tg.max_pool`.

    Example:
        >>> tg.nn.MaxPool2d(3, stride=2, padding=1)(tg.ones((1, 3, 8, 8))).shape
        (1, 3, 4, 4)
    """

    spatial = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of `[batch, channels, depth, height, width]`; see `tg.max_pool`.

    Example:
        >>> tg.nn.MaxPool3d(2)(tg.ones((1, 3, 2, 4, 6))).shape
        (1, 3, 1, 2, 3)
    """

    spatial = 3


class AvgPool1d(_AvgPool):
    """The mean of each window of `[batch, channels, length]`; the arguments are those of `tg.avg_pool`.

    Example:
        >>> tg.nn.AvgPool1d(2)([[[1.0, 3.0, 5.0, 7.0]]])
        Array([[[2., 6.]]], dtype=f32)
    """

    spatial = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of `[batch, channels, height, width]`; see `tg.avg_pool`.

    Example:
        >>> tg.nn.AvgPool2d(3, stride=2, padding=1)(tg.ones((1, 3, 8, 8))).shape
        (1, 3, 4, 4)
    """

    spatial = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of `[batch, channels, depth, height, width]`; see `tg.avg_pool`.

    Example:
        >>> tg.nn.AvgPool3d(2)(tg.ones((1, 3, 2, 4, 6))).shape
        (1, 3, 1, 2, 3)
    """

    spatial = 3


class MaxUnpool1d(_MaxUnpool):
    """The inverse of `MaxPool1d` with `return_indices`, to `[batch, channels, length]`; see `tg.max_unpool`.

    Example:
        >>> values, indices = tg.nn.MaxPool1d(2, return_indices=True)([[[1.0, 3.0, 7.0, 5.0]]])
        >>> tg.nn.MaxUnpool1d(2)(values, indices)
        Array([[[0., 3., 7., 0.]]], dtype=f32)
    """

    spatial = 1


class MaxUnpool2d(_MaxUnpool):
    """The inverse of `MaxPool2d` with `return_indices`, to `[batch, channels, height, width]`; see `tg.max_unpool`.

    Example:
        >>> values, indices = tg.nn.MaxPool2d(2, return_indices=True)(tg.ones((1, 3, 4, 6)))
        >>> tg.nn.MaxUnpool2d(2)(values, indices).shape
        (1, 3, 4, 6)
    """

    spatial = 2


class MaxUnpool3d(_MaxUnpool):
    """The inverse of `MaxPool3d` with `return_indices`, to `[batch, channels, depth, height, width]`.

    See `tg.max_unpool`.

    Example:
        >>> values, indices = tg.nn.MaxPool3d(2, return_indices=True)(tg.ones((1, 3, 2, 4, 6)))
        >>> tg.nn.MaxUnpool3d(2)(values, indices).shape
        (1, 3, 2, 4, 6)
    """

    spatial = 3


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of `output_size` parts of each axis of `[batch, channels, length]`; see `tg.adaptive_avg_pool`.

    Example:
        >>> tg.nn.AdaptiveAvgPool1d(2)(tg.ones((1, 3, 7))).shape
        (1, 3, 2)
    """

    spatial = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of `output_size` parts of each axis of `[batch, channels, height, width]`.

    See `tg.adaptive_avg_pool`.

    Example:
        >>> tg.nn.AdaptiveAvgPool2d((2, None))(tg.ones((1, 3, 7, 5))).shape
        (1, 3, 2, 5)
    """

    spatial = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of `output_size` parts of each axis of `[batch, channels, depth, height, width]`.

    See `tg.adaptive_avg_pool`.

    Example:
        >>> tg.nn.AdaptiveAvgPool3d(1)(tg.ones((1, 3, 2, 4, 5))).shape
        (1, 3, 1, 1, 1)
    """

    spatial = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of `output_size` parts of each axis of `[batch, channels, length]`.

    See `tg.adaptive_max_pool`.

    Example:
        >>> tg.nn.AdaptiveMaxPool1d(2)([[[1.0, 4.0, 2.0, 3.0]]])
        Array([[[4., 3.]]], dtype=f32)
    """

    spatial = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of `output_size` parts of each axis of `[batch, channels, height, width]`.

    See `tg.adaptive_max_pool`.

    Example:
        >>> tg.nn.AdaptiveMaxPool2d((2, None))(tg.ones((1, 3, 7, 5))).shape
        (1, 3, 2, 5)
    """

    spatial = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of `output_size` parts of each axis of `[batch, channels, depth, height, width]`.

    See `tg.adaptive_max_pool`.

    Example:
        >>> tg.nn.AdaptiveMaxPool3d(1)(tg.ones((1, 3, 2, 4, 5))).shape
        (1, 3, 1, 1, 1)
    """

    spatial = 3


class GlobalAvgPool(Module):
    """The mean of each channel: `[batch, channels]`, or with the spatial axes kept at extent 1.

    Example:
        >>> tg.nn.GlobalAvgPool()(tg.ones((2, 3, 4, 4))).shape
        (2, 3)
    """

    def __init__(self, keepdims: bool = False):
        super().__init__()
        self.keepdims = keepdims

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer."""
        return tg.global_avg_pool(x, self.keepdims)


class GlobalMaxPool(Module):
    """The largest element of each channel: `[batch, channels]`, or with the spatial axes kept at extent 1.

    Example:
        >>> tg.nn.GlobalMaxPool(keepdims=True)(tg.ones((2, 3, 4, 4))).shape
        (2, 3, 1, 1)
    """

    def __init__(self, keepdims: bool = False):
        super().__init__()
        self.keepdims = keepdims

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer."""
        return tg.global_max_pool(x, self.keepdims)
