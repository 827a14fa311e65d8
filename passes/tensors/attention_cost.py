"""Whether an attention pays as one operation: scores that are not stored, against what is computed again."""

from __future__ import annotations

import math

from tensorgrad.dialects.attention import Attention
from tensorgrad.passes.analyses.machine import NATIVE, NATIVE_ATTENTION, AttentionModel, CpuModel
from tensorgrad.runtime.target import Target

LARGEST_HEAD = 128
"""A head of more features stays composed where kernels are shaders: a thread could not keep its share of a row in
registers."""

FEWEST_SCORES = 1 << 10
"""An attention of fewer scores in a group stays composed: its rows are short, and storing them costs little."""

WIDEST = ((256, 32), (1, 16))
"""The widest heads that pay, by the fewest keys: a step takes nine products instead of six (the derivative computes the
scores twice again), and with heads so narrow, scores not stored make up for it. Measured on the software adapter, where
wider heads took 1.1 to 1.4 times as long as composed."""

WIDEST_CAUSAL = ((128, 64), (1, 32))
"""The same where causality skips half of all products: fewer where rows are short, for whole tiles are skipped."""

LARGE_SCORES = 1 << 24
"""So many scores in all are worth not storing, whatever it takes."""


def pays(attention: Attention, target: Target | None = None, fewest_scores: int = FEWEST_SCORES) -> bool:
    """Returns whether scores that are not stored are worth the products that the derivative computes again.

    Args:
        attention: The attention.
        target: Where it runs; a software adapter where that is not known.
        fewest_scores: How many scores a group must have; fewer than `FEWEST_SCORES` overrule all else.
    """
    scores, width = attention.queries * attention.keys, max(attention.features, attention.values)
    is_native = target is not None and target.native
    if width > LARGEST_HEAD and not is_native:
        return False
    if fewest_scores < FEWEST_SCORES or scores * attention.groups >= LARGE_SCORES:
        return scores >= fewest_scores
    if scores < fewest_scores:
        return False
    if is_native:
        return tiled_cycles(attention) < composed_cycles(attention)
    table = WIDEST_CAUSAL if attention.skips else WIDEST
    return width <= next(width for fewest, width in table if attention.keys >= fewest)


def joins_cotangents(attention: Attention, machine: CpuModel = NATIVE, element_bytes: int = 4) -> bool:
    """Returns whether all cotangents are better computed by one native kernel than by two.

    Apart, each computes scores and their cotangents: seven products of matrices. Together they are five, but a group is
    one task then, which holds the queries' cotangents in its cache.

    Args:
        attention: The attention.
        machine: What runs it.
        element_bytes: The bytes of an element that is computed with.
    """
    held = attention.queries * attention.features * element_bytes
    together, apart = 5 * math.ceil(attention.groups / machine.cores), 7 * attention.groups / machine.cores
    return held <= machine.near_bytes and together <= apart


def tiled_cycles(attention: Attention, model: AttentionModel = NATIVE_ATTENTION) -> float:
    """Returns about how many cycles native code takes for a score and its cotangents, in tiles of which some are left
    out."""
    share = 1.0
    if attention.skips:
        share = min(0.5 + model.skipped_tile / 2 / attention.keys, 1.0)
    found = model.tiled_products * _product(attention, model) + model.tiled_score
    if not joins_cotangents(attention):
        found *= model.apart
    return share * found


def composed_cycles(attention: Attention, model: AttentionModel = NATIVE_ATTENTION) -> float:
    """Returns the same where products and a softmax store scores."""
    is_near = 4 * attention.groups * attention.queries * attention.keys <= model.near_bytes
    stored = model.near_score if is_near else model.far_score
    return model.composed_products * _product(attention, model) + stored


def _product(attention: Attention, model: AttentionModel) -> float:
    """Returns the cycles that a score takes in a product of matrices, on average."""
    return (attention.features + attention.values) / 2 / model.lanes
