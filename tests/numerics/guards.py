"""Random chains of guarded loads and slices, long enough that their conditions are often decided statically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import NumpyArray
from hypothesis import strategies as st

import tensorgrad as tg
from tensorgrad.tracing.tensor import Tensor

LONGEST = 12
"""The maximum number of elements of a chain's values."""

MOVES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "concat": lambda x, k: tg.concat([x, x * 2.0] if k % 2 else [x * x, x]),
    "concat a sum": lambda x, k: tg.concat([x, tg.sum(x, keepdims=True)] if k % 2 else [tg.cumsum(x, 0), x]),
    "concat numbers": lambda x, k: tg.concat([tg.ones((k % 3 + 1,)), x]),
    "columns": lambda x, k: tg.reshape(tg.concat([x[:, None], x[:, None] * 3.0][:: 1 if k % 2 else -1], axis=1), (-1,)),
    "stack": lambda x, k: tg.reshape(tg.stack([x, x * 2.0], axis=k % 2), (-1,)),
    "pad": lambda x, k: tg.pad(x, (k % 3, k // 3 % 3), constant_values=0.5),
    "pad edges": lambda x, k: tg.pad(x, (k % 2 + 1, 0), mode="edge"),
    "roll": lambda x, k: tg.roll(x, k),
    "flip": lambda x, k: tg.flip(x, 0),
    "scatter": lambda x, k: tg.scatter_add(x * 0.25, 0, _places(x, k), x),
    "take": lambda x, k: tg.take(x, _places(x, k), axis=0),
    "set": lambda x, k: x.at[k % x.shape[0]].set(1.5),
    "add": lambda x, k: x.at[_places(x, k)].add(x * 0.5),
    "cut": lambda x, k: x[k % x.shape[0] :],
    "skip": lambda x, k: x[k % 2 :: 2] if x.shape[0] > 1 else x,
    "repeat": lambda x, k: tg.repeat(x, 2, axis=0),
    "square": lambda x, k: x * x,
}
"""How a vector is moved; the number chooses where and how far."""

ENDS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "element": lambda x, k: x[k % x.shape[0]],
    "from the end": lambda x, k: x[-1 - k % x.shape[0]],
    "get": lambda x, k: x.at[-1 - k % x.shape[0]].get(),
    "tail": lambda x, k: tg.sum(x[k % x.shape[0] :]),
    "head": lambda x, k: tg.max(x[: k % x.shape[0] + 1]),
    "last": lambda x, k: tg.sum(x[-1:] * 2.0),
    "all": lambda x, k: x,
}
"""The ops at the end of a chain."""


def _places(x: Tensor, k: int) -> NumpyArray:
    """Returns constant positions, some of them repeated."""
    extent = x.shape[0]
    return np.asarray([(k * (i // 2 + 1) + i) % extent for i in range(extent)], np.int32)


@dataclass(frozen=True)
class Chain:
    """A chain of rearrangements with their parameters, and its final op."""

    moves: tuple[tuple[str, int], ...]
    end: tuple[str, int]

    def moved(self, x: Tensor) -> Tensor:
        """Returns the vector after the rearrangements, except those that would make it too long."""
        for name, number in self.moves:
            if 2 * x.shape[0] > LONGEST and name in ("concat", "columns", "stack", "repeat", "concat a sum"):
                continue
            x = MOVES[name](x, number)
        return x

    def __call__(self, x: Tensor) -> Any:
        name, number = self.end
        return ENDS[name](self.moved(x), number)


def chains(shortest: int = 1, longest: int = 5) -> st.SearchStrategy[Chain]:
    """Draws random chains."""
    numbers = st.integers(0, 11)
    moves = st.lists(st.tuples(st.sampled_from(sorted(MOVES)), numbers), min_size=shortest, max_size=longest)
    return st.builds(Chain, moves.map(tuple), st.tuples(st.sampled_from(sorted(ENDS)), numbers))
