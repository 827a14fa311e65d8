"""Models and training steps that are written as ONNX: several of each kind of layer, optimizer and control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.tracing.dtypes import Spec


@dataclass(frozen=True)
class Model:
    """A model with the inputs of a call.

    Attributes:
        make: Returns the model.
        inputs: The shape or specification of each input, by name.
        loss: Its training's loss; by default the mean square of the result.
    """

    make: Callable[[], Any]
    inputs: Mapping[str, Any]
    loss: Callable[..., Any] | None = None

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Returns sample inputs: normal floats, and integers below 5."""
        rng, results = np.random.default_rng(seed), {}
        for name, declared in self.inputs.items():
            spec = declared if isinstance(declared, Spec) else tg.spec(declared)
            drawn = rng.normal(size=spec.shape) if spec.dtype.kind == "f" else rng.integers(0, 5, spec.shape)
            results[name] = np.asarray(drawn, spec.dtype)
        return results

    def training(self, optimizer: Any) -> Any:
        """Returns a training of the model on numpy."""
        loss = self.loss or (lambda model, **arrays: tg.mean(tg.square(first(model(**arrays)))))
        return tg.compile(self.make(), loss=loss, optimizer=optimizer, inputs=self.inputs, device="numpy")


def first(result: Any) -> Any:
    """Returns a result, or the first of several."""
    return result[0] if isinstance(result, tuple) else result


class Block(tg.nn.Module):
    """A block of a transformer, with dropout if it is called with a key."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = tg.nn.LayerNorm(width), tg.nn.RMSNorm(width)
        self.attention = tg.nn.MultiHeadAttention(width, 2, causal=True)
        self.mlp = tg.nn.MLP(width, 2 * width, width, activation=tg.gelu)

    def __call__(self, x: Any, key: Any = None) -> Any:
        x = x + self.attention(self.norm1(x))
        after = self.mlp(self.norm2(x))
        return x + (after if key is None else tg.random.dropout(key, after, 0.25))


class GPT(tg.nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = tg.nn.Embedding(7, 8), tg.nn.param((6, 8), init=tg.initializers.normal(0.1))
        self.blocks = [Block(8), Block(8)]
        self.norm = tg.nn.LayerNorm(8)

    def __call__(self, tokens: Any, key: Any = None) -> Any:
        x = self.tokens(tokens) + self.positions
        for number, block in enumerate(self.blocks):
            x = block(x, None if key is None else tg.random.fold_in(key, number))
        return self.tokens.attend(self.norm(x))


class Branching(tg.nn.Module):
    """Takes one of two layers, by a value that only the running program knows, in each step of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = tg.nn.Linear(4, 4), tg.nn.Linear(4, 4)

    def __call__(self, x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            chosen = tg.cond(tg.sum(row) > 0, lambda h: tg.tanh(self.up(h)), lambda h: self.down(h) * 0.5, state)
            return chosen + row, chosen

        last, rows = tg.scan(step, tg.zeros((4,)), x)
        return rows + last


def conv_net(norm: Any) -> Any:
    """A convolutional network with strides, groups, dilation and pooling."""
    return tg.nn.Sequential(
        tg.nn.Conv2d(2, 4, 3, stride=2, padding=1),
        norm(4),
        tg.nn.ReLU(),
        tg.nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2),
        tg.nn.MaxPool2d(2),
        tg.nn.Flatten(),
        tg.nn.Linear(4 * 2 * 2, 3),
    )


def activated(layer: Any) -> Model:
    return Model(lambda: tg.nn.Sequential(tg.nn.Linear(4, 6), layer, tg.nn.Linear(6, 2)), {"x": (5, 4)})


def layered(make: Callable[[], Any], *shape: int) -> Model:
    return Model(make, {"x": shape})


TOKENS = {"tokens": tg.spec((3, 6), "i32")}

MODELS: dict[str, Model] = {
    "linear": layered(lambda: tg.nn.Linear(4, 3), 5, 4),
    "relu": activated(tg.nn.ReLU()),
    "gelu": activated(tg.nn.GELU()),
    "silu": activated(tg.nn.SiLU()),
    "tanh": activated(tg.nn.Tanh()),
    "elu": activated(tg.nn.ELU()),
    "mish": activated(tg.nn.Mish()),
    "softplus": activated(tg.nn.Softplus()),
    "softmax": activated(tg.nn.Softmax()),
    "prelu": activated(tg.nn.PReLU()),
    "layer norm": activated(tg.nn.LayerNorm(6)),
    "rms norm": activated(tg.nn.RMSNorm(6)),
    "group norm": layered(lambda: conv_net(lambda width: tg.nn.GroupNorm(2, width)), 3, 2, 8, 8),
    "instance norm": layered(lambda: conv_net(lambda width: tg.nn.InstanceNorm2d(width, affine=True)), 3, 2, 8, 8),
    "batch norm": layered(lambda: tg.nn.inference(conv_net(tg.nn.BatchNorm2d)), 3, 2, 8, 8),
    "conv 1d": layered(lambda: tg.nn.Conv1d(2, 3, 3, padding=1), 2, 2, 7),
    "conv 3d": layered(lambda: tg.nn.Conv3d(1, 2, 2, stride=2), 2, 1, 4, 4, 4),
    "transposed conv": layered(lambda: tg.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1), 2, 2, 4, 4),
    "average pool": layered(lambda: tg.nn.Sequential(tg.nn.Conv2d(1, 2, 3), tg.nn.AvgPool2d(2)), 2, 1, 6, 6),
    "upsample": layered(lambda: tg.nn.Sequential(tg.nn.Conv2d(1, 2, 3), tg.nn.Upsample(scale_factor=2)), 2, 1, 5, 5),
    "pixel shuffle": layered(lambda: tg.nn.Sequential(tg.nn.Conv2d(1, 4, 3), tg.nn.PixelShuffle(2)), 2, 1, 5, 5),
    "attention": Model(lambda: tg.nn.MultiHeadAttention(8, 2, causal=True), {"query": (2, 5, 8)}),
    "rnn": layered(lambda: tg.nn.RNN(3, 4), 5, 2, 3),
    "lstm": layered(lambda: tg.nn.LSTM(3, 4, bidirectional=True), 5, 2, 3),
    "gru": layered(lambda: tg.nn.GRU(3, 4), 5, 2, 3),
    "embedding": Model(lambda: tg.nn.Embedding(7, 4), {"indices": tg.spec((3, 2), "i32")}),
    "branches": layered(Branching, 5, 4),
    "transformer": Model(GPT, TOKENS),
}
"""Models that are written, read and trained."""


def dropped(model: Any, tokens: Any, following: Any, key: Any) -> Any:
    logits = model(tokens, key)
    return tg.cross_entropy(logits, following), {"correct": tg.mean(tg.argmax(logits, -1) == following)}


LANGUAGE = Model(GPT, {**TOKENS, "following": tg.spec((3, 6), "i32")}, dropped)
"""A language model with dropout, and a metric."""

CONVOLUTIONS = layered(lambda: conv_net(tg.nn.BatchNorm2d), 3, 2, 8, 8)
"""A network whose step also changes running statistics."""

SCHEDULE = tg.optim.schedules.warm_up(tg.optim.schedules.cosine(1e-2, 8), 3)

EPS = 1e-3
"""Keeps gradients that are 0 but for rounding, of biases before a softmax or a norm, from deciding a step of Adam."""

TRAININGS: dict[str, tuple[Model, Any]] = {
    "sgd": (MODELS["relu"], tg.optim.sgd(1e-1)),
    "momentum": (MODELS["relu"], tg.optim.sgd(1e-1, momentum=0.9, nesterov=True, weight_decay=1e-2)),
    "adam": (MODELS["gelu"], tg.optim.adam(1e-2)),
    "adamw": (LANGUAGE, tg.optim.adamw(SCHEDULE, eps=EPS, clip_norm=0.5)),
    "adafactor": (MODELS["linear"], tg.optim.adafactor(1e-2)),
    "adagrad": (MODELS["linear"], tg.optim.adagrad(1e-2)),
    "lion": (MODELS["linear"], tg.optim.lion(1e-3)),
    "rmsprop": (MODELS["linear"], tg.optim.rmsprop(1e-2)),
    "muon": (MODELS["relu"], tg.optim.muon(1e-2, others=tg.optim.sgd(1e-2))),
    "chain": (MODELS["linear"], tg.optim.chain(tg.optim.clip_by_global_norm(0.1), tg.optim.adam(1e-2))),
    "average": (MODELS["linear"], tg.optim.weight_ema(tg.optim.adam(1e-2), 0.9)),
    "groups": (MODELS["relu"], tg.optim.adamw(1e-2, groups={"0.*": {"learning_rate": 1e-3}})),
    "batch norm": (CONVOLUTIONS, tg.optim.adam(tg.optim.schedules.step(1e-2, 3), eps=EPS)),
    "loops": (MODELS["lstm"], tg.optim.adam(1e-2)),
    "branches": (MODELS["branches"], tg.optim.adam(1e-2)),
    "no optimizer": (CONVOLUTIONS, None),
}
"""Training steps that are written."""
