"""Losses of numbers, with PyTorch's formulas, and similarities."""

from __future__ import annotations

import math

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import abs as absolute
from tensorgrad.ops.elementwise.arithmetic import (
    divide,
    equal,
    greater,
    maximum,
    multiply,
    square,
    stop_gradient,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.composed import xlogy
from tensorgrad.ops.elementwise.functions import exp, log
from tensorgrad.ops.losses import REDUCTIONS, alike, check_reduction, reduced_by, weighed, without_dropped
from tensorgrad.ops.promotion import as_float, common
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import norm, sum
from tensorgrad.ops.shape import normalized_axis
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


@recorded_whole
def mse(prediction: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """Returns the squared error, `(prediction - target) ** 2`.

    Args:
        prediction: A tensor.
        target: A tensor of the same shape: no broadcasting.
        reduction: "mean", "sum", or "none" for the error of each element.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.mse([1.0, -2.0], [0.0, 0.0])
        Array(2.5, dtype=f32)
    """
    left, right = alike("mse", prediction, target)
    return reduced_by("mse", lambda: square(subtract(left, right)), reduction)


@recorded_whole
def l1(prediction: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """Returns the absolute error, `abs(prediction - target)`; its derivative where they are equal is 0.

    Args:
        prediction: A tensor.
        target: A tensor of the same shape.
        reduction: "mean", "sum", or "none" for the error of each element.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.l1([1.0, -2.0], [0.0, 0.0])
        Array(1.5, dtype=f32)
    """
    left, right = alike("l1", prediction, target)
    return reduced_by("l1", lambda: absolute(subtract(left, right)), reduction)


@recorded_whole
def huber(prediction: TensorLike, target: TensorLike, reduction: str = "mean", *, delta: float = 1.0) -> Tensor:
    """Half the squared error if it is within `delta`, and `delta * (abs(error) - delta / 2)` beyond.

    Args:
        prediction: A tensor.
        target: A tensor of the same shape.
        reduction: "mean", "sum", or "none" for the loss of each element.
        delta: The error at which the parabola becomes a line.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown, or `delta` is not positive.

    Example:
        >>> tg.huber([0.5, 3.0], [0.0, 0.0], "none")
        Array([0.125, 2.5  ], dtype=f32)
    """
    left, right = alike("huber", prediction, target)
    if not 0 < delta < math.inf:
        raise OptionError(f"huber: delta must be positive and finite, not {delta!r}")

    def losses() -> Tensor:
        error = subtract(left, right)
        size = absolute(error)
        line = multiply(size - delta / 2, delta)
        beyond = greater(size, delta)
        return where(beyond, line, multiply(square(where(beyond, 0, error)), 0.5))

    return reduced_by("huber", losses, reduction)


@recorded_whole
def kl_div(input: TensorLike, target: TensorLike, reduction: str = "mean", *, log_target: bool = False) -> Tensor:
    """Returns the Kullback-Leibler divergence, `target * (log(target) - input)`, element by element.

    Args:
        input: Log-probabilities.
        target: Probabilities of the same shape, or their logarithms; probability 0 contributes 0, whatever the input.
        reduction: "mean" over all elements, "batchmean" for the sum divided by the first extent (the divergence
            itself), "sum", or "none".
        log_target: Whether `target` holds logarithms.

    Raises:
        ShapeError: The shapes differ, or there is no first axis for "batchmean".
        OptionError: The reduction is unknown.

    Example:
        >>> tg.kl_div(tg.log([0.5, 0.5]), [1.0, 0.0], "sum")
        Array(0.6931472, dtype=f32)
    """
    left, right = alike("kl_div", input, target)
    check_reduction("kl_div", reduction, ("batchmean",))
    if reduction == "batchmean" and not left.ndim:
        raise ShapeError("kl_div: batchmean needs a first axis")
    if log_target:
        share = exp(right)
        losses = multiply(share, subtract(without_dropped(share, right), without_dropped(share, left)))
    else:
        losses = subtract(xlogy(right, right), weighed(right, left))
    if reduction == "batchmean":
        return divide(sum(losses), float(left.shape[0]))
    return REDUCTIONS[reduction](losses)


@recorded_whole
def cosine_similarity(x: TensorLike, y: TensorLike, axis: int = -1, eps: float = 1e-8) -> Tensor:
    """Returns the cosine of the angle between vectors along `axis`; 0 where one is zero.

    Args:
        x: Vectors; numbers that are not floats become f32.
        y: Vectors that broadcast against `x`, before anything is summed.
        axis: The axis of the vectors in the joint shape.
        eps: The minimum length that a vector is divided by.

    Raises:
        ShapeError: The shapes don't broadcast, or there is no such axis.
        DTypeError: They have no common dtype.
        OptionError: `eps` is negative.

    Example:
        >>> tg.cosine_similarity([[1.0, 0.0], [1.0, 1.0]], [[0.0, 2.0], [3.0, 3.0]])
        Array([0., 1.], dtype=f32)
    """
    if not eps >= 0:
        raise OptionError(f"cosine_similarity: eps must not be negative, got {eps!r}")
    left, right = (as_float(part) for part in common("cosine_similarity", x, y))
    units = [divide(part, maximum(norm(part, 2, axis, keepdims=True), eps)) for part in (left, right)]
    return sum(multiply(*units), normalized_axis(axis, left.ndim, "cosine_similarity"))


@recorded_whole
def gaussian_nll(
    mean: TensorLike,
    target: TensorLike,
    variance: TensorLike,
    reduction: str = "mean",
    *,
    full: bool = False,
    eps: float = 1e-6,
) -> Tensor:
    """Returns `(log(v) + (target - mean)**2 / v) / 2`, where `v` is the variance, clamped at `eps`.

    D. A. Nix and A. S. Weigend, Estimating the mean and variance of the target probability distribution, 1994.

    Args:
        mean: The expected values.
        target: A tensor of the same shape.
        variance: Broadcasts to the shape; must not be negative. The derivative ignores the clamping at `eps`.
        reduction: "mean", "sum", or "none" for the loss of each element.
        full: Whether `log(2 * pi) / 2` is added.
        eps: The minimum variance.

    Raises:
        ShapeError: Shapes differ, or the variance doesn't broadcast.
        OptionError: The reduction is unknown, or `eps` is not positive.

    Example:
        >>> tg.gaussian_nll([1.0, 2.0], [1.0, 4.0], [1.0, 4.0], "none")
        Array([0.       , 1.1931472], dtype=f32)
    """
    what = "gaussian_nll"
    left, right = alike(what, mean, target)
    spread = as_float(variance)
    if (left * spread).shape != left.shape:
        raise ShapeError(f"{what}: a variance of shape {spread.shape} does not broadcast to {left.shape}")
    if not eps > 0:
        raise OptionError(f"{what}: eps must be positive, got {eps!r}")
    # As in PyTorch: the value is clamped, its derivative isn't.
    held = spread + stop_gradient(subtract(maximum(spread, eps), spread))

    def losses() -> Tensor:
        terms = multiply(log(held) + divide(square(subtract(left, right)), held), 0.5)
        return terms + 0.5 * math.log(2 * math.pi) if full else terms

    return reduced_by(what, losses, reduction)


@recorded_whole
def poisson_nll(
    prediction: TensorLike,
    target: TensorLike,
    reduction: str = "mean",
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
) -> Tensor:
    """Returns the negative log-likelihood of counts, `rate - target * log(rate)`.

    Args:
        prediction: Logarithms of rates, or rates.
        target: Counts of the same shape.
        reduction: "mean", "sum", or "none" for the loss of each element.
        log_input: Whether `prediction` holds logarithms.
        full: Whether Stirling's approximation of `log(target!)` is added where the target is above 1.
        eps: Added to rates in the logarithm.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.poisson_nll([0.0, 1.0], [1.0, 2.0], "none")
        Array([1.      , 0.718282], dtype=f32)
    """
    left, right = alike("poisson_nll", as_float(prediction), as_float(target))

    def losses() -> Tensor:
        if log_input:
            # An infinite rate outweighs its logarithm, a count of 0 that of a rate of 0.
            result = subtract(exp(left), weighed(right, where(equal(left, math.inf), 0, left)))
        else:
            result = subtract(left, xlogy(right, left + eps))
        if not full:
            return result
        large = greater(right, 1)
        count = where(large, right, 1.0)
        stirling = subtract(multiply(count, log(count)), count) + multiply(log(multiply(count, 2 * math.pi)), 0.5)
        return result + where(large, stirling, 0)

    return reduced_by("poisson_nll", losses, reduction)
