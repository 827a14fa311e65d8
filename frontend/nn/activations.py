"""Activation functions as layers, under PyTorch's names, for `Sequential`."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.nn.checks import channelled, positive
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init, param


class Activation(Module):
    """A function as a layer.

    Attributes:
        function: The function's name in `tg`.
        options: The attributes of the layer that are passed to the function, after the tensor.
    """

    function: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the function."""
        return getattr(tg, self.function)(x, *(getattr(self, option) for option in self.options))


class ReLU(Activation):
    """`max(x, 0)`; see `tg.relu`."""

    function = "relu"


class Sigmoid(Activation):
    """`1 / (1 + exp(-x))`; see `tg.sigmoid`."""

    function = "sigmoid"


class Tanh(Activation):
    """The hyperbolic tangent; see `tg.tanh`."""

    function = "tanh"


class SELU(Activation):
    """The self-normalizing `ELU`; see `tg.selu`."""

    function = "selu"


class SiLU(Activation):
    """`x * sigmoid(x)`; see `tg.silu`."""

    function = "silu"


class Mish(Activation):
    """`x * tanh(softplus(x))`; see `tg.mish`."""

    function = "mish"


class Softplus(Activation):
    """`log(1 + exp(beta * x)) / beta`, `x` if `beta * x` is above a threshold; see `tg.softplus`."""

    function, options = "softplus", ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float | None = None):
        super().__init__()
        self.beta, self.threshold = beta, threshold


class LogSigmoid(Activation):
    """The logarithm of the sigmoid; see `tg.log_sigmoid`."""

    function = "log_sigmoid"


class Hardtanh(Activation):
    """`x` clipped to the range from -1 to 1; see `tg.hard_tanh`."""

    function = "hard_tanh"


class Hardsigmoid(Activation):
    """`x / 6 + 1 / 2` clipped to the range from 0 to 1; see `tg.hard_sigmoid`."""

    function = "hard_sigmoid"


class Hardswish(Activation):
    """`x * relu6(x + 3) / 6`; see `tg.hard_swish`."""

    function = "hard_swish"


class ReLU6(Activation):
    """`x` clamped to `[0, 6]`; see `tg.relu6`."""

    function = "relu6"


class Softsign(Activation):
    """`x / (1 + |x|)`; see `tg.softsign`."""

    function = "softsign"


class Tanhshrink(Activation):
    """`x - tanh(x)`; see `tg.tanh_shrink`."""

    function = "tanh_shrink"


class Hardshrink(Activation):
    """`x` where its magnitude exceeds `lambd`, else 0; see `tg.hard_shrink`."""

    function, options = "hard_shrink", ("lambd",)

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd


class Softshrink(Activation):
    """`x` shrunk towards 0 by `lambd`, and 0 below it; see `tg.soft_shrink`."""

    function, options = "soft_shrink", ("lambd",)

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd


class CELU(Activation):
    """`x` where it is positive, else `alpha * (exp(x / alpha) - 1)`; see `tg.celu`."""

    function, options = "celu", ("alpha",)

    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self.alpha = alpha


class GLU(Activation):
    """One half of `x` along the axis `dim` times the sigmoid of the other; see `tg.glu`."""

    function, options = "glu", ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim


class LeakyReLU(Activation):
    """`x` if it is positive, otherwise `negative_slope * x`; see `tg.leaky_relu`."""

    function, options = "leaky_relu", ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01):
        super().__init__()
        self.negative_slope = negative_slope


class ELU(Activation):
    """`x` if it is positive, otherwise `alpha * (exp(x) - 1)`; see `tg.elu`."""

    function, options = "elu", ("alpha",)

    def __init__(self, alpha: float = 1.0):
        super().__init__()
        self.alpha = alpha


class GELU(Activation):
    """`x` times the normal distribution's probability below `x`; `approximate` is "none" or "tanh". See `tg.gelu`."""

    function, options = "gelu", ("approximate",)

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate


class Softmax(Activation):
    """`exp(x) / sum(exp(x))` along the axis `dim`; see `tg.softmax`."""

    function, options = "softmax", ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim


class LogSoftmax(Activation):
    """The logarithm of `Softmax`; see `tg.log_softmax`."""

    function, options = "log_softmax", ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim


class PReLU(Module):
    """`x` if it is positive, otherwise a learned multiple of it.

    Args:
        num_parameters: 1 for one slope, or the number of channels of `[batch, channels, ...]`.
        init: The initial slopes: a number, an initializer or an array, as for `tg.nn.param`.
        dtype: The dtype of the parameter.

    Attributes:
        weight: Parameter of shape `[num_parameters]`.

    Raises:
        ShapeError: `num_parameters` is not a positive integer.
    """

    def __init__(self, num_parameters: int = 1, init: Init = 0.25, dtype: object = "f32"):
        super().__init__()
        positive("PReLU", num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = param((num_parameters,), init, dtype)

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the function.

        Raises:
            ShapeError: There are several slopes, and `x` has a different number of channels.
        """
        slope: Any = self.weight
        if self.num_parameters > 1:
            x = channelled("PReLU", x, self.num_parameters, None)
            slope = tg.reshape(slope, [-1, *[1] * (x.ndim - 2)])
        return tg.where(tg.greater(x, 0), x, tg.multiply(slope, x))
