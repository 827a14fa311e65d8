"""Random trainings as source code: a model, a loss, an optimizer and batches; options, and what happens in between."""

from __future__ import annotations

import linecache
import random
from typing import Any

from training_judging import LARGEST, TrainingProgram

WIDTHS, BATCH = (2, 3, 5, 8), LARGEST
"""The numbers of features of layers, and that of examples of a whole batch."""

ACTIVATIONS = ("ReLU", "GELU", "Tanh", "SiLU", "Sigmoid", "Softplus", "ELU", "Mish", "Hardswish")

VECTORS = (
    "tg.nn.Linear({width}, {new})",
    "tg.nn.Linear({width}, {new}, bias=False)",
    "tg.nn.MLP({width}, 6, {new})",
    "tg.nn.LayerNorm({width})",
    "tg.nn.RMSNorm({width})",
    "tg.nn.BatchNorm1d({width})",
    "tg.nn.BatchNorm1d({width}, momentum=None)",
    "tg.nn.Dropout(0.25)",
    "Residual(tg.nn.Linear({width}, {width}))",
    "Residual(tg.nn.Sequential(tg.nn.LayerNorm({width}), tg.nn.MLP({width}, 4, {width})))",
    "Scanned({width})",
    "Switched({width})",
    "Centred({width})",
    "Tied({width})",
    "tg.nn.PReLU()",
)
"""Layers of `[batch, width]`; with `{new}` they change the width."""

IMAGES = (
    "tg.nn.Conv2d({width}, {new}, 3, padding=1)",
    "tg.nn.Conv2d({width}, {new}, 2, bias=False)",
    "tg.nn.Conv2d({width}, {width}, 3, padding=1, groups={width})",
    "tg.nn.ConvTranspose2d({width}, {new}, 2, stride=2)",
    "tg.nn.BatchNorm2d({width})",
    "tg.nn.GroupNorm(1, {width})",
    "tg.nn.InstanceNorm2d({width})",
    "tg.nn.MaxPool2d(2)",
    "tg.nn.AvgPool2d(2, padding=1)",
    "tg.nn.Dropout2d(0.25)",
)
"""Layers of `[batch, width, rows, columns]`."""

SEQUENCES = (
    "tg.nn.TransformerEncoderLayer({width}, 1, 8, dropout=0.0)",
    "tg.nn.TransformerEncoderLayer({width}, 1, 8, dropout=0.25, causal=True, norm_first=True)",
    "First(tg.nn.GRU({width}, {new}, batch_first=True))",
    "First(tg.nn.LSTM({width}, {new}, num_layers=2, batch_first=True))",
    "tg.nn.MultiHeadAttention({width}, 1, causal=True)",
    "tg.nn.Linear({width}, {new})",
    "tg.nn.LayerNorm({width})",
    "Scanned({width})",
)
"""Layers of `[batch, length, width]`."""

OPTIMIZERS = (
    "tg.optim.sgd({rate}{options})",
    "tg.optim.sgd({rate}, momentum=0.9, nesterov=True{options})",
    "tg.optim.sgd({rate}, 0.8, 0.1{options})",
    "tg.optim.adam({rate}, eps=1e-3{options})",
    "tg.optim.adamw({rate}, eps=1e-3{options})",
    "tg.optim.rmsprop({rate}, eps=1e-2, momentum=0.5, centered=True{options})",
    "tg.optim.adagrad({rate}, eps=1e-2, lr_decay=0.1{options})",
    "tg.optim.adafactor({rate}{options})",
    "tg.optim.muon({rate}, others=tg.optim.adam(0.01, eps=1e-3){options})",
    "tg.optim.chain(tg.optim.clip(0.5), tg.optim.ema(0.9), tg.optim.sgd({rate}{options}))",
    "tg.optim.chain(tg.optim.normalize(), tg.optim.adam({rate}, eps=1e-3{options}))",
    "tg.optim.chain(tg.optim.normalize_per_parameter(), tg.optim.sgd({rate}{options}))",
    "tg.optim.chain(tg.optim.scale_by_adam(eps=1e-3), tg.optim.add_decayed_weights(0.1),"
    " tg.optim.scale_by_learning_rate({rate}))",
    "tg.optim.chain(tg.optim.masked(tg.optim.clip_by_global_norm(0.1), '*.weight'), tg.optim.sgd({rate}{options}))",
    "tg.optim.weight_ema(tg.optim.sgd({rate}, momentum=0.5{options}), 0.9, warm_up=True)",
)

RATES = (
    "0.05",
    "0.1",
    "tg.optim.schedules.cosine(0.1, 6, warmup=2)",
    "tg.optim.schedules.warm_up(tg.optim.schedules.exponential(0.1, 2, 0.5), 1)",
    "tg.optim.schedules.piecewise({1: 0.1, 3: 0.02})",
    "lambda step: 0.1 / step",
)

SETTINGS = (
    "clip_norm=0.5",
    "weight_decay=0.1",
    "weight_decay=0.1, decay='*.weight'",
    "groups={'*.bias': {'learning_rate': 0.02}}",
    "groups={'*.weight': {'weight_decay': 0.05}, '*.bias': {'learning_rate': 0.0}}",
)

LOSSES = (
    "tg.mse({out}, y)",
    "tg.mean(tg.abs({out} - y) * tg.sigmoid(y))",
    "tg.huber({out}, y)",
    "tg.cross_entropy({out}, tg.argmax(y, axis=-1))",
    "tg.mean(tg.logsumexp({out}, axis=-1) - tg.sum({out} * tg.softmax(y, axis=-1), axis=-1))",
    "tg.mse({out}, y) + 1e-2 * sum(tg.sum(p * p) for p in model.parameters())",
    "(tg.mse({out}, y), {{'largest': tg.max(y), 'error': tg.mean(tg.abs(y))}})",
    "tg.mean(tg.vmap(lambda a, b: tg.sum((a - b) ** 2))({out}, y))",
    "tg.mse({out}, y) + tg.mean(tg.grad(lambda t: tg.sum(tg.tanh(t) ** 3))({out}))",
    "tg.mse(tg.checkpoint(model)(x{key}), y)",
)

FROZEN = ("'*.bias'", "'0.*'", "'1.*', '*.bias'")
"""Patterns of parameters that aren't trained."""

EVENTS = (
    *("checkpoint", "state", "move", "replace", "save", "fit"),
    *("attach", "gradients", "evaluate", "blame", "capture"),
)
"""What may happen before a step, without an effect on it."""

PRELUDE = """import numpy as np
import tensorgrad as tg


class Residual(tg.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, x):
        return x + 0.5 * self.inner(x)


class First(tg.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, x):
        return self.inner(x)[0]


class Tied(tg.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.parts = {"down": tg.nn.Linear(width, 4), "bias": [tg.nn.param((width,), init=0.1)]}

    def __call__(self, x):
        return tg.tanh(self.parts["down"](x)) @ self.parts["down"].weight.T + self.parts["bias"][0]


class Scanned(tg.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weights = tg.nn.param((3, width, width), init=tg.initializers.normal(0.3))

    def __call__(self, x):
        return tg.scan(lambda x, w: (tg.tanh(x @ w) + 0.5 * x, None), x, self.weights)[0]


class Switched(tg.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.left, self.right = tg.nn.Linear(width, width), tg.nn.Linear(width, width)

    def __call__(self, x):
        return tg.cond(tg.max(x) > 1.0, lambda: self.left(x), lambda: 0.5 * self.right(x))


class Centred(tg.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mean = tg.nn.buffer(width, init=0.0)

    def __call__(self, x):
        if self.training:
            self.mean.assign(0.9 * self.mean + 0.1 * tg.mean(x, axis=0))
        return x - self.mean


"""


class _Writer:
    """Draws the parts of a training."""

    def __init__(self, draw: random.Random):
        self.draw = draw

    def layers(self, templates: tuple[str, ...], width: int, count: int) -> tuple[list[str], int]:
        """Returns layers, and the width that they end with."""
        layers: list[str] = []
        for _ in range(count):
            new = self.draw.choice(WIDTHS)
            template = self.draw.choice(templates)
            layers.append(template.format(width=width, new=new))
            width = new if "{new}" in template else width
            if self.draw.random() < 0.6:
                layers.append(f"tg.nn.{self.draw.choice(ACTIVATIONS)}()")
        return layers, width

    def model(self, outputs: int) -> tuple[str, str]:
        """Returns a model, and the expression of its input for a number of examples."""
        draw, width, count = self.draw, self.draw.choice(WIDTHS), self.draw.randint(1, 3)
        kind = draw.choice(("vectors", "vectors", "images", "tokens"))
        if kind == "vectors":
            (layers, last), shape = self.layers(VECTORS, width, count), f"({{n}}, {width})"
        elif kind == "images":
            (layers, last), shape = self.layers(IMAGES, width, count), f"({{n}}, {width}, 6, 5)"
            layers.append("tg.nn.GlobalAvgPool()")
        else:
            first = f"tg.nn.Embedding(7, {width})"
            (layers, last), shape = self.layers(SEQUENCES, width, count), "({n}, 4)"
            layers = [first, *layers, "lambda x: tg.mean(x, axis=1)"]
        if draw.random() < 0.3:
            more, last = self.layers(VECTORS, last, 1)
            layers += more
        layers.append(f"tg.nn.Linear({last}, {outputs})")
        return f"tg.nn.Sequential({', '.join(layers)})", shape

    def optimizer(self) -> str:
        """Returns an optimizer."""
        draw = self.draw
        settings = draw.sample(SETTINGS, draw.choice((0, 0, 1, 1, 2)))
        names = [setting.split("=")[0] for setting in settings]
        if len(set(names)) < len(names):
            settings = settings[:1]
        rate, options = draw.choice(RATES), "".join(f", {setting}" for setting in settings)
        return draw.choice(OPTIMIZERS).format(rate=rate, options=options)

    def options(self, takes_parts: bool) -> dict[str, Any]:
        """Returns options of `tg.compile` that change no result."""
        draw = self.draw
        choices: list[tuple[str, Any]] = [
            ("checks", True),
            ("check_numerics", True),
            ("memory_limit", draw.choice((0.7, 0.85, 1.0))),
            ("group", 2),
            ("shard", "optimizer"),
        ]
        if takes_parts:
            choices += [("accumulate", draw.choice((2, 4)))] * 2
        options = dict(draw.sample(choices, draw.choice((0, 1, 1, 2))))
        return options if "group" in options or "shard" in options else {**options, "tune": draw.choice((0.0, 0.05))}


def program(seed: int) -> TrainingProgram:
    """Returns the training of a seed."""
    draw = random.Random(seed)
    writer, outputs, steps = _Writer(draw), draw.choice((2, 3)), draw.randint(2, 5)
    model, shape = writer.model(outputs)
    has_tokens = "Embedding" in model
    key = ", key=key" if "Dropout" in model or "dropout=0.25" in model else ""
    loss = draw.choice(LOSSES).format(out=f"model(x{key})", key=key)
    of_batch = ("BatchNorm", "Centred", "Switched")
    options = writer.options(not key and not any(name in model for name in of_batch))
    events = [draw.sample(EVENTS, draw.choice((0, 0, 1, 1, 2))) for _ in range(steps)]
    varies = draw.random() < 0.15 and not {"accumulate", "group", "shard"} & options.keys()
    sizes = [draw.choice((4, BATCH)) if varies else BATCH for _ in range(steps)]
    extent = f'tg.dim("batch", at_most={BATCH}, buckets=(4, {BATCH}))' if varies else str(BATCH)
    sample = "DRAW.integers(0, 7, {}).astype(np.int32)" if has_tokens else "DRAW.normal(size={}).astype(np.float32)"
    batches = ",\n    ".join(
        f'{{"x": {sample.format(shape.format(n=n))}, "y": DRAW.normal(size=({n}, {outputs})).astype(np.float32)}}'
        for n in sizes
    )
    spec = shape.format(n=extent)
    frozen = f"\n    result.freeze({draw.choice(FROZEN)})" if draw.random() < 0.25 else ""
    first = f'tg.spec({spec}, "i32")' if has_tokens else spec
    text = f"""{PRELUDE}def model():
    result = {model}{frozen}
    return result


def loss(model, x, y{", key" if key else ""}):
    return {loss}


def optimizer():
    return {writer.optimizer()}


DRAW = np.random.default_rng({seed})
INPUTS = {{"x": {first}, "y": ({extent}, {outputs})}}
BATCHES = [
    {batches},
]
OPTIONS = {options}
EVENTS = {events}
EAGER = {draw.random() < 0.25 and not varies}
"""
    name = f"<training {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), scope)
    return TrainingProgram(scope, text.removeprefix(PRELUDE))
