"""Decoders of Llama's shape: Llama, SmolLM, Mistral, Qwen2, Qwen3, Gemma and Gemma 2.

H. Touvron et al., LLaMA: Open and Efficient Foundation Language Models, 2023; A. Q. Jiang et al., Mistral 7B, 2023;
A. Yang et al., Qwen2 Technical Report, 2024; Gemma Team, Gemma 2: Improving Open Language Models at a Practical Size,
2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass
from typing import Any, ClassVar

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import InputError
from tensorgrad.models.pretrained import Pretrained, embedding, linear, padding, subkey
from tensorgrad.models.settings import Options, activation
from tensorgrad.tracing.location import user_line

GEMMA = ("gemma", "gemma2")
QWEN = ("qwen2", "qwen3")
ONLY = {
    "attention_bias": ("llama", "qwen3", *GEMMA),
    "attn_logit_softcapping": ("gemma2",),
    "final_logit_softcapping": ("gemma2",),
    "layer_types": (*QWEN, "gemma2"),
    "max_window_layers": QWEN,
    "mlp_bias": ("llama",),
    "query_pre_attn_scalar": ("gemma2",),
    "sliding_window": ("mistral", *QWEN, "gemma2"),
    "use_sliding_window": QWEN,
}
"""The settings that only some types of models have."""

GEMMA_DEFAULTS = {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 256}

SCALINGS: dict[str, Callable[..., tg.nn.RotaryScaling | None]] = {
    "default": lambda: None,
    "linear": lambda factor: tg.nn.RotaryScaling(factor),
    "llama3": lambda factor, low_freq_factor, high_freq_factor, original_max_position_embeddings: tg.nn.RotaryScaling(
        factor, low_freq_factor, high_freq_factor, original_max_position_embeddings
    ),
}
"""How frequencies of rotary positions are scaled, by `rope_type`, from the other settings of `rope_scaling`."""


@dataclass(frozen=True, kw_only=True)
class LlamaOptions(Options):
    """Settings of Llama-shaped models, under transformers' names.

    Attributes:
        model_type: `llama` (SmolLM too), `mistral`, `qwen2`, `qwen3`, `gemma` or `gemma2`: which biases and norms there
            are, how embeddings are scaled, and which settings apply.
        vocab_size: The number of tokens.
        hidden_size: The number of features.
        intermediate_size: The number of features within a feed-forward network.
        num_hidden_layers: The number of blocks.
        num_attention_heads: The number of heads of queries.
        num_key_value_heads: The number of heads of keys and values; that of queries by default.
        head_dim: The number of features of a head; `hidden_size / num_attention_heads` by default.
        hidden_act: The activation function, by transformers' name.
        max_position_embeddings: The longest text that the model was trained on.
        rms_norm_eps: What norms add to the mean square.
        tie_word_embeddings: Whether the output layer is the table of embeddings.
        rope_theta: The base of rotary positions.
        rope_scaling: Their scaling, `rope_type` and its settings, or None.
        attention_dropout: The probability of dropping a weight of attention.
        attention_bias: Whether the projections of attention have biases.
        mlp_bias: Whether the feed-forward network has biases.
        sliding_window: How many positions a query attends to at most, or None.
        use_sliding_window: Whether there is such a window, in Qwen.
        max_window_layers: The first layer that has it, in Qwen.
        layer_types: `sliding_attention` or `full_attention` for each layer; by default as the type of model has it.
        query_pre_attn_scalar: Scores are divided by its square root; `head_dim` by default.
        attn_logit_softcapping: A smooth bound of scores, or None.
        final_logit_softcapping: A smooth bound of logits, or None.

    Raises:
        OptionError: There is no such type of model.
        InputError: `rope_scaling` has a type or settings that aren't supported.
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "llama": {},
        "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
        "qwen2": {"sliding_window": 4096},
        "qwen3": {"sliding_window": 4096, "head_dim": 128},
        "gemma": GEMMA_DEFAULTS,
        "gemma2": {
            **GEMMA_DEFAULTS,
            "sliding_window": 4096,
            "query_pre_attn_scalar": 256,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    }
    without_effect = ("is_llama_config", "hidden_activation")
    fixed = {"rope_interleaved": False, "partial_rotary_factor": 1.0}

    model_type: str = "llama"
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int = 0
    head_dim: int = 0
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    rope_theta: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None
    attention_dropout: float = 0.0
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    use_sliding_window: bool = False
    max_window_layers: int = 28
    layer_types: list[str] | None = None
    query_pre_attn_scalar: float | None = None
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        kv_heads, head_dim = self.num_key_value_heads or heads, self.head_dim or self.hidden_size // heads
        object.__setattr__(self, "num_key_value_heads", kv_heads)
        object.__setattr__(self, "head_dim", head_dim)
        rotary_scaling(self)

    @classmethod
    def settings_of(cls, model_type: str) -> dict[str, Field[Any]]:
        """Returns the fields that a model type has, by name."""
        every = super().settings_of(model_type)
        return {name: each for name, each in every.items() if model_type in ONLY.get(name, (model_type,))}

    @classmethod
    def translated(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns settings with rotary positions, and Gemma's activation, under their older names."""
        settings = super().translated(config)
        rotary = dict(settings.pop("rope_parameters", None) or {})
        if rotary:
            settings["rope_theta"] = rotary.pop("rope_theta", settings.get("rope_theta"))
            settings["rope_scaling"] = rotary
        if settings.get("model_type") in GEMMA:
            name = settings.pop("hidden_activation", None) or settings.get("hidden_act") or "gelu_pytorch_tanh"
            settings["hidden_act"] = "gelu_pytorch_tanh" if name == "gelu" else name
        return settings

    def written(self) -> dict[str, Any]:
        """Returns the settings as `config.json` has them."""
        named = {"hidden_activation": self.hidden_act} if self.model_type in GEMMA else {}
        return {**super().written(), **named}

    def window(self, layer: int) -> int | None:
        """Returns how many positions a query attends to at most, in a layer."""
        if self.layer_types is not None:
            slides = self.layer_types[layer] == "sliding_attention"
        elif self.model_type in QWEN:
            slides = layer >= self.max_window_layers
        else:
            slides = self.model_type == "mistral" or layer % 2 == 0
        return self.sliding_window if slides and (self.use_sliding_window or self.model_type not in QWEN) else None


def rotary_scaling(options: LlamaOptions) -> tg.nn.RotaryScaling | None:
    """Returns how frequencies of rotary positions are scaled.

    Raises:
        InputError: That is not supported.
    """
    settings = dict(options.rope_scaling or {})
    named = {settings.pop(name) for name in ("rope_type", "type") if name in settings} or {"default"}
    kind = named.pop()
    if settings.get("partial_rotary_factor") == 1:
        del settings["partial_rotary_factor"]
    if kind == "llama3":
        settings.setdefault("original_max_position_embeddings", options.max_position_embeddings)
    try:
        return SCALINGS[kind](**settings)
    except (KeyError, TypeError):
        raise InputError(
            f"{user_line()}: rope_scaling {dict(options.rope_scaling or {})} is not supported; the types are "
            f"{', '.join(SCALINGS)}, each with its own settings"
        ) from None


def rotary_frequencies(options: LlamaOptions) -> np.ndarray:
    """Returns the frequencies of rotary positions in f32, rounded after each operation, as models were trained.

    In longer texts the roundings matter: at position 10000 they are 0.001 of a radian.
    """
    exponents = np.arange(0, options.head_dim, 2).astype(np.float32) / np.float32(options.head_dim)
    frequencies = 1 / np.power(np.float64(options.rope_theta), exponents).astype(np.float32)
    scaling = rotary_scaling(options)
    return frequencies if scaling is None else scaling.scaled(frequencies)


class RMSNorm(tg.nn.RMSNorm):
    """`RMSNorm`, whose factor in Gemma is `1 + weight`."""

    def __init__(self, options: LlamaOptions, features: int):
        self.offset = float(options.model_type in GEMMA)
        super().__init__(features, options.rms_norm_eps, init=1 - self.offset)

    def __call__(self, x: Any) -> tg.Tensor:
        """Applies the layer to `[..., features]`."""
        weight: Any = self.weight
        weight = weight + self.offset if self.offset else weight
        return tg.rms_norm(x, self.normalized_shape, weight, self.eps)


class LlamaAttention(tg.nn.Module):
    """Causal attention with rotary positions; groups of query heads share a head of keys and values."""

    def __init__(self, options: LlamaOptions, layer: int):
        super().__init__()
        self.heads, self.kv_heads = options.num_attention_heads, options.num_key_value_heads
        features = options.head_dim
        size, bias = options.hidden_size, options.attention_bias
        self.q_proj = linear(options, size, self.heads * features, bias or options.model_type == "qwen2")
        self.k_proj = linear(options, size, self.kv_heads * features, bias or options.model_type == "qwen2")
        self.v_proj = linear(options, size, self.kv_heads * features, bias or options.model_type == "qwen2")
        self.o_proj = linear(options, self.heads * features, size, bias)
        self.q_norm = RMSNorm(options, features) if options.model_type == "qwen3" else None
        self.k_norm = RMSNorm(options, features) if options.model_type == "qwen3" else None
        self.scale = 1 / math.sqrt(options.query_pre_attn_scalar or features)
        self.window, self.softcap = options.window(layer), options.attn_logit_softcapping
        self.dropout = options.attention_dropout
        self.frequencies = tuple(rotary_frequencies(options))

    def __call__(self, x: Any, mask: Any, positions: Any, key: Any) -> Any:
        """Applies the layer to `[batch, length, hidden_size]`."""
        q, k = tg.nn.split_heads(self.q_proj(x), self.heads), tg.nn.split_heads(self.k_proj(x), self.kv_heads)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        frequencies = np.array(self.frequencies)
        q, k = (tg.nn.rotary_embedding(part, positions, frequencies=frequencies) for part in (q, k))
        attended = tg.nn.scaled_dot_product_attention(
            q,
            k,
            tg.nn.split_heads(self.v_proj(x), self.kv_heads),
            mask=mask,
            is_causal=True,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            dropout_key=key,
            window=self.window,
            softcap=self.softcap,
        )
        return self.o_proj(tg.nn.merge_heads(attended))


class LlamaMLP(tg.nn.Module):
    """A gated feed-forward network."""

    def __init__(self, options: LlamaOptions):
        super().__init__()
        size, inner, bias = options.hidden_size, options.intermediate_size, options.mlp_bias
        self.gate_proj, self.up_proj = linear(options, size, inner, bias), linear(options, size, inner, bias)
        self.down_proj = linear(options, inner, size, bias)
        self.activation = activation(options.hidden_act)

    def __call__(self, x: Any) -> Any:
        """Applies the network to `[..., hidden_size]`."""
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(tg.nn.Module):
    """Attention and a feed-forward network, both residual, of normalized inputs; Gemma 2 normalizes results too."""

    def __init__(self, options: LlamaOptions, layer: int):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(options, layer), LlamaMLP(options)
        self.input_layernorm = RMSNorm(options, options.hidden_size)
        self.post_attention_layernorm = RMSNorm(options, options.hidden_size)
        self.around = options.model_type == "gemma2"
        if self.around:
            self.pre_feedforward_layernorm = RMSNorm(options, options.hidden_size)
            self.post_feedforward_layernorm = RMSNorm(options, options.hidden_size)

    def __call__(self, x: Any, mask: Any, positions: Any, key: Any) -> Any:
        """Applies the block to `[batch, length, hidden_size]`."""
        attended = self.self_attn(self.input_layernorm(x), mask, positions, key)
        if not self.around:
            x = x + attended
            return x + self.mlp(self.post_attention_layernorm(x))
        x = x + self.post_attention_layernorm(attended)
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class LlamaModel(tg.nn.Module):
    """Embeddings, blocks and a norm."""

    def __init__(self, options: LlamaOptions):
        super().__init__()
        self.embed_tokens = embedding(options, options.vocab_size, options.hidden_size)
        self.layers = [LlamaBlock(options, layer) for layer in range(options.num_hidden_layers)]
        self.norm = RMSNorm(options, options.hidden_size)
        self.factor = math.sqrt(options.hidden_size) if options.model_type in GEMMA else 1.0

    def __call__(self, input_ids: Any, attention_mask: Any, position_ids: Any, key: Any) -> Any:
        """Returns features, `[batch, length, hidden_size]`."""
        x = self.embed_tokens(input_ids)
        x = x * self.factor if self.factor != 1 else x
        mask = padding(attention_mask)
        for layer, block in enumerate(self.layers):
            x = block(x, mask, position_ids, subkey(key, layer))
        return self.norm(x)


class LlamaForCausalLM(Pretrained):
    """A language model of Llama's shape, which predicts the next token at each position.

    Args:
        options: The settings; `options.model_type` says whether it is a Llama, a Mistral, a Qwen or a Gemma.

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
        return {model_type: f"{model_type.capitalize()}ForCausalLM" for model_type in LlamaOptions.model_types}

    def __init__(self, options: LlamaOptions):
        super().__init__(options)
        self.model = LlamaModel(options)
        tied = options.tie_word_embeddings
        self.lm_head = None if tied else linear(options, options.hidden_size, options.vocab_size, bias=False)
        self.softcap = options.final_logit_softcapping

    def __call__(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None, key: Any = None) -> Any:
        """Returns logits, `[batch, length, vocab_size]`.

        Args:
            input_ids: Tokens, `[batch, length]`, integers.
            attention_mask: `[batch, length]`, 0 or false for padding.
            position_ids: `[batch, length]` or `[length]`; 0, 1, 2, ... by default.
            key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.

        Raises:
            ShapeError: The shapes don't match.
            OptionError: There is dropout, and no key.
        """
        x = self.model(input_ids, attention_mask, position_ids, key)
        logits = self.model.embed_tokens.attend(x) if self.lm_head is None else self.lm_head(x)
        return logits if self.softcap is None else self.softcap * tg.tanh(logits / self.softcap)
