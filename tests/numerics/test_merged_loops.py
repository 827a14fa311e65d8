"""Native loops that walk all operands as one loop are one: values, where rows and columns of images are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from draws import generator
from harness import as_native_code, reference, traced

import tensorgrad as tg

RNG = generator(0)


def test_several_stages() -> None:
    """A softmax of images: their rows and columns are one loop, but not their channels."""
    x, c = (RNG.normal(size=shape).astype(np.float32) for shape in ((3, 5, 4, 7), (5, 1, 1)))
    (result,) = as_native_code(traced(lambda x, c: tg.softmax(x * c, axis=(1, 2, 3)), [x, c]), [x, c])
    exponentials = np.exp(x * c)
    np.testing.assert_allclose(result, exponentials / exponentials.sum((1, 2, 3), keepdims=True), rtol=1e-5)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "a value for each channel": lambda x, y, c: tg.tanh(x * c + y),
    "a concatenation": lambda x, y, c: tg.concatenate([x * c, y, x], axis=1),
    "rows in another order": lambda x, y, c: tg.roll(x, 1, axis=2) + y,
    "another layout": lambda x, y, c: tg.transpose(x, (0, 1, 3, 2)) * c,
    "positions": lambda x, y, c: x * tg.cast(tg.arange(7), "f32") + y,
    "a sum beside the points": lambda x, y, c: (x - tg.mean(x, axis=(2, 3), keepdims=True)) * c,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    inputs = [RNG.normal(size=shape).astype(np.float32) for shape in ((3, 5, 4, 7), (3, 5, 4, 7), (1, 5, 1, 1))]
    (result,) = as_native_code(traced(FUNCTIONS[name], inputs), inputs)
    (expected,) = reference(traced(FUNCTIONS[name], inputs), inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
