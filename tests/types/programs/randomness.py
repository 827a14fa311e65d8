"""Random numbers of keys, and dropout with the key of a loss."""

import numpy as np

import tensorgrad as tg

first, second = tg.random.split(tg.random.key(0))
x = tg.random.normal(first, (4, 3))
order = tg.random.permutation(second, 4)
coins = tg.random.bernoulli(second, 0.5, (4,))
choice = tg.random.categorical(first, tg.zeros((2, 5)))
print(x[order].shape, coins.dtype, choice.tolist(), tg.random.randint(first, 3, 0, 10).shape)


class Net(tg.nn.Module):
    """A layer with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = tg.nn.Linear(3, 2)
        self.dropout = tg.nn.Dropout(0.5)

    def __call__(self, x: tg.Tensor, key: tg.random.Key | None = None) -> tg.Tensor:
        """The outputs."""
        return self.dropout(self.linear(x), key=key)


def loss(model: Net, x: tg.Tensor, key: tg.random.Key) -> tg.Tensor:
    """The mean square of the outputs."""
    return tg.mean(model(x, key=key) ** 2)


training = tg.compile(Net(), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, seed=1, device="numpy")
print(float(training.step(x=np.ones((4, 3)))))
