"""Attention, with masks, shared heads and rotary position embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.nn.checks import check_key, divides, drop_rate, number_between, positive, trailing
from tensorgrad.nn.dropout import Dropout
from tensorgrad.nn.initializers import uniform, zeros
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init
from tensorgrad.ops.promotion import as_tensor, widened
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.surface.calls import public
from tensorgrad.tracing.dtypes import NAMES, is_float, is_half, promote
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor, Traced

TINIEST = float(np.finfo(np.float32).tiny)
"""The least normal number of f32."""


def _at(what: str) -> str:

    return f"{user_line()}: {what}"


def rotary_embedding(
    x: TensorLike,
    positions: TensorLike | None = None,
    base: float = 10000.0,
    frequencies: np.ndarray | None = None,
) -> Tensor:
    """Rotates pairs of features by angles that grow with the position, so that products depend only on distances.

    Feature `i` of the first half forms a pair with feature `i` of the second half; at position `t` it is rotated by
    `t * frequencies[i]`, by default `t * base ** (-2 i / features)`.

    Args:
        x: `[..., length, features]`, floats.
        positions: `[length]`, or `[batch, length]` for `x` of shape `[batch, ..., length, features]`, numbers or a
            tensor; 0, 1, 2, ... by default.
        base: Determines the lowest frequency.
        frequencies: `[features / 2]`, such as those of `rotary_frequencies`, instead of a base. Angles at known
            positions are computed in their dtype.

    Returns:
        A tensor of the same shape.

    Raises:
        ShapeError: The number of features is odd, or that of positions or frequencies is wrong.
        OptionError: The base is not positive.

    Example:
        >>> tg.nn.rotary_embedding(tg.ones((2, 3, 4))).shape
        (2, 3, 4)
    """

    tensor = as_tensor(x)
    if tensor.ndim < 2 or tensor.shape[-1] % 2:
        raise ShapeError(_at(f"rotary_embedding: expected a shape [..., length, even number], got {tensor.shape}"))
    length, half = tensor.shape[-2], tensor.shape[-1] // 2
    turns = rotary_frequencies(2 * half, base) if frequencies is None else np.asarray(frequencies)
    if turns.shape != (half,):
        raise ShapeError(_at(f"rotary_embedding: expected {half} frequencies, got shape {turns.shape}"))
    if isinstance(positions, Traced):
        places = _along_batch(positions, tensor.shape)
        angles = tg.expand_dims(tg.cast(places, tensor.dtype), -1) * turns.astype(tensor.dtype)
        cosine, sine = tg.cos(angles), tg.sin(angles)
    else:
        places = _along_batch(np.arange(length) if positions is None else np.asarray(positions), tensor.shape)
        known = places[..., None].astype(turns.dtype) * turns
        cosine, sine = (as_tensor(function(known).astype(tensor.dtype)) for function in (np.cos, np.sin))
    first, second = tensor[..., :half], tensor[..., half:]
    return tg.concat([first * cosine - second * sine, second * cosine + first * sine], -1)


def _along_batch(positions: Any, shape: tuple[int, ...]) -> Any:
    """Returns positions, `[length]` or `[batch, length]`, such that they broadcast to `shape` without its last axis.

    Raises:
        ShapeError: They have another shape.
    """
    *lead, length, _ = shape
    if positions.shape == (length,):
        return positions
    if not lead or positions.shape not in ((lead[0], length), (1, length)):
        batches = f" or [{lead[0]}, {length}]" if lead else ""
        raise ShapeError(_at(f"rotary_embedding: expected {length} positions{batches}, got shape {positions.shape}"))
    return positions.reshape(positions.shape[0], *(1 for _ in lead[1:]), length)


@dataclass(frozen=True)
class RotaryScaling:
    """How rotary frequencies are lowered, for longer texts than those that a model was first trained on.

    A pair that turns `n = original_length * frequency / (2 pi)` times within the original length keeps its frequency
    if `n` is at least `high_turns`; it is divided by `factor` if `n` is at most `low_turns`; between them the two
    frequencies are mixed in proportion to `n`. So Llama 3.1 does. With `low_turns` infinite all are divided: positions
    are interpolated (S. Chen et al., Extending Context Window of Large Language Models via Positional Interpolation,
    2023).

    Raises:
        OptionError: A number is not positive, or `low_turns` exceeds `high_turns`.

    Example:
        >>> tg.nn.RotaryScaling(factor=8.0, low_turns=1.0, high_turns=4.0, original_length=8192).factor
        8.0

    Attributes:
        factor: What frequencies are divided by.
        low_turns: The number of turns up to which they are divided entirely.
        high_turns: The number of turns from which on they are not.
        original_length: The length within which turns are counted.
    """

    factor: float
    low_turns: float = math.inf
    high_turns: float = math.inf
    original_length: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.factor < math.inf and 0 <= self.low_turns <= self.high_turns and self.original_length > 0):
            raise OptionError(_at(f"RotaryScaling: expected positive numbers, low_turns <= high_turns, got {self}"))

    def scaled(self, frequencies: np.ndarray) -> np.ndarray:
        """Returns lower frequencies, in the same dtype."""
        turns = self.original_length * frequencies / (2 * math.pi)
        if self.low_turns == self.high_turns:
            kept = (turns > self.low_turns).astype(frequencies.dtype)
        else:
            kept = np.clip((turns - self.low_turns) / (self.high_turns - self.low_turns), 0, 1)
        return frequencies * (kept + (1 - kept) / self.factor)


@dataclass(frozen=True)
class YarnScaling:
    """How rotary frequencies are lowered, pair by pair, and scores raised, for longer texts: YaRN.

    From the pair that turns `fast_turns` times within the original length, which keeps its frequency, to the one that
    turns `slow_turns` times, whose frequency is divided by `factor`, the two are mixed in proportion to the pair's
    number. Scores of attention are multiplied by `score_factor` (B. Peng et al., YaRN: Efficient Context Window
    Extension of Large Language Models, 2023).

    Raises:
        OptionError: A number is not positive, or `slow_turns` exceeds `fast_turns`.

    Example:
        >>> scaling = tg.nn.YarnScaling(factor=4.0, original_length=32768)
        >>> round(scaling.score_factor, 3)
        1.296

    Attributes:
        factor: What frequencies are divided by.
        original_length: The length within which turns are counted.
        fast_turns: The number of turns of the last pair that keeps its frequency.
        slow_turns: The number of turns of the first pair whose frequency is divided entirely.
        whole: Whether these pairs' numbers are rounded, down and up.
        magnitude: What queries and keys are multiplied by, or None for `0.1 ln(factor) + 1`.
    """

    factor: float
    original_length: int
    fast_turns: float = 32.0
    slow_turns: float = 1.0
    whole: bool = True
    magnitude: float | None = None

    def __post_init__(self) -> None:
        numbers = (self.factor, self.original_length, self.slow_turns, self.fast_turns, self.score_factor)
        if not (all(0 < number < math.inf for number in numbers) and self.slow_turns <= self.fast_turns):
            raise OptionError(_at(f"YarnScaling: expected positive numbers, slow_turns <= fast_turns, got {self}"))

    @property
    def score_factor(self) -> float:
        """What scores are multiplied by."""
        plain = 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0
        return (plain if self.magnitude is None else self.magnitude) ** 2

    def scaled(self, frequencies: np.ndarray) -> np.ndarray:
        """Returns lower frequencies, in the same dtype."""
        pairs = len(frequencies)
        if pairs == 1:
            return frequencies
        decline = math.log(frequencies[0] / frequencies[-1]) / (pairs - 1)
        first, last = (
            math.log(self.original_length * frequencies[0] / (2 * math.pi * turns)) / decline
            for turns in (self.fast_turns, self.slow_turns)
        )
        if self.whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * pairs - 1)
        width = last - first or 0.001  # as the authors' code has it
        lowered = np.clip((np.arange(pairs, dtype=frequencies.dtype) - first) / width, 0, 1).astype(frequencies.dtype)
        return frequencies / self.factor * lowered + frequencies * (1 - lowered)


def rotary_frequencies(
    features: int, base: float = 10000.0, scaling: RotaryScaling | YarnScaling | None = None
) -> np.ndarray:
    """Returns the angles per position by which `rotary_embedding` rotates pairs: `base ** (-2 i / features)`.

    Args:
        features: The number of features, twice the number of pairs.
        base: Determines the lowest frequency.
        scaling: How they are lowered, or None.

    Returns:
        `[features / 2]`, f64.

    Raises:
        ShapeError: The number of features is odd.
        OptionError: The base is not positive.

    Example:
        >>> tg.nn.rotary_frequencies(4, 100.0)
        array([1. , 0.1])
        >>> tg.nn.rotary_frequencies(4, 100.0, tg.nn.RotaryScaling(factor=2.0))
        array([0.5 , 0.05])
    """
    if features % 2:
        raise ShapeError(_at(f"rotary positions: expected an even number of features, got {features}"))
    if not 0 < base < math.inf:
        raise OptionError(_at(f"rotary positions: base must be positive and finite, got {base!r}"))
    half = features // 2
    frequencies = float(base) ** (-np.arange(half) / half)
    return frequencies if scaling is None else scaling.scaled(frequencies)


def split_heads(x: TensorLike, num_heads: int) -> Tensor:
    """Reshapes `[..., length, features]` to `[..., num_heads, length, features / num_heads]`.

    Args:
        x: A tensor whose last axis contains the concatenated features of all heads.
        num_heads: The number of heads; it must divide the features.

    Raises:
        ShapeError: There are fewer than two axes, or the heads don't divide the last.

    Example:
        >>> tg.nn.split_heads(tg.zeros((2, 5, 12)), 3).shape
        (2, 3, 5, 4)
    """

    tensor = as_tensor(x)
    (num_heads,) = positive("split_heads", num_heads=num_heads)
    if tensor.ndim < 2 or tensor.shape[-1] % num_heads:
        expected = f"[..., length, a multiple of {num_heads}]"
        raise ShapeError(_at(f"split_heads: expected a shape {expected}, got {tensor.shape}"))
    *lead, features = tensor.shape
    return tg.swapaxes(tg.reshape(tensor, [*lead, num_heads, features // num_heads]), -3, -2)


def merge_heads(x: TensorLike) -> Tensor:
    """Reshapes `[..., heads, length, features]` to `[..., length, heads * features]`: the inverse of `split_heads`.

    Raises:
        ShapeError: There are fewer than three axes.

    Example:
        >>> tg.nn.merge_heads(tg.zeros((2, 3, 5, 4))).shape
        (2, 5, 12)
    """

    tensor = as_tensor(x)
    if tensor.ndim < 3:
        raise ShapeError(_at(f"merge_heads: expected a shape [..., heads, length, features], got {tensor.shape}"))
    *lead, heads, length, features = tensor.shape
    return tg.reshape(tg.swapaxes(tensor, -3, -2), [*lead, length, heads * features])


@public
@recorded_whole
def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    dropout_key: tg.random.Key | None = None,
    window: int | None = None,
    softcap: float | None = None,
) -> Tensor:
    """`softmax(query @ key.T * scale) @ value`, for each head.

    If there are fewer heads of keys than of queries, neighboring query heads share one (grouped-query attention).
    Attention of bf16 or f16 is computed in f32, and its result is rounded once.

    Args:
        query: `[..., heads, queries, features]`.
        key: `[..., kv_heads, keys, features]`, of the same leading axes; `kv_heads` divides `heads`.
        value: `[..., kv_heads, keys, value features]`.
        mask: Broadcasts to `[..., heads, queries, keys]`: booleans say which keys a query attends to, floats are added
            to the scores. A query that attends to none yields zeros: all its scores are masked or `-inf`.
        is_causal: Whether queries can't attend to later keys; the last query is at the position of the last key.
        scale: The factor of the scores; `1 / sqrt(features)` by default.
        dropout: The probability of dropping a weight; in a module of your own, 0 unless `self.training`.
        dropout_key: A random key, which dropout needs.
        window: How many keys a query attends to at most, its own and those before it; only if `is_causal`.
        softcap: Bounds scores, before masks apply: they become `softcap * tanh(scores / softcap)`.

    Returns:
        `[..., heads, queries, value features]`.

    Raises:
        ShapeError: The shapes don't match.
        DTypeError: The mask is neither bool nor float.
        OptionError: There is dropout, and no key; there is a window, but attention is not causal; or the window or
            `softcap` is not positive.

    Example:
        >>> query, key, value = tg.ones((2, 4, 5, 8)), tg.ones((2, 4, 7, 8)), tg.ones((2, 4, 7, 3))
        >>> tg.nn.scaled_dot_product_attention(query, key, value).shape
        (2, 4, 5, 3)
    """

    if dropout:
        check_key("scaled_dot_product_attention", dropout, dropout_key, "dropout_key")
    if window is not None and not is_causal:
        raise OptionError(_at("scaled_dot_product_attention: a window needs is_causal=True"))
    q, k, v = map(as_tensor, (query, key, value))
    dtype = reduce(promote, (q.dtype, k.dtype, v.dtype))
    q, k, v = widened(q), widened(k), widened(v)
    lead, groups = _checked_heads(q, k, v)
    heads, queries, features = q.shape[-3:]
    keys, kv_heads = k.shape[-2], k.shape[-3]
    # Query heads that share keys become more queries of one head: a view, without a copy of the keys.
    merged = tg.reshape(q, [*lead, kv_heads, groups * queries, features])
    merged = merged * (1 / math.sqrt(features or 1) if scale is None else scale)
    scores = tg.reshape(merged @ tg.swapaxes(k, -1, -2), [*lead, heads, queries, keys])
    if softcap is not None:
        cap = number_between("scaled_dot_product_attention", "softcap", softcap, TINIEST, math.inf)
        scores = cap * tg.tanh(scores / cap)
    allowed = None
    if mask is not None:
        mask_tensor = as_tensor(mask)
        if mask_tensor.dtype == NAMES["bool"]:
            allowed = mask_tensor
        elif is_float(mask_tensor.dtype):
            scores = scores + tg.cast(mask_tensor, scores.dtype)
        else:
            raise DTypeError(_at("scaled_dot_product_attention: the mask must be bool or float"))
        if scores.shape != (*lead, heads, queries, keys):
            raise ShapeError(_at(f"scaled_dot_product_attention: the mask has too large a shape, {mask_tensor.shape}"))
    if is_causal:
        causal = tg.causal_mask(queries, keys, window)
        allowed = causal if allowed is None else tg.logical_and(allowed, causal)
    # With a mask of floats nothing is excluded, but a row of -inf has weights 0.
    weights = tg.softmax(scores, -1, where=True if allowed is None and mask is not None else allowed)
    if dropout and dropout_key is not None:
        weights = tg.random.dropout(dropout_key, weights, dropout)
    weights = tg.reshape(weights, [*lead, kv_heads, groups * queries, keys])
    result = tg.reshape(weights @ v, [*lead, heads, queries, v.shape[-1]])
    return tg.cast(result, dtype) if is_half(dtype) else result


def _checked_heads(q: Any, k: Any, v: Any) -> tuple[tuple[int, ...], int]:
    """Returns the leading axes, and how many query heads share a head of keys."""
    fits = q.ndim == k.ndim == v.ndim >= 3 and q.shape[:-3] == k.shape[:-3]
    fits = fits and q.shape[-1] == k.shape[-1] and k.shape[:-1] == v.shape[:-1]
    if not fits or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ShapeError(
            _at(
                "scaled_dot_product_attention: needs [..., heads, length, features] of one batch and matching heads, "
                f"lengths and features, got query {q.shape}, key {k.shape}, value {v.shape}"
            )
        )
    return q.shape[:-3], q.shape[-3] // k.shape[-3]


class MultiHeadAttention(Module):
    """Multi-head attention, in which each head works on its share of the features.

    Parameters are initialized as in PyTorch: projections by Xavier's rule, biases with 0. Pass only a query for
    self-attention; a query and a key (which is also the value), or all three, for cross-attention.

    Args:
        embed_dim: Features of the query and of the result.
        num_heads: The number of heads; it must divide `embed_dim`.
        num_kv_heads: The number of heads of keys and values, a divisor of `num_heads`, which is the default.
        bias: Whether projections have biases.
        causal: Whether queries can't attend to later keys; the last query is at the position of the last key.
        rotary: The base of rotary positions, such as 10000.0, or None for no positions.
        dropout: The probability of dropping a weight.
        kdim: Features of the key; `embed_dim` by default.
        vdim: Features of the value; `kdim` by default.
        dtype: The dtype of the parameters.
        init: The initial weight of each projection: an initializer, or a number.
        bias_init: The initial bias of each projection.

    Attributes:
        q, k, v, out: The projections, `Linear`.

    Raises:
        ShapeError: An extent is not a positive integer, or the heads don't divide an extent that they must.
        OptionError: `dropout` or `rotary` is out of range.

    Example:
        >>> attention = tg.nn.MultiHeadAttention(8, num_heads=2, causal=True).initialized(0)
        >>> attention(tg.ones((3, 5, 8))).shape
        (3, 5, 8)
    """

    key_argument: ClassVar[str] = "dropout_key"
    q: Linear
    k: Linear
    v: Linear

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        bias: bool = True,
        causal: bool = False,
        rotary: float | None = None,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        bias_init: Init = zeros,
    ):
        super().__init__()
        name = "MultiHeadAttention"
        shared = num_heads if num_kv_heads is None else num_kv_heads
        kdim = embed_dim if kdim is None else kdim
        vdim = kdim if vdim is None else vdim
        embed_dim, num_heads, shared, kdim, vdim = positive(
            name, embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=shared, kdim=kdim, vdim=vdim
        )
        divides(name, num_heads=num_heads, embed_dim=embed_dim)
        divides(name, num_kv_heads=shared, num_heads=num_heads)
        if rotary is not None:
            number_between(name, "rotary", rotary, 1.0, 1e12)
            if embed_dim // num_heads % 2:
                raise ShapeError(f"{name}: rotary needs heads of an even number of features: {embed_dim // num_heads}")
        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, shared
        self.causal, self.rotary, self.dropout = causal, rotary, Dropout(dropout)
        kv_features = shared * (embed_dim // num_heads)
        projections = {"q": (embed_dim, embed_dim), "k": (kdim, kv_features), "v": (vdim, kv_features)}
        # With a single input, Xavier's rule treats the three as one matrix, as in PyTorch.
        packed = kdim == vdim == embed_dim
        for part, (in_features, out_features) in projections.items():
            outputs = embed_dim + 2 * kv_features if packed else out_features
            bound = math.sqrt(6 / (in_features + outputs))
            drawn = uniform(-bound, bound) if init is None else init
            setattr(self, part, Linear(in_features, out_features, bias, dtype, init=drawn, bias_init=bias_init))
        self.out = Linear(embed_dim, embed_dim, bias, dtype, init=init, bias_init=bias_init)

    def __call__(
        self, query: Any, key: Any = None, value: Any = None, *, mask: Any = None, dropout_key: Any = None
    ) -> tg.Tensor:
        """Applies the layer.

        Args:
            query: `[..., queries, embed_dim]`.
            key: `[..., keys, kdim]`, of the same leading axes; the query by default.
            value: `[..., keys, vdim]`; the key by default.
            mask: Broadcasts to `[..., heads, queries, keys]`: booleans say which keys a query attends to (those of
                PyTorch's layer, to which it doesn't), floats are added to the scores. For a mask
                `[batch, keys]` that is false for padding, use `mask[:, None, None, :]`.
            dropout_key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Returns:
            `[..., queries, embed_dim]`.

        Raises:
            ShapeError: The shapes don't match.
            DTypeError: The mask is neither bool nor float.
            OptionError: There is dropout, and no key.
        """
        rate = drop_rate(self, self.dropout.p, dropout_key, "dropout_key")
        key = query if key is None else key
        value = key if value is None else value
        name = "MultiHeadAttention"
        tensors = [trailing(name, x, (layer.in_features,)) for x, layer in self._inputs(query, key, value)]
        q, k, v = (
            split_heads(layer(x), heads)
            for x, layer, heads in zip(
                tensors,
                (self.q, self.k, self.v),
                (self.num_heads, self.num_kv_heads, self.num_kv_heads),
                strict=True,
            )
        )
        if self.rotary is not None:
            queries, keys = q.shape[-2], k.shape[-2]
            offset = keys - queries if self.causal else 0
            q = rotary_embedding(q, np.arange(queries) + offset, self.rotary)
            k = rotary_embedding(k, None, self.rotary)
        result = scaled_dot_product_attention(
            q, k, v, mask=mask, is_causal=self.causal, dropout=rate, dropout_key=dropout_key
        )
        return self.out(merge_heads(result))

    def _inputs(self, query: Any, key: Any, value: Any) -> list[tuple[Any, Linear]]:
        return [(query, self.q), (key, self.k), (value, self.v)]
