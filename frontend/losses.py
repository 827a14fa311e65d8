"""Losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorgrad.dialects.tg import index
from tensorgrad.dialects.tg.base import integer
from tensorgrad.dtypes import NAMES, SHORT, is_float
from tensorgrad.elementwise import as_tensor, square, subtract
from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.location import user_line
from tensorgrad.reductions import logsumexp, mean, sum
from tensorgrad.shaping import expand_dims, squeeze
from tensorgrad.tensor import Tensor
from tensorgrad.tracer import emit

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"mean": mean, "sum": sum, "none": lambda x: x}
"""What a loss does with the losses of the examples."""


def _reduced(what: str, losses: Callable[[], Tensor], reduction: str) -> Tensor:
    if reduction not in REDUCTIONS:
        raise OptionError(f"{user_line()}: {what}: reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")
    return REDUCTIONS[reduction](losses())


def cross_entropy(logits: Any, labels: Any, reduction: str = "mean") -> Tensor:
    """The negative log-likelihood of integer labels, `logsumexp(logits) - logits[label]`, without overflow.

    Args:
        logits: Unnormalized log-probabilities, `[..., classes]`.
        labels: Integers of shape `[...]`. One outside `[0, classes)` gives NaN, and no neighbour's loss.
        reduction: "mean", "sum", or "none" for a loss of each label.

    Raises:
        DTypeError: The logits are no floats or the labels no integers.
        ShapeError: The labels' shape is not that of the logits without the last axis.
        OptionError: Another reduction.
    """
    scores, wanted = as_tensor(logits), as_tensor(labels)
    if not is_float(scores.dtype) or wanted.dtype not in (NAMES["i32"], NAMES["u32"]):
        raise DTypeError(
            f"{user_line()}: cross_entropy: takes float logits and integer labels, "
            f"not {SHORT[scores.dtype]} and {SHORT[wanted.dtype]}"
        )
    if scores.shape[:-1] != wanted.shape or not scores.shape:
        raise ShapeError(
            f"{user_line()}: cross_entropy: logits of shape {scores.shape} need labels of shape {scores.shape[:-1]}, "
            f"not {wanted.shape}"
        )

    def losses() -> Tensor:
        # The op itself, not take_along_axis: a negative label is wrong, it doesn't count from the end.
        axis = integer(scores.ndim - 1)
        chosen = emit(index.TakeAlongAxisOp, [scores, expand_dims(wanted, -1)], axis=axis)
        return subtract(logsumexp(scores, -1), squeeze(chosen, -1))

    return _reduced("cross_entropy", losses, reduction)


def mse(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """The squared error, `(prediction - target) ** 2`.

    Args:
        prediction: A tensor.
        target: A tensor of the same shape: nothing broadcasts here.
        reduction: "mean", "sum", or "none" for the error of each element.

    Raises:
        ShapeError: The shapes differ.
        OptionError: Another reduction.
    """
    left, right = as_tensor(prediction), as_tensor(target)
    if left.shape != right.shape:
        raise ShapeError(f"{user_line()}: mse: shapes {left.shape} and {right.shape} differ")
    return _reduced("mse", lambda: square(subtract(left, right)), reduction)
