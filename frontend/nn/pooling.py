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
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.dilation = listed(type(self).__name__, "dilation", dilation, self.spatial)

    def __call__(self, x: Any) -> tg.Tensor:
        """Returns the largest element of each window.

        Raises:
            ShapeError: A window fits nowhere, or would hold padding only.
        """
        return tg.max_pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def __call__(self, x: Any) -> tg.Tensor:
        """Returns the mean of each window.

        Raises:
            ShapeError: A window fits nowhere, or would hold padding only.
        """
        return tg.avg_pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class MaxPool1d(_MaxPool):
    """The largest element of each window of `[batch, channels, length]`; the arguments are those of `tg.max_pool`."""

    spatial = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window of `[batch, channels, height, width]`; see `tg.max_pool`."""

    spatial = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window of `[batch, channels, depth, height, width]`; see `tg.max_pool`."""

    spatial = 3


class AvgPool1d(_AvgPool):
    """The mean of each window of `[batch, channels, length]`; the arguments are those of `tg.avg_pool`."""

    spatial = 1


class AvgPool2d(_AvgPool):
    """The mean of each window of `[batch, channels, height, width]`; see `tg.avg_pool`."""

    spatial = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of `[batch, channels, depth, height, width]`; see `tg.avg_pool`."""

    spatial = 3


class GlobalAvgPool(Module):
    """The mean of each channel: `[batch, channels]`, or with the spatial axes kept at extent 1."""

    def __init__(self, keepdims: bool = False):
        super().__init__()
        self.keepdims = keepdims

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer."""
        return tg.global_avg_pool(x, self.keepdims)


class GlobalMaxPool(Module):
    """The largest element of each channel: `[batch, channels]`, or with the spatial axes kept at extent 1."""

    def __init__(self, keepdims: bool = False):
        super().__init__()
        self.keepdims = keepdims

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer."""
        return tg.global_max_pool(x, self.keepdims)
