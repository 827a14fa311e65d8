"""Losses."""

from __future__ import annotations

from typing import Any

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.tensor import Tensor


def _likelihood(node: OnnxNode, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """Returns the weighted negative log-likelihood of the targets, with the node's reduction; ignored ones count 0."""
    ignored = node.attribute("ignore_index")
    valid = tg.full(target.shape, True, "bool") if ignored is None else tg.not_equal(target, ignored)
    index = tg.where(valid, target, 0)
    chosen = tg.squeeze(tg.take_along_axis(scores, tg.expand_dims(index, 1), 1), 1)
    share = tg.ones(target.shape, scores.dtype) if weight is None else tg.take(weight, index, 0)
    share = tg.where(valid, share, 0)
    losses = tg.where(valid, tg.negative(chosen) * share, 0)
    reduction = node.attribute("reduction", "mean")
    if reduction == "none":
        return losses
    total = tg.sum(losses)
    return total if reduction == "sum" else total / tg.sum(share)


@rule("NegativeLogLikelihoodLoss", "ignore_index reduction=none|sum|mean")
def _negative_log_likelihood(node: OnnxNode) -> Tensor:
    return _likelihood(node, node.tensor(0), node.tensor(1), node.optional(2))


@rule("SoftmaxCrossEntropyLoss", "ignore_index reduction=none|sum|mean")
def _softmax_cross_entropy(node: OnnxNode) -> Any:
    logarithms = tg.log_softmax(node.tensor(0), 1)
    return _likelihood(node, logarithms, node.tensor(1), node.optional(2)), logarithms
