"""Different ways to write attention, with inputs for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import NumpyArray

import tensorgrad as tg
from tensorgrad.dialects.attention import Attention
from tensorgrad.nn.attention import rotary_embedding, scaled_dot_product_attention

NONE = float("-inf")


@dataclass(frozen=True)
class Form:
    """A function that computes one attention, its inputs, and some of the expected parameters of the outlined op."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[NumpyArray, ...]
    found: dict[str, Any]


def normal(*shape: int, seed: int = 0) -> NumpyArray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def triangle(queries: int, keys: int) -> NumpyArray:
    return np.tri(queries, keys, keys - queries, dtype=np.bool_)


def causal(q: Any, k: Any, v: Any) -> Any:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def windowed(q: Any, k: Any, v: Any) -> Any:
    return scaled_dot_product_attention(q, k, v, is_causal=True, window=3)


def causal_masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return scaled_dot_product_attention(q, k, v, mask=mask, is_causal=True)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return scaled_dot_product_attention(q, k, v, mask=mask)


def rotary(q: Any, k: Any, v: Any) -> Any:
    return causal(rotary_embedding(q), rotary_embedding(k), v)


def by_einsum(q: Any, k: Any, v: Any) -> Any:
    """The head axis after positions, scores scaled, and masked by a `where`."""
    scores = tg.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = tg.where(tg.causal_mask(q.shape[1], k.shape[1]), scores, NONE)
    return tg.einsum("bhqk,bkhd->bqhd", tg.softmax(scores, -1), v)


def by_hand(q: Any, k: Any, v: Any) -> Any:
    """A handwritten softmax, and a constant mask with a large number."""
    scores = tg.where(triangle(q.shape[-2], k.shape[-2]), 0.5 * (q @ tg.swapaxes(k, -1, -2)), -1e9)
    powers = tg.exp(scores - tg.max(scores, -1, keepdims=True))
    return (powers / tg.sum(powers, -1, keepdims=True)) @ v


def filled(q: Any, k: Any, v: Any) -> Any:
    """Masked scores are filled with a constant."""
    later = np.arange(k.shape[-2]) > np.arange(q.shape[-2])[:, None]
    scores = tg.where(later, NONE, (q * 0.5) @ tg.swapaxes(k, -1, -2))
    return tg.softmax(scores, -1) @ v


def filled_with_zeros(q: Any, k: Any, v: Any) -> Any:
    """Masked scores count as 0."""
    scores = tg.where(triangle(q.shape[-2], k.shape[-2]), q @ tg.swapaxes(k, -1, -2), 0.0)
    return tg.softmax(scores, -1) @ v


def added(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """An additive mask, and a bias."""
    mask = np.where(triangle(q.shape[-2], k.shape[-2]), 0.0, NONE).astype(np.float32)
    return tg.softmax((q @ tg.swapaxes(k, -1, -2)) / 2 + mask + bias, -1) @ v


def added_twice(q: Any, k: Any, v: Any) -> Any:
    """Two additive masks, whose positions count rows of different numbers of queries."""
    groups, rows, keys = q.shape[0], q.shape[1], k.shape[1]
    masks = [np.where(np.tri(count, keys) > 0, 0.0, NONE).astype(np.float32) for count in (rows, rows // 2)]
    scores = tg.reshape(q @ tg.swapaxes(k, -1, -2) + masks[0], (groups, 2, rows // 2, keys)) + masks[1]
    return tg.reshape(tg.softmax(scores, -1), (groups, rows, keys)) @ v


def shared_heads(q: Any, k: Any, v: Any) -> Any:
    """Keys and values are repeated for each head of queries."""
    groups = q.shape[1] // k.shape[1]
    k, v = (tg.repeat(x, groups, 1) for x in (k, v))
    return tg.softmax(0.3 * (q @ tg.swapaxes(k, -1, -2)), -1) @ v


def strict(q: Any, k: Any, v: Any) -> Any:
    """A query doesn't attend to itself, so the first one attends to nothing."""
    positions = tg.arange(q.shape[-2])
    mask = tg.expand_dims(positions, 0) < tg.expand_dims(positions, 1)
    return tg.softmax(0.3 * (q @ tg.swapaxes(k, -1, -2)), -1, where=mask) @ v


def discarded(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """A handwritten additive mask, without the rows that it makes NaN."""
    result = tg.softmax(q @ tg.swapaxes(k, -1, -2) + bias, -1) @ v
    return tg.where(tg.max(bias, -1, keepdims=True) == NONE, 0.0, result)


def discarded_booleans(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """The same with booleans that the program computes."""
    result = tg.softmax(tg.where(bias == NONE, NONE, q @ tg.swapaxes(k, -1, -2)), -1) @ v
    return tg.where(tg.max(bias, -1, keepdims=True) == NONE, 0.0, result)


def safe(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """What the two compute, with rows of zeros."""
    return tg.softmax(q @ tg.swapaxes(k, -1, -2), -1, where=bias != NONE) @ v


def itself(x: Any) -> Any:
    """Queries, keys and values are the same tensor, without heads."""
    return tg.softmax(x @ tg.swapaxes(x, -1, -2), -1) @ x


def with_empty_row(queries: int, keys: int) -> NumpyArray:
    """Returns an additive mask, whose middle row is all `-inf`."""
    mask = np.where(np.random.default_rng(8).random((queries, keys)) < 0.7, 0, NONE).astype(np.float32)
    mask[:, 0], mask[queries // 2] = 0, NONE
    return mask


def discarding(queries: int, keys: int, features: int = 6) -> list[Form]:
    """Returns forms that discard a row of NaN; the last one has zeros instead."""
    q, *others = normal(8, queries, features), normal(8, keys, features, seed=1), normal(8, keys, features, seed=2)
    inputs = (q, *others, with_empty_row(queries, keys))
    return [Form(function.__name__, function, inputs, {}) for function in (discarded, discarded_booleans, safe)]


def forms(queries: int, keys: int, features: int = 6) -> list[Form]:
    """Returns every form, for these numbers of queries and keys, two batches and four heads."""
    q, k, v = normal(2, 4, queries, features), normal(2, 4, keys, features, seed=1), normal(2, 4, keys, 5, seed=2)
    shared = (normal(2, 2, keys, features, seed=3), normal(2, 2, keys, 5, seed=4))
    late = (normal(2, queries, 4, features), normal(2, keys, 4, features, seed=1), normal(2, keys, 4, 5, seed=2))
    flat = (normal(8, queries, features), normal(8, keys, features, seed=1), normal(8, keys, features, seed=2))
    padding = np.random.default_rng(5).random((2, 1, 1, keys)) < 0.7
    padding[..., 0] = True
    ahead = keys - queries
    some = with_empty_row(queries, keys)
    return [
        Form("plain", scaled_dot_product_attention, (q, k, v), {"groups": 8, "queries": queries, "causal": None}),
        Form("causal", causal, (q, k, v), {"causal": ahead, "zeros": True, "masks": 0}),
        Form("windowed", windowed, (q, k, v), {"causal": ahead, "masks": 1}),
        Form("padded", masked, (q, k, v, padding), {"causal": None, "masks": 1}),
        Form("padded-causal", causal_masked, (q, k, v, padding), {"causal": ahead, "masks": 1}),
        Form("biased", masked, (q, k, v, normal(4, queries, keys, seed=6)), {"biases": 1, "zeros": True}),
        Form("empty-row", masked, (q, k, v, some), {"biases": 1, "masks": 0, "zeros": True}),
        Form("empty-row-causal", causal_masked, (q, k, v, some), {"biases": 1, "masks": 0, "zeros": True}),
        Form("grouped", causal, (q, *shared), {"groups": 4, "queries": 2 * queries, "period": queries}),
        Form("repeated", shared_heads, (q, *shared), {"groups": 8, "scale": np.float32(0.3)}),
        Form("rotary", rotary, (q, k, v), {"causal": ahead}),
        Form("einsum", by_einsum, late, {"causal": ahead, "fill": NONE, "zeros": False}),
        Form("by-hand", by_hand, flat, {"causal": ahead, "fill": -1e9, "scale": 0.5}),
        Form("filled", filled, flat, {"causal": 0, "fill": NONE, "scale": 0.5}),
        Form("filled-with-zeros", filled_with_zeros, flat, {"causal": ahead, "fill": 0.0, "zeros": False}),
        Form("added", added, (*flat, normal(8, 1, keys, seed=7)), {"causal": ahead, "biases": 1}),
        Form("added-twice", added_twice, (normal(8, 2 * queries, features), *flat[1:]), {"biases": 1}),
        Form("strict", strict, (flat[0],) * 3, {"causal": -1}),
        Form("itself", itself, (flat[0],), {"causal": None, "scale": 1.0}),
    ]


def parameters(attention: Attention, names: dict[str, Any]) -> dict[str, Any]:
    """Returns some of the parameters of an attention."""
    return {name: getattr(attention, name) for name in names}
