"""Metrics beside the loss, and evaluations during a run."""

import numpy as np

import tensorgrad as tg


def loss(model: tg.nn.MLP, x: tg.Tensor, y: tg.Tensor) -> tuple[tg.Tensor, dict[str, tg.Tensor]]:
    """The cross-entropy, and the accuracy."""
    logits = model(x)
    return tg.cross_entropy(logits, y), {"accuracy": tg.mean(tg.argmax(logits, axis=-1) == y)}


training = tg.compile(
    tg.nn.MLP(3, 8, 2),
    loss=loss,
    optimizer=tg.optim.adamw(1e-2),
    inputs={"x": (4, 3), "y": tg.spec((4,), "i32")},
    device="numpy",
)
data = tg.data.batches({"x": np.ones((8, 3), np.float32), "y": np.zeros(8, np.int32)}, 4)
value, metrics = training.step(**next(iter(data)))
print(float(value), float(metrics["accuracy"]))


def held_out(run: tg.Training[tuple[tg.Tensor, dict[str, tg.Tensor]]]) -> dict[str, float]:
    """The evaluation, by name."""
    return {"rate": run.learning_rate}


stop = tg.callbacks.EarlyStop("rate", patience=2)
report = tg.fit(training, data, epochs=5, evaluate=held_out, callbacks=[stop], progress=False)
print(report.epoch, report.reason, report.losses.mean())
