"""Normalization layers whose statistics are those of each example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.initializers import ones, zeros
from tensorgrad.nn.checks import channelled, divides, listed, number_between, positive, trailing
from tensorgrad.nn.module import Module, param


def _standardized(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    centred = x - tg.mean(x, axes, keepdims=True)
    return centred * tg.rsqrt(tg.mean(centred * centred, axes, keepdims=True) + eps)


class LayerNorm(Module):
    """`(x - mean) / sqrt(variance + eps) * weight + bias` over the last axes; the variance is the biased one.

    Args:
        normalized_shape: The extents of the last axes: a number for one axis, or several.
        eps: What keeps the root away from 0.
        elementwise_affine: Whether there are parameters.
        bias: Whether there is a bias among them.
        dtype: Of the parameters.

    Attributes:
        weight: Parameter of shape `normalized_shape`, 1 at first, or None.
        bias: Parameter of shape `normalized_shape`, 0 at first, or None.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `eps` is negative or no number.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: object = "f32",
    ):
        super().__init__()
        self.normalized_shape = listed("LayerNorm", "normalized_shape", normalized_shape)
        self.eps = number_between("LayerNorm", "eps", eps, 0, math.inf)
        affine = elementwise_affine
        self.weight = param(self.normalized_shape, init=ones, dtype=dtype) if affine else None
        self.bias = param(self.normalized_shape, init=zeros, dtype=dtype) if affine and bias else None

    def __call__(self, x: Any) -> Any:
        """Applies the layer to `[..., *normalized_shape]`.

        Raises:
            ShapeError: The last axes of `x` have other extents.
        """
        tensor = trailing("LayerNorm", x, self.normalized_shape)
        result = _standardized(tensor, tuple(range(-len(self.normalized_shape), 0)), self.eps)
        result = result if self.weight is None else result * self.weight
        return result if self.bias is None else result + self.bias


class RMSNorm(Module):
    """`x / sqrt(mean(x**2) + eps) * weight` over the last axes.

    Args:
        normalized_shape: The extents of the last axes: a number for one axis, or several.
        eps: What keeps the root away from 0; None for the spacing of the dtype's numbers at 1.
        elementwise_affine: Whether there is a parameter.
        dtype: Of the parameter.

    Attributes:
        weight: Parameter of shape `normalized_shape`, 1 at first, or None.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `eps` is negative or no number.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: object = "f32",
    ):
        super().__init__()
        self.normalized_shape = listed("RMSNorm", "normalized_shape", normalized_shape)
        self.eps = None if eps is None else number_between("RMSNorm", "eps", eps, 0, math.inf)
        self.weight = param(self.normalized_shape, init=ones, dtype=dtype) if elementwise_affine else None

    def __call__(self, x: Any) -> Any:
        """Applies the layer to `[..., *normalized_shape]`, floats.

        Raises:
            ShapeError: The last axes of `x` have other extents.
        """
        tensor = trailing("RMSNorm", x, self.normalized_shape)
        eps = float(np.finfo(tensor.dtype).eps) if self.eps is None else self.eps
        axes = tuple(range(-len(self.normalized_shape), 0))
        result = tensor * tg.rsqrt(tg.mean(tensor * tensor, axes, keepdims=True) + eps)
        return result if self.weight is None else result * self.weight


class GroupNorm(Module):
    """Standardizes each group of neighbouring channels of each example; then a weight and a bias for each channel.

    With one group it normalizes all channels together, with as many groups as channels each alone.

    Args:
        num_groups: How many groups.
        num_channels: How many channels; a multiple of `num_groups`.
        eps: What keeps the root away from 0.
        affine: Whether there are parameters.
        dtype: Of the parameters.

    Attributes:
        weight: Parameter of shape `[num_channels]`, 1 at first, or None.
        bias: Parameter of shape `[num_channels]`, 0 at first, or None.

    Raises:
        ShapeError: A number is not a positive integer, or the groups don't divide the channels.
        OptionError: `eps` is negative or no number.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: object = "f32"
    ):
        super().__init__()
        positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        divides("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps = number_between("GroupNorm", "eps", eps, 0, math.inf)
        self.weight = param((num_channels,), init=ones, dtype=dtype) if affine else None
        self.bias = param((num_channels,), init=zeros, dtype=dtype) if affine else None

    def __call__(self, x: Any) -> Any:
        """Applies the layer to `[batch, num_channels, ...]`.

        Raises:
            ShapeError: `x` has other channels.
        """
        tensor = channelled("GroupNorm", x, self.num_channels, None)
        batch, channels, *rest = tensor.shape
        split = tg.reshape(tensor, [batch, self.num_groups, channels // self.num_groups, *rest])
        result = tg.reshape(_standardized(split, tuple(range(2, split.ndim)), self.eps), tensor.shape)
        each = [channels, *[1] * len(rest)]
        if self.weight is None or self.bias is None:
            return result
        return result * tg.reshape(self.weight, each) + tg.reshape(self.bias, each)
