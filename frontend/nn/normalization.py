"""Normalization layers, with the statistics of each example or, for batch norm, of each channel of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import ShapeError
from tensorgrad.nn.checks import channelled, divides, listed, number_between, positive, trailing
from tensorgrad.nn.initializers import ones, zeros
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init, buffer, param
from tensorgrad.ops.promotion import as_tensor, widened
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.surface.calls import public


class LayerNorm(Module):
    """`(x - mean) / sqrt(variance + eps) * weight + bias` over the last axes; the variance is the biased one.

    Args:
        normalized_shape: The extents of the last axes: a number for one axis, or several.
        eps: Keeps the square root away from 0.
        elementwise_affine: Whether there are parameters.
        bias: Whether one of them is a bias.
        dtype: The dtype of the parameters.
        init: The initial weight, instead of 1: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias, instead of 0.

    Attributes:
        weight: Parameter of shape `normalized_shape`, initially 1, or None.
        bias: Parameter of shape `normalized_shape`, initially 0, or None.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `eps` is negative or not a number.

    Example:
        >>> tg.nn.LayerNorm(2).initialized(0)([[1.0, 3.0], [2.0, 8.0]])
        Array([[-0.999995 ,  0.999995 ],
         [-0.9999994,  0.9999994]], dtype=f32)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init = ones,
        bias_init: Init = zeros,
    ):
        super().__init__()
        self.normalized_shape = listed("LayerNorm", "normalized_shape", normalized_shape)
        self.eps = number_between("LayerNorm", "eps", eps, 0, math.inf)
        affine = elementwise_affine
        self.weight = param(self.normalized_shape, init, dtype) if affine else None
        self.bias = param(self.normalized_shape, bias_init, dtype) if affine and bias else None

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[..., *normalized_shape]`.

        Raises:
            ShapeError: The last axes of `x` have other extents.
        """
        tensor = trailing("LayerNorm", x, self.normalized_shape)
        return tg.layer_norm(tensor, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """`x / sqrt(mean(x**2) + eps) * weight` over the last axes.

    Args:
        normalized_shape: The extents of the last axes: a number for one axis, or several.
        eps: Keeps the square root away from 0; None for the spacing of the dtype's numbers at 1.
        elementwise_affine: Whether there is a parameter.
        dtype: The dtype of the parameter.
        init: Its initial value, instead of 1: an initializer, a number or an array, as for `tg.nn.param`.

    Attributes:
        weight: Parameter of shape `normalized_shape`, initially 1, or None.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `eps` is negative or not a number.

    Example:
        >>> tg.nn.RMSNorm(2).initialized(0)([[3.0, 3.0], [2.0, -2.0]])
        Array([[ 1.,  1.],
         [ 1., -1.]], dtype=f32)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: object = "f32",
        *,
        init: Init = ones,
    ):
        super().__init__()
        self.normalized_shape = listed("RMSNorm", "normalized_shape", normalized_shape)
        self.eps = None if eps is None else number_between("RMSNorm", "eps", eps, 0, math.inf)
        self.weight = param(self.normalized_shape, init, dtype) if elementwise_affine else None

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[..., *normalized_shape]`, floats.

        Raises:
            ShapeError: The last axes of `x` have other extents.
        """
        tensor = trailing("RMSNorm", x, self.normalized_shape)
        return tg.rms_norm(tensor, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """Standardizes each group of neighboring channels of each example, then applies a weight and bias per channel.

    One group normalizes all channels together; as many groups as channels normalize each channel on its own.

    Args:
        num_groups: The number of groups.
        num_channels: The number of channels; a multiple of `num_groups`.
        eps: Keeps the square root away from 0.
        affine: Whether there are parameters.
        dtype: The dtype of the parameters.
        init: The initial weight, instead of 1: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias, instead of 0.

    Attributes:
        weight: Parameter of shape `[num_channels]`, initially 1, or None.
        bias: Parameter of shape `[num_channels]`, initially 0, or None.

    Raises:
        ShapeError: A number is not a positive integer, or the groups don't divide the channels.
        OptionError: `eps` is negative or not a number.

    Example:
        >>> tg.nn.GroupNorm(2, 6).initialized(0)(tg.ones((2, 6, 4, 4))).shape
        (2, 6, 4, 4)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: object = "f32",
        *,
        init: Init = ones,
        bias_init: Init = zeros,
    ):
        super().__init__()
        num_groups, num_channels = positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        divides("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps = number_between("GroupNorm", "eps", eps, 0, math.inf)
        self.weight = param((num_channels,), init, dtype) if affine else None
        self.bias = param((num_channels,), bias_init, dtype) if affine else None

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[batch, num_channels, ...]`.

        Raises:
            ShapeError: `x` has a different number of channels.
        """
        tensor = channelled("GroupNorm", x, self.num_channels, None)
        return tg.group_norm(tensor, self.num_groups, self.weight, self.bias, self.eps)


class _InstanceNorm(Module):
    spatial: ClassVar[int]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = False,
        dtype: object = "f32",
        *,
        init: Init = ones,
        bias_init: Init = zeros,
    ):
        super().__init__()
        name = type(self).__name__
        (num_features,) = positive(name, num_features=num_features)
        self.num_features = num_features
        self.eps = number_between(name, "eps", eps, 0, math.inf)
        self.weight = param((num_features,), init, dtype) if affine else None
        self.bias = param((num_features,), bias_init, dtype) if affine else None

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[batch, num_features, spatial...]`.

        Raises:
            ShapeError: `x` has a different number of axes or channels.
        """
        tensor = channelled(type(self).__name__, x, self.num_features, self.spatial)
        return tg.group_norm(tensor, self.num_features, self.weight, self.bias, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Standardizes each channel of each example of `[batch, channels, length]` by its own mean and biased variance.

    D. Ulyanov, A. Vedaldi and V. Lempitsky, Instance Normalization, 2016. There are no running statistics.

    Args:
        num_features: The number of channels.
        eps: Added to the variance.
        affine: Whether there are parameters.
        dtype: The dtype of the parameters.
        init: The initial weight, instead of 1: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias, instead of 0.

    Attributes:
        weight: Parameter of shape `[num_features]`, initially 1, or None.
        bias: Parameter of shape `[num_features]`, initially 0, or None.

    Raises:
        ShapeError: `num_features` is not a positive integer.
        OptionError: `eps` is negative or not a number.

    Example:
        >>> tg.nn.InstanceNorm1d(3).initialized(0)(tg.ones((2, 3, 8))).shape
        (2, 3, 8)
    """

    spatial = 1


class InstanceNorm2d(_InstanceNorm):
    """Standardizes each channel of each example of `[batch, channels, height, width]`; see `InstanceNorm1d`.

    Example:
        >>> tg.nn.InstanceNorm2d(3).initialized(0)(tg.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Standardizes each channel of each example of `[batch, channels, depth, height, width]`; see `InstanceNorm1d`.

    Example:
        >>> tg.nn.InstanceNorm3d(3).initialized(0)(tg.ones((2, 3, 2, 4, 4))).shape
        (2, 3, 2, 4, 4)
    """

    spatial = 3


class LocalResponseNorm(Module):
    """Divides each element by a power of the mean square of neighboring channels; see `tg.local_response_norm`.

    Args:
        size: The number of channels.
        alpha: See the formula.
        beta: See the formula.
        k: See the formula.

    Raises:
        ShapeError: `size` is not a positive integer.

    Example:
        >>> tg.nn.LocalResponseNorm(2)(tg.ones((1, 4, 2, 2))).shape
        (1, 4, 2, 2)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        (size,) = positive("LocalResponseNorm", size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[batch, channels, ...]`.

        Raises:
            ShapeError: There are fewer than two axes.
        """
        return tg.local_response_norm(x, self.size, self.alpha, self.beta, self.k)


class _BatchNorm(Module):
    spatial: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        dtype: object = "f32",
        *,
        init: Init = ones,
        bias_init: Init = zeros,
    ):
        super().__init__()
        name = type(self).__name__
        (num_features,) = positive(name, num_features=num_features)
        self.num_features = num_features
        self.eps = number_between(name, "eps", eps, 0, math.inf)
        self.momentum = None if momentum is None else number_between(name, "momentum", momentum, 0, 1)
        self.weight = param((num_features,), init, dtype) if affine else None
        self.bias = param((num_features,), bias_init, dtype) if affine else None
        self.running_mean = buffer((num_features,), init=zeros, dtype=dtype)
        self.running_var = buffer((num_features,), init=ones, dtype=dtype)
        self.num_batches_tracked = buffer((), init=zeros, dtype="i32")

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to a batch, `[batch, num_features, spatial...]`, and updates the running statistics.

        Only the loss of `tg.compile` can do that; use `tg.nn.inference(model)` elsewhere.

        Raises:
            ShapeError: `x` has a different number of axes or channels, or a channel has a single element.
            ParameterError: This is in a function that can't change buffers, such as an attached one.
            TraceError: This is inside a function that `tg.grad`, `tg.scan` or the like traces.
        """
        tensor = self._checked(x)
        count = math.prod(tensor.shape) // self.num_features
        if count < 2:
            raise ShapeError(
                f"{type(self).__name__}: {tensor.shape} has {count} numbers a channel; their variance takes at least 2"
            )
        result, mean, variance = _of_batch(tensor, self.weight, self.bias, self.eps)
        self._track(mean, variance)
        return result

    def inference_call(self, x: Any) -> Any:
        """Applies the layer with the running statistics, to each example independently, and updates nothing.

        Raises:
            ShapeError: `x` has a different number of axes or channels.
        """
        tensor = self._checked(x)
        return _by_statistics(tensor, self.running_mean, self.running_var, self.weight, self.bias, self.eps)

    def _track(self, mean: Any, variance: Any) -> None:
        """Updates the running statistics with those of a batch."""
        before: Any = self.num_batches_tracked
        tracked = before + 1
        weight: Any = 1 / tg.cast(tracked, self.running_mean.dtype) if self.momentum is None else self.momentum
        for statistic, batch_statistic in ((self.running_mean, mean), (self.running_var, variance)):
            statistic.assign(_moved(statistic, batch_statistic, weight))
        self.num_batches_tracked.assign(tracked)

    def _checked(self, x: Any) -> Any:

        tensor = as_tensor(x)
        spatial = tensor.ndim - 2 if tensor.ndim - 2 in self.spatial else self.spatial[-1]
        return channelled(type(self).__name__, tensor, self.num_features, spatial)


@public
@recorded_whole
def _of_batch(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Returns a batch, normalized, and the mean and unbiased variance of its channels."""
    axes, full = (0, *range(2, x.ndim)), widened(x)
    mean = tg.mean(full, axes, keepdims=True)
    centred = full - mean
    variance = tg.mean(centred * centred, axes, keepdims=True)
    count = math.prod(x.shape[axis] for axis in axes)
    unbiased = tg.reshape(variance, [-1]) * (count / (count - 1))
    standardized = tg.cast(centred * tg.rsqrt(variance + eps), x.dtype)
    return _scaled(standardized, weight, bias), tg.reshape(mean, [-1]), unbiased


@public
@recorded_whole
def _by_statistics(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Returns a batch, normalized by given statistics of its channels."""
    each = [x.shape[1], *[1] * (x.ndim - 2)]
    standardized = (widened(x) - tg.reshape(mean, each)) * tg.rsqrt(tg.reshape(variance, each) + eps)
    return _scaled(tg.cast(standardized, x.dtype), weight, bias)


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    if weight is None or bias is None:
        return x
    each = [x.shape[1], *[1] * (x.ndim - 2)]
    return x * tg.reshape(weight, each) + tg.reshape(bias, each)


@public
@recorded_whole
def _moved(statistic: Any, of_batch: Any, weight: Any) -> Any:
    """Returns a running statistic, moved toward that of a batch."""
    return (1 - weight) * statistic + weight * tg.cast(tg.stop_gradient(of_batch), statistic.dtype)


class BatchNorm1d(_BatchNorm):
    """Standardizes each channel of `[batch, channels]` or `[batch, channels, length]`.

    In training, `layer(x)` is `(x - mean) / sqrt(variance + eps) * weight + bias`, with the mean and the biased
    variance of the channel in this batch (S. Ioffe and C. Szegedy, Batch Normalization, 2015). It updates the running
    mean, and the running variance, which is unbiased, with the batch's:
    `(1 - momentum) * running + momentum * batch`, as in PyTorch. At inference, `tg.nn.inference(model)` uses the
    running statistics instead, and doesn't update them.

    Args:
        num_features: The number of channels.
        eps: Keeps the square root away from 0.
        momentum: The weight of a batch in the running statistics; None for averages over all batches so far.
        affine: Whether there are parameters.
        dtype: The dtype of the parameters and running statistics.
        init: The initial weight, instead of 1: an initializer, a number or an array, as for `tg.nn.param`.
        bias_init: The initial bias, instead of 0.

    Attributes:
        weight: Parameter of shape `[num_features]`, initially 1, or None.
        bias: Parameter of shape `[num_features]`, initially 0, or None.
        running_mean: Buffer of shape `[num_features]`, initially 0.
        running_var: Buffer of shape `[num_features]`, initially 1.
        num_batches_tracked: Buffer, an i32 scalar: the number of batches seen in training.

    Raises:
        ShapeError: `num_features` is not a positive integer.
        OptionError: `eps` is negative or not a number, or `momentum` not between 0 and 1.

    Example:
        >>> tg.nn.inference(tg.nn.BatchNorm1d(3)).initialized(0)(tg.ones((2, 3))).shape
        (2, 3)
    """

    spatial = (0, 1)


class BatchNorm2d(_BatchNorm):
    """Standardizes each channel of `[batch, channels, height, width]`.

    The formulas, arguments, attributes and errors are those of `BatchNorm1d`.

    Example:
        >>> tg.nn.inference(tg.nn.BatchNorm2d(3)).initialized(0)(tg.ones((2, 3, 4, 4))).shape
        (2, 3, 4, 4)
    """

    spatial = (2,)


class BatchNorm3d(_BatchNorm):
    """Standardizes each channel of `[batch, channels, depth, height, width]`.

    The formulas, arguments, attributes and errors are those of `BatchNorm1d`.

    Example:
        >>> tg.nn.inference(tg.nn.BatchNorm3d(3)).initialized(0)(tg.ones((2, 3, 2, 4, 4))).shape
        (2, 3, 2, 4, 4)
    """

    spatial = (3,)
