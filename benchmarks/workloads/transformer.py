"""The transformer that the workloads `gpt` and `addition` train, in different sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import tensorgrad as tg

Activation: TypeAlias = Callable[[tg.Tensor], tg.Tensor]


class Block(tg.nn.Module):
    """A pre-norm transformer block: causal attention and a feed-forward layer, both residual."""

    def __init__(self, width: int, heads: int, activation: Activation) -> None:
        super().__init__()
        self.norm1, self.norm2 = tg.nn.LayerNorm(width), tg.nn.LayerNorm(width)
        self.attention = tg.nn.MultiHeadAttention(width, heads, causal=True)
        self.mlp = tg.nn.MLP(width, 4 * width, width, activation=activation)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(tg.nn.Module):
    """Maps tokens `[batch, length]` to logits `[batch, length, vocabulary]`; embedding and output layer are tied."""

    def __init__(
        self, vocabulary: int, length: int, width: int, heads: int, layers: int, activation: Activation = tg.gelu
    ) -> None:
        super().__init__()
        small = tg.initializers.normal(0.02)
        self.tokens = tg.nn.Embedding(vocabulary, width, init=small)
        self.positions = tg.nn.param((length, width), init=small)
        self.blocks = [Block(width, heads, activation) for _ in range(layers)]
        self.norm = tg.nn.LayerNorm(width)

    def __call__(self, tokens: tg.Tensor) -> tg.Tensor:
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))
