"""A recurrence by scan, and recurrent layers."""

import tensorgrad as tg


def step(carry: tg.Tensor, x: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
    """The next state, and what is collected."""
    carry = 0.9 * carry + x
    return carry, carry * carry


last, squares = tg.scan(step, tg.zeros(2), tg.ones((5, 2)))
assert last.shape == (2,) and squares.shape == (5, 2)

outputs, state = tg.nn.GRU(3, 4).initialized(0)(tg.ones((2, 5, 3)))
print(outputs.shape, state.shape)
hidden, memory = tg.nn.LSTMCell(3, 4).initialized(0)(tg.ones((2, 3)))
print(hidden.shape, memory.shape)


@tg.checkpoint
def layer(x: tg.Tensor) -> tg.Tensor:
    """A function that is computed again in the backward pass."""
    return tg.tanh(x) * tg.exp(-x)


print(tg.grad(lambda x: tg.sum(layer(x)))(tg.ones(3)).shape)
