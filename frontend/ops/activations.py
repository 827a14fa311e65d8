"""Activation functions of neural networks.

Each is finite, with finite derivatives, at every finite f32, and has its limits as values at infinities. In
compositions, the argument of an unselected branch is clamped, so that no infinite slope is multiplied by a cotangent of
0.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from tensorgrad.dialects.tg.elementwise import functions
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import (
    divide,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    negative,
    stop_gradient,
    where,
)
from tensorgrad.ops.elementwise.functions import erfc, expm1, isinf, sigmoid, tanh
from tensorgrad.ops.joining import narrow
from tensorgrad.ops.promotion import as_float, cast
from tensorgrad.ops.random import Key, gumbel
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import argmax, softmax
from tensorgrad.ops.shape import normalized_axis, positions
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def _gated(x: Any, limit: float) -> tuple[Tensor, Tensor]:
    """Returns `x` clamped below at `-limit`, and that also clamped above: the factor and the argument in `x * gate(x)`.

    Beyond the limit the gate is 0 or 1 in every dtype, and its slope is never multiplied by an infinity.
    """
    tensor = as_float(x)
    factor = where(less(tensor, -limit), -limit, tensor)
    return factor, where(greater(factor, limit), limit, factor)


@recorded_whole
def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """`x` where it is positive, else `negative_slope * x`; its derivative at 0 is `negative_slope`.

    Example:
        >>> tg.leaky_relu([-1.0, 2.0])
        Array([-0.01,  2.  ], dtype=f32)
    """
    tensor = as_float(x)
    return where(greater(tensor, 0), tensor, multiply(tensor, negative_slope))


@recorded_whole
def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`; its derivative at 0 is `alpha`.

    Example:
        >>> tg.elu([-1.0, 2.0])
        Array([-0.63212055,  2.        ], dtype=f32)
    """
    tensor = as_float(x)
    positive = greater(tensor, 0)
    return where(positive, tensor, multiply(expm1(where(positive, 0, tensor)), alpha))


@recorded_whole
def selu(x: TensorLike) -> Tensor:
    """Returns the self-normalizing `elu`: scale 1.0507, alpha 1.6733.

    Example:
        >>> tg.selu([-1.0, 2.0])
        Array([-1.1113307,  2.101402 ], dtype=f32)
    """
    return multiply(elu(x, 1.6732632423543772), 1.0507009873554805)


@recorded_whole
def gelu(x: TensorLike, approximate: str = "none") -> Tensor:
    """`x` times the normal distribution's probability below `x`.

    Args:
        x: A tensor.
        approximate: "none" for the exact form, by erfc, to avoid cancellation in the tail; "tanh" for
            `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`, computed as a sigmoid for the same reason.

    Raises:
        OptionError: `approximate` is neither.

    Example:
        >>> tg.gelu([-1.0, 2.0])
        Array([-0.15865526,  1.9544997 ], dtype=f32)
    """
    factor, gate = _gated(x, 50.0)
    if approximate == "none":
        return multiply(multiply(factor, 0.5), erfc(multiply(gate, -math.sqrt(0.5))))
    if approximate == "tanh":
        cubic = multiply(gate, multiply(multiply(gate, gate), 0.044715) + 1.0)
        return multiply(factor, sigmoid(multiply(cubic, 2 * math.sqrt(2 / math.pi))))
    raise OptionError(f'gelu: approximate must be "none" or "tanh", not {approximate!r}')


@recorded_whole
def silu(x: TensorLike) -> Tensor:
    """`x * sigmoid(x)`.

    Example:
        >>> tg.silu([-1.0, 2.0])
        Array([-0.2689414,  1.761594 ], dtype=f32)
    """
    factor, gate = _gated(x, 1000.0)
    return multiply(factor, sigmoid(gate))


@recorded_whole
def softplus(x: TensorLike, beta: float = 1.0, threshold: float | None = None) -> Tensor:
    """`log(1 + exp(beta * x)) / beta`, without overflow; its derivative is the sigmoid of `beta * x`, 0.5 at 0.

    Args:
        x: A tensor; integers and booleans are converted to f32.
        beta: The sharpness of the bend.
        threshold: The result is `x` if `beta * x` is above it. PyTorch's default is 20, where f32 shows no difference;
            None, which is exact everywhere, means no threshold.

    Raises:
        OptionError: `beta` is 0.

    Example:
        >>> tg.softplus([0.0, 5.0])
        Array([0.6931472, 5.0067153], dtype=f32)
    """
    tensor = as_float(x)
    if not beta:
        raise OptionError("softplus: beta is 0")
    if beta == 1 and threshold is None:
        return emit(functions.SoftplusOp, [tensor])
    scaled, limit = multiply(tensor, beta), 1000.0 if threshold is None else min(threshold, 1000.0)
    beyond = greater(scaled, limit)
    bent = emit(functions.SoftplusOp, [where(beyond, 0.0, scaled)])
    return where(beyond, tensor, divide(bent, beta))


@recorded_whole
def log_sigmoid(x: TensorLike) -> Tensor:
    """Returns the logarithm of the sigmoid, `-softplus(-x)`, without overflow.

    Example:
        >>> tg.log_sigmoid([-5.0, 0.0])
        Array([-5.0067153, -0.6931472], dtype=f32)
    """
    return negative(softplus(negative(as_float(x))))


@recorded_whole
def mish(x: TensorLike) -> Tensor:
    """`x * tanh(softplus(x))`.

    Example:
        >>> tg.mish([-1.0, 2.0])
        Array([-0.30340147,  1.9439589 ], dtype=f32)
    """
    factor, gate = _gated(x, 1000.0)
    return multiply(factor, tanh(softplus(gate)))


@recorded_whole
def hard_tanh(x: TensorLike, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`x` clamped to `[min_val, max_val]`; its derivative at both bounds is 0.

    Example:
        >>> tg.hard_tanh([-4.0, 0.5, 3.0])
        Array([-1. ,  0.5,  1. ], dtype=f32)
    """
    tensor = as_float(x)
    return where(less_equal(tensor, min_val), min_val, where(greater_equal(tensor, max_val), max_val, tensor))


@recorded_whole
def hard_sigmoid(x: TensorLike) -> Tensor:
    """`x / 6 + 1 / 2` clamped to `[0, 1]`; its derivative is 0 from 3 on, and up to -3.

    Example:
        >>> tg.hard_sigmoid([-4.0, 0.0, 1.5])
        Array([0.  , 0.5 , 0.75], dtype=f32)
    """
    tensor = as_float(x)
    line = multiply(tensor, 1 / 6) + 0.5
    return where(less_equal(tensor, -3), 0, where(greater_equal(tensor, 3), 1, line))


@recorded_whole
def relu6(x: TensorLike) -> Tensor:
    """`x` clamped to `[0, 6]`; its derivative at both bounds is 0.

    Example:
        >>> tg.relu6([-1.0, 2.0, 8.0])
        Array([0., 2., 6.], dtype=f32)
    """
    tensor = as_float(x)
    return where(less_equal(tensor, 0), 0, where(greater_equal(tensor, 6), 6, tensor))


@recorded_whole
def hard_swish(x: TensorLike) -> Tensor:
    """`x * relu6(x + 3) / 6`; its derivative at -3 is 0, at 3 it is 1.

    A. Howard et al., Searching for MobileNetV3, 2019.

    Example:
        >>> tg.hard_swish([-4.0, 0.0, 3.0])
        Array([0., 0., 3.], dtype=f32)
    """
    tensor = as_float(x)
    inside = where(less_equal(tensor, -3), 0, where(greater_equal(tensor, 3), 0, tensor))
    curve = multiply(multiply(inside, inside + 3.0), 1 / 6)
    return where(less_equal(tensor, -3), 0, where(greater_equal(tensor, 3), tensor, curve))


@recorded_whole
def softsign(x: TensorLike) -> Tensor:
    """`x / (1 + |x|)`, which is -1 and 1 at the infinities.

    Example:
        >>> tg.softsign([-1.0, 3.0])
        Array([-0.5 ,  0.75], dtype=f32)
    """
    tensor = as_float(x)
    magnitude = absolute(tensor)
    is_large = isinf(magnitude)
    held = where(is_large, 0, tensor)
    return where(is_large, where(less(tensor, 0), -1, 1), divide(held, absolute(held) + 1.0))


@recorded_whole
def celu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """`x` where it is positive, else `alpha * (exp(x / alpha) - 1)`, whose derivative is continuous.

    J. T. Barron, Continuously Differentiable Exponential Linear Units, 2017.

    Raises:
        OptionError: `alpha` is 0.

    Example:
        >>> tg.celu([-1.0, 2.0])
        Array([-0.63212055,  2.        ], dtype=f32)
    """
    if not alpha:
        raise OptionError("celu: alpha is 0")
    tensor = as_float(x)
    positive = greater(tensor, 0)
    return where(positive, tensor, multiply(expm1(multiply(where(positive, 0, tensor), 1 / alpha)), alpha))


@recorded_whole
def hard_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    """`x` where its magnitude exceeds the threshold, else 0.

    Example:
        >>> tg.hard_shrink([-1.0, 0.2, 2.0])
        Array([-1.,  0.,  2.], dtype=f32)
    """
    tensor = as_float(x)
    return where(less_equal(absolute(tensor), threshold), 0, tensor)


@recorded_whole
def soft_shrink(x: TensorLike, threshold: float = 0.5) -> Tensor:
    """`x` shrunk towards 0 by the threshold, and 0 below it: the proximal operator of the absolute value.

    Raises:
        OptionError: The threshold is negative.

    Example:
        >>> tg.soft_shrink([-1.0, 0.2, 2.0])
        Array([-0.5,  0. ,  1.5], dtype=f32)
    """
    if not threshold >= 0:
        raise OptionError(f"soft_shrink: the threshold must not be negative, got {threshold!r}")
    tensor = as_float(x)
    above, below = greater(tensor, threshold), less(tensor, -threshold)
    moved = where(above, tensor - threshold, tensor + threshold)
    return where(above, moved, where(below, moved, multiply(tensor, 0)))


@recorded_whole
def tanh_shrink(x: TensorLike) -> Tensor:
    """`x - tanh(x)`.

    Example:
        >>> tg.tanh_shrink([0.0, 2.0])
        Array([0.       , 1.0359724], dtype=f32)
    """
    tensor = as_float(x)
    return tensor - tanh(tensor)


@recorded_whole
def glu(x: TensorLike, axis: int = -1) -> Tensor:
    """`a * sigmoid(b)`, where `a` and `b` are the halves of `x` along `axis`.

    Y. N. Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017.

    Raises:
        ShapeError: There is no such axis, or its extent is odd.

    Example:
        >>> tg.glu([[1.0, 2.0, 0.0, 100.0]])
        Array([[0.5, 2. ]], dtype=f32)
    """
    tensor = as_float(x)
    place = normalized_axis(axis, tensor.ndim, "glu")
    half, rest = divmod(tensor.shape[place], 2)
    if rest:
        raise ShapeError(f"glu: axis {place} of {tensor.shape} has no two equal halves")
    return multiply(narrow(tensor, place, 0, half), sigmoid(narrow(tensor, place, half, half)))


def gumbel_softmax(
    logits: TensorLike, key: Key, temperature: TensorLike = 1.0, hard: bool = False, axis: int = -1
) -> Tensor:
    """Returns random points of the simplex that concentrate at its corners: differentiable samples of categories.

    `softmax((logits + g) / temperature)`, where g is Gumbel noise (`tg.random.gumbel`): the largest element is at index
    i with the probability `softmax(logits)[i]`, whatever the temperature; the lower that is, the closer is the result
    to one-hot, and the larger are the gradients. E. Jang, S. Gu and B. Poole, Categorical Reparameterization with
    Gumbel-Softmax, 2017; C. Maddison, A. Mnih and Y. Teh, The Concrete Distribution, 2017.

    Args:
        logits: Logarithms of probabilities, up to a constant along `axis`: floats of any shape.
        key: A key of `tg.random`; its leading axes, if any, come before those of the logits.
        temperature: A positive number, or a tensor that broadcasts to the logits; PyTorch's `tau`.
        hard: Whether to return exactly one-hot vectors, with the derivatives of the soft ones (the straight-through
            estimator).
        axis: The axis of the categories.

    Returns:
        A tensor of the dtype of the logits, and their shape, after the key's leading axes.

    Raises:
        OptionError: `key` is not a key, or the temperature is a number that is not positive and finite.
        ShapeError: The axis is out of range.

    Example:
        >>> logits = tg.log(tg.array([0.1, 0.2, 0.7]))
        >>> tg.gumbel_softmax(logits, tg.random.key(0), temperature=0.5, hard=True)
        Array([0., 1., 0.], dtype=f32)
    """
    scores = as_float(logits)
    place = normalized_axis(axis, scores.ndim, "gumbel_softmax") - scores.ndim
    if isinstance(temperature, Real) and not 0 < float(temperature) < math.inf:
        raise OptionError(f"gumbel_softmax: temperature must be positive and finite, got {temperature!r}")
    soft = softmax(divide(scores + cast(gumbel(key, scores.shape), scores.dtype), temperature), place)
    if not hard:
        return soft
    largest = equal(positions(soft.shape, soft.ndim + place, NAMES["i32"]), argmax(soft, place, keepdims=True))
    # The difference is exactly 0, so that the sum is exactly one-hot; its derivative is that of its first part.
    return cast(largest, soft.dtype) + (soft - stop_gradient(soft))
