"""The scalar bodies of the ops for random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    f16,
    f32,
    f64,
    i32,
)

from tensorgrad.dialects.tg import random
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import pointwise
from tensorgrad.passes.scalars import ScalarBuilder, Value


def _threefry(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    word = cast(random.ThreefryOp, op).word.data
    first, second, high, low = args
    keys = (first, second, first ^ second ^ b.constant(random.PARITY, i32))
    x, y = high + first, low + second
    for group in range(5):
        for rotation in random.ROTATIONS[group % 2]:
            x = x + y
            y = _rotated(y, rotation) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + (group + 1)
    return {"first": lambda: x, "second": lambda: y, "both": lambda: x ^ y}[word]()


def _rotated(x: Value, count: int) -> Value:
    return (x << count) | (x >> (32 - count))


def _erfinv(b: ScalarBuilder, op: TensorOp, args: Sequence[Value]) -> Value:
    """Computes erfinv. `1 - x²` is the product of its factors, which keeps the tails exact."""
    kind = args[0].type
    x = args[0].cast(arith.ExtFOp, f32) if kind == f16 else args[0]
    one = b.constant(1, x.type)
    w = -((one - x) * (one + x)).log()
    pieces = random.ERFINV_F64 if x.type == f64 else random.ERFINV_F32
    root = w.sqrt()
    result: Value | None = None
    for i, (bound, shift, coefficients) in reversed(list(enumerate(pieces))):
        value = b.polynomial((root if i else w) - shift, coefficients)
        result = value if result is None else b.select(w < bound, value, result)
    assert result is not None
    scaled = b.select(abs(x).equals(one), inf, result) * x
    return scaled.cast(arith.TruncFOp, f16) if kind == f16 else scaled


pointwise({random.ThreefryOp: _threefry, random.ErfinvOp: _erfinv})
