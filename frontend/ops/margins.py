"""Losses with a margin between scores or distances, with PyTorch's formulas."""

from __future__ import annotations

from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.ops.activations import softplus
from tensorgrad.ops.creation import arange
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    divide,
    equal,
    less,
    minimum,
    multiply,
    negative,
    power,
    square,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.functions import relu, sqrt
from tensorgrad.ops.losses import alike, check_labels, logistic_losses, picked, reduced_by, weighed
from tensorgrad.ops.promotion import as_float, as_tensor, cast, common
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import mean, norm, sum
from tensorgrad.ops.shape import as_indices, expand_dims, take
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor


def _hinged(x: Tensor) -> Tensor:
    """`max(x, 0)`, with slope 1 at 0, as in PyTorch."""
    return where(less(x, 0), 0, x)


@recorded_whole
def hinge(scores: TensorLike, target: TensorLike, reduction: str = "mean", *, margin: float = 1.0) -> Tensor:
    """`max(margin - target * scores, 0)`: that of a classifier into 1 and -1.

    Args:
        scores: A tensor.
        target: 1 or -1 for each score.
        reduction: "mean", "sum", or "none" for the loss of each element.
        margin: The score from which a correct answer has no loss.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.hinge([2.0, -0.5], [1, 1], "none")
        Array([0. , 1.5], dtype=f32)
    """
    left, right = alike("hinge", scores, target)
    return reduced_by("hinge", lambda: _hinged(subtract(margin, multiply(left, right))), reduction)


@recorded_whole
def hinge_embedding(
    distances: TensorLike, target: TensorLike, reduction: str = "mean", *, margin: float = 1.0
) -> Tensor:
    """Returns the distance where the target is 1, and `max(margin - distance, 0)` where it is -1.

    Args:
        distances: A tensor.
        target: 1 or -1 for each distance.
        reduction: "mean", "sum", or "none" for the loss of each element.
        margin: The distance from which dissimilar pairs have no loss.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.hinge_embedding([0.5, 0.25], [1, -1], "none")
        Array([0.5 , 0.75], dtype=f32)
    """
    left, right = alike("hinge_embedding", distances, target)

    def losses() -> Tensor:
        # As in PyTorch: a target that is neither adds both terms.
        near = where(equal(right, -1), 0, left)
        return near + where(equal(right, 1), 0, _hinged(subtract(margin, left)))

    return reduced_by("hinge_embedding", losses, reduction)


@recorded_whole
def cosine_embedding(
    x: TensorLike, y: TensorLike, target: TensorLike, reduction: str = "mean", *, margin: float = 0.0
) -> Tensor:
    """`1 - cos(x, y)` where the target is 1, and `max(cos(x, y) - margin, 0)` where it is -1.

    Args:
        x: Vectors along the last axis, `[..., features]`.
        y: Vectors of the same shape.
        target: 1 or -1 for each pair, `[...]`; others give 0.
        reduction: "mean", "sum", or "none" for the loss of each pair.
        margin: The cosine that vectors of different classes may have.

    Raises:
        ShapeError: The shapes don't match.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.cosine_embedding([[1.0, 0.0]], [[0.0, 1.0]], [1])
        Array(1., dtype=f32)
    """
    left, right = alike("cosine_embedding", x, y)
    kind = as_tensor(target)
    if not left.ndim or kind.shape != left.shape[:-1]:
        raise ShapeError(
            f"cosine_embedding: vectors {left.shape} need targets of shape {left.shape[:-1]}, not {kind.shape}"
        )

    def losses() -> Tensor:
        # As in PyTorch: a zero vector has cosine 0 with all others.
        lengths = [sqrt(sum(square(part), -1) + 1e-12) for part in (left, right)]
        cosine = divide(sum(multiply(left, right), -1), multiply(*lengths))
        apart = _hinged(cosine - margin)
        return where(equal(kind, 1), subtract(1.0, cosine), where(equal(kind, -1), apart, 0))

    return reduced_by("cosine_embedding", losses, reduction)


@recorded_whole
def soft_margin(scores: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """Returns `log(1 + exp(-target * scores))`, without overflow: the logistic loss of a classifier into 1 and -1.

    Args:
        scores: A tensor.
        target: 1 or -1 for each score.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: The shapes differ.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.soft_margin([0.0, -1000.0], [1, 1], "none")
        Array([6.931472e-01, 1.000000e+03], dtype=f32)
    """
    left, right = alike("soft_margin", scores, target)
    return reduced_by("soft_margin", lambda: softplus(negative(multiply(right, left))), reduction)


@recorded_whole
def margin_ranking(
    x: TensorLike, y: TensorLike, target: TensorLike, reduction: str = "mean", *, margin: float = 0.0
) -> Tensor:
    """Returns `max(margin - target * (x - y), 0)`: `x` should rank higher if the target is 1, `y` if it is -1.

    Args:
        x: Scores.
        y: Scores that broadcast against `x`.
        target: 1 or -1, broadcasting against both.
        reduction: "mean", "sum", or "none" for the loss of each element.
        margin: The distance from which a correct order has no loss.

    Raises:
        ShapeError: The shapes don't broadcast.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.margin_ranking([1.0, 2.0], [3.0, 1.0], [1, 1], "none")
        Array([2., 0.], dtype=f32)
    """
    left, right, sign = common("margin_ranking", as_float(x), as_float(y), as_float(target))
    return reduced_by(
        "margin_ranking", lambda: _hinged(subtract(margin, multiply(sign, subtract(left, right)))), reduction
    )


@recorded_whole
def triplet_margin(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    reduction: str = "mean",
    *,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
) -> Tensor:
    """Returns `max(margin + d(anchor, positive) - d(anchor, negative), 0)`, with distances along the last axis.

    F. Schroff, D. Kalenichenko and J. Philbin, FaceNet, 2015.

    Args:
        anchor: `[..., features]`.
        positive: Of the anchor's class.
        negative: Of another class.
        reduction: "mean", "sum", or "none" for the loss of each triplet.
        margin: By how much the negative should be further away.
        p: The order of the norm.
        eps: Added to each difference, which keeps roots away from 0.
        swap: Whether the negative's distance is that to the positive, if that is smaller (V. Balntas et al., 2016).

    Raises:
        ShapeError: The shapes don't broadcast.
        OptionError: The reduction is unknown, or the margin is not positive.

    Example:
        >>> tg.triplet_margin([[0.0]], [[1.0]], [[1.5]])
        Array(0.49999994, dtype=f32)
    """
    what = "triplet_margin"
    if not margin > 0:
        raise OptionError(f"{what}: margin must be positive, got {margin!r}")
    origin, near, far = common(what, as_float(anchor), as_float(positive), as_float(negative))

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return norm(add(subtract(x, y), eps), p, -1)

    def losses() -> Tensor:
        apart = distance(origin, far)
        apart = minimum(apart, distance(near, far)) if swap else apart
        return _hinged(add(subtract(distance(origin, near), apart), margin))

    return reduced_by(what, losses, reduction)


@recorded_whole
def multi_margin(
    scores: TensorLike,
    labels: TensorLike,
    reduction: str = "mean",
    *,
    p: int = 1,
    margin: float = 1.0,
    weight: TensorLike | None = None,
) -> Tensor:
    """Returns the mean over classes of `max(margin - scores[label] + scores[class], 0) ** p`, without the label itself.

    Args:
        scores: `[..., classes]`.
        labels: Integers of shape `[...]`.
        reduction: "mean", "sum", or "none" for a loss of each label.
        p: 1 or 2.
        margin: By how much the label's score should be larger.
        weight: The weight of each class as a label, `[classes]`; 1 by default.

    Raises:
        DTypeError: The scores are not floats, or the labels are not integers.
        ShapeError: The labels' shape is not that of the scores without the last axis, or the weight's not `[classes]`.
        OptionError: The reduction is unknown, or `p` is neither 1 nor 2.

    Example:
        >>> tg.multi_margin([[2.0, 1.5, 0.0]], [0])
        Array(0.16666667, dtype=f32)
    """
    what = "multi_margin"
    if p not in (1, 2):
        raise OptionError(f"{what}: p must be 1 or 2, got {p!r}")
    values, integers = as_tensor(scores), as_tensor(labels)
    check_labels(what, values, integers)
    places = as_indices(integers, what)
    classes = values.shape[-1]
    class_weights = None if weight is None else cast(as_tensor(weight), values.dtype)
    if class_weights is not None and class_weights.shape != (classes,):
        raise ShapeError(f"{what}: weight has shape {class_weights.shape}, expected {(classes,)}")

    def losses() -> Tensor:
        short = relu(add(subtract(values, expand_dims(picked(what, values, places), -1)), margin))
        powers = short if p == 1 else power(short, p)
        if class_weights is not None:
            powers = multiply(powers, expand_dims(take(class_weights, places), -1))
        own = equal(expand_dims(places, -1), cast(arange(classes), places.dtype))
        return multiply(sum(where(own, 0, powers), -1), 1 / classes)

    return reduced_by(what, losses, reduction)


@recorded_whole
def multilabel_soft_margin(
    logits: TensorLike, target: TensorLike, reduction: str = "mean", *, weight: TensorLike | None = None
) -> Tensor:
    """Returns the mean over classes of the binary cross-entropy of each class's logit.

    Args:
        logits: `[..., classes]`.
        target: 1 or 0 for each class, of the same shape.
        reduction: "mean", "sum", or "none" for the loss of each example.
        weight: The weight of each class, `[classes]`; 1 by default.

    Raises:
        ShapeError: The shapes differ, or there are no axes.
        OptionError: The reduction is unknown.

    Example:
        >>> tg.multilabel_soft_margin([[0.0, 100.0]], [[1.0, 1.0]])
        Array(0.3465736, dtype=f32)
    """
    what = "multilabel_soft_margin"
    left, right = alike(what, as_float(logits), as_float(target))
    if not left.ndim:
        raise ShapeError(f"{what}: logits need an axis of classes")

    def losses() -> Tensor:
        each = logistic_losses(left, right, subtract(1.0, right))
        return mean(each if weight is None else weighed(weight, each), -1)

    return reduced_by(what, losses, reduction)
