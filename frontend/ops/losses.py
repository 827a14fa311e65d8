"""Losses of classes and probabilities, with PyTorch's formulas; classes are along the last axis.

Those of numbers are in `regression_losses`, of unknown alignments in `alignments`, with margins in `margins`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import finfo

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import integer
from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops.activations import softplus
from tensorgrad.ops.elementwise.arithmetic import (
    divide,
    equal,
    greater_equal,
    logical_and,
    maximum,
    multiply,
    negative,
    not_equal,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.functions import isinf, log
from tensorgrad.ops.promotion import as_float, as_tensor, as_tensors, cast
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import log_softmax, logsumexp, mean, sum
from tensorgrad.ops.shape import as_indices, check_range, expand_dims, squeeze
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import SHORT, is_float, promote
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit
from tensorgrad.transforms.custom_vjp import custom_vjp

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"mean": mean, "sum": sum, "none": lambda x: x}
"""The reductions of the examples' losses."""


def check_reduction(what: str, reduction: str, also: tuple[str, ...] = ()) -> None:
    """Checks the name of a reduction.

    Raises:
        OptionError: It is unknown.
    """
    allowed = (*REDUCTIONS, *also)
    if reduction not in allowed:
        raise OptionError(f"{what}: reduction must be one of {', '.join(allowed)}, not {reduction!r}")


def reduced_by(what: str, losses: Callable[[], Tensor], reduction: str) -> Tensor:
    """Checks the reduction, then computes losses and reduces them.

    Raises:
        OptionError: There is no such reduction.
    """
    check_reduction(what, reduction)
    return REDUCTIONS[reduction](losses())


def alike(what: str, x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    """Returns two tensors of the same shape, with integers and booleans, whose differences could wrap, as floats.

    Raises:
        ShapeError: The shapes differ.
    """
    left, right = as_tensors(x, y)
    if not (is_float(left.dtype) or is_float(right.dtype)):
        left, right = as_float(left), as_float(right)
    if left.shape != right.shape:
        raise ShapeError(f"{what}: shapes {left.shape} and {right.shape} differ")
    return left, right


def without_dropped(shares: Any, x: Tensor) -> Tensor:
    """Returns `x`, but 0 where it is infinite and its share is 0, so that its term of a loss contributes nothing."""
    return where(logical_and(equal(shares, 0), isinf(x)), 0, x)


def weighed(shares: Any, x: Tensor) -> Tensor:
    """`shares * x`, and 0 where a share is 0, even if `x` is infinite."""
    return multiply(shares, without_dropped(shares, x))


# Classes


def picked(what: str, scores: Tensor, labels: Tensor) -> Tensor:
    """Returns the score of each label; NaN if the label is not a class."""
    check_range(labels, 0, scores.shape[-1] - 1, f"{what}: labels", is_label=True)
    places = expand_dims(as_indices(labels, what), -1)
    # The op itself, not take_along_axis: a negative label is invalid rather than counted from the end.
    axis = integer(scores.ndim - 1)
    return squeeze(emit(index.TakeAlongAxisOp, [scores, places], axis=axis), -1)


def _class_weights(what: str, weight: Any, scores: Tensor) -> Tensor | None:
    if weight is None:
        return None
    tensor = as_tensor(weight)
    if tensor.shape != scores.shape[-1:]:
        raise ShapeError(f"{what}: weight has shape {tensor.shape}, expected {scores.shape[-1:]}")
    return cast(tensor, scores.dtype)


class _Labels:
    """Integer labels with their weights: that of the class, and 0 for ignored labels."""

    def __init__(self, labels: Tensor, weight: Tensor | None, ignore_index: int | None):
        self.kept = None if ignore_index is None else not_equal(labels, ignore_index)
        self.places = as_indices(labels if self.kept is None else where(self.kept, labels, 0), "labels")
        self.weights = None
        if weight is not None:
            self.weights = self._dropped(emit(index.TakeOp, [weight, self.places], axis=integer(0)))

    def _dropped(self, x: Tensor) -> Tensor:
        return x if self.kept is None else where(self.kept, x, 0)

    def weighted(self, losses: Tensor) -> Tensor:
        """Returns the losses times the labels' weights, 0 for ignored labels."""
        return self._dropped(losses if self.weights is None else weighed(self.weights, losses))

    def reduced(self, losses: Tensor, reduction: str) -> Tensor:
        """Returns the weighted losses, reduced; a mean is over the weights of the labels that are not ignored."""
        if reduction != "mean" or (self.weights is None and self.kept is None):
            return REDUCTIONS[reduction](losses)
        weights = self.weights
        if weights is None:
            assert self.kept is not None
            weights = cast(self.kept, losses.dtype)
        return divide(sum(losses), sum(weights))


def check_labels(what: str, scores: Tensor, labels: Tensor) -> None:
    """Checks that there are float scores of classes along the last axis, and an integer label for each row.

    Raises:
        DTypeError: The dtypes are different.
        ShapeError: The labels' shape is not that of the scores without the last axis.
    """
    if not is_float(scores.dtype) or labels.dtype.kind not in "iu":
        are_floats = is_float(scores.dtype) and is_float(labels.dtype)
        raise DTypeError(
            f"{what}: takes float logits and integer labels, not {SHORT[scores.dtype]} and {SHORT[labels.dtype]}"
            + ('; inputs={..., "y": tg.spec(8, "i32")} declares labels, labels.astype("i32") converts' * are_floats)
        )
    if scores.shape[:-1] != labels.shape or not scores.shape:
        are_second = labels.ndim > 1 and scores.shape[:1] + scores.shape[2:] == labels.shape
        raise ShapeError(
            f"{what}: logits of shape {scores.shape} need labels of shape {scores.shape[:-1]}, not {labels.shape}"
            + ("; classes are the last axis here: tg.moveaxis(logits, 1, -1)" if are_second else "")
        )


def _ignored(what: str, labels: Tensor, ignore_index: int | None) -> int | None:
    """Returns the label that is ignored, if there is one, as a Python integer that a label can be."""
    if ignore_index is None:
        return None
    limits, ignored = np.iinfo(labels.dtype), checked_integer(ignore_index, f"{what}: ignore_index")
    if not limits.min <= ignored <= limits.max:
        raise OptionError(f"{what}: no {SHORT[labels.dtype]} label can be {ignored}, ignore_index")
    return ignored


@recorded_whole
def cross_entropy(
    logits: TensorLike,
    labels: TensorLike,
    reduction: str = "mean",
    *,
    weight: TensorLike | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Returns the negative log-likelihood of labels or probabilities under `softmax(logits)`, without overflow.

    Args:
        logits: Unnormalized log-probabilities, `[..., classes]`.
        labels: Integers of shape `[...]`; one outside `[0, classes)` is an error if its value is known or if the
            labels are an input of a compiled training, and else gives NaN, for this label only. Or floats of shape
            `[..., classes]`: the probability of each class.
        reduction: "mean", "sum", or "none" for a loss of each label. The mean of integer labels is over the weights
            of those that are not ignored: NaN if there are none. That of probabilities is over their number.
        weight: The weight of each class, `[classes]`; 1 by default.
        ignore_index: The integer label to ignore, or None (PyTorch's default is -100).
        label_smoothing: The share of each label that is distributed evenly over all classes.

    A class of probability or weight 0 contributes nothing, even if its logit is `-inf`.

    Raises:
        DTypeError: The logits are not floats, or the labels are not integers.
        ShapeError: The labels' shape matches neither form, a known label is not a class, or the weights' shape is not
            `[classes]`.
        OptionError: The reduction is unknown, smoothing is outside `[0, 1]`, or `ignore_index` is given for
            probabilities.

    Example:
        >>> tg.cross_entropy([[2.0, 0.0, 0.0], [0.0, 0.0, 5.0]], [0, 2], reduction="none")
        Array([0.23954487, 0.01338577], dtype=f32)
    """
    what = "cross_entropy"
    scores, targets = as_tensor(logits), as_tensor(labels)
    check_reduction(what, reduction)
    if isinstance(label_smoothing, bool) or not 0 <= label_smoothing <= 1:
        raise OptionError(f"{what}: label_smoothing must be in [0, 1], not {label_smoothing!r}")
    if is_float(targets.dtype) and is_float(scores.dtype) and targets.shape == scores.shape and scores.shape:
        if ignore_index is not None:
            raise OptionError(f"{what}: ignore_index is for integer labels, these are probabilities")
        weights = _class_weights(what, weight, scores)
        return REDUCTIONS[reduction](_soft_losses(scores, targets, weights, label_smoothing))
    check_labels(what, scores, targets)
    ignore_index = _ignored(what, targets, ignore_index)
    weights = _class_weights(what, weight, scores)
    hard_labels = _Labels(targets, weights, ignore_index)
    if not label_smoothing:
        losses = hard_labels.weighted(subtract(logsumexp(scores, -1), picked(what, scores, hard_labels.places)))
        return hard_labels.reduced(losses, reduction)
    likelihoods = log_softmax(scores, -1)
    hard = hard_labels.weighted(negative(picked(what, likelihoods, hard_labels.places)))
    even = negative(sum(likelihoods if weights is None else weighed(weights, likelihoods), -1))
    even = even if hard_labels.kept is None else where(hard_labels.kept, even, 0)
    share = label_smoothing / scores.shape[-1]
    return hard_labels.reduced(weighed(1 - label_smoothing, hard) + multiply(even, share), reduction)


def _soft_losses(scores: Tensor, targets: Tensor, weights: Tensor | None, label_smoothing: float) -> Tensor:
    if label_smoothing:
        targets = multiply(targets, 1 - label_smoothing) + label_smoothing / scores.shape[-1]
    products = weighed(targets, log_softmax(scores, -1))
    return negative(sum(products if weights is None else weighed(weights, products), -1))


@recorded_whole
def nll(
    log_probabilities: TensorLike,
    labels: TensorLike,
    reduction: str = "mean",
    *,
    weight: TensorLike | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Returns the negative log-likelihood of integer labels under log-probabilities, such as those of `tg.log_softmax`.

    Args:
        log_probabilities: `[..., classes]`.
        labels: Integers of shape `[...]`; one outside `[0, classes)` is as in `cross_entropy`.
        reduction: "mean" (over the weights of labels that are not ignored), "sum", or "none".
        weight: The weight of each class, `[classes]`; 1 by default.
        ignore_index: The label to ignore, or None.

    Raises:
        DTypeError: The log-probabilities are not floats, or the labels are not integers.
        ShapeError: The labels' shape is not that of the log-probabilities without the last axis, or the weights' shape
            is not `[classes]`.
        OptionError: The reduction is unknown, or `ignore_index` is not a valid label.

    Example:
        >>> tg.nll(tg.log([[0.5, 0.5], [0.25, 0.75]]), [0, 1], "none")
        Array([0.6931472, 0.2876821], dtype=f32)
    """
    what = "nll"
    scores, targets = as_tensor(log_probabilities), as_tensor(labels)
    check_reduction(what, reduction)
    check_labels(what, scores, targets)
    ignore_index = _ignored(what, targets, ignore_index)
    hard_labels = _Labels(targets, _class_weights(what, weight, scores), ignore_index)
    return hard_labels.reduced(hard_labels.weighted(negative(picked(what, scores, hard_labels.places))), reduction)


@recorded_whole
def binary_cross_entropy_with_logits(
    logits: TensorLike,
    target: TensorLike,
    reduction: str = "mean",
    *,
    weight: TensorLike | None = None,
    pos_weight: TensorLike | None = None,
) -> Tensor:
    """`-(pos_weight * t * log(p) + (1 - t) * log(1 - p))` with `p = sigmoid(logits)`, without overflow.

    Args:
        logits: A tensor of floats.
        target: Probabilities of the same shape, floats.
        reduction: "mean", "sum", or "none" for the loss of each element.
        weight: A factor of each loss; broadcasts to the logits.
        pos_weight: A factor of the positive term; broadcasts to the logits.

    Raises:
        ShapeError: The shapes differ, or weights don't broadcast.
        DTypeError: The operands are not floats.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.binary_cross_entropy_with_logits([0.0, -1000.0], [1.0, 1.0], reduction="none")
        Array([6.931472e-01, 1.000000e+03], dtype=f32)
    """
    what = "binary_cross_entropy_with_logits"
    check_reduction(what, reduction)
    x, t = alike(what, logits, target)
    if not is_float(x.dtype) or not is_float(t.dtype):
        raise DTypeError(
            f"{what}: takes floats, not {SHORT[x.dtype]} and {SHORT[t.dtype]}; cast first, as x.astype('f32')"
        )
    for name, factor in (("weight", weight), ("pos_weight", pos_weight)):
        if factor is not None and (x * as_tensor(factor)).shape != x.shape:
            raise ShapeError(f"{what}: {name} does not broadcast to shape {x.shape}")
    losses = logistic_losses(x, t if pos_weight is None else multiply(pos_weight, t), subtract(1.0, t))
    return REDUCTIONS[reduction](losses if weight is None else weighed(weight, losses))


def logistic_losses(x: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`-(yes * log(p) + no * log(1 - p))` with `p = sigmoid(x)`, also where `x` is infinite.

    Either sign's formula is the same smooth function; the one of the sign of `x` doesn't cancel.
    """
    positive = greater_equal(x, 0)
    size = where(positive, x, negative(x))
    return weighed(where(positive, no, yes), size) + multiply(yes + no, softplus(negative(size)))


@recorded_whole
def binary_cross_entropy(
    probabilities: TensorLike, target: TensorLike, reduction: str = "mean", *, weight: TensorLike | None = None
) -> Tensor:
    """`-(t * log(p) + (1 - t) * log(1 - p))`, with logarithms clamped at -100, as in PyTorch.

    Its derivative by `p` is `(p - t) / max(p * (1 - p), 1e-12)`, also as in PyTorch: large, not 0, where `p` is 0 and
    should be 1. For f16 the smallest normal number takes the place of 1e-12.

    `binary_cross_entropy_with_logits` takes logits instead, and is accurate where probabilities round to 0 or 1.

    Args:
        probabilities: Floats in `[0, 1]`.
        target: Probabilities of the same shape, floats.
        reduction: "mean", "sum", or "none" for the loss of each element.
        weight: A factor of each loss; broadcasts to the probabilities.

    Raises:
        ShapeError: The shapes differ, or the weight doesn't broadcast.
        DTypeError: The operands are not floats.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.binary_cross_entropy([0.5, 0.9], [0.0, 1.0])
        Array(0.39925388, dtype=f32)
    """
    what = "binary_cross_entropy"
    check_reduction(what, reduction)
    p, t = alike(what, probabilities, target)
    if not is_float(p.dtype) or not is_float(t.dtype):
        raise DTypeError(
            f"{what}: takes floats, not {SHORT[p.dtype]} and {SHORT[t.dtype]}; cast first, as x.astype('f32')"
        )
    if weight is not None and (p * as_tensor(weight)).shape != p.shape:
        raise ShapeError(f"{what}: weight does not broadcast to shape {p.shape}")
    losses = _bernoulli_losses(*(cast(part, promote(p.dtype, t.dtype)) for part in (p, t)))
    return REDUCTIONS[reduction](losses if weight is None else multiply(losses, weight))


@custom_vjp
def _bernoulli_losses(p: Tensor, t: Tensor) -> Tensor:
    yes, no = _held_logarithms(p)
    return negative(multiply(t, yes) + multiply(subtract(1.0, t), no))


def _held_logarithms(p: Tensor) -> list[Tensor]:
    """Returns the logarithms of a probability and of its complement, clamped at -100."""
    parts = [(part, equal(part, 0)) for part in (p, subtract(1.0, p))]
    return [maximum(where(low, -100.0, log(where(low, 1.0, part))), -100.0) for part, low in parts]


def _bernoulli_losses_kept(p: Tensor, t: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return _bernoulli_losses(p, t), (p, t)


def _bernoulli_losses_cotangent(residuals: tuple[Tensor, Tensor], cotangent: Tensor) -> tuple[Tensor, Tensor]:
    p, t = residuals
    yes, no = _held_logarithms(p)
    least = max(1e-12, float(finfo(p.dtype).tiny))
    slope = divide(subtract(p, t), maximum(multiply(p, subtract(1.0, p)), least))
    return multiply(cotangent, slope), multiply(cotangent, subtract(no, yes))


_bernoulli_losses.defvjp(_bernoulli_losses_kept, _bernoulli_losses_cotangent)


# Distances


# Likelihoods
