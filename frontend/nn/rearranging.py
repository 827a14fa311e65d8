"""Layers without parameters that pad, resize and rearrange images and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.checks import positive
from tensorgrad.nn.module import Module
from tensorgrad.ops.promotion import as_tensor


class _Pad(Module):
    """The base of layers that pad the last axes."""

    spatial: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]):
        super().__init__()
        name = type(self).__name__
        widths = [padding] * (2 * self.spatial) if isinstance(padding, int) else list(padding)
        if len(widths) != 2 * self.spatial or any(isinstance(n, bool) or not isinstance(n, int) for n in widths):
            raise ShapeError(f"{name}: padding must be one integer or {2 * self.spatial}, got {padding!r}")
        # In PyTorch's order: the last axis first, each as (before, after).
        self.padding = [(widths[2 * i], widths[2 * i + 1]) for i in reversed(range(self.spatial))]

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[..., spatial...]`.

        Raises:
            ShapeError: There are fewer axes, or an axis is too short for the mode.
        """
        tensor = as_tensor(x)
        if tensor.ndim < self.spatial:
            raise ShapeError(f"{type(self).__name__}: needs {self.spatial} axes or more, got {tensor.shape}")
        none = [(0, 0)] * (tensor.ndim - self.spatial)
        return tg.pad(tensor, [*none, *self.padding], self.mode, constant_values=self._value())

    def _value(self) -> float:
        return 0


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float = 0.0):
        super().__init__(padding)
        self.value = value

    def _value(self) -> float:
        return self.value


class ConstantPad1d(_ConstantPad):
    """Pads the last axis with a number: `padding` elements at both ends, or `(before, after)`.

    Example:
        >>> tg.nn.ConstantPad1d((1, 2), 9)([[[1, 2, 3]]])
        Array([[[9, 1, 2, 3, 9, 9]]], dtype=i32)
    """

    spatial = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two axes with a number: `padding` elements on all sides, or `(left, right, top, bottom)`.

    Example:
        >>> tg.nn.ConstantPad2d((1, 1, 2, 0), 9)(tg.ones((1, 3, 4, 4))).shape
        (1, 3, 6, 6)
    """

    spatial = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three axes with a number: `padding` on all sides, or `(left, right, top, bottom, front, back)`.

    Example:
        >>> tg.nn.ConstantPad3d(1, 9)(tg.ones((1, 3, 2, 4, 4))).shape
        (1, 3, 4, 6, 6)
    """

    spatial = 3


class _ZeroPad(_Pad):
    mode = "constant"


class ZeroPad1d(_ZeroPad):
    """Pads the last axis with zeros; `padding` as for `ConstantPad1d`.

    Example:
        >>> tg.nn.ZeroPad1d(1)([[[1, 2, 3]]])
        Array([[[0, 1, 2, 3, 0]]], dtype=i32)
    """

    spatial = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two axes with zeros; `padding` as for `ConstantPad2d`.

    Example:
        >>> tg.nn.ZeroPad2d((1, 1, 2, 0))(tg.ones((1, 3, 4, 4))).shape
        (1, 3, 6, 6)
    """

    spatial = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three axes with zeros; `padding` as for `ConstantPad3d`.

    Example:
        >>> tg.nn.ZeroPad3d(1)(tg.ones((1, 3, 2, 4, 4))).shape
        (1, 3, 4, 6, 6)
    """

    spatial = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads the last axis by reflection at its ends; `padding` as for `ConstantPad1d`.

    Example:
        >>> tg.nn.ReflectionPad1d(2)([[[1, 2, 3]]])
        Array([[[3, 2, 1, 2, 3, 2, 1]]], dtype=i32)
    """

    spatial = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the last two axes by reflection at the edges; `padding` as for `ConstantPad2d`.

    Example:
        >>> tg.nn.ReflectionPad2d(1)(tg.ones((1, 3, 4, 4))).shape
        (1, 3, 6, 6)
    """

    spatial = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the last three axes by reflection at the faces; `padding` as for `ConstantPad3d`.

    Example:
        >>> tg.nn.ReflectionPad3d(1)(tg.ones((1, 3, 2, 4, 4))).shape
        (1, 3, 4, 6, 6)
    """

    spatial = 3


class _ReplicationPad(_Pad):
    mode = "edge"


class ReplicationPad1d(_ReplicationPad):
    """Pads the last axis by repeating its outermost elements; `padding` as for `ConstantPad1d`.

    Example:
        >>> tg.nn.ReplicationPad1d(2)([[[1, 2, 3]]])
        Array([[[1, 1, 1, 2, 3, 3, 3]]], dtype=i32)
    """

    spatial = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the last two axes by repeating their outermost elements; `padding` as for `ConstantPad2d`.

    Example:
        >>> tg.nn.ReplicationPad2d(1)(tg.ones((1, 3, 4, 4))).shape
        (1, 3, 6, 6)
    """

    spatial = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the last three axes by repeating their outermost elements; `padding` as for `ConstantPad3d`.

    Example:
        >>> tg.nn.ReplicationPad3d(1)(tg.ones((1, 3, 2, 4, 4))).shape
        (1, 3, 4, 6, 6)
    """

    spatial = 3


class _CircularPad(_Pad):
    mode = "wrap"


class CircularPad1d(_CircularPad):
    """Pads the last axis circularly; `padding` as for `ConstantPad1d`.

    Example:
        >>> tg.nn.CircularPad1d(1)([[[1, 2, 3]]])
        Array([[[3, 1, 2, 3, 1]]], dtype=i32)
    """

    spatial = 1


class CircularPad2d(_CircularPad):
    """Pads the last two axes circularly; `padding` as for `ConstantPad2d`.

    Example:
        >>> tg.nn.CircularPad2d(1)(tg.ones((1, 3, 4, 4))).shape
        (1, 3, 6, 6)
    """

    spatial = 2


class CircularPad3d(_CircularPad):
    """Pads the last three axes circularly; `padding` as for `ConstantPad3d`.

    Example:
        >>> tg.nn.CircularPad3d(1)(tg.ones((1, 3, 2, 4, 4))).shape
        (1, 3, 4, 6, 6)
    """

    spatial = 3


class Upsample(Module):
    """Resizes all axes but the first two; see `tg.resize`.

    Args:
        size: The new extents, or one number for all.
        scale_factor: The ratio of new to old extents, instead of `size`.
        mode: The method of `tg.resize`. "nearest" is PyTorch's "nearest-exact"; they agree for integer factors.
        align_corners: Whether the centers of the first and last elements keep their positions; for methods that weight
            elements.

    Raises:
        OptionError: Not exactly one of `size` and `scale_factor` is given.

    Example:
        >>> tg.nn.Upsample(scale_factor=2)(tg.ones((1, 3, 4, 5))).shape
        (1, 3, 8, 10)
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ):
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise OptionError("Upsample: takes either size or scale_factor")
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[batch, channels, spatial...]`; raises the errors of `tg.resize`."""
        return tg.resize(x, self.size, self.mode, self.align_corners, self.scale_factor)


class PixelShuffle(Module):
    """`[..., c * f**2, h, w]` as `[..., c, h * f, w * f]`, with the factor `f`; see `tg.pixel_shuffle`.

    Example:
        >>> tg.nn.PixelShuffle(2)(tg.ones((1, 8, 3, 3))).shape
        (1, 2, 6, 6)
    """

    def __init__(self, upscale_factor: int):
        super().__init__()
        (upscale_factor,) = positive("PixelShuffle", upscale_factor=upscale_factor)
        self.upscale_factor = upscale_factor

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the function; raises its errors."""
        return tg.pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Module):
    """`[..., c, h * f, w * f]` as `[..., c * f**2, h, w]`, with the factor `f`; see `tg.pixel_unshuffle`.

    Example:
        >>> tg.nn.PixelUnshuffle(2)(tg.ones((1, 2, 6, 6))).shape
        (1, 8, 3, 3)
    """

    def __init__(self, downscale_factor: int):
        super().__init__()
        (downscale_factor,) = positive("PixelUnshuffle", downscale_factor=downscale_factor)
        self.downscale_factor = downscale_factor

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the function; raises its errors."""
        return tg.pixel_unshuffle(x, self.downscale_factor)


class ChannelShuffle(Module):
    """Interleaves the channels of groups; see `tg.channel_shuffle`.

    Example:
        >>> tg.nn.ChannelShuffle(2)(tg.arange(4).reshape(1, 4, 1))[0, :, 0]
        Array([0, 2, 1, 3], dtype=i32)
    """

    def __init__(self, groups: int):
        super().__init__()
        (groups,) = positive("ChannelShuffle", groups=groups)
        self.groups = groups

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the function; raises its errors."""
        return tg.channel_shuffle(x, self.groups)


class Unflatten(Module):
    """Splits the axis `dim` into several; see `tg.unflatten`.

    Example:
        >>> tg.nn.Unflatten(1, (3, -1))(tg.ones((2, 12))).shape
        (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: int | Sequence[int]):
        super().__init__()
        self.dim = dim
        self.unflattened_size = (unflattened_size,) if isinstance(unflattened_size, int) else tuple(unflattened_size)

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the function; raises its errors."""
        return tg.unflatten(x, self.dim, self.unflattened_size)
