"""SmolLM2-135M with random weights: 30 layers, width 576, 9 heads over 3 of keys, 128 tokens; AdamW, clipping."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorgrad as tg

VOCABULARY, LENGTH, WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS = 49152, 128, 576, 9, 3, 1536, 30
ROTARY, EPS = 100_000.0, 1e-5
"""The base of the rotary embeddings, and the epsilon of RMSNorm."""


class FeedForward(tg.nn.Module):
    """A SwiGLU layer: the product of one linear layer and the SiLU of another, through a third."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = tg.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = tg.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = tg.nn.Linear(HIDDEN, WIDTH, bias=False)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        return self.down(tg.silu(self.gate(x)) * self.up(x))


class Block(tg.nn.Module):
    """A pre-norm transformer block: causal attention and a feed-forward layer, both residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = tg.nn.RMSNorm(WIDTH, eps=EPS), tg.nn.RMSNorm(WIDTH, eps=EPS)
        self.attention = tg.nn.MultiHeadAttention(WIDTH, HEADS, KV_HEADS, bias=False, causal=True, rotary=ROTARY)
        self.mlp = FeedForward()

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SmolLM2(tg.nn.Module):
    """Maps tokens `[batch, length]` to logits `[batch, length, vocabulary]`; embedding and output layer are tied."""

    def __init__(self, vocabulary: int, layers: int) -> None:
        super().__init__()
        self.tokens = tg.nn.Embedding(vocabulary, WIDTH, init=tg.initializers.normal(1 / 24))
        self.blocks = [Block() for _ in range(layers)]
        self.norm = tg.nn.RMSNorm(WIDTH, eps=EPS)

    def __call__(self, tokens: tg.Tensor) -> tg.Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


def loss(model: SmolLM2, tokens: tg.Tensor, following: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(tokens), following)


def batch(vocabulary: int = VOCABULARY) -> dict[str, np.ndarray]:
    """Returns a row of random tokens, and the tokens that follow them."""
    text = np.random.default_rng(1).integers(0, vocabulary, (1, LENGTH + 1)).astype(np.int32)
    return {"tokens": text[:, :-1], "following": text[:, 1:]}


def build(
    device: tg.DeviceName,
    layers: int = LAYERS,
    vocabulary: int = VOCABULARY,
    tune: bool | float = False,
    **options: Any,
) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns the training step on a device, and a batch; fewer layers and tokens make a smaller model.

    Other options are passed to `tg.compile`.
    """
    shape = tg.spec((1, LENGTH), "i32")
    training = tg.compile(
        SmolLM2(vocabulary, layers),
        loss=loss,
        optimizer=tg.optim.adamw(3e-4, weight_decay=0.1, decay="*.weight", clip_norm=1.0),
        inputs={"tokens": shape, "following": shape},
        device=device,
        tune=tune,
        **options,
    )
    return training, batch(vocabulary)
