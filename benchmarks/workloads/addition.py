"""A transformer that adds: vocabulary 12, width 64, 3 layers, 4 heads, length 8, relu, batch 128; AdamW, clipping."""

from __future__ import annotations

import numpy as np

import tensorgrad as tg
from benchmarks.workloads.transformer import Transformer

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 12, 8, 64, 4, 3
BATCH = 128
RESULT = slice(LENGTH - 3, LENGTH)
"""The positions that predict the result's digits."""


def loss(model: Transformer, tokens: tg.Tensor, result: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(tokens)[:, RESULT], result)


def batch() -> dict[str, np.ndarray]:
    """Returns sums such as `12+34=64` as tokens, and the digits of their results, least significant first."""
    generator = np.random.default_rng(1)
    first, second = generator.integers(0, 100, (2, BATCH))
    total = first + second
    plus, equals = np.full((2, BATCH), [[10], [11]])
    result = [total % 10, total // 10 % 10, total // 100]
    tokens = [first // 10, first % 10, plus, second // 10, second % 10, equals, *result[:2]]
    return {"tokens": np.stack(tokens, 1).astype(np.int32), "result": np.stack(result, 1).astype(np.int32)}


def build(device: tg.DeviceName, tune: bool | float = False) -> tuple[tg.Training, dict[str, np.ndarray]]:
    """Returns the training step on a device, and a batch."""
    training = tg.compile(
        Transformer(VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, tg.relu),
        loss=loss,
        optimizer=tg.optim.adamw(5e-3, weight_decay=0.01, clip_norm=1.0),
        inputs={"tokens": tg.spec((BATCH, LENGTH), "i32"), "result": tg.spec((BATCH, 3), "i32")},
        device=device,
        tune=tune,
    )
    return training, batch()
