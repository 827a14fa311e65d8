"""Activation functions as layers, under PyTorch's names, for `Sequential`."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.nn.checks import channelled, check_in_place, positive
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


class InPlaceActivation(Activation):
    """A function as a layer that in PyTorch may overwrite its input: `inplace` is accepted, and makes no difference.

    Raises:
        OptionError: `inplace` is not True or False.
    """

    def __init__(self, inplace: bool = False):
        super().__init__()
        check_in_place(self, inplace)


class ReLU(InPlaceActivation):
    """`max(x, 0)`; see `tg.relu`.

    Example:
        >>> tg.nn.ReLU()([-1.0, 2.0])
        Array([0., 2.], dtype=f32)
    """

    function = "relu"


class Sigmoid(Activation):
    """`1 / (1 + exp(-x))`; see `tg.sigmoid`.

    Example:
        >>> tg.nn.Sigmoid()([0.0, 2.0])
        Array([0.5     , 0.880797], dtype=f32)
    """

    function = "sigmoid"


class Tanh(Activation):
    """The hyperbolic tangent; see `tg.tanh`.

    Example:
        >>> tg.nn.Tanh()([0.0, 1.0])
        Array([0.       , 0.7615942], dtype=f32)
    """

    function = "tanh"


class SELU(InPlaceActivation):
    """The self-normalizing `ELU`; see `tg.selu`.

    Example:
        >>> tg.nn.SELU()([-1.0, 2.0])
        Array([-1.1113307,  2.101402 ], dtype=f32)
    """

    function = "selu"


class SiLU(InPlaceActivation):
    """`x * sigmoid(x)`; see `tg.silu`.

    Example:
        >>> tg.nn.SiLU()([-1.0, 2.0])
        Array([-0.2689414,  1.761594 ], dtype=f32)
    """

    function = "silu"


class Mish(InPlaceActivation):
    """`x * tanh(softplus(x))`; see `tg.mish`.

    Example:
        >>> tg.nn.Mish()([-1.0, 2.0])
        Array([-0.30340147,  1.9439589 ], dtype=f32)
    """

    function = "mish"


class Softplus(Activation):
    """`log(1 + exp(beta * x)) / beta`, `x` if `beta * x` is above a threshold; see `tg.softplus`.

    Example:
        >>> tg.nn.Softplus()([0.0, 5.0])
        Array([0.6931472, 5.0067153], dtype=f32)
    """

    function, options = "softplus", ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float | None = None):
        super().__init__()
        self.beta, self.threshold = beta, threshold


class LogSigmoid(Activation):
    """The logarithm of the sigmoid; see `tg.log_sigmoid`.

    Example:
        >>> tg.nn.LogSigmoid()([-5.0, 0.0])
        Array([-5.0067153, -0.6931472], dtype=f32)
    """

    function = "log_sigmoid"


class Hardtanh(InPlaceActivation):
    """`x` clipped to the range from `min_val` to `max_val`; see `tg.hard_tanh`.

    Example:
        >>> tg.nn.Hardtanh()([-4.0, 0.5, 3.0])
        Array([-1. ,  0.5,  1. ], dtype=f32)
    """

    function, options = "hard_tanh", ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        self.min_val, self.max_val = min_val, max_val


class Hardsigmoid(InPlaceActivation):
    """`x / 6 + 1 / 2` clipped to the range from 0 to 1; see `tg.hard_sigmoid`.

    Example:
        >>> tg.nn.Hardsigmoid()([-4.0, 0.0, 1.5])
        Array([0.  , 0.5 , 0.75], dtype=f32)
    """

    function = "hard_sigmoid"


class Hardswish(InPlaceActivation):
    """`x * relu6(x + 3) / 6`; see `tg.hard_swish`.

    Example:
        >>> tg.nn.Hardswish()([-4.0, 0.0, 3.0])
        Array([0., 0., 3.], dtype=f32)
    """

    function = "hard_swish"


class ReLU6(InPlaceActivation):
    """`x` clamped to `[0, 6]`; see `tg.relu6`.

    Example:
        >>> tg.nn.ReLU6()([-1.0, 2.0, 8.0])
        Array([0., 2., 6.], dtype=f32)
    """

    function = "relu6"


class Softsign(Activation):
    """`x / (1 + |x|)`; see `tg.softsign`.

    Example:
        >>> tg.nn.Softsign()([-1.0, 3.0])
        Array([-0.5 ,  0.75], dtype=f32)
    """

    function = "softsign"


class Tanhshrink(Activation):
    """`x - tanh(x)`; see `tg.tanh_shrink`.

    Example:
        >>> tg.nn.Tanhshrink()([0.0, 2.0])
        Array([0.       , 1.0359724], dtype=f32)
    """

    function = "tanh_shrink"


class Hardshrink(Activation):
    """`x` where its magnitude exceeds `lambd`, else 0; see `tg.hard_shrink`.

    Example:
        >>> tg.nn.Hardshrink()([-1.0, 0.2, 2.0])
        Array([-1.,  0.,  2.], dtype=f32)
    """

    function, options = "hard_shrink", ("lambd",)

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd


class Softshrink(Activation):
    """`x` shrunk towards 0 by `lambd`, and 0 below it; see `tg.soft_shrink`.

    Example:
        >>> tg.nn.Softshrink()([-1.0, 0.2, 2.0])
        Array([-0.5,  0. ,  1.5], dtype=f32)
    """

    function, options = "soft_shrink", ("lambd",)

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd


class CELU(InPlaceActivation):
    """`x` where it is positive, else `alpha * (exp(x / alpha) - 1)`; see `tg.celu`.

    Example:
        >>> tg.nn.CELU()([-1.0, 2.0])
        Array([-0.63212055,  2.        ], dtype=f32)
    """

    function, options = "celu", ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        self.alpha = alpha


class GLU(Activation):
    """One half of `x` along the axis `dim` times the sigmoid of the other; see `tg.glu`.

    Example:
        >>> tg.nn.GLU()(tg.ones((2, 6))).shape
        (2, 3)
    """

    function, options = "glu", ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim


class LeakyReLU(InPlaceActivation):
    """`x` if it is positive, otherwise `negative_slope * x`; see `tg.leaky_relu`.

    Example:
        >>> tg.nn.LeakyReLU(0.1)([-1.0, 2.0])
        Array([-0.1,  2. ], dtype=f32)
    """

    function, options = "leaky_relu", ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__(inplace)
        self.negative_slope = negative_slope


class ELU(InPlaceActivation):
    """`x` if it is positive, otherwise `alpha * (exp(x) - 1)`; see `tg.elu`.

    Example:
        >>> tg.nn.ELU()([-1.0, 2.0])
        Array([-0.63212055,  2.        ], dtype=f32)
    """

    function, options = "elu", ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        self.alpha = alpha


class GELU(Activation):
    """`x` times the normal distribution's probability below `x`; `approximate` is "none" or "tanh". See `tg.gelu`.

    Example:
        >>> tg.nn.GELU("tanh")([-1.0, 2.0])
        Array([-0.158808 ,  1.9545978], dtype=f32)
    """

    function, options = "gelu", ("approximate",)

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate


class Softmax(Activation):
    """`exp(x) / sum(exp(x))` along the axis `dim`; see `tg.softmax`.

    Example:
        >>> tg.nn.Softmax()([[0.0, 0.0]])
        Array([[0.5, 0.5]], dtype=f32)
    """

    function, options = "softmax", ("dim",)

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim


class LogSoftmax(Activation):
    """The logarithm of `Softmax`; see `tg.log_softmax`.

    Example:
        >>> tg.nn.LogSoftmax()([[0.0, 0.0]])
        Array([[-0.6931472, -0.6931472]], dtype=f32)
    """

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

    Example:
        >>> tg.nn.PReLU().initialized(0)([-1.0, 2.0])
        Array([-0.25,  2.  ], dtype=f32)
    """

    def __init__(self, num_parameters: int = 1, init: Init = 0.25, dtype: object = "f32"):
        super().__init__()
        (num_parameters,) = positive("PReLU", num_parameters=num_parameters)
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
