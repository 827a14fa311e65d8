"""Values that several ops share are looked at once: each of these programs has 2**40 paths from its result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.ir import Block

import tensorgrad as tg
from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.trips import LARGEST_INDEX, MOST_GROUPS, is_uniform, largest
from tensorgrad.tracing.tensor import Tensor

DEPTH = 40

pytestmark = pytest.mark.timeout(60)


def doubled(x: Tensor) -> Tensor:
    for _ in range(DEPTH):
        x = x + x
    return x


def fibonacci(x: Tensor) -> Tensor:
    before, last = x, x * 2
    for _ in range(DEPTH):
        before, last = last, before + last
    return last


@pytest.mark.parametrize("grown", [doubled, fibonacci])
def test_scores_of_an_attention(grown: Callable[[Tensor], Tensor]) -> None:
    x = np.full((4, 4), 2.0**-60, np.float32)
    result = tg.jit(lambda x, v: tg.softmax(grown(x), axis=-1) @ v, device="cpu")(x, np.eye(4, dtype=np.float32))
    np.testing.assert_allclose(result, np.full((4, 4), 0.25), rtol=1e-4)


@pytest.mark.parametrize("grown", [doubled, fibonacci])
def test_places_that_a_guard_compares(grown: Callable[[Tensor], Tensor]) -> None:
    def sums(x: Tensor) -> Tensor:
        return tg.sum(tg.where(grown(tg.arange(4))[:, None] >= tg.arange(4), x, 0.0), axis=1)

    result = tg.jit(sums, device="cpu")(np.ones((4, 4), np.float32))
    assert result.shape == (4,)


def test_choices_in_short_floats() -> None:
    def chosen(x: Tensor, y: Tensor) -> Tensor:
        z = x
        for _ in range(DEPTH):
            z = tg.where(x > 0, z, tg.where(y > 0, z, 1.0))
        return z

    x = np.array([1.0, -1.0, -1.0], np.float32)
    result = tg.jit(chosen, device="cpu", precision="f16")(x, np.array([-1.0, -1.0, 1.0], np.float32))
    np.testing.assert_array_equal(result, [1.0, 1.0, -1.0])


def test_bounds_of_a_loop() -> None:
    block = Block()
    bound = last = wgsl.WorkgroupIdOp(0)
    block.add_op(bound)
    for _ in range(DEPTH):
        block.add_op(last := arith.AddiOp(last, last))
    assert largest(bound.results[0]) == MOST_GROUPS - 1
    assert largest(last.results[0]) == LARGEST_INDEX and is_uniform(last.results[0])
