"""The entries of the table of cases, and helpers that create their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import TOLERANCE, NumpyArray

from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.tracing.tensor import Tensor


@dataclass(frozen=True)
class Case:
    """A function of tensors, sample inputs, and numpy's result for them.

    Attributes:
        op: The op that the case is about.
        note: Says what is special about the case; unique within the op.
        function: The function on tensors.
        inputs: Sample arguments.
        expected: The same function on numpy arrays, written without this package.
        derivative: Whether the function is smooth at the inputs and its derivative is checked there.
        flat: The positions of float inputs whose derivative is zero everywhere.
        rtol: How far floats may be from numpy's, relative to the largest element.
        refused: Whether an index is out of range, which is an error where its value is known, as outside a trace.
        wide: Whether it computes in f16 or f64 in between.
    """

    op: type[TensorOp]
    note: str
    function: Callable[..., Tensor]
    inputs: tuple[NumpyArray, ...]
    expected: Callable[..., Any]
    derivative: bool = False
    flat: tuple[int, ...] = ()
    rtol: float = 1e-6
    refused: bool = False
    wide: bool = False

    @property
    def id(self) -> str:
        """The case's name in test IDs."""
        return f"{self.op.name.removeprefix('tg.')}-{self.note}".replace(" ", "_")

    @property
    def tolerance(self) -> float:
        """How far floats may be from numpy's where sums round in another order; 0 where they are exact."""
        return self.rtol and max(self.rtol, TOLERANCE.get(self.op, 0.0))

    def value(self, inputs: Sequence[NumpyArray] | None = None) -> NumpyArray:
        """Returns numpy's result."""
        with np.errstate(all="ignore"):
            return np.asarray(self.expected(*(self.inputs if inputs is None else inputs)))


def normal(*shape: int, seed: int = 0) -> NumpyArray:
    """Returns normal f32 numbers, none within 0.05 of zero (where `abs` and `relu` have their kinks)."""
    drawn = np.random.default_rng([seed, 17, *shape]).normal(size=shape)
    return np.asarray(drawn + np.where(drawn < 0, -0.05, 0.05), np.float32)


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> NumpyArray:
    """Returns uniform f32 numbers."""
    return np.asarray(np.random.default_rng([seed, 23, *shape]).uniform(low, high, shape), np.float32)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: Any = np.int32) -> NumpyArray:
    """Returns integers in `[low, high)`."""
    return np.asarray(np.random.default_rng([seed, 29, *shape]).integers(low, high, shape), dtype)


def distinct(*shape: int, seed: int = 0) -> NumpyArray:
    """Returns f32 numbers at least 0.1 apart, in random order: no ties for `max` and `min`."""
    count = int(np.prod(shape))
    order = np.random.default_rng([seed, 31, *shape]).permutation(count)
    return (order * 0.15 - count * 0.075 + 0.01).astype(np.float32).reshape(shape)


def f32(*values: float) -> NumpyArray:
    """Returns a vector of f32."""
    return np.array(values, np.float32)


def i32(*values: int) -> NumpyArray:
    """Returns a vector of i32."""
    return np.array(values, np.int32)


def u32(*values: int) -> NumpyArray:
    """Returns a vector of u32."""
    return np.array(values, np.uint32)


def boolean(*values: int) -> NumpyArray:
    """Returns a vector of bool."""
    return np.array(values, np.bool_)


SHAPES: tuple[tuple[int, ...], ...] = ((), (5,), (1,), (0,), (3, 4), (2, 0, 3), (1, 3, 1), (2, 1, 3, 2))
"""Ranks from 0 to 4, with axes of extent 1 and 0."""

SPECIAL = f32(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, -1e-30, 88.0, -88.0, 100.0)
"""Zeros of both signs, infinities, NaN, and numbers near the ends of f32's range."""
