"""A run that ends and goes on from its checkpoint."""

import tempfile
from pathlib import Path

import numpy as np

import tensorgrad as tg


def loss(model: tg.nn.Linear, x: tg.Tensor) -> tg.Tensor:
    """The mean square of the outputs."""
    return tg.mean(model(x) ** 2)


def build() -> tg.Training[tg.Tensor]:
    """A training of a small model."""
    model = tg.nn.Linear(3, 2)
    return tg.compile(model, loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy")


batch = {"x": np.ones((4, 3), np.float32)}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "run.safetensors")
    first = build()
    first.step(**batch)
    first.save_checkpoint(path)
    second = build()
    second.load_checkpoint(path)
assert second.step_count == 1
assert float(first.step(**batch)) == float(second.step(**batch))
state = second.state_dict()
print(sorted(state)[0], state["weight"].shape)
