"""Activation functions as layers, under PyTorch's names, for `Sequential`."""

from __future__ import annotations

from typing import Any

import tensorgrad as tg
from tensorgrad.initializers import constant
from tensorgrad.nn.checks import channelled, positive
from tensorgrad.nn.module import Module, param


class ReLU(Module):
    """`max(x, 0)`; see `tg.relu`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.relu(x)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`; see `tg.sigmoid`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent; see `tg.tanh`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.tanh(x)


class SELU(Module):
    """The self-normalizing `ELU`; see `tg.selu`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.selu(x)


class SiLU(Module):
    """`x * sigmoid(x)`; see `tg.silu`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.silu(x)


class Mish(Module):
    """`x * tanh(softplus(x))`; see `tg.mish`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.mish(x)


class Softplus(Module):
    """`log(1 + exp(x))`; see `tg.softplus`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.softplus(x)


class LogSigmoid(Module):
    """The logarithm of the sigmoid; see `tg.log_sigmoid`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.log_sigmoid(x)


class Hardtanh(Module):
    """`x` held between -1 and 1; see `tg.hard_tanh`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.hard_tanh(x)


class Hardsigmoid(Module):
    """`x / 6 + 1 / 2` held between 0 and 1; see `tg.hard_sigmoid`."""

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.hard_sigmoid(x)


class LeakyReLU(Module):
    """`x` where it is positive, else `negative_slope * x`."""

    def __init__(self, negative_slope: float = 0.01):
        super().__init__()
        self.negative_slope = negative_slope

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.leaky_relu(x, self.negative_slope)


class ELU(Module):
    """`x` where it is positive, else `alpha * (exp(x) - 1)`."""

    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self.alpha = alpha

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element."""
        return tg.elu(x, self.alpha)


class GELU(Module):
    """`x` times the normal distribution's probability below `x`; `approximate` is "none" or "tanh"."""

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def __call__(self, x: Any) -> Any:
        """Applies the function, element by element.

        Raises:
            OptionError: There is no such approximation.
        """
        return tg.gelu(x, self.approximate)


class PReLU(Module):
    """`x` where it is positive, else a learned multiple of it.

    Args:
        num_parameters: 1 for one slope, or the number of channels of `[batch, channels, ...]`.
        init: What the slopes start from.
        dtype: Of the parameter.

    Attributes:
        weight: Parameter of shape `[num_parameters]`.

    Raises:
        ShapeError: `num_parameters` is not a positive integer.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: object = "f32"):
        super().__init__()
        positive("PReLU", num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = param((num_parameters,), init=constant(init), dtype=dtype)

    def __call__(self, x: Any) -> Any:
        """Applies the function.

        Raises:
            ShapeError: There are several slopes, and `x` has other channels.
        """
        slope: Any = self.weight
        if self.num_parameters > 1:
            x = channelled("PReLU", x, self.num_parameters, None)
            slope = tg.reshape(slope, [-1, *[1] * (x.ndim - 2)])
        return tg.where(tg.greater(x, 0), x, tg.multiply(slope, x))


class Softmax(Module):
    """`exp(x) / sum(exp(x))` along the axis `dim`."""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def __call__(self, x: Any) -> Any:
        """Applies the function.

        Raises:
            ShapeError: There is no such axis.
        """
        return tg.softmax(x, self.dim)


class LogSoftmax(Module):
    """The logarithm of `Softmax`."""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def __call__(self, x: Any) -> Any:
        """Applies the function.

        Raises:
            ShapeError: There is no such axis.
        """
        return tg.log_softmax(x, self.dim)
