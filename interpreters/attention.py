"""Interprets `buf.attention` with NumPy, one group at a time, to bound the memory for scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.ir import SSAValue

from tensorgrad.dialects.attention import FORWARD, KEYS, QUERIES, Attention, AttentionOp
from tensorgrad.dialects.buf import element_of
from tensorgrad.interpreters.scalars import Array, scalar_dtype
from tensorgrad.interpreters.stages import gather, read, scatter
from tensorgrad.runtime.conversion import kind_of

LOOPS = 4
"""The loops of a score: group, query, key, feature."""


def run_attention(stage: AttentionOp, arrays: Mapping[SSAValue, Array]) -> None:
    """Computes a stage's outputs from its inputs.

    Args:
        stage: The stage.
        arrays: The storage of its operands; outputs are written in place.

    Raises:
        ExecutionError: A map's index is out of an operand's range.
    """
    attention, part = stage.attention, stage.part.data
    what = f"buf.attention {part}"
    maps, shapes, spaces = stage.affine_maps(), attention.shapes(part), attention.spaces(part)
    operands: list[Array] = []
    count, dtype = len(stage.inputs), scalar_dtype(stage.computed_in)
    for operand, map_, shape, space in zip(stage.inputs, maps, shapes, spaces, strict=False):
        extents = [1] * LOOPS
        for loop, extent in zip(space, shape, strict=True):
            extents[loop] = extent
        values = read(
            gather(arrays[operand], map_, tuple((0, extent) for extent in extents), what), element_of(operand)
        )
        values = values.astype(dtype) if kind_of(values.dtype) == "f" else values
        operands.append(np.broadcast_to(values, extents).reshape(shape))
    results = [np.empty(shape, dtype) for shape in shapes[count:]]
    for group in range(attention.groups):
        results_of_group = _of_group(attention, part, [operand[group] for operand in operands])
        for result, value in zip(results, results_of_group, strict=True):
            result[group] = value
    for output, map_, space, result in zip(stage.outputs, maps[count:], spaces[count:], results, strict=False):
        extents = [1] * LOOPS
        for loop, extent in zip(space, result.shape, strict=True):
            extents[loop] = extent
        scatter(arrays[output], map_, extents, result.reshape(extents), what)


def _of_group(attention: Attention, part: str, operands: list[Array]) -> tuple[Array, ...]:
    q, k, v = operands[:3]
    scores, allowed = _scores(attention, operands)
    if part == FORWARD:
        if attention.zeros and allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
        top = scores.max(axis=-1, keepdims=True)
        top = np.where(np.isfinite(top) if attention.zeros else top != -np.inf, top, 0)
        powers = np.exp(scores - top)
        total = powers.sum(axis=-1, keepdims=True)
        if attention.zeros:
            total = np.where(total == 0, 1, total)
        return (powers / total) @ v, (top + np.log(total))[:, 0]
    by_result, total, delta = operands[-3:]
    weights = np.exp(scores - total[:, None])
    if attention.zeros and allowed is not None:
        weights = np.where(allowed, weights, 0)
    by_scores = weights * (by_result @ v.T - delta[:, None])
    if allowed is not None:
        by_scores = np.where(allowed, by_scores, 0)
    by_scores = by_scores * scores.dtype.type(attention.scale)
    by_queries = () if part == KEYS else (by_scores @ k,)
    return by_queries if part == QUERIES else (*by_queries, by_scores.T @ q, weights.T @ by_result)


def _scores(attention: Attention, operands: list[Array]) -> tuple[Array, Array | None]:
    """Returns a group's scores, and a mask of the allowed ones, or None if all are."""
    q, k = operands[:2]
    scores = (q @ k.T) * q.dtype.type(attention.scale)
    for bias in operands[3 : 3 + attention.biases]:
        scores = scores + bias
    if not attention.is_masked:
        return scores, None
    allowed = np.ones(scores.shape, np.bool_)
    if attention.causal is not None:
        places = np.arange(attention.queries) % attention.period + attention.causal
        allowed &= np.arange(attention.keys) <= places[:, None]
    for mask in operands[3 + attention.biases : attention.operands]:
        allowed &= mask
    return (scores if attention.zeros else np.where(allowed, scores, scores.dtype.type(attention.fill))), allowed
