"""Modules of one's own, with parameters, parts and buffers."""

import tensorgrad as tg


class Block(tg.nn.Module):
    """A residual layer with a scale."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = tg.nn.LayerNorm(features)
        self.linear = tg.nn.Linear(features, features)
        self.scale = tg.nn.param((features,), init=1.0)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        """The next features."""
        return x + self.scale * tg.gelu(self.linear(self.norm(x)))


class Net(tg.nn.Module):
    """Blocks, one after another."""

    def __init__(self, features: int, depth: int) -> None:
        super().__init__()
        self.blocks = [Block(features) for _ in range(depth)]
        self.head = tg.nn.Sequential(tg.nn.Dropout(0.1), tg.nn.Linear(features, 1))

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        """One number for each example."""
        for block in self.blocks:
            x = block(x)
        return self.head(x).squeeze(-1)


model = Net(4, depth=2)
count = sum(parameter.numel() for parameter in model.named_parameters().values())
values = tg.nn.inference(model.initialized(0))(tg.ones((3, 4)))
print(count, values.shape)
