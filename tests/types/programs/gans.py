"""Two models with two losses and two optimizers in one step."""

import numpy as np

import tensorgrad as tg


class Models(tg.nn.Module):
    """What generates, and what judges."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = tg.nn.Linear(2, 2)
        self.judge = tg.nn.Linear(2, 1)


def losses(models: Models, real: tg.Tensor, noise: tg.Tensor) -> dict[str, tg.Tensor]:
    """A loss for each part."""
    made = models.generator(noise)
    right = tg.binary_cross_entropy_with_logits(models.judge(real), tg.ones((4, 1)))
    wrong = tg.binary_cross_entropy_with_logits(models.judge(tg.stop_gradient(made)), tg.zeros((4, 1)))
    fooled = tg.binary_cross_entropy_with_logits(models.judge(made), tg.ones((4, 1)))
    return {"generator": fooled, "judge": right + wrong}


training = tg.compile(
    Models(),
    loss=losses,
    optimizer={"generator": tg.optim.adam(1e-3), "judge": tg.optim.sgd(1e-2)},
    inputs={"real": (4, 2), "noise": (4, 2)},
    device="numpy",
)
values = training.step(real=np.ones((4, 2)), noise=np.zeros((4, 2)))
print({name: float(value) for name, value in values.items()})
