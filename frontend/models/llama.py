"""Decoders of Llama's shape: Llama, SmolLM, Mistral, Mixtral, Qwen2, Qwen3, their mixtures of experts, Gemma, Gemma 2.

H. Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023; A. Q. Jiang et al., Mistral 7B, 2023; A.
Q. Jiang et al., Mixtral of Experts, 2024; A. Yang et al., Qwen2 Technical Report, 2024; Gemma Team, Gemma 2: Improving
Open Language Models at a Practical Size, 2024.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.models.experts import FeedForward, SparseFeedForward
from tensorgrad.models.generation import LanguageModel
from tensorgrad.models.llama_options import VARIANTS, LlamaOptions, rotary_frequencies, rotary_scaling
from tensorgrad.models.pretrained import embedding, linear, padding, subkey, widened


class RMSNorm(tg.nn.RMSNorm):
    """`RMSNorm`, whose factor in Gemma is `1 + weight`."""

    def __init__(self, options: LlamaOptions, features: int):
        self.offset = float(options.variant.is_gemma)
        super().__init__(features, options.rms_norm_eps, init=1 - self.offset)

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[..., features]`."""
        weight: Any = widened(self.weight) + self.offset if self.offset else self.weight
        return tg.rms_norm(x, self.normalized_shape, weight, self.eps)


class LlamaAttention(tg.nn.Module):
    """Causal attention with rotary positions; groups of query heads share a head of keys and values."""

    def __init__(self, options: LlamaOptions, layer: int):
        super().__init__()
        self.heads, self.kv_heads = options.num_attention_heads, options.num_key_value_heads
        features = options.head_dim
        size, bias = options.hidden_size, options.attention_bias
        qkv_bias = bias or options.qkv_bias or options.variant.has_qkv_bias
        has_norms = options.variant.has_head_norms
        self.q_proj = linear(options, size, self.heads * features, qkv_bias)
        self.k_proj = linear(options, size, self.kv_heads * features, qkv_bias)
        self.v_proj = linear(options, size, self.kv_heads * features, qkv_bias)
        self.o_proj = linear(options, self.heads * features, size, bias)
        self.q_norm = RMSNorm(options, features) if has_norms else None
        self.k_norm = RMSNorm(options, features) if has_norms else None
        scaling = rotary_scaling(options)
        raised = scaling.score_factor if isinstance(scaling, tg.nn.YarnScaling) else 1.0
        self.scale = raised / math.sqrt(options.query_pre_attn_scalar or features)
        self.window, self.softcap = options.window(layer), options.attn_logit_softcapping
        self.dropout = options.attention_dropout
        self.frequencies, self.layer = tuple(rotary_frequencies(options)), layer

    def __call__(self, x: Any, mask: Any, positions: Any, key: Any, cache: Any) -> Any:
        """Applies the layer to `[batch, length, hidden_size]`."""
        q, k = tg.nn.split_heads(self.q_proj(x), self.heads), tg.nn.split_heads(self.k_proj(x), self.kv_heads)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        frequencies = np.array(self.frequencies)
        q, k = (tg.nn.rotary_embedding(part, positions, frequencies=frequencies) for part in (q, k))
        v = tg.nn.split_heads(self.v_proj(x), self.kv_heads)
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)
            mask = cache.mask(q.shape[-2], self.window)
        attended = tg.nn.scaled_dot_product_attention(
            q,
            k,
            v,
            mask=mask,
            is_causal=cache is None,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            dropout_key=key,
            window=self.window if cache is None else None,
            softcap=self.softcap,
        )
        return self.o_proj(tg.nn.merge_heads(attended))


class LlamaBlock(tg.nn.Module):
    """Attention and a feed-forward network, both residual, of normalized inputs; Gemma 2 normalizes results too."""

    def __init__(self, options: LlamaOptions, layer: int):
        super().__init__()
        self.self_attn = LlamaAttention(options, layer)
        self.feed_forward = options.variant.feed_forward
        is_sparse = options.is_sparse(layer)
        setattr(self, self.feed_forward, SparseFeedForward(options) if is_sparse else FeedForward(options))
        self.input_layernorm = RMSNorm(options, options.hidden_size)
        self.post_attention_layernorm = RMSNorm(options, options.hidden_size)
        self.around = options.variant.has_result_norms
        if self.around:
            self.pre_feedforward_layernorm = RMSNorm(options, options.hidden_size)
            self.post_feedforward_layernorm = RMSNorm(options, options.hidden_size)

    def __call__(self, x: Any, mask: Any, positions: Any, key: Any, cache: Any) -> Any:
        """Applies the block to `[batch, length, hidden_size]`."""
        mlp = getattr(self, self.feed_forward)
        attended = self.self_attn(self.input_layernorm(x), mask, positions, key, cache)
        if not self.around:
            x = x + attended
            return x + mlp(self.post_attention_layernorm(x))
        x = x + self.post_attention_layernorm(attended)
        return x + self.post_feedforward_layernorm(mlp(self.pre_feedforward_layernorm(x)))


class LlamaModel(tg.nn.Module):
    """Embeddings, blocks and a norm."""

    def __init__(self, options: LlamaOptions):
        super().__init__()
        self.embed_tokens = embedding(options, options.vocab_size, options.hidden_size)
        self.layers = [LlamaBlock(options, layer) for layer in range(options.num_hidden_layers)]
        self.norm = RMSNorm(options, options.hidden_size)
        self.factor = math.sqrt(options.hidden_size) if options.variant.is_gemma else 1.0

    def __call__(self, input_ids: Any, attention_mask: Any, position_ids: Any, key: Any, cache: Any) -> Any:
        """Returns features, `[batch, length, hidden_size]`."""
        x = self.embed_tokens(input_ids)
        x = x * self.factor if self.factor != 1 else x
        mask = padding(attention_mask)
        for layer, block in enumerate(self.layers):
            x = block(x, mask, position_ids, subkey(key, layer), cache)
        return self.norm(x)


class LlamaForCausalLM(LanguageModel):
    """A language model of Llama's shape, which predicts the next token at each position.

    Args:
        options: The settings; `options.model_type` says whether it is a Llama, a Mistral, a Mixtral, a Qwen or a Gemma.

    Attributes:
        model: Embeddings and blocks; parameters have transformers' names, `model.layers.0.self_attn.q_proj.weight`.
        lm_head: `Linear`, or None if `options.tie_word_embeddings`.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such activation function.

    Example:
        >>> options = tg.models.LlamaOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> model = tg.models.LlamaForCausalLM(options).initialized(0)
        >>> model([[1, 2, 3]]).shape
        (1, 3, 50)
    """

    options_type = LlamaOptions
    base = "model"
    head = ("lm_head.*",)
    unused = ("*.rotary_emb.inv_freq",)

    @classmethod
    def architectures(cls) -> dict[str, str]:
        """Returns transformers' names of the model, by type of model."""
        titles = {model_type: "".join(map(str.capitalize, model_type.split("_"))) for model_type in VARIANTS}
        return {model_type: f"{title}ForCausalLM" for model_type, title in titles.items()}

    def __init__(self, options: LlamaOptions):
        layers, heads = options.num_hidden_layers, options.num_key_value_heads
        super().__init__(options, options.vocab_size, layers, heads, options.head_dim)
        self.model = LlamaModel(options)
        tied = options.tie_word_embeddings
        self.lm_head = None if tied else linear(options, options.hidden_size, options.vocab_size, bias=False)
        self.softcap = options.final_logit_softcapping

    def _features(self, *arguments: Any) -> tg.Tensor:
        return self.model(*arguments)

    def _logits(self, features: tg.Tensor) -> tg.Tensor:
        logits = self.model.embed_tokens.attend(features) if self.lm_head is None else self.lm_head(features)
        return logits if self.softcap is None else self.softcap * tg.tanh(logits / self.softcap)
