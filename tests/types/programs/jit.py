"""Compiled functions, with static arguments and donated state."""

import functools

import numpy as np

import tensorgrad as tg


@tg.jit(device="numpy")
def normalized(x: tg.Tensor, eps: float = 1e-5) -> tg.Tensor:
    """`x` without its mean, divided by its deviation."""
    return (x - tg.mean(x)) / (tg.std(x) + eps)


@functools.partial(tg.jit, static=["times"], donate=["state"], device="numpy")
def advance(state: tg.Tensor, times: int) -> tg.Tensor:
    """The state after some steps."""
    for _ in range(times):
        state = 0.5 * state + 1
    return state


double = tg.jit(lambda x: x + x, device="numpy")
x = tg.array([1.0, 2.0, 3.0])
print(normalized(x).shape, advance(x, 3).tolist(), double(x).dtype)
print(double(np.ones(3)).shape)
