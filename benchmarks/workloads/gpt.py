"""A GPT: 4 layers, width 128, 4 heads, length 64, batch 16, vocabulary 65; AdamW, gradients clipped at norm 1."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorgrad as tg
from benchmarks.workloads.transformer import Transformer

VOCABULARY, LENGTH, WIDTH, HEADS = 65, 64, 128, 4
BATCH = 16


def loss(model: Transformer, tokens: tg.Tensor, following: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(tokens), following)


def batch() -> dict[str, np.ndarray]:
    """Returns random tokens, and the tokens that follow them."""
    text = np.random.default_rng(1).integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype(np.int32)
    return {"tokens": text[:, :-1], "following": text[:, 1:]}


def build(
    device: tg.DeviceName, layers: int = 4, tune: bool | float = False, **options: Any
) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns the training step on a device, and a batch; other options are passed to `tg.compile`."""
    shape = tg.spec((BATCH, LENGTH), "i32")
    training = tg.compile(
        Transformer(VOCABULARY, LENGTH, WIDTH, HEADS, layers),
        loss=loss,
        optimizer=tg.optim.adamw(3e-4, weight_decay=0.1, decay="*.weight", clip_norm=1.0),
        inputs={"tokens": shape, "following": shape},
        device=device,
        tune=tune,
        **options,
    )
    return training, batch()
