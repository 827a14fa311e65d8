"""Predictions of a trained model, by functions of its parameters."""

import numpy as np

import tensorgrad as tg


def loss(model: tg.nn.Linear, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    """The squared error."""
    return tg.mse(model(x), y)


training = tg.compile(
    tg.nn.Linear(3, 1),
    loss=loss,
    optimizer=tg.optim.adam(1e-2),
    inputs={"x": (4, 3), "y": (4, 1)},
    device="numpy",
)
training.step(x=np.ones((4, 3)), y=np.zeros((4, 1)))

predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
values = predict(x=np.ones((4, 3)))
print(values.shape, values.numpy().dtype)


def above(model: tg.nn.Linear, x: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
    """The outputs, and whether they are positive."""
    y = model(x)
    return y, y > 0


outputs, positive = training.attach(above)(x=np.ones((2, 3)))
print(outputs.shape, positive.tolist())
