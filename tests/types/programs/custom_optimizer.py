"""An optimizer and a schedule of one's own, and links of a chain."""

import numpy as np

import tensorgrad as tg


def loss(model: tg.nn.Linear, x: tg.Tensor) -> tg.Tensor:
    """The mean square of the outputs."""
    return tg.mean(model(x) ** 2)


def rate(step: int) -> float:
    """The learning rate of a step."""
    return 0.1 / step


optimizers = [
    tg.optim.sgd(rate, momentum=0.9),
    tg.optim.adamw(
        tg.optim.schedules.cosine(1e-2, steps=10, warmup=2), clip_norm=1.0, groups={"bias": {"weight_decay": 0.0}}
    ),
    tg.optim.chain(tg.optim.clip(1.0), tg.optim.scale_by_adam(), tg.optim.scale_by_learning_rate(1e-2)),
    tg.optim.weight_ema(tg.optim.lion(1e-3), decay=0.9),
]
for optimizer in optimizers:
    training = tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=optimizer, inputs={"x": (4, 3)}, device="numpy")
    first, second = (float(training.step(x=np.ones((4, 3)))) for _ in range(2))
    assert second < first
    print(training.settings["learning_rate"])
