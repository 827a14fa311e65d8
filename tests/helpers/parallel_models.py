"""Three kinds of models, to train alone or in a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.runtime.group.group import Group

STEPS, BATCH = 50, 16


class Mlp(tg.nn.Module):
    def __init__(self) -> None:
        self.hidden = tg.nn.Linear(12, 24)
        self.out = tg.nn.Linear(24, 4)

    def __call__(self, x: Any, key: Any) -> Any:
        return self.out(tg.tanh(self.hidden(x)))


class Cnn(tg.nn.Module):
    def __init__(self) -> None:
        self.conv = tg.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = tg.nn.BatchNorm2d(4)
        self.out = tg.nn.Linear(4 * 3 * 2, 4)

    def __call__(self, x: Any, key: Any) -> Any:
        maps = tg.relu(self.norm(self.conv(tg.reshape(x, (-1, 1, 6, 4)))))
        return self.out(tg.reshape(tg.max_pool(maps, 2), (maps.shape[0], -1)))


class Gpt(tg.nn.Module):
    """Two tokens of six features: causal attention, dropout, a tied embedding of positions."""

    def __init__(self) -> None:
        self.read = tg.nn.Linear(3, 8)
        self.places = tg.nn.Embedding(4, 8)
        self.norm = tg.nn.LayerNorm(8)
        self.attention = tg.nn.MultiHeadAttention(8, 2, causal=True)
        self.dropout = tg.nn.Dropout(0.2)
        self.out = tg.nn.Linear(8, 4)

    def __call__(self, x: Any, key: Any) -> Any:
        first, second = tg.random.split(key)
        tokens = self.read(tg.reshape(x, (-1, 4, 3))) + self.places(tg.arange(4))
        mixed = self.attention(self.norm(tokens))
        tokens = tokens + self.dropout(mixed, key=first)
        return self.out(self.dropout(tg.mean(tokens, axis=1), key=second))


MODELS: dict[str, tuple[Callable[[], Any], int, Any]] = {
    "mlp": (Mlp, 12, tg.optim.sgd(0.1, momentum=0.9)),
    "cnn with batch norm": (Cnn, 24, tg.optim.adam(1e-2)),
    "gpt with clipping and dropout": (Gpt, 12, tg.optim.adamw(1e-2, clip_norm=0.5)),
}


def batches(features: int, steps: int = STEPS) -> list[dict[str, Any]]:
    rng = np.random.default_rng(features)
    inputs = rng.normal(size=(steps, BATCH, features)).astype(np.float32)
    labels = rng.integers(0, 4, (steps, BATCH)).astype(np.int32)
    return [{"x": x, "y": y} for x, y in zip(inputs, labels, strict=True)]


def compiled(name: str, device: Any, group: Group | None, **options: Any) -> Any:
    model, features, optimizer = MODELS[name]

    def loss(model: Any, x: Any, y: Any, key: Any) -> Any:
        scores = model(x, key)
        return tg.cross_entropy(scores, y), {"accuracy": tg.mean(tg.argmax(scores, axis=-1) == y)}

    shapes = {"x": (BATCH, features), "y": tg.spec((BATCH,), "i32")}
    chosen = {"loss": loss, "optimizer": optimizer, **options}
    return tg.compile(model(), inputs=shapes, device=device, group=group, **chosen)


def trained(name: str, device: Any, group: Group | None, steps: int = STEPS, **options: Any) -> dict[str, Any]:
    training = compiled(name, device, group, **options)
    results = [training.step(**batch) for batch in batches(MODELS[name][1], steps)]
    return {
        "losses": [float(loss) for loss, _ in results],
        "accuracy": [float(metrics["accuracy"]) for _, metrics in results],
        "parameters": {path: np.asarray(value) for path, value in training.parameters().items()},
        "statistics": training.stats(),
    }
