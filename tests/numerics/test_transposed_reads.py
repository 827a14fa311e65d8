"""Native kernels that read across the lines of what is transposed, in blocks that follow each other along them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorgrad as tg

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((64, 40), (1, 0)),
    ((1024, 33), (1, 0)),
    ((17, 100), (1, 0)),
    ((3, 50, 16), (0, 2, 1)),
    ((5, 7, 8, 24), (2, 3, 0, 1)),
    ((2, 20, 3, 30), (0, 3, 2, 1)),
]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32"])
@pytest.mark.parametrize("count", [1, 3])
def test_values(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, count: int) -> None:
    random = np.random.default_rng(0)
    given = [tg.array(random.integers(-9, 9, shape), dtype) for _ in range(count)]

    def turned(*parts: Any) -> Any:
        total = tg.transpose(sum(parts[1:], parts[0]), axes)
        return total * 2, tg.reshape(total, -1) + 1

    module = tg.jit(turned, device="cpu")
    twice, flat = module(*given)
    expected = np.transpose(sum(map(np.asarray, given)), axes)
    np.testing.assert_array_equal(twice, expected * 2)
    np.testing.assert_array_equal(flat, expected.reshape(-1) + 1)


@pytest.mark.parametrize(("shape", "block"), [((64, 40), 16), ((64, 4), 0), ((8, 40), 0)])
def test_what_is_turned(shape: tuple[int, ...], block: int) -> None:
    """Neither lines that are read only a few times, nor rows that are one block, are worth it."""
    function = tg.jit(lambda x: tg.transpose(x) * 2.0, device="cpu")
    function(np.ones(shape, np.float32))
    assert ("turned = 1" in function.module("buf")) == bool(block)
    assert (f"block = {block}," in function.module("buf")) == bool(block)
