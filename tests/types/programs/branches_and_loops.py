"""Branches and loops of traced values."""

import tensorgrad as tg


def halvings(x: tg.Tensor) -> tg.Tensor:
    """How often `x` can be halved before it is below 1."""
    steps, _ = tg.while_loop(lambda state: state[1] >= 1, lambda state: (state[0] + 1, state[1] / 2), (tg.array(0), x))
    return steps


def absolute(x: tg.Tensor) -> tg.Tensor:
    """The absolute value, by a branch."""
    return tg.cond(x > 0, lambda: x, lambda: -x)


total = tg.fori_loop(0, 5, lambda i, state: state + i, tg.array(0))
assert int(total) == 10
assert int(halvings(tg.array(5.0))) == 3
assert float(absolute(tg.array(-2.0))) == 2.0
