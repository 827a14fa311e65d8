"""GPT-2.

A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.models.generation import LanguageModel
from tensorgrad.models.pretrained import embedding, linear, padding, positions_of, subkey
from tensorgrad.models.settings import Options, activation
from tensorgrad.nn.checks import positive


@dataclass(frozen=True, kw_only=True)
class GPT2Options(Options):
    """Settings of GPT-2, under transformers' names; the defaults are those of the model of 124 million parameters.

    Attributes:
        vocab_size: The number of tokens.
        n_positions: The greatest length.
        n_embd: The number of features.
        n_layer: The number of blocks.
        n_head: The number of heads.
        n_inner: The number of features within a feed-forward network; `4 * n_embd` by default.
        activation_function: The activation function, by transformers' name.
        layer_norm_epsilon: What norms add to variances.
        embd_pdrop: The probability of dropping an embedding.
        attn_pdrop: The probability of dropping a weight of attention.
        resid_pdrop: The probability of dropping a result of attention or of a feed-forward network.
        scale_attn_weights: Whether scores are divided by the square root of a head's features.
        scale_attn_by_inverse_layer_idx: Whether scores are divided by the number of the layer, from 1.

    Raises:
        ShapeError: `n_embd` or `n_head` is not a positive integer.

    Example:
        >>> tg.models.GPT2Options(n_layer=24, n_embd=1024, n_head=16).vocab_size
        50257
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]] = {"gpt2": {}}
    without_effect = (
        *("n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
        *("summary_type", "summary_use_proj"),
    )
    fixed = {"tie_word_embeddings": True}

    model_type: str = "gpt2"
    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("GPT2Options", n_embd=self.n_embd, n_head=self.n_head)


class GPT2Attention(tg.nn.Module):
    """Causal attention, with one projection for queries, keys and values."""

    def __init__(self, options: GPT2Options, layer: int):
        super().__init__()
        size, self.heads, self.dropout = options.n_embd, options.n_head, options.attn_pdrop
        self.c_attn, self.c_proj = linear(options, size, 3 * size), linear(options, size, size)
        self.scale = 1 / math.sqrt(size / options.n_head) if options.scale_attn_weights else 1.0
        self.scale /= layer + 1 if options.scale_attn_by_inverse_layer_idx else 1
        self.layer = layer

    def __call__(self, x: Any, mask: Any, key: Any, cache: Any) -> Any:
        """Applies the layer to `[batch, length, n_embd]`."""
        q, k, v = (tg.nn.split_heads(part, self.heads) for part in tg.split(self.c_attn(x), 3, axis=-1))
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)
            mask = cache.mask(q.shape[-2])
        rate = self.dropout if self.training else 0.0
        attended = tg.nn.scaled_dot_product_attention(
            q, k, v, mask=mask, is_causal=cache is None, scale=self.scale, dropout=rate, dropout_key=key
        )
        return self.c_proj(tg.nn.merge_heads(attended))


class GPT2MLP(tg.nn.Module):
    """A feed-forward network."""

    def __init__(self, options: GPT2Options):
        super().__init__()
        inner = options.n_inner or 4 * options.n_embd
        self.c_fc, self.c_proj = linear(options, options.n_embd, inner), linear(options, inner, options.n_embd)
        self.activation = activation(options.activation_function)

    def __call__(self, x: Any) -> Any:
        """Applies the network to `[..., n_embd]`."""
        return self.c_proj(self.activation(self.c_fc(x)))


class GPT2Block(tg.nn.Module):
    """Attention and a feed-forward network, both residual, of normalized inputs."""

    def __init__(self, options: GPT2Options, layer: int):
        super().__init__()
        self.ln_1 = tg.nn.LayerNorm(options.n_embd, options.layer_norm_epsilon)
        self.attn = GPT2Attention(options, layer)
        self.ln_2 = tg.nn.LayerNorm(options.n_embd, options.layer_norm_epsilon)
        self.mlp, self.dropout = GPT2MLP(options), tg.nn.Dropout(options.resid_pdrop)

    def __call__(self, x: Any, mask: Any, key: Any, cache: Any) -> Any:
        """Applies the block to `[batch, length, n_embd]`."""
        x = x + self.dropout(self.attn(self.ln_1(x), mask, subkey(key, 0), cache), subkey(key, 1))
        return x + self.dropout(self.mlp(self.ln_2(x)), subkey(key, 2))


class GPT2Model(tg.nn.Module):
    """Embeddings, blocks and a norm."""

    def __init__(self, options: GPT2Options):
        super().__init__()
        self.wte = embedding(options, options.vocab_size, options.n_embd)
        self.wpe = embedding(options, options.n_positions, options.n_embd)
        self.dropout = tg.nn.Dropout(options.embd_pdrop)
        self.h = [GPT2Block(options, layer) for layer in range(options.n_layer)]
        self.ln_f = tg.nn.LayerNorm(options.n_embd, options.layer_norm_epsilon)

    def __call__(self, input_ids: Any, attention_mask: Any, position_ids: Any, key: Any, cache: Any) -> Any:
        """Returns features, `[batch, length, n_embd]`."""
        places = positions_of(input_ids, self.wpe, position_ids)
        x = self.dropout(self.wte(input_ids) + places, subkey(key, 0))
        mask = padding(attention_mask)
        for layer, block in enumerate(self.h, 1):
            x = block(x, mask, subkey(key, layer), cache)
        return self.ln_f(x)


class GPT2LMHeadModel(LanguageModel):
    """GPT-2 as a language model, which predicts the next token at each position.

    Args:
        options: The settings.

    Attributes:
        transformer: Embeddings and blocks, also the output layer; parameters have transformers' names,
            `transformer.h.0.attn.c_attn.weight`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function, or a probability is not a number between 0 and 1.

    Example:
        >>> options = tg.models.GPT2Options(vocab_size=50, n_positions=8, n_embd=16, n_layer=2, n_head=4)
        >>> model = tg.models.GPT2LMHeadModel(options).initialized(0)
        >>> tg.nn.inference(model)([[1, 2, 3]]).shape
        (1, 3, 50)
    """

    options_type = GPT2Options
    base = "transformer"
    head = ("lm_head.*",)
    unused = ("*.attn.bias", "*.attn.masked_bias")
    conv1d = ("*.c_attn.weight", "*.c_proj.weight", "*.c_fc.weight")

    def __init__(self, options: GPT2Options):
        layers, heads = options.n_layer, options.n_head
        super().__init__(options, options.vocab_size, layers, heads, options.n_embd // heads, options.n_positions)
        self.transformer = GPT2Model(options)

    def _features(self, *arguments: Any) -> tg.Tensor:
        return self.transformer(*arguments)

    def _logits(self, features: tg.Tensor) -> tg.Tensor:
        return self.transformer.wte.attend(features)
