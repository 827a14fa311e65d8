"""Feed-forward networks of decoders of Llama's shape: one, or several of which a router chooses.

N. Shazeer et al., Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer, 2017; A. Q. Jiang et
al., Mixtral of Experts, 2024; Qwen Team, Qwen1.5-MoE, 2024.
"""

from __future__ import annotations

import math
from typing import Any

import tensorgrad as tg
from tensorgrad.models.llama_options import LlamaOptions
from tensorgrad.models.pretrained import linear
from tensorgrad.models.settings import activation
from tensorgrad.nn.pytorch import Stored


class FeedForward(tg.nn.Module):
    """A gated feed-forward network."""

    def __init__(self, options: LlamaOptions, features: int | None = None):
        super().__init__()
        size, inner, bias = options.hidden_size, features or options.intermediate_size, options.mlp_bias
        self.gate_proj, self.up_proj = linear(options, size, inner, bias), linear(options, size, inner, bias)
        self.down_proj = linear(options, inner, size, bias)
        self.activation = activation(options.hidden_act)

    def __call__(self, x: Any) -> Any:
        """Applies the network to `[..., hidden_size]`."""
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class Experts(tg.nn.Module):
    """Gated feed-forward networks of the same shape, of which each token has a few.

    Attributes:
        gate_proj: The weights of their gates, `[experts, hidden_size, features]`.
        up_proj: Those of what gates multiply, of the same shape.
        down_proj: Those of their outputs, `[experts, features, hidden_size]`.
    """

    def __init__(self, options: LlamaOptions):
        super().__init__()
        size, inner = options.hidden_size, options.moe_intermediate_size or options.intermediate_size
        self.count, init = options.num_experts, tg.initializers.normal(options.initializer_range)
        self.gate_proj = tg.nn.param((self.count, size, inner), init)
        self.up_proj = tg.nn.param((self.count, size, inner), init)
        self.down_proj = tg.nn.param((self.count, inner, size), init)
        self.activation = activation(options.hidden_act)
        self.names = options.variant.expert

    def torch_stored(self) -> list[Stored]:
        """Returns PyTorch's tensors: three matrices for each expert."""
        names = zip(("gate_proj", "up_proj", "down_proj"), self.names, strict=True)
        return [
            Stored(f"{expert}.{theirs}.weight", (own,), transposed=True, member=expert)
            for own, theirs in names
            for expert in range(self.count)
        ]

    def __call__(self, x: Any, weights: Any, chosen: Any) -> Any:
        """Applies to each token its experts, and returns the sum of their results, weighted.

        Which experts a token has is known only when the program runs. A few tokens read the matrices of theirs; for
        more of them, which together have as many, each expert is applied to all, and what isn't theirs is 0, whatever
        it is.

        Args:
            x: Tokens, `[tokens, hidden_size]`.
            weights: The weights of each token's experts, `[tokens, experts of a token]`.
            chosen: Their numbers, of the same shape.
        """
        if math.prod(chosen.shape) < self.count:
            gate, up, down = (
                tg.take(matrix, chosen, axis=0) for matrix in (self.gate_proj, self.up_proj, self.down_proj)
            )
            rows = x[:, None, None]
            inner = self.activation(rows @ gate) * (rows @ up)
            return tg.sum((inner @ down)[:, :, 0] * weights[..., None], 1)
        own = tg.sum(tg.where(chosen[..., None] == tg.arange(self.count), weights[..., None], 0.0), 1)
        own = tg.swapaxes(own, 0, 1)[..., None]
        # Masked where everything is still linear, so that neither results nor derivatives meet what overflows.
        gate, up = (tg.where(own != 0, x @ matrix, 0.0) for matrix in (self.gate_proj, self.up_proj))
        return tg.einsum("eti,eih->th", self.activation(gate) * up * own, self.down_proj)


class SparseFeedForward(tg.nn.Module):
    """Experts, of which a router chooses the likeliest for each token; and one that all have, if there is any.

    Attributes:
        gate: The router.
        experts: The experts.
        shared_expert: The one that all tokens have, or None.
        shared_expert_gate: By how much they have it, or None.
    """

    def __init__(self, options: LlamaOptions):
        super().__init__()
        size, shared = options.hidden_size, options.shared_expert_intermediate_size
        self.gate = linear(options, size, options.num_experts, bias=False)
        self.experts = Experts(options)
        self.shared_expert = FeedForward(options, shared) if shared else None
        self.shared_expert_gate = linear(options, size, 1, bias=False) if shared else None
        self.chosen = options.num_experts_per_tok
        self.normalizes = options.norm_topk_prob or options.variant.has_normalized_experts

    def __call__(self, x: Any) -> Any:
        """Applies the networks to `[..., hidden_size]`."""
        tokens = tg.reshape(x, (-1, x.shape[-1]))
        weights, chosen = tg.top_k(tg.softmax(self.gate(tokens)), self.chosen)
        weights = weights / tg.sum(weights, -1, keepdims=True) if self.normalizes else weights
        result = self.experts(tokens, weights, chosen)
        if self.shared_expert is not None and self.shared_expert_gate is not None:
            result = result + tg.sigmoid(self.shared_expert_gate(tokens)) * self.shared_expert(tokens)
        return tg.reshape(result, x.shape)
