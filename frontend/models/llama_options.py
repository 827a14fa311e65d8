"""Settings of decoders of Llama's shape, and what distinguishes the types of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any, ClassVar

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.models.settings import Options
from tensorgrad.nn.checks import positive
from tensorgrad.tracing.location import user_line


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What distinguishes a type of model.

    Attributes:
        settings: Which of the settings it has that only some types have.
        defaults: What transformers takes for settings that a folder omits, where the fields' defaults are others.
        slides: Returns whether attention has a window, of a layer and `max_window_layers`, without `layer_types`.
        has_qkv_bias: Whether queries, keys and values have biases whatever `attention_bias` is.
        has_head_norms: Whether queries and keys are normalized, head by head.
        has_result_norms: Whether the results of attention and of feed-forward networks are normalized.
        is_gemma: Whether embeddings are multiplied by the square root of their features, and the factor of norms is
            `1 + weight`.
        has_normalized_experts: Whether the weights of a token's experts are divided by their sum whatever
            `norm_topk_prob` is.
        feed_forward: The name of a block's feed-forward network.
        expert: The names of an expert's gate, of what it multiplies, and of its output.
        experts_setting: The name of `num_experts` in folders.
    """

    settings: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    slides: Callable[[int, int], bool] = lambda layer, first: False
    has_qkv_bias: bool = False
    has_head_norms: bool = False
    has_result_norms: bool = False
    is_gemma: bool = False
    has_normalized_experts: bool = False
    feed_forward: str = "mlp"
    expert: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    experts_setting: str = "num_experts"


GEMMA = {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 256}
WINDOWS = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
EXPERTS = ("num_experts", "num_experts_per_tok")
SPARSE = (*EXPERTS, "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers")
CAPS = {"query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}

VARIANTS = {
    "llama": Variant(settings=("attention_bias", "mlp_bias")),
    "mistral": Variant(
        settings=("sliding_window",),
        defaults={"num_key_value_heads": 8, "sliding_window": 4096},
        slides=lambda layer, first: True,
    ),
    "qwen2": Variant(
        settings=WINDOWS,
        defaults={"sliding_window": 4096},
        slides=lambda layer, first: layer >= first,
        has_qkv_bias=True,
    ),
    "qwen3": Variant(
        settings=("attention_bias", *WINDOWS),
        defaults={"sliding_window": 4096, "head_dim": 128},
        slides=lambda layer, first: layer >= first,
        has_head_norms=True,
    ),
    "mixtral": Variant(
        settings=("sliding_window", *EXPERTS),
        defaults={
            "num_key_value_heads": 8,
            "rope_theta": 1e6,
            "rms_norm_eps": 1e-5,
            "max_position_embeddings": 131072,
            "num_experts": 8,
            "num_experts_per_tok": 2,
        },
        slides=lambda layer, first: True,
        has_normalized_experts=True,
        feed_forward="block_sparse_moe",
        expert=("w1", "w3", "w2"),
        experts_setting="num_local_experts",
    ),
    "qwen2_moe": Variant(
        settings=(*WINDOWS, *SPARSE, "qkv_bias", "shared_expert_intermediate_size"),
        defaults={
            "num_key_value_heads": 16,
            "sliding_window": 4096,
            "max_position_embeddings": 32768,
            "qkv_bias": True,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
        },
        slides=lambda layer, first: layer % 2 == 0 and layer < first,
    ),
    "qwen3_moe": Variant(
        settings=("attention_bias", *WINDOWS[:3], *SPARSE),
        defaults={
            "num_key_value_heads": 4,
            "sliding_window": 4096,
            "max_position_embeddings": 32768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
        },
        slides=lambda layer, first: True,
        has_head_norms=True,
    ),
    "gemma": Variant(settings=("attention_bias",), defaults=GEMMA, is_gemma=True),
    "gemma2": Variant(
        settings=("attention_bias", "sliding_window", "layer_types", *CAPS),
        defaults={**GEMMA, **CAPS, "sliding_window": 4096},
        slides=lambda layer, first: layer % 2 == 0,
        has_result_norms=True,
        is_gemma=True,
    ),
}
"""The types of models, by transformers' names."""

OPTIONAL = {setting for variant in VARIANTS.values() for setting in variant.settings}
"""The settings that only some types have."""


def _yarn(
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
) -> tg.nn.YarnScaling:
    """Returns the scaling of transformers' settings, of which `mscale` and `mscale_all_dim` are DeepSeek's."""
    if attention_factor is None and mscale and mscale_all_dim:
        growth = max(0.1 * math.log(factor), 0)
        attention_factor = (mscale * growth + 1) / (mscale_all_dim * growth + 1)
    return tg.nn.YarnScaling(
        factor, original_max_position_embeddings, beta_fast or 32, beta_slow or 1, truncate, attention_factor
    )


SCALINGS: dict[str, Callable[..., tg.nn.RotaryScaling | tg.nn.YarnScaling | None]] = {
    "default": lambda: None,
    "linear": lambda factor: tg.nn.RotaryScaling(factor),
    "llama3": lambda factor, low_freq_factor, high_freq_factor, original_max_position_embeddings: tg.nn.RotaryScaling(
        factor, low_freq_factor, high_freq_factor, original_max_position_embeddings
    ),
    "yarn": _yarn,
}
"""How frequencies of rotary positions are scaled, by `rope_type`, from the other settings of `rope_scaling`."""


@dataclass(frozen=True, kw_only=True)
class LlamaOptions(Options):
    """Settings of Llama-shaped models, under transformers' names.

    Defaults are those of a Llama; a folder's are those of its type of model.

    Attributes:
        model_type: `llama` (SmolLM too), `mistral`, `mixtral`, `qwen2`, `qwen2_moe`, `qwen3`, `qwen3_moe`, `gemma` or
            `gemma2`: which biases and norms there are, how embeddings are scaled, and which settings apply.
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
        qkv_bias: Whether the projections to queries, keys and values have biases.
        num_experts: The number of experts, feed-forward networks of which a router chooses; `num_local_experts` in a
            folder of Mixtral's.
        num_experts_per_tok: How many experts each token has.
        norm_topk_prob: Whether the weights of a token's experts are divided by their sum.
        moe_intermediate_size: The number of features within an expert; `intermediate_size` by default.
        shared_expert_intermediate_size: The number of features within the expert that all tokens have; 0 for none.
        decoder_sparse_step: The last of each so many layers has experts.
        mlp_only_layers: Layers that have none in any case.

    Raises:
        OptionError: There is no such type of model, or it doesn't have one of the settings; or tokens have more experts
            than there are.
        ShapeError: `hidden_size` or `num_attention_heads` is not a positive integer.
        InputError: `rope_scaling` has a type or settings that aren't supported.

    Example:
        >>> options = tg.models.LlamaOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> options.model_type, options.head_dim
        ('llama', 4)
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]] = {name: kind.defaults for name, kind in VARIANTS.items()}
    without_effect = ("is_llama_config", "hidden_activation", "output_router_logits", "router_aux_loss_coef")
    fixed = {"rope_interleaved": False, "partial_rotary_factor": 1.0, "router_jitter_noise": 0.0}

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
    qkv_bias: bool = False
    num_experts: int = 0
    num_experts_per_tok: int = 0
    norm_topk_prob: bool = False
    moe_intermediate_size: int = 0
    shared_expert_intermediate_size: int = 0
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("LlamaOptions", hidden_size=self.hidden_size, num_attention_heads=self.num_attention_heads)
        heads = self.num_attention_heads
        kv_heads, head_dim = self.num_key_value_heads or heads, self.head_dim or self.hidden_size // heads
        object.__setattr__(self, "num_key_value_heads", kv_heads)
        object.__setattr__(self, "head_dim", head_dim)
        if self.has_experts:
            self._check_experts()
        rotary_scaling(self)

    def _check_experts(self) -> None:
        positive("LlamaOptions", num_experts=self.num_experts, num_experts_per_tok=self.num_experts_per_tok)
        positive("LlamaOptions", decoder_sparse_step=self.decoder_sparse_step)
        if self.num_experts_per_tok > self.num_experts:
            raise OptionError(
                f"{user_line()}: num_experts_per_tok is {self.num_experts_per_tok}, but num_experts {self.num_experts}"
            )
        if "moe_intermediate_size" in self.variant.settings and not self.moe_intermediate_size:
            object.__setattr__(self, "moe_intermediate_size", self.intermediate_size)

    @classmethod
    def settings_of(cls, model_type: str) -> dict[str, Field[Any]]:
        """Returns the fields that a model type has, by name."""
        absent = OPTIONAL - set(VARIANTS[model_type].settings)
        return {name: each for name, each in super().settings_of(model_type).items() if name not in absent}

    @classmethod
    def translated(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns settings under one name each, of which folders of several versions have several."""
        settings = super().translated(config)
        rotary = dict(settings.pop("rope_parameters", None) or {})
        if rotary:
            settings["rope_theta"] = rotary.pop("rope_theta", settings.get("rope_theta"))
            settings["rope_scaling"] = rotary
        variant = VARIANTS[str(settings.get("model_type"))]
        if "num_experts" in variant.settings and "num_local_experts" in settings:
            settings["num_experts"] = settings.pop("num_local_experts")
        if variant.is_gemma:
            name = settings.pop("hidden_activation", None) or settings.get("hidden_act") or "gelu_pytorch_tanh"
            settings["hidden_act"] = "gelu_pytorch_tanh" if name == "gelu" else name
        return settings

    def written(self) -> dict[str, Any]:
        """Returns the settings as `config.json` has them."""
        named = {"hidden_activation": self.hidden_act} if self.variant.is_gemma else {}
        settings = super().written()
        if self.has_experts:
            settings[self.variant.experts_setting] = settings.pop("num_experts")
        return {**settings, **named}

    @property
    def variant(self) -> Variant:
        """What distinguishes the type of model."""
        return VARIANTS[self.model_type]

    @property
    def has_experts(self) -> bool:
        """Whether layers of the type of model have experts."""
        return "num_experts" in self.variant.settings

    def is_sparse(self, layer: int) -> bool:
        """Returns whether a layer has experts."""
        is_turn = (layer + 1) % self.decoder_sparse_step == 0
        return self.has_experts and is_turn and layer not in (self.mlp_only_layers or ())

    def window(self, layer: int) -> int | None:
        """Returns how many positions a query attends to at most, in a layer."""
        if "use_sliding_window" in self.variant.settings and not self.use_sliding_window:
            return None
        if self.layer_types is None:
            slides = self.variant.slides(layer, self.max_window_layers)
        else:
            slides = self.layer_types[layer] == "sliding_attention"
        return self.sliding_window if slides else None


def rotary_scaling(options: LlamaOptions) -> tg.nn.RotaryScaling | tg.nn.YarnScaling | None:
    """Returns how frequencies of rotary positions are scaled.

    Raises:
        InputError: That is not supported.
    """
    settings = dict(options.rope_scaling or {})
    named = {settings.pop(name) for name in ("rope_type", "type") if name in settings} or {"default"}
    kind = named.pop()
    if settings.get("partial_rotary_factor") == 1:
        del settings["partial_rotary_factor"]
    if kind in ("llama3", "yarn"):
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
