"""Attention."""

from __future__ import annotations

import math
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.tracing.dtypes import NAMES
from tensorgrad.tracing.tensor import Tensor


def _heads(node: OnnxNode, x: Tensor, count_name: str) -> Tensor:
    """Returns `[batch, heads, length, size]`, from the same shape or from `[batch, length, heads * size]`."""
    if x.ndim == 4:
        return x
    count = node.attribute(count_name)
    if count is None:
        node.refuse(f"inputs of three axes need the attribute {count_name!r}")
    batch, length, width = x.shape
    return tg.transpose(tg.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def _allowed(node: OnnxNode, queries: int, keys: int, past: int, filled: Tensor | None) -> Tensor | None:
    """Returns the mask of keys that each query may attend to: causal, windowed, and limited to filled positions."""
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    rows, columns = tg.reshape(tg.arange(queries), (-1, 1)), tg.arange(keys)
    tests: list[Tensor] = []
    before: Any = past if filled is None else filled - queries  # keys that precede the queries
    distance = columns - (rows + before)
    if node.attribute("is_causal", 0):
        tests.append(tg.less_equal(distance, 0))
    if left >= 0:
        tests.append(tg.greater_equal(distance, -left))
    if right >= 0:
        tests.append(tg.less_equal(distance, right))
    if filled is not None:
        tests.append(tg.less(columns, filled))
    return _all(tests)


def _all(tests: list[Tensor]) -> Tensor | None:
    result: Tensor | None = None
    for test in tests:
        result = test if result is None else result & test
    return result


def _padded(mask: Tensor, keys: int) -> Tensor:
    """Returns a mask extended to all keys; those that it doesn't cover are masked."""
    missing = keys - mask.shape[-1]
    if missing <= 0:
        return mask
    value = False if mask.dtype == NAMES["bool"] else -math.inf
    return tg.pad(mask, [*([(0, 0)] * (mask.ndim - 1)), (0, missing)], "constant", value)


@rule(
    "Attention",
    "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode=0|1|2|3 right_window_size scale softcap "
    "softmax_precision",
    roles={0: Role.TABLE, 1: Role.TABLE, 2: Role.TABLE},
)
def _attention(node: OnnxNode) -> Any:
    """Computes attention; the result of a query whose keys are all masked is 0."""
    q = _heads(node, node.tensor(0), "q_num_heads")
    k, v = (_heads(node, node.tensor(i), "kv_num_heads") for i in (1, 2))
    past = 0
    if node.has(4):
        past = node.tensor(4).shape[2]
        k, v = tg.concat([node.tensor(4), k], 2), tg.concat([node.tensor(5), v], 2)
    present = k, v
    shared = q.shape[1] // k.shape[1]  # query heads per key head
    if shared > 1:
        k, v = tg.repeat(k, shared, 1), tg.repeat(v, shared, 1)
    scale = math.sqrt(node.attribute("scale", 0.0) or 1 / math.sqrt(q.shape[3]))
    scores = tg.matmul(q * scale, tg.swapaxes(k, 2, 3) * scale)
    mode, shown = node.attribute("qk_matmul_output_mode", 0), scores
    softcap = node.attribute("softcap", 0.0)
    if softcap:
        scores = tg.tanh(scores / softcap) * softcap
        shown = scores if mode == 1 else shown
    filled = tg.reshape(node.tensor(6), (-1, 1, 1, 1)) if node.has(6) else None
    tests = [_allowed(node, q.shape[2], k.shape[2], past, filled)]
    if node.has(3):
        mask = _padded(node.tensor(3), k.shape[2])
        if mask.dtype == NAMES["bool"]:
            tests.append(mask)
        else:
            scores = scores + mask
            tests.append(tg.not_equal(mask, -math.inf))
    allowed = _all([test for test in tests if test is not None])
    if mode == 2:
        shown = scores if allowed is None else tg.where(allowed, scores, -math.inf)
    precision = node.attribute("softmax_precision", 0)
    wide = tg.cast(scores, node.dtype(precision)) if precision else scores
    shares = tg.cast(tg.softmax(wide, -1, None if allowed is None else allowed), q.dtype)
    result = tg.matmul(shares, v)
    if node.tensor(0).ndim == 3:
        batch, heads, length, size = result.shape
        result = tg.reshape(tg.transpose(result, (0, 2, 1, 3)), (batch, length, heads * size))
    return result, *present, shares if mode == 3 else shown


@rule(
    "LinearAttention",
    "chunk_size kv_num_heads q_num_heads scale update_rule=linear|gated|delta|gated_delta",
)
def _linear_attention(node: OnnxNode) -> Any:
    """Scans over a row of scores with a state of keys times values, decayed, corrected and added to, in f32."""
    queries, how = node.tensor(0), node.attribute("update_rule", "gated_delta")
    q, k, v = (
        tg.cast(_heads(node, node.tensor(i), name), NAMES["f32"])
        for i, name in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    batch, heads, steps, width = k.shape
    decay = beta = None
    if "gated" in how:
        rates = node.tensor(4)  # one per head, or one per element of its keys
        decay = tg.exp(_by_head(rates, batch, steps, heads))
    if "delta" in how:
        rates = node.tensor(5)
        beta = _by_head(rates, batch, steps, rates.shape[-1])
    state = tg.cast(node.tensor(3), NAMES["f32"]) if node.has(3) else tg.zeros((batch, heads, width, v.shape[3]))
    outputs: list[Tensor] = []
    for i in range(steps):
        key, new = tg.expand_dims(k[:, :, i], -1), tg.expand_dims(v[:, :, i], -2)
        if decay is not None:
            state = state * tg.expand_dims(decay[:, :, i], -1)
        if beta is not None:
            known = tg.sum(state * key, -2, keepdims=True)
            new = tg.expand_dims(beta[:, :, i], -1) * (new - known)
        state = state + key * new
        shared = tg.repeat(state, q.shape[1] // heads, 1)
        outputs.append(tg.squeeze(tg.matmul(tg.expand_dims(q[:, :, i], -2), shared), -2))
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(width)
    result = tg.reshape(tg.swapaxes(tg.stack(outputs, 2) * scale, 1, 2), (batch, steps, -1))
    return tg.cast(result, queries.dtype), tg.cast(state, node.tensor(3).dtype if node.has(3) else queries.dtype)


def _by_head(rates: Tensor, batch: int, steps: int, heads: int) -> Tensor:
    """Returns `[batch, heads, steps, ...]` from `[batch, steps, heads * ...]`, in f32."""
    return tg.swapaxes(tg.cast(tg.reshape(rates, (batch, steps, heads, -1)), NAMES["f32"]), 1, 2)
