"""Losses of sequences whose alignment with their labels is unknown."""

from __future__ import annotations

import math

import numpy as np

from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops.creation import arange, full
from tensorgrad.ops.elementwise.arithmetic import (
    add,
    divide,
    equal,
    greater_equal,
    less,
    less_equal,
    logical_and,
    maximum,
    negative,
    not_equal,
    subtract,
    where,
)
from tensorgrad.ops.elementwise.composed import logaddexp
from tensorgrad.ops.joining import concat, pad
from tensorgrad.ops.losses import REDUCTIONS, check_reduction
from tensorgrad.ops.promotion import as_tensor, broadcast_to, cast, in_full
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import logsumexp
from tensorgrad.ops.shape import as_indices, check_range, elements_at, expand_dims, reshape
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import SHORT, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.transforms.control import scan

NEVER = -1e30
"""The logarithm of the probability of what can't be; it is finite, so that derivatives are."""


@recorded_whole
def ctc(
    log_probs: TensorLike,
    targets: TensorLike,
    input_lengths: TensorLike,
    target_lengths: TensorLike,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Returns the negative log-likelihood of labels, summed over all alignments of them with the frames of an input.

    An alignment has a label or a blank in each frame; repeated labels count once, unless blanks are between them.
    A. Graves et al., Connectionist Temporal Classification, 2006. The frames are a loop in the compiled program.

    Args:
        log_probs: `[frames, batch, classes]`, or `[frames, classes]` for one sequence: logarithms of probabilities, as
            of `log_softmax`.
        targets: The labels: integers `[batch, labels]`, filled up with any numbers; `[labels]` for one sequence. Or
            those of all sequences one after another, whose lengths are known then.
        input_lengths: The number of frames of each sequence, `[batch]`; a number for one.
        target_lengths: The number of labels of each.
        blank: The class of blanks.
        reduction: "mean": of the losses, each divided by the number of its labels; "sum", or "none" for each loss.
        zero_infinity: Whether a loss is 0, instead of infinite, if there are fewer frames than an alignment takes. It
            has derivative 0 either way.

    Raises:
        ShapeError: The shapes don't match, or a known length is out of range.
        DTypeError: The logarithms are not floats, or the labels or lengths are not integers.
        OptionError: The reduction is unknown, or there is no such class.

    Example:
        >>> log_probs = tg.log_softmax(tg.zeros((3, 1, 2)))
        >>> tg.ctc(log_probs, [[1]], [3], [1])
        Array(0.287682, dtype=f32)
    """
    check_reduction("ctc", reduction)
    values, labels = as_tensor(log_probs), as_tensor(targets)
    if not is_float(values.dtype):
        raise DTypeError(f"ctc: log_probs must be floats, not {SHORT[values.dtype]}")
    is_one = values.ndim == 2
    if values.ndim not in (2, 3):
        raise ShapeError(f"ctc: log_probs have shape [frames, batch, classes] or [frames, classes], not {values.shape}")
    values = expand_dims(values, 1) if is_one else values
    frames, batch, classes = values.shape
    blank = checked_integer(blank, "ctc: blank")
    if not 0 <= blank < classes:
        raise OptionError(f"ctc: blank is class {blank}, of {classes}")
    lengths = _lengths("target_lengths", target_lengths, batch)
    labels = reshape(labels, (1, -1)) if is_one else _in_rows(labels, lengths, batch)
    if labels.ndim != 2 or labels.shape[0] != batch:
        raise ShapeError(f"ctc: targets have shape [batch, labels] with a batch of {batch}, not {labels.shape}")
    counts = _lengths("input_lengths", input_lengths, batch)
    check_range(counts, 0, frames, "ctc: input_lengths")
    check_range(lengths, 0, labels.shape[1], "ctc: target_lengths")
    labels = as_indices(labels, "ctc: targets", classes)
    inside = less(arange(labels.shape[1]), expand_dims(lengths, 1))
    labels = where(inside, labels, blank)
    check_range(labels, 0, classes - 1, "ctc: targets")
    losses = _losses(values, labels, counts, lengths, blank, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        losses = divide(losses, cast(maximum(lengths, 1), losses.dtype))
    return reshape(losses, ()) if is_one and reduction == "none" else REDUCTIONS[reduction](losses)


def _lengths(name: str, lengths: TensorLike, batch: int) -> Tensor:
    """Returns lengths of sequences, one for each."""
    tensor = as_indices(lengths, f"ctc: {name}")
    if tensor.shape not in ((), (batch,)) or (tensor.shape == () and batch != 1):
        raise ShapeError(f"ctc: {name} have shape [batch] with a batch of {batch}, not {tensor.shape}")
    return reshape(tensor, (batch,))


def _in_rows(labels: Tensor, lengths: Tensor, batch: int) -> Tensor:
    """Returns labels that come one after another as `[batch, labels]`; as they are if they have two axes."""
    if labels.ndim != 1:
        return labels
    if isinstance(lengths, Traced):
        raise ShapeError("ctc: labels one after another take known target_lengths; give targets as [batch, labels]")
    known = np.asarray(lengths)
    if known.sum() != labels.shape[0]:
        raise ShapeError(f"ctc: target_lengths add up to {known.sum()}, and there are {labels.shape[0]} targets")
    if not labels.size:
        return reshape(labels, (batch, 0))
    places = (np.cumsum(known) - known)[:, None] + np.arange(max(known.max(initial=0), 1))
    return labels[Array(np.minimum(places, labels.shape[0] - 1).astype(np.int32))]


@in_full
def _losses(
    log_probs: Tensor, labels: Tensor, counts: Tensor, lengths: Tensor, blank: int, impossible: float
) -> Tensor:
    """Returns the negative log-likelihood of each sequence: by the forward variables of the paper's section 4.1.

    It is `impossible` if there are fewer frames than an alignment takes. The states of an alignment are the labels with
    blanks between them, and at both ends.
    """
    frames, batch, _ = log_probs.shape
    extent = 2 * labels.shape[1] + 1
    blanks = full((batch, labels.shape[1], 1), blank, labels.dtype)
    pairs = concat([blanks, expand_dims(labels, 2)], 2)
    states = concat([reshape(pairs, (batch, extent - 1)), full((batch, 1), blank, labels.dtype)], 1)
    before = concat([full((batch, 2), blank, labels.dtype), states[:, : extent - 2]], 1) if extent > 1 else states
    may_skip = logical_and(not_equal(states, blank), not_equal(states, before))
    emitted = elements_at(log_probs, broadcast_to(states, (frames, batch, extent)), 2)

    def moved(x: Tensor, by: int) -> Tensor:
        """Returns, for each state, the value of the one so many places before it."""
        return pad(x, [(0, 0), (by, 0)], "constant", NEVER)[:, :extent]

    def step(state: Tensor, frame: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        number, emission = frame
        skipped = where(may_skip, moved(state, 2), NEVER)
        following = add(logaddexp(logaddexp(state, moved(state, 1)), skipped), emission)
        return where(expand_dims(less(number, counts), 1), maximum(following, NEVER), state), None

    start = where(equal(arange(extent), 0), 0.0, NEVER)
    final, _ = scan(step, broadcast_to(cast(start, log_probs.dtype), (batch, extent)), (arange(frames), emitted))
    ends = expand_dims(2 * lengths, 1)
    is_end = logical_and(less_equal(arange(extent), ends), less_equal(subtract(ends, 1), arange(extent)))
    losses = negative(logsumexp(where(is_end, final, NEVER), 1))
    return where(greater_equal(losses, -NEVER / 2), impossible, losses)
