"""What the ops behind random numbers do to one element."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    f16,
    f32,
    f64,
    i32,
)
from xdsl.ir import SSAValue

from tensorgrad.dialects.tg import random
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import pointwise
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import ScalarBuilder, polynomial


def _threefry(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    word = cast(random.ThreefryOp, op).word.data
    first, second, high, low = args
    parity = b.constant(random.PARITY, i32)
    keys = (first, second, b.apply(arith.XOrIOp, b.apply(arith.XOrIOp, first, second), parity))
    x, y = b.apply(arith.AddiOp, high, first), b.apply(arith.AddiOp, low, second)
    for group in range(5):
        for rotation in random.ROTATIONS[group % 2]:
            x = b.apply(arith.AddiOp, x, y)
            y = b.apply(arith.XOrIOp, _rotated(b, y, rotation), x)
        x = b.apply(arith.AddiOp, x, keys[(group + 1) % 3])
        y = b.apply(arith.AddiOp, y, keys[(group + 2) % 3])
        y = b.apply(arith.AddiOp, y, b.constant(group + 1, i32))
    return {"first": lambda: x, "second": lambda: y, "both": lambda: b.apply(arith.XOrIOp, x, y)}[word]()


def _rotated(b: ScalarBuilder, x: SSAValue, count: int) -> SSAValue:
    left = b.add_op(arith.ShLIOp(x, b.constant(count, i32)))
    return b.apply(arith.OrIOp, left, b.add_op(arith.ShRUIOp(x, b.constant(32 - count, i32))))


def _erfinv(b: ScalarBuilder, op: TensorOp, args: Sequence[SSAValue]) -> SSAValue:
    """`1 - x²` comes from its factors, which keeps the tails exact."""
    kind = args[0].type
    x = b.convert(arith.ExtFOp, args[0], f32) if kind == f16 else args[0]
    one = b.constant(1, x.type)
    inside = b.apply(arith.MulfOp, b.apply(arith.SubfOp, one, x), b.apply(arith.AddfOp, one, x))
    w = b.apply(arith.NegfOp, b.apply(math.LogOp, inside))
    pieces = random.ERFINV_F64 if x.type == f64 else random.ERFINV_F32
    root = b.apply(math.SqrtOp, w)
    result: SSAValue | None = None
    for i, (bound, shift, coefficients) in reversed(list(enumerate(pieces))):
        near = b.apply(arith.SubfOp, root if i else w, b.constant(shift, x.type))
        value = polynomial(b, near, coefficients)
        result = value if result is None else b.select(b.compare("olt", w, b.constant(bound, x.type)), value, result)
    assert result is not None
    end = b.compare("oeq", b.apply(math.AbsFOp, x), one)
    factor = b.select(end, b.constant(inf, x.type), result)
    scaled = b.apply(arith.MulfOp, factor, x)
    return b.convert(arith.TruncFOp, scaled, f16) if kind == f16 else scaled


pointwise({random.ThreefryOp: _threefry, random.ErfinvOp: _erfinv})
