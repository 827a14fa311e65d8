"""Decides whether to outline an attention: the cost of storing its scores against that of recomputing them."""

from __future__ import annotations

import math

from tensorgrad.dialects.attention import Attention
from tensorgrad.passes.analyses.machine import NATIVE, NATIVE_ATTENTION, AttentionModel, CpuModel
from tensorgrad.runtime.target import Target

LARGEST_HEAD = 128
"""The most features of a head that is outlined for shaders: of wider ones, a thread's share of a row does not fit in
registers."""

FEWEST_SCORES = 1 << 10
"""The fewest scores of a group that are worth outlining: with fewer, rows are short and cheap to store."""

WIDEST = ((256, 32), (1, 16))
"""The widest head for which outlining pays, as pairs of the fewest keys and that width, most keys first.

A training step takes nine matrix products instead of six, since the derivative recomputes the scores twice. With heads
this narrow, not storing the scores makes up for that. Measured on the software adapter, where wider heads took 1.1 to
1.4 times as long as composed attention.
"""

WIDEST_CAUSAL = ((128, 64), (1, 32))
"""As `WIDEST`, for causal masks, which skip half of the products; fewer if rows are short, since only whole tiles are
skipped."""

LARGE_SCORES = 1 << 24
"""The number of scores, over all groups, from which not storing them pays whatever the recomputation costs."""


def pays(attention: Attention, target: Target | None = None, fewest_scores: int = FEWEST_SCORES) -> bool:
    """Returns whether not storing the scores is worth the products that the derivative recomputes.

    Args:
        attention: The attention.
        target: The target; assumed to be a software adapter if unknown.
        fewest_scores: The fewest scores of a group for which to outline. A value below `FEWEST_SCORES` overrides the
            cost model, but not `LARGEST_HEAD`.
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
    """Returns whether one native kernel should compute all cotangents, rather than two kernels.

    Two kernels each recompute the scores and their cotangents: seven matrix products in all. One kernel takes five, but
    then a group is a single task, which holds the cotangents of its queries in the cache.

    Args:
        attention: The attention.
        machine: The model of the CPU.
        element_bytes: The bytes of an element in the computation.
    """
    held = attention.queries * attention.features * element_bytes
    together, apart = 5 * math.ceil(attention.groups / machine.cores), 7 * attention.groups / machine.cores
    return held <= machine.near_bytes and together <= apart


def tiled_cycles(attention: Attention, model: AttentionModel = NATIVE_ATTENTION) -> float:
    """Returns the estimated cycles per score of tiled native code, forward and derivative, less skipped tiles."""
    share = 1.0
    if attention.skips:
        share = min(0.5 + model.skipped_tile / 2 / attention.keys, 1.0)
    cycles = model.tiled_products * _product(attention, model) + model.tiled_score
    if not joins_cotangents(attention):
        cycles *= model.apart
    return share * cycles


def composed_cycles(attention: Attention, model: AttentionModel = NATIVE_ATTENTION) -> float:
    """Returns the estimated cycles per score of composed native code, whose products and softmax store the scores."""
    is_near = 4 * attention.groups * attention.queries * attention.keys <= model.near_bytes
    stored = model.near_score if is_near else model.far_score
    return model.composed_products * _product(attention, model) + stored


def _product(attention: Attention, model: AttentionModel) -> float:
    """Returns the cycles per score of one matrix product, averaged over those with keys and with values."""
    return (attention.features + attention.values) / 2 / model.lanes
