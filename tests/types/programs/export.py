"""Programs in files, which run without the compiler."""

import tempfile

import numpy as np

import tensorgrad as tg


def loss(model: tg.nn.Linear, x: tg.Tensor) -> tg.Tensor:
    """The mean square of the outputs."""
    return tg.mean(model(x) ** 2)


x = np.ones((4, 3), np.float32)
training = tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="cpu")
predict = training.attach(lambda model, x: model(x), inputs={"x": (4, 3)})
with tempfile.TemporaryDirectory() as folder:
    training.save(f"{folder}/step.tgp")
    predict.save(f"{folder}/predict.tgp")
    step = tg.load(f"{folder}/step.tgp", device="cpu")
    function = tg.load(f"{folder}/predict.tgp", device="cpu")
print(function(x=x).shape, step.step(x=x))
