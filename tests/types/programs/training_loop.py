"""A training loop with batches, a schedule and a change of the rate."""

import numpy as np

import tensorgrad as tg


class Classifier(tg.nn.Module):
    """Two layers."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.hidden = tg.nn.Linear(features, 16)
        self.out = tg.nn.Linear(16, classes)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        """The logits."""
        return self.out(tg.relu(self.hidden(x)))


def loss(model: Classifier, x: tg.Tensor, labels: tg.Tensor) -> tg.Tensor:
    """The cross-entropy with a penalty."""
    penalty = sum(tg.sum(parameter**2) for parameter in model.parameters())
    return tg.cross_entropy(model(x), labels) + 1e-4 * penalty


generator = np.random.default_rng(0)
x = generator.normal(size=(32, 4)).astype(np.float32)
labels = (x.sum(1) > 0).astype(np.int32)
training = tg.compile(
    Classifier(4, 2),
    loss=loss,
    optimizer=tg.optim.adamw(1e-2),
    inputs={"x": (8, 4), "labels": tg.spec((8,), "i32")},
    device="numpy",
)
losses = [
    float(training.step(**batch))
    for epoch in range(3)
    for batch in tg.data.batches({"x": x, "labels": labels}, 8, shuffle=epoch)
]
training.set_learning_rate(1e-3)
assert losses[-1] < losses[0] and training.step_count == 12
weights = training.parameters()["hidden.weight"]
print(weights.shape, training.learning_rate)
