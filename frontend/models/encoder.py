"""What encoders of BERT's shape share, of texts and of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorgrad as tg
from tensorgrad.models.pretrained import attended, linear
from tensorgrad.models.settings import Options


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(Options):
    """Settings of encoders, under transformers' names.

    Attributes:
        hidden_size: The number of features.
        num_hidden_layers: The number of blocks.
        num_attention_heads: The number of heads.
        intermediate_size: The number of features within a feed-forward network.
        hidden_act: The activation function, by transformers' name.
        hidden_dropout_prob: The probability of dropping an embedding or a result of a block's part.
        attention_probs_dropout_prob: The probability of dropping a weight of attention.
        layer_norm_eps: What norms add to variances.
    """

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    layer_norm_eps: float = 1e-12


class SelfAttention(tg.nn.Module):
    """Attention without its output layer."""

    def __init__(self, options: EncoderOptions, bias: bool = True):
        super().__init__()
        size = options.hidden_size
        self.heads, self.dropout = options.num_attention_heads, options.attention_probs_dropout_prob
        self.query, self.key, self.value = (linear(options, size, size, bias) for _ in range(3))

    def __call__(self, x: Any, mask: Any, key: Any) -> Any:
        """Applies the layer to `[batch, length, hidden_size]`."""
        rate = self.dropout if self.training else 0.0
        return attended(self.query(x), self.key(x), self.value(x), self.heads, mask, rate, key)
