"""Ops that only rearrange elements become index maps: between pointwise ops they cost no kernel, copy or buffer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from harness import BUFFER_PASSES, NumpyArray, apply, levels, traced
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.tracing.tensor import Tensor

MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: tg.swapaxes(x, 0, -1),
    "reshape": lambda x: tg.reshape(x, (x.shape[0] // 2, 2, -1)),
    "slice": lambda x: x[::-1, ..., : max(1, x.shape[-1] - 1)],
    "flip": lambda x: tg.flip(x, 1),
    "broadcast": lambda x: tg.broadcast_to(x[None], (2, *x.shape)),
}
"""Each takes a tensor of at least two axes, the first of even extent."""

CHAINS = [
    *(
        (first, chain)
        for first in ("cheap", "costly")
        for chain in itertools.permutations(sorted(set(MOVES) - {"broadcast"}))
    ),
    *(("cheap", chain) for chain in itertools.permutations(MOVES)),
]
"""Behind a costly op no broadcast is in the way: it would have to be computed for each copy of an element."""


def even(x: Tensor) -> Tensor:
    return x if x.shape[0] % 2 == 0 else tg.swapaxes(x, 0, int(np.argmax([n % 2 == 0 for n in x.shape])))


def chained(first: str, names: tuple[str, ...]) -> Callable[[Tensor, Tensor], Tensor]:
    def function(x: Tensor, y: Tensor) -> Tensor:
        value = x * y - 1 if first == "cheap" else tg.sin(x) + y
        for name in names:
            value = MOVES[name](even(value))
        return tg.exp(value)

    return function


def counts(module: ModuleOp) -> tuple[int, int]:
    """Returns the numbers of kernels and copies."""
    ops = list(module.walk())
    return sum(isinstance(op, KernelOp) for op in ops), sum(isinstance(op, memref.CopyOp) for op in ops)


@pytest.mark.in_turns(4)
@pytest.mark.parametrize(("first", "names"), CHAINS, ids=lambda part: part if isinstance(part, str) else "-".join(part))
def test_a_chain_is_one_kernel(first: str, names: tuple[str, ...]) -> None:
    x: NumpyArray = np.random.default_rng(0).normal(size=(4, 6, 4)).astype(np.float32)
    function = chained(first, names)
    y = np.array(0.5, np.float32)
    module = traced(function, [x, y])
    apply(SimplifyPass(), module)
    for pass_ in BUFFER_PASSES[:2]:
        apply(pass_, module)
    assert counts(module) == (1, 0)
    assert not any(isinstance(op, memref.AllocOp) for op in module.walk())
    (_, (expected,)), *below = levels(traced(function, [x, y]), [x, y])
    for level, (result,) in below:
        np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=level)
